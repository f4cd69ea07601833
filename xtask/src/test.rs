//! `cargo xtask test`: every test of the workspace.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, cel_spec, clients, guests, release, workbench};

/// Names the folder where the tests find plugins, modules and misbehaving guests.
const ARTIFACTS: &str = "DAFTAR_TEST_ARTIFACTS";
/// Names the folder with copies of classifications that may not be passed on, against which tests hold what is shipped.
const REFERENCE: &str = "DAFTAR_REFERENCE_VOCABULARIES";
/// Names the file with the conformance tests of the CEL specification.
const CEL_SPEC: &str = "DAFTAR_CEL_SPEC";
/// Where that folder is looked for when it is not named, beside the workspace.
const REFERENCE_BESIDE: &str = "../shared/vocab/reference-only";

/// Builds what the tests need and runs them; `arguments` go to `cargo test`.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    clients::install(workspace, steps)?;
    clients::install_browser(workspace, steps)?;
    guests::run(workspace, steps)?;
    workbench::build(workspace, steps)?;
    workbench::test(workspace, steps)?;
    // The server and the tests in one call: cargo would otherwise compile what they share twice, once for each.
    const EVERYTHING: [&str; 4] = ["build", "--workspace", "--bins", "--tests"];
    let mut everything = workspace.cargo(&EVERYTHING);
    steps.run("compile the server and the tests (several minutes the first time)", &mut everything)?;
    build::finish_with(workspace, steps, Profile::Dev, workspace.cargo(&EVERYTHING))?;
    release::check::run(workspace, steps)?;
    say_what_is_compared(workspace, steps);
    let mut tests = workspace.cargo(&["test", "--workspace"]);
    if let Some(tests_of_cel) = cel_spec::fetch(workspace, steps)? {
        tests.env(CEL_SPEC, tests_of_cel);
    }
    steps.run("run the tests", tests.env(ARTIFACTS, workspace.target()).args(arguments))
}

/// A test that compares with nothing passes silently, so it is said here.
fn say_what_is_compared(workspace: &Workspace, steps: &Steps) {
    let named = std::env::var_os(REFERENCE).map(PathBuf::from);
    let folder = named.unwrap_or_else(|| workspace.root().join(REFERENCE_BESIDE));
    if folder.is_dir() {
        steps.say(&format!("ICF and owners' files are compared with `{}`", folder.display()));
    } else {
        steps
            .say(&format!("NOT COMPARED: ICF and owners' files, for there is no `{}` ({REFERENCE})", folder.display()));
    }
}

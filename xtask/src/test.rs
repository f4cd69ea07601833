//! `cargo xtask test`: every test of the workspace.

use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, guests};

/// Names the folder where the tests find plugins, modules and misbehaving guests.
const ARTIFACTS: &str = "DAFTAR_TEST_ARTIFACTS";

/// Builds what the tests need and runs them; `arguments` go to `cargo test`.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    guests::run(workspace, steps)?;
    // The server and the tests in one call: cargo would otherwise compile what they share twice, once for each.
    const EVERYTHING: [&str; 4] = ["build", "--workspace", "--bins", "--tests"];
    let mut everything = workspace.cargo(&EVERYTHING);
    steps.run("compile the server and the tests (several minutes the first time)", &mut everything)?;
    build::finish_with(workspace, steps, Profile::Dev, workspace.cargo(&EVERYTHING))?;
    let mut tests = workspace.cargo(&["test", "--workspace"]);
    steps.run("run the tests", tests.env(ARTIFACTS, workspace.target()).args(arguments))
}

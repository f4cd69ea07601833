//! `cargo xtask conformance`: lints the API description and fuzzes a running server against it.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, files, guests, tools};

/// The fuzzer, from PyPI.
const FUZZER: &str = "schemathesis==4.32.5";
/// The linter, from npm.
const LINTER: &str = "@redocly/cli@2.77.0";

/// Installs the tools in the target folder, builds a server and runs the tools against it. `arguments` are passed to
/// the fuzzer.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    tools::need("the fuzzer and the linter", &["python3", "node", "npm"])?;
    let tools = workspace.target().join("conformance");
    files::create_folder(&tools)?;
    set_up(steps, &tools)?;
    guests::run(workspace, steps)?;
    // Builds with the same features as the tests, so that nothing is compiled twice.
    const PROGRAMS: [&str; 4] = ["build", "--workspace", "--bins", "--features=daftar-tests/tools"];
    steps.compile("compile the server", &mut workspace.cargo(&PROGRAMS))?;
    build::finish(workspace, steps, Profile::Dev)?;
    let mut conformance = Command::new(workspace.program(Profile::Dev, "conformance"));
    conformance.env("DAFTAR_TEST_ARTIFACTS", workspace.target()).arg(&tools).args(arguments);
    steps.run("lint the document and fuzz the server", &mut conformance)
}

/// Installs the tools with the standard clients of their registries, each in its pinned version. Installed tools are
/// unchanged.
fn set_up(steps: &Steps, tools: &Path) -> Result<(), Failure> {
    if !tools::is_there(tools, "fuzzer", FUZZER) {
        tools::install_python(steps, &tools.join("venv"), "install the fuzzer", &[FUZZER])?;
        tools::remember(tools, "fuzzer", FUZZER)?;
    }
    if !tools::is_there(tools, "linter", LINTER) {
        let mut install = tools::npm("install", tools);
        install.args(["--no-save", "--prefix"]).arg(tools).arg(LINTER);
        steps.run("install the linter", &mut install)?;
        tools::remember(tools, "linter", LINTER)?;
    }
    Ok(())
}

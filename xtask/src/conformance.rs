//! `cargo xtask conformance`: a linter reads the API's description, a fuzzer holds a running server to it.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, guests};

/// The fuzzer, from PyPI.
const FUZZER: &str = "schemathesis==4.32.5";
/// The linter, from npm.
const LINTER: &str = "@redocly/cli@2.77.0";

/// Sets the tools up in the target folder, builds a server and lets them at it; `arguments` go to the fuzzer.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    let tools = workspace.target().join("conformance");
    std::fs::create_dir_all(&tools).map_err(|cause| Failure::file(&tools, cause))?;
    set_up(steps, &tools)?;
    guests::run(workspace, steps)?;
    // With the tests' choice of features, so that nothing is compiled twice.
    const PROGRAMS: [&str; 4] = ["build", "--workspace", "--bins", "--tests"];
    steps.run("compile the server (several minutes the first time)", &mut workspace.cargo(&PROGRAMS))?;
    build::finish_with(workspace, steps, Profile::Dev, workspace.cargo(&PROGRAMS))?;
    let mut conformance = Command::new(workspace.program(Profile::Dev, "conformance"));
    conformance.env("DAFTAR_TEST_ARTIFACTS", workspace.target()).arg(&tools).args(arguments);
    steps.run("lint the document and fuzz the server", &mut conformance)
}

/// Gets the tools by the ordinary clients of their registries, each in the version that is written here; what is there stays.
fn set_up(steps: &Steps, tools: &Path) -> Result<(), Failure> {
    let venv = tools.join("venv");
    if !is_there(tools, "fuzzer", FUZZER) {
        let mut make = Command::new("python3");
        steps.run(
            "make a place for Python packages (needs python3 with venv)",
            make.args(["-m", "venv", "--clear"]).arg(&venv),
        )?;
        let mut install = Command::new(venv.join("bin/pip"));
        install.args(["install", "--quiet", "--disable-pip-version-check", FUZZER]);
        steps.run("install the fuzzer", &mut install)?;
        remember(tools, "fuzzer", FUZZER)?;
    }
    if !is_there(tools, "linter", LINTER) {
        let mut install = Command::new("npm");
        install
            .args(["install", "--no-audit", "--no-fund", "--no-save", "--loglevel", "error", "--prefix"])
            .arg(tools)
            .arg(LINTER);
        steps.run("install the linter (needs npm)", &mut install)?;
        remember(tools, "linter", LINTER)?;
    }
    Ok(())
}

/// Whether a tool is there in the version that is written here.
pub fn is_there(tools: &Path, tool: &str, version: &str) -> bool {
    std::fs::read_to_string(tools.join(format!("{tool}.version"))).is_ok_and(|known| known == version)
}

/// Notes which version of a tool is there.
pub fn remember(tools: &Path, tool: &str, version: &str) -> Result<(), Failure> {
    let path = tools.join(format!("{tool}.version"));
    std::fs::write(&path, version).map_err(|cause| Failure::file(&path, cause))
}

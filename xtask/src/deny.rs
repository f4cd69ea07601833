//! `cargo xtask deny`: the crates that may be linked, by `deny.toml`.

use std::process::Command;

use crate::failure::Failure;
use crate::steps::Steps;
use crate::tools;
use crate::workspace::Workspace;

/// The tool, from crates.io.
const TOOL: (&str, &str) = ("cargo-deny", "0.20.2");
/// Checks that need no external database.
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Installs the tool once and runs it; `arguments` replace the usual checks.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    let mut look = Command::new(tools::cargo_tool(workspace, steps, TOOL, &[])?);
    look.current_dir(workspace.root()).args(["--locked", "check", "--hide-inclusion-graph"]);
    if arguments.is_empty() {
        look.args(CHECKS)
    } else {
        look.args(arguments)
    };
    steps.run("check licences, banned crates and sources", &mut look)
}

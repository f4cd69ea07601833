//! `cargo xtask deny`: what may be linked, by `deny.toml`.

use std::process::Command;

use crate::failure::Failure;
use crate::steps::Steps;
use crate::tools;
use crate::workspace::Workspace;

/// The tool, from crates.io.
const TOOL: (&str, &str) = ("cargo-deny", "0.20.2");
/// What needs no database from elsewhere.
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Installs the tool once and lets it look; `arguments` go to it in place of the usual checks.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    let mut look = Command::new(tools::cargo_tool(workspace, steps, TOOL, &[])?);
    look.current_dir(workspace.root()).args(["--locked", "check", "--hide-inclusion-graph"]);
    if arguments.is_empty() {
        look.args(CHECKS)
    } else {
        look.args(arguments)
    };
    steps.run("look at licences, banned crates and sources", &mut look)
}

//! `cargo xtask deny`: what may be linked, by `deny.toml`.

use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::Workspace;
use crate::{files, tools};

/// The tool, from crates.io.
const VERSION: &str = "0.20.2";
/// What needs no database from elsewhere.
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Installs the tool once and lets it look; `arguments` go to it in place of the usual checks.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    let folder = folder()?;
    let tool = folder.join("bin/cargo-deny");
    if !tools::is_there(&folder, "cargo-deny", VERSION) || !tool.is_file() {
        files::create_folder(&folder)?;
        let mut install = workspace.cargo(&["install", "cargo-deny", "--locked", "--debug", "--force", "--quiet"]);
        install.args(["--version", VERSION, "--root"]).arg(&folder).arg("--target-dir").arg(folder.join("building"));
        // Optimised it takes three times as long to build, and it is done in a second either way.
        steps.run(
            "install cargo-deny (some minutes, once on this machine)",
            install.env("CARGO_PROFILE_DEV_DEBUG", "0"),
        )?;
        let _is_tidied = std::fs::remove_dir_all(folder.join("building"));
        tools::remember(&folder, "cargo-deny", VERSION)?;
    }
    let mut look = Command::new(tool);
    look.current_dir(workspace.root()).args(["--locked", "check", "--hide-inclusion-graph"]);
    if arguments.is_empty() {
        look.args(CHECKS)
    } else {
        look.args(arguments)
    };
    steps.run("look at licences, banned crates and sources", &mut look)
}

/// Outside of the clone: a fresh one does not build the tool again.
fn folder() -> Result<PathBuf, Failure> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("daftar/tools")).ok_or_else(|| Failure::new("there is no home folder for tools"))
}

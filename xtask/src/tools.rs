//! What others wrote, installed by the ordinary clients of its registries into the target folder, each in a version that is written
//! down; what is there in that version stays.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::steps::Steps;

/// A program that must be on the machine: its name, and what to install where it is not.
pub type Needed = (&'static str, &'static str);

/// Runs Python's scripts and installs its packages.
pub const PYTHON: Needed = ("python3", "Python 3.9 or later, with `venv` (Debian: `python3` and `python3-venv`)");
/// Runs scripts of JavaScript.
pub const NODE: Needed = ("node", "Node.js 20 or later");
/// Installs packages of JavaScript.
pub const NPM: Needed = ("npm", "npm, which comes with Node.js (Debian: a package of its own)");
/// Makes single requests.
pub const CURL: Needed = ("curl", "curl 7.67 or later");

/// A browser that can be led.
pub const CHROMIUM: Needed = ("chromium", "Chromium (Debian: `chromium`)");

/// Whether a program can be run.
pub fn has(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Names all programs that are missing, with what to install.
pub fn need(what_for: &str, programs: &[Needed]) -> Result<(), Failure> {
    let missing: Vec<String> = programs
        .iter()
        .filter(|(program, _)| !has(program))
        .map(|(program, install)| format!("`{program}` is not on this machine: install {install}"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("{what_for} cannot be run.\n{}", missing.join("\n"))))
}

/// Makes a place for Python packages and installs some there; `packages` go to `pip install`.
pub fn install_python(steps: &Steps, venv: &Path, what: &str, packages: &[&str]) -> Result<(), Failure> {
    need(what, &[PYTHON])?;
    let mut make = Command::new("python3");
    steps.run(
        "make a place for Python packages (needs python3 with venv)",
        make.args(["-m", "venv", "--clear"]).arg(venv),
    )?;
    let mut install = Command::new(venv.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    steps.run(what, &mut install)
}

/// A command of npm in a folder, which says nothing but errors.
pub fn npm(command: &str, folder: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(folder).args([command, "--no-audit", "--no-fund", "--loglevel", "error"]);
    npm
}

/// Whether a tool is there in the version that is written down.
pub fn is_there(tools: &Path, tool: &str, version: &str) -> bool {
    std::fs::read_to_string(tools.join(format!("{tool}.version"))).is_ok_and(|known| known == version)
}

/// Notes which version of a tool is there.
pub fn remember(tools: &Path, tool: &str, version: &str) -> Result<(), Failure> {
    let path = tools.join(format!("{tool}.version"));
    std::fs::write(&path, version).map_err(|cause| Failure::file(&path, cause))
}

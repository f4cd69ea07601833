//! Programs that tests and tools need: what must be on the machine, and what is installed by the ordinary clients of the registries, each in
//! a version that is written down; what is there in that version stays.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::files;
use crate::steps::Steps;
use crate::workspace::Workspace;

/// A program that must be on the machine.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// Its name on `PATH`.
    pub program: &'static str,
    /// Debian's package.
    pub package: &'static str,
    /// What is needed of it, and for what.
    pub needed_for: &'static str,
}

/// Runs Python's scripts and installs its packages.
pub const PYTHON: Tool = Tool {
    program: "python3",
    package: "python3-venv",
    needed_for: "Python 3.9 or later with `venv`: clients in Python",
};
/// Runs scripts of JavaScript.
pub const NODE: Tool = Tool {
    program: "node",
    package: "nodejs",
    needed_for: "Node.js 20 or later: the workbench, clients in JavaScript",
};
/// Installs packages of JavaScript.
pub const NPM: Tool =
    Tool { program: "npm", package: "npm", needed_for: "the workbench, clients in JavaScript, the tests of CEL" };
/// Makes single requests.
pub const CURL: Tool =
    Tool { program: "curl", package: "curl", needed_for: "curl 7.67 or later: commands of the documents" };
/// A browser that can be led.
pub const CHROMIUM: Tool = Tool { program: "chromium", package: "chromium", needed_for: "the workbench in a browser" };

/// Everything that the tests need beside Rust.
pub const OF_TESTS: [Tool; 13] = [
    PYTHON,
    NODE,
    NPM,
    CURL,
    CHROMIUM,
    Tool { program: "make", package: "make", needed_for: "the example of a plugin in C" },
    Tool { program: "clang", package: "clang", needed_for: "the example of a plugin in C" },
    Tool { program: "wasm-ld", package: "lld", needed_for: "the example of a plugin in C" },
    Tool { program: "initdb", package: "postgresql", needed_for: "PostgreSQL 15 or later: the backend for it" },
    Tool { program: "promtool", package: "prometheus", needed_for: "the alert rules" },
    Tool { program: "systemd-analyze", package: "systemd", needed_for: "the systemd unit" },
    Tool { program: "openssl", package: "openssl", needed_for: "signatures of plugins" },
    Tool { program: "setpriv", package: "util-linux", needed_for: "starting PostgreSQL" },
];

impl Tool {
    /// Whether it can be run. PostgreSQL's programs may lie beside `PATH`.
    pub fn is_there(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).any(|folder| folder.join(self.program).is_file());
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        on_path || versions.into_iter().any(|version| version.path().join("bin").join(self.program).is_file())
    }
}

/// Those that are missing of these.
pub fn missing(tools: &[Tool]) -> Vec<Tool> {
    tools.iter().filter(|tool| !tool.is_there()).copied().collect()
}

/// What to install for them, a line for each.
pub fn instructions(missing: &[Tool]) -> String {
    let line = |tool: &Tool| format!("  `{}` (Debian: `{}`): {}", tool.program, tool.package, tool.needed_for);
    missing.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Prints Debian's packages of the programs that tests need and that are missing, on one line; nothing where none is.
pub fn print_missing() -> Result<(), Failure> {
    let mut packages: Vec<&str> = missing(&OF_TESTS).iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    let line = if packages.is_empty() { String::new() } else { packages.join(" ") + "\n" };
    std::io::stdout().write_all(line.as_bytes()).map_err(|error| Failure::new(format!("standard output: {error}")))
}

/// Refuses where one of them is missing, and names all that are, with what to install.
pub fn need(what_for: &str, tools: &[Tool]) -> Result<(), Failure> {
    let missing = missing(tools);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{what_for}: these programs are not on this machine; install them:\n{}",
        instructions(&missing)
    )))
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

/// Installs a program of crates.io once on this machine, and says where it is. It lies outside of the clone: a fresh one does not build it
/// again.
pub fn cargo_tool(
    workspace: &Workspace,
    steps: &Steps,
    (name, version): (&str, &str),
    arguments: &[&str],
) -> Result<PathBuf, Failure> {
    let folder = cache()?;
    let program = folder.join("bin").join(name);
    if is_there(&folder, name, version) && program.is_file() {
        return Ok(program);
    }
    files::create_folder(&folder)?;
    let building = folder.join("building").join(name);
    // Optimised it takes three times as long to build, and it has little to do.
    let mut install =
        workspace.cargo(&["install", name, "--locked", "--debug", "--force", "--quiet", "--version", version]);
    install.args(arguments).arg("--root").arg(&folder).arg("--target-dir").arg(&building);
    steps.run(
        &format!("install {name} (some minutes, once on this machine)"),
        install.env("CARGO_PROFILE_DEV_DEBUG", "0").stdout(Stdio::null()),
    )?;
    let _is_tidied = std::fs::remove_dir_all(building);
    remember(&folder, name, version)?;
    Ok(program)
}

fn cache() -> Result<PathBuf, Failure> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("daftar/tools")).ok_or_else(|| Failure::new("there is no home folder for tools"))
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

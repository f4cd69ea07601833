//! Programs that tests and tools require: those that must be on the machine, and those that are installed by the
//! ordinary clients of the registries, each in a pinned version; an installed program of that version stays.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use daftar_test_needs::{TOOLS, Tool};

use crate::failure::Failure;
use crate::files;
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Those of `names` that are not on this machine; each name is a row of [`TOOLS`].
pub fn missing(names: &[&str]) -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| names.contains(&tool.program) && tool.find().is_none()).collect()
}

/// Everything that tests require and this machine lacks.
pub fn missing_of_tests() -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| tool.find().is_none()).collect()
}

/// Installation instructions for them, a line for each.
pub fn instructions(missing: &[&Tool]) -> String {
    let line = |tool: &&Tool| format!("  `{}` (Debian: {}), for: {}", tool.program, tool.package, tool.tests);
    missing.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Prints Debian's packages of the programs that tests need and that are missing, on one line; nothing where none is.
pub fn print_missing() -> Result<(), Failure> {
    let mut packages: Vec<&str> = missing_of_tests().iter().flat_map(|tool| tool.package.split(' ')).collect();
    packages.sort_unstable();
    packages.dedup();
    let line = if packages.is_empty() { String::new() } else { packages.join(" ") + "\n" };
    std::io::stdout().write_all(line.as_bytes()).map_err(|error| Failure::new(format!("standard output: {error}")))
}

/// Fails if one of them is missing, and names all missing ones, with instructions.
pub fn need(what_for: &str, names: &[&str]) -> Result<(), Failure> {
    let missing = missing(names);
    if missing.is_empty() {
        return Ok(());
    }
    let text = instructions(&missing);
    Err(Failure::new(format!("{what_for}: these programs are not on this machine; install them:\n{text}")))
}

/// Creates a virtual environment for Python packages and installs some there; `packages` go to `pip install`.
pub fn install_python(steps: &Steps, venv: &Path, what: &str, packages: &[&str]) -> Result<(), Failure> {
    need(what, &["python3"])?;
    let mut make = Command::new("python3");
    steps.run(
        "make a place for Python packages (needs python3 with venv)",
        make.args(["-m", "venv", "--clear"]).arg(venv),
    )?;
    let mut install = Command::new(venv.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    steps.run(what, &mut install)
}

/// A command of npm in a folder, which prints nothing but errors.
pub fn npm(command: &str, folder: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(folder).args([command, "--no-audit", "--no-fund", "--loglevel", "error"]);
    npm
}

/// Installs a program of crates.io once on this machine, and returns its path. It is outside of the clone: a fresh one
/// does not build it again.
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
    // Optimised it takes three times as long to build, and it has little work.
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

/// Tests whether a tool is installed in the pinned version.
pub fn is_there(tools: &Path, tool: &str, version: &str) -> bool {
    std::fs::read_to_string(tools.join(format!("{tool}.version"))).is_ok_and(|known| known == version)
}

/// Records the installed version of a tool.
pub fn remember(tools: &Path, tool: &str, version: &str) -> Result<(), Failure> {
    let path = tools.join(format!("{tool}.version"));
    std::fs::write(&path, version).map_err(|cause| Failure::file(&path, cause))
}

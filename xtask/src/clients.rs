//! The packages of third-party clients, for the tests in `tests/it/clients`, and the compilers of AssemblyScript and Zig,
//! for the examples of plugins: `clients/python` and `clients/node` in the target folder; and of the scripts that drive a
//! browser through the workbench, for those in `tests/it/workbench`: `clients/browser`.
//!
//! **Invariant:** exactly the packages of the lock files, each with its digest; installed again only if a lock file changes.

use std::path::Path;

use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::files;
use crate::steps::Steps;
use crate::tools;
use crate::workspace::Workspace;

/// The sources of the clients, a folder for each language.
const SOURCES: &str = "tests/clients";
/// The scripts that drive a browser.
const BROWSER: &str = "tests/workbench";
/// Every Python package with the digests of its files.
const REQUIREMENTS: &str = "requirements.txt";
/// The files that npm reads; the second lists every package with its digest.
const NPM_FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// Installs missing packages.
pub fn install(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    tools::need("the tests with clients that others wrote", &["python3", "node", "npm", "curl"])?;
    let sources = workspace.root().join(SOURCES);
    let clients = workspace.target().join("clients");
    install_python(steps, &sources.join("python"), &clients.join("python"))?;
    install_node(steps, "install the clients in JavaScript", &sources.join("node"), &clients.join("node"))
}

/// Installs the packages that drive a browser, if they are missing.
pub fn install_browser(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    tools::need("the tests of the workbench", &["node", "npm", "chromium"])?;
    let place = workspace.target().join("clients/browser");
    install_node(steps, "install what leads a browser", &workspace.root().join(BROWSER), &place)
}

fn install_python(steps: &Steps, sources: &Path, folder: &Path) -> Result<(), Failure> {
    let requirements = sources.join(REQUIREMENTS);
    let version = digest(&[&requirements])?;
    if tools::is_there(folder, "packages", &version) {
        return Ok(());
    }
    files::create_folder(folder)?;
    let packages = ["--require-hashes", "--no-deps", "--requirement", &requirements.to_string_lossy()];
    tools::install_python(steps, &folder.join("venv"), "install the clients in Python", &packages)?;
    tools::remember(folder, "packages", &version)
}

fn install_node(steps: &Steps, what: &str, sources: &Path, folder: &Path) -> Result<(), Failure> {
    let [package, lock] = NPM_FILES.map(|name| sources.join(name));
    let version = digest(&[&package, &lock])?;
    if tools::is_there(folder, "packages", &version) {
        return Ok(());
    }
    for name in NPM_FILES {
        files::copy(&sources.join(name), &folder.join(name))?;
    }
    // None of them has anything to do at its installation.
    let mut install = tools::npm("ci", folder);
    steps.run(what, install.arg("--ignore-scripts"))?;
    tools::remember(folder, "packages", &version)
}

/// Digest of the lock files.
fn digest(files: &[&Path]) -> Result<String, Failure> {
    let mut digest = Sha256::new();
    for file in files {
        digest.update(files::read(file)?);
    }
    Ok(files::hexadecimal(digest))
}

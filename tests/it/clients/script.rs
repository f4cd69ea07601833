//! Runs the scripts of `tests/clients`, each of which drives a library through its calls.

use std::path::{Path, PathBuf};
use std::process::Command;

use daftar_tests::{artifacts, fresh_address, script as steps};
use serde_json::json;

use super::register::Register;

/// The sources of the scripts, a folder for each language.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients");

/// The interpreter of one language, with its libraries.
pub(super) struct Runtime {
    program: PathBuf,
    scripts: PathBuf,
}

impl Runtime {
    /// Python with its packages; without it a test is not run.
    pub(super) fn python() -> Option<Self> {
        daftar_test_needs::program("python3")?;
        let program = artifacts::clients().join("python/venv/bin/python3");
        Some(Self { program, scripts: Path::new(SOURCES).join("python") })
    }

    /// Node.js with its packages: it searches for them next to the scripts, so the scripts are copied there. Without it
    /// a test is not run.
    pub(super) fn node() -> Option<Self> {
        let program = daftar_test_needs::program("node")?;
        let scripts = artifacts::clients().join("node");
        artifacts::place_scripts(&Path::new(SOURCES).join("node"), &scripts);
        Some(Self { program, scripts })
    }
}

/// Drives a library through its calls; `form` is how it sends its credentials.
#[track_caller]
pub(super) fn walk(runtime: Option<Runtime>, script: &str, form: &str) {
    let Some(runtime) = runtime else { return };
    let register = Register::running();
    let client = register.client(&format!("{script} {form}"));
    let given = json!({
        "url": register.url(),
        "source": fresh_address(),
        "form": form,
        "client_id": client.id,
        "client_secret": client.secret,
        "person": format!("{script}/{form}"),
    });
    let mut command = Command::new(&runtime.program);
    command.arg(runtime.scripts.join(script)).env("DAFTAR_CLIENT", given.to_string());
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH").env_remove("NODE_OPTIONS");
    steps::walk(command, &format!("`{script}` with `{form}`"), |what| register.change(&client, what));
}

//! Runs the scripts of `tests/clients`, each of which leads a library through its calls.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use daftar_tests::{artifacts, fresh_address};
use serde_json::json;

use super::register::Register;

/// The sources of the scripts, a folder for each language.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients");
/// How a script begins a line that asks for something.
const REQUEST: &str = "please ";

/// What runs scripts of one language, with its libraries.
pub(super) struct Runtime {
    program: PathBuf,
    scripts: PathBuf,
}

/// Python with its packages.
pub(super) static PYTHON: LazyLock<Runtime> = LazyLock::new(|| Runtime {
    program: artifacts::clients().join("python/venv/bin/python3"),
    scripts: Path::new(SOURCES).join("python"),
});

/// Node.js with its packages: it looks for them beside the scripts, so the scripts are put there.
pub(super) static NODE: LazyLock<Runtime> = LazyLock::new(|| {
    let scripts = artifacts::clients().join("node");
    for entry in std::fs::read_dir(Path::new(SOURCES).join("node")).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|extension| extension == "mjs") {
            std::fs::copy(&entry, scripts.join(entry.file_name().unwrap())).unwrap();
        }
    }
    Runtime { program: PathBuf::from("node"), scripts }
});

/// Leads a library through its calls; `form` is how it sends what it proves itself with.
#[track_caller]
pub(super) fn walk(runtime: &Runtime, script: &str, form: &str) {
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
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| panic!("`{}`: {error}", runtime.program.display()));
    let mut answers = child.stdin.take().unwrap();
    let mut errors = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).unwrap();
        text
    });
    let mut told = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        told.push_str(&line);
        told.push('\n');
        if let Some(what) = line.strip_prefix(REQUEST) {
            register.change(&client, what);
            // A script that is gone is told below.
            let _is_heard = writeln!(answers, "done").is_ok();
        }
    }
    let status = child.wait().unwrap();
    let errors = errors.join().unwrap();
    assert!(status.success(), "`{script}` with `{form}`: {status}\n{told}{errors}");
    assert!(told.ends_with("walked\n"), "`{script}` with `{form}` did not come to its end\n{told}{errors}");
}

//! Paths of the built program, plugins, modules and misbehaving guests.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of plugins that a server loads by default.
#[must_use]
pub fn plugins() -> PathBuf {
    existing("plugins")
}

/// A plugin that a server loads by default.
#[must_use]
pub fn plugin(name: &str) -> PathBuf {
    plugins().join(format!("{name}.wasm"))
}

/// The names of the plugins that a server loads by default, sorted.
#[must_use]
pub fn plugin_names() -> Vec<String> {
    names(&plugins())
}

/// An optional plugin, which is installed on request.
#[must_use]
pub fn module(name: &str) -> PathBuf {
    existing("modules").join(format!("{name}.wasm"))
}

/// A guest that misbehaves.
#[must_use]
pub fn fixture(name: &str) -> PathBuf {
    existing("fixtures").join(format!("{name}.wasm"))
}

/// The names of all guests that misbehave, sorted.
#[must_use]
pub fn fixture_names() -> Vec<String> {
    names(&existing("fixtures"))
}

/// The names of the modules in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let paths = entries.map(|entry| entry.expect("an entry can be read").path());
    let modules = paths.filter(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    let mut names: Vec<String> =
        modules.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

/// The packages of third-party clients, a folder for each language.
#[must_use]
pub fn clients() -> PathBuf {
    existing("clients")
}

/// The files of the workbench's page as they were built.
#[must_use]
pub fn workbench() -> PathBuf {
    existing("workbench")
}

/// A folder for screenshots for human review; they stay until the next run.
#[must_use]
pub fn pictures(of: &str) -> PathBuf {
    root().join("pictures").join(of)
}

/// The program `daftar`, or the one that the environment names.
#[must_use]
pub fn program() -> PathBuf {
    std::env::var_os("DAFTAR_TEST_PROGRAM").map_or_else(|| existing("debug/daftar"), PathBuf::from)
}

/// Copies scripts next to the packages that they load. Other test processes do so too and run them: only files that
/// differ are written.
pub fn place_scripts(from: &Path, to: &Path) {
    let _turn = daftar_test_needs::lock("scripts");
    for entry in fs::read_dir(from).expect("the folder can be read") {
        let script = entry.expect("an entry can be read").path();
        let (Some("mjs"), Some(name)) = (script.extension().and_then(|ending| ending.to_str()), script.file_name())
        else {
            continue;
        };
        let (text, target) = (fs::read(&script).expect("a script can be read"), to.join(name));
        if fs::read(&target).ok().as_ref() != Some(&text) {
            fs::write(&target, text).expect("a script can be written");
        }
    }
}

fn existing(name: &str) -> PathBuf {
    let path = root().join(name);
    assert!(path.exists(), "`{}` is not there: run the tests with `cargo xtask test`", path.display());
    path
}

/// The target folder.
fn root() -> PathBuf {
    daftar_test_needs::target()
}

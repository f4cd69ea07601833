//! Where the built program, plugins, modules and misbehaving guests are.

use std::fs;
use std::path::{Path, PathBuf};

/// Names the folder of artifacts; `cargo xtask test` sets it.
const VARIABLE: &str = "DAFTAR_TEST_ARTIFACTS";

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

/// A plugin that is installed when somebody wants it.
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

/// The packages of clients that others wrote, a folder for each language.
#[must_use]
pub fn clients() -> PathBuf {
    existing("clients")
}

/// The files of the workbench's page as they were built.
#[must_use]
pub fn workbench() -> PathBuf {
    existing("workbench")
}

/// A folder for pictures that people look at; they stay until the next run.
#[must_use]
pub fn pictures(of: &str) -> PathBuf {
    root().join("pictures").join(of)
}

/// The program `daftar`: another one where the environment names it.
#[must_use]
pub fn program() -> PathBuf {
    std::env::var_os("DAFTAR_TEST_PROGRAM").map_or_else(|| existing("debug/daftar"), PathBuf::from)
}

/// A folder for what tests leave to each other; inside the target folder, never in the sources.
#[must_use]
pub fn scratch() -> PathBuf {
    let folder = root().join("tmp").join("daftar-tests");
    fs::create_dir_all(&folder).expect("a folder can be made in the target folder");
    folder
}

fn existing(name: &str) -> PathBuf {
    let path = root().join(name);
    assert!(path.exists(), "`{}` is not there: run the tests with `cargo xtask test`", path.display());
    path
}

/// The target folder: as `cargo xtask test` says, or else where this test itself was built.
fn root() -> PathBuf {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return PathBuf::from(folder);
    }
    let test = std::env::current_exe().expect("a test knows where it is");
    test.ancestors().nth(3).map(Path::to_path_buf).expect("a test lies in <target>/<profile>/deps")
}

//! A data folder in which the default plugins are installed and compiled: compiling takes many seconds. All test
//! processes and runs share it, and each register begins with a copy.
//!
//! **Invariant:** keys and tokens are not part of it; every register makes its own.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use daftar::app::{App, AppOptions};
use daftar::config::Config;

use super::artifacts;

/// Name under which test processes share it.
const KIND: &str = "template";

/// Files that every register creates for itself.
const NOT_COPIED: [&str; 3] = ["keys", "admin.token", "server.json"];

/// The machine code of plugins.
const COMPILED: &str = "compiled";

/// Makes `data_dir` as a copy of the template.
pub fn copy_to(data_dir: &Path) {
    copy_folder(template(), data_dir);
}

/// Copies the machine code of the default plugins into a data folder without any, so that they are not compiled again.
pub fn copy_compiled_to(data_dir: &Path) {
    let compiled = data_dir.join(COMPILED);
    let is_code = |entry: fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "code");
    // A server that stopped before compiling leaves the folder with a key and without code.
    let has_code = fs::read_dir(&compiled).is_ok_and(|entries| entries.flatten().any(is_code));
    if !has_code {
        copy_folder(&template().join(COMPILED), &compiled);
    }
}

fn template() -> &'static Path {
    static TEMPLATE: LazyLock<PathBuf> = LazyLock::new(|| daftar_test_needs::once(KIND, &key(), make));
    &TEMPLATE
}

/// Differs for another template: with other plugins or another build of the server, which is in this program.
fn key() -> String {
    let mut files: Vec<PathBuf> = artifacts::plugin_names().iter().map(|name| artifacts::plugin(name)).collect();
    files.push(std::env::current_exe().expect("a program knows where it is"));
    let mut hasher = DefaultHasher::new();
    for file in files {
        let found = fs::metadata(&file).unwrap_or_else(|error| panic!("`{}`: {error}", file.display()));
        (file.file_name(), found.len(), found.mtime(), found.mtime_nsec()).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Creates it with the machine code of the previous one: the server compiles only code of another version of its engine
/// or of other plugins.
fn make(folder: &Path, before: Option<&Path>) {
    if let Some(compiled) = before.map(|before| before.join(COMPILED)).filter(|compiled| compiled.is_dir()) {
        copy_folder(&compiled, &folder.join(COMPILED));
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    runtime.block_on(async {
        let options = AppOptions { plugins_dir: Some(artifacts::plugins()), ..AppOptions::new(folder.to_owned()) };
        let mut config = Config::default();
        config.plugins.allow_unsigned = true;
        let app = App::open(config, options).await.expect("a register can be made with the default plugins");
        app.close();
    });
}

fn copy_folder(from: &Path, to: &Path) {
    let mode = fs::metadata(from).expect("the folder is there").permissions().mode();
    fs::DirBuilder::new().recursive(true).mode(mode).create(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("the folder can be read") {
        let entry = entry.expect("an entry can be read");
        if NOT_COPIED.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let target = to.join(entry.file_name());
        if entry.file_type().expect("an entry has a type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a file can be copied");
        }
    }
}

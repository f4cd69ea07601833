//! A data folder in which the default plugins are installed and compiled, made once and copied for every register: compiling
//! takes seconds.
//!
//! **Invariant:** keys and tokens are not part of it; every register makes its own.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use daftar::app::{App, AppOptions};
use daftar::config::Config;

use super::artifacts;

/// What every register makes for itself.
const NOT_COPIED: [&str; 3] = ["keys", "admin.token", "server.json"];

/// The machine code of plugins.
const COMPILED: &str = "compiled";

/// Makes `data_dir` as a copy of the template.
pub fn copy_to(data_dir: &Path) {
    copy_folder(template(), data_dir);
}

/// Gives a data folder that was made in another way the machine code of the default plugins, which need not be compiled again then.
pub fn copy_compiled_to(data_dir: &Path) {
    copy_folder(&template().join(COMPILED), &data_dir.join(COMPILED));
}

fn template() -> &'static Path {
    static TEMPLATE: LazyLock<PathBuf> = LazyLock::new(make);
    &TEMPLATE
}

fn make() -> PathBuf {
    let all = artifacts::scratch();
    remove_those_of_the_dead(&all);
    let folder = all.join(std::process::id().to_string());
    let _was_there = fs::remove_dir_all(&folder);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    runtime.block_on(async {
        let options = AppOptions::new(folder.clone()).with_plugins_dir(Some(artifacts::plugins()));
        let mut config = Config::default();
        config.plugins.allow_unsigned = true;
        let app = App::open(config, options).await.expect("a register can be made with the default plugins");
        app.close();
    });
    folder
}

/// A template outlives its process; the next process removes it.
fn remove_those_of_the_dead(all: &Path) {
    for entry in fs::read_dir(all).expect("the scratch folder can be read").flatten() {
        let is_alive = Path::new("/proc").join(entry.file_name()).exists();
        if !is_alive {
            let _is_removed = fs::remove_dir_all(entry.path());
        }
    }
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

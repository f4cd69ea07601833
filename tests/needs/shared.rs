//! Folders in the target folder that all test processes share: created once, by the first that needs them, and retained
//! for the next run.
//!
//! **Invariant:** a folder is complete or absent: it is created under another name and renamed.
//!
//! **Invariant:** a folder that a process uses is not removed: each holds a lock on it until it ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Names the target folder; `cargo xtask test` sets it.
const TARGET: &str = "DAFTAR_TEST_ARTIFACTS";
/// Name of the tag file that cargo puts into every target folder.
const TAG: &str = "CACHEDIR.TAG";

/// The locks on folders that this process uses.
static USED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// The target folder: the one set by `cargo xtask test`, or else the one in which this program was built.
///
/// # Panics
/// If this program is in none.
#[must_use]
pub fn target() -> PathBuf {
    if let Some(folder) = std::env::var_os(TARGET) {
        return PathBuf::from(folder);
    }
    let program = std::env::current_exe().expect("a program knows where it is");
    let found = program.ancestors().find(|folder| folder.join(TAG).is_file()).map(Path::to_path_buf);
    found.unwrap_or_else(|| panic!("`{}` is in no target folder: name one by `{TARGET}`", program.display()))
}

/// A folder for data that tests share with each other and with the next run; in the target folder, never among the
/// sources.
///
/// # Panics
/// If it cannot be created.
#[must_use]
pub fn scratch() -> PathBuf {
    let folder = target().join("tmp").join("daftar-tests");
    fs::create_dir_all(&folder).expect("a folder can be made in the target folder");
    folder
}

/// Waits until no other process holds the lock of that name, and holds it until the file is dropped.
///
/// # Panics
/// If there can be no such lock.
#[must_use]
pub fn lock(name: &str) -> File {
    let file = open(&scratch(), name);
    file.lock().expect("a lock can be had");
    file
}

/// The shared folder `<kind>-<key>`. If it is missing, `make` creates it, at the path that it is given and with the
/// newest folder of another key at hand; folders of other keys that no process uses are removed then.
///
/// # Panics
/// If it cannot be created.
pub fn once(kind: &str, key: &str, make: impl FnOnce(&Path, Option<&Path>)) -> PathBuf {
    once_in(&scratch(), kind, key, make)
}

fn once_in(all: &Path, kind: &str, key: &str, make: impl FnOnce(&Path, Option<&Path>)) -> PathBuf {
    let folder = all.join(format!("{kind}-{key}"));
    let turn = open(all, kind);
    turn.lock().expect("a lock can be had");
    if !folder.is_dir() {
        let older = others(all, kind, &folder);
        let unfinished = all.join(format!("{kind}.unfinished"));
        let _was_there = fs::remove_dir_all(&unfinished);
        make(&unfinished, older.first().map(PathBuf::as_path));
        fs::rename(&unfinished, &folder).expect("a folder that was made can be renamed");
        older.iter().for_each(|folder| remove_unused(all, folder));
    }
    let used = open(all, &name(&folder));
    used.lock_shared().expect("a lock can be had");
    USED.lock().unwrap_or_else(PoisonError::into_inner).push(used);
    folder
}

/// The folders of other keys, the newest first.
fn others(all: &Path, kind: &str, folder: &Path) -> Vec<PathBuf> {
    let start = format!("{kind}-");
    let entries = fs::read_dir(all).expect("the shared folder can be read").flatten();
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .filter(|entry| entry.path() != folder && entry.file_name().to_string_lossy().starts_with(&start))
        .filter_map(|entry| Some((entry.metadata().ok().filter(fs::Metadata::is_dir)?.modified().ok()?, entry.path())))
        .collect();
    found.sort_by(|one, other| other.cmp(one));
    found.into_iter().map(|(_, path)| path).collect()
}

/// Removes a folder, unless a process holds the lock on it. It has the lock of its kind during that, so that no process
/// begins to use it.
fn remove_unused(all: &Path, folder: &Path) {
    let name = name(folder);
    if open(all, &name).try_lock().is_ok() {
        let _is_removed = fs::remove_dir_all(folder);
        let _is_removed = fs::remove_file(all.join(format!("{name}.lock")));
    }
}

fn open(all: &Path, name: &str) -> File {
    let path = all.join(format!("{name}.lock"));
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    file.unwrap_or_else(|error| panic!("`{}` cannot be opened: {error}", path.display()))
}

fn name(folder: &Path) -> String {
    folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(text: &'static str) -> impl FnOnce(&Path, Option<&Path>) {
        move |folder, older| {
            fs::create_dir(folder).expect("a folder can be made");
            let before = older.map(|older| fs::read_to_string(older.join("text")).expect("it is whole"));
            fs::write(folder.join("text"), format!("{text}{}", before.unwrap_or_default())).expect("it can be written");
        }
    }

    fn used(folder: &Path) -> Option<String> {
        fs::read_to_string(folder.join("text")).ok()
    }

    #[test]
    fn a_folder_is_made_once_and_older_ones_go_when_no_process_uses_them() {
        let all = scratch().join(format!("once-{}", std::process::id()));
        fs::create_dir_all(all.join("kind-other")).expect("a folder can be made");
        fs::create_dir_all(all.join("scaffold")).expect("a folder can be made");
        fs::write(all.join("kind-other/text"), "other ").expect("a file can be written");
        let first = once_in(&all, "kind", "1", make("first "));
        assert_eq!(used(&first).as_deref(), Some("first other "));
        assert!(!all.join("kind-other").exists(), "of another key, and not used");
        assert!(all.join("scaffold").exists(), "of another kind");
        assert_eq!(once_in(&all, "kind", "1", |_, _| panic!("it is there")), first);

        // The remains of a killed process do not count as complete.
        fs::create_dir(all.join("kind.unfinished")).expect("a folder can be made");
        let second = once_in(&all, "kind", "2", make("second "));
        assert_eq!(used(&second).as_deref(), Some("second first other "));
        assert!(first.exists(), "this process uses it");

        USED.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let third = once_in(&all, "kind", "3", make("third "));
        assert_eq!(used(&third).as_deref(), Some("third second first other "));
        assert!(!first.exists() && !second.exists());
        fs::remove_dir_all(&all).expect("the folder can be removed");
    }
}

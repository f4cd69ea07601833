//! Puts a new folder in the place of an old one.
//!
//! **Invariant:** the old folder is deleted only when the new one is in its place and has every file that the old one had.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// What an import writes, which is what it may replace.
const WRITTEN: [&str; 4] = ["pack.toml", "LICENSE-DATA.md", "codes", "labels"];

/// How many names a message lists.
const NAMES_MAX: usize = 20;

/// What is in the folder beside the source of a pack, sorted.
///
/// # Errors
/// The folder cannot be read.
pub fn beside_source(folder: &Path) -> io::Result<Vec<String>> {
    let names = names(folder)?;
    Ok(names.into_iter().filter(|name| !WRITTEN.contains(&name.as_str())).collect())
}

/// The languages (`labels/fr`) and tables of the old source that the new one does not have, sorted.
///
/// # Errors
/// One of the folders cannot be read.
pub fn missing_from(new: &Path, old: &Path) -> io::Result<Vec<String>> {
    let mut missing = Vec::new();
    let mut folders = vec!["codes".to_owned(), "labels".to_owned()];
    while let Some(folder) = folders.pop() {
        if !old.join(&folder).is_dir() {
            continue;
        }
        for name in names(&old.join(&folder))? {
            let path = format!("{folder}/{name}");
            let (was, will_be) = (old.join(&path), new.join(&path));
            if was.is_dir() && will_be.is_dir() {
                folders.push(path);
            } else if was.is_dir() != will_be.is_dir() || !will_be.exists() {
                missing.push(path);
            }
        }
    }
    missing.sort_unstable();
    Ok(missing)
}

/// The names as a message has them.
pub fn told(names: &[String]) -> String {
    let mut told: Vec<String> = names.iter().take(NAMES_MAX).map(|name| format!("`{}`", name.escape_debug())).collect();
    if let Some(more) = names.len().checked_sub(NAMES_MAX).filter(|more| *more > 0) {
        told.push(format!("and {more} more"));
    }
    told.join(", ")
}

/// Moves `new`, which is in `temporary`, into the place of `folder`. When that fails the old folder is put back; when that fails
/// as well it is kept where it is, and the error says where.
///
/// # Errors
/// One of the folders cannot be moved.
pub fn swap(temporary: TempDir, new: &Path, folder: &Path) -> io::Result<()> {
    let old = temporary.path().join("old");
    fs::rename(folder, &old)?;
    let Err(error) = fs::rename(new, folder) else { return Ok(()) };
    let Err(back) = fs::rename(&old, folder) else { return Err(error) };
    let kept: PathBuf = temporary.keep().join("old");
    let reason =
        format!("{error}; the folder that was there could not be put back ({back}): it is `{}`", kept.display());
    Err(io::Error::new(error.kind(), reason))
}

fn names(folder: &Path) -> io::Result<BTreeSet<String>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{beside_source, missing_from, swap, told};

    fn write(folder: &Path, names: &[&str]) {
        for name in names {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, name).unwrap();
        }
    }

    #[test]
    fn what_a_replacement_would_delete_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        let both = ["pack.toml", "LICENSE-DATA.md", "codes/tools.tsv", "labels/en/tools.tsv"];
        write(&old, &both);
        write(&new, &both);
        write(&new, &["labels/es/tools.tsv"]);
        assert_eq!(beside_source(&old).unwrap(), [""; 0]);
        assert_eq!(missing_from(&new, &old).unwrap(), [""; 0]);
        write(&old, &[".git/config", "README.md", "codes/own.tsv", "labels/en/own.tsv", "labels/fr/tools.tsv"]);
        assert_eq!(beside_source(&old).unwrap(), [".git", "README.md"]);
        let missing = missing_from(&new, &old).unwrap();
        assert_eq!(missing, ["codes/own.tsv", "labels/en/own.tsv", "labels/fr"]);
        assert_eq!(told(&missing), "`codes/own.tsv`, `labels/en/own.tsv`, `labels/fr`");
        let names = |count: usize| vec!["x".to_owned(); count];
        assert!(told(&names(20)).ends_with("`x`") && told(&names(21)).ends_with("`x`, and 1 more"));
    }

    #[test]
    fn the_old_folder_is_put_back_when_the_new_one_cannot_be_moved() {
        let parent = tempfile::tempdir().unwrap();
        let temporary = || tempfile::Builder::new().tempdir_in(parent.path()).unwrap();
        let folder = parent.path().join("pack");
        write(&folder, &["pack.toml"]);
        let place = temporary();
        let new = place.path().join("new");
        assert!(swap(place, &new, &folder).is_err(), "there is no new folder");
        assert_eq!(fs::read_to_string(folder.join("pack.toml")).unwrap(), "pack.toml");

        let place = temporary();
        let new = place.path().join("new");
        write(&new, &["codes/tools.tsv"]);
        swap(place, &new, &folder).unwrap();
        assert!(folder.join("codes/tools.tsv").is_file() && !folder.join("pack.toml").exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing else is left");
    }
}

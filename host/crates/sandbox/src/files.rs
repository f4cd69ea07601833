//! Atomic file writes: a crash at any point leaves the old content or the new.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use daftar_domain::folders;

/// The prefix of files that are still being written.
const UNFINISHED_PREFIX: &str = ".unfinished-";

/// An error of a folder or file of the plugin storage.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .path.display())]
pub struct FolderError {
    path: PathBuf,
    error: io::Error,
}

impl FolderError {
    pub(super) fn new(path: &Path, error: io::Error) -> Self {
        Self { path: path.to_owned(), error }
    }
}

/// Creates a folder that only this account can access, or restricts an existing one. Its name and the names in it are
/// on disk when this returns.
///
/// # Errors
/// It cannot be created, or it belongs to another account.
pub(super) fn private_folder(path: &Path) -> Result<(), FolderError> {
    let failed = |error| FolderError::new(path, error);
    folders::make_all(path).map_err(failed)?;
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(failed(io::Error::other("the folder belongs to another account")));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

/// A point at which a crash would leave the disk in its current state; tests inspect it there.
pub(super) fn crash_point() {
    #[cfg(test)]
    crash::seen();
}

/// The state of the disk at each point of a change.
#[cfg(test)]
pub(super) mod crash {
    use std::cell::RefCell;

    type Observer = Box<dyn FnMut()>;

    thread_local! {
        static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
    }

    /// Runs `work` on this thread and calls `observer` at each crash point.
    pub fn observed<R>(observer: impl FnMut() + 'static, work: impl FnOnce() -> R) -> R {
        OBSERVER.set(Some(Box::new(observer)));
        let done = work();
        OBSERVER.set(None);
        done
    }

    pub(super) fn seen() {
        OBSERVER.with_borrow_mut(|observer| observer.iter_mut().for_each(|observer| observer()));
    }
}

/// Atomically writes a file that only this account can read. It is durable when this returns.
///
/// # Errors
/// The disk failed; the old file is there, or the new one if only the sync of the folder failed.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("the path names no file"))?;
    crash_point();
    let mut unfinished = tempfile::Builder::new().prefix(UNFINISHED_PREFIX).tempfile_in(folder)?;
    crash_point();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    unfinished.write_all(first)?;
    crash_point();
    unfinished.write_all(second)?;
    unfinished.as_file().sync_all()?;
    crash_point();
    unfinished.persist(path).map_err(|error| error.error)?;
    crash_point();
    // The directory entry must be durable too.
    folders::sync(folder)
}

/// Reads at most one byte more than `most`, so that the caller can detect larger input.
///
/// # Errors
/// It cannot be read.
pub fn read_at_most(from: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes the files of a folder whose names match. Files that cannot be removed are skipped.
pub(super) fn remove_files(folder: &Path, is_removed: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        if is_removed(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes temporary files of interrupted writes.
pub(super) fn remove_unfinished(folder: &Path) {
    remove_files(folder, |name| name.starts_with(UNFINISHED_PREFIX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        write_whole(&path, b"old and long").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_open_folder_is_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        private_folder(folder.path()).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn unfinished_files_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".unfinished-abc"), b"half").unwrap();
        fs::write(folder.path().join("whole"), b"whole").unwrap();
        remove_unfinished(folder.path());
        assert!(!folder.path().join(".unfinished-abc").exists());
        assert!(folder.path().join("whole").exists());
    }
}

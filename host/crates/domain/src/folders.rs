//! Folders whose names survive a power failure.
//!
//! A disk may lose the name of a file or folder until the folder that contains it is synced.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Creates a folder for its owner only if it is missing, and returns when its own name and the names in it are on disk.
/// An existing folder keeps its permissions. It is synced too, where possible: a process that was killed may have left
/// it unsynced. The same applies to the folder above.
///
/// # Errors
/// If it cannot be created, or the disk fails.
pub fn make(path: &Path) -> io::Result<()> {
    let exists = path.is_dir();
    if !exists {
        match DirBuilder::new().mode(0o700).create(path) {
            // Another process has created it concurrently.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
            made => made?,
        }
    }
    let path = fs::canonicalize(path)?;
    for folder in [path.parent(), Some(&*path)].into_iter().flatten() {
        // The folders above may be of another account or file system.
        let synced = if exists || folder != path { sync_where_possible(folder) } else { sync(folder) };
        synced.map_err(|error| io::Error::new(error.kind(), format!("sync `{}`: {error}", folder.display())))?;
    }
    Ok(())
}

/// As [`make`], with the missing folders above it.
///
/// # Errors
/// As [`make`].
pub fn make_all(path: &Path) -> io::Result<()> {
    if !path.is_dir()
        && let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
    {
        make_all(parent)?;
    }
    make(path)
}

/// Returns when the names in a folder are on disk.
///
/// # Errors
/// If it cannot be opened, or the disk fails.
pub fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// As [`sync`], but does nothing if this account or this file system cannot sync a folder.
///
/// # Errors
/// If the folder does not exist, or the disk fails.
pub fn sync_where_possible(folder: &Path) -> io::Result<()> {
    match sync(folder) {
        Err(error) if is_unsupported(&error) => Ok(()),
        synced => synced,
    }
}

/// Returns true if this account or this file system cannot sync a folder.
fn is_unsupported(error: &io::Error) -> bool {
    use ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | ReadOnlyFilesystem | Unsupported)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_folder_is_private_and_an_existing_one_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one").join("two");
        assert_eq!(make(&path).unwrap_err().kind(), ErrorKind::NotFound, "the folder above it is missing");
        make_all(&path).unwrap();
        assert_eq!([mode(&path), mode(path.parent().unwrap())], [0o700, 0o700]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(path.join("file"), "content").unwrap();
        make_all(&path).unwrap();
        make(&path).unwrap();
        assert_eq!((mode(&path), fs::read(path.join("file")).unwrap()), (0o755, b"content".to_vec()));
    }

    #[test]
    fn a_file_is_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        assert_eq!(make(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(make_all(&path.join("in-it")).is_err());
        assert!(sync(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_folder_is_made_below_one_that_this_account_cannot_read() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().join("parent");
        fs::create_dir(&parent).unwrap();
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o333)).unwrap();
        // Root reads every folder.
        if File::open(&parent).is_err() {
            make_all(&parent.join("new")).unwrap();
            assert_eq!(mode(&parent.join("new")), 0o700);
        }
        fs::set_permissions(&parent, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_folder_that_its_file_system_cannot_sync_is_an_error_only_if_that_is_required() {
        let unsupported = Path::new("/proc");
        assert_eq!(sync(unsupported).unwrap_err().kind(), ErrorKind::InvalidInput);
        sync_where_possible(unsupported).unwrap();
        make(unsupported).unwrap();
        assert_eq!(sync_where_possible(Path::new("/none")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn only_errors_of_the_account_or_the_file_system_are_ignored() {
        for (code, is_ignored) in [(13, true), (22, true), (30, true), (95, true), (5, false), (28, false)] {
            assert_eq!(is_unsupported(&io::Error::from_raw_os_error(code)), is_ignored, "{code}");
        }
    }
}

//! Files that contain secrets: private to their owner, written atomically.
//!
//! **Invariant:** a file or folder that other users may read is rejected, never silently repaired: its content may be
//! known already.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use daftar_domain::folders;

/// The biggest secret file that is read.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// The name prefix of temporary files.
const UNFINISHED_PREFIX: &str = ".daftar-";
/// The age from which a temporary file is not being written any more.
const UNFINISHED_AGE: Duration = Duration::from_secs(600);
/// The permission bits of group and others; must be zero.
const OTHERS_MASK: u32 = 0o077;

/// The reason why a secret file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// Other users may read it.
    #[error(
        "`{path}` may be read by other users (mode {mode:03o}): its content may be known. {}",
        how_to_fix(path, right)
    )]
    NotPrivate {
        /// The path of the file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// The required permissions.
        right: &'static str,
    },
    /// The path is a folder, a device or the like.
    #[error("`{0}` is not a regular file")]
    NotAFile(PathBuf),
    /// The path is not a folder.
    #[error("`{0}` is not a folder")]
    NotAFolder(PathBuf),
    /// The file is larger than any valid secret file.
    #[error("`{0}` is larger than {FILE_BYTES_MAX} bytes")]
    TooBig(PathBuf),
    /// The file is not text.
    #[error("`{0}` is not UTF-8 text")]
    NotText(PathBuf),
    /// A disk or permission error.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl SecretFileError {
    fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

fn how_to_fix(path: &Path, right: &str) -> String {
    let path = path.display();
    format!(
        "If you still trust it, run `chmod {right} {path}`; else delete it, and a new one is created at the next start"
    )
}

/// Creates a folder if it is missing, and checks that it is private to its owner. Its name and the names in it are on
/// disk when this returns.
///
/// # Errors
/// If it cannot be created, is not a folder, or other users may read it.
pub fn prepare_folder(path: &Path) -> Result<(), SecretFileError> {
    if fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
        return Err(SecretFileError::NotAFolder(path.to_owned()));
    }
    folders::make(path).map_err(|error| SecretFileError::io("create the folder", path, error))?;
    let metadata = fs::metadata(path).map_err(|error| SecretFileError::io("inspect", path, error))?;
    check_private(path, metadata.permissions().mode(), "700")
}

/// Reads a secret file; `None` if there is none.
///
/// # Errors
/// If it cannot be read, is too large, is not text, or other users may read it.
pub fn read(path: &Path) -> Result<Option<SecretString>, SecretFileError> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(SecretFileError::NotAFile(path.to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SecretFileError::io("inspect", path, error)),
    }
    let file = File::open(path).map_err(|error| SecretFileError::io("open", path, error))?;
    let metadata = file.metadata().map_err(|error| SecretFileError::io("inspect", path, error))?;
    check_private(path, metadata.permissions().mode(), "600")?;
    // Allocates the full size first: growing would leave copies of the secret in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(metadata.len().min(FILE_BYTES_MAX) as usize + 1));
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| SecretFileError::io("read", path, error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(SecretFileError::TooBig(path.to_owned()));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| SecretFileError::NotText(path.to_owned()))?;
    Ok(Some(SecretString::from(text)))
}

/// Creates a secret file; returns false if it exists, without changing it. Durable on return.
///
/// # Errors
/// On a disk or permission error.
pub fn create(path: &Path, content: &SecretString) -> Result<bool, SecretFileError> {
    let written = write_temporary(path, content)?;
    match written.persist_noclobber(path) {
        Ok(_) => sync_folder(path).map(|()| true),
        Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(refused) => Err(SecretFileError::io("write", path, refused.error)),
    }
}

/// Replaces a secret file atomically: readers see the old or the new content. Durable on return.
///
/// # Errors
/// On a disk or permission error. The old file is then unchanged, or written again if only the sync of the folder
/// failed. If that is not possible either, the new file remains.
pub fn replace(path: &Path, content: &SecretString) -> Result<(), SecretFileError> {
    let previous = read(path)?;
    rename_over(path, content)?;
    sync_folder(path).inspect_err(|_| drop(previous.map(|previous| rename_over(path, &previous))))
}

/// Replaces a secret file atomically. It is durable when its folder is synced.
fn rename_over(path: &Path, content: &SecretString) -> Result<(), SecretFileError> {
    let written = write_temporary(path, content)?;
    written.persist(path).map(drop).map_err(|refused| SecretFileError::io("write", path, refused.error))
}

/// Removes temporary files left by a crash. A young one may be of another server that shares the folder and writes it
/// now.
///
/// # Errors
/// If the folder cannot be read, or a file in it not removed.
pub fn remove_unfinished(folder: &Path) -> Result<(), SecretFileError> {
    let entries = fs::read_dir(folder).map_err(|error| SecretFileError::io("look into", folder, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| SecretFileError::io("look into", folder, error))?;
        let is_unfinished = entry.file_name().as_encoded_bytes().starts_with(UNFINISHED_PREFIX.as_bytes());
        if is_unfinished && is_left(&entry) {
            fs::remove_file(entry.path()).map_err(|error| SecretFileError::io("remove", &entry.path(), error))?;
        }
    }
    Ok(())
}

/// Returns true if a temporary file was last written so long ago that no program writes it any more.
fn is_left(entry: &fs::DirEntry) -> bool {
    let written = entry.metadata().and_then(|metadata| metadata.modified());
    written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= UNFINISHED_AGE))
}

/// Writes a temporary file in the same folder, with mode 0600 from the start, durably.
fn write_temporary(path: &Path, content: &SecretString) -> Result<tempfile::NamedTempFile, SecretFileError> {
    let failed = |error| SecretFileError::io("write", path, error);
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED_PREFIX)
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(folder_of(path))
        .map_err(failed)?;
    file.write_all(content.expose_secret().as_bytes()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    Ok(file)
}

/// Makes a rename durable: the folder entry is on disk only after this.
fn sync_folder(path: &Path) -> Result<(), SecretFileError> {
    let folder = folder_of(path);
    folders::sync(folder).map_err(|error| SecretFileError::io("write to disk", folder, error))
}

/// Returns the folder of a file or folder.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The metadata that reveals a change or replacement of a file without reading it, including the target of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Returns the stamp of a file; `None` if there is no file.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

fn check_private(path: &Path, mode: u32, right: &'static str) -> Result<(), SecretFileError> {
    if mode & OTHERS_MASK == 0 {
        Ok(())
    } else {
        Err(SecretFileError::NotPrivate { path: path.to_owned(), mode: mode & 0o777, right })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_may_read_a_written_file() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        prepare_folder(&keys).unwrap();
        prepare_folder(&keys).unwrap();
        assert_eq!(mode(&keys), 0o700);
        let path = keys.join("a.json");
        assert!(read(&path).unwrap().is_none());
        assert!(create(&path, &secret("one")).unwrap());
        assert_eq!(mode(&path), 0o600);
        assert!(!create(&path, &secret("two")).unwrap(), "an existing file is not overwritten");
        assert_eq!(read(&path).unwrap().unwrap().expose_secret(), "one");
        replace(&path, &secret("three")).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(read(&path).unwrap().unwrap().expose_secret(), "three");
        assert_eq!(fs::read_dir(&keys).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn rejects_files_that_others_may_read_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        create(&path, &secret("x")).unwrap();
        for wide in [0o640, 0o604, 0o660, 0o610] {
            set_mode(&path, wide);
            let message = read(&path).unwrap_err().to_string();
            assert!(message.contains(&format!("(mode {wide:03o})")), "{message}");
            assert!(message.contains("chmod 600"), "{message}");
        }
        set_mode(&path, 0o400);
        assert!(read(&path).is_ok());
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        set_mode(&open, 0o755);
        assert!(prepare_folder(&open).unwrap_err().to_string().contains("chmod 700"));
    }

    #[test]
    fn rejects_other_kinds_of_files() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read(folder.path()), Err(SecretFileError::NotAFile(_))));
        let path = folder.path().join("a");
        fs::write(&path, vec![b'x'; FILE_BYTES_MAX as usize + 1]).unwrap();
        set_mode(&path, 0o600);
        assert!(matches!(read(&path), Err(SecretFileError::TooBig(_))));
        fs::write(&path, [0xff]).unwrap();
        assert!(matches!(read(&path), Err(SecretFileError::NotText(_))));
        assert!(matches!(prepare_folder(&path), Err(SecretFileError::NotAFolder(_))));
        fs::write(&path, vec![b'x'; FILE_BYTES_MAX as usize]).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().expose_secret().len() as u64, FILE_BYTES_MAX);
    }

    #[test]
    fn an_error_names_the_operation_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        create(&path, &secret("x")).unwrap();
        let action = |failed: SecretFileError| match failed {
            SecretFileError::Io { action, .. } => action,
            other => panic!("{other}"),
        };
        // A file is not a folder, nor is a missing one, and no file system has such a long name.
        assert_eq!(action(read(&path.join("b")).unwrap_err()), "inspect");
        assert_eq!(action(prepare_folder(&folder.path().join("b/c")).unwrap_err()), "create the folder");
        assert_eq!(action(create(&folder.path().join("c".repeat(300)), &secret("x")).unwrap_err()), "write");
    }

    #[test]
    fn a_file_without_a_folder_is_in_the_working_folder() {
        for (path, folder) in [("a", "."), ("a/b", "a"), ("/a", "/"), ("/a/b", "/a")] {
            assert_eq!(folder_of(Path::new(path)), Path::new(folder));
        }
    }

    #[test]
    fn a_stamp_changes_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert_eq!(FileStamp::of(&path), None);
        create(&path, &secret("x")).unwrap();
        let stamp = FileStamp::of(&path);
        assert!(stamp.is_some() && FileStamp::of(&path) == stamp);
        replace(&path, &secret("y")).unwrap();
        assert_ne!(FileStamp::of(&path), stamp);
    }
}

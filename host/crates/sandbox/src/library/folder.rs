//! The folder of installed plugins: whose it is, and the files in it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::records::{RecordedPlugin, Records};
use super::{InstalledPlugin, LIST_FILE, LibraryError};
use crate::PluginHost;
use crate::files::FolderError;
use crate::install::{InstallError, InstallStep};
use crate::package::{Candidate, Digest, PACKAGE_BYTES_MAX, check_size};
use crate::signature::{Signer, UnsignedPlugins};
use daftar_domain::manifest::PluginName;

const LOCK_FILE: &str = "lock";

/// Where the file of that digest is kept.
pub(super) fn file_of(folder: &Path, digest: Digest) -> PathBuf {
    folder.join(format!("{}.wasm", digest.to_hex()))
}

/// Whether a process uses the plugin folder now.
#[must_use]
pub fn is_in_use(folder: &Path) -> bool {
    let lock = File::open(folder.join(LOCK_FILE));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// A plugin that the list names, with its file as it is now.
pub(crate) struct InstalledFile {
    pub name: PluginName,
    pub record: RecordedPlugin,
    /// The file, or why it cannot be read.
    pub bytes: Result<Vec<u8>, String>,
}

/// Reads the list and the files that it names, whoever uses the folder; nothing is installed where there is no list.
///
/// # Errors
/// The list cannot be read.
pub(crate) fn installed_files(folder: &Path) -> io::Result<Vec<InstalledFile>> {
    let records = Records::read(&folder.join(LIST_FILE))?;
    let read = |(name, record): (PluginName, RecordedPlugin)| InstalledFile {
        bytes: read_file(&file_of(folder, record.digest)).map_err(|error| error.reason),
        name,
        record,
    };
    Ok(records.installed.into_iter().map(read).collect())
}

/// Takes the folder for this process.
pub(super) fn locked(folder: &Path) -> Result<File, LibraryError> {
    let path = folder.join(LOCK_FILE);
    let file = File::create(&path).map_err(|error| FolderError::new(&path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LibraryError::InUse(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(FolderError::new(&path, error).into()),
    }
}

/// Loads a plugin that the list names, if its file is the one that was installed.
pub(super) fn load_recorded(
    host: &PluginHost,
    folder: &Path,
    name: &PluginName,
    record: &RecordedPlugin,
) -> Result<InstalledPlugin, InstallError> {
    let (candidate, signer) = match record.signer {
        Signer::Unrecorded => judged(host, folder, name, record)?,
        known @ (Signer::Key(_) | Signer::Pinned | Signer::Unsigned) => (read_recorded(folder, name, record)?, known),
    };
    let named = |error: InstallError| InstallError { plugin: Some(name.clone()), ..error };
    let loaded = Arc::new(host.load_installed(candidate).map_err(named)?);
    Ok(InstalledPlugin { loaded, signer, installed_at: record.installed_at })
}

/// The file of a plugin that the list names, with who vouches for it by the policy of now.
pub(super) fn judged(
    host: &PluginHost,
    folder: &Path,
    name: &PluginName,
    record: &RecordedPlugin,
) -> Result<(Candidate, Signer), InstallError> {
    let candidate = read_recorded(folder, name, record)?;
    let unsigned = if record.is_excused { UnsignedPlugins::Allowed } else { UnsignedPlugins::Refused };
    let signer = host.judge(&candidate, record.signature.as_deref(), unsigned)?;
    Ok((candidate, signer))
}

/// The file of a plugin that the list names, if it is the one that was installed.
fn read_recorded(folder: &Path, name: &PluginName, record: &RecordedPlugin) -> Result<Candidate, InstallError> {
    let named = |error: InstallError| InstallError { plugin: Some(name.clone()), ..error };
    let bytes = read_file(&file_of(folder, record.digest)).map_err(named)?;
    let digest = Digest::of(&bytes);
    if digest != record.digest {
        let reason = format!("its file has the digest {digest}; {} was installed", record.digest);
        return Err(InstallError::of(name, InstallStep::Unreadable, reason));
    }
    let candidate = Candidate::read(bytes).map_err(named)?;
    let found = &candidate.manifest().name;
    if found != name {
        let reason = format!("its file is of the plugin `{found}`");
        return Err(InstallError::of(name, InstallStep::Unreadable, reason));
    }
    Ok(candidate)
}

/// Reads a plugin's file, if it is not too large.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, InstallError> {
    let unreadable =
        |error: io::Error| InstallError::new(InstallStep::Unreadable, format_args!("{}: {error}", path.display()));
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is not a file")));
    }
    let one_more = u64::try_from(PACKAGE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(one_more).read_to_end(&mut bytes)).map_err(unreadable)?;
    check_size(bytes.len())?;
    Ok(bytes)
}

//! The folder of installed plugins: its lock, its list `installed.json`, and the files that the list names.
//!
//! **Invariant:** the list is replaced atomically, and only after the plugin's own file is on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Downgrade, InstalledPlugin, LIST_FILE, LibraryError, PluginOffer, Prepared};
use crate::PluginHost;
use crate::files::{FolderError, read_at_most, write_whole};
use crate::install::{InstallError, InstallStep};
use crate::package::{Candidate, Digest, PACKAGE_BYTES_MAX, check_size};
use crate::signature::{Signer, UnsignedPlugins};
use daftar_domain::manifest::{PluginKind, PluginName, PluginVersion};

/// The version of the list format. Released formats stay readable; a changed format gets the next number.
const FORMAT: u32 = 1;

/// Maximum number of replaced versions of a plugin that are retained for a rollback.
const EARLIER_VERSIONS_MAX: usize = 3;

/// The installed plugins with their signatures, and the plugins removed by hand: of one folder, or in the store for all
/// servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginList {
    pub(super) installed: BTreeMap<PluginName, RecordedPlugin>,
    /// Removed by hand: not to be reinstalled from a folder of plugins.
    pub(crate) removed: BTreeSet<PluginName>,
}

/// An entry of the list of installed plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPlugin {
    /// Its version.
    pub version: PluginVersion,
    /// Its kind.
    pub kind: PluginKind,
    /// Digest of its file.
    pub digest: Digest,
    /// Its signer at its install.
    pub signer: Signer,
    /// The line of its `.sig` file, so that it can be verified again.
    pub signature: Option<String>,
    /// True if an administrator installed it here with `--allow-unsigned`.
    pub is_unsigned_allowed: bool,
    /// The time of its install.
    pub installed_at: Timestamp,
    /// The versions that it replaced, the latest first; at most three, whose files are retained for
    /// a rollback.
    pub earlier: Vec<RecordedPlugin>,
}

impl RecordedPlugin {
    /// The file of this version, to be installed again by an administrator.
    #[must_use]
    pub fn offer(&self, bytes: Vec<u8>) -> PluginOffer {
        PluginOffer {
            signature: self.signature.clone(),
            unsigned: if self.is_unsigned_allowed { UnsignedPlugins::Allowed } else { UnsignedPlugins::Refused },
            downgrade: Downgrade::Allowed,
            ..PluginOffer::from(bytes)
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRecords {
    format: u32,
    installed: Vec<StoredRecord>,
    removed: Vec<PluginName>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRecord {
    name: PluginName,
    version: PluginVersion,
    kind: PluginKind,
    /// 64 hexadecimal digits; the file is `<digest>.wasm` beside this one.
    digest: String,
    /// `pinned`, `unsigned`, `unrecorded`, or a key's id after `key `.
    signer: String,
    /// The line of the `.sig` file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    /// True if it was installed with `--allow-unsigned`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unsigned_allowed: bool,
    /// RFC 3339.
    installed_at: String,
    /// The versions that it replaced, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<StoredRecord>,
}

impl PluginList {
    /// Reads the list file; empty if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not a list of this format.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        Self::parse(&bytes)
    }

    /// Parses the content of a list file.
    ///
    /// # Errors
    /// It is not a list of this format.
    pub fn parse(bytes: &[u8]) -> io::Result<Self> {
        let stored: StoredRecords = serde_json::from_slice(bytes).map_err(io::Error::other)?;
        if stored.format != FORMAT {
            let reason = format!("its format is {}; this version of daftar reads {FORMAT}", stored.format);
            return Err(io::Error::other(reason));
        }
        let mut records = Self { installed: BTreeMap::new(), removed: stored.removed.into_iter().collect() };
        for from in stored.installed {
            let name = from.name.clone();
            if records.installed.insert(from.name.clone(), RecordedPlugin::try_from(from)?).is_some() {
                return Err(io::Error::other(format!("duplicate plugin `{name}`")));
            }
        }
        Ok(records)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The disk failed; the old file is there, or the new one if only the sync of the folder failed.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        write_whole(path, &self.to_bytes()?)
    }

    /// The content of the list file.
    ///
    /// # Errors
    /// It cannot be serialized, which does not happen in practice.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let installed = self.installed.iter().map(|(name, record)| StoredRecord::new(name, record));
        let stored = StoredRecords {
            format: FORMAT,
            installed: installed.collect(),
            removed: self.removed.iter().cloned().collect(),
        };
        serde_json::to_vec_pretty(&stored).map_err(io::Error::other)
    }

    /// The digests of the files that it names, those of earlier versions included.
    #[must_use]
    pub fn digests(&self) -> Vec<Digest> {
        let digests = |record: &RecordedPlugin| -> Vec<Digest> {
            [record].into_iter().chain(&record.earlier).map(|record| record.digest).collect()
        };
        let named: BTreeSet<Digest> = self.installed.values().flat_map(digests).collect();
        named.into_iter().collect()
    }

    /// An installed plugin and the versions that it replaced.
    #[must_use]
    pub fn recorded(&self, name: &PluginName) -> Option<&RecordedPlugin> {
        self.installed.get(name)
    }

    /// Returns the list with a plugin that is about to be installed.
    #[must_use]
    pub fn with(mut self, prepared: &Prepared, now: Timestamp) -> Self {
        let name = prepared.manifest().name.clone();
        self.removed.remove(&name);
        let mut record = prepared.record(now);
        if let Some(mut replaced) = self.installed.remove(&name) {
            let before = std::mem::take(&mut replaced.earlier);
            let others = [replaced].into_iter().chain(before).filter(|earlier| earlier.digest != record.digest);
            record.earlier = others.take(EARLIER_VERSIONS_MAX).collect();
        }
        self.installed.insert(name, record);
        self
    }

    /// Returns the list without a plugin that was removed by hand.
    #[must_use]
    pub fn without(mut self, name: &PluginName) -> Self {
        self.installed.remove(name);
        self.removed.insert(name.clone());
        self
    }
}

impl StoredRecord {
    fn new(name: &PluginName, record: &RecordedPlugin) -> Self {
        Self {
            name: name.clone(),
            version: record.version,
            kind: record.kind,
            digest: record.digest.to_hex(),
            signer: record.signer.to_string(),
            signature: record.signature.clone(),
            unsigned_allowed: record.is_unsigned_allowed,
            installed_at: record.installed_at.to_string(),
            earlier: record.earlier.iter().map(|earlier| Self::new(name, earlier)).collect(),
        }
    }
}

impl TryFrom<StoredRecord> for RecordedPlugin {
    type Error = io::Error;

    fn try_from(from: StoredRecord) -> io::Result<Self> {
        let name = from.name;
        let wrong = |field: &str| io::Error::other(format!("`{field}` of `{name}` is malformed"));
        Ok(Self {
            version: from.version,
            kind: from.kind,
            digest: Digest::from_hex(&from.digest).ok_or_else(|| wrong("digest"))?,
            signer: signer(&from.signer).ok_or_else(|| wrong("signer"))?,
            signature: from.signature,
            is_unsigned_allowed: from.unsigned_allowed,
            installed_at: from.installed_at.parse().map_err(|_| wrong("installed_at"))?,
            earlier: from.earlier.into_iter().map(Self::try_from).collect::<Result<_, _>>()?,
        })
    }
}

/// Parses the `Display` form of [`Signer`].
fn signer(text: &str) -> Option<Signer> {
    match text {
        "pinned" => Some(Signer::Pinned),
        "unsigned" => Some(Signer::Unsigned),
        "unrecorded" => Some(Signer::Unrecorded),
        key => key.strip_prefix("key ")?.parse().ok().map(Signer::Key),
    }
}

const LOCK_FILE: &str = "lock";

/// The path of the file with that digest.
pub(super) fn file_of(folder: &Path, digest: Digest) -> PathBuf {
    folder.join(format!("{}.wasm", digest.to_hex()))
}

/// Returns true if a process uses the plugin folder now.
#[must_use]
pub fn is_in_use(folder: &Path) -> bool {
    let lock = File::open(folder.join(LOCK_FILE));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// A listed plugin with the current content of its file.
pub(crate) struct InstalledFile {
    pub name: PluginName,
    pub record: RecordedPlugin,
    /// The file, or why it cannot be read.
    pub bytes: Result<Vec<u8>, String>,
}

/// Reads the list and the files that it names, without taking the lock; empty if there is no list.
///
/// # Errors
/// The list cannot be read.
pub(crate) fn installed_files(folder: &Path) -> io::Result<Vec<InstalledFile>> {
    let records = PluginList::read(&folder.join(LIST_FILE))?;
    let read = |(name, record): (PluginName, RecordedPlugin)| InstalledFile {
        bytes: read_file(&file_of(folder, record.digest)).map_err(|error| error.reason),
        name,
        record,
    };
    Ok(records.installed.into_iter().map(read).collect())
}

/// Locks the folder for this process.
pub(super) fn locked(folder: &Path) -> Result<File, LibraryError> {
    let path = folder.join(LOCK_FILE);
    let file = File::create(&path).map_err(|error| FolderError::new(&path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LibraryError::InUse(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(FolderError::new(&path, error).into()),
    }
}

/// Loads a listed plugin if its file has the recorded digest.
pub(super) fn load_recorded(
    host: &PluginHost,
    folder: &Path,
    name: &PluginName,
    record: &RecordedPlugin,
) -> Result<InstalledPlugin, InstallError> {
    let (candidate, signer) = match record.signer {
        Signer::Unrecorded => read_verified(host, folder, name, record)?,
        known @ (Signer::Key(_) | Signer::Pinned | Signer::Unsigned) => (read_recorded(folder, name, record)?, known),
    };
    let loaded = Arc::new(host.load_installed(candidate).map_err(|error| error.named(name))?);
    Ok(InstalledPlugin { loaded, signer, installed_at: record.installed_at })
}

/// Reads the file of a listed plugin and determines its signer by the current policy.
pub(super) fn read_verified(
    host: &PluginHost,
    folder: &Path,
    name: &PluginName,
    record: &RecordedPlugin,
) -> Result<(Candidate, Signer), InstallError> {
    let candidate = read_recorded(folder, name, record)?;
    let unsigned = if record.is_unsigned_allowed { UnsignedPlugins::Allowed } else { UnsignedPlugins::Refused };
    let signer = host.signer_of(&candidate, record.signature.as_deref(), unsigned)?;
    Ok((candidate, signer))
}

/// Reads the file of a listed plugin if it has the recorded digest.
fn read_recorded(folder: &Path, name: &PluginName, record: &RecordedPlugin) -> Result<Candidate, InstallError> {
    let bytes = read_file(&file_of(folder, record.digest)).map_err(|error| error.named(name))?;
    let digest = Digest::of(&bytes);
    if digest != record.digest {
        let reason = format!("its file has the digest {digest}; the installed file had {}", record.digest);
        return Err(InstallError::of(name, InstallStep::Unreadable, reason));
    }
    let candidate = Candidate::read(bytes).map_err(|error| error.named(name))?;
    let found = &candidate.manifest.name;
    if found != name {
        let reason = format!("its file contains the plugin `{found}`");
        return Err(InstallError::of(name, InstallStep::Unreadable, reason));
    }
    Ok(candidate)
}

/// Reads a plugin's file, if it is not too large.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, InstallError> {
    let unreadable =
        |error: io::Error| InstallError::new(InstallStep::Unreadable, format_args!("{}: {error}", path.display()));
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("not a file")));
    }
    let bytes = File::open(path).and_then(|file| read_at_most(file, PACKAGE_BYTES_MAX)).map_err(unreadable)?;
    check_size(bytes.len())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(signer: Signer) -> PluginList {
        let record = RecordedPlugin {
            version: PluginVersion::new(1, 2, 3),
            kind: PluginKind::VocabularyPack,
            digest: Digest::of(b"gender"),
            signer,
            signature: None,
            is_unsigned_allowed: false,
            installed_at: "2026-03-01T12:00:00Z".parse().unwrap(),
            earlier: Vec::new(),
        };
        PluginList {
            installed: [(PluginName::parse("gender").unwrap(), record)].into(),
            removed: [PluginName::parse("farmer").unwrap()].into(),
        }
    }

    #[test]
    fn reads_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("installed.json");
        assert_eq!(PluginList::read(&path).unwrap(), PluginList::default());
        let key = Signer::Key("0123456789abcdef".parse().unwrap());
        for signer in [key, Signer::Pinned, Signer::Unsigned, Signer::Unrecorded] {
            records(signer).write(&path).unwrap();
            assert_eq!(PluginList::read(&path).unwrap(), records(signer));
        }
        let mut signed = records(key);
        for record in signed.installed.values_mut() {
            (record.signature, record.is_unsigned_allowed) = (Some("daftar-plugin-signature 1 …".to_owned()), true);
        }
        for record in signed.installed.values_mut() {
            record.earlier = vec![RecordedPlugin { digest: Digest::of(b"older"), ..record.clone() }];
        }
        signed.write(&path).unwrap();
        assert_eq!(PluginList::read(&path).unwrap(), signed);
        let gender = PluginName::parse("gender").unwrap();
        let without = PluginList::parse(&signed.without(&gender).to_bytes().unwrap()).unwrap();
        assert!(without.digests().is_empty() && without.removed.contains(&gender));
    }

    #[test]
    fn format_1_reads_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("installed.json");
        let written = r#"{"format":1,"installed":[{"name":"gender","version":"1.2.3","kind":"vocabulary-pack","digest":"DIGEST",
            "signer":"key 0123456789abcdef","installed_at":"2026-03-01T12:00:00Z"}],"removed":["farmer"]}"#;
        fs::write(&path, written.replace("DIGEST", &Digest::of(b"gender").to_hex())).unwrap();
        let key = Signer::Key("0123456789abcdef".parse().unwrap());
        assert_eq!(PluginList::read(&path).unwrap(), records(key));
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("key 0123", "the 0123")).unwrap();
        assert!(PluginList::read(&path).unwrap_err().to_string().contains("signer"));
    }

    #[test]
    fn an_invalid_file_is_an_error_and_not_an_empty_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("installed.json");
        for content in ["", "{}", "[]", r#"{"format":2,"installed":[],"removed":[]}"#, r#"{"format":1,"installed":["#] {
            fs::write(&path, content).unwrap();
            assert!(PluginList::read(&path).is_err(), "{content}");
        }
    }
}

//! What is installed, as it stands on disk: `installed.json`.
//!
//! **Invariant:** the file is written whole or not at all, and only after the plugin's own file is on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::files::write_whole;
use crate::package::Digest;
use crate::signature::Signer;
use daftar_domain::manifest::{PluginKind, PluginName, PluginVersion};

/// The version of the file's shape. A released shape stays readable; another one gets another number.
const FORMAT: u32 = 1;

/// What is installed, and what was removed on purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Records {
    pub installed: BTreeMap<PluginName, RecordedPlugin>,
    /// Removed by hand: not to be installed again from a folder of plugins.
    pub removed: BTreeSet<PluginName>,
}

/// What the list of installed plugins says of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPlugin {
    /// Its version.
    pub version: PluginVersion,
    /// What it is for.
    pub kind: PluginKind,
    /// Digest of its file.
    pub digest: Digest,
    /// The signer when it was installed.
    pub signer: Signer,
    /// The line of the `.sig` file that came with it, so that it can be judged again.
    pub signature: Option<String>,
    /// Whether an administrator installed it here as unsigned, by `--allow-unsigned`.
    pub is_excused: bool,
    /// When it was installed.
    pub installed_at: Timestamp,
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
    /// Whether it was installed by `--allow-unsigned`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unsigned_allowed: bool,
    /// RFC 3339.
    installed_at: String,
}

impl Records {
    /// Reads the file; nothing is installed where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not what this module writes.
    pub fn read(path: &Path) -> io::Result<Self> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        Self::parse(&bytes)
    }

    /// Reads what a file holds.
    ///
    /// # Errors
    /// It is not what this module writes.
    pub fn parse(bytes: &[u8]) -> io::Result<Self> {
        let stored: StoredRecords = serde_json::from_slice(bytes).map_err(io::Error::other)?;
        if stored.format != FORMAT {
            let reason = format!("its format is {}; this version reads {FORMAT}", stored.format);
            return Err(io::Error::other(reason));
        }
        let mut records = Self { installed: BTreeMap::new(), removed: stored.removed.into_iter().collect() };
        for from in stored.installed {
            let name = from.name.clone();
            if records.installed.insert(from.name.clone(), RecordedPlugin::try_from(from)?).is_some() {
                return Err(io::Error::other(format!("`{name}` occurs twice")));
            }
        }
        Ok(records)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The disk failed; the old file is still there.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_whole(path, &self.to_bytes()?)
    }

    /// What the file holds.
    ///
    /// # Errors
    /// Never in practice: it can be written as JSON.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let installed = self.installed.iter().map(|(name, record)| StoredRecord {
            name: name.clone(),
            version: record.version,
            kind: record.kind,
            digest: record.digest.to_hex(),
            signer: record.signer.to_string(),
            signature: record.signature.clone(),
            unsigned_allowed: record.is_excused,
            installed_at: record.installed_at.to_string(),
        });
        let stored = StoredRecords {
            format: FORMAT,
            installed: installed.collect(),
            removed: self.removed.iter().cloned().collect(),
        };
        serde_json::to_vec_pretty(&stored).map_err(io::Error::other)
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
            is_excused: from.unsigned_allowed,
            installed_at: from.installed_at.parse().map_err(|_| wrong("installed_at"))?,
        })
    }
}

/// Reads what [`Signer`] displays.
fn signer(text: &str) -> Option<Signer> {
    match text {
        "pinned" => Some(Signer::Pinned),
        "unsigned" => Some(Signer::Unsigned),
        "unrecorded" => Some(Signer::Unrecorded),
        key => key.strip_prefix("key ")?.parse().ok().map(Signer::Key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(signer: Signer) -> Records {
        let record = RecordedPlugin {
            version: PluginVersion::new(1, 2, 3),
            kind: PluginKind::VocabularyPack,
            digest: Digest::of(b"gender"),
            signer,
            signature: None,
            is_excused: false,
            installed_at: "2026-03-01T12:00:00Z".parse().unwrap(),
        };
        Records {
            installed: [(PluginName::parse("gender").unwrap(), record)].into(),
            removed: [PluginName::parse("farmer").unwrap()].into(),
        }
    }

    #[test]
    fn reads_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("installed.json");
        assert_eq!(Records::read(&path).unwrap(), Records::default());
        let key = Signer::Key("0123456789abcdef".parse().unwrap());
        for signer in [key, Signer::Pinned, Signer::Unsigned, Signer::Unrecorded] {
            records(signer).write(&path).unwrap();
            assert_eq!(Records::read(&path).unwrap(), records(signer));
        }
        let mut signed = records(key);
        for record in signed.installed.values_mut() {
            (record.signature, record.is_excused) = (Some("daftar-plugin-signature 1 …".to_owned()), true);
        }
        signed.write(&path).unwrap();
        assert_eq!(Records::read(&path).unwrap(), signed);
    }

    #[test]
    fn format_1_reads_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("installed.json");
        let written = r#"{"format":1,"installed":[{"name":"gender","version":"1.2.3","kind":"vocabulary-pack","digest":"DIGEST",
            "signer":"key 0123456789abcdef","installed_at":"2026-03-01T12:00:00Z"}],"removed":["farmer"]}"#;
        fs::write(&path, written.replace("DIGEST", &Digest::of(b"gender").to_hex())).unwrap();
        let key = Signer::Key("0123456789abcdef".parse().unwrap());
        assert_eq!(Records::read(&path).unwrap(), records(key));
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("key 0123", "the 0123")).unwrap();
        assert!(Records::read(&path).unwrap_err().to_string().contains("signer"));
    }

    #[test]
    fn a_file_that_is_not_understood_is_an_error_and_not_an_empty_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("installed.json");
        for content in ["", "{}", "[]", r#"{"format":2,"installed":[],"removed":[]}"#, r#"{"format":1,"installed":["#] {
            fs::write(&path, content).unwrap();
            assert!(Records::read(&path).is_err(), "{content}");
        }
    }
}

//! The list of installed plugins that several processes share, and what a library has to do to be as it says.
//!
//! **Invariant:** what is taken up was judged here: a list says which plugins count, not that they may run.

use std::collections::BTreeMap;
use std::io;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::records::{Record, Records};
use super::{PluginLibrary, Prepared};
use crate::domain::manifest::PluginName;
use crate::plugin::package::Digest;
use crate::plugin::signature::{Signer, UnsignedPlugins};

/// The version of the list's shape.
const FORMAT: u32 = 1;

/// What is installed for all processes: the list as one folder has it, and the signatures that came with the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonPlugins {
    records: Records,
    signatures: BTreeMap<Digest, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCommon {
    format: u32,
    list: Value,
    /// By the digest of the file, as 64 hexadecimal digits.
    signatures: BTreeMap<String, String>,
}

/// A plugin that is installed for all processes and not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPlugin {
    /// Its name.
    pub name: PluginName,
    /// The digest of its file.
    pub digest: Digest,
    /// The signature that came with it.
    pub signature: Option<String>,
    /// Whether it was installed although nobody vouched for it.
    pub unsigned: UnsignedPlugins,
    /// When it was installed.
    pub installed_at: Timestamp,
}

impl CommonPlugins {
    /// Reads a list.
    ///
    /// # Errors
    /// It is not what this module writes.
    pub fn parse(bytes: &[u8]) -> io::Result<Self> {
        let stored: StoredCommon = serde_json::from_slice(bytes).map_err(io::Error::other)?;
        if stored.format != FORMAT {
            let reason = format!("its format is {}; this version reads {FORMAT}", stored.format);
            return Err(io::Error::other(reason));
        }
        let records = Records::parse(&serde_json::to_vec(&stored.list)?)?;
        let signatures = stored.signatures.into_iter().map(|(digest, signature)| {
            let digest = Digest::from_hex(&digest).ok_or_else(|| io::Error::other("a digest is malformed"))?;
            Ok((digest, signature))
        });
        Ok(Self { records, signatures: signatures.collect::<io::Result<_>>()? })
    }

    /// What is kept of it.
    ///
    /// # Errors
    /// Never in practice: it can be written as JSON.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let list = serde_json::from_slice(&self.records.to_bytes()?)?;
        let is_named = |digest: &Digest| self.records.installed.values().any(|record| record.digest == *digest);
        let signatures = self.signatures.iter().filter(|(digest, _)| is_named(digest));
        let signatures = signatures.map(|(digest, signature)| (digest.to_hex(), signature.clone())).collect();
        serde_json::to_vec(&StoredCommon { format: FORMAT, list, signatures }).map_err(io::Error::other)
    }

    /// The digests of the files that it names.
    #[must_use]
    pub fn digests(&self) -> Vec<Digest> {
        self.records.installed.values().map(|record| record.digest).collect()
    }

    /// The list with a plugin that is about to be installed.
    #[must_use]
    pub fn with(mut self, prepared: &Prepared, now: Timestamp) -> Self {
        let (name, digest, signer) = (prepared.manifest().name.clone(), prepared.digest(), prepared.signer());
        let (version, kind) = (prepared.manifest().version, prepared.manifest().kind);
        self.records.removed.remove(&name);
        self.records.installed.insert(name, Record { version, kind, digest, signer, installed_at: now });
        self.signatures.extend(prepared.signature().map(|signature| (digest, signature.to_owned())));
        self
    }

    /// The list without a plugin, which was removed by hand.
    #[must_use]
    pub fn without(mut self, name: &PluginName) -> Self {
        self.records.installed.remove(name);
        self.records.removed.insert(name.clone());
        self
    }
}

impl PluginLibrary {
    /// What is installed here, for all processes. Signatures of what was installed before are not known any more.
    #[must_use]
    pub fn for_all(&self) -> CommonPlugins {
        CommonPlugins { records: self.lock().clone(), signatures: BTreeMap::new() }
    }

    /// The file of a plugin that is installed here.
    ///
    /// # Errors
    /// When it cannot be read, or is too large.
    pub fn file_of(&self, digest: Digest) -> Result<Vec<u8>, String> {
        super::folder::read_file(&self.path_of(digest)).map_err(|error| error.to_string())
    }

    /// What is installed for all and not loaded here.
    #[must_use]
    pub fn wanted(&self, common: &CommonPlugins) -> Vec<WantedPlugin> {
        let current = self.current();
        let is_here = |name: &PluginName, record: &Record| {
            current.get(name).is_some_and(|installed| installed.loaded().digest() == record.digest)
        };
        let absent = common.records.installed.iter().filter(|(name, record)| !is_here(name, record));
        let wanted = absent.map(|(name, record)| WantedPlugin {
            name: name.clone(),
            digest: record.digest,
            signature: common.signatures.get(&record.digest).cloned(),
            unsigned: match record.signer {
                // Somebody said so, and it is in the audit log; the list of before the first version with signers did not say.
                Signer::Unsigned | Signer::Unrecorded => UnsignedPlugins::Allowed,
                Signer::Pinned | Signer::Key(_) => UnsignedPlugins::Refused,
            },
            installed_at: record.installed_at,
        });
        wanted.collect()
    }

    /// What is installed here and not for all.
    #[must_use]
    pub fn unwanted(&self, common: &CommonPlugins) -> Vec<PluginName> {
        let here = self.lock().installed.keys().cloned().collect::<Vec<_>>();
        here.into_iter().filter(|name| !common.records.installed.contains_key(name)).collect()
    }

    /// Remembers which plugins were removed by hand, whichever process it was.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn take_up_removed(&self, common: &CommonPlugins) -> io::Result<()> {
        let mut records = self.lock();
        if records.removed == common.records.removed {
            return Ok(());
        }
        let changed = Records { removed: common.records.removed.clone(), ..records.clone() };
        changed.write(&self.folder.join(super::LIST_FILE))?;
        *records = changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::manifest::{PluginKind, PluginVersion};

    #[test]
    fn a_list_reads_back_with_the_signatures_of_what_it_names() {
        let record = Record {
            version: PluginVersion::new(1, 2, 3),
            kind: PluginKind::VocabularyPack,
            digest: Digest::of(b"gender"),
            signer: Signer::Pinned,
            installed_at: "2026-03-01T12:00:00Z".parse().unwrap(),
        };
        let name = PluginName::parse("gender").unwrap();
        let signatures =
            [(Digest::of(b"gender"), "ours".to_owned()), (Digest::of(b"gone"), "of what is gone".to_owned())];
        let records = Records { installed: [(name.clone(), record)].into(), ..Records::default() };
        let common = CommonPlugins { records, signatures: signatures.into() };
        let read = CommonPlugins::parse(&common.to_bytes().unwrap()).unwrap();
        assert_eq!(read.records, common.records);
        assert_eq!(read.signatures.values().collect::<Vec<_>>(), ["ours"]);
        let without = CommonPlugins::parse(&read.without(&name).to_bytes().unwrap()).unwrap();
        assert!(without.digests().is_empty() && without.signatures.is_empty());
        assert_eq!(without.records.removed, [name].into());
        for wrong in
            ["", "{}", r#"{"format":2,"list":{},"signatures":{}}"#, r#"{"format":1,"list":{},"signatures":{}}"#]
        {
            assert!(CommonPlugins::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}

//! The list of installed plugins that several processes share, and what a library has to do to be as it says.
//!
//! **Invariant:** what is taken up was judged here, by this server's policy alone: a list says which plugins count, not that they may run
//! nor who vouches for them. Whoever can write to the database can write it.

use std::io;

use jiff::Timestamp;

use super::records::{RecordedPlugin, Records};
use super::{PluginLibrary, Prepared};
use crate::package::Digest;
use daftar_domain::manifest::PluginName;

/// What is installed for all processes: the list as one folder has it, with the signatures that came with the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonPlugins {
    records: Records,
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
    /// When it was installed.
    pub installed_at: Timestamp,
}

impl CommonPlugins {
    /// Reads a list.
    ///
    /// # Errors
    /// It is not what this module writes.
    pub fn parse(bytes: &[u8]) -> io::Result<Self> {
        Ok(Self { records: Records::parse(bytes)? })
    }

    /// What is kept of it.
    ///
    /// # Errors
    /// Never in practice: it can be written as JSON.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        self.records.to_bytes()
    }

    /// The digests of the files that it names.
    #[must_use]
    pub fn digests(&self) -> Vec<Digest> {
        self.records.installed.values().map(|record| record.digest).collect()
    }

    /// The list with a plugin that is about to be installed.
    #[must_use]
    pub fn with(mut self, prepared: &Prepared, now: Timestamp) -> Self {
        let name = prepared.manifest().name.clone();
        self.records.removed.remove(&name);
        self.records.installed.insert(name, prepared.record(now));
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
    /// What is installed here, for all processes.
    #[must_use]
    pub fn for_all(&self) -> CommonPlugins {
        CommonPlugins { records: self.lock().clone() }
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
        let is_here = |name: &PluginName, record: &RecordedPlugin| {
            current.get(name).is_some_and(|installed| installed.loaded().digest() == record.digest)
        };
        let absent = common.records.installed.iter().filter(|(name, record)| !is_here(name, record));
        let wanted = absent.map(|(name, record)| WantedPlugin {
            name: name.clone(),
            digest: record.digest,
            signature: record.signature.clone(),
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
    use crate::signature::Signer;
    use daftar_domain::manifest::{PluginKind, PluginVersion};

    #[test]
    fn a_list_reads_back_with_the_signatures_of_what_it_names() {
        let record = RecordedPlugin {
            version: PluginVersion::new(1, 2, 3),
            kind: PluginKind::VocabularyPack,
            digest: Digest::of(b"gender"),
            signer: Signer::Pinned,
            signature: Some("ours".to_owned()),
            is_excused: false,
            installed_at: "2026-03-01T12:00:00Z".parse().unwrap(),
        };
        let name = PluginName::parse("gender").unwrap();
        let records = Records { installed: [(name.clone(), record)].into(), ..Records::default() };
        let common = CommonPlugins { records };
        let read = CommonPlugins::parse(&common.to_bytes().unwrap()).unwrap();
        assert_eq!(read, common);
        let without = CommonPlugins::parse(&read.without(&name).to_bytes().unwrap()).unwrap();
        assert!(without.digests().is_empty());
        assert_eq!(without.records.removed, [name].into());
        for wrong in ["", "{}", r#"{"format":9,"installed":[],"removed":[]}"#] {
            assert!(CommonPlugins::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}

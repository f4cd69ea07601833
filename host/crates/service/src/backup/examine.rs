//! Checks everything in a backup before it is trusted: every stored value can be decoded, keys of records and versions
//! are consecutive, photos and plugins match their digests, and the counts match.

use std::collections::BTreeMap;

use secrecy::ExposeSecret;
use sha2::{Digest as _, Sha256};

use super::BackupProblem;
use super::format::{End, Head};
use super::item::Item;
use daftar_auth::key_folder;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_sandbox::{PACKAGE_BYTES_MAX, PluginList};
use daftar_store::archive::{Entry, ItemKind};
use daftar_store::{StoreError, record};

/// Verified part of a backup.
#[derive(Default)]
pub struct Examiner {
    counts: BTreeMap<String, u64>,
    block: u64,
    /// The record whose versions are being read, the last version read, and a flag if it is the current version.
    at: Option<(RecordKind, RecordId, VersionId, bool)>,
    plugin: Option<PluginFile>,
    /// The digests of the complete files.
    plugins: Vec<[u8; 32]>,
    listed: Option<Vec<[u8; 32]>>,
    last_audit: Option<u64>,
    keys: Vec<String>,
}

/// A plugin file of which some chunks were read.
struct PluginFile {
    digest: [u8; 32],
    parts: u32,
    bytes: usize,
    hash: Sha256,
}

impl Examiner {
    /// Checks the items of a block.
    ///
    /// # Errors
    /// The first item that cannot be restored.
    pub fn inspect(&mut self, block: u64, items: &[Item]) -> Result<(), BackupProblem> {
        self.block = block;
        for item in items {
            self.look(item)?;
            *self.counts.entry(item.counted().to_owned()).or_default() += 1;
        }
        Ok(())
    }

    /// Checks the complete backup: compares the items read with the counts of the backup.
    ///
    /// # Errors
    /// A difference.
    pub fn finish(mut self, head: &Head, end: &End) -> Result<BTreeMap<String, u64>, BackupProblem> {
        self.end_plugin()?;
        self.ends_record()?;
        for (name, reported) in &end.counts {
            self.agrees(name, *reported)?;
        }
        for name in self.counts.keys() {
            self.agrees(name, end.counts.get(name).copied().unwrap_or_default())?;
        }
        for (name, reported) in &head.records {
            self.agrees(name, *reported)?;
        }
        self.agrees(ItemKind::Changes.name(), head.sequence)?;
        if head.keys {
            if let Some(missing) = key_folder::missing_from(&self.keys) {
                return Err(self.refused(format!("it says that it holds the keys, and `{missing}` is not there")));
            }
        } else if !self.keys.is_empty() {
            return Err(self.refused("it says that it holds no keys, and holds some".to_owned()));
        }
        if let Some(listed) = &self.listed
            && listed.iter().any(|digest| !self.plugins.contains(digest))
        {
            return Err(self.refused("the file of an installed plugin is not there".to_owned()));
        }
        Ok(self.counts)
    }

    fn agrees(&self, name: &str, reported: u64) -> Result<(), BackupProblem> {
        let found = self.counts.get(name).copied().unwrap_or_default();
        if found == reported { Ok(()) } else { Err(BackupProblem::Count { name: name.to_owned(), reported, found }) }
    }

    fn refused(&self, reason: String) -> BackupProblem {
        BackupProblem::Content { block: self.block, reason }
    }

    fn look(&mut self, item: &Item) -> Result<(), BackupProblem> {
        let block = self.block;
        if !matches!(item, Item::PluginPart { .. }) {
            self.end_plugin()?;
        }
        match item {
            Item::Key { name, text } => {
                key_folder::check(name, text.expose_secret()).map_err(|reason| self.refused(reason))?;
                if self.keys.contains(name) {
                    return Err(self.refused("a file of keys is there twice".to_owned()));
                }
                self.keys.push(name.clone());
            }
            Item::PluginList { bytes } => {
                let listed = PluginList::parse(bytes);
                let listed = listed.map_err(|error| self.refused(format!("the list of plugins: {error}")))?;
                self.listed = Some(listed.digests().into_iter().map(|digest| *digest.as_bytes()).collect());
            }
            Item::PluginPart { digest, part, bytes } => self.plugin_part(*digest, *part, bytes)?,
            Item::ItemKind(entry) => match self.entry(entry) {
                Ok(None) => {}
                Ok(Some(reason)) => return Err(self.refused(reason.to_owned())),
                Err(error) => return Err(BackupProblem::content(block, &error)),
            },
        }
        Ok(())
    }

    /// Returns the problem of a stored item that can be decoded.
    fn entry(&mut self, entry: &Entry) -> Result<Option<&'static str>, StoreError> {
        match entry {
            Entry::Setting { kind, value } => record::setting::decode(*kind, value).map(|_| None),
            Entry::Client { value } => record::client::decode(value).map(|_| None),
            Entry::Counter { .. } => Ok(None),
            Entry::CodeTablePart { number, value } => {
                record::code_table::decode(value)?;
                let is_next = self.count(ItemKind::CodeTableParts) == *number;
                Ok(if is_next { None } else { Some("a part of the code table is missing") })
            }
            Entry::Request { name, value } => record::remembered::decode(name.clone(), value).map(|_| None),
            Entry::Photo { digest, bytes } => {
                let is_itself = <[u8; 32]>::from(Sha256::digest(bytes)) == digest.0;
                Ok(if is_itself { None } else { Some("a photo is another one than it is called after") })
            }
            Entry::Version { kind, id, version, is_present, value } => {
                let decoded = record::decode_any(*kind, *id, value)?;
                if decoded.place().2 != *version {
                    return Ok(Some("the version of a record differs from the version in its entry"));
                }
                Ok(self.version((*kind, *id, *version, *is_present)))
            }
            Entry::Change { sequence, value } => {
                record::change::touched_versions(value)?;
                let is_next = self.count(ItemKind::Changes).saturating_add(1) == sequence.0;
                Ok(if is_next { None } else { Some("a write is missing in the order of writes") })
            }
            Entry::Audit { number, value } => {
                record::audit::decode(value)?;
                let is_later = self.last_audit.is_none_or(|last| last < *number);
                self.last_audit = Some(*number);
                Ok(if is_later { None } else { Some("lines of the audit log are not in their order") })
            }
        }
    }

    fn count(&self, stored: ItemKind) -> u64 {
        self.counts.get(stored.name()).copied().unwrap_or_default()
    }

    /// Checks the order: records are sorted by kind and key, each with all its versions.
    fn version(&mut self, now: (RecordKind, RecordId, VersionId, bool)) -> Option<&'static str> {
        let (kind, id, version, _) = now;
        let before = self.at.replace(now);
        let (expected_id, expected_version) = match before {
            Some((of, at, last, false)) if of == kind => (at, last.next()),
            Some((_, _, _, false)) => return Some("the present version of a record is missing"),
            Some((of, at, _, true)) if of == kind => (RecordId(at.0.saturating_add(1)), VersionId::FIRST),
            Some((of, ..)) if of > kind => return Some("records are not in their order"),
            Some(_) | None => (RecordId(1), VersionId::FIRST),
        };
        if id != expected_id {
            return Some("a record is missing");
        }
        (version != expected_version).then_some("a version of a record is missing")
    }

    fn ends_record(&self) -> Result<(), BackupProblem> {
        match self.at {
            Some((_, _, _, false)) => Err(self.refused("the present version of a record is missing".to_owned())),
            Some((_, _, _, true)) | None => Ok(()),
        }
    }

    fn plugin_part(&mut self, digest: [u8; 32], part: u32, bytes: &[u8]) -> Result<(), BackupProblem> {
        if self.plugin.as_ref().is_some_and(|file| file.digest != digest) {
            self.end_plugin()?;
        }
        let new = || PluginFile { digest, parts: 0, bytes: 0, hash: Sha256::new() };
        let mut file = self.plugin.take().unwrap_or_else(new);
        file.bytes = file.bytes.saturating_add(bytes.len());
        if file.parts != part || file.bytes > PACKAGE_BYTES_MAX {
            return Err(self.refused("a part of a plugin's file is missing, or the file is too large".to_owned()));
        }
        file.parts = file.parts.saturating_add(1);
        file.hash.update(bytes);
        self.plugin = Some(file);
        Ok(())
    }

    fn end_plugin(&mut self) -> Result<(), BackupProblem> {
        let Some(file) = self.plugin.take() else { return Ok(()) };
        if <[u8; 32]>::from(file.hash.finalize()) != file.digest {
            return Err(self.refused("a plugin's file is another one than it is called after".to_owned()));
        }
        self.plugins.push(file.digest);
        Ok(())
    }
}

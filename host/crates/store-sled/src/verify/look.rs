//! Reads of the database that note what cannot be read instead of stopping the store.

use std::ops::Bound;

use super::finding;
use crate::keys;
use daftar_domain::change::ChangedRecord;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::verification::{Finding, Part, Remedy, number_name, record_name};
use daftar_store::{StoreError, record};

/// A key and its value.
pub(super) type Entry = (::sled::IVec, ::sled::IVec);

/// A way into the database.
#[derive(Clone)]
pub(super) struct Look(::sled::Db);

impl Look {
    pub(super) fn new(database: &::sled::Db) -> Self {
        Self(database.clone())
    }

    /// The value of a key.
    ///
    /// # Errors
    /// The finding that the database could not read it.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<::sled::IVec>, Finding> {
        self.0.get(key).map_err(|error| unreadable(&error))
    }

    pub(super) fn has(&self, key: &[u8]) -> Result<bool, Finding> {
        self.0.contains_key(key).map_err(|error| unreadable(&error))
    }

    /// The entries whose keys begin so, after a key.
    pub(super) fn after(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
    ) -> impl Iterator<Item = Result<Entry, Finding>> + use<> {
        let prefix = prefix.to_vec();
        let from = after.map_or_else(|| Bound::Included(prefix.clone()), |after| Bound::Excluded(after.to_vec()));
        let entries = self.0.range((from, Bound::Unbounded)).map(|item| item.map_err(|error| unreadable(&error)));
        entries.take_while(move |item| item.as_ref().map_or(true, |(key, _)| key.starts_with(&prefix)))
    }

    /// The greatest number of the keys that begin so.
    pub(super) fn last_number(&self, prefix: &[u8]) -> Option<u64> {
        let last = self.0.scan_prefix(prefix).next_back()?.ok()?;
        keys::number_of(&last.0)
    }

    /// The record of a key, if it is there and can be read.
    pub(super) fn readable_record(&self, kind: RecordKind, id: RecordId) -> Option<ChangedRecord> {
        let bytes = self.get(&keys::record(kind, id)).ok()??;
        record::decode_any(kind, id, &bytes).ok()
    }

    /// The records after a key that can be read, and the last key that was passed.
    pub(super) fn readable(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> (Vec<ChangedRecord>, Option<RecordId>) {
        let (mut records, mut last) = (Vec::new(), None);
        let entries = self.after(&keys::record_prefix(kind), Some(&keys::record(kind, after)));
        for (key, value) in entries.take(limit).map_while(Result::ok) {
            let Some((_, id)) = keys::read::record_of(&key) else { continue };
            last = Some(id);
            records.extend(record::decode_any(kind, id, &value).ok());
        }
        (records, last)
    }

    /// What a record is called: by its first identifier, else by its number.
    pub(super) fn name(&self, kind: RecordKind, id: RecordId) -> String {
        self.readable_record(kind, id).map_or_else(|| number_name(kind, id), |record| record_name(&record))
    }
}

/// What to say of a key that is none of ours, without saying what it holds.
pub(super) fn strange_key(part: Part, key: &[u8]) -> Finding {
    let first = key.first().map(|byte| format!("0x{byte:02x}")).unwrap_or_default();
    let place = format!("a key of {} bytes that begins with {first}", key.len());
    finding(part, place, "it is no key that daftar writes", Remedy::Restore)
}

fn unreadable(error: &::sled::Error) -> Finding {
    finding(Part::Files, "the database", format!("a value cannot be read: {error}"), Remedy::Restore)
}

/// Why a value cannot be read, and what to do about it.
pub(super) fn undecodable(part: Part, place: impl Into<String>, error: &StoreError) -> Finding {
    let reason = match error {
        StoreError::Corrupt { what, reason } => format!("the stored {what} cannot be read: {reason}"),
        other => other.to_string(),
    };
    let is_newer = ["its version is", "was stored under revision"].iter().any(|said| reason.contains(said));
    let remedy = if is_newer { Remedy::UseNewer } else { Remedy::Restore };
    finding(part, place, reason, remedy)
}

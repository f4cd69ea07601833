//! The raw values of the database, key by key, for [`daftar_store::verify`].
//!
//! **Invariant:** verification ignores [`Health`]: an unreadable value is a finding, and does not stop it. A backup
//! reads with it: there a failure of the database is one of the store.
//!
//! **Invariant:** an apparent problem on a running server is checked again by its writer thread, between two groups.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::ops::Bound;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Weak};

use sha2::{Digest, Sha256};

use super::database::{Database, KeyAndValue};
use super::health::Health;
use super::mark::Acknowledged;
use super::reader::Reader;
use super::writer::Job;
use super::{OpenError, keys, open, writer_gone};
use daftar_domain::change::Sequence;
use daftar_domain::client::ClientId;
use daftar_domain::error::contain;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::verification::{Finding, Part, Remedy};
use daftar_store::archive::Origin;
use daftar_store::change_log::HistoryMark;
use daftar_store::record::setting::SettingKind;
use daftar_store::verify::{
    AtRest, RawHolder, RawOwners, RawPage, RawValue, RawValues, Table, finding, photo_name, undecodable, unreadable,
};
use daftar_store::{StoreError, blocking, record};

/// A folder that no server uses, opened for verification only.
pub struct StoppedStore {
    values: RawKeys,
    /// Released last: fields are dropped in this order.
    _lock: File,
}

impl StoppedStore {
    /// Opens a folder with an existing store.
    ///
    /// # Errors
    /// See [`OpenError`]; also if there is no store.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        let (database, lock) = open::open_existing(path, cache_bytes)?;
        let mut values = RawKeys::new(database);
        let held = contain(|| Acknowledged {
            sequence: values.last_number(Table::Changes).unwrap_or_default(),
            audit: values.last_number(Table::Audit).unwrap_or_default(),
            code_table_parts: values.last_number(Table::Codes).map_or(0, |last| last.saturating_add(1)),
        });
        let lost = open::check_acknowledged(path, &held.unwrap_or_default()).err();
        values.lost =
            lost.map(|lost| finding(Part::Files, "the end of the database", lost.to_string(), Remedy::Restore));
        Ok(Self { values, _lock: lock })
    }

    /// Returns all its values.
    #[must_use]
    pub fn raw_values(&self) -> Arc<dyn RawValues> {
        Arc::new(self.values.clone())
    }

    /// Returns the timeline marker up to that write; `None` if that write does not exist.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        // With a health of its own: an unreadable value stops nothing else.
        let reader = Reader { database: self.values.database.clone(), health: Arc::default() };
        let contained = blocking(move || contain(|| reader.history_mark(at))).await?;
        contained.map_err(|_| StoreError::Failed("the database files are corrupt".into()))?
    }
}

/// The keys of a database and their values.
#[derive(Clone)]
pub(super) struct RawKeys {
    pub(super) database: Database,
    /// The finding that an acknowledged write is missing.
    pub(super) lost: Option<Finding>,
    /// Records a failure of the database; `None` if a failure is only a finding.
    pub(super) health: Option<Arc<Health>>,
    /// The queue of the writer thread, if there is one.
    pub(super) writer: Option<Weak<SyncSender<Job>>>,
}

/// A page ends after about this many bytes of values.
const PAGE_BYTES: usize = 1024 * 1024;

impl RawKeys {
    /// Creates the values of a database that has no writer.
    pub(super) fn new(database: Database) -> Self {
        Self { database, lost: None, health: None, writer: None }
    }

    /// Creates the values of a reader's store: a failure here is one of the store.
    pub(super) fn with_health(reader: &Reader) -> Self {
        Self { health: Some(Arc::clone(&reader.health)), ..Self::new(reader.database.clone()) }
    }

    fn get(&self, key: &[u8]) -> Result<Option<::sled::IVec>, Finding> {
        self.database.get(key).map_err(|error| refused(self.health.as_deref(), &error))
    }

    fn has(&self, key: &[u8]) -> Result<bool, Finding> {
        self.database.tree().contains_key(key).map_err(|error| refused(self.health.as_deref(), &error))
    }

    /// Returns the entries with this key prefix, after a key.
    fn after(&self, prefix: &[u8], after: Option<&[u8]>) -> impl Iterator<Item = Result<KeyAndValue, Finding>> {
        let prefix = prefix.to_vec();
        let from =
            after.map_or_else(|| Bound::Included(prefix.clone()), |after| Bound::Excluded([&prefix, after].concat()));
        let health = self.health.clone();
        let entries = self.database.range((from, Bound::Unbounded));
        let entries = entries.map(move |item| item.map_err(|error| refused(health.as_deref(), &error)));
        entries.take_while(move |item| item.as_ref().map_or(true, |(key, _)| key.starts_with(&prefix)))
    }
}

/// Returns the finding that the database cannot read a value, and records the failure if there is a health.
fn refused(health: Option<&Health>, error: &::sled::Error) -> Finding {
    if let Some(health) = health {
        // `failure` reads it.
        let _noted = health.fail("reading", error);
    }
    unreadable(error)
}

impl RawValues for RawKeys {
    fn failure(&self) -> Option<StoreError> {
        self.health.as_ref()?.check().err()
    }

    fn beforehand(&self) -> Vec<Finding> {
        self.lost.clone().into_iter().collect()
    }

    /// Values that were copied from a database have the numbers that they had there. An unreadable mark is found when the
    /// folder is opened.
    fn audit_gaps(&self) -> (u64, u64) {
        let mark = self.get(keys::ORIGIN).ok().flatten();
        match mark.map(|mark| record::origin::decode(&mark)) {
            Some(Ok(Origin::Filled(held) | Origin::CaughtUp(held))) => (held.audit, held.audit_values),
            Some(Ok(Origin::Filling | Origin::CatchingUp(_)) | Err(_)) | None => (0, 0),
        }
    }

    fn page(&self, table: Table, after: Option<&[u8]>, limit: usize) -> RawPage {
        let mut page = RawPage::default();
        if table == Table::SearchRows {
            return page;
        }
        let (prefix, mut bytes) = (prefix(table), 0_usize);
        for entry in self.after(&prefix, after) {
            match entry {
                Ok((key, value)) => {
                    page.values.push(match key.first() {
                        Some(&keys::PART) if self.database.has_part(&key) => RawValue::Checked(None),
                        _ => raw_value(table, &key, &value),
                    });
                    bytes = bytes.saturating_add(value.len());
                    if page.values.len() >= limit || bytes >= PAGE_BYTES {
                        page.next = key.get(prefix.len()..).map(<[u8]>::to_vec);
                        return page;
                    }
                }
                Err(unreadable) => {
                    page.unreadable = Some(unreadable);
                    return page;
                }
            }
        }
        page
    }

    fn last_number(&self, table: Table) -> Option<u64> {
        let last = self.database.scan_prefix(prefix(table)).next_back()?.ok()?;
        keys::number_of(&last.0)
    }

    fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<Vec<u8>>, Finding> {
        Ok(self.get(&keys::record(kind, id))?.map(|value| value.to_vec()))
    }

    fn has_record(&self, kind: RecordKind, id: RecordId) -> Result<bool, Finding> {
        self.has(&keys::record(kind, id))
    }

    fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>, Finding> {
        let found = ids.iter().map(|id| self.record(kind, *id).map(|value| value.map(|value| (*id, value))));
        found.filter_map(Result::transpose).collect()
    }

    fn versions(
        &self,
        kind: RecordKind,
        id: RecordId,
        after: VersionId,
        limit: usize,
    ) -> Result<Vec<(VersionId, Vec<u8>)>, Finding> {
        let (mut versions, mut bytes) = (Vec::new(), 0_usize);
        for entry in self.after(&keys::history_prefix(kind, id), Some(&after.0.to_be_bytes())).take(limit) {
            if bytes >= PAGE_BYTES {
                break;
            }
            let (key, value) = entry?;
            bytes = bytes.saturating_add(value.len());
            // An invalid key is reported when older versions are read.
            versions.extend(keys::read::version_of(&key).map(|(_, _, version)| (version, value.to_vec())));
        }
        Ok(versions)
    }

    fn owners(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Option<RawOwners>, Finding> {
        Ok(self.get(&keys::identifier(kind, key))?.map(|bytes| record::identifier::decode(&bytes)))
    }

    fn holder(&self, slot: MembershipSlot) -> Result<Option<RawHolder>, Finding> {
        Ok(self.get(&keys::open_membership(slot))?.map(|bytes| record::open_membership::decode(&bytes)))
    }

    fn has_length(&self, photo: PhotoReference) -> Result<Option<bool>, Finding> {
        let first = self.get(&keys::photo_part(photo.digest, 0))?;
        let parts = first.and_then(|first| record::photo::decode_part(&first).ok()).map(|(parts, _)| parts);
        Ok(parts.map(|parts| record::photo::fits_in(parts, photo.length)))
    }

    fn photo(&self, digest: PhotoDigest) -> Result<Option<Vec<u8>>, Finding> {
        let parts: Vec<_> = self.after(&keys::photo_prefix(digest), None).collect::<Result<_, _>>()?;
        let bytes = record::photo::decode(parts.into_iter().map(|(_, part)| Ok(part)));
        bytes.map(|bytes| Some(bytes).filter(|bytes| !bytes.is_empty())).map_err(|error| unreadable(&error))
    }

    /// Checks that every part exists, and that together they match their digest.
    fn inspect_photo(&self, digest: PhotoDigest) -> Option<Finding> {
        let name = photo_name(digest);
        let (mut sha256, mut parts, mut expected, mut is_valid) = (Sha256::new(), 0_u64, None, true);
        for entry in self.after(&keys::photo_prefix(digest), None) {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(unreadable) => return Some(unreadable),
            };
            let Some((_, part)) = keys::read::photo_of(&key) else { continue };
            match record::photo::decode_part(&value) {
                Ok((of, bytes)) => {
                    is_valid &= part == parts && expected.is_none_or(|before| before == of);
                    expected = Some(of);
                    sha256.update(bytes);
                }
                Err(error) => return Some(undecodable(Part::Photos, name, &error)),
            }
            parts = parts.saturating_add(1);
        }
        let expected = u64::from(expected.unwrap_or_default());
        if is_valid && parts == expected && sha256.finalize().as_slice() == digest.0 {
            return None;
        }
        let problem = if parts == expected {
            "its bytes do not match its digest".to_owned()
        } else {
            format!("{parts} of its {expected} parts exist")
        };
        Some(finding(Part::Photos, name, problem, Remedy::Restore))
    }

    fn has_client(&self, id: &ClientId) -> Result<bool, Finding> {
        self.has(&keys::client(id))
    }

    fn numbered(&self, table: Table, number: u64) -> Result<Option<Vec<u8>>, Finding> {
        let key = [prefix(table), number.to_be_bytes().to_vec()].concat();
        Ok(self.get(&key)?.map(|value| value.to_vec()))
    }

    /// Runs the check in the writer thread, between two groups.
    fn at_rest(&self, check: AtRest) -> Result<(), StoreError> {
        let values = self.clone();
        // If the database panics, the check ends early.
        let check = move || {
            let _ = contain(|| check(&values));
        };
        let Some(writer) = &self.writer else {
            check();
            return Ok(());
        };
        let (done, is_done) = sync_channel(1);
        let job = Job::Look(Box::new(move || {
            check();
            let _ = done.send(());
        }));
        // Waits for a slot in the queue as every write does.
        let is_sent = writer.upgrade().is_some_and(|jobs| jobs.send(job).is_ok());
        if is_sent && is_done.recv().is_ok() { Ok(()) } else { Err(writer_gone()) }
    }
}

/// Returns the key prefix of a table; empty without one.
fn prefix(table: Table) -> Vec<u8> {
    let first = match table {
        Table::Codes => keys::CODE_TABLE,
        Table::Changes => keys::CHANGE,
        Table::Records(kind) => return keys::record_prefix(kind).to_vec(),
        Table::History => keys::HISTORY,
        Table::Identifiers => keys::IDENTIFIER,
        Table::OpenMemberships => keys::OPEN_MEMBERSHIP,
        Table::Photos => keys::PHOTO,
        Table::Requests => keys::REQUEST,
        Table::Audit => keys::AUDIT,
        Table::AuditSummaries => keys::AUDIT_SEGMENT,
        Table::Settings => keys::SETTING,
        Table::Clients => keys::CLIENT,
        Table::Counters => keys::COUNTER,
        Table::SearchRows | Table::Others => return Vec::new(),
    };
    vec![first]
}

/// The first bytes of the keys of all tables.
const KNOWN: [u8; 13] = [
    keys::AUDIT,
    keys::AUDIT_SEGMENT,
    keys::CLIENT,
    keys::SETTING,
    keys::HISTORY,
    keys::IDENTIFIER,
    keys::REQUEST,
    keys::COUNTER,
    keys::OPEN_MEMBERSHIP,
    keys::PHOTO,
    keys::RECORD,
    keys::CHANGE,
    keys::CODE_TABLE,
];

/// Decodes a key and its value.
fn raw_value(table: Table, key: &[u8], value: &[u8]) -> RawValue {
    let read = match table {
        Table::Codes | Table::Changes | Table::Audit | Table::AuditSummaries => {
            let number =
                keys::number_of(key).filter(|number| [&prefix(table), number.to_be_bytes().as_slice()].concat() == key);
            number.map(|number| RawValue::Numbered(number, value.to_vec()))
        }
        Table::Records(_) => keys::read::record_of(key).map(|(_, id)| RawValue::Record(id, value.to_vec())),
        Table::History => keys::read::version_of(key).map(|(kind, id, version)| RawValue::Version(kind, id, version)),
        Table::Identifiers => keys::read::identifier_of(key).map(|(kind, key)| RawValue::Identifier(kind, key)),
        Table::OpenMemberships => keys::read::slot_of(key).map(RawValue::Slot),
        Table::Photos => keys::read::photo_of(key).map(|(digest, _)| RawValue::Photo(digest)),
        Table::Requests => {
            let name = keys::request_name(key).filter(|name| keys::request(name) == key);
            name.map(|name| RawValue::Request(name, value.to_vec()))
        }
        Table::Settings => SettingKind::ALL.into_iter().find_map(|kind| {
            let name = key.strip_prefix(&keys::setting_prefix(kind))?;
            Some(RawValue::Setting(kind, name.to_vec(), value.to_vec()))
        }),
        Table::Clients => {
            let id = String::from_utf8_lossy(key.get(1..).unwrap_or_default()).into_owned();
            Some(RawValue::Client(id, value.to_vec()))
        }
        Table::Counters => {
            let name = key.get(1..).and_then(|name| str::from_utf8(name).ok());
            name.map(|name| RawValue::Counter(name.to_owned(), record::counter::decode(value)))
        }
        Table::SearchRows | Table::Others => {
            let is_known = key == keys::FORMAT || key.first().is_some_and(|first| KNOWN.contains(first));
            let invalid = match key {
                keys::REGISTER => record::register::decode(value).err().map(|error| ("the id of the register", error)),
                keys::ORIGIN => {
                    record::origin::decode(value).err().map(|error| ("the state of the copied register", error))
                }
                _ => None,
            };
            let invalid = invalid.map(|(what, error)| undecodable(Part::Files, what, &error));
            (is_known || invalid.is_some() || matches!(key, keys::REGISTER | keys::ORIGIN))
                .then_some(RawValue::Checked(invalid))
        }
    };
    read.unwrap_or_else(|| RawValue::Checked(Some(strange_key(table.part(), key))))
}

/// Returns the finding of an unknown key, without its content.
fn strange_key(part: Part, key: &[u8]) -> Finding {
    let first = key.first().map(|byte| format!("0x{byte:02x}")).unwrap_or_default();
    let place = format!("a key of {} bytes that begins with {first}", key.len());
    finding(part, place, "daftar does not write such keys", Remedy::Restore)
}

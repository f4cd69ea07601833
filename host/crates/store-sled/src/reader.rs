//! Reads of the database.
//!
//! **Invariant:** a read sees each write completely or not at all. It may see one that is about to be acknowledged.

use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::deployment::{Setting, SettingKey};
use daftar_domain::error::{Panicked, contain};
use daftar_domain::idempotency::{IdempotentRequest, RequestName};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::archive::Origin;
use daftar_store::change_log::{HistoryMark, RegisterId, Touched};
use daftar_store::plan::{Last, Present};
use daftar_store::record::fields::Selection;
use daftar_store::record::setting::{SettingKind, SettingRange};
use daftar_store::{IdentifierOwner, StoreError, StoredCodeTable, neighbours, record};

use super::database::{Database, KeyAndValue};
use super::disk::{self, FLUSH_LIMIT};
use super::health::Health;
use super::keys;
use super::mark::Acknowledged;

/// Reads from the database, in the calling thread.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) database: Database,
    pub(super) health: Arc<Health>,
}

/// The time limit for closing a failed database, which writes its buffers.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

impl Reader {
    /// Must be called before the last reader is dropped. Closing a database flushes it, which blocks forever after a
    /// full disk, and syncs its file, which panics on one: such a database is never closed, and recovers at the next
    /// start as after a crash.
    pub(super) fn let_go(&self) {
        match self.health.check() {
            Ok(()) if self.let_go_within(FLUSH_LIMIT) => {
                // Without it the next start reads more from the disk.
                let _ = self.database.note_closed();
            }
            Ok(()) => {}
            Err(_) => self.let_go_of_failed(),
        }
    }

    /// As [`Self::let_go`], for a failed database.
    pub(super) fn let_go_of_failed(&self) {
        self.let_go_within(CLOSE_WAIT);
    }

    /// Returns true if everything is on disk.
    fn let_go_within(&self, limit: Duration) -> bool {
        let closing = closing(&self.database, limit);
        if closing == Closing::Never {
            std::mem::forget(self.database.clone());
        }
        closing == Closing::Complete
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<::sled::IVec>, StoreError> {
        self.database.get(key).map_err(|error| self.health.fail("reading", &error))
    }

    pub(super) fn next(&self, item: ::sled::Result<KeyAndValue>) -> Result<KeyAndValue, StoreError> {
        item.map_err(|error| self.health.fail("scanning", &error))
    }

    /// Returns the records with those keys, in order; only their selected fields if there is a selection.
    pub(super) fn records(
        &self,
        kind: RecordKind,
        ids: &[RecordId],
        selection: Option<&Selection>,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        let decode = |id, bytes: &[u8]| record::decode_selected(kind, id, bytes, selection);
        let mut found = Vec::with_capacity(ids.len());
        let Some(neighbours) = neighbours(ids) else {
            for id in ids {
                let stored = self.get(&keys::record(kind, *id))?;
                found.extend(stored.map(|bytes| decode(*id, &bytes)).transpose()?);
            }
            return Ok(found);
        };
        // A scan finds each page of the tree once, a search of each key once for every record.
        let (first, last) = (keys::record(kind, *neighbours.start()), keys::record(kind, *neighbours.end()));
        let mut requested = ids.iter().copied().peekable();
        for item in self.database.range(first..=last) {
            let (key, value) = self.next(item)?;
            let id = RecordId(number(&key)?);
            while requested.next_if(|requested| *requested < id).is_some() {}
            if requested.next_if_eq(&id).is_some() {
                found.push(decode(id, &value)?);
            }
        }
        Ok(found)
    }

    /// Returns all settings of the deployment.
    pub(super) fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        let mut settings = Vec::new();
        for kind in SettingKind::OF_DEPLOYMENT {
            settings.extend(self.settings_of(kind, SettingRange::of(&[]))?);
        }
        Ok(settings)
    }

    /// Returns the settings of a kind in a range.
    pub(super) fn settings_of(&self, kind: SettingKind, range: SettingRange<'_>) -> Result<Vec<Setting>, StoreError> {
        let prefix = keys::settings(kind, range.prefix);
        let first = match range.after {
            [] => Bound::Included(prefix.clone()),
            after => Bound::Excluded(keys::settings(kind, after)),
        };
        let mut settings = Vec::new();
        for item in self.database.range((first, Bound::Unbounded)).take(range.limit) {
            let (key, value) = self.next(item)?;
            if !key.starts_with(&prefix) {
                break;
            }
            settings.push(record::setting::decode(kind, &value)?);
        }
        Ok(settings)
    }

    /// Returns the table of codes and the number of its parts.
    pub(super) fn code_table(&self) -> Result<(StoredCodeTable, u64), StoreError> {
        let mut table = StoredCodeTable::default();
        let mut parts = 0;
        for item in self.database.scan_prefix([keys::CODE_TABLE]) {
            let (key, value) = self.next(item)?;
            let part = record::code_table::decode(&value)?;
            if number(&key)? != parts {
                return Err(corrupt("part of the code table", "a part before it is missing"));
            }
            table.codes.extend(part.codes);
            table.editions.extend(part.editions);
            parts += 1;
        }
        Ok((table, parts))
    }

    /// Returns the last assigned numbers, without reading the values that they number.
    pub(super) fn last_numbers(&self) -> Result<Acknowledged, StoreError> {
        let (sequence, audit) = (self.last_number(&[keys::CHANGE])?, self.last_number(&[keys::AUDIT])?);
        let mut code_table_parts = 0;
        for item in self.database.tree().scan_prefix([keys::CODE_TABLE]) {
            self.next(item)?;
            code_table_parts += 1;
        }
        Ok(Acknowledged { sequence, audit, code_table_parts })
    }

    pub(super) fn counter(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.get(&keys::counter(name))?.map(|value| record::counter::decode(&value)).transpose()
    }

    pub(super) fn counters(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let mut counters = Vec::new();
        for item in self.database.scan_prefix(keys::counter(prefix)) {
            let (key, value) = self.next(item)?;
            let name = key.get(1..).and_then(|name| str::from_utf8(name).ok());
            let name = name.ok_or_else(|| corrupt("counter", "its name is not UTF-8"))?;
            counters.push((name.to_owned(), record::counter::decode(&value)?));
        }
        Ok(counters)
    }

    pub(super) fn expired_requests_at(&self, now: Timestamp) -> Result<Vec<RequestName>, StoreError> {
        let mut names = Vec::new();
        for item in self.database.scan_prefix([keys::REQUEST]) {
            let request = self.request(item)?;
            if !request.is_stored_at(now) {
                names.push(request.name);
            }
        }
        Ok(names)
    }

    pub(super) fn request(&self, item: ::sled::Result<KeyAndValue>) -> Result<IdempotentRequest, StoreError> {
        let (key, value) = self.next(item)?;
        let name = keys::request_name(&key).ok_or_else(|| corrupt("request that was done", "its name is invalid"))?;
        record::remembered::decode(name, &value)
    }

    /// Returns the last assigned keys.
    pub(super) fn last(&self) -> Result<Last, StoreError> {
        let mut last = Last { sequence: Sequence(self.last_number(&[keys::CHANGE])?), ..Last::default() };
        for kind in RecordKind::ALL {
            last.raise(kind, RecordId(self.last_number(&keys::record_prefix(kind))?));
        }
        Ok(last)
    }

    /// Returns the greatest number of the keys with this prefix; 0 without any.
    pub(super) fn last_number(&self, prefix: &[u8]) -> Result<u64, StoreError> {
        match self.database.scan_prefix(prefix).next_back() {
            None => Ok(0),
            Some(item) => number(&self.next(item)?.0),
        }
    }

    /// Returns the register's id.
    pub(super) fn register_id(&self) -> Result<RegisterId, StoreError> {
        let bytes = self.get(keys::REGISTER)?.ok_or_else(|| corrupt("id of the register", "it is missing"))?;
        record::register::decode(&bytes).map(RegisterId)
    }

    /// Returns the state of the register that was copied into the folder; none if none was.
    pub(super) fn origin(&self) -> Result<Option<Origin>, StoreError> {
        self.get(keys::ORIGIN)?.map(|bytes| record::origin::decode(&bytes)).transpose()
    }

    pub(super) fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        let (first, last) = (keys::by_number(keys::CHANGE, after.0), keys::by_number(keys::CHANGE, u64::MAX));
        let mut changes = Vec::new();
        let mut expected = after.next();
        for item in self.database.range((Bound::Excluded(first), Bound::Included(last))).take(limit) {
            let (key, value) = self.next(item)?;
            if number(&key)? != expected.0 {
                return Err(corrupt("order of writes", "a write is missing"));
            }
            changes.push(Touched { sequence: expected, records: record::change::touched(&value)? });
            expected = expected.next();
        }
        Ok(changes)
    }

    pub(super) fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        let register = self.register_id()?;
        if at == Sequence::default() {
            return Ok(Some(HistoryMark::new(register, at, &[])));
        }
        let stored = self.get(&keys::by_number(keys::CHANGE, at.0))?;
        Ok(stored.map(|stored| HistoryMark::new(register, at, &stored)))
    }
}

impl Present for Reader {
    fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        let stored = self.get(&keys::record(kind, id))?;
        stored.map(|bytes| record::decode_any(kind, id, &bytes)).transpose()
    }

    fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        let Some(bytes) = self.get(&keys::open_membership(slot))? else { return Ok(None) };
        record::open_membership::decode(&bytes)
    }

    fn owners(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Vec<IdentifierOwner>, StoreError> {
        let Some(bytes) = self.get(&keys::identifier(kind, key))? else { return Ok(Vec::new()) };
        record::identifier::decode(&bytes)
    }

    fn remembered(&self, name: &RequestName) -> Result<Option<Arc<IdempotentRequest>>, StoreError> {
        let Some(bytes) = self.get(&keys::request(name))? else { return Ok(None) };
        record::remembered::decode(name.clone(), &bytes).map(Arc::new).map(Some)
    }

    fn has_setting(&self, key: &SettingKey) -> Result<bool, StoreError> {
        Ok(self.get(&keys::setting(key))?.is_some())
    }

    fn client(&self, id: &ClientId) -> Result<Option<Arc<Client>>, StoreError> {
        let Some(bytes) = self.get(&keys::client(id))? else { return Ok(None) };
        record::client::decode(&bytes).map(Arc::new).map(Some)
    }
}

/// Reads; the database may panic on corrupt files, which is a failure like any other.
pub(super) fn contained<T>(
    reader: &Reader,
    read: impl FnOnce(&Reader) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    contain(|| read(reader)).unwrap_or_else(|Panicked| Err(reader.health.fail("reading", &not_understood())))
}

pub(super) fn not_understood() -> StoreError {
    StoreError::Corrupt { what: "page", reason: "the database files are corrupt there".to_owned() }
}

pub(super) fn corrupt(what: &'static str, reason: &str) -> StoreError {
    StoreError::Corrupt { what, reason: reason.to_owned() }
}

pub(super) fn number(key: &[u8]) -> Result<u64, StoreError> {
    keys::number_of(key).ok_or_else(|| corrupt("key", "it has no number"))
}

/// How a database can be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    /// Everything is on disk.
    Complete,
    /// It has failed, and closing it ends.
    Failed,
    /// Closing it may block forever, as after a full disk, or panic.
    Never,
}

/// Brings a database to disk as far as possible, before it is closed. Closing flushes it again.
fn closing(database: &Database, limit: Duration) -> Closing {
    match disk::flush_within(database.tree(), limit) {
        Ok(()) => match database.sync() {
            Ok(()) => Closing::Complete,
            // Closing syncs the file as well, and panics if that fails.
            Err(error) => {
                tracing::error!(%error, "the disk failed while the database was being closed; check it before the next start");
                Closing::Never
            }
        },
        Err(::sled::Error::Io(late)) if late.kind() == io::ErrorKind::TimedOut => Closing::Never,
        Err(_) => Closing::Failed,
    }
}

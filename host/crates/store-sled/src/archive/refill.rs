//! Filling an empty folder from a backup.
//!
//! **Invariant:** no other process or thread has the folder open, so there is no writer thread: values are written
//! here, in the order of their keys, and synced at the end.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use daftar_domain::audit::AuditEntry;
use daftar_domain::change::ChangedRecord;
use daftar_domain::photo::Photo;
use daftar_store::archive::{ApplyReport, Carried, Entry, Refill};
use daftar_store::segment::OpenSegment;
use daftar_store::{IdentifierOwner, StoreError, record};

use super::super::disk::{self, Disk};
use super::super::health::Health;
use super::super::keys;
use super::super::mark::Mark;
use super::super::open::{self, OpenError};
use super::super::reader::{Reader, corrupt};
use super::super::writer::State;

/// The bytes after which the database is flushed, so that few wait in memory.
const FLUSH_BYTES: usize = 64 * 1024 * 1024;

type KeyAndValue = (Vec<u8>, Vec<u8>);

/// A folder that is being filled.
pub struct SledRefill(Option<Filling>);

struct Filling {
    reader: Reader,
    disk: Disk,
    mark: Mark,
    carried: Carried,
    segment: OpenSegment,
    unflushed_bytes: usize,
    /// Released last: fields are dropped in this order.
    _lock: File,
}

impl SledRefill {
    /// Prepares a folder, which must not contain a register.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        let open::OpenFolder { database, disk, mark, unfinished: _, register: _, lock } =
            open::open(path, cache_bytes)?;
        let reader = Reader { database, health: Arc::new(Health::default()) };
        let refused = |reason: String| OpenError::Database { path: path.to_owned(), reason };
        for item in reader.database.tree().iter().keys() {
            let key = item.map_err(|error| refused(error.to_string()))?;
            if key != keys::FORMAT && key != keys::REGISTER {
                return Err(refused("it contains a register, and only an empty folder can be filled".to_owned()));
            }
        }
        Ok(Self(Some(Filling {
            reader,
            disk,
            mark,
            carried: Carried::default(),
            segment: OpenSegment::default(),
            unflushed_bytes: 0,
            _lock: lock,
        })))
    }

    /// Runs work on the folder in a thread for blocking work. Rejects all work after a failure.
    async fn fill<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Filling) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Some(mut filling) = self.0.take() else {
            return Err(StoreError::Failed("filling the store has failed before".into()));
        };
        let done = tokio::task::spawn_blocking(move || work(&mut filling).map(|done| (filling, done))).await;
        let (filling, done) = done.unwrap_or_else(|error| Err(StoreError::Failed(error.into())))?;
        self.0 = Some(filling);
        Ok(done)
    }
}

#[async_trait::async_trait]
impl Refill for SledRefill {
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        self.fill(move |filling| filling.put(entries)).await
    }

    async fn finish(mut self: Box<Self>) -> Result<ApplyReport, StoreError> {
        self.fill(Filling::finish).await.map(|()| ApplyReport::default())
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.reader.let_go();
    }
}

impl Filling {
    fn put(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        let mut values = Vec::with_capacity(entries.len());
        let mut owned = Vec::new();
        for entry in entries {
            self.add(entry, &mut values, &mut owned)?;
        }
        // Neighbouring values are stored together: writing them in the order of their keys is much cheaper.
        values.sort_unstable();
        owned.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        for (key, value) in values {
            self.insert(key, value)?;
        }
        for (key, owner) in owned {
            self.own(key, owner)?;
        }
        if self.unflushed_bytes >= FLUSH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.carried.finish()?;
        self.flush()?;
        self.disk.sync().map_err(|error| self.reader.health.fail("syncing the disk", &error))?;
        let acknowledged = State::read(&self.reader)?.acknowledged();
        self.mark
            .write_durably(acknowledged)
            .map_err(|error| self.reader.health.fail("writing the acknowledgement marker", &error))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.unflushed_bytes = 0;
        disk::flush(self.reader.database.tree()).map_err(|error| self.reader.health.fail("flushing", &error))
    }

    fn insert(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<Option<::sled::IVec>, StoreError> {
        self.unflushed_bytes = self.unflushed_bytes.saturating_add(key.len()).saturating_add(value.len());
        self.reader.database.insert(key, value).map_err(|error| self.reader.health.fail("writing", &error))
    }

    /// Adds an owner of an identifier. Most have one, so it is written first and corrected if there are others.
    fn own(&mut self, key: Vec<u8>, owner: IdentifierOwner) -> Result<(), StoreError> {
        let Some(before) = self.insert(key.clone(), record::identifier::encode(&[owner])?)? else { return Ok(()) };
        let mut owners = record::identifier::decode(&before)?;
        if owner.is_open && owners.iter().any(|other| other.is_open) {
            return Err(corrupt("identifier", "two records of the backup have it as current"));
        }
        owners.push(owner);
        owners.sort_unstable_by_key(|owner| (!owner.is_open, owner.id));
        self.insert(key, record::identifier::encode(&owners)?).map(|_| ())
    }

    /// Adds the keys and values of one entry.
    fn add(
        &mut self,
        entry: Entry,
        values: &mut Vec<KeyAndValue>,
        owned: &mut Vec<(Vec<u8>, IdentifierOwner)>,
    ) -> Result<(), StoreError> {
        match entry {
            Entry::Setting { kind, value } => {
                values.push((keys::setting(&record::setting::decode(kind, &value)?.key()), value));
            }
            Entry::Client { value } => values.push((keys::client(&record::client::decode(&value)?.id), value)),
            Entry::Counter { name, value } => values.push((keys::counter(&name), record::counter::encode(value)?)),
            Entry::CodeTablePart { number, value } => {
                values.push((keys::by_number(keys::CODE_TABLE, number), value));
            }
            Entry::Request { name, value } => values.push((keys::request(&name), value)),
            Entry::Photo { digest, bytes } => {
                let photo = Photo::new(bytes.to_vec(), |_| digest.0);
                let photo = photo.map_err(|error| corrupt("photo", &error.to_string()))?;
                let parts = (0..).zip(record::photo::encode(&photo)?);
                values.extend(parts.map(|(part, value)| (keys::photo_part(digest, part), value)));
            }
            Entry::Version { kind, id, version, is_present, value } => {
                let record = record::decode_any(kind, id, &value)?;
                let carried = self.carried.see(&record, is_present)?.into_iter();
                owned.extend(
                    carried.map(|(key, is_open)| (keys::identifier(kind, &key), IdentifierOwner { id, is_open })),
                );
                if !is_present {
                    values.push((keys::history(kind, id, version), value));
                    return Ok(());
                }
                if let ChangedRecord::ProgramMembership(membership) = &record
                    && membership.details.status().is_open()
                {
                    let slot = keys::open_membership(membership.details.slot());
                    values.push((slot, record::open_membership::encode(Some(id))?));
                }
                values.push((keys::record(kind, id), value));
            }
            Entry::Change { sequence, value } => values.push((keys::by_number(keys::CHANGE, sequence.0), value)),
            Entry::Audit { number, value } => {
                let lines: Vec<AuditEntry> = record::audit::decode(&value)?;
                values.push((keys::by_number(keys::AUDIT, number), value));
                self.segment.add(number, &lines);
                if let Some(segment) = self.segment.take_full() {
                    let key = keys::by_number(keys::AUDIT_SEGMENT, segment.last);
                    values.push((key, record::encode(&segment)?));
                }
            }
        }
        Ok(())
    }
}

//! Filling an empty folder with the contents of another store or a backup, and catching up a folder that was filled
//! before ([`super::catch_up`]).
//!
//! **Invariant:** no other process or thread has the folder open, so there is no writer thread: values are written
//! here, and are on disk in order. Until then the folder has the mark of an unfinished copy, which is written before the
//! first value.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use daftar_domain::audit::AuditEntry;
use daftar_domain::change::Sequence;
use daftar_domain::config::StoreBackend;
use daftar_domain::photo::Photo;
use daftar_store::archive::{self, ApplyReport, Carried, CatchUp, Ends, Entry, Held, Origin, Refill};
use daftar_store::segment::OpenSegment;
use daftar_store::{IdentifierOwner, StoreError, blocking, record};

use super::super::disk;
use super::super::group::Operation;
use super::super::health::Health;
use super::super::keys;
use super::super::mark::{Acknowledged, Mark};
use super::super::open::{self, OpenError};
use super::super::reader::{Reader, corrupt};
use super::super::unfinished::Unfinished;
use super::super::writer::{KEYS_PER_BATCH_MAX, State};
use super::catch_up::Known;

/// The bytes after which the database is flushed, so that few wait in memory.
const FLUSH_BYTES: usize = 64 * 1024 * 1024;

type KeyAndValue = (Vec<u8>, Vec<u8>);

/// A folder that is being filled or caught up.
pub struct SledRefill(Option<Filling>);

pub(super) struct Filling {
    pub(super) reader: Reader,
    mark: Mark,
    unfinished: Unfinished,
    carried: Carried,
    segment: OpenSegment,
    unflushed_bytes: usize,
    /// The last entry of the change log.
    sequence: Sequence,
    /// The value of the audit log that reports the last removal.
    removal: Option<u64>,
    /// The last write of the source.
    source: Option<archive::Mark>,
    /// True once the mark of an unfinished copy is written.
    is_marked: bool,
    /// True if the folder has to be compared with its source before a server opens it.
    requires_comparison: bool,
    /// The contents of a folder that is being caught up; none if it was empty.
    pub(super) known: Option<Known>,
    /// Released last: fields are dropped in this order.
    _lock: File,
}

impl SledRefill {
    /// Prepares a folder, which must not contain a register.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        let filling = Filling::open(path, cache_bytes)?;
        let refused = |reason: String| OpenError::Database { path: path.to_owned(), reason };
        open::check_copied(path, &filling.reader)?;
        for item in filling.reader.database.tree().iter().keys() {
            let key = item.map_err(|error| refused(error.to_string()))?;
            if key != keys::FORMAT && key != keys::REGISTER {
                return Err(refused("it contains a register, and only an empty folder can be filled".to_owned()));
            }
        }
        Ok(Self(Some(filling)))
    }

    /// Notes that a folder that was caught up was compared with its source, without differences: servers open it from
    /// now on.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn note_compared(path: &Path, cache_bytes: u64) -> Result<(), OpenError> {
        let mut filling = Filling::open(path, cache_bytes)?;
        let refused = |error: StoreError| OpenError::Database { path: path.to_owned(), reason: error.to_string() };
        if let Some(Origin::CaughtUp(held)) = filling.reader.origin().map_err(refused)? {
            filling.note(&Origin::Filled(held)).and_then(|()| filling.flush()).map_err(refused)?;
        }
        Ok(())
    }

    /// Starts to catch up a folder that was filled before, or whose catching up or comparison was interrupted.
    ///
    /// # Errors
    /// See [`OpenError`]: among them that it was not filled from another store, or was written to since.
    pub fn catch_up(path: &Path, cache_bytes: u64) -> Result<CatchUp, OpenError> {
        let mut filling = Filling::open(path, cache_bytes)?;
        let refused = |error: StoreError| OpenError::Database { path: path.to_owned(), reason: error.to_string() };
        let (held, is_complete, is_compared) = match filling.reader.origin().map_err(refused)? {
            None => return Err(OpenError::NotFilled(path.to_owned())),
            Some(Origin::Filling) => return Err(open::unfinished_fill(path)),
            Some(Origin::CatchingUp(held)) => (held, false, false),
            Some(Origin::CaughtUp(held)) => (held, true, false),
            Some(Origin::Filled(held)) => (held, true, true),
        };
        let ends = filling.reader.ends(&held).map_err(refused)?;
        let how = held.written_since(ends.sequence, ends.code_table_parts, ends.audit);
        if let Some(how) = how.filter(|_| is_complete) {
            return Err(OpenError::WrittenSince { path: path.to_owned(), how });
        }
        if is_complete {
            let Ends { sequence, code_table_parts, audit, .. } = ends;
            open::check_acknowledged(path, &Acknowledged { sequence: sequence.0, audit, code_table_parts })?;
        }
        let known = Known::read(&filling.reader, held.clone(), is_complete).map_err(refused)?;
        filling.segment = filling.reader.open_segment(held.audit).map_err(refused)?;
        (filling.sequence, filling.removal, filling.known) = (held.sequence, held.removal, Some(known));
        let refill = Box::new(Self(Some(filling)));
        Ok(CatchUp { backend: StoreBackend::Sled, held, ends, was_interrupted: !is_compared, refill })
    }

    /// Runs work on the folder in a thread for blocking work. Rejects all work after a failure.
    async fn fill<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Filling) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Some(mut filling) = self.0.take() else {
            return Err(StoreError::Failed("filling the store has failed before".into()));
        };
        let (filling, done) = blocking(move || work(&mut filling).map(|done| (filling, done))).await??;
        self.0 = Some(filling);
        Ok(done)
    }
}

#[async_trait::async_trait]
impl Refill for SledRefill {
    fn note_origin(&mut self, mark: &archive::Mark) {
        if let Some(filling) = &mut self.0 {
            filling.source = Some(mark.clone());
        }
    }

    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        self.fill(move |filling| filling.put(entries)).await
    }

    fn require_comparison(&mut self) {
        if let Some(filling) = &mut self.0 {
            filling.requires_comparison = true;
        }
    }

    async fn finish(mut self: Box<Self>) -> Result<ApplyReport, StoreError> {
        self.fill(Filling::finish).await
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.reader.let_go();
    }
}

impl Filling {
    fn open(path: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        let open::OpenFolder { database, mark, unfinished, register: _, lock } = open::open(path, cache_bytes)?;
        let reader = Reader { database, health: Arc::new(Health::default()) };
        Ok(Self {
            reader,
            mark,
            unfinished,
            carried: Carried::default(),
            segment: OpenSegment::default(),
            unflushed_bytes: 0,
            sequence: Sequence::default(),
            removal: None,
            source: None,
            is_marked: false,
            requires_comparison: false,
            known: None,
            _lock: lock,
        })
    }

    /// Writes the mark of an unfinished copy, once.
    fn mark(&mut self) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.is_marked, true) {
            return Ok(());
        }
        if self.unfinished.is_saved() {
            self.unfinished.forget().map_err(|error| self.reader.health.fail("writing", &error))?;
        }
        self.note(&self.known.as_ref().map_or(Origin::Filling, |known| Origin::CatchingUp(known.held.clone())))
    }

    fn note(&self, origin: &Origin) -> Result<(), StoreError> {
        let written = self.reader.database.insert(keys::ORIGIN.to_vec(), record::origin::encode(origin)?);
        written.map(drop).map_err(|error| self.reader.health.fail("writing", &error))
    }

    fn put(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        self.mark()?;
        let entries = self.without_old_audit(entries)?;
        let mut values = Vec::with_capacity(entries.len());
        let mut owned = Vec::new();
        for entry in entries {
            self.add(entry, &mut values, &mut owned)?;
        }
        // Neighbouring values are stored together: writing them in the order of their keys is much cheaper.
        values.sort_unstable();
        owned.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        for (key, value) in values {
            self.write(key, value)?;
        }
        for (key, owner) in owned {
            self.own(key, owner)?;
        }
        if self.unflushed_bytes >= FLUSH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ApplyReport, StoreError> {
        self.mark()?;
        self.carried.finish()?;
        let report = self.finish_catch_up()?;
        let state = State::read(&self.reader)?;
        match self.source.take() {
            Some(source) => {
                let last = state.last;
                if last.sequence != source.sequence || source.records.iter().any(|(kind, id)| last.key(*kind) != *id) {
                    let reason =
                        "it has fewer or more records than its source; delete the folder, and fill an empty one";
                    return Err(corrupt("register", reason));
                }
                let held = Held {
                    register: source.register,
                    sequence: source.sequence,
                    code_table_parts: state.code_table_parts,
                    audit: state.last_audit,
                    audit_values: self.count_audit()?,
                    removal: self.removal,
                };
                self.note(&if self.requires_comparison { Origin::CaughtUp(held) } else { Origin::Filled(held) })?;
            }
            None => self.remove([keys::ORIGIN.to_vec()])?,
        }
        self.flush()?;
        self.mark
            .write_durably(state.acknowledged())
            .map_err(|error| self.reader.health.fail("writing the acknowledgement marker", &error))?;
        Ok(report)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.unflushed_bytes = 0;
        disk::flush(&self.reader.database).map_err(|error| self.reader.health.fail("flushing", &error))
    }

    /// Number of values of the audit log.
    fn count_audit(&self) -> Result<u64, StoreError> {
        let mut count = 0;
        for key in self.reader.database.tree().scan_prefix([keys::AUDIT]).keys() {
            key.map_err(|error| self.reader.health.fail("scanning", &error))?;
            count += 1;
        }
        Ok(count)
    }

    pub(super) fn remove(&self, keys: impl IntoIterator<Item = Vec<u8>>) -> Result<(), StoreError> {
        let removed: Vec<Operation> = keys.into_iter().map(|key| Operation { key, value: None }).collect();
        for some in removed.chunks(KEYS_PER_BATCH_MAX) {
            let applied = self.reader.database.apply(some.iter());
            applied.map_err(|error| self.reader.health.fail("removing", &error))?;
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<Option<::sled::IVec>, StoreError> {
        self.unflushed_bytes = self.unflushed_bytes.saturating_add(key.len()).saturating_add(value.len());
        self.reader.database.insert(key, value).map_err(|error| self.reader.health.fail("writing", &error))
    }

    /// Adds an owner of an identifier. Most have one, so it is written first and corrected if there are others.
    fn own(&mut self, key: Vec<u8>, owner: IdentifierOwner) -> Result<(), StoreError> {
        if self.known.is_some() {
            return self.own_again(key, owner);
        }
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
                let carried = self.carried.see(&record, is_present)?;
                if is_present {
                    self.disown(kind, id, &carried)?;
                }
                owned.extend(
                    carried
                        .into_iter()
                        .map(|(key, is_open)| (keys::identifier(kind, &key), IdentifierOwner { id, is_open })),
                );
                if !is_present {
                    values.push((keys::history(kind, id, version), value));
                    return Ok(());
                }
                if let Some(slot) = self.slot_to_hold(&record)? {
                    values.push((keys::open_membership(slot), record::open_membership::encode(Some(id))?));
                }
                values.push((keys::record(kind, id), value));
            }
            Entry::Change { sequence, value } => {
                if sequence != self.sequence.next() {
                    return Err(corrupt("order of writes", "a write is missing"));
                }
                self.sequence = sequence;
                values.push((keys::by_number(keys::CHANGE, sequence.0), value));
            }
            Entry::Audit { number, value } => {
                let lines: Vec<AuditEntry> = record::audit::decode(&value)?;
                if lines.iter().any(AuditEntry::reports_removal) {
                    self.removal = Some(number);
                }
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

//! The store that forgets, taken as it stands and filled: all at once, as it is small.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::archive::{Archive, Entry, Mark, Refill, SettingKind, Snapshot};
use crate::{IdentifierOwner, StoreError, StoredCodeTable, record};
use daftar_domain::change::ChangedRecord;
use daftar_domain::photo::{Photo, PhotoDigest, PhotoError};
use daftar_domain::record::{RecordId, RecordKind};

use super::{MemoryStore, State};

/// How many things one step gives.
const STEP_ENTRIES: usize = 64;

#[async_trait::async_trait]
impl Archive for MemoryStore {
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        let state = self.state();
        let mark = Mark {
            register: state.changes.register(),
            sequence: state.last.sequence,
            records: RecordKind::ALL.map(|kind| (kind, state.last.key(kind))),
        };
        Ok(Box::new(MemorySnapshot { mark, entries: state.entries()?.into() }))
    }
}

/// What there was.
struct MemorySnapshot {
    mark: Mark,
    entries: VecDeque<Entry>,
}

#[async_trait::async_trait]
impl Snapshot for MemorySnapshot {
    fn mark(&self) -> &Mark {
        &self.mark
    }

    async fn next(&mut self) -> Result<Vec<Entry>, StoreError> {
        let count = self.entries.len().min(STEP_ENTRIES);
        Ok(self.entries.drain(..count).collect())
    }
}

impl State {
    fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        for setting in self.settings.values() {
            let kind = SettingKind::of(&setting.key());
            entries.push(Entry::Setting { kind, value: record::setting::encode(setting)? });
        }
        for client in self.records.clients.values() {
            entries.push(Entry::Client { value: record::client::encode(client)? });
        }
        for (name, value) in &self.counters {
            entries.push(Entry::Counter { name: name.clone(), value: *value });
        }
        for (number, part) in (0..).zip(code_table_parts(&self.code_table)) {
            entries.push(Entry::CodeTablePart { number, value: record::code_table::encode(&part)? });
        }
        for (name, request) in &self.records.remembered {
            entries.push(Entry::Request { name: name.clone(), value: record::remembered::encode(request)? });
        }
        let mut photos = BTreeSet::<PhotoDigest>::new();
        for ((kind, id, version), versioned) in &self.versions {
            if let Some(photo) = versioned.photo()
                && photos.insert(photo.digest)
                && let Some(photo) = self.records.photos.get(&photo.digest)
            {
                entries.push(Entry::Photo { digest: photo.reference().digest, bytes: Arc::clone(photo.bytes()) });
            }
            let present = self.records.by_kind.get(&(*kind, *id)).map(|present| present.place().2);
            let value = record::encode_any(versioned)?;
            let (kind, id, version) = (*kind, *id, *version);
            entries.push(Entry::Version { kind, id, version, is_present: present == Some(version), value });
        }
        for (sequence, stored) in self.changes.all() {
            entries.push(Entry::Change { sequence, value: stored.clone() });
        }
        for (number, line) in self.audit.all() {
            for value in record::audit::encode(std::slice::from_ref(line))? {
                entries.push(Entry::Audit { number, value });
            }
        }
        Ok(entries)
    }
}

/// The table in parts that fit into a value.
fn code_table_parts(table: &StoredCodeTable) -> Vec<StoredCodeTable> {
    let per_value = record::code_table::ENTRIES_PER_VALUE_MAX;
    let codes = table.codes.chunks(per_value);
    let codes = codes.map(|codes| StoredCodeTable { codes: codes.to_vec(), editions: Vec::new() });
    let editions = table.editions.chunks(per_value);
    codes.chain(editions.map(|editions| StoredCodeTable { codes: Vec::new(), editions: editions.to_vec() })).collect()
}

/// A store that is being filled.
pub struct MemoryRefill(Arc<MemoryStore>);

impl MemoryRefill {
    /// Fills a store, which must be empty.
    #[must_use]
    pub fn new(store: Arc<MemoryStore>) -> Self {
        Self(store)
    }
}

#[async_trait::async_trait]
impl Refill for MemoryRefill {
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        let mut state = self.0.state();
        entries.into_iter().try_for_each(|entry| state.put(entry))
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}

impl State {
    fn put(&mut self, entry: Entry) -> Result<(), StoreError> {
        match entry {
            Entry::Setting { kind, value } => {
                let setting = record::setting::decode(kind, &value)?;
                self.settings.insert(setting.key(), Arc::new(setting));
            }
            Entry::Client { value } => {
                let client = record::client::decode(&value)?;
                self.records.clients.insert(client.id.clone(), Arc::new(client));
            }
            Entry::Counter { name, value } => {
                self.counters.insert(name, value);
            }
            Entry::CodeTablePart { value, .. } => {
                let part = record::code_table::decode(&value)?;
                self.numbering.take_up(part.clone());
                self.code_table.codes.extend(part.codes);
                self.code_table.editions.extend(part.editions);
            }
            Entry::Request { name, value } => {
                let request = record::remembered::decode(name.clone(), &value)?;
                self.records.remembered.insert(name, Arc::new(request));
            }
            Entry::Photo { digest, bytes } => {
                let photo = Photo::new(bytes.to_vec(), |_| digest.0);
                let reason = |error: PhotoError| StoreError::Corrupt { what: "photo", reason: format!("{error}") };
                self.records.photos.insert(digest, photo.map_err(reason)?);
            }
            Entry::Version { kind, id, version, is_present, value } => {
                let versioned = record::decode_any(kind, id, &value)?;
                self.own(kind, id, &versioned);
                if is_present {
                    self.last.raise(kind, id);
                    if let ChangedRecord::ProgramMembership(membership) = &versioned
                        && membership.details.status().is_open()
                    {
                        self.records.open_memberships.insert(membership.details.slot(), Some(id));
                    }
                    self.records.by_kind.insert((kind, id), versioned.clone());
                }
                self.versions.insert((kind, id, version), versioned);
            }
            Entry::Change { sequence, value } => {
                self.last.sequence = sequence;
                self.changes.put(value);
            }
            Entry::Audit { number, value } => self.audit.put(number, record::audit::decode(&value)?),
        }
        Ok(())
    }

    /// Makes the record the owner of its identifiers: of those of the last version as they are, of all before as ended.
    fn own(&mut self, kind: RecordKind, id: RecordId, versioned: &ChangedRecord) {
        for owners in self.records.owners.iter_mut().filter(|((of, _), _)| *of == kind).map(|(_, owners)| owners) {
            owners.iter_mut().filter(|owner| owner.id == id).for_each(|owner| owner.is_open = false);
        }
        for identifier in versioned.identifiers().iter() {
            let owners = self.records.owners.entry((kind, identifier.key.clone())).or_default();
            match owners.iter_mut().find(|owner| owner.id == id) {
                Some(owner) => owner.is_open |= identifier.is_open(),
                None => owners.push(IdentifierOwner { id, is_open: identifier.is_open() }),
            }
        }
        for owners in self.records.owners.values_mut() {
            owners.sort_unstable_by_key(|owner| (!owner.is_open, owner.id));
        }
    }
}

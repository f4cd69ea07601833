//! A store that forgets: for tests.

mod archive;
mod audit_log;
mod change_log;
mod shared;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use daftar_domain::audit::AuditEntry;
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::deployment::{Setting, SettingKey};
use daftar_domain::idempotency::{IdempotencyKey, RememberedRequest, RequestName};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoReference;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

pub use self::archive::MemoryRefill;
use self::audit_log::AuditLines;
use self::change_log::Changes;
use self::shared::{Common, Hearing};
use super::numbering::Numbering;
use super::plan::{Last, Planned, Planner, Present, Recent};
use super::records::Records;
use super::{ChangeSink, Committed, IdentifierOwner, Store, StoreError, StoredCodeTable, Write, changes_records};

/// Keeps everything in memory, and nothing beyond its own life.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    hearing: Hearing,
}

#[derive(Default)]
struct State {
    sink: Option<Arc<dyn ChangeSink>>,
    last: Last,
    recent: Recent,
    changes: Changes,
    records: Records,
    versions: BTreeMap<(RecordKind, RecordId, VersionId), ChangedRecord>,
    audit: AuditLines,
    numbering: Numbering,
    code_table: StoredCodeTable,
    settings: BTreeMap<SettingKey, Arc<Setting>>,
    counters: BTreeMap<String, u64>,
    common: Common,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn write(&self, write: Write, request: Option<RememberedRequest>) -> Result<Committed, StoreError> {
        let (committed, before, now) = {
            let mut state = self.state();
            let before = state.common.generation;
            let committed = state.commit(write, request)?;
            (committed, before, state.common.generation)
        };
        if now != before {
            self.hearing.tell(now);
        }
        Ok(committed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another test thread leaves the maps whole: each change is one insertion after the other.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn commit(&mut self, mut write: Write, request: Option<RememberedRequest>) -> Result<Committed, StoreError> {
        if self.sink.is_none() && changes_records(&write) {
            return Err(StoreError::NotReady);
        }
        let new_codes = write.take_new_codes();
        let codes = self.numbering.of_write(&new_codes)?;
        let mut planner = Planner::new(&self.records, self.last, &mut self.recent);
        let planned = planner.plan(write, request)?;
        planner.accept(&planned);
        self.last = planner.last();
        self.changes.add(&planned)?;
        self.common.generation.deployment += u64::from(!codes.is_empty());
        self.code_table.codes.extend(codes.iter().cloned());
        self.numbering.take_up(StoredCodeTable { codes, editions: Vec::new() });
        for new in &new_codes {
            self.counters.extend(new.counters.iter().cloned());
            new.heard.given();
        }
        let Planned { committed, changes, outcome, audit, .. } = planned;
        self.common.generation.clients += u64::from(!outcome.clients.is_empty());
        self.common.generation.deployment += u64::from(!outcome.settings.is_empty());
        for change in &changes {
            self.versions.insert(change.record.place(), change.record.clone());
        }
        for (key, setting) in self.records.take_up(outcome) {
            match setting {
                Some(setting) => drop(self.settings.insert(key, setting)),
                None => drop(self.settings.remove(&key)),
            }
        }
        self.audit.extend(audit);
        if let Some(sink) = self.sink.as_ref().filter(|_| !changes.is_empty()) {
            sink.apply(&changes);
        }
        Ok(committed)
    }
}

#[async_trait::async_trait]
impl Store for MemoryStore {
    fn attach_sink(&self, sink: Arc<dyn ChangeSink>) -> Result<Sequence, StoreError> {
        let mut state = self.state();
        if state.sink.is_some() {
            return Err(StoreError::SinkAttached);
        }
        state.sink = Some(sink);
        Ok(state.last.sequence)
    }

    fn readiness(&self) -> Result<(), StoreError> {
        if self.state().sink.is_some() { Ok(()) } else { Err(StoreError::NotReady) }
    }

    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        self.write(write, None)
    }

    async fn commit_once(&self, write: Write, request: RememberedRequest) -> Result<Committed, StoreError> {
        self.write(write, Some(request))
    }

    async fn remembered(
        &self,
        client: &ClientId,
        key: &IdempotencyKey,
    ) -> Result<Vec<Arc<RememberedRequest>>, StoreError> {
        let name = |part| RequestName { client: client.clone(), key: key.clone(), part };
        let state = self.state();
        let named = state.records.remembered.range(name(0)..=name(u16::MAX));
        Ok(named.map(|(_, request)| Arc::clone(request)).collect())
    }

    async fn remembered_count(&self, client: &ClientId) -> Result<u64, StoreError> {
        Ok(self.state().records.remembered.keys().filter(|name| name.client == *client).count() as u64)
    }

    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        let remembered = &mut self.state().records.remembered;
        let before = remembered.len();
        remembered.retain(|_, request| request.is_kept_at(now));
        Ok(before.saturating_sub(remembered.len()) as u64)
    }

    async fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        self.state().records.record(kind, id)
    }

    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError> {
        let state = self.state();
        let found: Result<Vec<_>, _> = ids.iter().map(|id| state.records.record(kind, *id)).collect();
        Ok(found?.into_iter().flatten().collect())
    }

    async fn record_version(
        &self,
        kind: RecordKind,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<ChangedRecord>, StoreError> {
        Ok(self.state().versions.get(&(kind, id, version)).cloned())
    }

    async fn scan_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        Ok(self.state().records.scan(kind, after, limit).collect())
    }

    async fn photo(&self, reference: PhotoReference) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(self.state().records.photos.get(&reference.digest).map(|photo| Arc::clone(photo.bytes())))
    }

    async fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        self.state().records.open_membership(slot)
    }

    async fn identifier_owners(
        &self,
        kind: RecordKind,
        key: &IdentifierKey,
        limit: usize,
    ) -> Result<Vec<IdentifierOwner>, StoreError> {
        let mut owners = self.state().records.owners(kind, key)?;
        owners.truncate(limit);
        Ok(owners)
    }

    async fn clients(&self) -> Result<Vec<Client>, StoreError> {
        self.hearing.answer()?;
        Ok(self.state().records.clients.values().map(|client| Client::clone(client)).collect())
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        self.hearing.answer()?;
        Ok(self.state().settings.values().map(|setting| Setting::clone(setting)).collect())
    }

    async fn code_table(&self) -> Result<StoredCodeTable, StoreError> {
        Ok(self.state().code_table.clone())
    }

    async fn number_codes(
        &self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError> {
        let mut state = self.state();
        let numbered = state.numbering.number(codes, editions)?;
        let added = numbered.added;
        if !(added.codes.is_empty() && added.editions.is_empty()) {
            state.common.generation.deployment += 1;
            self.hearing.tell(state.common.generation);
        }
        state.numbering.take_up(added.clone());
        state.code_table.codes.extend(added.codes);
        state.code_table.editions.extend(added.editions);
        Ok((numbered.codes, numbered.editions))
    }

    async fn append_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        self.state().audit.extend(entries);
        Ok(())
    }

    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        Ok(self.state().audit.newest(limit))
    }

    async fn raise_counter(&self, name: &str, value: u64) -> Result<(), StoreError> {
        let mut state = self.state();
        let counter = state.counters.entry(name.to_owned()).or_default();
        *counter = value.max(*counter);
        Ok(())
    }

    async fn counter(&self, name: &str) -> Result<Option<u64>, StoreError> {
        Ok(self.state().counters.get(name).copied())
    }

    async fn counters(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let state = self.state();
        let from_prefix = state.counters.range(prefix.to_owned()..);
        let named = from_prefix.take_while(|(name, _)| name.starts_with(prefix));
        Ok(named.map(|(name, value)| (name.clone(), *value)).collect())
    }

    async fn remove_counters(&self, prefix: &str) -> Result<(), StoreError> {
        self.state().counters.retain(|name, _| !name.starts_with(prefix));
        Ok(())
    }
}

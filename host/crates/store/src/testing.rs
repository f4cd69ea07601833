//! A proxy of another store, for tests.
//!
//! It provides the shared state of servers of one register to servers of one process, and can fail, stop responding and
//! switch to another store.
//!
//! **Invariant:** nothing outside tests uses this.

mod minute;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Notify;

use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_domain::call_counts::{OfDay, OfMinute, OfWindow, WINDOW, Wanted};
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::context::Clock;
use daftar_domain::deployment::Setting;
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoReference;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use self::minute::{Minute, lease};
use super::audit_log::{AuditRemoval, AuditRemoved};
use super::change_log::{HistoryMark, RegisterId, Touched};
use super::overlay::Overlay;
use super::record::setting::{SettingKind, SettingRange};
use super::shared::{CodeLabel, Generation, History, OtherReaders, ReportViews, Shared, StoredList, Turn};
use super::{
    ChangeSink, Committed, IdentifierOwner, Operation, Store, StoreError, StoredCodeTable, Write, changes_records,
};

/// Reads the audit log of any store.
#[async_trait::async_trait]
pub trait AuditReads {
    /// Returns up to `limit` entries of the audit log, newest first.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError>;
}

#[async_trait::async_trait]
impl<S: Store + ?Sized> AuditReads for S {
    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        let bounds = AuditBounds { lines_max: limit, examined_max: usize::MAX };
        Ok(self.audit_page(AuditQuery::default(), AuditPosition::END, bounds).await?.entries)
    }
}

/// Forwards all calls to a store, and keeps the shared state of servers outside its records.
pub struct ProxyStore {
    state: Mutex<State>,
    is_in_transactions: bool,
    changed: Notify,
    /// Number of notified changes.
    notified: AtomicU64,
    is_deaf: AtomicBool,
    is_unavailable: AtomicBool,
    /// Number of lookups of records and of owners of identifiers.
    lookups: AtomicU64,
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Locked while a counter is raised or lowered.
    counting: tokio::sync::Mutex<()>,
    started: Instant,
}

/// The store, and the shared state.
struct State {
    base: Arc<dyn Store>,
    generation: Generation,
    kept_once: BTreeMap<String, Vec<u8>>,
    minutes: BTreeMap<String, Minute>,
    /// The time of each call of a window.
    windows: BTreeMap<String, Vec<Duration>>,
    list: StoredList,
    named: Vec<[u8; 32]>,
    time: Timestamp,
    files: BTreeMap<[u8; 32], Vec<u8>>,
    labels: Vec<CodeLabel>,
}

impl ProxyStore {
    /// A proxy of that store, which no other program changes.
    pub fn new(base: Arc<dyn Store>) -> Self {
        let state = State {
            base,
            generation: Generation::default(),
            kept_once: BTreeMap::new(),
            minutes: BTreeMap::new(),
            windows: BTreeMap::new(),
            list: StoredList::default(),
            named: Vec::new(),
            time: Timestamp::default(),
            files: BTreeMap::new(),
            labels: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            is_in_transactions: false,
            changed: Notify::new(),
            notified: AtomicU64::default(),
            is_deaf: AtomicBool::default(),
            is_unavailable: AtomicBool::default(),
            lookups: AtomicU64::default(),
            turn: Arc::default(),
            counting: tokio::sync::Mutex::default(),
            started: Instant::now(),
        }
    }

    /// A proxy of that store with an overlay: every read goes through a transaction, and every write of records is
    /// committed to a transaction of its own before it is executed.
    pub fn in_transactions(base: Arc<dyn Store>) -> Self {
        Self { is_in_transactions: true, ..Self::new(base) }
    }

    /// Disables or enables the notification of changes, like a lost connection of a listener.
    pub fn set_deaf(&self, is_deaf: bool) {
        self.is_deaf.store(is_deaf, Ordering::Release);
        self.wake();
    }

    /// Switches to another store, as after a failover; this one's state is copied to it.
    pub fn answer_as(&self, other: &Self) {
        let History([life, _]) = self.state().generation.history;
        std::mem::swap(&mut *self.state(), &mut *other.state());
        self.state().generation.history = History([life + 1, 0]);
    }

    /// Sets the time of the shared clock.
    pub fn set_time(&self, time: Timestamp) {
        self.state().time = time;
    }

    /// Number of records and owners of identifiers that were looked up.
    pub fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }

    fn note_lookups(&self, count: usize) {
        self.lookups.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The labels stored last.
    pub fn labels(&self) -> Vec<CodeLabel> {
        self.state().labels.clone()
    }

    /// Disables or enables reads of the cached data of servers, as when a database does not respond.
    pub fn set_away(&self, is_unavailable: bool) {
        self.is_unavailable.store(is_unavailable, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another test thread leaves the maps valid: each change is a single insertion.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The base store.
    fn base(&self) -> Arc<dyn Store> {
        Arc::clone(&self.state().base)
    }

    /// The store for all calls except writes.
    fn seen(&self) -> Arc<dyn Store> {
        let base = self.base();
        if self.is_in_transactions { Arc::new(Overlay::transaction(base)) } else { base }
    }

    async fn write(&self, write: Write, request: Option<IdempotentRequest>) -> Result<Committed, StoreError> {
        let (clients, deployment) = raised_by(&write);
        let base = self.base();
        let write = if self.is_in_transactions && is_of_records(&write) {
            let (at, source) = (write.at, write.source.clone());
            let transaction = Overlay::transaction(Arc::clone(&base));
            transaction.commit(write).await?;
            transaction.take(at, source)
        } else {
            write
        };
        let committed = match request {
            Some(request) => base.commit_once(write, request).await?,
            None => base.commit(write).await?,
        };
        self.raise(clients, deployment);
        Ok(committed)
    }

    /// Counts a change of clients or of the deployment, and notifies the servers.
    fn raise(&self, clients: u64, deployment: u64) {
        if clients + deployment == 0 {
            return;
        }
        let now = {
            let generation = &mut self.state().generation;
            generation.clients += clients;
            generation.deployment += deployment;
            *generation
        };
        if !self.is_deaf.load(Ordering::Acquire) {
            self.notified.fetch_max(now.changes(), Ordering::AcqRel);
            self.wake();
        }
    }

    /// Wakes the waiting servers, or ends their next wait immediately.
    fn wake(&self) {
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// Fails while the store is set to be unavailable.
    fn answer(&self) -> Result<(), StoreError> {
        if self.is_unavailable.load(Ordering::Acquire) {
            Err(StoreError::Failed("it is unavailable".into()))
        } else {
            Ok(())
        }
    }
}

/// The increments of the generations of clients and of the deployment by a write.
fn raised_by(write: &Write) -> (u64, u64) {
    let any = |is: fn(&Operation) -> bool| u64::from(write.operations.iter().any(is));
    let clients = any(|operation| matches!(operation, Operation::CreateClient(_) | Operation::UpdateClient(..)));
    let settings = any(|operation| {
        matches!(operation, Operation::PutSetting(_) | Operation::AddSetting(_) | Operation::RemoveSetting(_))
    });
    let codes = u64::from(write.new_codes().any(|new| !new.codes.is_empty()));
    (clients, settings + codes)
}

/// True if a transaction supports the write.
fn is_of_records(write: &Write) -> bool {
    let is_part = |operation: &Operation| match operation {
        Operation::Create(_) | Operation::Update(..) | Operation::PutPhoto(_) | Operation::NumberCodes(_) => true,
        Operation::CreateClient(_)
        | Operation::UpdateClient(..)
        | Operation::PutSetting(_)
        | Operation::AddSetting(_)
        | Operation::RemoveSetting(_) => false,
    };
    changes_records(write) && write.operations.iter().all(is_part)
}

#[async_trait::async_trait]
impl Store for ProxyStore {
    fn attach_sink(&self, sink: Arc<dyn ChangeSink>) -> Result<Sequence, StoreError> {
        self.base().attach_sink(sink)
    }

    fn readiness(&self) -> Result<(), StoreError> {
        self.seen().readiness()
    }

    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        self.write(write, None).await
    }

    async fn commit_once(&self, write: Write, request: IdempotentRequest) -> Result<Committed, StoreError> {
        self.write(write, Some(request)).await
    }

    async fn remembered(
        &self,
        client: &ClientId,
        key: &IdempotencyKey,
    ) -> Result<Vec<Arc<IdempotentRequest>>, StoreError> {
        self.seen().remembered(client, key).await
    }

    async fn remembered_count(&self, client: &ClientId) -> Result<u64, StoreError> {
        self.seen().remembered_count(client).await
    }

    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.seen().forget_requests(now).await
    }

    async fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        self.note_lookups(1);
        self.seen().record(kind, id).await
    }

    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError> {
        self.note_lookups(ids.len());
        self.seen().records(kind, ids).await
    }

    async fn record_version(
        &self,
        kind: RecordKind,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<ChangedRecord>, StoreError> {
        self.seen().record_version(kind, id, version).await
    }

    async fn scan_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        self.seen().scan_records(kind, after, limit).await
    }

    async fn photo(&self, reference: PhotoReference) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.seen().photo(reference).await
    }

    async fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        self.seen().open_membership(slot).await
    }

    async fn identifier_owners(
        &self,
        kind: RecordKind,
        key: &IdentifierKey,
        limit: usize,
    ) -> Result<Vec<IdentifierOwner>, StoreError> {
        self.note_lookups(1);
        self.seen().identifier_owners(kind, key, limit).await
    }

    async fn clients(&self) -> Result<Vec<Client>, StoreError> {
        self.answer()?;
        self.seen().clients().await
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        self.answer()?;
        self.seen().settings().await
    }

    async fn settings_of(&self, kind: SettingKind, range: SettingRange<'_>) -> Result<Vec<Setting>, StoreError> {
        self.seen().settings_of(kind, range).await
    }

    async fn setting_count(&self, kind: SettingKind, prefix: &[u8]) -> Result<u64, StoreError> {
        self.seen().setting_count(kind, prefix).await
    }

    async fn code_table(&self) -> Result<StoredCodeTable, StoreError> {
        self.seen().code_table().await
    }

    async fn number_codes(
        &self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError> {
        let store = self.seen();
        let before = store.code_table().await?;
        let numbers = store.number_codes(codes, editions).await?;
        let after = store.code_table().await?;
        let is_raised = (before.codes.len(), before.editions.len()) != (after.codes.len(), after.editions.len());
        self.raise(0, u64::from(is_raised));
        Ok(numbers)
    }

    async fn append_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        self.seen().append_audit(entries).await
    }

    async fn audit_page(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError> {
        self.seen().audit_page(query, before, bounds).await
    }

    async fn remove_audit(&self, removal: AuditRemoval) -> Result<Option<AuditRemoved>, StoreError> {
        self.seen().remove_audit(removal).await
    }

    async fn register_id(&self) -> Result<RegisterId, StoreError> {
        self.seen().register_id().await
    }

    async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        self.seen().changes_after(after, limit).await
    }

    async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        self.seen().history_mark(at).await
    }

    async fn raise_counter(&self, name: &str, value: u64) -> Result<(), StoreError> {
        self.seen().raise_counter(name, value).await
    }

    async fn counter(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.seen().counter(name).await
    }

    async fn counters(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
        self.seen().counters(prefix).await
    }

    async fn remove_counters(&self, prefix: &str) -> Result<(), StoreError> {
        self.seen().remove_counters(prefix).await
    }
}

#[async_trait::async_trait]
impl Shared for ProxyStore {
    async fn generation(&self) -> Result<Generation, StoreError> {
        self.answer()?;
        Ok(self.state().generation)
    }

    async fn heard(&self) {
        self.changed.notified().await;
    }

    fn is_listening(&self) -> bool {
        !self.is_deaf.load(Ordering::Acquire)
    }

    fn rest_on(&self, _: History, _: Option<Arc<dyn Clock>>) {}

    async fn other_readers(&self) -> Result<OtherReaders, StoreError> {
        Ok(OtherReaders::default())
    }

    async fn report_views(&self) -> Result<ReportViews, StoreError> {
        Ok(ReportViews::Current)
    }

    fn heard_of(&self) -> u64 {
        self.notified.load(Ordering::Acquire)
    }

    async fn take(&self, name: &str, wanted: Wanted, limit: u32) -> Result<OfDay, StoreError> {
        let _counting = self.counting.lock().await;
        let base = self.base();
        let before = base.counter(name).await?.unwrap_or(0);
        let left = limit.saturating_sub(u32::try_from(before).unwrap_or(u32::MAX));
        let taken = if left < wanted.least { 0 } else { left.min(wanted.most) };
        let count = before + u64::from(taken);
        base.raise_counter(name, count).await?;
        Ok(OfDay { taken, count })
    }

    async fn give_back(&self, name: &str, calls: u32) -> Result<(), StoreError> {
        let _counting = self.counting.lock().await;
        let base = self.base();
        let Some(before) = base.counter(name).await? else { return Ok(()) };
        // No counter of a test has a name that begins with another's.
        base.remove_counters(name).await?;
        base.raise_counter(name, before.saturating_sub(calls.into())).await
    }

    async fn lease(&self, name: &str, wanted: Wanted, per_minute: u32) -> Result<OfMinute, StoreError> {
        let now_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.state();
        let minute = state.minutes.entry(name.to_owned()).or_default();
        let (leased, then) = lease(*minute, now_ns, wanted, per_minute);
        *minute = then;
        Ok(leased)
    }

    async fn window(&self, name: &str, calls: u32, limit: u32) -> Result<OfWindow, StoreError> {
        let now = self.started.elapsed();
        let mut state = self.state();
        let window = state.windows.entry(name.to_owned()).or_default();
        window.retain(|called_at| now.saturating_sub(*called_at) < WINDOW);
        let is_taken = window.len() as u64 + u64::from(calls) <= u64::from(limit);
        window.extend((0..calls).filter(|_| is_taken).map(|_| now));
        let until_left = window.iter().map(|called_at| (*called_at + WINDOW).saturating_sub(now)).collect();
        Ok(OfWindow { is_taken, until_left })
    }

    async fn forget_full_minutes(&self) -> Result<u64, StoreError> {
        let now = self.started.elapsed();
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.state();
        let State { minutes, windows, .. } = &mut *state;
        let before = minutes.len() + windows.len();
        minutes.retain(|_, minute| minute.full_at_ns > now_ns);
        windows.retain(|_, window| window.iter().any(|called_at| now.saturating_sub(*called_at) < WINDOW));
        Ok(before.saturating_sub(minutes.len() + windows.len()) as u64)
    }

    async fn plugin_list(&self) -> Result<StoredList, StoreError> {
        Ok(self.state().list.clone())
    }

    async fn replace_plugin_list(&self, seen: u64, list: &[u8], named: &[[u8; 32]]) -> Result<u64, StoreError> {
        let revision = {
            let mut state = self.state();
            if state.list.revision != seen {
                return Err(StoreError::Overtaken);
            }
            let before = std::mem::replace(&mut state.named, named.to_vec());
            state.files.retain(|digest, _| named.contains(digest) || before.contains(digest));
            state.list = StoredList { revision: seen + 1, bytes: list.to_vec() };
            state.list.revision
        };
        self.raise(0, 1);
        Ok(revision)
    }

    async fn plugin_file(&self, digest: [u8; 32]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state().files.get(&digest).cloned())
    }

    async fn put_plugin_file(&self, digest: [u8; 32], bytes: Vec<u8>) -> Result<(), StoreError> {
        self.state().files.entry(digest).or_insert(bytes);
        Ok(())
    }

    async fn put_labels(&self, labels: Vec<CodeLabel>) -> Result<(), StoreError> {
        self.answer()?;
        self.state().labels = labels;
        Ok(())
    }

    async fn turn(&self) -> Result<Turn, StoreError> {
        Ok(Box::new(Arc::clone(&self.turn).lock_owned().await))
    }

    async fn keep_once(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        Ok(self.state().kept_once.entry(name.to_owned()).or_insert_with(|| value.to_vec()).clone())
    }

    async fn time(&self) -> Result<Timestamp, StoreError> {
        self.answer()?;
        Ok(self.state().time)
    }
}

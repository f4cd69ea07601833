//! The in-memory register of a server that shares its database with others: filled from one snapshot or from a
//! checkpoint, then updated with the writes of any server.
//!
//! **Invariant:** a search uses memory only if that contains every write that was committed in the database before the
//! search began, by any server: the database reports the last write. The search waits for it; if it does not arrive
//! within [`LAG_MAX`], the tables of the database are searched, with the same result.
//!
//! **Invariant:** memory contains a write completely or not at all, since each write is applied atomically: from one
//! snapshot of the database, or from this server's own write if no earlier write is missing.
//!
//! **Invariant:** another timeline of the database ([`History`]) is never mixed with this one: all records are read
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use tokio::time::Instant;

use crate::memory_index::MemoryIndex;
use daftar_domain::change::{Change, ChangedRecord, Sequence};
use daftar_domain::error::{TaskEnded, causes};
use daftar_domain::field::FieldSet;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_index::{Columns, Snapshot};
use daftar_store::index::Index;
use daftar_store::shared::History;
use daftar_store::snapshot::{ReadSnapshot, SnapshotReader, SnapshotSource};
use daftar_store::{ChangeSink, StoreError};

/// Maximum lag of memory behind the database; beyond it, the database is searched.
pub const LAG_MAX: Duration = Duration::from_secs(2);
/// Interval at which the database is queried for its last write, in addition to its notifications.
const INTERVAL: Duration = Duration::from_millis(500);
/// Delay before the next attempt after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Number of records read per batch.
const RECORDS_AT_ONCE: usize = 4_096;
/// Maximum number of records applied in one step, for which searches wait; more records are applied to a copy that
/// then replaces the register.
const APPLIED_MAX: usize = 8_192;
/// Above this number of changed records, all are read again.
const CAUGHT_UP_MAX: usize = 200_000;
/// Approximate memory of a record, in bytes.
const RECORD_BYTES: u64 = 400;

/// The order in which records are applied: a group's members before the group, the subject of a consent before the
/// consent.
const KINDS: [RecordKind; 5] = [
    RecordKind::Program,
    RecordKind::Individual,
    RecordKind::Group,
    RecordKind::ProgramMembership,
    RecordKind::Consent,
];

/// A record by its kind and key.
type Place = (RecordKind, RecordId);

/// The in-memory register, and the tables of the database for searches while it lags.
pub struct SharedIndex {
    source: Arc<dyn SnapshotSource>,
    columns: Arc<Columns>,
    memory: MemoryIndex,
    database: Arc<dyn Index>,
    /// Locked while the in-memory register is updated.
    following: AsyncMutex<()>,
    state: Mutex<State>,
    /// Changes when memory was updated.
    progress: watch::Sender<()>,
    /// Notified of a write that is missing in memory.
    wake: Notify,
    fallbacks: AtomicU64,
    lag_max: Duration,
}

/// The indexes of a register.
#[derive(Clone)]
pub enum Indexes {
    /// One that always has every write.
    One(Arc<dyn Index>),
    /// The register in memory, and the tables of the database while it lags.
    Shared(Arc<SharedIndex>),
}

impl Indexes {
    /// Returns the index for the next query alone: a later query may need writes that it lacks.
    pub async fn current(&self) -> &dyn Index {
        match self {
            Self::One(index) => &**index,
            Self::Shared(shared) => shared.current().await,
        }
    }

    /// Returns the index if it always has every write.
    #[must_use]
    pub fn always_current(&self) -> Option<&dyn Index> {
        match self {
            Self::One(index) => Some(&**index),
            Self::Shared(_) => None,
        }
    }
}

/// State of the in-memory register.
#[derive(Debug, Clone, Default)]
struct State {
    /// Its timeline; none before it is known.
    history: Option<History>,
    /// True if searches may use it.
    is_usable: bool,
    /// True if it was ever usable for searches.
    was_built: bool,
    /// Incremented when rows are assigned to other records.
    layout: u64,
    /// Start of the current lag, if it lags.
    behind_since: Option<Instant>,
    /// The last known write of the database.
    known: Sequence,
    rebuilds: u64,
    /// The records that could not be read and are not in memory.
    unreadable: BTreeSet<Place>,
    has_failed: bool,
}

/// Identity of the in-memory register: writes to it do not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    history: Option<History>,
    layout: u64,
}

/// Figures for the metrics page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SharedIndexUsage {
    /// Number of writes that are missing in memory.
    pub writes_behind: u64,
    /// Duration of the current lag.
    pub behind: Duration,
    /// Number of times that all records were read.
    pub rebuilds: u64,
    /// Approximate memory in bytes.
    pub bytes: u64,
    /// Records that cannot be read and are left out.
    pub unreadable: u64,
    /// Searches that the database executed while memory lagged.
    pub fallbacks: u64,
}

/// Distinguishes layouts of the in-memory register from those of partitions: previews use values of both.
const MEMORY_LAYOUT: u64 = 1 << 63;

impl SharedIndex {
    /// Starts with a register of that timeline, as restored from a checkpoint, or with an empty one without a timeline.
    #[must_use]
    pub fn new(
        source: Arc<dyn SnapshotSource>,
        database: Arc<dyn Index>,
        columns: Arc<Columns>,
        history: Option<History>,
    ) -> Self {
        let state = State { history, ..State::default() };
        Self {
            source,
            memory: MemoryIndex(Arc::clone(&columns)),
            columns,
            database,
            following: AsyncMutex::default(),
            state: Mutex::new(state),
            progress: watch::Sender::new(()),
            wake: Notify::new(),
            fallbacks: AtomicU64::new(0),
            lag_max: LAG_MAX,
        }
    }

    /// Applies writes until it is dropped. If it is called again after a panic, it reads all records again.
    pub async fn maintain(&self) {
        let _discards = DiscardAfterPanic(self);
        loop {
            let synced = self.sync().await;
            let had_failed = std::mem::replace(&mut self.state().has_failed, synced.is_err());
            match synced {
                Ok(()) => {
                    if had_failed {
                        tracing::info!("the register in memory is synchronized with the database again");
                    }
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = self.source.heard(INTERVAL) => {}
                    }
                }
                Err(error) => {
                    if !had_failed {
                        let reported: Vec<String> = causes(&error).map(ToString::to_string).collect();
                        tracing::warn!(
                            error = reported.join(": "),
                            "the register in memory cannot be updated; it is tried again twice a second, and the database handles searches"
                        );
                    }
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// True if the in-memory register was ever complete: before that, this server is not ready.
    #[must_use]
    pub fn was_built(&self) -> bool {
        self.state().was_built
    }

    /// The in-memory register with every write that was committed before, and its layout: in snapshots of one layout,
    /// the same row is the same record. None if it lags too far.
    pub async fn snapshot(&self) -> Option<(Arc<Snapshot>, u64)> {
        if !self.is_current().await {
            return None;
        }
        // The layout is incremented before rows are assigned to other records.
        let layout = self.state().layout;
        let snapshot = self.columns.snapshot();
        (self.state().layout == layout).then_some((snapshot, layout | MEMORY_LAYOUT))
    }

    /// Identity of the current in-memory register.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        let state = self.state();
        Stamp { history: state.history, layout: state.layout }
    }

    /// True if that register is still in memory, complete, and of the connected database.
    pub async fn is_still(&self, stamp: Stamp) -> bool {
        // The next start reads all records again if some were left out.
        self.is_of(stamp).await && self.state().unreadable.is_empty()
    }

    /// True if that register is still in memory, perhaps without unreadable records, and of the connected database.
    pub async fn is_of(&self, stamp: Stamp) -> bool {
        let Ok((history, _)) = self.source.last().await else { return false };
        let state = self.state();
        let now = Stamp { history: state.history, layout: state.layout };
        now == stamp && stamp.history == Some(history) && state.is_usable
    }

    /// A copy that later writes do not change, and its identity. None while the register is being read.
    #[must_use]
    pub fn copy(&self) -> Option<(Columns, Stamp)> {
        let stamp = self.stamp();
        let copy = Columns::from_image(self.columns.image());
        (self.state().is_usable && self.stamp() == stamp).then_some((copy, stamp))
    }

    /// Returns the figures for the metrics page.
    #[must_use]
    pub fn usage(&self) -> SharedIndexUsage {
        let state = self.state().clone();
        SharedIndexUsage {
            writes_behind: state.known.0.saturating_sub(self.columns.sequence().0),
            behind: state.behind_since.map(|since| since.elapsed()).unwrap_or_default(),
            rebuilds: state.rebuilds,
            bytes: self.columns.image().record_count().saturating_mul(RECORD_BYTES),
            unreadable: state.unreadable.len() as u64,
            fallbacks: self.fallbacks.load(Ordering::Relaxed),
        }
    }

    /// Memory, or the database if memory lags.
    async fn current(&self) -> &dyn Index {
        if self.is_current().await { &self.memory } else { &*self.database }
    }

    /// True if memory contains every write that was committed before; waits for missing writes up to [`LAG_MAX`].
    async fn is_current(&self) -> bool {
        let is_current = self.waited_for().await;
        if !is_current {
            self.fallbacks.fetch_add(1, Ordering::Relaxed);
        }
        is_current
    }

    async fn waited_for(&self) -> bool {
        if !self.state().is_usable {
            return false;
        }
        // If the database fails, the search there returns its error.
        let Ok((history, sequence)) = self.source.last().await else { return false };
        let mut progress = self.progress.subscribe();
        if self.has(history, sequence) {
            return true;
        }
        self.wake.notify_one();
        let since = *self.state().behind_since.get_or_insert_with(Instant::now);
        let reached = async {
            while progress.changed().await.is_ok() {
                if self.has(history, sequence) {
                    return true;
                }
            }
            false
        };
        tokio::time::timeout_at(since + self.lag_max, reached).await.unwrap_or(false)
    }

    /// True if memory contains that write of that timeline.
    fn has(&self, history: History, sequence: Sequence) -> bool {
        let mut state = self.state();
        state.known = state.known.max(sequence);
        state.is_usable && state.history == Some(history) && self.columns.sequence() >= sequence
    }

    /// Updates memory to the current state of the database.
    ///
    /// # Errors
    /// If the store fails.
    async fn sync(&self) -> Result<(), StoreError> {
        let (history, sequence) = self.source.last().await?;
        if !self.has(history, sequence) {
            let _since = self.state().behind_since.get_or_insert_with(Instant::now);
            let _following = self.following.lock().await;
            let moment = self.source.snapshot(SnapshotReader::Index).await?;
            if !self.catch_up(&*moment).await? {
                self.fill(&*moment).await?;
            }
            let mut state = self.state();
            state.history = Some(moment.history());
            state.known = moment.sequence();
            (state.is_usable, state.was_built) = (true, true);
        }
        self.state().behind_since = None;
        self.progress.send_replace(());
        Ok(())
    }

    /// Applies the writes since the last update; returns false if all records must be read.
    async fn catch_up(&self, moment: &dyn ReadSnapshot) -> Result<bool, StoreError> {
        let (since, known) = (self.columns.sequence(), self.state().history);
        if known != Some(moment.history()) || since > moment.sequence() {
            return Ok(false);
        }
        let Some(touched) = moment.touched_since(since, CAUGHT_UP_MAX).await? else { return Ok(false) };
        let mut by_kind: BTreeMap<RecordKind, Vec<RecordId>> = BTreeMap::new();
        for (kind, id) in &touched {
            by_kind.entry(*kind).or_default().push(*id);
        }
        let mut unreadable = self.state().unreadable.clone();
        // A record that is readable now belongs between the records in memory.
        if touched.iter().any(|place| unreadable.contains(place)) {
            return Ok(false);
        }
        let left_out = unreadable.len();
        let copy = (touched.len() > APPLIED_MAX).then(|| Columns::from_image(self.columns.image()));
        let mut changes = Vec::new();
        for kind in KINDS {
            for ids in by_kind.remove(&kind).unwrap_or_default().chunks(RECORDS_AT_ONCE) {
                let records = readable(moment, kind, ids, &mut unreadable).await?;
                // Memory may contain an earlier version of a record that is unreadable now.
                if unreadable.len() > left_out {
                    return Ok(false);
                }
                match &copy {
                    Some(copy) => copy.load(&records),
                    None => {
                        let sequence = moment.sequence();
                        changes.extend(records.into_iter().map(|record| Change { sequence, record }));
                    }
                }
            }
        }
        match copy {
            Some(copy) => {
                copy.reach(moment.sequence());
                self.columns.replace(copy.image());
            }
            None => {
                self.columns.apply(&changes);
                self.columns.reach(moment.sequence());
            }
        }
        Ok(true)
    }

    /// Reads all records. The database executes searches during that time.
    async fn fill(&self, moment: &dyn ReadSnapshot) -> Result<(), StoreError> {
        let started = Instant::now();
        self.state().is_usable = false;
        let filled = Arc::new(self.columns.sibling());
        let mut unreadable = BTreeSet::new();
        let mut loading = None;
        for kind in KINDS {
            let last = moment.last(kind).await?;
            let mut after = 0;
            while after < last.0 {
                let end = after.saturating_add(RECORDS_AT_ONCE as u64).min(last.0);
                let ids: Vec<RecordId> = (after.saturating_add(1)..=end).map(RecordId).collect();
                let records = readable(moment, kind, &ids, &mut unreadable).await?;
                loaded(loading.take()).await?;
                // The next page is read while this one is applied.
                let into = Arc::clone(&filled);
                loading = Some(tokio::task::spawn_blocking(move || into.load(&records)));
                after = end;
            }
        }
        loaded(loading).await?;
        filled.reach(moment.sequence());
        let image = filled.image();
        let records = image.record_count();
        let mut state = self.state();
        state.layout = state.layout.saturating_add(1);
        state.rebuilds = state.rebuilds.saturating_add(1);
        state.unreadable = unreadable;
        self.columns.replace(image);
        drop(state);
        let duration_ms = started.elapsed().as_secs_f64() * 1_000.0;
        tracing::info!(records, duration_ms, "the register was read into memory from the database");
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change leaves it valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Discards the in-memory register if a panic interrupts its update: it may contain a part of a write.
struct DiscardAfterPanic<'i>(&'i SharedIndex);

impl Drop for DiscardAfterPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state();
            (state.history, state.is_usable) = (None, false);
        }
    }
}

/// Waits for a page to be applied.
async fn loaded(loading: Option<tokio::task::JoinHandle<()>>) -> Result<(), StoreError> {
    match loading {
        Some(loading) => loading.await.map_err(|error| StoreError::Failed(TaskEnded::from(error).into())),
        None => Ok(()),
    }
}

/// Returns the readable ones of some records; the others are noted, and logged if they are new.
async fn readable(
    moment: &dyn ReadSnapshot,
    kind: RecordKind,
    ids: &[RecordId],
    unreadable: &mut BTreeSet<Place>,
) -> Result<Vec<ChangedRecord>, StoreError> {
    match moment.records(kind, ids, &FieldSet::All).await {
        Err(StoreError::Corrupt { .. }) => {}
        read => return read,
    }
    let mut records = Vec::with_capacity(ids.len());
    for id in ids {
        match moment.records(kind, &[*id], &FieldSet::All).await {
            Ok(record) => records.extend(record),
            Err(error @ StoreError::Corrupt { .. }) => {
                if unreadable.insert((kind, *id)) {
                    tracing::error!(
                        error = %error,
                        record.kind = %kind,
                        "a record cannot be read and is left out of searches in memory; `daftar verify` names it"
                    );
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(records)
}

/// True if changes continue that write without a gap.
fn follow(changes: &[Change], last: Sequence) -> bool {
    let mut before = last.0;
    let is_next = |change: &Change| {
        let is_next = change.sequence.0 == before || change.sequence.0 == before.saturating_add(1);
        before = change.sequence.0;
        is_next
    };
    changes.first().is_some_and(|first| first.sequence > last) && changes.iter().all(is_next)
}

/// Receives this server's own writes, so that a search after them need not wait.
impl ChangeSink for SharedIndex {
    fn apply(&self, changes: &[Change]) {
        // If memory is being updated, or lacks a write of another server, the background task applies these.
        let Ok(_following) = self.following.try_lock() else { return self.wake.notify_one() };
        let state = self.state();
        let is_left_out = |change: &Change| {
            let (kind, id, _) = change.record.place();
            state.unreadable.contains(&(kind, id))
        };
        let is_next = state.is_usable && follow(changes, self.columns.sequence()) && !changes.iter().any(is_left_out);
        drop(state);
        if is_next {
            self.columns.apply(changes);
            self.progress.send_replace(());
        } else {
            self.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;

//! Caches the register in partitions, so that later previews reuse the columns that an earlier preview read.
//!
//! **Invariant:** the columns of a partition show the register at the snapshot of the preview: the later changes are
//! applied to them, or they are read again. The cache does not contain the columns during an update, so after an
//! interrupted update the next preview reads them again. Columns of another timeline are also read again, since the
//! same sequence number may identify another transaction there.
//!
//! **Invariant:** the size of the cache is bounded. Partitions of earlier previews are evicted first, and a preview evicts
//! none that it or the preview before it used: if a register is larger than the cache, each preview finds a part of it
//! there, where a cache of the most recently used partitions would contain none of those that are read next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{StreamExt as _, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_index::{Columns, Snapshot, rule_fields};
use daftar_store::StoreError;
use daftar_store::shared::History;
use daftar_store::snapshot::{Partition, PartitionDependencies, ReadSnapshot, SnapshotSource};

/// Records per query.
const RECORDS_AT_ONCE: usize = 4_096;
/// Number of pages that one partition requests concurrently.
const PAGES_AT_ONCE: usize = 2;
/// Maximum number of changed records that are applied to cached columns. If more have changed, the columns are read
/// again.
const TOUCHED_MAX: usize = 8_192;
/// Number of partitions that a process evaluates concurrently: one is evaluated while the other is read from the
/// database.
pub(super) const LANES: usize = 2;
/// Estimated size of a record in columns, in bytes. A million people in households took 170 bytes a record.
const RECORD_BYTES: u64 = 250;

/// A partitioned register and the partitions that this process caches.
pub struct PartedRegister {
    /// The source of the partitions.
    pub(super) source: Arc<dyn SnapshotSource>,
    /// Number of keys in a partition.
    pub(super) partition_keys: u32,
    bytes_max: u64,
    /// The cached partitions, the most recently used last.
    cached: Mutex<Vec<Slot>>,
    /// The number of the next preview.
    previews: AtomicU64,
    /// Permits for the partitions that this process works on.
    lanes: Arc<Semaphore>,
    /// The layout number of the next partition that is read.
    layouts: AtomicU64,
}

struct Slot {
    partition: Partition,
    /// The last preview that used it.
    preview: u64,
    /// Locked while the columns are read or updated.
    columns: Arc<tokio::sync::Mutex<Option<PartitionColumns>>>,
    bytes: u64,
}

/// The size of the cache, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionUsage {
    /// Number of cached partitions.
    pub partitions: u64,
    /// Their estimated size, in bytes.
    pub bytes: u64,
}

/// A partition in memory.
struct PartitionColumns {
    columns: Columns,
    /// Layout number, unique for each read. Later records are appended to the rows.
    layout: u64,
    sequence: Sequence,
    history: History,
    records: u64,
}

impl PartedRegister {
    /// Creates a cache of partitions with that many keys, of up to about `bytes_max` bytes.
    #[must_use]
    pub fn new(source: Arc<dyn SnapshotSource>, partition_keys: u32, bytes_max: u64) -> Self {
        let (cached, lanes) = (Mutex::default(), Arc::new(Semaphore::new(LANES)));
        let [previews, layouts] = [1, 1].map(AtomicU64::new);
        Self { source, partition_keys, bytes_max, cached, previews, lanes, layouts }
    }

    /// Returns the number of a preview that begins.
    pub(super) fn begin(&self) -> u64 {
        self.previews.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits for a permit to work on one more partition.
    pub(super) async fn lane(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.lanes).acquire_owned().await.ok()
    }

    /// Returns the size of the cache.
    #[must_use]
    pub fn usage(&self) -> PartitionUsage {
        let cached = self.lock();
        PartitionUsage { partitions: cached.len() as u64, bytes: cached.iter().map(|slot| slot.bytes).sum() }
    }

    /// Returns a partition at a snapshot, with all data that a rule may read about its subjects, and its layout number:
    /// in snapshots with the same layout number the same row is the same record. The number is `None` if the partition
    /// is not cached. `preview` is the number of the preview.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn snapshot(
        &self,
        moment: &dyn ReadSnapshot,
        partition: Partition,
        preview: u64,
    ) -> Result<(Arc<Snapshot>, Option<u64>), StoreError> {
        let slot = self.slot(partition, preview);
        let mut held = slot.lock().await;
        // The same sequence number may identify another transaction on another timeline.
        let _of_another = held.take_if(|cached| cached.history != moment.history());
        if let Some(present) = held.as_ref()
            && present.sequence == moment.sequence()
        {
            return Ok((present.columns.snapshot(), Some(present.layout)));
        }
        let since = held.as_ref().map(|present| present.sequence);
        // A preview that began earlier has an older snapshot. The newer columns stay in the cache.
        let is_past = since.is_some_and(|since| since > moment.sequence());
        if let Some(since) = since.filter(|_| !is_past) {
            let touched = moment.touched_since(since, TOUCHED_MAX).await?;
            let present = held.take();
            if let (Some(mut present), Some(touched)) = (present, touched)
                && present.apply_changes(moment, partition, touched).await?
            {
                let snapshot = (present.columns.snapshot(), Some(present.layout));
                *held = Some(present);
                return Ok(snapshot);
            }
        }
        let layout = self.layouts.fetch_add(1, Ordering::Relaxed);
        let made = PartitionColumns::read(moment, partition, layout).await?;
        let snapshot = made.columns.snapshot();
        if is_past || !self.admit(partition, made.records.saturating_mul(RECORD_BYTES)) {
            return Ok((snapshot, None));
        }
        *held = Some(made);
        Ok((snapshot, Some(layout)))
    }

    fn slot(&self, partition: Partition, preview: u64) -> Arc<tokio::sync::Mutex<Option<PartitionColumns>>> {
        let mut cached = self.lock();
        let mut slot = match cached.iter().position(|slot| slot.partition == partition) {
            Some(at) => cached.remove(at),
            None => Slot { partition, preview, columns: Arc::default(), bytes: 0 },
        };
        slot.preview = slot.preview.max(preview);
        let columns = Arc::clone(&slot.columns);
        cached.push(slot);
        columns
    }

    /// Records the size of a partition that was read. Returns false, and removes its slot, if there is no memory for it
    /// without those that the last two previews used.
    fn admit(&self, partition: Partition, bytes: u64) -> bool {
        let mut cached = self.lock();
        let Some(own) = cached.iter().position(|slot| slot.partition == partition) else { return false };
        let Some(slot) = cached.get_mut(own) else { return false };
        slot.bytes = bytes;
        let preview = slot.preview;
        while cached.iter().map(|slot| slot.bytes).sum::<u64>() > self.bytes_max {
            let is_old = |slot: &Slot| slot.partition != partition && slot.preview.saturating_add(1) < preview;
            let Some(oldest) = cached.iter().position(is_old) else {
                cached.retain(|slot| slot.partition != partition);
                return false;
            };
            drop(cached.remove(oldest));
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        // Every change leaves the list valid.
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartitionColumns {
    async fn read(moment: &dyn ReadSnapshot, partition: Partition, layout: u64) -> Result<Self, StoreError> {
        let PartitionDependencies { individuals, groups, memberships, consents } =
            moment.dependencies(partition).await?;
        let columns = Columns::for_rules();
        let mut records = 0;
        columns.load(&moment.programs().await?);
        // Members are loaded before their groups, and the subjects of consents before the consents.
        let kinds = [
            (RecordKind::Individual, individuals),
            (RecordKind::Group, groups),
            (RecordKind::ProgramMembership, memberships),
            (RecordKind::Consent, consents),
        ];
        let kinds = kinds.map(|(kind, ids)| (kind, ids, rule_fields(kind)));
        let mut requests = Vec::new();
        for (kind, ids, fields) in &kinds {
            requests.extend(ids.chunks(RECORDS_AT_ONCE).map(|ids| moment.records(*kind, ids, fields)));
        }
        // The database reads the next page while one is decoded.
        let mut pages = stream::iter(requests).buffered(PAGES_AT_ONCE);
        while let Some(page) = pages.next().await {
            let page = page?;
            records += page.len() as u64;
            columns.load(&page);
        }
        Ok(Self { columns, layout, sequence: moment.sequence(), history: moment.history(), records })
    }

    /// Applies the changes up to the snapshot. Returns false if the columns must be read again, because a record
    /// belongs between existing rows. After false or an error only a part of the changes is applied.
    async fn apply_changes(
        &mut self,
        moment: &dyn ReadSnapshot,
        partition: Partition,
        touched: Vec<(RecordKind, RecordId)>,
    ) -> Result<bool, StoreError> {
        let mut by_kind: BTreeMap<RecordKind, BTreeSet<RecordId>> = BTreeMap::new();
        for (kind, id) in touched {
            by_kind.entry(kind).or_default().insert(id);
        }
        for kind in [
            RecordKind::Program,
            RecordKind::Individual,
            RecordKind::Group,
            RecordKind::ProgramMembership,
            RecordKind::Consent,
        ] {
            let ids: Vec<RecordId> = by_kind.remove(&kind).into_iter().flatten().collect();
            let ids = self.candidates(partition, kind, ids);
            let mut page = moment.records(kind, &ids, &rule_fields(kind)).await?;
            page.retain(|record| self.is_about(partition, record));
            if !page.iter().all(|record| self.can_apply(record)) {
                return Ok(false);
            }
            self.columns.load(&page);
        }
        self.sequence = moment.sequence();
        Ok(true)
    }

    /// Returns the records that may concern the partition: the individuals that it contains or that belong to it, and
    /// all records of other kinds, since only their content names their subject.
    fn candidates(&self, partition: Partition, kind: RecordKind, mut ids: Vec<RecordId>) -> Vec<RecordId> {
        if kind == RecordKind::Individual {
            let snapshot = self.columns.snapshot();
            let belongs = |id: RecordId| partition.kind == Subject::Individual && partition.place_of(id).is_some();
            ids.retain(|id| snapshot.row_of(*id).is_some() || belongs(*id));
        }
        ids
    }

    /// Returns true if a rule about the subjects of the partition may read a record.
    fn is_about(&self, partition: Partition, record: &ChangedRecord) -> bool {
        let snapshot = self.columns.snapshot();
        let is_subject =
            |subject: SubjectReference| subject.kind == partition.kind && partition.place_of(subject.id).is_some();
        let is_there = |subject: SubjectReference| match subject.kind {
            Subject::Individual => snapshot.row_of(subject.id).is_some(),
            Subject::Group => snapshot.group_row_of(subject.id).is_some(),
        };
        match record {
            ChangedRecord::Individual(_) | ChangedRecord::Program(_) => true,
            ChangedRecord::Group(group) => {
                let itself = SubjectReference { kind: Subject::Group, id: group.id };
                let mut members = group.details.members();
                let person = |id| SubjectReference { kind: Subject::Individual, id };
                is_there(itself) || is_subject(itself) || members.any(|member| is_subject(person(member.individual)))
            }
            ChangedRecord::ProgramMembership(membership) => is_subject(membership.details.beneficiary()),
            ChangedRecord::Consent(consent) => is_there(consent.details.subject()),
        }
    }

    /// Returns true if a record can be applied: it has a row or its key is after all others, and all members of a group
    /// have rows.
    fn can_apply(&self, record: &ChangedRecord) -> bool {
        let snapshot = self.columns.snapshot();
        let is_last = |id: RecordId, last: Option<RecordId>| last.is_none_or(|last| last < id);
        match record {
            ChangedRecord::Individual(person) => {
                snapshot.row_of(person.id).is_some() || is_last(person.id, snapshot.last_of(Subject::Individual))
            }
            ChangedRecord::Group(group) => {
                let mut members = group.details.members();
                // An older group without members in the partition may have consents that were not read.
                let is_new = group.meta.version == VersionId::FIRST;
                let is_placed = snapshot.group_row_of(group.id).is_some()
                    || (is_new && is_last(group.id, snapshot.last_of(Subject::Group)));
                is_placed && members.all(|member| snapshot.row_of(member.individual).is_some())
            }
            ChangedRecord::Program(_) => true,
            // A new record has the last key, and a changed record already has a row.
            ChangedRecord::ProgramMembership(_) | ChangedRecord::Consent(_) => true,
        }
    }
}

#[cfg(test)]
mod tests;

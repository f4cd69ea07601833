//! The register in memory, partition by partition: what was read for one preview is there for the next.
//!
//! **Invariant:** the columns of a partition show what stood in the register at the moment that was asked for: they are brought forward by what
//! was written since they were made, or made anew. While they are brought forward they are nobody's: where that is left in the middle they are
//! made anew, and so are those of another history: the same number may be of another write there.
//!
//! **Invariant:** how much is kept has a bound; what was used longest ago goes first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_index::{Columns, Snapshot};
use daftar_store::StoreError;
use daftar_store::partition::{Partition, PartitionDependencies, Partitions, ReadSnapshot};
use daftar_store::shared::History;

/// How many records are read at once.
const RECORDS_AT_ONCE: usize = 4_096;
/// With more writes than this since the columns were made they are made anew.
const TOUCHED_MAX: usize = 8_192;
/// How many partitions a process works on at once: while one is read from the database the other is decided about.
pub(super) const LANES: usize = 2;
/// About what a record takes in columns, in bytes.
const RECORD_BYTES: u64 = 700;

/// A register in partitions, with what this process keeps of it.
pub struct PartedRegister {
    /// Where the partitions are read.
    pub partitions: Arc<dyn Partitions>,
    bytes_max: u64,
    /// The partitions that are kept, the one that was used last at the end.
    kept: Mutex<Vec<Slot>>,
    /// How many partitions this process works on at once.
    lanes: Arc<Semaphore>,
    /// The layout of the next partition that is read.
    layouts: AtomicU64,
}

struct Slot {
    partition: Partition,
    /// Locked while the columns are made or brought forward.
    columns: Arc<tokio::sync::Mutex<Option<PartitionColumns>>>,
    bytes: u64,
}

/// What the metrics page tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionUsage {
    /// How many partitions are kept.
    pub partitions: u64,
    /// About how many bytes they take.
    pub bytes: u64,
}

/// A partition in memory.
struct PartitionColumns {
    columns: Columns,
    /// Counted up with each partition that is read: what is written later is put behind the rows that are there.
    layout: u64,
    sequence: Sequence,
    history: History,
    records: u64,
}

impl PartedRegister {
    /// Keeps up to about so many bytes of partitions.
    #[must_use]
    pub fn new(partitions: Arc<dyn Partitions>, bytes_max: u64) -> Self {
        let (kept, lanes) = (Mutex::default(), Arc::new(Semaphore::new(LANES)));
        Self { partitions, bytes_max, kept, lanes, layouts: AtomicU64::new(1) }
    }

    /// Waits until this process may work on one more partition; it may as long as the lane is held.
    pub(super) async fn lane(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.lanes).acquire_owned().await.ok()
    }

    /// What is kept.
    #[must_use]
    pub fn usage(&self) -> PartitionUsage {
        let kept = self.lock();
        PartitionUsage { partitions: kept.len() as u64, bytes: kept.iter().map(|slot| slot.bytes).sum() }
    }

    /// A partition, with all that a rule may read about its subjects, as it was at that moment, and its layout: of snapshots of one layout the
    /// same row is the same record. None has the layout of one that is not kept.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn snapshot(
        &self,
        moment: &dyn ReadSnapshot,
        partition: Partition,
    ) -> Result<(Arc<Snapshot>, Option<u64>), StoreError> {
        let slot = self.slot(partition);
        let mut held = slot.lock().await;
        // The same number may be of another write in another history.
        let _of_another = held.take_if(|kept| kept.history != moment.history());
        if let Some(present) = held.as_ref()
            && present.sequence == moment.sequence()
        {
            return Ok((present.columns.snapshot(), Some(present.layout)));
        }
        let since = held.as_ref().map(|present| present.sequence);
        // An older moment than what is kept is asked for by whoever began before: what is kept is of more use.
        let is_past = since.is_some_and(|since| since > moment.sequence());
        if let Some(since) = since.filter(|_| !is_past) {
            let touched = moment.touched_since(since, TOUCHED_MAX).await?;
            let present = held.take();
            if let (Some(mut present), Some(touched)) = (present, touched)
                && present.bring_forward(moment, partition, touched).await?
            {
                let snapshot = (present.columns.snapshot(), Some(present.layout));
                *held = Some(present);
                return Ok(snapshot);
            }
        }
        let layout = self.layouts.fetch_add(1, Ordering::Relaxed);
        let made = PartitionColumns::read(moment, partition, layout).await?;
        let snapshot = made.columns.snapshot();
        if is_past {
            return Ok((snapshot, None));
        }
        self.note(partition, made.records.saturating_mul(RECORD_BYTES));
        *held = Some(made);
        Ok((snapshot, Some(layout)))
    }

    fn slot(&self, partition: Partition) -> Arc<tokio::sync::Mutex<Option<PartitionColumns>>> {
        let mut kept = self.lock();
        let slot = match kept.iter().position(|slot| slot.partition == partition) {
            Some(at) => kept.remove(at),
            None => Slot { partition, columns: Arc::default(), bytes: 0 },
        };
        let columns = Arc::clone(&slot.columns);
        kept.push(slot);
        columns
    }

    /// Notes how much a partition takes, and evicts others where all take too much.
    fn note(&self, partition: Partition, bytes: u64) {
        let mut kept = self.lock();
        for slot in kept.iter_mut().filter(|slot| slot.partition == partition) {
            slot.bytes = bytes;
        }
        while kept.iter().map(|slot| slot.bytes).sum::<u64>() > self.bytes_max {
            let Some(oldest) = kept.iter().position(|slot| slot.partition != partition) else { break };
            drop(kept.remove(oldest));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        // Each change leaves it valid.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartitionColumns {
    async fn read(moment: &dyn ReadSnapshot, partition: Partition, layout: u64) -> Result<Self, StoreError> {
        let PartitionDependencies { individuals, groups, memberships, consents } =
            moment.dependencies(partition).await?;
        let columns = Columns::for_rules();
        let mut records = 0;
        columns.load(&moment.programs().await?);
        // A group's members are there before it; whom a consent is about, before that.
        for (kind, ids) in [
            (RecordKind::Individual, individuals),
            (RecordKind::Group, groups),
            (RecordKind::ProgramMembership, memberships),
            (RecordKind::Consent, consents),
        ] {
            for ids in ids.chunks(RECORDS_AT_ONCE) {
                let page = moment.records(kind, ids).await?;
                records += page.len() as u64;
                columns.load(&page);
            }
        }
        Ok(Self { columns, layout, sequence: moment.sequence(), history: moment.history(), records })
    }

    /// Takes up what was written until the moment. False where it has to be made anew: a record belongs between those that are there. Unless
    /// it comes to its end, and that is true, it holds a part of what was written.
    async fn bring_forward(
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
            let ids = self.of_interest(partition, kind, ids);
            let mut page = moment.records(kind, &ids).await?;
            page.retain(|record| self.is_about(partition, record));
            if !page.iter().all(|record| self.has_room(record)) {
                return Ok(false);
            }
            self.records += page.len() as u64;
            self.columns.load(&page);
        }
        self.sequence = moment.sequence();
        Ok(true)
    }

    /// Those of some records whose keys may be about the partition: of people those that are there or belong there, of others all, since
    /// only they themselves say whom they are about.
    fn of_interest(&self, partition: Partition, kind: RecordKind, mut ids: Vec<RecordId>) -> Vec<RecordId> {
        if kind == RecordKind::Individual {
            let snapshot = self.columns.snapshot();
            let belongs = |id: RecordId| partition.kind == Subject::Individual && partition.place_of(id).is_some();
            ids.retain(|id| snapshot.row_of(*id).is_some() || belongs(*id));
        }
        ids
    }

    /// Whether a record is one that a rule about the partition's subjects may read.
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

    /// Whether a record can be taken up behind those that are there: it is one of them, or its key lies after theirs; and everybody whom
    /// a group names is there.
    fn has_room(&self, record: &ChangedRecord) -> bool {
        let snapshot = self.columns.snapshot();
        let is_last = |id: RecordId, last: Option<RecordId>| last.is_none_or(|last| last < id);
        match record {
            ChangedRecord::Individual(person) => {
                snapshot.row_of(person.id).is_some() || is_last(person.id, snapshot.last_of(Subject::Individual))
            }
            ChangedRecord::Group(group) => {
                let mut members = group.details.members();
                // One that was there before and named nobody of here may have consents that are not.
                let is_new = group.meta.version == VersionId::FIRST;
                let is_placed = snapshot.group_row_of(group.id).is_some()
                    || (is_new && is_last(group.id, snapshot.last_of(Subject::Group)));
                is_placed && members.all(|member| snapshot.row_of(member.individual).is_some())
            }
            ChangedRecord::Program(_) => true,
            // New ones are the last of all; those that changed are there.
            ChangedRecord::ProgramMembership(_) | ChangedRecord::Consent(_) => true,
        }
    }
}

#[cfg(test)]
mod tests;

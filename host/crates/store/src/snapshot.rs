//! Snapshots of a register that several processes write, and its partitions, each small enough to be cached in memory.
//!
//! A register that no process holds in memory completely is evaluated partition by partition: the subjects of 65,536
//! consecutive keys with all data that a rule may read about them.
//!
//! **Invariant:** all reads of one [`ReadSnapshot`] are of the same state.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use daftar_domain::audit::Actor;
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::field::FieldSet;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::SubjectQuery;
use daftar_domain::subject::Subject;

use super::StoreError;
use super::index::Sees;
use super::shared::History;

/// Default number of consecutive keys in a partition.
pub const PARTITION_KEYS: u32 = 65_536;

/// The subjects of one kind with consecutive keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// Kind of the subjects.
    pub kind: Subject,
    /// Number of keys.
    pub size: u32,
    /// Number of the partition at that size, from 0; keys count from 1.
    pub number: u64,
}

impl Partition {
    /// The partition of that size with a subject.
    #[must_use]
    pub fn of(kind: Subject, size: u32, id: RecordId) -> Self {
        Self { kind, size, number: id.0.saturating_sub(1) / u64::from(size.max(1)) }
    }

    /// Its keys.
    #[must_use]
    pub fn keys(&self) -> RangeInclusive<RecordId> {
        let size = u64::from(self.size.max(1));
        let before = self.number.saturating_mul(size);
        RecordId(before.saturating_add(1))..=RecordId(before.saturating_add(size))
    }

    /// The position of a key in the partition, from 0; none for a key of another partition.
    #[must_use]
    pub fn place_of(&self, id: RecordId) -> Option<u32> {
        let place = id.0.checked_sub(self.keys().start().0)?;
        u32::try_from(place).ok().filter(|place| *place < self.size)
    }
}

/// The keys of all records that a rule may read about the subjects of a partition, ascending and without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionDependencies {
    /// The subjects, if they are individuals, and all members of the groups below.
    pub individuals: Vec<RecordId>,
    /// The subjects, if they are groups; else the groups that name them as members.
    pub groups: Vec<RecordId>,
    /// The memberships of the subjects in programs.
    pub memberships: Vec<RecordId>,
    /// The consents of all individuals and groups above.
    pub consents: Vec<RecordId>,
}

/// A snapshot of the register after one write, for its lifetime. A [`SnapshotSource`] returns it.
///
/// - Atomicity: all reads are of the same state.
/// - Order: keys come in ascending order.
/// - Durability: read-only.
/// - A crash of the process ends it.
#[async_trait::async_trait]
pub trait ReadSnapshot: Send + Sync + 'static {
    /// The last write.
    fn sequence(&self) -> Sequence;

    /// The timeline of that write.
    fn history(&self) -> History;

    /// The last key of a kind, which is also the number of its records.
    ///
    /// # Errors
    /// If the store fails.
    async fn last(&self, kind: RecordKind) -> Result<RecordId, StoreError>;

    /// Returns the subjects that match a search, in the order of their keys.
    ///
    /// # Errors
    /// If the store fails.
    async fn matching(&self, query: &SubjectQuery, sees: Option<Sees<'_>>) -> Result<Vec<RecordId>, StoreError>;

    /// Returns the records that a rule may read about the subjects of a partition.
    ///
    /// # Errors
    /// If the store fails.
    async fn dependencies(&self, partition: Partition) -> Result<PartitionDependencies, StoreError>;

    /// Returns the records of one kind with those keys, in order; missing ones are left out. They have at least these
    /// fields, and their identifiers if these are all fields.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn records(
        &self,
        kind: RecordKind,
        ids: &[RecordId],
        fields: &FieldSet,
    ) -> Result<Vec<ChangedRecord>, StoreError>;

    /// Every program, in the order of their keys.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn programs(&self) -> Result<Vec<ChangedRecord>, StoreError>;

    /// Returns the records written after another write, each once; none if there are more than `limit`.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn touched_since(
        &self,
        after: Sequence,
        limit: usize,
    ) -> Result<Option<Vec<(RecordKind, RecordId)>>, StoreError>;
}

/// Reader of a snapshot.
#[derive(Debug, Clone, Copy)]
pub enum SnapshotReader<'a> {
    /// The register in memory of the process. It has one snapshot at a time: a second call waits until the first one is
    /// dropped.
    Index,
    /// A preview of that client. Waits for a limited time if the client uses its share of the snapshots, or all are in
    /// use.
    Preview(&'a Actor),
}

/// The source of snapshots of a register that several processes write, and of notifications of their writes. A backend
/// with a shared register implements it; the store of a single process passes all changes to its
/// [`ChangeSink`](super::ChangeSink).
///
/// - Atomicity: a snapshot contains each write completely or not at all.
/// - Order: sequence numbers increase within one [`History`]. A snapshot contains every write that was acknowledged
///   before it was requested.
/// - Durability: read-only.
/// - A crash of the process ends its snapshots, and leaves no trace.
#[async_trait::async_trait]
pub trait SnapshotSource: Send + Sync + 'static {
    /// Returns the last write and its timeline. Costs one small query without locks.
    ///
    /// # Errors
    /// If the store does not respond.
    async fn last(&self) -> Result<(History, Sequence), StoreError>;

    /// Returns a snapshot of the current register.
    ///
    /// # Errors
    /// If the store does not respond, or no snapshot is free in time.
    async fn snapshot(&self, reader: SnapshotReader<'_>) -> Result<Arc<dyn ReadSnapshot>, StoreError>;

    /// Waits at most that long until a write of any process is notified, or a notification may have been missed.
    async fn heard(&self, at_most: Duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_one_partition() {
        let partition = |id| Partition::of(Subject::Individual, PARTITION_KEYS, RecordId(id));
        for (id, number, place) in [(1, 0, 0), (65_536, 0, 65_535), (65_537, 1, 0), (131_073, 2, 0)] {
            assert_eq!((partition(id).number, partition(id).place_of(RecordId(id))), (number, Some(place)), "{id}");
            assert!(partition(id).keys().contains(&RecordId(id)));
        }
        assert_eq!(partition(1).place_of(RecordId(65_537)), None);
        assert_eq!(partition(65_537).place_of(RecordId(65_536)), None);
    }
}

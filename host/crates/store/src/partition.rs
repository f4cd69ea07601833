//! The register in partitions, each small enough to be kept in memory.
//!
//! A register that no process holds in memory as a whole is looked at partition by partition: the subjects of 65,536 successive keys
//! with everything that a rule may read about them.
//!
//! **Invariant:** all that is read of one [`ReadSnapshot`] stood in the register together.

use std::ops::RangeInclusive;
use std::sync::Arc;

use daftar_domain::audit::Actor;
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::SubjectQuery;
use daftar_domain::subject::Subject;

use super::StoreError;
use super::index::Sees;
use super::shared::History;

/// How many successive keys a partition has where nothing else is configured.
pub const PARTITION_KEYS: u32 = 65_536;

/// The subjects of one kind whose keys follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// Of which kind.
    pub kind: Subject,
    /// How many keys it has.
    pub size: u32,
    /// Which partition of that size, counted from 0: keys count from 1.
    pub number: u64,
}

impl Partition {
    /// The partition of that size in which a subject is.
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

    /// The subject of a key, counted from 0 within the partition; none for one of another partition.
    #[must_use]
    pub fn place_of(&self, id: RecordId) -> Option<u32> {
        let place = id.0.checked_sub(self.keys().start().0)?;
        u32::try_from(place).ok().filter(|place| *place < self.size)
    }
}

/// The keys of what a rule may read about the subjects of a partition, each list in ascending order, each key once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionDependencies {
    /// The subjects, where they are people, and everybody in the groups below.
    pub individuals: Vec<RecordId>,
    /// The subjects, where they are groups; else the groups that name them as members.
    pub groups: Vec<RecordId>,
    /// The memberships of the subjects in programs.
    pub memberships: Vec<RecordId>,
    /// The consents of everybody above.
    pub consents: Vec<RecordId>,
}

/// The register as it stood after one write, for as long as this is held. A backend implements it that implements [`Partitions`].
///
/// - Atomicity: all that is read of one moment stood together.
/// - Order: keys come in ascending order.
/// - Durability: nothing is changed.
/// - A crash of the process ends it.
#[async_trait::async_trait]
pub trait ReadSnapshot: Send + Sync + 'static {
    /// The last write.
    fn sequence(&self) -> Sequence;

    /// The history in which that was the last write.
    fn history(&self) -> History;

    /// The greatest key of a kind: there are as many records of it.
    ///
    /// # Errors
    /// When the store fails.
    async fn last(&self, kind: RecordKind) -> Result<RecordId, StoreError>;

    /// The subjects that a search finds, in the order of their keys.
    ///
    /// # Errors
    /// When the store fails.
    async fn matching(&self, query: &SubjectQuery, sees: Option<Sees<'_>>) -> Result<Vec<RecordId>, StoreError>;

    /// What a rule may read about the subjects of a partition.
    ///
    /// # Errors
    /// When the store fails.
    async fn dependencies(&self, partition: Partition) -> Result<PartitionDependencies, StoreError>;

    /// The records of those keys, all of one kind, in the order asked; one that does not exist is left out.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError>;

    /// Every program, in the order of their keys.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn programs(&self) -> Result<Vec<ChangedRecord>, StoreError>;

    /// The records that were written after another write, each once; nothing where these are more than `limit`.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn touched_since(
        &self,
        after: Sequence,
        limit: usize,
    ) -> Result<Option<Vec<(RecordKind, RecordId)>>, StoreError>;
}

/// A register in partitions. A backend whose register is not in memory as a whole implements it.
///
/// - Atomicity: all that is read of one moment stood together.
/// - Order: that of [`ReadSnapshot`].
/// - Durability: nothing is changed.
/// - A crash of the process ends its moments.
#[async_trait::async_trait]
pub trait Partitions: Send + Sync + 'static {
    /// The register as it stands now, for a preview of that client. Waits a while where the client has its share of the moments that there
    /// may be, or all are held.
    ///
    /// # Errors
    /// When the store fails, or none is free in time.
    async fn moment(&self, actor: &Actor) -> Result<Arc<dyn ReadSnapshot>, StoreError>;

    /// How many keys its partitions have.
    fn partition_keys(&self) -> u32;
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

//! Tests the state of a partition after an interrupted update, and the selection of the cached partitions.

use std::time::Duration;

use futures_util::FutureExt as _;

use super::*;
use daftar_domain::field::FieldSet;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{Record, RecordMeta};
use daftar_domain::search::SubjectQuery;
use daftar_store::index::Sees;
use daftar_store::snapshot::SnapshotReader;

const PARTITION: Partition = Partition { kind: Subject::Individual, size: 1_024, number: 0 };

/// Result of reading the groups, which follows the individuals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Groups {
    AreRead,
    Fail,
    NeverCome,
}

/// A register in which each transaction creates one individual and changes one group, which has no record.
struct FakeSnapshot {
    sequence: u64,
    people: u64,
    history: u64,
    groups: Groups,
}

#[async_trait::async_trait]
impl ReadSnapshot for FakeSnapshot {
    fn sequence(&self) -> Sequence {
        Sequence(self.sequence)
    }

    fn history(&self) -> History {
        History([self.history, 0])
    }

    async fn last(&self, _: RecordKind) -> Result<RecordId, StoreError> {
        Ok(RecordId(self.people))
    }

    async fn matching(&self, _: &SubjectQuery, _: Option<Sees<'_>>) -> Result<Vec<RecordId>, StoreError> {
        Ok(Vec::new())
    }

    async fn dependencies(&self, _: Partition) -> Result<PartitionDependencies, StoreError> {
        Ok(PartitionDependencies {
            individuals: (1..=self.people).map(RecordId).collect(),
            ..PartitionDependencies::default()
        })
    }

    async fn records(
        &self,
        kind: RecordKind,
        ids: &[RecordId],
        _: &FieldSet,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        let meta = RecordMeta { version: VersionId::FIRST, last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
        let person = |id: &RecordId| {
            let details = IndividualDetails::default();
            ChangedRecord::Individual(Arc::new(Record { id: *id, meta: meta.clone(), details }))
        };
        match (kind, self.groups) {
            (RecordKind::Individual, _) => Ok(ids.iter().map(person).collect()),
            (RecordKind::Group, Groups::Fail) => Err(StoreError::Failed("the database is gone".into())),
            (RecordKind::Group, Groups::NeverCome) => std::future::pending().await,
            _ => Ok(Vec::new()),
        }
    }

    async fn programs(&self) -> Result<Vec<ChangedRecord>, StoreError> {
        Ok(Vec::new())
    }

    async fn touched_since(
        &self,
        after: Sequence,
        _: usize,
    ) -> Result<Option<Vec<(RecordKind, RecordId)>>, StoreError> {
        let people = (after.0 + 1..=self.people).map(|id| (RecordKind::Individual, RecordId(id)));
        Ok(Some(people.chain([(RecordKind::Group, RecordId(1))]).collect()))
    }
}

/// A source of snapshots that the tests never call.
struct NoSource;

#[async_trait::async_trait]
impl SnapshotSource for NoSource {
    async fn last(&self) -> Result<(History, Sequence), StoreError> {
        unreachable!()
    }

    async fn snapshot(&self, _: SnapshotReader<'_>) -> Result<Arc<dyn ReadSnapshot>, StoreError> {
        unreachable!()
    }

    async fn heard(&self, _: Duration) {}
}

fn cache(bytes_max: u64) -> PartedRegister {
    PartedRegister::new(Arc::new(NoSource), PARTITION.size, bytes_max)
}

/// Returns the last individual of the partition at a sequence number.
async fn last(register: &PartedRegister, sequence: u64, groups: Groups) -> Result<Option<RecordId>, StoreError> {
    let moment = FakeSnapshot { sequence, people: sequence, history: 0, groups };
    let (snapshot, _) = register.snapshot(&moment, PARTITION, register.begin()).await?;
    Ok(snapshot.last_of(Subject::Individual))
}

#[tokio::test]
async fn a_partition_that_is_partly_updated_is_never_read() {
    let there = |id| Some(RecordId(id));
    for left in [Groups::Fail, Groups::NeverCome] {
        let register = cache(u64::MAX);
        assert_eq!(last(&register, 2, Groups::AreRead).await.unwrap(), there(2));
        // The individuals are applied, then the update is interrupted.
        match left {
            Groups::NeverCome => assert!(last(&register, 3, left).now_or_never().is_none()),
            Groups::AreRead | Groups::Fail => assert!(last(&register, 3, left).await.is_err()),
        }
        // A preview that began earlier still reads its own snapshot.
        assert_eq!(last(&register, 2, Groups::AreRead).await.unwrap(), there(2), "{left:?}");
        assert_eq!(last(&register, 4, Groups::AreRead).await.unwrap(), there(4), "{left:?}");
        assert_eq!(last(&register, 3, Groups::AreRead).await.unwrap(), there(3), "{left:?}");
        assert_eq!(last(&register, 4, Groups::AreRead).await.unwrap(), there(4), "{left:?}");
    }
}

#[tokio::test]
async fn what_another_database_had_at_the_same_number_is_not_shown() {
    let register = cache(u64::MAX);
    assert_eq!(last(&register, 4, Groups::AreRead).await.unwrap(), Some(RecordId(4)));
    for (history, people) in [(1, 3), (2, 2)] {
        // The other timeline has the cached sequence number or a lower one, as after a failover that lost transactions.
        let moment = FakeSnapshot { sequence: people + 1, people, history, groups: Groups::AreRead };
        let (snapshot, _) = register.snapshot(&moment, PARTITION, register.begin()).await.unwrap();
        assert_eq!(snapshot.last_of(Subject::Individual), Some(RecordId(people)), "{history}");
    }
}

#[tokio::test]
async fn rows_are_other_records_in_a_partition_that_was_read_again() {
    let register = cache(u64::MAX);
    let layout = async |sequence, history| {
        let moment = FakeSnapshot { sequence, people: sequence, history, groups: Groups::AreRead };
        register.snapshot(&moment, PARTITION, register.begin()).await.unwrap().1
    };
    let first = layout(3, 0).await;
    assert!(first.is_some());
    assert_eq!(layout(3, 0).await, first);
    assert_eq!(layout(4, 0).await, first, "what was written since is put behind it");
    assert_eq!(layout(2, 0).await, None, "it is read for one preview alone");
    assert_eq!(layout(4, 0).await, first);
    assert!(layout(4, 1).await.is_some_and(|again| Some(again) != first), "another database has other records");
}

#[tokio::test]
async fn a_register_larger_than_the_cache_is_partly_read_from_it() {
    const PEOPLE: u64 = 8;
    let register = cache(2 * PEOPLE * RECORD_BYTES);
    let preview = async |kind| {
        let (mut layouts, number) = (Vec::new(), register.begin());
        for partition in 0..4 {
            let moment = FakeSnapshot { sequence: PEOPLE, people: PEOPLE, history: 0, groups: Groups::AreRead };
            let partition = Partition { kind, number: partition, ..PARTITION };
            let (snapshot, layout) = register.snapshot(&moment, partition, number).await.unwrap();
            assert_eq!(snapshot.last_of(Subject::Individual), Some(RecordId(PEOPLE)));
            layouts.push(layout);
        }
        assert_eq!(register.usage(), PartitionUsage { partitions: 2, bytes: 2 * PEOPLE * RECORD_BYTES });
        layouts
    };
    let first = preview(Subject::Individual).await;
    assert!(matches!(first[..], [Some(_), Some(_), None, None]), "{first:?}");
    assert_eq!(preview(Subject::Individual).await, first, "the cached half is not read again");
    // The partitions of other previews are evicted when the preview before did not use them.
    assert_eq!(preview(Subject::Group).await, [None; 4]);
    let groups = preview(Subject::Group).await;
    assert!(matches!(groups[..], [Some(_), Some(_), None, None]), "{groups:?}");
    assert_eq!(preview(Subject::Group).await, groups);
}

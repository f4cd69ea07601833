//! Synchronization of the in-memory register with a fake database that reports its writes.

use std::sync::atomic::{AtomicBool, AtomicUsize};

use super::*;
use daftar_domain::field::FieldSet;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{Record, RecordMeta, VersionId};
use daftar_domain::search::SubjectQuery;
use daftar_store::index::Sees;
use daftar_store::snapshot::{Partition, PartitionDependencies};

/// A fake database in which each write creates or changes individuals.
#[derive(Default)]
struct Fake {
    register: Mutex<Register>,
    is_unavailable: AtomicBool,
    /// True if reads of records panic.
    panics: AtomicBool,
    /// Number of records read from it.
    read: AtomicUsize,
    heard: Notify,
}

#[derive(Debug, Clone, Default)]
struct Register {
    history: u64,
    /// The individuals that each write created or changed.
    writes: Vec<Vec<u64>>,
    unreadable: BTreeSet<u64>,
}

fn person(id: u64) -> ChangedRecord {
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
    ChangedRecord::Individual(Arc::new(Record { id: RecordId(id), meta, details: IndividualDetails::default() }))
}

fn change(sequence: u64, id: u64) -> Change {
    Change { sequence: Sequence(sequence), record: person(id) }
}

impl Register {
    fn last(&self) -> u64 {
        self.writes.iter().flatten().copied().max().unwrap_or_default()
    }
}

impl Fake {
    fn now(&self) -> MutexGuard<'_, Register> {
        self.register.lock().unwrap()
    }

    /// Writes as another server does.
    fn write(&self, people: impl IntoIterator<Item = u64>) {
        self.now().writes.push(people.into_iter().collect());
    }

    fn respond(&self) -> Result<Register, StoreError> {
        if self.is_unavailable.load(Ordering::Relaxed) {
            return Err(StoreError::Failed("the database is unavailable".into()));
        }
        Ok(self.now().clone())
    }

    fn be_away(&self, is_unavailable: bool) {
        self.is_unavailable.store(is_unavailable, Ordering::Relaxed);
    }
}

struct Feed(Arc<Fake>);

#[async_trait::async_trait]
impl SnapshotSource for Feed {
    async fn last(&self) -> Result<(History, Sequence), StoreError> {
        let register = self.0.respond()?;
        Ok((History([register.history, 0]), Sequence(register.writes.len() as u64)))
    }

    async fn snapshot(&self, _: SnapshotReader<'_>) -> Result<Arc<dyn ReadSnapshot>, StoreError> {
        Ok(Arc::new(FakeSnapshot { register: self.0.respond()?, fake: Arc::clone(&self.0) }))
    }

    async fn heard(&self, at_most: Duration) {
        let _in_time = tokio::time::timeout(at_most, self.0.heard.notified()).await;
    }
}

struct FakeSnapshot {
    register: Register,
    fake: Arc<Fake>,
}

#[async_trait::async_trait]
impl ReadSnapshot for FakeSnapshot {
    fn sequence(&self) -> Sequence {
        Sequence(self.register.writes.len() as u64)
    }

    fn history(&self) -> History {
        History([self.register.history, 0])
    }

    async fn last(&self, kind: RecordKind) -> Result<RecordId, StoreError> {
        Ok(RecordId(if kind == RecordKind::Individual { self.register.last() } else { 0 }))
    }

    async fn matching(&self, _: &SubjectQuery, _: Option<Sees<'_>>) -> Result<Vec<RecordId>, StoreError> {
        Ok(Vec::new())
    }

    async fn dependencies(&self, _: Partition) -> Result<PartitionDependencies, StoreError> {
        Ok(PartitionDependencies::default())
    }

    async fn records(&self, _: RecordKind, ids: &[RecordId], _: &FieldSet) -> Result<Vec<ChangedRecord>, StoreError> {
        if ids.iter().any(|id| self.register.unreadable.contains(&id.0)) {
            return Err(StoreError::Corrupt { what: "individual", reason: "it is damaged".to_owned() });
        }
        assert!(!self.fake.panics.load(Ordering::Relaxed), "on purpose");
        self.fake.read.fetch_add(ids.len(), Ordering::Relaxed);
        Ok(ids.iter().map(|id| person(id.0)).collect())
    }

    async fn programs(&self) -> Result<Vec<ChangedRecord>, StoreError> {
        Ok(Vec::new())
    }

    async fn touched_since(&self, after: Sequence, limit: usize) -> Result<Option<Vec<Place>>, StoreError> {
        let after = usize::try_from(after.0).unwrap();
        let touched: BTreeSet<u64> = self.register.writes[after..].iter().flatten().copied().collect();
        let places = touched.into_iter().map(|id| (RecordKind::Individual, RecordId(id)));
        Ok(Some(places.collect::<Vec<_>>()).filter(|places| places.len() <= limit))
    }
}

/// An index of a fake database, and database tables with one individual that no in-memory register contains.
fn index(fake: &Arc<Fake>, columns: Columns, history: Option<History>) -> Arc<SharedIndex> {
    let tables = Arc::new(Columns::default());
    tables.load(&[person(1)]);
    let feed = Arc::new(Feed(Arc::clone(fake)));
    let mut index = SharedIndex::new(feed, Arc::new(MemoryIndex(tables)), Arc::new(columns), history);
    // On a busy machine a search waits longer than usual for a write.
    index.lag_max = Duration::from_secs(30);
    Arc::new(index)
}

fn fake(people: u64) -> Arc<Fake> {
    let fake = Arc::new(Fake::default());
    fake.write(1..=people);
    fake
}

async fn people(index: &SharedIndex) -> u64 {
    index.current().await.record_counts().await.unwrap().individuals
}

fn read(fake: &Fake) -> usize {
    fake.read.swap(0, Ordering::Relaxed)
}

#[tokio::test]
async fn a_search_sees_what_another_server_wrote_before_it() {
    let fake = fake(3);
    let index = index(&fake, Columns::default(), None);
    assert!(!index.was_built());
    assert_eq!(people(&index).await, 1, "the tables of the database answer before it is built");
    index.sync().await.unwrap();
    assert!(index.was_built());
    assert_eq!((people(&index).await, read(&fake)), (3, 3));
    let following = tokio::spawn({
        let index = Arc::clone(&index);
        async move { index.maintain().await }
    });
    for last in 4..=9 {
        fake.write([last]);
        // No notification arrives: the search itself queries the database.
        assert_eq!(people(&index).await, last);
    }
    following.abort();
    assert_eq!(read(&fake), 6, "only what was written was read");
    assert_eq!((index.usage().fallbacks, index.usage().rebuilds), (1, 1));
}

#[tokio::test]
async fn memory_is_filled_again_after_a_panic() {
    let fake = fake(3);
    let index = index(&fake, Columns::default(), None);
    index.sync().await.unwrap();
    fake.write([4]);
    fake.panics.store(true, Ordering::Relaxed);
    let following = tokio::spawn({
        let index = Arc::clone(&index);
        async move { index.maintain().await }
    });
    assert!(following.await.unwrap_err().is_panic());
    assert_eq!(people(&index).await, 1, "the tables of the database answer");
    fake.panics.store(false, Ordering::Relaxed);
    index.sync().await.unwrap();
    assert_eq!((people(&index).await, index.usage().rebuilds), (4, 2));
}

#[tokio::test]
async fn own_writes_are_there_without_being_read_unless_one_of_another_server_is_missing_before_them() {
    let fake = fake(3);
    let index = index(&fake, Columns::default(), None);
    index.sync().await.unwrap();
    read(&fake);
    fake.write([4]);
    fake.write([5]);
    index.apply(&[change(2, 4), change(3, 5)]);
    assert_eq!((people(&index).await, read(&fake)), (5, 0));
    fake.write([6]);
    fake.write([7]);
    index.apply(&[change(5, 7)]);
    assert_eq!(index.columns.sequence(), Sequence(3), "the write before it is missing");
    index.sync().await.unwrap();
    assert_eq!((people(&index).await, read(&fake)), (7, 2));
    let rows: Vec<_> = (4..=7).map(|id| index.columns.snapshot().row_of(RecordId(id))).collect();
    assert_eq!(rows, [Some(3), Some(4), Some(5), Some(6)], "in the order of their keys");
    index.apply(&[change(5, 7)]);
    assert_eq!(index.columns.sequence(), Sequence(5), "present writes are not applied again");
}

#[tokio::test]
async fn another_history_is_read_again_and_its_rows_are_other_records() {
    let fake = fake(5);
    let index = index(&fake, Columns::default(), None);
    index.sync().await.unwrap();
    let (_, layout) = index.snapshot().await.unwrap();
    let stamp = index.stamp();
    assert!(index.is_still(stamp).await);
    fake.write([6]);
    index.sync().await.unwrap();
    assert_eq!(index.snapshot().await.unwrap().1, layout, "new records are appended");
    assert!(index.is_still(stamp).await);
    // Failover to a replica without the last write, which has continued with its own writes.
    *fake.now() = Register { history: 1, writes: vec![vec![1, 2], vec![3]], ..Register::default() };
    assert!(!index.is_still(stamp).await, "no checkpoint is created from it");
    index.sync().await.unwrap();
    assert_eq!(people(&index).await, 3);
    assert_ne!(index.snapshot().await.unwrap().1, layout);
    assert!(!index.is_still(stamp).await);
    assert_eq!(index.usage().rebuilds, 2);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_left_out_and_counted_until_it_can_be() {
    let fake = fake(4);
    fake.now().unreadable = BTreeSet::from([2]);
    let index = index(&fake, Columns::default(), None);
    index.sync().await.unwrap();
    assert_eq!((people(&index).await, index.usage().unreadable), (3, 1));
    fake.now().unreadable.insert(5);
    fake.write([5, 6]);
    index.sync().await.unwrap();
    assert_eq!((people(&index).await, index.usage().unreadable), (4, 2));
    fake.now().unreadable.clear();
    fake.write([2]);
    index.apply(&[change(3, 2)]);
    index.sync().await.unwrap();
    assert_eq!((people(&index).await, index.usage().unreadable), (6, 0));
    let rows: Vec<_> = (1..=6).map(|id| index.columns.snapshot().row_of(RecordId(id))).collect();
    assert_eq!(rows, (0..6).map(Some).collect::<Vec<_>>(), "in the order of registration");
}

#[tokio::test]
async fn a_record_that_becomes_unreadable_is_in_no_search() {
    let fake = fake(4);
    let index = index(&fake, Columns::default(), None);
    index.sync().await.unwrap();
    assert_eq!((people(&index).await, index.usage().unreadable), (4, 0));
    fake.now().unreadable.insert(2);
    fake.write([2, 5]);
    index.sync().await.unwrap();
    assert_eq!((people(&index).await, index.usage().unreadable), (4, 1));
    let is_found = (1..=5).map(|id| index.columns.snapshot().row_of(RecordId(id)).is_some());
    assert_eq!(is_found.collect::<Vec<_>>(), [true, false, true, true, true], "no earlier version is left");
    assert_eq!(index.usage().rebuilds, 2);
}

#[tokio::test]
async fn searches_are_answered_by_the_database_while_memory_is_too_far_behind() {
    let fake = fake(3);
    let mut index = index(&fake, Columns::default(), None);
    let lag_max = Duration::from_millis(20);
    Arc::get_mut(&mut index).unwrap().lag_max = lag_max;
    index.sync().await.unwrap();
    fake.write([4]);
    // No synchronization runs: the first search waits, the later ones do not.
    for fallbacks in 1..=2 {
        assert_eq!(people(&index).await, 1);
        assert_eq!((index.usage().writes_behind, index.usage().fallbacks), (1, fallbacks));
        assert!(index.usage().behind >= lag_max);
    }
    index.sync().await.unwrap();
    assert_eq!(people(&index).await, 4);
    assert_eq!((index.usage().writes_behind, index.usage().behind), (0, Duration::ZERO));
}

#[tokio::test]
async fn an_outage_of_the_database_is_survived() {
    let fake = fake(3);
    let index = index(&fake, Columns::default(), None);
    fake.be_away(true);
    let following = tokio::spawn({
        let index = Arc::clone(&index);
        async move { index.maintain().await }
    });
    while !index.state().has_failed {
        tokio::task::yield_now().await;
    }
    assert!(!index.was_built());
    fake.be_away(false);
    while !index.was_built() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(people(&index).await, 3);
    fake.be_away(true);
    assert_eq!(people(&index).await, 1, "the database reports its own failure");
    fake.be_away(false);
    fake.write([4]);
    assert_eq!(people(&index).await, 4);
    following.abort();
    assert_eq!(index.usage().rebuilds, 1);
}

#[tokio::test]
async fn many_changes_are_applied_together_and_too_many_are_read_again() {
    let fake = fake(2);
    let index = index(&fake, Columns::default(), None);
    index.sync().await.unwrap();
    let (before, layout) = index.snapshot().await.unwrap();
    let many = APPLIED_MAX as u64 + 10;
    fake.write(3..=many);
    index.sync().await.unwrap();
    assert_eq!(people(&index).await, many);
    let (after, same) = index.snapshot().await.unwrap();
    assert_eq!((before.individual_count(), after.individual_count(), same), (2, many, layout));
    assert_eq!(index.usage().rebuilds, 1);
    fake.write(1..=CAUGHT_UP_MAX as u64 + 1);
    index.sync().await.unwrap();
    assert_eq!((people(&index).await, index.usage().rebuilds), (CAUGHT_UP_MAX as u64 + 1, 2));
}

#[tokio::test]
async fn a_checkpoint_saves_reading_what_it_has() {
    let fake = fake(40);
    let loaded = Columns::default();
    loaded.load(&(1..=40).map(person).collect::<Vec<_>>());
    loaded.reach(Sequence(1));
    fake.write([41]);
    let index = index(&fake, loaded, Some(History([0, 0])));
    assert_eq!(people(&index).await, 1, "it lacks a write");
    index.sync().await.unwrap();
    assert_eq!((people(&index).await, read(&fake), index.usage().rebuilds), (41, 1, 0));
}

#[test]
fn changes_follow_where_no_write_is_missing() {
    assert!(follow(&[change(3, 1), change(3, 2), change(4, 1)], Sequence(2)));
    for changes in [&[][..], &[change(4, 1)], &[change(2, 1)], &[change(3, 1), change(5, 1)]] {
        assert!(!follow(changes, Sequence(2)));
    }
}

//! Groups in progress at the same time: the committer completes one while the writer works on the next.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::sync::Notify;

use super::*;
use crate::group::JOBS_PER_GROUP_MAX;
use daftar_domain::change::Change;
use daftar_domain::photo::Photo;
use daftar_domain::vocabulary::ConceptGroup;
use daftar_store::NewCodes;

/// A sink that waits for a permit before it applies the changes of a group; of none once the sender is dropped.
struct Gated {
    permits: Mutex<Receiver<()>>,
    applied: Listener,
}

impl Gated {
    fn new() -> (Sender<()>, Arc<Self>) {
        let (permit, permits) = channel();
        (permit, Arc::new(Self { permits: Mutex::new(permits), applied: Listener::default() }))
    }

    fn sequences(&self) -> Vec<u64> {
        sequences(&self.applied)
    }
}

impl ChangeSink for Gated {
    fn apply(&self, changes: &[Change]) {
        let _ = self.permits.lock().unwrap().recv();
        self.applied.apply(changes);
    }
}

fn sequences(listener: &Listener) -> Vec<u64> {
    listener.0.lock().unwrap().iter().map(|change| change.sequence.0).collect()
}

type Attempt = tokio::task::JoinHandle<Result<Committed, StoreError>>;

fn one(number: u64) -> Write {
    write(vec![Operation::create(person(&[&format!("urn:x:a|{number}")]))])
}

/// Commits the creation of a person in a task.
fn begin(store: &Arc<SledStore>, number: u64) -> Attempt {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.commit(one(number)).await })
}

/// Fills the next group, of which the caller does not wait for results, from the second person on. Then commits the
/// creation of one more person, and returns when that is in the queue. Its notification comes when it is planned.
async fn fill_group(store: &Arc<SledStore>) -> (u64, Attempt, Arc<Notify>) {
    let last = JOBS_PER_GROUP_MAX as u64 + 2;
    for number in 2..last {
        assert!(tokio::time::timeout(Duration::ZERO, store.commit(one(number))).await.is_err());
    }
    let planned = Arc::new(Notify::new());
    let notify = Arc::clone(&planned);
    let codes = NewCodes {
        first: CodeNumber(0),
        codes: vec![CodeUri::from_parts("urn:x", "a").unwrap()],
        counters: Vec::new(),
        given: Arc::new(move || notify.notify_one()),
    };
    let mut write = one(last);
    write.operations.push(Operation::NumberCodes(codes));
    let (committing, waiting) = (Arc::clone(store), store.usage().waiting);
    let attempt = tokio::spawn(async move { committing.commit(write).await });
    while store.usage().waiting == waiting {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (last, attempt, planned)
}

/// Commits the creation of the first person. Sends more writes while its group is being flushed. Then lets all flushes
/// end by dropping their sender, and returns when all writes are acknowledged.
async fn commit_queued<T>(store: &Arc<SledStore>, writes: Vec<Write>, release: Sender<T>) {
    let first = begin(store, 1);
    applied(store, 1).await;
    let mut waiting: Vec<_> = writes.into_iter().map(|write| Box::pin(store.commit(write))).collect();
    for write in &mut waiting {
        // Polled once, which sends the job.
        assert!(tokio::time::timeout(Duration::ZERO, write).await.is_err());
    }
    drop(release);
    first.await.unwrap().unwrap();
    for write in waiting {
        write.await.unwrap();
    }
}

async fn notified(planned: &Notify) {
    tokio::time::timeout(Duration::from_secs(30), planned.notified()).await.unwrap();
}

async fn is_applied(store: &SledStore, number: u64) -> bool {
    store.record(RecordKind::Individual, RecordId(number)).await.unwrap().is_some()
}

/// Waits until the database contains a person, acknowledged or not.
async fn applied(store: &SledStore, number: u64) {
    let applied = async {
        while !is_applied(store, number).await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), applied).await.unwrap();
}

/// Opens a store whose flushes have the results that the test sends; all succeed once the sender is dropped.
fn with_results(path: &Path) -> (Sender<io::Result<()>>, Arc<SledStore>) {
    let (result, results) = channel::<io::Result<()>>();
    (result, Arc::new(open_with(path, options(), move || results.recv().unwrap_or(Ok(())))))
}

#[test]
fn an_acknowledged_write_and_all_before_it_are_visible() {
    let folder = TempDir::new().unwrap();
    let (store, listener) = (Folder::open(folder.path()), Arc::new(Listener::default()));
    store.attach_sink(Arc::clone(&listener) as Arc<dyn ChangeSink>).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let handle = runtime.handle();
    std::thread::scope(|threads| {
        for writer in 0..16 {
            let (store, listener) = (&store, &listener);
            threads.spawn(move || {
                for number in 0..30 {
                    let committed = handle.block_on(store.commit(one(writer * 30 + number))).unwrap();
                    let visible = sequences(listener).len() as u64;
                    assert!(visible >= committed.sequence.0, "{visible} {}", committed.sequence.0);
                    assert!(store.usage().sequence >= committed.sequence.0);
                }
            });
        }
    });
    assert_eq!(sequences(&listener), (1..=480).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_applied_while_the_sink_has_the_one_before() {
    let folder = TempDir::new().unwrap();
    let (store, (permit, sink)) = (Arc::new(Folder::open(folder.path())), Gated::new());
    store.attach_sink(Arc::clone(&sink) as Arc<dyn ChangeSink>).unwrap();
    let first = begin(&store, 1);
    applied(&store, 1).await;
    let second = begin(&store, 2);
    applied(&store, 2).await;
    assert!(!first.is_finished() && !second.is_finished(), "neither is visible to searches");
    assert!(sink.sequences().is_empty());
    permit.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap().sequence, Sequence(1));
    assert!(!second.is_finished());
    assert_eq!(sink.sequences(), [1]);
    drop(permit);
    assert_eq!(second.await.unwrap().unwrap().sequence, Sequence(2));
    assert_eq!(sink.sequences(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_planned_while_the_one_before_is_synced_and_applied_afterwards() {
    let folder = TempDir::new().unwrap();
    let (result, store) = with_results(folder.path());
    let listener = Arc::new(Listener::default());
    store.attach_sink(Arc::clone(&listener) as Arc<dyn ChangeSink>).unwrap();
    let first = begin(&store, 1);
    applied(&store, 1).await;
    let (last, attempt, planned) = fill_group(&store).await;
    result.send(Ok(())).unwrap();
    first.await.unwrap().unwrap();
    notified(&planned).await;
    assert!(is_applied(&store, last - 1).await, "the group before");
    assert!(!is_applied(&store, last).await, "the group before is not on disk");
    drop(result);
    assert_eq!(attempt.await.unwrap().unwrap().sequence, Sequence(last));
    assert_eq!(sequences(&listener), (1..=last).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_group_fails_its_callers_and_those_after_it_alone() {
    let folder = TempDir::new().unwrap();
    let (result, store) = with_results(folder.path());
    let (permit, sink) = Gated::new();
    store.attach_sink(Arc::clone(&sink) as Arc<dyn ChangeSink>).unwrap();
    let first = begin(&store, 1);
    applied(&store, 1).await;
    let (last, attempt, planned) = fill_group(&store).await;
    result.send(Ok(())).unwrap();
    notified(&planned).await;
    result.send(Err(io::Error::other("no space left on device"))).unwrap();
    assert!(!first.is_finished(), "the sink does not have it yet");
    drop(permit);
    assert_eq!(first.await.unwrap().unwrap().sequence, Sequence(1), "it was on disk");
    let Err(StoreError::Failed(cause)) = attempt.await.unwrap() else { panic!("not rejected") };
    assert_eq!(cause.to_string(), "flushing: IO error: no space left on device");
    assert!(!is_applied(&store, last).await, "planned on top of a group that may be lost, and not written");
    assert_eq!(sink.sequences(), [1]);
    drop(store);
    let known = all_individuals(&Folder::open(folder.path())).await;
    assert!(known.first() == Some(&1) && !known.contains(&last), "{known:?}");
}

#[tokio::test]
async fn closing_completes_the_groups_in_progress() {
    let folder = TempDir::new().unwrap();
    let (store, (permit, sink)) = (Folder::open(folder.path()), Gated::new());
    store.attach_sink(Arc::clone(&sink) as Arc<dyn ChangeSink>).unwrap();
    for number in 1..=40 {
        // Polled once, which sends the job; no caller waits for its result.
        assert!(tokio::time::timeout(Duration::ZERO, store.commit(one(number))).await.is_err());
        if number == 1 {
            applied(&store, 1).await;
        }
    }
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        drop(permit);
    });
    drop(store);
    assert_eq!(sink.sequences(), (1..=40).collect::<Vec<_>>());
    assert_eq!(all_individuals(&Folder::open(folder.path())).await, (1..=40).collect::<Vec<_>>());
    opener.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_between_two_groups_finds_the_same_in_the_sink() {
    let folder = TempDir::new().unwrap();
    let (store, (permit, sink)) = (Arc::new(Folder::open(folder.path())), Gated::new());
    store.attach_sink(Arc::clone(&sink) as Arc<dyn ChangeSink>).unwrap();
    let first = begin(&store, 1);
    applied(&store, 1).await;
    let values = store.raw_values().await.unwrap();
    let (found, finding) = channel();
    let seen = Arc::clone(&sink);
    let check = std::thread::spawn(move || values.at_rest(Box::new(move |_| found.send(seen.sequences()).unwrap())));
    assert!(finding.recv_timeout(Duration::from_millis(50)).is_err(), "the sink lacks a write that the store has");
    permit.send(()).unwrap();
    assert_eq!(finding.recv_timeout(Duration::from_secs(30)).unwrap(), [1]);
    check.join().unwrap().unwrap();
    first.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_flush_that_never_ends_is_a_failure_of_the_store() {
    let folder = TempDir::new().unwrap();
    let (release, released) = channel::<()>();
    let store = SledStore::open_calling(folder.path(), options(), |_| DiskCalls {
        flush: Box::new(move || {
            let _ = released.recv();
            Ok(())
        }),
        flush_limit: Duration::from_millis(50),
    });
    let store = store.unwrap();
    let listener = Arc::new(Listener::default());
    store.attach_sink(Arc::clone(&listener) as Arc<dyn ChangeSink>).unwrap();
    for number in 1..=2 {
        let Err(StoreError::Failed(cause)) = store.commit(one(number)).await else { panic!("not rejected") };
        assert_eq!(cause.to_string(), "flushing: the database could not write within 0 seconds");
    }
    assert!(sequences(&listener).is_empty());
    drop(store);
    drop(release);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_writes_that_wait_together_are_several_groups() {
    let folder = TempDir::new().unwrap();
    let ((release, released), flushes) = (channel::<()>(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&flushes);
    let store = Arc::new(open_with(folder.path(), options(), move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = released.recv();
        Ok(())
    }));
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    let photo = |number: u8| Photo::new(vec![number; 1_000_000], |bytes| [bytes[0]; 32]).unwrap();
    let put = |number| write(vec![Operation::PutPhoto(photo(number))]);
    commit_queued(&store, (1..=7).map(put).collect(), release).await;
    assert_eq!(flushes.load(Ordering::SeqCst), 4, "flushes of one write, twice three, and one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_was_saved_before_it_was_applied_is_repeated_completely() {
    let folder = TempDir::new().unwrap();
    let (release, store) = with_results(folder.path());
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    let group = |description: &str| {
        let (name, description) = ("G".to_owned(), description.to_owned());
        let group = ConceptGroup { name, description, includes: Vec::new(), excludes: Vec::new() };
        Operation::PutSetting(Setting::ConceptGroup(group))
    };
    let photo = Photo::new(vec![7; 300_000], |_| [7; 32]).unwrap();
    let many = (2..72).map(|number| Operation::create(person(&[&format!("urn:x:a|{number}")])));
    let writes = [vec![group("old"), Operation::PutPhoto(photo)], many.collect(), vec![group("new")]];
    commit_queued(&store, writes.map(write).into(), release).await;
    // As after a killed process, once with the state of an idle store and once in the course of a later write.
    let killed = copied(folder.path());
    assert!(crate::unfinished::read(killed.path()).unwrap().is_some(), "the group is repeated");
    let after = Folder::open(killed.path());
    let described = |settings: Vec<Setting>| match settings.as_slice() {
        [Setting::ConceptGroup(group)] => group.description.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(described(after.settings().await.unwrap()), "new");
    assert_eq!(all_individuals(&after).await.len(), 71);
    commit(store.as_ref(), vec![group("newer")]).await.unwrap();
    let killed = copied(folder.path());
    assert!(crate::unfinished::read(killed.path()).unwrap().is_none(), "it was forgotten");
    let after = Folder::open(killed.path());
    assert_eq!(described(after.settings().await.unwrap()), "newer");
}

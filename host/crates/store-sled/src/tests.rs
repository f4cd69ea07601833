mod damage;
mod overlay;
mod pipeline;
mod torn;

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use super::testing::{Folder, options, shared_store};
use super::*;
use daftar_domain::individual::{Individual, IndividualDetails, TELECOM, TELECOM_VALUE};
use daftar_domain::value::Values;
use daftar_store::archive::{Archive, Refill};
use daftar_store::record::samples;
use daftar_store::suite::{
    Backend, Listener, all_individuals, audit_entry, commit, create, every_behaviour, person, write,
};
use daftar_store::testing::{AuditReads as _, ProxyStore};
use daftar_store::{ChangeSink, Operation};

mod behaviour {
    use super::*;

    every_behaviour!(Folder);
}

/// A store in a folder, read and written through an overlay.
struct Overlaid {
    store: Option<ProxyStore>,
    folder: Folder,
}

impl Overlaid {
    fn on(folder: Folder) -> Self {
        let base = Arc::clone(folder.opened()) as Arc<dyn Store>;
        Self { store: Some(ProxyStore::in_transactions(base)), folder }
    }
}

#[async_trait::async_trait]
impl Backend for Overlaid {
    fn fresh() -> Self {
        Self::on(Folder::fresh())
    }

    fn store(&self) -> &dyn Store {
        self.store.as_ref().unwrap()
    }

    fn whole(&self) -> &dyn Archive {
        self.folder.whole()
    }

    fn refill() -> (Box<dyn Refill>, Box<dyn FnOnce() -> Self>) {
        let (filling, finish) = Folder::refill();
        (filling, Box::new(|| Self::on(finish())))
    }

    async fn reopen(&mut self) {
        drop(self.store.take());
        self.folder.reopen().await;
        let base = Arc::clone(self.folder.opened()) as Arc<dyn Store>;
        self.store = Some(ProxyStore::in_transactions(base));
    }
}

mod behaviour_of_the_overlay {
    use super::*;

    every_behaviour!(Overlaid);
}

/// Two servers that share a store.
mod sharing {
    use super::*;
    use daftar_store::suite::sharing::{Process, sharing};

    async fn two() -> (Process, Process, ()) {
        let store = shared_store();
        let process = Process { store: store.clone(), shared: store };
        (process.clone(), process, ())
    }

    sharing!(two);
}

/// Copies the files of an open store, as after a crash.
pub(super) fn copied(from: &Path) -> TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &target);
            } else {
                std::fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    let folder = TempDir::new().unwrap();
    copy(from, folder.path());
    folder
}

#[tokio::test]
async fn acknowledged_writes_survive_a_crash() {
    let folder = TempDir::new().unwrap();
    let store = Folder::listening(folder.path());
    for number in 1..=40 {
        let operations = vec![Operation::create(person(&[&format!("urn:x:a|{number}")]))];
        let audited = Write { audit: vec![audit_entry(&number.to_string())], ..write(operations) };
        store.commit(audited).await.unwrap();
        if number % 8 != 0 {
            continue;
        }
        store.raise_counter("day", number).await.unwrap();
        let code = CodeUri::from_parts("urn:x", &number.to_string()).unwrap();
        store.number_codes(vec![code], Vec::new()).await.unwrap();
        let crashed = copied(folder.path());
        let survivor = Folder::open(crashed.path());
        assert_eq!(all_individuals(&survivor).await, (1..=number).collect::<Vec<_>>());
        assert_eq!(survivor.audit(usize::MAX).await.unwrap().len() as u64, number);
        assert_eq!(survivor.counters("").await.unwrap(), [("day".to_owned(), number)]);
        assert_eq!(survivor.code_table().await.unwrap().codes.len() as u64, number / 8);
        assert_eq!(survivor.attach_sink(Arc::new(Listener::default())).unwrap(), Sequence(number));
        assert_eq!(create(&survivor, person(&[])).await.id, RecordId(number + 1));
    }
}

#[tokio::test]
async fn large_records_survive_a_crash() {
    let folder = TempDir::new().unwrap();
    let store = Folder::listening(folder.path());
    let with_value = |value: String| -> IndividualDetails {
        let details = samples::full_individual().details;
        let telecom: Values = details.items(TELECOM).next().unwrap().clone();
        details.with(TELECOM, vec![telecom.with(TELECOM_VALUE, value)])
    };
    let mut details = with_value("long ".repeat(180_000));
    let stored = create(&store, details.clone()).await;
    let files = std::fs::read_dir(folder.path().join("blobs")).unwrap().count();
    assert_eq!(files, 0, "the record is stored in parts, each of them in the database's log");
    let crashed = copied(folder.path());
    let survivor = Folder::open(crashed.path());
    assert_eq!((&survivor as &dyn Store).find::<IndividualDetails>(stored.id).await.unwrap(), Some(stored));

    details = with_value("longer ".repeat(180_000));
    details.identifiers.clear();
    let refused = commit(&store, vec![Operation::create(details)]).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { what: "individual", .. })));
    assert_eq!(create(&store, person(&[])).await.id, RecordId(2));
}

#[test]
fn writers_in_threads_find_everything_again() {
    let folder = TempDir::new().unwrap();
    let store = Folder::listening(folder.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let handle = runtime.handle();
    let given: Vec<(u64, String)> = std::thread::scope(|threads| {
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                let store = &store;
                threads.spawn(move || {
                    let one = |number| {
                        let address = format!("urn:x:{writer}|{number}");
                        let individual = handle.block_on(create(store, person(&[&address])));
                        (individual.id.0, address)
                    };
                    (0..40).map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let mut ids: Vec<u64> = given.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=640).collect::<Vec<_>>());
    drop(store);
    let store = Folder::open(folder.path());
    for (id, address) in given {
        let found = handle.block_on((&store as &dyn Store).find::<IndividualDetails>(RecordId(id))).unwrap().unwrap();
        assert_eq!(found.details.identifiers[0].key.reveal(), address);
    }
}

#[test]
fn a_folder_is_open_once_and_its_owners_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("deep").join("registry");
    let store = Folder::open(&path);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let error = SledStore::open(&path, options()).err().unwrap();
    assert!(matches!(error, OpenError::Locked(_)));
    assert!(error.to_string().ends_with("is in use by another process: stop that daftar first, or use another folder"));
    drop(store);
    drop(Folder::open(&path));
}

pub(super) fn with_database(path: &Path, change: impl FnOnce(&::sled::Db)) {
    let opened = open::open(path, 1024 * 1024).unwrap();
    change(opened.database.tree());
    opened.database.tree().flush().unwrap();
}

#[test]
fn a_folder_of_a_newer_daftar_is_rejected() {
    let folder = TempDir::new().unwrap();
    with_database(folder.path(), |database| {
        database.insert(keys::FORMAT, open::layout_mark(2)).unwrap();
    });
    let error = SledStore::open(folder.path(), options()).err().unwrap();
    assert!(error.to_string().contains("has layout 2, and this daftar knows layouts up to 1"), "{error}");
}

#[test]
fn a_folder_from_before_the_first_release_is_rejected_unchanged() {
    for layout in [1_u32, 2, 7] {
        let folder = TempDir::new().unwrap();
        with_database(folder.path(), |database| {
            database.insert(keys::FORMAT, &layout.to_be_bytes()).unwrap();
        });
        for _ in 0..2 {
            let error = SledStore::open(folder.path(), options()).err().unwrap();
            assert!(matches!(error, OpenError::BeforeFirstRelease(_)), "{error}");
            let begin = format!("the data folder `{}` was made before the first release", folder.path().display());
            assert!(error.to_string().starts_with(&begin), "{error}");
            assert!(error.to_string().contains("`daftar export FILE`"), "{error}");
        }
        let refused = open::open_existing(folder.path(), 1024 * 1024).err().unwrap();
        assert!(matches!(refused, OpenError::BeforeFirstRelease(_)), "{refused}");
    }
}

#[test]
fn a_foreign_folder_is_rejected() {
    let folder = TempDir::new().unwrap();
    with_database(folder.path(), |database| {
        database.remove(keys::FORMAT).unwrap();
        database.insert(b"x", b"y").unwrap();
    });
    assert!(matches!(SledStore::open(folder.path(), options()), Err(OpenError::Foreign { .. })));
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    assert!(matches!(SledStore::open(&file, options()), Err(OpenError::Io { .. })));
}

#[tokio::test]
async fn an_unreadable_value_is_named_and_affects_no_other() {
    let folder = TempDir::new().unwrap();
    let store = Folder::listening(folder.path());
    create(&store, person(&["urn:x:a|1"])).await;
    create(&store, person(&["urn:x:a|2"])).await;
    drop(store);
    with_database(folder.path(), |database| {
        database.insert(keys::record(RecordKind::Individual, RecordId(1)), &[9, 9]).unwrap();
    });
    let store = Folder::listening(folder.path());
    let error = (&store as &dyn Store).find::<IndividualDetails>(RecordId(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { what: "individual", .. }), "{error}");
    assert!((&store as &dyn Store).scan::<IndividualDetails>(RecordId(0), 9).await.is_err());
    assert!((&store as &dyn Store).find::<IndividualDetails>(RecordId(2)).await.unwrap().is_some());
    assert_eq!(create(&store, person(&["urn:x:a|3"])).await.id, RecordId(3));
}

/// Opens a store that calls a function before each flush, and flushes if that succeeds.
fn open_with(
    path: &Path,
    options: SledOptions,
    mut before: impl FnMut() -> std::io::Result<()> + Send + 'static,
) -> SledStore {
    let store = SledStore::open_calling(path, options, |database| DiskCalls {
        flush: Box::new(move || before().map_err(Into::into).and_then(|()| database.tree().flush().map(drop))),
        flush_limit: FLUSH_LIMIT,
    });
    store.unwrap()
}

#[tokio::test]
async fn after_a_failure_of_the_disk_nothing_more_is_written() {
    let folder = TempDir::new().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let listener = Arc::new(Listener::default());
    let broken = Arc::clone(&fails);
    let store = open_with(folder.path(), options(), move || {
        let is_broken = broken.load(Ordering::SeqCst);
        if is_broken { Err(std::io::Error::other("no space left on device")) } else { Ok(()) }
    });
    store.attach_sink(Arc::clone(&listener) as Arc<dyn ChangeSink>).unwrap();
    create(&store, person(&["urn:x:a|1"])).await;
    let second = || vec![Operation::create(person(&["urn:x:a|2"]))];
    for is_broken in [true, false] {
        fails.store(is_broken, Ordering::SeqCst);
        let error = commit(&store, second()).await.unwrap_err();
        let StoreError::Failed(cause) = error else { panic!("wrong error: {error}") };
        assert_eq!(cause.to_string(), "flushing: IO error: no space left on device");
        assert!(matches!(store.raise_counter("day", 1).await, Err(StoreError::Failed(_))));
        assert!(matches!(store.readiness(), Err(StoreError::Failed(_))));
        assert!(matches!(store.append_audit(vec![audit_entry("x")]).await, Err(StoreError::Failed(_))));
    }
    assert_eq!(listener.0.lock().unwrap().len(), 1, "a change that may be lost is not reported");
    assert!((&store as &dyn Store).find::<IndividualDetails>(RecordId(1)).await.unwrap().is_some(), "reads continue");
    drop(store);
    let store = Folder::listening(folder.path());
    let known = all_individuals(&store).await.len() as u64;
    assert!((1..=2).contains(&known), "the first is there, the second may be");
    assert_eq!(create(&store, person(&["urn:x:a|3"])).await.id, RecordId(known + 1));
}

#[tokio::test]
async fn a_folder_has_a_note_while_it_is_closed_and_without_failures() {
    let folder = TempDir::new().unwrap();
    let note = folder.path().join(crate::disk::CLOSED_FILE);
    for fails in [false, true, false] {
        let store = open_with(folder.path(), options(), move || {
            if fails { Err(std::io::Error::other("the disk failed")) } else { Ok(()) }
        });
        store.attach_sink(Arc::new(Listener::default())).unwrap();
        assert!(!note.exists());
        let written = commit(&store, vec![Operation::create(person(&[]))]).await;
        assert_eq!(written.is_err(), fails);
        drop(store);
        assert_eq!(note.exists(), !fails);
    }
}

/// A sink that panics on a change.
struct Panicking;

impl ChangeSink for Panicking {
    fn apply(&self, _: &[daftar_domain::change::Change]) {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn a_panic_of_the_writer_is_a_failure_of_the_store() {
    let folder = TempDir::new().unwrap();
    let store = Folder::open(folder.path());
    store.attach_sink(Arc::new(Panicking)).unwrap();
    let one = || vec![Operation::create(person(&[]))];
    for _ in 0..2 {
        assert!(matches!(commit(&store, one()).await, Err(StoreError::Failed(_))));
    }
    assert!(matches!(store.readiness(), Err(StoreError::Failed(_))));
    assert!(matches!(store.append_audit(vec![audit_entry("x")]).await, Err(StoreError::Failed(_))));
    drop(store);
    assert_eq!(all_individuals(&Folder::open(folder.path())).await, [1], "it was on disk before the sink received it");
}

/// Returns the entries of the audit log that are on disk or in the database's buffers, without those that wait.
fn logged(store: &SledStore) -> Result<Vec<AuditEntry>, StoreError> {
    let bounds = AuditBounds { lines_max: usize::MAX, examined_max: usize::MAX };
    let page = store.read_here(|reader| reader.audit_page(&AuditQuery::default(), AuditPosition::END, bounds))?;
    Ok(page.entries)
}

#[tokio::test]
async fn audit_lines_are_written_without_anything_else_happening() {
    let folder = TempDir::new().unwrap();
    let store = Folder::listening(folder.path());
    store.append_audit(vec![audit_entry("1"), audit_entry("2")]).await.unwrap();
    let written = async {
        while logged(&store).unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), written).await.unwrap();
}

#[tokio::test]
async fn a_full_queue_refuses_instead_of_growing() {
    let folder = TempDir::new().unwrap();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let is_slow = Arc::new(AtomicBool::new(false));
    let slow = Arc::clone(&is_slow);
    let few = SledOptions { queue_writes_max: 2, ..options() };
    let store = open_with(folder.path(), few, move || {
        if slow.load(Ordering::SeqCst) {
            let _ = gate.recv();
        }
        Ok(())
    });
    let store = Arc::new(store);
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    is_slow.store(true, Ordering::SeqCst);
    let mut waiting = Vec::new();
    let refused = loop {
        let (store, operations) = (Arc::clone(&store), vec![Operation::create(person(&[]))]);
        let mut attempt = tokio::spawn(async move { commit(store.as_ref(), operations).await });
        match tokio::time::timeout(std::time::Duration::from_millis(50), &mut attempt).await {
            Ok(outcome) => break outcome.unwrap(),
            Err(_) => waiting.push(attempt),
        }
    };
    assert!(matches!(refused, Err(StoreError::Overloaded)), "{refused:?}");
    is_slow.store(false, Ordering::SeqCst);
    drop(release);
    let accepted = waiting.len();
    for attempt in waiting {
        attempt.await.unwrap().unwrap();
    }
    assert_eq!(all_individuals(store.as_ref()).await.len(), accepted);
}

#[tokio::test]
async fn no_number_is_assigned_that_cannot_be_stored() {
    let folder = TempDir::new().unwrap();
    let store = Folder::listening(folder.path());
    let code = |text: &str| CodeUri::from_parts("urn:x", text).unwrap();
    let edition = |version: String| (Namespace::parse("urn:x").unwrap(), version);
    let too_long = vec![edition("1".to_owned()), edition("long ".repeat(300_000))];
    let refused = store.number_codes(vec![code("a")], too_long).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })));
    let requested = || (vec![code("b"), code("a")], vec![edition("1".to_owned())]);
    let (codes, editions) = requested();
    let given = store.number_codes(codes, editions).await.unwrap();
    assert_eq!(given, (vec![CodeNumber(0), CodeNumber(1)], vec![EditionNumber(0)]));
    drop(store);
    let (codes, editions) = requested();
    assert_eq!(Folder::open(folder.path()).number_codes(codes, editions).await.unwrap(), given);
}

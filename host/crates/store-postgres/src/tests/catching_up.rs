//! Catching up a store that was filled from another one with later writes to that one.

mod into_folder;
mod refused;
mod removed;
mod world;

use std::path::Path;

use tempfile::TempDir;

use self::world::World;
use super::*;
use daftar_domain::calendar::Period;
use daftar_domain::individual::NAME;
use daftar_domain::person_name;
use daftar_domain::record::{RecordId, VersionId};
use daftar_domain::value::Values;
use daftar_service::migrate::{CatchUpError, CaughtUp, Comparison, catch_up, compare, compare_since, copy};
use daftar_store::Operation;
use daftar_store::archive::{CatchUp, Ends, Entry, Held, ItemKind};
use daftar_store::suite::{Listener, audit_entry, commit, create, individual_of, person};
use daftar_store_sled::{SledOptions, SledStore};

/// The tables that have the same rows, whichever way a register came into the database.
const TABLES: [&str; 19] = [
    "record",
    "earlier_version",
    "identifier",
    "open_membership",
    "photo",
    "client",
    "setting",
    "code",
    "edition",
    "counter",
    "request",
    "change",
    "audit",
    "search_individual",
    "search_group",
    "search_member",
    "search_membership",
    "search_consent",
    "search_tally",
];
/// The row of last numbers, without the counter of change notifications.
const LAST: &str = "SELECT individual, \"group\", program, membership, consent, sequence, code_table_parts, \
                    (SELECT max(number) FROM daftar.audit) AS audit FROM daftar.last";

/// A store, as it is read at the end.
trait Whole: Store + Archive {}
impl<S: Store + Archive> Whole for S {}

/// A store that is filled from a folder, and caught up with it.
trait Target {
    async fn fill(&self, from: &dyn Archive);

    async fn begin(&self) -> Result<CatchUp, String>;

    async fn with_store<T>(&self, look: impl AsyncFnOnce(&dyn Whole) -> T) -> T;

    async fn catch_up(&self, from: &dyn Archive) -> Result<CaughtUp, CatchUpError> {
        catch_up(from, self.begin().await.unwrap(), |_, _, _| ()).await
    }

    /// Compares the changes that were applied, and everything.
    async fn assert_equals(&self, from: &dyn Archive, caught_up: &CaughtUp) -> Comparison {
        self.with_store(async |store| {
            let comparison = compare_since(from, store, &caught_up.held, |_, _| ()).await.unwrap();
            assert_eq!((comparison.differences, &comparison.reported), (0, &Vec::new()));
            let (one, other) = (from.snapshot().await.unwrap(), store.snapshot().await.unwrap());
            let whole = compare(one, other, |_, _| ()).await.unwrap();
            assert_eq!((whole.differences, whole.reported), (0, Vec::new()));
            comparison
        })
        .await
    }
}

/// A database of its own.
struct Database {
    server: Arc<Server>,
    url: String,
}

impl Database {
    fn new() -> Self {
        let server = Server::shared();
        let url = server.create_database();
        Self { server, url }
    }

    fn sql(&self, statements: &str) -> String {
        self.server.run_sql(self.url.rsplit_once('/').unwrap().1, statements)
    }

    /// Every row of a table, in order.
    fn rows(&self, table: &str) -> Vec<String> {
        let some = if table == "search_tally" { "WHERE kept.records <> 0" } else { "" };
        let rows = self.sql(&format!("SELECT kept::text FROM daftar.{table} AS kept {some} ORDER BY kept::text"));
        rows.lines().map(str::to_owned).collect()
    }

    /// All rows of its tables.
    fn everything(&self) -> Vec<(&'static str, Vec<String>)> {
        let last = ("last", vec![self.sql(LAST)]);
        TABLES.into_iter().map(|table| (table, self.rows(table))).chain([last]).collect()
    }

    async fn store(&self) -> PostgresStore {
        PostgresStore::open(options(&self.url)).await.unwrap()
    }

    /// A store whose statements wait for locks as long as the test needs.
    async fn waiting_store(&self) -> Arc<PostgresStore> {
        Arc::new(PostgresStore::open(waits_for_locks(&self.url)).await.unwrap())
    }

    async fn assert_not_served(&self) {
        let rejected = PostgresStore::open(options(&self.url)).await.err().unwrap().to_string();
        assert!(rejected.contains("not compared"), "{rejected}");
        assert!(rejected.contains("`daftar migrate catch-up --to postgres` again"), "{rejected}");
    }

    /// Waits until the task waits for a lock in this database.
    async fn until_locked<T>(&self, task: &tokio::task::JoinHandle<T>) {
        // In this database: other tests use the server as well.
        let locked = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let watcher = crate::Database::new(&options(&self.url)).unwrap().link("watcher").await.unwrap();
        while watcher.client.query(locked, &[]).await.unwrap().is_empty() {
            assert!(!task.is_finished());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Target for Database {
    async fn fill(&self, from: &dyn Archive) {
        let refill = PostgresRefill::open(options(&self.url)).await.unwrap();
        copy(from.snapshot().await.unwrap(), Box::new(refill), |_, _| ()).await.unwrap();
    }

    async fn begin(&self) -> Result<CatchUp, String> {
        PostgresRefill::catch_up(options(&self.url)).await.map_err(|error| error.to_string())
    }

    async fn with_store<T>(&self, look: impl AsyncFnOnce(&dyn Whole) -> T) -> T {
        let store = self.store().await;
        let seen = look(&store).await;
        store.close().await;
        seen
    }
}

/// A folder with a change sink.
fn folder(path: &Path) -> SledStore {
    let store = SledStore::open(path, SledOptions::default()).unwrap();
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    store
}

/// Fails unless the database has the rows of one that is filled now.
async fn assert_same(from: &SledStore, database: &Database) {
    let fresh = Database::new();
    fresh.fill(from).await;
    for ((table, there), (_, expected)) in database.everything().into_iter().zip(fresh.everything()) {
        assert!(there == expected, "{table}: {there:#?} and not {expected:#?}");
    }
}

#[tokio::test]
async fn all_writes_to_the_folder_are_applied() {
    for seed in 0..4 {
        let folder_path = TempDir::new().unwrap();
        let from = folder(folder_path.path());
        let (mut world, database) = (World::new(seed), Database::new());
        world.write(&from, if seed == 0 { 0 } else { 120 }).await;
        database.fill(&from).await;
        for round in 0..3 {
            world.write(&from, 50).await;
            let caught_up = database.catch_up(&from).await.unwrap();
            assert!(!caught_up.brought.is_empty());
            let writes = caught_up.mark.sequence.0 - caught_up.held.sequence.0;
            assert_eq!(caught_up.brought.written[&ItemKind::Changes], writes, "{seed}, {round}");
            let comparison = database.assert_equals(&from, &caught_up).await;
            assert_eq!(comparison.same[&ItemKind::Changes], writes);
            assert_same(&from, &database).await;
            let again = database.catch_up(&from).await.unwrap();
            assert!(again.brought.is_empty(), "{:?}", again.brought);
        }
        // It continues from the position of the folder.
        let store = database.store().await;
        store.attach_sink(Arc::new(Listener::default())).unwrap();
        let [one, other] = [&store as &dyn Store, &from].map(|store| async move {
            let committed = commit(store, vec![Operation::create(person(&[]))]).await.unwrap();
            (committed.sequence, individual_of(&committed.written[0]).id)
        });
        assert_eq!(one.await, other.await);
        store.close().await;
    }
}

#[tokio::test]
async fn both_stores_report_the_same_writes_since() {
    let folder_path = TempDir::new().unwrap();
    let from = folder(folder_path.path());
    let (mut world, database) = (World::new(9), Database::new());
    world.write(&from, 80).await;
    database.fill(&from).await;
    world.write(&from, 30).await;
    let held = database.catch_up(&from).await.unwrap().held;
    let store = database.store().await;
    let (ours, theirs) = (from.ends(&held).await.unwrap(), store.ends(&held).await.unwrap());
    assert_eq!(Ends { register: ours.register, ..theirs }, ours);
    let mut reported = Vec::new();
    for mut snapshot in [from.since(&held).await.unwrap(), store.since(&held).await.unwrap()] {
        let mut entries = Vec::new();
        loop {
            let more = snapshot.next().await.unwrap();
            if more.is_empty() {
                break;
            }
            entries.extend(more);
        }
        reported.push(entries);
    }
    assert!(reported[0] == reported[1], "{reported:?}");
    let first = reported[0].iter().find_map(|entry| match entry {
        Entry::Change { sequence, .. } => Some(*sequence),
        _ => None,
    });
    assert_eq!(first, Some(held.sequence.next()));
    // From the current position there are no later writes.
    let now = Held { sequence: ours.sequence, audit: ours.audit, code_table_parts: ours.code_table_parts, ..held };
    let mut snapshot = from.since(&now).await.unwrap();
    loop {
        let entries = snapshot.next().await.unwrap();
        if entries.is_empty() {
            break;
        }
        let is_whole = |entry: &Entry| {
            matches!(
                entry.kind(),
                ItemKind::Settings
                    | ItemKind::Clients
                    | ItemKind::Counters
                    | ItemKind::Requests
                    | ItemKind::AuditValues
            )
        };
        assert!(entries.iter().all(is_whole), "{entries:?}");
    }
}

#[tokio::test]
async fn an_interrupted_run_leaves_the_database_unchanged() {
    let folder_path = TempDir::new().unwrap();
    let from = folder(folder_path.path());
    let (mut world, database) = (World::new(17), Database::new());
    world.write(&from, 60).await;
    database.fill(&from).await;
    let before = database.everything();
    world.write(&from, 60).await;
    for steps in [1, 3, usize::MAX] {
        let mut begun = database.begin().await.unwrap();
        let mut snapshot = from.since(&begun.held).await.unwrap();
        for _ in 0..steps {
            let entries = snapshot.next().await.unwrap();
            if entries.is_empty() {
                break;
            }
            for some in entries.chunks(40) {
                begun.refill.put(some.to_vec()).await.unwrap();
            }
        }
        // All entries were received, and `finish` was not called.
        drop(begun);
        assert!(database.everything() == before, "{steps}");
    }
    // A write is missing.
    let mut begun = database.begin().await.unwrap();
    let mut snapshot = from.since(&begun.held).await.unwrap();
    let refused = loop {
        let mut entries = snapshot.next().await.unwrap();
        let is_held = begun.held.sequence;
        entries.retain(|entry| !matches!(entry, Entry::Change { sequence, .. } if *sequence == is_held.next()));
        if let Err(error) = begun.refill.put(entries).await {
            break error;
        }
    };
    assert!(matches!(refused, StoreError::Corrupt { what: "order of writes", .. }), "{refused}");
    assert!(begun.refill.put(Vec::new()).await.is_err(), "no entries are accepted any more");
    drop(begun);
    // Its position is another write than stated.
    let mut begun = database.begin().await.unwrap();
    begun.refill.note_origin(from.since(&begun.held).await.unwrap().mark());
    begun.refill.put(vec![Entry::Counter { name: "a".to_owned(), value: 1 }]).await.unwrap();
    assert!(matches!(begun.refill.finish().await, Err(StoreError::Corrupt { what: "register", .. })));
    assert!(database.everything() == before);
    assert!(!database.catch_up(&from).await.unwrap().brought.is_empty());
    assert_same(&from, &database).await;
}

#[tokio::test]
async fn a_database_whose_comparison_did_not_end_is_not_served_and_is_compared_completely() {
    let folder_path = TempDir::new().unwrap();
    let from = folder(folder_path.path());
    let (mut world, database) = (World::new(21), Database::new());
    world.write(&from, 40).await;
    database.fill(&from).await;
    assert!(!database.catch_up(&from).await.unwrap().was_interrupted);
    world.write(&from, 40).await;
    for was_interrupted in [false, true, true] {
        let mut begun = database.begin().await.unwrap();
        begun.refill.require_comparison();
        let caught_up = catch_up(&from, begun, |_, _, _| ()).await.unwrap();
        assert_eq!((caught_up.was_interrupted, caught_up.brought.is_empty()), (was_interrupted, was_interrupted));
        database.assert_not_served().await;
        // For a comparison and for `verify`.
        let opened = PostgresOptions { opens_not_compared: true, ..options(&database.url) };
        let opened = PostgresStore::open(opened).await.unwrap();
        let (one, other) = (from.snapshot().await.unwrap(), opened.snapshot().await.unwrap());
        assert_eq!(compare(one, other, |_, _| ()).await.unwrap().differences, 0);
        opened.close().await;
        PostgresStore::open_existing(options(&database.url)).await.unwrap().close().await;
    }
    PostgresRefill::note_compared(options(&database.url)).await.unwrap();
    database.store().await.close().await;
    assert!(!database.catch_up(&from).await.unwrap().was_interrupted);
    assert_same(&from, &database).await;
}

#[tokio::test]
async fn rows_may_be_written_between_versions_of_a_record_that_gave_up_an_identifier() {
    let folder_path = TempDir::new().unwrap();
    let from = folder(folder_path.path());
    let database = Database::new();
    let taker = create(&from, person(&["urn:x:a|taker"])).await;
    // Each version is larger than the memory limit of the tests.
    let large = |identifiers: &[&str]| {
        let name: Values = Values::default().with(person_name::TEXT, "x".repeat(8_000));
        person(identifiers).with(NAME, name)
    };
    let giver = create(&from, large(&["urn:x:a|giver"])).await;
    let update = |id, version, details| vec![Operation::update(id, VersionId(version), details)];
    commit(&from, update(giver.id, 1, large(&["urn:x:a|giver", "urn:x:a|given"]))).await.unwrap();
    database.fill(&from).await;
    let mut ended = large(&["urn:x:a|giver", "urn:x:a|given"]);
    let end = Some(jiff::civil::date(2026, 1, 1));
    ended.identifiers[1].period = Some(Period { start: None, end });
    commit(&from, update(giver.id, 2, ended)).await.unwrap();
    commit(&from, update(taker.id, 1, person(&["urn:x:a|taker", "urn:x:a|given"]))).await.unwrap();
    let mut begun = database.begin().await.unwrap();
    let mut snapshot = from.since(&begun.held).await.unwrap();
    loop {
        let entries = snapshot.next().await.unwrap();
        if entries.is_empty() {
            break;
        }
        for entry in entries {
            begun.refill.put(vec![entry]).await.unwrap();
        }
    }
    begun.refill.note_origin(snapshot.mark());
    begun.refill.finish().await.unwrap();
    assert_same(&from, &database).await;
}

#[tokio::test]
async fn no_server_writes_to_the_database_until_it_is_caught_up() {
    let folder_path = TempDir::new().unwrap();
    let from = folder(folder_path.path());
    let database = Database::new();
    create(&from, person(&["urn:x:a|1"])).await;
    database.fill(&from).await;
    create(&from, person(&["urn:x:a|2"])).await;
    let begun = database.begin().await.unwrap();
    let store = database.waiting_store().await;
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    let writing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { commit(&*store, vec![Operation::create(person(&["urn:x:a|3"]))]).await }
    });
    database.until_locked(&writing).await;
    catch_up(&from, begun, |_, _, _| ()).await.unwrap();
    let committed = writing.await.unwrap().unwrap();
    assert_eq!((committed.sequence.0, individual_of(&committed.written[0]).id), (3, RecordId(3)));
    store.close().await;
    let error = database.begin().await.err().unwrap();
    assert!(error.contains("was written to since"), "{error}");
}

/// It is the current register then, and can no longer be caught up or compared.
#[tokio::test]
async fn a_database_that_was_not_compared_is_served_after_a_running_server_has_written_to_it() {
    let folder_path = TempDir::new().unwrap();
    let from = folder(folder_path.path());
    let database = Database::new();
    create(&from, person(&["urn:x:a|1"])).await;
    database.fill(&from).await;
    let running = database.store().await;
    running.attach_sink(Arc::new(Listener::default())).unwrap();
    create(&from, person(&["urn:x:a|2"])).await;
    let mut begun = database.begin().await.unwrap();
    begun.refill.require_comparison();
    catch_up(&from, begun, |_, _, _| ()).await.unwrap();
    database.assert_not_served().await;
    create(&running, person(&["urn:x:a|3"])).await;
    running.close().await;
    let error = database.begin().await.err().unwrap();
    assert!(error.contains("was written to since"), "{error}");
    database.store().await.close().await;
}

#[tokio::test]
async fn audit_entries_that_wait_for_a_catch_up_are_numbered_after_its_own() {
    let folder_path = TempDir::new().unwrap();
    let from = folder(folder_path.path());
    let database = Database::new();
    create(&from, person(&["urn:x:a|1"])).await;
    database.fill(&from).await;
    from.append_audit(vec![audit_entry("of the folder")]).await.unwrap();
    from.audit(0).await.unwrap();
    let begun = database.begin().await.unwrap();
    let store = database.waiting_store().await;
    // Copied, and of another month than those of the folder.
    let later =
        |number: u64| AuditEntry { at: "2026-03-01T00:00:00Z".parse().unwrap(), ..audit_entry(&number.to_string()) };
    store.append_audit((0..9).map(later).collect()).await.unwrap();
    let writing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.audit(0).await.map(drop) }
    });
    database.until_locked(&writing).await;
    catch_up(&from, begun, |_, _, _| ()).await.unwrap();
    writing.await.unwrap().unwrap();
    let values = "SELECT number / 256, month, count(*) FROM daftar.audit GROUP BY 1, 2 ORDER BY 1, 2";
    assert_eq!(database.sql(values).trim(), "1|2026-01-01|1\n2|2026-03-01|9");
    store.close().await;
    let error = database.begin().await.err().unwrap();
    assert!(error.contains("was written to since"), "{error}");
}

//! A database that is down, slow, read-only or full: requests in the meantime fail, and later ones succeed.

use std::sync::atomic::AtomicBool;

use daftar_test_postgres::Stop;

use super::*;
use daftar_domain::audit::Actor;
use daftar_domain::change::{Change, Sequence};
use daftar_domain::client::ClientId;
use daftar_domain::error::AppError;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::Operation;
use daftar_store::snapshot::{SnapshotReader, SnapshotSource as _};
use daftar_store::suite::{
    Listener, all_individuals, audit_entry, commit, create, futures_join, individual_of, key, person,
};

/// A store that resolves the outcome of a commit within its time limit.
pub(super) async fn patient(url: &str) -> (PostgresStore, Arc<Listener>) {
    opened(PostgresOptions { write_wait: Duration::from_secs(20), ..options(url) }).await
}

/// A store that gives up soon.
pub(super) async fn hasty(url: &str) -> (PostgresStore, Arc<Listener>) {
    let limit = Duration::from_secs(2);
    opened(PostgresOptions { statement_timeout: limit, write_wait: limit, ..options(url) }).await
}

async fn opened(options: PostgresOptions) -> (PostgresStore, Arc<Listener>) {
    let store = PostgresStore::open(options).await.unwrap();
    let listener = Arc::new(Listener::default());
    store.attach_sink(Arc::clone(&listener) as Arc<dyn ChangeSink>).unwrap();
    (store, listener)
}

pub(super) fn new_person(number: u64) -> Vec<Operation> {
    vec![Operation::create(person(&[&format!("urn:x:a|{number}")]))]
}

/// Retries until it succeeds, as clients do after a 503.
pub(super) async fn at_last(store: &PostgresStore, number: u64) -> u64 {
    for _ in 0..1_200 {
        match commit(store, new_person(number)).await {
            Ok(committed) => return individual_of(&committed.written[0]).id.0,
            Err(StoreError::Failed(_) | StoreError::Overloaded) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(StoreError::IdentifierInUse(key)) => {
                let owners = store.identifier_owners(RecordKind::Individual, &key, 1).await.unwrap();
                return owners[0].id.0;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the store did not recover");
}

pub(super) fn is_failed<T>(outcome: &Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Failed(_)))
}

pub(super) async fn until(what: impl Fn() -> bool) {
    for _ in 0..2_400 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("this did not happen in time");
}

#[tokio::test]
async fn requests_fail_while_the_database_is_down_and_succeed_afterwards() {
    let server = Server::start(&[]);
    let (store, listener) = patient(&server.create_database()).await;
    create(&store, person(&["urn:x:a|1"])).await;
    until(|| store.feed().is_listening()).await;
    for how in [Stop::Fast, Stop::Immediate] {
        server.stop(how);
        assert!(is_failed(&commit(&store, new_person(2)).await));
        assert!(is_failed(&store.record(RecordKind::Individual, RecordId(1)).await));
        assert!(is_failed(&store.snapshot().await));
        until(|| !store.feed().is_listening()).await;
        assert!(is_failed(&store.readiness()) && !store.usage().is_sound);
        // Buffered until it can be written.
        store.append_audit(vec![audit_entry("during the outage")]).await.unwrap();
        assert!(is_failed(&store.audit(9).await));
        server.start_again();
        until(|| store.feed().is_listening()).await;
        // No response is sent before the pending entries are written.
        for _ in 0..2_400 {
            if store.audit(9).await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        store.readiness().unwrap();
    }
    assert_eq!(at_last(&store, 2).await, 2);
    assert_eq!(all_individuals(&store).await, [1, 2]);
    assert_eq!(listener.0.lock().unwrap().len(), 2);
    assert_eq!(store.audit(9).await.unwrap().len(), 2, "the entries were kept");
    assert!(store.database_usage().retries > 0 && store.usage().is_sound);
}

#[tokio::test]
async fn a_store_that_lost_a_task_that_writes_is_not_ready_and_accepts_no_entry_of_a_read() {
    let server = Server::shared();
    for task in [0, 1] {
        let (store, _listener) = hasty(&server.create_database()).await;
        store.readiness().unwrap();
        // As a panic does, this drops the queue of the task.
        store.writers.lock().unwrap().as_ref().unwrap()[task].abort();
        until(|| store.check_tasks().is_err()).await;
        assert!(is_failed(&store.readiness()) && !store.usage().is_sound);
        for _ in 0..2 {
            let added = store.append_audit(vec![audit_entry("afterwards")]).await;
            assert_eq!(is_failed(&added), task == 1);
        }
    }
}

/// A sink that panics in the task that writes.
struct Panicking;

impl ChangeSink for Panicking {
    fn apply(&self, _: &[Change]) {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn a_panic_of_the_task_that_writes_fails_the_store_and_loses_no_write() {
    let server = Server::shared();
    let url = server.create_database();
    let store = PostgresStore::open(options(&url)).await.unwrap();
    store.attach_sink(Arc::new(Panicking)).unwrap();
    store.readiness().unwrap();
    assert!(is_failed(&commit(&store, new_person(1)).await));
    until(|| store.check_tasks().is_err()).await;
    assert!(is_failed(&store.readiness()) && is_failed(&commit(&store, new_person(2)).await));
    store.close().await;
    let (store, _) = hasty(&url).await;
    assert_eq!(all_individuals(&store).await, [1], "it was committed before the panic");
    store.readiness().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_killed_during_writes_has_all_acknowledged_writes_and_no_partial_ones() {
    let server = Server::start(&[]);
    let url = server.create_database();
    let (store, listener) = patient(&url).await;
    let is_over = AtomicBool::new(false);
    let (store, over) = (&store, &is_over);
    let writers = (0..8_u64).map(|writer| async move {
        let mut acknowledged = Vec::new();
        for number in 0.. {
            if over.load(Ordering::Acquire) {
                break;
            }
            let one = vec![
                Operation::create(person(&[&format!("urn:x:{writer}|{number}")])),
                Operation::create(person(&[&format!("urn:x:{writer}|{number}-twin")])),
            ];
            if let Ok(committed) = commit(store, one).await {
                let ids = [0, 1].map(|at| individual_of(&committed.written[at]).id);
                acknowledged.push((writer, number, ids));
            }
        }
        acknowledged
    });
    let breaker = async {
        for _ in 0..2 {
            let before = store.usage().sequence;
            until(|| store.usage().sequence > before + 20).await;
            tokio::task::block_in_place(|| server.stop(Stop::Immediate));
            tokio::task::block_in_place(|| server.start_again());
        }
        let before = store.usage().sequence;
        until(|| store.usage().sequence > before + 20).await;
        over.store(true, Ordering::Release);
    };
    let (acknowledged, ()) = tokio::join!(futures_join(writers), breaker);
    let acknowledged: Vec<_> = acknowledged.into_iter().flatten().collect();
    assert!(acknowledged.len() > 40);
    for (writer, number, ids) in &acknowledged {
        for (id, twin) in ids.iter().zip(["", "-twin"]) {
            let address = key(&format!("urn:x:{writer}|{number}{twin}"));
            let owners = store.identifier_owners(RecordKind::Individual, &address, 9).await.unwrap();
            assert_eq!(owners.iter().map(|owner| owner.id).collect::<Vec<_>>(), [*id], "{writer} {number}");
        }
    }
    let all_individuals = all_individuals(store).await;
    assert_eq!(
        all_individuals,
        (1..=all_individuals.len() as u64).collect::<Vec<_>>(),
        "no gap and no individual without its twin"
    );
    let changes = store.changes_after(Sequence(0), 10_000).await.unwrap();
    assert_eq!(changes.len() * 2, all_individuals.len());
    assert!(changes.iter().all(|change| change.records.len() == 2));
    let heard = listener.0.lock().unwrap().iter().map(|change| change.sequence.0).collect::<Vec<_>>();
    assert!(heard.is_sorted() && heard.len() == all_individuals.len(), "{} of {}", heard.len(), all_individuals.len());
}

#[tokio::test]
async fn a_slow_database_fails_requests_that_wait_too_long_and_recovers() {
    let server = Server::shared();
    let url = server.create_database();
    let (store, _) = hasty(&url).await;
    create(&store, person(&["urn:x:a|1"])).await;
    let other = PostgresStore::open(options(&url)).await.unwrap();
    let holder = other.database.link("holder").await.unwrap();
    holder.client.batch_execute(LOCK_ROW).await.unwrap();
    let failed = commit(&store, new_person(2)).await.unwrap_err();
    assert!(matches!(&failed, StoreError::Failed(cause) if cause.to_string().contains("55P03")), "{failed:?}");
    assert!(!store.database.is_unavailable(), "one lock is held, and everything else succeeds");
    assert!(store.record(RecordKind::Individual, RecordId(1)).await.unwrap().is_some(), "reads wait for no lock");
    holder.client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(at_last(&store, 2).await, 2);
    // During a slow statement, another connection checks whether it waits for a lock: there are two from here on.
    let short = || store.database.query("SELECT pg_sleep(0.1)", &[]);
    let (one, other_one) = tokio::join!(short(), short());
    assert!(one.is_ok() && other_one.is_ok());
    let made = store.database_usage().connections_made;
    let failed = store.database.query("SELECT pg_sleep(30)", &[]).await.err().unwrap();
    assert!(matches!(&failed, StoreError::Failed(cause) if cause.to_string().contains("57014")), "{failed:?}");
    assert!(!store.database.is_unavailable(), "it reported that it cancelled the statement");
    assert!(store.record(RecordKind::Individual, RecordId(2)).await.unwrap().is_some());
    assert_eq!(store.database_usage().connections_made, made, "on the same connection");
}

#[tokio::test]
async fn previews_that_use_all_of_their_connections_are_no_outage() {
    let server = Server::shared();
    let (store, _) = hasty(&server.create_database()).await;
    let snapshots = store.snapshots();
    let client = |number: usize| Actor::Client(ClientId::parse(&format!("client_{number}")).unwrap());
    let mut moments = Vec::new();
    for number in 0..8 {
        moments.push(snapshots.snapshot(SnapshotReader::Preview(&client(number / 2))).await.unwrap());
    }
    let failed = snapshots.snapshot(SnapshotReader::Preview(&client(4))).await.err().unwrap();
    let message = "previews have every connection";
    assert!(matches!(&failed, StoreError::Failed(cause) if cause.to_string().contains(message)), "{failed:?}");
    assert!(!store.database.is_unavailable());
    moments.pop();
    snapshots.snapshot(SnapshotReader::Preview(&client(4))).await.unwrap();
}

#[tokio::test]
async fn previews_of_one_client_use_a_quarter_of_the_snapshots() {
    let server = Server::shared();
    let (store, _) = hasty(&server.create_database()).await;
    let snapshots = store.snapshots();
    let [greedy, modest] =
        ["client_greedy", "client_modest"].map(|client| Actor::Client(ClientId::parse(client).unwrap()));
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(snapshots.snapshot(SnapshotReader::Preview(&greedy)).await.unwrap());
    }
    assert!(
        snapshots.snapshot(SnapshotReader::Preview(&greedy)).await.is_err(),
        "six are free, and none of them for this client"
    );
    for _ in 0..2 {
        held.push(snapshots.snapshot(SnapshotReader::Preview(&modest)).await.unwrap());
    }
    held.remove(0);
    snapshots.snapshot(SnapshotReader::Preview(&greedy)).await.unwrap();
}

#[tokio::test]
async fn a_read_only_database_serves_reads_and_accepts_writes_again_later() {
    let server = Server::start(&[]);
    let (store, _) = patient(&server.create_database()).await;
    create(&store, person(&["urn:x:a|1"])).await;
    let set = |is_on: &str| {
        server.run_sql("postgres", &format!("ALTER SYSTEM SET default_transaction_read_only = {is_on}"));
        server.run_sql("postgres", "SELECT pg_reload_conf()");
    };
    set("on");
    let mut failed = commit(&store, new_person(2)).await;
    for number in 3..2_400 {
        // The reload reaches the session after a delay.
        if failed.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
        failed = commit(&store, new_person(number)).await;
    }
    let failed = failed.unwrap_err();
    assert!(matches!(&failed, StoreError::Failed(cause) if cause.to_string().contains("25006")), "{failed:?}");
    assert!(store.record(RecordKind::Individual, RecordId(1)).await.unwrap().is_some());
    let before = all_individuals(&store).await.len() as u64;
    server.run_sql(
        "postgres?options=-c%20default_transaction_read_only%3Doff",
        "ALTER SYSTEM RESET default_transaction_read_only",
    );
    server.run_sql("postgres", "SELECT pg_reload_conf()");
    assert_eq!(at_last(&store, 10_000).await, before + 1);
}

#[tokio::test]
async fn a_full_disk_is_an_outage_and_its_rejected_writes_are_not_retried() {
    let server = Server::shared();
    let url = server.create_database();
    let (store, _) = patient(&url).await;
    create(&store, person(&["urn:x:a|1"])).await;
    until(|| store.feed().is_listening()).await;
    let sql = |statements: &str| server.run_sql(super::opening::name_of(&url), statements);
    sql("CREATE FUNCTION daftar.test_full() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$; \
         CREATE TRIGGER test_full BEFORE INSERT ON daftar.change FOR EACH ROW EXECUTE FUNCTION daftar.test_full()");
    let retries = store.database_usage().retries;
    for number in 2..5 {
        let failed = commit(&store, new_person(number)).await.unwrap_err();
        assert!(!store.usage().is_sound, "until five seconds after the last failed write");
        assert!(matches!(&failed, StoreError::Failed(cause) if cause.to_string().contains("53100")), "{failed:?}");
        assert!(AppError::from(failed).is_outage(), "it is logged at its begin and its end only");
        // Audit entries fit.
        store.append_audit(vec![audit_entry(&number.to_string())]).await.unwrap();
        assert_eq!(store.audit(9).await.unwrap().len() as u64, number - 1);
        assert!(store.record(RecordKind::Individual, RecordId(1)).await.unwrap().is_some());
    }
    assert_eq!(store.database_usage().retries, retries);
    store.readiness().unwrap();
    sql("DROP TRIGGER test_full ON daftar.change");
    assert_eq!(at_last(&store, 5).await, 2, "immediately, although the outage has not ended");
    for _ in 0..2_400 {
        if store.usage().is_sound {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
        assert!(store.record(RecordKind::Individual, RecordId(2)).await.unwrap().is_some());
    }
    assert!(store.usage().is_sound);
}

#[tokio::test]
async fn a_database_out_of_connections_fails_reads_until_one_is_free() {
    let server = Server::start(&[("max_connections", "8"), ("superuser_reserved_connections", "0")]);
    // More connections for reads than the tasks of the store and this test use together.
    let options = PostgresOptions {
        connections_max: 8,
        write_wait: Duration::from_secs(20),
        ..options(&server.create_database())
    };
    let (store, _) = opened(options).await;
    create(&store, person(&["urn:x:a|1"])).await;
    until(|| store.feed().is_listening()).await;
    let mut held = vec![store.database.connection().await.unwrap()];
    let mut links = Vec::new();
    for _ in 0..12 {
        links.extend(store.database.link("filler").await.ok());
    }
    assert!(links.len() < 12);
    let failed = loop {
        match store.record(RecordKind::Individual, RecordId(1)).await {
            Err(failed) => break failed,
            // The pool had another open connection: the test holds that too.
            Ok(_) => held.extend(store.database.connection().await.ok()),
        }
    };
    assert!(matches!(&failed, StoreError::Failed(cause) if cause.to_string().contains("53300")), "{failed:?}");
    assert_eq!(at_last(&store, 2).await, 2, "the connection that writes is there");
    links.clear();
    let mut found = store.record(RecordKind::Individual, RecordId(1)).await;
    for _ in 0..2_400 {
        if found.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
        found = store.record(RecordKind::Individual, RecordId(1)).await;
    }
    assert!(found.unwrap().is_some());
    drop(held);
}

#[tokio::test]
async fn reads_wait_for_a_connection_of_the_pool_no_longer_than_they_may() {
    let server = Server::shared();
    let options = PostgresOptions {
        connections_max: 1,
        acquire_timeout: Duration::from_secs(2),
        ..options(&server.create_database())
    };
    let store = PostgresStore::open(options).await.unwrap();
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    create(&store, person(&["urn:x:a|1"])).await;
    let held = store.database.connection().await.unwrap();
    let failed = store.record(RecordKind::Individual, RecordId(1)).await.unwrap_err();
    assert!(matches!(&failed, StoreError::Failed(cause) if cause.to_string().contains("in use")), "{failed:?}");
    assert_eq!((store.database_usage().connections, store.database_usage().connections_idle), (1, 0));
    create(&store, person(&["urn:x:a|2"])).await;
    drop(held);
    assert!(store.record(RecordKind::Individual, RecordId(2)).await.unwrap().is_some());
}

#[tokio::test]
async fn writes_beyond_the_queue_limit_are_rejected_without_effect() {
    let server = Server::shared();
    let url = server.create_database();
    let store = PostgresStore::open(PostgresOptions { queue_writes_max: 4, ..waits_for_locks(&url) }).await.unwrap();
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    let holder = store.database.link("holder").await.unwrap();
    holder.client.batch_execute(LOCK_ROW).await.unwrap();
    let store = &store;
    let writes = (0..12_u64).map(|number| async move { commit(store, new_person(number)).await });
    let release = async {
        until(|| {
            store.usage().waiting >= 4
                && store.usage().writes.iter().any(|(name, count)| *name == "overloaded" && *count > 0)
        })
        .await;
        holder.client.batch_execute("ROLLBACK").await.unwrap();
    };
    let (outcomes, ()) = tokio::join!(futures_join(writes), release);
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert!(refused.iter().all(|outcome| matches!(outcome, Err(StoreError::Overloaded))) && !refused.is_empty());
    assert_eq!(all_individuals(store).await.len(), done.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_hosts_a_standby_is_never_read() {
    let server = Server::start(&[]);
    let url = server.create_database();
    PostgresStore::open(options(&url)).await.unwrap().close().await;
    let standby = tokio::task::block_in_place(|| server.start_standby());
    let primary = format!("127.0.0.1:{}", server.port());
    let both = url.replace(&primary, &format!("127.0.0.1:{},{primary}", standby.port()));
    let store = PostgresStore::open(options(&both)).await.unwrap();
    let requested = "SELECT pg_is_in_recovery()";
    for rows in
        [store.database.query(requested, &[]).await.unwrap(), store.database.search(requested, &[]).await.unwrap()]
    {
        assert!(!rows[0].get::<_, bool>(0));
    }
}

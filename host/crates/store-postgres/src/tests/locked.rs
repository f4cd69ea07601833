//! Audit entries of reads, and the row that orders writes: neither waits for the other.

use std::collections::BTreeSet;

use super::*;
use daftar_store::Operation;
use daftar_store::suite::{Listener, audit_entry, commit, futures_join, individual_of, person};

async fn opened() -> (Arc<Server>, String, PostgresStore) {
    let server = Server::shared();
    let url = server.create_database();
    let store = PostgresStore::open(options(&url)).await.unwrap();
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    (server, url, store)
}

fn new_person(number: u64) -> Vec<Operation> {
    vec![Operation::create(person(&[&format!("urn:x:a|{number}")]))]
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2_400 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{what}: this did not happen in time");
}

#[tokio::test]
async fn reads_are_audited_while_the_row_that_orders_writes_is_locked() {
    let (_server, _, store) = opened().await;
    let holder = store.database.link("holder").await.unwrap();
    holder.client.batch_execute(LOCK_ROW).await.unwrap();
    store.append_audit(vec![audit_entry("before")]).await.unwrap();
    let written = tokio::time::timeout(Duration::from_secs(9), commit(&store, new_person(1))).await;
    assert!(matches!(
        written.expect("within the time of a lock, tried again once at most"),
        Err(StoreError::Failed(_))
    ));
    for number in 0..3 {
        store.append_audit(vec![audit_entry(&number.to_string())]).await.unwrap();
        assert_eq!(store.audit(9).await.unwrap().len(), number + 2, "they are written while the row is locked");
    }
    assert!(store.usage().is_sound, "a lock is no outage");
    holder.client.batch_execute("ROLLBACK").await.unwrap();
    commit(&store, new_person(1)).await.unwrap();
}

#[tokio::test]
async fn entries_are_written_while_a_snapshot_waits_for_the_audit_log() {
    let (_server, _, store) = opened().await;
    let holder = store.database.link("holder").await.unwrap();
    // As `ANALYZE` locks it.
    let lock = "BEGIN; LOCK TABLE ONLY daftar.audit IN SHARE UPDATE EXCLUSIVE MODE";
    holder.client.batch_execute(lock).await.unwrap();
    let others = async {
        let waits = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'daftar.audit'::regclass \
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        until("the snapshot waits", async || !holder.client.query(waits, &[]).await.unwrap().is_empty()).await;
        for number in 0..3 {
            store.append_audit(vec![audit_entry(&number.to_string())]).await.unwrap();
            assert_eq!(store.audit(9).await.unwrap().len(), number + 1);
        }
        holder.client.batch_execute("ROLLBACK").await.unwrap();
    };
    let (snapshot, ()) = tokio::join!(store.snapshot(), others);
    assert!(snapshot.is_ok());
}

#[tokio::test]
async fn writes_that_come_while_the_row_is_waited_for_are_of_the_same_group() {
    let server = Server::shared();
    let store = PostgresStore::open(waits_for_locks(&server.create_database())).await.unwrap();
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    commit(&store, new_person(0)).await.unwrap();
    let before = store.database_usage().groups;
    let holder = store.database.link("holder").await.unwrap();
    holder.client.batch_execute(LOCK_ROW).await.unwrap();
    let others = async {
        let waits = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        until("the first waits", async || !holder.client.query(waits, &[]).await.unwrap().is_empty()).await;
        let release = async {
            until("the others are pending", async || store.usage().waiting == 7).await;
            holder.client.batch_execute("ROLLBACK").await.unwrap();
        };
        tokio::join!(futures_join((2..8).map(|number| commit(&store, new_person(number)))), release).0
    };
    let (first, others) = tokio::join!(commit(&store, new_person(1)), others);
    let ids = [first].into_iter().chain(others).map(|committed| individual_of(&committed.unwrap().written[0]).id.0);
    assert_eq!(ids.collect::<Vec<_>>(), (2..=8).collect::<Vec<_>>(), "in the order in which they were submitted");
    assert_eq!(store.database_usage().groups, before + 1);
}

#[tokio::test]
async fn writes_that_follow_one_another_slowly_are_waited_for() {
    let (_server, url, store) = opened().await;
    // Each changes the row, as large groups of other servers do; together they hold it for longer than the time limit.
    let others = async {
        let link = store.database.link("others").await.unwrap();
        for _ in 0..5 {
            let written = "BEGIN; UPDATE daftar.last SET sequence = sequence; SELECT pg_sleep(0.7); COMMIT";
            link.client.batch_execute(written).await.unwrap();
        }
    };
    let patient = PostgresOptions { write_wait: Duration::from_secs(30), ..options(&url) };
    let patient = PostgresStore::open(patient).await.unwrap();
    patient.attach_sink(Arc::new(Listener::default())).unwrap();
    let ((), written) = tokio::join!(others, commit(&patient, new_person(1)));
    written.unwrap();
}

/// The statements that read records are pipelined: once one has failed, the database rejects the others.
#[tokio::test]
async fn a_lock_that_a_read_of_a_write_waits_for_is_the_reason_of_its_failure() {
    let (_server, _, store) = opened().await;
    let id = individual_of(&commit(&store, new_person(1)).await.unwrap().written[0]).id;
    let holder = store.database.link("holder").await.unwrap();
    let lock = "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE daftar.record IN ACCESS EXCLUSIVE MODE";
    holder.client.batch_execute(lock).await.unwrap();
    let again = vec![Operation::update(id, VersionId(1), person(&["urn:x:a|1"]))];
    let failed = commit(&store, again.clone()).await.unwrap_err();
    assert!(matches!(&failed, StoreError::Failed(cause) if cause.to_string().contains("55P03")), "{failed:?}");
    holder.client.batch_execute("ROLLBACK").await.unwrap();
    commit(&store, again).await.unwrap();
}

#[tokio::test]
async fn values_of_several_processes_are_numbered_once_each_and_none_is_lost() {
    let (_server, url, one) = opened().await;
    let two = PostgresStore::open(options(&url)).await.unwrap();
    two.attach_sink(Arc::new(Listener::default())).unwrap();
    let stores = [&one, &two];
    let writers = (0..8_usize).map(|writer| async move {
        for number in 0..20 {
            let name = format!("{writer}-{number}");
            stores[writer % 2].append_audit(vec![audit_entry(&name)]).await.unwrap();
            commit(stores[writer % 2], new_person((writer * 100 + number) as u64)).await.unwrap();
        }
    });
    futures_join(writers).await;
    two.audit(0).await.unwrap();
    let found: Vec<String> = one.audit(usize::MAX).await.unwrap().into_iter().map(|entry| entry.request_id).collect();
    let named: BTreeSet<&String> = found.iter().filter(|name| name.contains('-')).collect();
    assert_eq!(named.len(), 160);
    let row = one.database.query_opt("SELECT count(*), count(DISTINCT number) FROM daftar.audit", &[]).await.unwrap();
    let row = row.unwrap();
    assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1));
}

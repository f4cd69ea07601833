//! A promoted standby that had not received the last writes: it assigns their numbers again, to something else.

use daftar_test_postgres::{ROLE, Stop};

use super::*;
use daftar_domain::context::FakeClock;
use daftar_store::Operation;
use daftar_store::shared::Shared as _;
use daftar_store::suite::{Listener, person, write};

fn code(name: &str) -> Vec<CodeUri> {
    vec![CodeUri::parse(&format!("urn:open#{name}")).unwrap()]
}

/// Retries until the database responds.
async fn numbered(store: &PostgresStore, name: &str) -> u32 {
    for _ in 0..1_200 {
        match store.number_codes(code(name), Vec::new()).await {
            Ok((numbers, _)) => return numbers[0].0,
            Err(StoreError::Failed(_) | StoreError::Overloaded) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the database does not accept writes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_numbers_codes_from_the_state_of_the_promoted_database() {
    let primary = Server::start(&[("wal_level", "replica"), ("max_wal_senders", "4")]);
    let url = primary.create_database();
    let name = url.rsplit('/').next().unwrap();
    let standby = primary.start_standby();
    let (one, other) = (primary.port(), standby.port());
    let both = format!("postgres://{ROLE}@127.0.0.1:{one},127.0.0.1:{other}/{name}?target_session_attrs=read-write");
    let store = PostgresStore::open(options(&both)).await.unwrap();
    assert_eq!(numbered(&store, "kept").await, 0);
    standby.stop_following(&primary);
    assert_eq!(numbered(&store, "lost").await, 1);
    let before = store.generation().await.unwrap();
    primary.stop(Stop::Immediate);
    standby.run_sql(name, "SELECT pg_promote()");

    let beside = PostgresStore::open(options(&standby.url(name))).await.unwrap();
    assert_eq!(numbered(&beside, "new").await, 1);
    let now = beside.generation().await.unwrap();
    assert_eq!(now.deployment, before.deployment);
    assert_ne!(now.history, before.history, "the timeline differs");
    assert_eq!(numbered(&store, "lost").await, 2);
    assert_eq!(store.code_table().await.unwrap().codes, [code("kept"), code("new"), code("lost")].concat());
    assert_eq!(store.generation().await.unwrap().history, now.history);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_prepared_before_the_failover_is_not_written() {
    let server = Server::start(&[]);
    let store = Arc::new(PostgresStore::open(options(&server.create_database())).await.unwrap());
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    let shared = PostgresShared::of(Arc::clone(&store));
    let begun = |at_s: u32, number: u32| Write {
        at: format!("2026-01-02T03:04:{at_s:02}Z").parse().unwrap(),
        ..write(vec![Operation::create(person(&[&format!("urn:x:a|{number}")]))])
    };
    let history = store.generation().await.unwrap().history;
    shared.rest_on(history, None);
    store.commit(begun(1, 1)).await.unwrap();
    server.stop(Stop::Fast);
    server.start_again();
    assert_eq!(numbered(&store, "first").await, 0, "codes get their numbers");
    let refused = store.commit(begun(9, 2)).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Failed(cause) if cause.to_string().contains("database was replaced")),
        "{refused:?}"
    );
    let history = store.generation().await.unwrap().history;
    shared.rest_on(history, Some(Arc::new(FakeClock::new(begun(5, 0).at))));
    for at_s in [1, 5] {
        store.commit(begun(at_s, 2)).await.unwrap_err();
    }
    store.commit(begun(6, 2)).await.unwrap();
}

//! What processes share in a database: the same whoever asks, and whatever they ask at the same time.

use std::sync::Arc;
use std::time::Duration;

use daftar_test_postgres::Server;

use super::PostgresShared;
use crate::domain::deployment::Setting;
use crate::store::generation::Feed;
use crate::store::postgres::{PostgresOptions, PostgresStore};
use crate::store::record::samples;
use crate::store::shared::{Lease, Shared, SharedLimits, SharedPlugins, Take};
use crate::store::{Operation, Store, StoreError, Write};

struct Process {
    store: Arc<PostgresStore>,
    shared: PostgresShared,
    /// Runs for as long as somebody holds it.
    _server: Arc<Server>,
}

async fn process(server: &Arc<Server>, url: &str) -> Process {
    let store = Arc::new(PostgresStore::open(PostgresOptions::new(url.to_owned().into())).await.unwrap());
    Process { shared: PostgresShared::of(store.clone()), store, _server: server.clone() }
}

async fn two() -> (Process, Process) {
    let server = Server::shared();
    let url = server.create_database();
    (process(&server, &url).await, process(&server, &url).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_count_gives_no_more_than_its_limit_and_takes_back_what_was_not_used() {
    let (one, other) = two().await;
    let take = Take { least: 1, most: 7, limit: 100 };
    let (one, other) = (Arc::new(one), Arc::new(other));
    let takers = (0..20).map(|number| {
        let process = if number % 2 == 0 { one.clone() } else { other.clone() };
        tokio::spawn(async move { process.shared.take("limit/a/", take).await.unwrap().taken })
    });
    let mut sum = 0;
    for taker in takers.collect::<Vec<_>>() {
        sum += taker.await.unwrap();
    }
    assert_eq!(sum, 100);
    one.shared.give_back("limit/a/", 10).await.unwrap();
    let all_or_nothing = Take { least: 11, most: 20, limit: 100 };
    assert_eq!(other.shared.take("limit/a/", all_or_nothing).await.unwrap().taken, 0);
    let taken = other.shared.take("limit/a/", Take { least: 5, most: 20, limit: 100 }).await.unwrap();
    assert_eq!((taken.taken, taken.count), (10, 100));
    assert_eq!(one.store.counter("limit/a/").await.unwrap(), Some(100), "it is one of the store's counters");
    one.shared.give_back("limit/a/", 1_000).await.unwrap();
    assert_eq!(one.store.counter("limit/a/").await.unwrap(), Some(0));
    let beyond = Take { least: 1, most: 5, limit: 0 };
    assert_eq!(other.shared.take("limit/b/", beyond).await.unwrap().taken, 0);
}

#[tokio::test]
async fn a_minute_is_given_once_and_a_change_of_its_limit_keeps_what_was_used() {
    let (one, other) = two().await;
    let ask = |per_minute, least, most| Lease { per_minute, least, most };
    let first = one.shared.lease("client/a", ask(60, 1, 50)).await.unwrap();
    assert_eq!((first.calls, first.left), (50, 10));
    assert!(first.until_full <= Duration::from_secs(50) && first.until_full > Duration::from_secs(40));
    assert_eq!(other.shared.lease("client/a", ask(60, 20, 50)).await.unwrap().calls, 0, "all or nothing");
    assert!(other.shared.lease("client/a", ask(60, 1, 50)).await.unwrap().calls >= 10);
    assert_eq!(other.shared.lease("client/a", ask(60, 1, 1)).await.unwrap().calls, 0);
    let raised = one.shared.lease("client/a", ask(600, 1, 1_000)).await.unwrap();
    assert!((530..=560).contains(&raised.calls), "{raised:?}");
    assert_eq!(one.shared.lease("client/b", ask(1, 1, 1)).await.unwrap().calls, 1);
    assert_eq!(one.shared.forget_full_minutes().await.unwrap(), 0, "none is full again");
}

#[tokio::test]
async fn a_list_is_replaced_by_who_has_seen_it_and_files_go_when_no_list_names_them() {
    let (one, other) = two().await;
    let before = other.shared.generation().await.unwrap();
    assert_eq!(one.shared.plugin_list().await.unwrap().revision, 0);
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    for (digest, bytes) in [([1; 32], large.clone()), ([2; 32], b"small".to_vec())] {
        one.shared.put_plugin_file(digest, bytes.clone()).await.unwrap();
        one.shared.put_plugin_file(digest, bytes).await.unwrap();
    }
    assert_eq!(one.shared.replace_plugin_list(0, b"first", &[[1; 32]]).await.unwrap(), 1);
    let overtaken = other.shared.replace_plugin_list(0, b"other", &[[2; 32]]).await;
    assert!(matches!(overtaken, Err(StoreError::Overtaken)), "{overtaken:?}");
    assert_eq!(other.shared.plugin_list().await.unwrap().bytes, b"first");
    assert_eq!(other.shared.plugin_file([1; 32]).await.unwrap(), Some(large));
    assert_eq!(other.shared.plugin_file([2; 32]).await.unwrap(), None, "no list names it");
    assert_eq!(other.shared.replace_plugin_list(1, b"second", &[]).await.unwrap(), 2);
    assert!(
        one.shared.plugin_file([1; 32]).await.unwrap().is_some(),
        "whoever is still at the list before may fetch it"
    );
    assert_eq!(one.shared.replace_plugin_list(2, b"third", &[]).await.unwrap(), 3);
    assert_eq!(one.shared.plugin_file([1; 32]).await.unwrap(), None);
    assert_eq!(other.shared.generation().await.unwrap().deployment, before.deployment + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_come_one_after_the_other_and_end_with_who_has_them() {
    let (one, other) = two().await;
    let turn = one.shared.turn().await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(200), other.shared.turn()).await;
    assert!(waiting.is_err(), "it is taken");
    drop(turn);
    drop(other.shared.turn().await.unwrap());
    drop(one.shared.turn().await.unwrap());
}

#[tokio::test]
async fn what_is_kept_once_stays_whoever_comes_later() {
    let (one, other) = two().await;
    assert_eq!(one.shared.keep_once("keys/x", b"ours").await.unwrap(), b"ours");
    assert_eq!(other.shared.keep_once("keys/x", b"theirs").await.unwrap(), b"ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_heard_of_and_raises_what_it_changes() {
    let (one, other) = two().await;
    while !other.shared.is_listening() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // What was told when it began to listen.
    let _told = tokio::time::timeout(Duration::from_millis(500), other.shared.heard()).await;
    let before = other.shared.generation().await.unwrap();
    let operations = vec![Operation::PutSetting(Setting::IdentifierSystem(samples::identifier_system()))];
    let at = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let write = Write { at, source: None, operations, audit: Vec::new(), rests_on: Vec::new() };
    one.store.commit(write).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), other.shared.heard()).await.expect("it is heard of");
    let now = other.shared.generation().await.unwrap();
    assert_eq!((now.clients, now.deployment), (before.clients, before.deployment + 1));
}

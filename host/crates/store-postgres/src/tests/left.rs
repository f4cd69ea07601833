//! Requests whose caller stopped waiting: their connection leaves the pool, and the database cancels their statements.

use super::*;
use crate::database::Link;
use daftar_domain::audit::Actor;
use daftar_store::shared::Shared as _;
use daftar_store::snapshot::{SnapshotReader, SnapshotSource as _};

/// A store whose database permits minutes for a statement and its locks, and a connection that watches its activity.
async fn opened() -> (PostgresStore, Link, Arc<Server>) {
    let server = Server::shared();
    let url = server.create_database();
    let limit = Duration::from_secs(600);
    let limits = PostgresOptions { statement_timeout: limit, lock_timeout: limit, ..options(&url) };
    let store = PostgresStore::open(PostgresOptions { connections_max: 1, ..limits }).await.unwrap();
    let watcher = store.database.link("watcher").await.unwrap();
    (store, watcher, server)
}

/// Waits until so many active statements contain these words.
async fn until_active(watcher: &Link, words: &str, count: i64) {
    let active = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                  AND pid <> pg_backend_pid() AND state = 'active' AND position($1 IN query) > 0";
    let mut found = -1;
    for _ in 0..2_400 {
        found = watcher.client.query_one(active, &[&words]).await.unwrap().get::<_, i64>(0);
        if found == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{found} statements with `{words}`, not {count}");
}

/// Sends a request until the database executes it, and drops it.
async fn leave<T>(requested: impl Future<Output = T>, watcher: &Link, words: &str) {
    tokio::select! {
        _ = requested => panic!("it got a response"),
        () = until_active(watcher, words, 1) => {}
    }
}

async fn answered(store: &PostgresStore) {
    let requested = store.database.query("SELECT 1", &[]);
    tokio::time::timeout(Duration::from_secs(30), requested).await.expect("it waits for no other statement").unwrap();
}

#[tokio::test]
async fn an_abandoned_query_is_cancelled_and_blocks_no_other() {
    let (store, watcher, _server) = opened().await;
    answered(&store).await;
    let made = store.database_usage().connections_made;
    leave(store.database.query("SELECT pg_sleep(600)", &[]), &watcher, "pg_sleep(600)").await;
    answered(&store).await;
    assert_eq!(store.database_usage().connections_made, made + 1, "on a connection of its own");
    until_active(&watcher, "pg_sleep(600)", 0).await;
    // A query that got its response returns its connection.
    answered(&store).await;
    assert_eq!(store.database_usage().connections_made, made + 1);
}

#[tokio::test]
async fn an_abandoned_change_of_plugins_closes_its_connection() {
    let (store, watcher, server) = opened().await;
    let store = Arc::new(store);
    let shared = PostgresShared::of(Arc::clone(&store));
    answered(&store).await;
    watcher.client.batch_execute("BEGIN; SELECT FROM daftar.plugin_list FOR UPDATE").await.unwrap();
    let other = store.database.link("other watcher").await.unwrap();
    leave(shared.replace_plugin_list(0, b"list", &[]), &other, "UPDATE daftar.plugin_list").await;
    answered(&store).await;
    watcher.client.batch_execute("ROLLBACK").await.unwrap();
    until_active(&other, "UPDATE daftar.plugin_list", 0).await;
    assert_eq!(shared.plugin_list().await.unwrap().revision, 0, "nothing of it was done");
    assert_eq!(shared.replace_plugin_list(0, b"list", &[]).await.unwrap(), 1);
    drop(server);
}

#[tokio::test]
async fn a_search_of_a_dropped_preview_is_cancelled() {
    let (store, watcher, _server) = opened().await;
    let moment = store.snapshots().snapshot(SnapshotReader::Preview(&Actor::Administrator)).await.unwrap();
    // It waits for this until it is cancelled: statements of a snapshot may take two minutes.
    watcher.client.batch_execute("BEGIN; LOCK TABLE daftar.record IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let other = store.database.link("other watcher").await.unwrap();
    leave(moment.programs(), &other, "FROM daftar.record").await;
    drop(moment);
    until_active(&other, "FROM daftar.record", 0).await;
    watcher.client.batch_execute("ROLLBACK").await.unwrap();
}

//! Rows sent to the database in batches, or one by one: the register is the same below, at and above the limits.

use super::*;
use daftar_store::Operation;
use daftar_store::archive::{Entry, Snapshot};
use daftar_store::suite::archive::furnished;
use daftar_store::suite::{Listener, commit, person};
use daftar_store_sled::testing::Folder;

async fn all(mut snapshot: Snapshot) -> Vec<Entry> {
    let mut entries = Vec::new();
    loop {
        let more = snapshot.next().await.unwrap();
        if more.is_empty() {
            return entries;
        }
        entries.extend(more);
    }
}

/// True if the connection that writes has copied records.
async fn has_copied(store: &PostgresStore) -> bool {
    let connection = store.database.writer().await.unwrap();
    let prepared = "SELECT FROM pg_prepared_statements WHERE statement LIKE 'COPY daftar.record %'";
    !connection.object().unwrap().query(prepared, &[]).await.unwrap().is_empty()
}

/// A new register with so many individuals, written in one transaction; its contents, and whether they were copied.
async fn written(server: &Server, bulk: BulkLimits, people: usize) -> (Vec<Entry>, bool) {
    let options = PostgresOptions { bulk, ..options(&server.create_database()) };
    let store = PostgresStore::open(options).await.unwrap();
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    let create = |number| Operation::create(person(&[&format!("urn:x:a|{number}")]));
    commit(&store, (0..people).map(create).collect()).await.unwrap();
    (all(store.snapshot().await.unwrap()).await, has_copied(&store).await)
}

#[tokio::test]
async fn new_rows_are_copied_from_the_default_limit_on_with_the_same_result() {
    let server = Server::shared();
    let (shipped, never) = (BulkLimits::default(), BulkLimits { copied_rows_min: usize::MAX, ..BulkLimits::default() });
    assert_eq!(shipped.copied_rows_min, 64);
    for people in [63, 64, 65] {
        let (expected, is_copied) = written(&server, never, people).await;
        assert!(!is_copied);
        let (entries, is_copied) = written(&server, shipped, people).await;
        assert_eq!(is_copied, people >= 64, "{people}");
        assert!(entries == expected, "{people}");
    }
}

#[tokio::test]
async fn a_filled_database_is_the_same_for_any_batch_size() {
    let (folder, _) = furnished::<Folder>().await;
    let entries = all(folder.opened().snapshot().await.unwrap()).await;
    let half = entries.len() / 2;
    let first: usize = entries[..half].iter().map(Entry::bytes).sum();
    assert!(first > 1 && BulkLimits::default().flush_bytes == 4 << 20);
    let server = Server::shared();
    for flush_bytes in [first - 1, first, first + 1, BulkLimits::default().flush_bytes] {
        let url = server.create_database();
        let options = PostgresOptions { bulk: BulkLimits { flush_bytes, ..BulkLimits::default() }, ..options(&url) };
        let mut filling: Box<dyn Refill> = Box::new(PostgresRefill::open(options.clone()).await.unwrap());
        for part in [&entries[..half], &entries[half..]] {
            filling.put(part.to_vec()).await.unwrap();
        }
        filling.finish().await.unwrap();
        let store = PostgresStore::open(options).await.unwrap();
        assert!(all(store.snapshot().await.unwrap()).await == entries, "{flush_bytes}");
    }
}

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
    let mut counters = Vec::new();
    for (flush_bytes, copied_rows_min) in
        [(first - 1, 1), (first, 64), (first + 1, 1), (1, 1), (BulkLimits::default().flush_bytes, 64)]
    {
        let url = server.create_database();
        let options = PostgresOptions { bulk: BulkLimits { flush_bytes, copied_rows_min }, ..options(&url) };
        let mut filling: Box<dyn Refill> = Box::new(PostgresRefill::open(options.clone()).await.unwrap());
        let parts = if flush_bytes == 1 { 1 } else { half };
        for part in [&entries[..half], &entries[half..]].into_iter().flat_map(|of| of.chunks(parts)) {
            filling.put(part.to_vec()).await.unwrap();
        }
        filling.finish().await.unwrap();
        let store = PostgresStore::open(options).await.unwrap();
        assert!(all(store.snapshot().await.unwrap()).await == entries, "{flush_bytes}");
        let tally = "SELECT kind, term, code, records FROM daftar.search_tally WHERE records <> 0 ORDER BY kind, term";
        counters.push(server.run_sql(url.rsplit_once('/').unwrap().1, tally));
    }
    assert!(counters[0].lines().count() > 3 && counters.iter().all(|of| *of == counters[0]), "{counters:#?}");
}

#[tokio::test]
async fn rows_that_the_database_rejects_are_reported_before_the_end_of_a_fill() {
    let (folder, _) = furnished::<Folder>().await;
    let mut entries = all(folder.opened().snapshot().await.unwrap()).await;
    let client = entries.iter().find(|entry| matches!(entry, Entry::Client { .. })).unwrap().clone();
    entries.insert(0, client);
    let url = Server::shared().create_database();
    let bulk = BulkLimits { flush_bytes: 1, ..BulkLimits::default() };
    let mut filling = PostgresRefill::open(PostgresOptions { bulk, ..options(&url) }).await.unwrap();
    let mut rejected = None;
    for entry in entries {
        match filling.put(vec![entry]).await {
            Ok(()) => assert!(rejected.is_none(), "an entry was accepted after the failure"),
            Err(error) => drop(rejected.get_or_insert(error)),
        }
    }
    let rejected = rejected.expect("the client occurs twice");
    assert!(matches!(&rejected, StoreError::Corrupt { what: "backup", .. }), "{rejected}");
    assert!(rejected.to_string().contains("`client_pkey`"), "{rejected}");
    assert!(Box::new(filling).finish().await.is_err());
    assert!(
        PostgresStore::open(options(&url))
            .await
            .unwrap()
            .changes_after(daftar_domain::change::Sequence(0), 1)
            .await
            .unwrap()
            .is_empty()
    );
}

/// The shipped limits: everything is pending until the call without entries.
#[tokio::test]
async fn a_call_without_entries_writes_what_is_pending() {
    let (folder, _) = furnished::<Folder>().await;
    let entries = all(folder.opened().snapshot().await.unwrap()).await;
    let client = entries.iter().find(|entry| matches!(entry, Entry::Client { .. })).unwrap().clone();
    let url = Server::shared().create_database();
    let shipped = PostgresOptions { bulk: BulkLimits::default(), ..options(&url) };
    let mut filling = PostgresRefill::open(shipped).await.unwrap();
    filling.put(vec![client.clone(), client]).await.unwrap();
    let rejected = filling.put(Vec::new()).await.unwrap_err();
    assert!(matches!(&rejected, StoreError::Corrupt { what: "backup", .. }), "{rejected}");
}

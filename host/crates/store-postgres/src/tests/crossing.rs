//! Contents of one backend, applied by the other.

use tempfile::TempDir;

use super::*;
use daftar_domain::record::RecordId;
use daftar_domain::verification::VerificationEvent;
use daftar_store::Operation;
use daftar_store::archive::{Entry, Snapshot};
use daftar_store::suite::archive::furnished;
use daftar_store::suite::{Listener, commit, person};
use daftar_store::verify::{Pace, verify};
use daftar_store_sled::testing::Folder;
use daftar_store_sled::{SledOptions, SledRefill, SledStore};

pub(super) async fn taken(mut snapshot: Snapshot) -> Vec<Entry> {
    let mut entries = Vec::new();
    loop {
        let more = snapshot.next().await.unwrap();
        if more.is_empty() {
            return entries;
        }
        entries.extend(more);
    }
}

/// The findings of a verification, one per line, sorted by text.
pub(super) async fn findings(store: &dyn Archive) -> Vec<String> {
    let (events, mut reported) = tokio::sync::mpsc::channel(4);
    let listen = async {
        let mut findings = Vec::new();
        while let Some(event) = reported.recv().await {
            if let VerificationEvent::Finding(finding) = event {
                findings.push(finding.to_string());
            }
        }
        findings.sort_unstable();
        findings
    };
    let (ended, findings) = tokio::join!(verify(store.raw_values().await.unwrap(), Pace::Fast, events), listen);
    ended.unwrap();
    findings
}

pub(super) async fn fill(mut filling: Box<dyn Refill>, entries: &[Entry]) {
    for some in entries.chunks(50) {
        filling.put(some.to_vec()).await.unwrap();
    }
    filling.finish().await.unwrap();
}

#[tokio::test]
async fn a_register_moves_from_one_backend_to_the_other_and_back_byte_by_byte() {
    let (furnished, _) = furnished::<Folder>().await;
    let there = taken(furnished.opened().snapshot().await.unwrap()).await;
    let folder = TempDir::new().unwrap();
    fill(Box::new(SledRefill::open(&folder.path().join("one"), 1 << 20).unwrap()), &there).await;
    let embedded = SledStore::open(&folder.path().join("one"), SledOptions::default()).unwrap();
    let first = taken(embedded.snapshot().await.unwrap()).await;

    let server = Server::shared();
    let url = server.create_database();
    fill(Box::new(PostgresRefill::open(options(&url)).await.unwrap()), &first).await;
    let store = PostgresStore::open(options(&url)).await.unwrap();
    let second = taken(store.snapshot().await.unwrap()).await;
    assert!(second == first, "PostgreSQL returns what was written");
    let found = findings(&store).await;
    assert_eq!(found, findings(&embedded).await, "and finds the same in it");
    assert!(found.iter().all(|line| !line.starts_with("indexes") && !line.starts_with("files")), "{found:#?}");

    fill(Box::new(SledRefill::open(&folder.path().join("two"), 1 << 20).unwrap()), &second).await;
    let back = SledStore::open(&folder.path().join("two"), SledOptions::default()).unwrap();
    assert!(taken(back.snapshot().await.unwrap()).await == first, "and so does the embedded one");

    store.attach_sink(Arc::new(Listener::default())).unwrap();
    let next = commit(&store, vec![Operation::create(person(&["urn:x:new|1"]))]).await.unwrap();
    assert_eq!(
        next.sequence.0,
        back.changes_after(daftar_domain::change::Sequence(0), 100).await.unwrap().len() as u64 + 1
    );
}

#[tokio::test]
async fn damaged_rows_are_found_and_named() {
    let (furnished, _) = furnished::<Folder>().await;
    let there = taken(furnished.opened().snapshot().await.unwrap()).await;
    let server = Server::shared();
    let url = server.create_database();
    fill(Box::new(PostgresRefill::open(options(&url)).await.unwrap()), &there).await;
    let store = PostgresStore::open(options(&url)).await.unwrap();
    let before = findings(&store).await;
    let connection = store.database.connection().await.unwrap();
    let damages = "DELETE FROM daftar.identifier WHERE id = 3; UPDATE daftar.search_individual SET birth_date = '1970-01-02' WHERE id = 1; \
                   UPDATE daftar.search_consent SET grantee = 'other'; UPDATE daftar.last SET program = 4; \
                   UPDATE daftar.record SET value = jsonb_set(value, '{meta,version_id}', '\"1\"') WHERE kind = 2";
    connection.object().unwrap().batch_execute(damages).await.unwrap();
    let found: Vec<String> = findings(&store).await.into_iter().filter(|line| !before.contains(line)).collect();
    let expected = [
        "files: the row of last numbers: its last number of Program is 4, but the last one is 1",
        "identifiers: Individual `urn:x:a|2`: it is not indexed by its identifier of system",
        "indexes: Consent ",
        "indexes: Individual `urn:x:a|1`: the rows that searches read differ from the record",
        "records: Group number 1: the stored group cannot be read",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    assert!(found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected)), "{found:#?}");
}

#[tokio::test]
async fn only_an_empty_database_is_filled_and_an_interrupted_fill_leaves_it_empty() {
    let server = Server::shared();
    let url = server.create_database();
    let (folder, _) = furnished::<Folder>().await;
    let entries = taken(folder.opened().snapshot().await.unwrap()).await;
    let mut filling = PostgresRefill::open(options(&url)).await.unwrap();
    filling.put(entries.clone()).await.unwrap();
    drop(filling);
    // Two records of the backup have the same identifier.
    let mut twice = entries.clone();
    let copy = entries.iter().find_map(|entry| match entry {
        Entry::Version { kind, id, version, is_present: true, value } if *kind == RecordKind::Group => {
            Some(Entry::Version {
                kind: *kind,
                id: RecordId(id.0 + 1),
                version: *version,
                is_present: true,
                value: value.clone(),
            })
        }
        _ => None,
    });
    twice.push(copy.unwrap());
    let mut filling = PostgresRefill::open(options(&url)).await.unwrap();
    filling.put(twice).await.unwrap();
    let error = Box::new(filling).finish().await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { what: "backup", .. }), "{error}");
    assert!(!error.to_string().contains("urn:x"), "{error}");

    fill(Box::new(PostgresRefill::open(options(&url)).await.unwrap()), &entries).await;
    let error = PostgresRefill::open(options(&url)).await.err().unwrap();
    assert!(matches!(error, OpenError::NotEmpty { .. }), "{error}");
}

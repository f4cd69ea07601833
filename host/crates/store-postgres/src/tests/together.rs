//! Several stores on one database, like several processes.

use std::collections::BTreeSet;

use super::*;
use daftar_domain::change::Sequence;
use daftar_domain::code::CodeUri;
use daftar_domain::field::FieldSet;
use daftar_domain::record::RecordId;
use daftar_store::record::samples;
use daftar_store::snapshot::{SnapshotReader, SnapshotSource as _};
use daftar_store::suite::{
    Listener, all_individuals, audit_entry, commit, create, futures_join, individual_of, key, person, write,
};
use daftar_store::{Operation, ReadSet};

async fn two() -> (Arc<Server>, PostgresStore, PostgresStore) {
    let server = Server::shared();
    let url = server.create_database();
    // The last of many concurrent writes waits for a long time on a busy machine.
    let patient = || PostgresOptions { write_wait: Duration::from_secs(60), ..options(&url) };
    let (one, two) = tokio::join!(PostgresStore::open(patient()), PostgresStore::open(patient()));
    let (one, two) = (one.unwrap(), two.unwrap());
    for store in [&one, &two] {
        store.attach_sink(Arc::new(Listener::default())).unwrap();
    }
    (server, one, two)
}

fn update(id: RecordId, version: u64, identifiers: &[&str]) -> Vec<Operation> {
    vec![Operation::update(id, VersionId(version), person(identifiers))]
}

#[tokio::test]
async fn concurrent_opens_of_an_empty_database_create_one_register() {
    let server = Server::shared();
    for _ in 0..4 {
        let url = server.create_database();
        let opening = (0..8).map(|_| PostgresStore::open(options(&url)));
        let mut ids = BTreeSet::new();
        for opened in futures_join(opening).await {
            ids.insert(opened.unwrap().register_id().await.unwrap().to_string());
        }
        assert_eq!(ids.len(), 1);
    }
}

#[tokio::test]
async fn keys_and_the_order_of_writes_have_no_gaps_over_processes() {
    let (_server, one, two) = two().await;
    let stores = [&one, &two];
    let writers = (0..16_usize).map(|writer| async move {
        for number in 0..10 {
            create(stores[writer % 2], person(&[&format!("urn:x:{writer}|{number}")])).await;
        }
    });
    futures_join(writers).await;
    for store in stores {
        assert_eq!(all_individuals(store).await, (1..=160).collect::<Vec<_>>());
        let changes = store.changes_after(Sequence(0), 1_000).await.unwrap();
        assert_eq!(changes.len(), 160);
    }
}

#[tokio::test]
async fn writes_of_different_processes_conflict_as_writes_of_one_do() {
    let (_server, one, two) = two().await;
    let person_of_one = create(&one, person(&["urn:x:a|1"])).await;
    let taken = commit(&two, vec![Operation::create(person(&["urn:x:a|1"]))]).await;
    assert!(matches!(taken, Err(StoreError::IdentifierInUse(in_use)) if in_use == key("urn:x:a|1")));
    commit(&two, update(person_of_one.id, 1, &["urn:x:a|2"])).await.unwrap();
    let stale = commit(&one, update(person_of_one.id, 1, &["urn:x:a|3"])).await;
    assert!(matches!(stale, Err(StoreError::VersionMismatch { actual: VersionId(2), .. })));
    // The identifier that it gave up is free for all.
    let next = create(&one, person(&["urn:x:a|1"])).await;
    assert_eq!(next.id, RecordId(2));

    let rests = |since, id| Write {
        read_set: vec![ReadSet { since: Sequence(since), records: vec![(RecordKind::Individual, RecordId(id))] }],
        ..write(vec![Operation::create(person(&[]))])
    };
    assert!(matches!(one.commit(rests(1, 1)).await, Err(StoreError::Overtaken)), "the other one wrote it");
    assert!(one.commit(rests(2, 1)).await.is_ok());
    assert!(matches!(two.commit(rests(2, 2)).await, Err(StoreError::Overtaken)), "created since");
    assert!(two.commit(rests(3, 2)).await.is_ok());

    commit(&one, vec![Operation::CreateClient(samples::full_client())]).await.unwrap();
    let again = commit(&two, vec![Operation::CreateClient(samples::full_client())]).await;
    assert!(matches!(again, Err(StoreError::ClientExists(_))));
}

#[tokio::test]
async fn a_read_set_stays_valid_after_many_writes_of_another_process() {
    let (_server, one, two) = two().await;
    let inspected = create(&one, person(&[])).await.id;
    let rests = |since: u64, id: RecordId| Write {
        read_set: vec![ReadSet { since: Sequence(since), records: vec![(RecordKind::Individual, id)] }],
        ..write(vec![Operation::create(person(&[]))])
    };
    // Like an import of another process during the evaluation of a rule here.
    let others = (0..3_000_u64).map(|number| {
        let store = &two;
        async move { commit(store, vec![Operation::create(person(&[&format!("urn:x:a|{number}")]))]).await }
    });
    let written = futures_join(others).await.into_iter().filter(Result::is_ok).count();
    assert!(written > 2_000, "{written}");
    // Groups without a read set have checked none of it.
    let own = create(&one, person(&[])).await.id;
    assert!(one.commit(rests(1, inspected)).await.is_ok());
    assert!(matches!(one.commit(rests(1, own)).await, Err(StoreError::Overtaken)));
    let foreign = RecordId(inspected.0 + 1);
    assert!(matches!(one.commit(rests(1, foreign)).await, Err(StoreError::Overtaken)), "created since");
    assert!(one.commit(rests(1, inspected)).await.is_ok());
}

#[tokio::test]
async fn a_code_has_one_number_across_processes() {
    let (_server, one, two) = two().await;
    let uri = |code: usize| CodeUri::from_parts("urn:x:codes", &code.to_string()).unwrap();
    for round in 0..20 {
        let (of_one, of_two) = tokio::join!(
            one.number_codes(vec![uri(round), uri(round + 1)], Vec::new()),
            two.number_codes(vec![uri(round + 1), uri(round)], Vec::new()),
        );
        let (mut of_two, of_one) = (of_two.unwrap().0, of_one.unwrap().0);
        of_two.reverse();
        assert_eq!(of_one, of_two);
    }
    assert_eq!(one.code_table().await.unwrap().codes.len(), 21);
}

#[tokio::test]
async fn the_audit_log_has_the_lines_of_all_processes() {
    let (_server, one, two) = two().await;
    for number in 0..300 {
        let store = [&one, &two][number % 2];
        store.append_audit(vec![audit_entry(&number.to_string())]).await.unwrap();
    }
    one.audit(0).await.unwrap();
    let found: BTreeSet<_> = two.audit(usize::MAX).await.unwrap().into_iter().map(|line| line.request_id).collect();
    assert_eq!(found, (0..300).map(|number| number.to_string()).collect());
}

#[tokio::test]
async fn changes_of_one_process_are_notified_to_the_other() {
    let (_server, one, two) = two().await;
    let mut changes = two.feed().subscribe(Channel::Changes);
    let mut generation = two.feed().subscribe(Channel::Generation);
    generation.wait_for(|_| two.feed().is_listening()).await.unwrap();
    create(&one, person(&[])).await;
    changes.wait_for(|sequence| *sequence == 1).await.unwrap();
    assert_eq!(*generation.borrow(), 0, "it does not count records");
    commit(&one, vec![Operation::CreateClient(samples::full_client())]).await.unwrap();
    generation.wait_for(|generation| *generation == 1).await.unwrap();
    let found = one.number_codes(vec![CodeUri::parse("urn:x#a").unwrap()], Vec::new()).await;
    found.unwrap();
    generation.wait_for(|generation| *generation == 2).await.unwrap();
    // Existing numbers change nothing.
    two.number_codes(vec![CodeUri::parse("urn:x#a").unwrap()], Vec::new()).await.unwrap();
    assert_eq!(one.generation().await.unwrap(), two.generation().await.unwrap());
    let found = commit(&one, vec![Operation::create(person(&[]))]).await.unwrap();
    assert_eq!(individual_of(&found.written[0]).id, RecordId(2));
    assert!(one.database_usage().groups >= 4 && one.usage().sequence == 3);
}

#[tokio::test]
async fn writes_of_any_process_are_read_at_one_snapshot() {
    let (_server, one, two) = two().await;
    let source = two.snapshots();
    create(&one, person(&["urn:x:a|1"])).await;
    let before = source.snapshot(SnapshotReader::Index).await.unwrap();
    assert_eq!(source.last().await.unwrap(), (before.history(), Sequence(1)));
    create(&one, person(&["urn:x:a|2"])).await;
    assert_eq!((before.sequence(), before.last(RecordKind::Individual).await.unwrap()), (Sequence(1), RecordId(1)));
    assert_eq!(
        before.records(RecordKind::Individual, &[RecordId(1), RecordId(2)], &FieldSet::All).await.unwrap().len(),
        1
    );
    drop(before);
    // The connection stays open, without a transaction.
    let after = source.snapshot(SnapshotReader::Index).await.unwrap();
    assert_eq!(after.sequence(), Sequence(2));
    let touched = after.touched_since(Sequence(1), 10).await.unwrap();
    assert_eq!(touched, Some(vec![(RecordKind::Individual, RecordId(2))]));
    assert_eq!(after.touched_since(Sequence(0), 1).await.unwrap(), None, "more than the limit");
    drop(after);
    for count in 0..2_400 {
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                    AND application_name = 'daftar (index)' AND state <> 'idle'";
        let row = two.database.query_opt(open, &[]).await.unwrap().unwrap();
        if row.get::<_, i64>(0) == 0 {
            break;
        }
        assert!(count < 2_399, "its transaction is left open");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

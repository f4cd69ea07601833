//! Catching up a folder with the later writes of a database, or of another folder.

use std::path::PathBuf;

use super::refused::{line, refused, with_identifier_of_another};
use super::*;
use crate::tests::crossing::{findings, taken};
use daftar_store_sled::SledRefill;

/// A folder that is filled and caught up, and is not open in between.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("store")
    }

    fn store(&self) -> SledStore {
        folder(&self.path())
    }
}

impl Target for Folder {
    async fn fill(&self, from: &dyn Archive) {
        let refill = SledRefill::open(&self.path(), 1 << 20).unwrap();
        copy(from.snapshot().await.unwrap(), Box::new(refill), |_, _| ()).await.unwrap();
    }

    async fn begin(&self) -> Result<CatchUp, String> {
        SledRefill::catch_up(&self.path(), 1 << 20).map_err(|error| error.to_string())
    }

    async fn with_store<T>(&self, look: impl AsyncFnOnce(&dyn Whole) -> T) -> T {
        look(&self.store()).await
    }
}

/// Puts some steps of the later writes into a store that is being caught up.
async fn put_some(begun: &mut CatchUp, from: &dyn Archive, steps: usize) {
    let mut snapshot = from.since(&begun.held).await.unwrap();
    begun.refill.note_origin(snapshot.mark());
    for _ in 0..steps {
        let entries = snapshot.next().await.unwrap();
        for some in entries.chunks(40) {
            begun.refill.put(some.to_vec()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn all_writes_to_the_source_are_applied_to_a_folder() {
    for seed in 0..4 {
        let path = TempDir::new().unwrap();
        let from = folder(path.path());
        let (mut world, target) = (World::new(seed), Folder::new());
        world.write(&from, if seed == 0 { 0 } else { 120 }).await;
        target.fill(&from).await;
        for round in 0..3 {
            world.write(&from, 50).await;
            if round == 2 {
                // Interrupted anywhere, it is completed by the next run.
                for steps in [1, 3, 100] {
                    let mut begun = target.begin().await.unwrap();
                    put_some(&mut begun, &from, steps).await;
                    drop(begun);
                    let unfinished = SledStore::open(&target.path(), SledOptions::default()).err().unwrap();
                    assert!(unfinished.to_string().contains("run `daftar migrate catch-up --to sled` again"));
                    world.write(&from, 10).await;
                }
            }
            let caught_up = target.catch_up(&from).await.unwrap();
            let writes = caught_up.mark.sequence.0 - caught_up.held.sequence.0;
            let comparison = target.assert_equals(&from, &caught_up).await;
            assert_eq!(
                (comparison.same[&ItemKind::Changes], caught_up.was_interrupted),
                (writes, round == 2),
                "{seed}"
            );
            assert_eq!(target.with_store(async |store| findings(store).await).await, findings(&from).await);
            let again = target.catch_up(&from).await.unwrap();
            assert!(again.brought.is_empty(), "{:?}", again.brought);
        }
        // It continues from the position of the source.
        let there = target.store();
        let [one, other] = [&there, &from].map(|store| async move {
            let committed = commit(store, vec![Operation::create(person(&[]))]).await.unwrap();
            (committed.sequence, individual_of(&committed.written[0]).id)
        });
        assert_eq!(one.await, other.await);
    }
}

#[tokio::test]
async fn a_folder_whose_comparison_did_not_end_is_not_served_and_is_compared_completely() {
    let path = TempDir::new().unwrap();
    let from = folder(path.path());
    let (mut world, target) = (World::new(22), Folder::new());
    world.write(&from, 60).await;
    target.fill(&from).await;
    world.write(&from, 30).await;
    for was_interrupted in [false, true, true] {
        let mut begun = target.begin().await.unwrap();
        begun.refill.require_comparison();
        let caught_up = catch_up(&from, begun, |_, _, _| ()).await.unwrap();
        assert_eq!((caught_up.was_interrupted, caught_up.brought.is_empty()), (was_interrupted, was_interrupted));
        let rejected = SledStore::open(&target.path(), SledOptions::default()).err().unwrap().to_string();
        assert!(rejected.contains("not compared") && rejected.contains("`daftar migrate catch-up --to sled` again"));
        let opened = SledOptions { opens_not_compared: true, ..SledOptions::default() };
        let opened = SledStore::open(&target.path(), opened).unwrap();
        let (one, other) = (from.snapshot().await.unwrap(), opened.snapshot().await.unwrap());
        assert_eq!(compare(one, other, |_, _| ()).await.unwrap().differences, 0);
    }
    // An update that is interrupted afterwards is completed by the next one.
    world.write(&from, 10).await;
    let mut begun = target.begin().await.unwrap();
    put_some(&mut begun, &from, 1).await;
    drop(begun);
    let mut begun = target.begin().await.unwrap();
    begun.refill.require_comparison();
    let caught_up = catch_up(&from, begun, |_, _, _| ()).await.unwrap();
    assert!(caught_up.was_interrupted);
    SledRefill::note_compared(&target.path(), 1 << 20).unwrap();
    target.assert_equals(&from, &caught_up).await;
    assert!(!target.catch_up(&from).await.unwrap().was_interrupted);
    SledRefill::note_compared(&target.path(), 1 << 20).unwrap();
    drop(target.store());
}

#[tokio::test]
async fn a_register_moves_back_into_a_folder_while_it_is_served_from_the_database() {
    let path = TempDir::new().unwrap();
    let from = folder(path.path());
    let (mut world, database, target) = (World::new(3), Database::new(), Folder::new());
    world.write(&from, 120).await;
    database.fill(&from).await;
    let store = database.store().await;
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    target.fill(&store).await;
    let moved = create(&store, person(&["urn:x:back|1"])).await;
    commit(&store, vec![Operation::update(moved.id, VersionId(1), person(&["urn:x:back|2"]))]).await.unwrap();
    line(&store, "later").await;
    let caught_up = target.catch_up(&store).await.unwrap();
    assert_eq!(
        (caught_up.brought.written[&ItemKind::Individuals], caught_up.brought.written[&ItemKind::Changes]),
        (1, 2)
    );
    target.assert_equals(&store, &caught_up).await;
    assert_eq!(taken(target.store().snapshot().await.unwrap()).await, taken(store.snapshot().await.unwrap()).await);
    assert!(target.catch_up(&store).await.unwrap().brought.is_empty());
    // A server wrote to the folder.
    create(&target.store(), person(&["urn:x:back|3"])).await;
    let reported = refused(&store, &target).await;
    assert!(
        reported.contains("was written to since the register was moved into it")
            && reported.contains("Continue with the folder"),
        "{reported}"
    );
    store.close().await;
}

#[tokio::test]
async fn a_folder_that_is_no_earlier_state_is_rejected() {
    let [path, other_path] = [(); 2].map(|()| TempDir::new().unwrap());
    let (from, other, target) = (folder(path.path()), folder(other_path.path()), Folder::new());
    create(&from, person(&["urn:x:a|1"])).await;
    create(&other, person(&["urn:x:a|1"])).await;
    drop(target.store());
    let reported = refused(&from, &target).await;
    assert!(reported.contains("no register was moved into") && reported.contains("fill --to sled"), "{reported}");

    let target = Folder::new();
    target.fill(&other).await;
    let reported = refused(&from, &target).await;
    assert!(reported.contains("the folder was filled from the register") && reported.contains("name the database"));
    assert!(target.catch_up(&other).await.unwrap().brought.is_empty(), "it is unchanged");

    // A fill that was interrupted.
    let target = Folder::new();
    let mut refill = SledRefill::open(&target.path(), 1 << 20).unwrap();
    daftar_store::archive::Refill::put(&mut refill, taken(from.snapshot().await.unwrap()).await).await.unwrap();
    drop(refill);
    let remedy = "delete it, and copy the register again";
    assert!(refused(&from, &target).await.contains(remedy));
    for error in [
        SledStore::open(&target.path(), SledOptions::default()).err().unwrap(),
        SledRefill::open(&target.path(), 1 << 20).err().unwrap(),
    ] {
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

#[tokio::test]
async fn a_unique_value_that_its_record_still_has_is_not_taken() {
    let path = TempDir::new().unwrap();
    let (from, target) = (folder(path.path()), Folder::new());
    for value in ["urn:x:a|1", "urn:x:a|2"] {
        create(&from, person(&[value])).await;
    }
    target.fill(&from).await;
    commit(&from, vec![Operation::update(RecordId(2), VersionId(1), person(&["urn:x:a|3"]))]).await.unwrap();
    let error = with_identifier_of_another(&from, target.begin().await.unwrap()).await;
    assert!(error.to_string().contains("another record has the same open identifier"), "{error}");
    let unfinished = SledStore::open(&target.path(), SledOptions::default()).err().unwrap();
    assert!(unfinished.to_string().contains("again"), "{unfinished}");
    let caught_up = target.catch_up(&from).await.unwrap();
    assert!(caught_up.was_interrupted);
    target.assert_equals(&from, &caught_up).await;
    assert_eq!(target.with_store(async |store| findings(store).await).await, findings(&from).await);
}

#[tokio::test]
async fn numbers_that_a_database_left_out_are_no_findings_in_a_folder() {
    let (database, target) = (Database::new(), Folder::new());
    let store = database.store().await;
    // As transactions that are rolled back.
    let gap = async || store.database.query("SELECT nextval('daftar.audit_value')", &[]).await.unwrap();
    line(&store, "first").await;
    gap().await;
    line(&store, "after a gap").await;
    target.fill(&store).await;
    assert!(target.with_store(async |store| findings(store).await).await.is_empty());
    gap().await;
    line(&store, "after another").await;
    target.catch_up(&store).await.unwrap();
    assert!(target.with_store(async |store| findings(store).await).await.is_empty());
    store.close().await;
}

#[tokio::test]
async fn a_snapshot_has_all_audit_entries_before_its_last_one() {
    let database = Database::new();
    let (store, other) = (database.waiting_store().await, database.waiting_store().await);
    line(&*store, "first").await;
    let mut connection = other.database.auditor().await.unwrap();
    let transaction = connection.object_mut().unwrap().transaction().await.unwrap();
    audit_row::add(&transaction, &[audit_entry("committed last")], 1).await.unwrap();
    line(&*store, "third").await;
    let beginning = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.snapshot().await.unwrap() }
    });
    database.until_locked(&beginning).await;
    transaction.commit().await.unwrap();
    let entries = taken(beginning.await.unwrap()).await;
    let numbers = entries.iter().filter_map(|entry| match entry {
        Entry::Audit { number, .. } => Some(*number),
        _ => None,
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3]);
    drop(connection);
    other.close().await;
    store.close().await;
}

//! Databases that contain no earlier state of the register in the folder.

use super::*;
use daftar_domain::group::GroupDetails;
use daftar_store::record;
use daftar_store::suite::audit_entry;

pub(super) async fn line(store: &dyn Store, request: &str) {
    store.append_audit(vec![audit_entry(request)]).await.unwrap();
    store.audit(0).await.unwrap();
}

/// Returns the error for a store that cannot be caught up.
pub(super) async fn refused(from: &dyn Archive, database: &impl Target) -> String {
    match database.begin().await {
        Err(error) => error,
        Ok(begun) => catch_up(from, begun, |_, _, _| ()).await.unwrap_err().to_string(),
    }
}

/// Applies the later writes, with the identifier of the first individual in place of those of the changed ones.
pub(super) async fn with_identifier_of_another(from: &dyn Archive, mut begun: CatchUp) -> StoreError {
    let mut snapshot = from.since(&begun.held).await.unwrap();
    begun.refill.note_origin(snapshot.mark());
    loop {
        let mut entries = snapshot.next().await.unwrap();
        if entries.is_empty() {
            return begun.refill.finish().await.unwrap_err();
        }
        give_identifier(&mut entries, "urn:x:a|1");
        begun.refill.put(entries).await.unwrap();
    }
}

/// Gives an identifier to every individual.
fn give_identifier(entries: &mut [Entry], identifier: &str) {
    for entry in entries {
        let Entry::Version { kind: RecordKind::Individual, id, is_present: true, value, .. } = entry else { continue };
        let ChangedRecord::Individual(changed) = record::decode_any(RecordKind::Individual, *id, value).unwrap() else {
            continue;
        };
        let mut changed = daftar_domain::individual::Individual::clone(&changed);
        changed.details.identifiers = person(&[identifier]).identifiers;
        *value = record::encode_any(&ChangedRecord::Individual(Arc::new(changed))).unwrap();
    }
}

/// Copies a folder that is not in use.
fn copied(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()));
}

#[tokio::test]
async fn a_database_that_was_not_filled_from_this_folder_is_rejected() {
    let (path, other_path) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (from, other, database) = (folder(path.path()), folder(other_path.path()), Database::new());
    create(&from, person(&["urn:x:a|1"])).await;
    let reported = refused(&from, &database).await;
    assert!(
        reported.contains("no register was moved into the database") && reported.contains("--backup FILE"),
        "{reported}"
    );
    // A register that was created there.
    let store = database.store().await;
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    create(&store, person(&["urn:x:a|1"])).await;
    store.close().await;
    assert!(refused(&from, &database).await.contains("no register was moved into the database"));

    let database = Database::new();
    create(&other, person(&["urn:x:a|1"])).await;
    database.fill(&other).await;
    let before = database.everything();
    let reported = refused(&from, &database).await;
    let ids = [from.register_id().await.unwrap().to_string(), other.register_id().await.unwrap().to_string()];
    assert!(ids.iter().all(|id| reported.contains(id)) && reported.contains("name the folder"), "{reported}");
    assert!(database.everything() == before);
    assert!(database.catch_up(&other).await.unwrap().brought.is_empty());
}

#[tokio::test]
async fn a_database_that_a_server_wrote_to_is_rejected() {
    let path = TempDir::new().unwrap();
    let from = folder(path.path());
    create(&from, person(&["urn:x:a|1"])).await;
    line(&from, "1").await;
    for what in ["a write", "a line", "a code"] {
        let database = Database::new();
        database.fill(&from).await;
        let store = database.store().await;
        store.attach_sink(Arc::new(Listener::default())).unwrap();
        match what {
            "a write" => drop(create(&store, person(&[])).await),
            "a line" => line(&store, "2").await,
            _ => drop(store.number_codes(vec![CodeUri::parse("urn:x#a").unwrap()], Vec::new()).await.unwrap()),
        }
        store.close().await;
        let reported = refused(&from, &database).await;
        assert!(reported.contains("was written to since the register was moved into it"), "{what}: {reported}");
        assert!(reported.contains("Continue with the database as it is"), "{what}: {reported}");
    }
}

#[tokio::test]
async fn a_folder_that_was_restored_to_an_older_state_is_rejected() {
    let path = TempDir::new().unwrap();
    let [now, earlier] = ["now", "earlier"].map(|name| path.path().join(name));
    let from = folder(&now);
    create(&from, person(&["urn:x:a|1"])).await;
    line(&from, "1").await;
    drop(from);
    copied(&now, &earlier);
    let (from, database) = (folder(&now), Database::new());
    create(&from, person(&["urn:x:a|2"])).await;
    line(&from, "2").await;
    database.fill(&from).await;

    let put_back = folder(&earlier);
    let reported = refused(&put_back, &database).await;
    assert!(reported.contains("the folder ends at write 1") && reported.contains("was put back"), "{reported}");
    // As many writes, and more; but different ones.
    let committed = commit(&put_back, vec![Operation::create(GroupDetails::default())]).await;
    committed.unwrap();
    create(&put_back, person(&[])).await;
    let reported = refused(&put_back, &database).await;
    assert!(
        reported.contains("value 1 of the audit log") && reported.contains("the folder ends at"),
        "still too few entries: {reported}"
    );
    line(&put_back, "another 2").await;
    let reported = refused(&put_back, &database).await;
    assert!(
        reported.contains("write 2 is not the same") && reported.contains("was put back and written to"),
        "{reported}"
    );
    assert!(database.catch_up(&from).await.unwrap().brought.is_empty());
}

#[tokio::test]
async fn a_folder_whose_audit_log_diverged_is_rejected() {
    let path = TempDir::new().unwrap();
    let [now, earlier] = ["now", "earlier"].map(|name| path.path().join(name));
    let from = folder(&now);
    create(&from, person(&["urn:x:a|1"])).await;
    drop(from);
    copied(&now, &earlier);
    let (from, put_back, database) = (folder(&now), folder(&earlier), Database::new());
    line(&from, "1").await;
    line(&put_back, "another 1").await;
    database.fill(&from).await;
    let reported = refused(&put_back, &database).await;
    assert!(reported.contains("value 1 of the audit log is not the same"), "{reported}");
}

#[tokio::test]
async fn an_identifier_that_its_record_still_has_is_not_taken() {
    let path = TempDir::new().unwrap();
    let (from, database) = (folder(path.path()), Database::new());
    create(&from, person(&["urn:x:a|1"])).await;
    create(&from, person(&["urn:x:a|2"])).await;
    database.fill(&from).await;
    let before = database.everything();
    commit(&from, vec![Operation::update(RecordId(2), VersionId(1), person(&["urn:x:a|3"]))]).await.unwrap();
    let error = with_identifier_of_another(&from, database.begin().await.unwrap()).await;
    assert!(error.to_string().contains("another record has the same open identifier"), "{error}");
    assert!(database.everything() == before);
}

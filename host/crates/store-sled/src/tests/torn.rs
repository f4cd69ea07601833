//! A database that fails in the middle of a batch while it still accepts writes.

use super::damage::findings;
use super::*;
use crate::{StoppedStore, unfinished};
use daftar_domain::audit::AuditEntry;
use daftar_domain::identifier::IdentifierKey;

fn key(value: &str) -> IdentifierKey {
    let details = person(&[&format!("urn:x:a|{value}")]);
    details.identifiers.first().unwrap().key.clone()
}

/// Number of other keys.
const OTHERS: u8 = 40;

/// A key beside that of the next value of the audit log.
fn other(number: u8) -> Vec<u8> {
    [crate::keys::by_number(crate::keys::AUDIT, 1).as_slice(), &[number]].concat()
}

#[tokio::test]
async fn a_write_that_fails_in_the_middle_is_whole_after_the_next_start() {
    for _ in 0..3 {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("registry");
        let store = Folder::listening(&path);
        create(&store, person(&["urn:x:a|1"])).await;
        // Values that the store would split: the database writes their pages to files of their own, for which there is no
        // free space here.
        let tree = store.reader.database.tree();
        (0..OTHERS).for_each(|number| drop(tree.insert(other(number), vec![number; 100_000]).unwrap()));
        std::fs::rename(path.join("blobs"), path.join("other")).unwrap();
        let lines: Vec<AuditEntry> = (0..12)
            .map(|line| AuditEntry { targets: vec!["t".repeat(17_000)], ..audit_entry(&line.to_string()) })
            .collect();
        let people = (2..=9).map(|number| Operation::create(person(&[&format!("urn:x:a|{number}")])));
        let refused = store.commit(Write { audit: lines.clone(), ..write(people.collect()) }).await;
        assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
        assert!(matches!(store.readiness(), Err(StoreError::Failed(_))));
        // Never closed: closing would flush it, which blocks every other database of this process.
        std::mem::forget(store);
        let (place, operations) = unfinished::read(&path).unwrap().expect("the partial write is saved");
        assert_eq!((place.after.sequence, place.last.sequence), (1, 2));
        assert!(place.after.audit < place.last.audit);
        assert!(operations.len() > 8 * 2, "people, identifiers, a change, a line of the audit log");
        std::fs::rename(path.join("other"), path.join("blobs")).unwrap();
        // Copies: the failed database keeps its files locked while this process runs.
        let (inspected, after) = (copied(&path), copied(&path));
        let stopped = StoppedStore::open(inspected.path(), 1024 * 1024).unwrap();
        let mut found = findings(&stopped).await.unwrap();
        found.retain(|finding| !finding.contains("daftar does not write such keys"));
        assert_eq!(found, Vec::<String>::new(), "as a start would find it");

        with_database(after.path(), |tree| (0..OTHERS).for_each(|number| drop(tree.remove(other(number)).unwrap())));
        let store = Folder::listening(after.path());
        assert_eq!(all_individuals(&store).await, (1..=9).collect::<Vec<_>>());
        for number in 1..=9_u64 {
            let owners = store.identifier_owners(RecordKind::Individual, &key(&number.to_string()), 9).await.unwrap();
            assert_eq!(owners.iter().map(|owner| owner.id.0).collect::<Vec<_>>(), [number]);
        }
        assert_eq!(store.audit(12).await.unwrap(), lines.into_iter().rev().collect::<Vec<_>>());
        create(&store, person(&["urn:x:a|10"])).await;
        assert!(unfinished::read(after.path()).unwrap().is_none(), "it is forgotten before the next write");
    }
}

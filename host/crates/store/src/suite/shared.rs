use std::collections::BTreeSet;

use crate::{Operation, StoreError};
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use super::*;

pub async fn concurrent_writers_get_distinct_keys<B: Backend>() {
    let (mut backend, listener) = listening::<B>();
    let store = backend.store();
    let writes = (0..16).map(|writer| async move {
        let mut ids = Vec::new();
        for number in 0..20 {
            let individual = create(store, person(&[&format!("urn:x:{writer}|{number}")])).await;
            ids.push((individual.id, writer, number));
        }
        ids
    });
    let given: Vec<_> = futures_join(writes).await.into_iter().flatten().collect();
    let ids: BTreeSet<_> = given.iter().map(|(id, ..)| id.0).collect();
    assert_eq!(ids, (1..=320).collect());
    let heard: Vec<_> = listener.0.lock().unwrap().iter().map(|change| change.sequence.0).collect();
    assert_eq!(heard, (1..=320).collect::<Vec<_>>());
    reopened(&mut backend).await;
    for (id, writer, number) in given {
        let address = key(&format!("urn:x:{writer}|{number}"));
        let owners = backend.store().identifier_owners(RecordKind::Individual, &address, 9).await.unwrap();
        assert_eq!(owners.iter().map(|owner| owner.id).collect::<Vec<_>>(), [id]);
        let found = backend.store().find::<IndividualDetails>(id).await.unwrap().unwrap();
        assert_eq!(found.details.identifiers[0].key, address);
    }
}

pub async fn one_of_many_gets_the_identifier<B: Backend>() {
    let (backend, _) = listening::<B>();
    let store = backend.store();
    let attempts = (0..16).map(|_| commit(store, vec![Operation::create(person(&["urn:x:a|1"]))]));
    let outcomes = futures_join(attempts).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(_) | Err(StoreError::IdentifierInUse(_)))));
    assert_eq!(all_individuals(store).await, [1]);
}

pub async fn one_of_many_updates_a_version<B: Backend>() {
    let (backend, _) = listening::<B>();
    let store = backend.store();
    create(store, person(&[])).await;
    let update = || vec![Operation::update(RecordId(1), VersionId(1), person(&[]))];
    let outcomes = futures_join((0..16).map(|_| commit(store, update()))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let lost =
        |outcome: &Result<_, _>| matches!(outcome, Err(StoreError::VersionMismatch { actual: VersionId(2), .. }));
    assert_eq!(outcomes.iter().filter(|outcome| lost(outcome)).count(), 15);
}

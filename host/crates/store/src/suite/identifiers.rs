use jiff::civil::Date;

use crate::{IDENTIFIER_OWNERS_MAX, IdentifierOwner, Operation, StoreError};
use daftar_domain::calendar::Period;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use super::*;

/// An individual with ended identifiers.
fn past(identifiers: &[&str]) -> IndividualDetails {
    let mut details = person(identifiers);
    for identifier in &mut details.identifiers {
        identifier.period = Some(Period { start: None, end: Some(Date::constant(2020, 1, 1)) });
    }
    details
}

async fn owners(store: &dyn Store, text: &str) -> Vec<(u64, bool)> {
    let owners = store.identifier_owners(RecordKind::Individual, &key(text), usize::MAX).await.unwrap();
    owners.iter().map(|owner| (owner.id.0, owner.is_open)).collect()
}

fn is_in_use<T>(outcome: Result<T, StoreError>, text: &str) -> bool {
    matches!(outcome, Err(StoreError::IdentifierInUse(in_use)) if in_use == key(text))
}

pub async fn an_open_identifier_has_one_owner<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    create(backend.store(), person(&["urn:x:a|1", "urn:x:a|2"])).await;
    reopened(&mut backend).await;
    let again = vec![Operation::create(person(&["urn:x:a|3", "urn:x:a|2"]))];
    assert!(is_in_use(commit(backend.store(), again).await, "urn:x:a|2"));
    create(backend.store(), person(&["urn:x:b|1"])).await;
    let taking = vec![Operation::update(RecordId(2), VersionId(1), person(&["urn:x:b|1", "urn:x:a|1"]))];
    assert!(is_in_use(commit(backend.store(), taking).await, "urn:x:a|1"));
    let keeping = vec![Operation::update(RecordId(1), VersionId(1), person(&["urn:x:a|1", "urn:x:a|2"]))];
    commit(backend.store(), keeping).await.unwrap();
    assert_eq!(owners(backend.store(), "urn:x:a|1").await, [(1, true)]);
    assert_eq!(owners(backend.store(), "urn:x:a|3").await, []);
}

pub async fn an_ended_identifier_can_be_reused<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    create(backend.store(), past(&["urn:x:a|1"])).await;
    create(backend.store(), past(&["urn:x:a|1"])).await;
    create(backend.store(), person(&["urn:x:a|1"])).await;
    reopened(&mut backend).await;
    assert_eq!(owners(backend.store(), "urn:x:a|1").await, [(3, true), (1, false), (2, false)]);
    let another = vec![Operation::create(person(&["urn:x:a|1"]))];
    assert!(is_in_use(commit(backend.store(), another).await, "urn:x:a|1"));
    // An open period that begins on some day is open.
    let mut details = person(&["urn:x:a|1"]);
    details.identifiers[0].period = Some(Period { start: Some(Date::constant(2020, 1, 1)), end: None });
    assert!(is_in_use(commit(backend.store(), vec![Operation::create(details)]).await, "urn:x:a|1"));
}

pub async fn one_write_cannot_assign_an_identifier_twice<B: Backend>() {
    let (backend, _) = listening::<B>();
    let twice = vec![Operation::create(person(&["urn:x:a|1"])), Operation::create(person(&["urn:x:a|1"]))];
    assert!(is_in_use(commit(backend.store(), twice).await, "urn:x:a|1"));
    let handed_over = vec![
        Operation::create(person(&["urn:x:a|1"])),
        Operation::update(RecordId::pending(1), VersionId(1), past(&["urn:x:a|1"])),
        Operation::create(person(&["urn:x:a|1"])),
    ];
    commit(backend.store(), handed_over).await.unwrap();
    assert_eq!(owners(backend.store(), "urn:x:a|1").await, [(2, true), (1, false)]);
    // A record may have it as ended and current: it was assigned again.
    let mut details = person(&["urn:x:a|5", "urn:x:a|5"]);
    details.identifiers[0].period = past(&["urn:x:a|5"]).identifiers[0].period;
    create(backend.store(), details).await;
    assert_eq!(owners(backend.store(), "urn:x:a|5").await, [(3, true)]);
}

pub async fn kinds_do_not_share_identifiers<B: Backend>() {
    let (backend, _) = listening::<B>();
    create(backend.store(), person(&["urn:x:a|1"])).await;
    commit(backend.store(), vec![Operation::create(group(&["urn:x:a|1"]))]).await.unwrap();
    let owner = IdentifierOwner { id: RecordId(1), is_open: true };
    for kind in [RecordKind::Individual, RecordKind::Group] {
        assert_eq!(backend.store().identifier_owners(kind, &key("urn:x:a|1"), 9).await.unwrap(), [owner]);
    }
    let again = vec![Operation::create(group(&["urn:x:a|1"]))];
    assert!(is_in_use(commit(backend.store(), again).await, "urn:x:a|1"));
}

pub async fn owners_include_those_that_ended_or_dropped_it<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    create(backend.store(), person(&["urn:x:a|1", "urn:x:a|2"])).await;
    let dropped = vec![Operation::update(RecordId(1), VersionId(1), past(&["urn:x:a|1"]))];
    commit(backend.store(), dropped).await.unwrap();
    create(backend.store(), person(&["urn:x:a|1", "urn:x:a|2"])).await;
    reopened(&mut backend).await;
    for text in ["urn:x:a|1", "urn:x:a|2"] {
        assert_eq!(owners(backend.store(), text).await, [(2, true), (1, false)], "{text}");
    }
}

pub async fn an_ended_identifier_cannot_be_reopened_while_another_record_has_it<B: Backend>() {
    let (backend, _) = listening::<B>();
    create(backend.store(), past(&["urn:x:a|1"])).await;
    create(backend.store(), person(&["urn:x:a|1"])).await;
    let reopening = |version| vec![Operation::update(RecordId(1), version, person(&["urn:x:a|1"]))];
    assert!(is_in_use(commit(backend.store(), reopening(VersionId(1))).await, "urn:x:a|1"));
    let ended = vec![Operation::update(RecordId(2), VersionId(1), past(&["urn:x:a|1"]))];
    commit(backend.store(), ended).await.unwrap();
    commit(backend.store(), reopening(VersionId(1))).await.unwrap();
    assert_eq!(owners(backend.store(), "urn:x:a|1").await, [(1, true), (2, false)]);
}

pub async fn owners_are_limited_and_the_current_one_is_first<B: Backend>() {
    let (backend, _) = listening::<B>();
    let many = (1..IDENTIFIER_OWNERS_MAX).map(|_| Operation::create(past(&["urn:x:a|1"]))).collect();
    commit(backend.store(), many).await.unwrap();
    create(backend.store(), person(&["urn:x:a|1"])).await;
    let holder = RecordId(IDENTIFIER_OWNERS_MAX as u64);
    let first = backend.store().identifier_owners(RecordKind::Individual, &key("urn:x:a|1"), 1).await.unwrap();
    assert_eq!(first, [IdentifierOwner { id: holder, is_open: true }]);
    assert_eq!(owners(backend.store(), "urn:x:a|1").await.len(), IDENTIFIER_OWNERS_MAX);
    let one_more = commit(backend.store(), vec![Operation::create(past(&["urn:x:a|1"]))]).await;
    assert!(matches!(one_more, Err(StoreError::LimitReached(_))));
    let update = vec![Operation::update(holder, VersionId(1), past(&["urn:x:a|1"]))];
    commit(backend.store(), update).await.unwrap();
}

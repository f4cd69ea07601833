//! Idempotency records that are stored with their writes.

use jiff::{SignedDuration, Timestamp};

use crate::{Operation, StoreError};
use daftar_domain::client::ClientId;
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest, RequestName, StoredResponse};
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use super::*;

fn noon() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn after(hours: i64) -> Timestamp {
    noon() + SignedDuration::from_hours(hours)
}

fn name(client: &str, key: &str, part: u16) -> RequestName {
    RequestName { client: ClientId::parse(client).unwrap(), key: IdempotencyKey::parse(key).unwrap(), part }
}

/// A request that creates one individual.
fn request(name: RequestName, at: Timestamp) -> IdempotentRequest {
    let record = Some((RecordKind::Individual, RecordId::pending(1), VersionId::FIRST));
    IdempotentRequest { name, digest: [7; 32], at, responses: vec![StoredResponse { status: 201, record }] }
}

async fn make(store: &dyn Store, identifier: &str, request: IdempotentRequest) -> Result<Committed, StoreError> {
    let at = request.at;
    let write = Write { at, ..write(vec![Operation::create(person(&[identifier]))]) };
    store.commit_once(write, request).await
}

async fn remembered(store: &dyn Store, name: &RequestName) -> Vec<(u16, Timestamp, Option<RecordId>)> {
    let found = store.remembered(&name.client, &name.key).await.unwrap();
    let reported = |request: &Arc<IdempotentRequest>| {
        assert_eq!((&request.name.client, &request.name.key), (&name.client, &name.key));
        (request.name.part, request.at, request.responses[0].record.map(|(_, id, _)| id))
    };
    found.iter().map(reported).collect()
}

pub async fn a_request_is_executed_once_and_stored_with_its_write<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    create(backend.store(), person(&["urn:x:a|0"])).await;
    let (one, part) = (name("c", "k", 0), name("c", "k", 3));
    make(backend.store(), "urn:x:a|1", request(one.clone(), noon())).await.unwrap();
    make(backend.store(), "urn:x:a|2", request(part.clone(), after(1))).await.unwrap();
    for (other, identifier) in [("c", "urn:x:a|3"), ("c", "urn:x:a|1")] {
        let error = make(backend.store(), identifier, request(name(other, "k", 0), after(2))).await.unwrap_err();
        assert!(matches!(error, StoreError::AlreadyDone | StoreError::IdentifierInUse(_)), "{error}");
    }
    make(backend.store(), "urn:x:a|3", request(name("other", "k", 0), noon())).await.unwrap();
    make(backend.store(), "urn:x:a|4", request(name("c", "k2", 0), noon())).await.unwrap();
    // A failed write stores no idempotency record.
    make(backend.store(), "urn:x:a|4", request(name("c", "k3", 0), noon())).await.unwrap_err();
    for _ in 0..2 {
        let store = backend.store();
        let expected = [(0, noon(), Some(RecordId(2))), (3, after(1), Some(RecordId(3)))];
        assert_eq!(remembered(store, &one).await, expected);
        assert_eq!(remembered(store, &name("c", "k3", 0)).await, []);
        assert_eq!(store.remembered_count(&one.client).await.unwrap(), 3);
        assert_eq!(all_individuals(store).await, [1, 2, 3, 4, 5]);
        reopened(&mut backend).await;
    }
}

pub async fn idempotency_records_expire_after_a_day<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let (early, late) = (name("c", "early", 0), name("c", "late", 0));
    make(backend.store(), "urn:x:a|1", request(early.clone(), noon())).await.unwrap();
    make(backend.store(), "urn:x:a|2", request(late.clone(), after(1))).await.unwrap();
    assert_eq!(backend.store().forget_requests(after(23)).await.unwrap(), 0);
    make(backend.store(), "urn:x:a|3", request(early.clone(), after(24))).await.unwrap();
    assert_eq!(remembered(backend.store(), &early).await, [(0, after(24), Some(RecordId(3)))]);
    assert_eq!(backend.store().forget_requests(after(25)).await.unwrap(), 1);
    reopened(&mut backend).await;
    assert_eq!(remembered(backend.store(), &late).await, []);
    assert_eq!(remembered(backend.store(), &early).await.len(), 1);
    assert_eq!(backend.store().forget_requests(after(48)).await.unwrap(), 1);
    assert_eq!(backend.store().remembered_count(&early.client).await.unwrap(), 0);
}

pub async fn one_of_many_requests_with_a_key_is_executed<B: Backend>() {
    let (backend, _) = listening::<B>();
    let store = backend.store();
    let each =
        |number| async move { make(store, &format!("urn:x:a|{number}"), request(name("c", "k", 0), noon())).await };
    let outcomes = futures_join((0..20).map(each)).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(
        outcomes
            .iter()
            .flat_map(|outcome| outcome.as_ref().err())
            .all(|error| matches!(error, StoreError::AlreadyDone))
    );
    assert_eq!(all_individuals(store).await, [1]);
}

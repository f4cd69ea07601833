use jiff::{SignedDuration, Timestamp};

use crate::record::samples;
use crate::{Operation, StoreError, Written};
use daftar_domain::client::{Client, ClientId, ClientStatus};

use super::*;

fn client_of(committed: &Committed) -> Client {
    match &committed.written[0] {
        Written::Client(client) => Client::clone(client),
        other => panic!("not a client: {other:?}"),
    }
}

async fn put(store: &dyn Store, operation: Operation) -> Result<Client, StoreError> {
    commit(store, vec![operation]).await.map(|committed| client_of(&committed))
}

pub async fn a_client_reads_back_and_survives<B: Backend>() {
    let (mut backend, listener) = listening::<B>();
    let mut given = samples::full_client();
    given.created_at = "2026-01-01T00:00:00.0009Z".parse().unwrap();
    let other = Client { id: ClientId::parse("Another").unwrap(), ..samples::full_client() };
    let stored = put(backend.store(), Operation::CreateClient(given.clone())).await.unwrap();
    put(backend.store(), Operation::CreateClient(other.clone())).await.unwrap();
    given.created_at = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(stored, given);
    for _ in 0..2 {
        assert_eq!(backend.store().clients().await.unwrap(), [other.clone(), given.clone()]);
        reopened(&mut backend).await;
    }
    assert!(listener.0.lock().unwrap().is_empty());
}

pub async fn a_client_is_created_once<B: Backend>() {
    let (backend, _) = listening::<B>();
    let client = samples::full_client();
    put(backend.store(), Operation::CreateClient(client.clone())).await.unwrap();
    let again = Client { status: ClientStatus::Active, ..client.clone() };
    let error = put(backend.store(), Operation::CreateClient(again)).await.unwrap_err();
    assert!(matches!(error, StoreError::ClientExists(id) if id == client.id));
    assert_eq!(backend.store().clients().await.unwrap(), [client]);
}

pub async fn a_client_is_changed_only_as_last_seen<B: Backend>() {
    let (backend, _) = listening::<B>();
    let client = samples::full_client();
    let unknown = put(backend.store(), Operation::UpdateClient(client.clone(), client.updated_at)).await;
    assert!(matches!(unknown, Err(StoreError::ClientNotFound(id)) if id == client.id));
    put(backend.store(), Operation::CreateClient(client.clone())).await.unwrap();
    let later = client.updated_at + SignedDuration::from_secs(1);
    let changed = Client { status: ClientStatus::Active, updated_at: later, ..client.clone() };
    let stored = put(backend.store(), Operation::UpdateClient(changed.clone(), client.updated_at)).await.unwrap();
    assert_eq!(stored, changed);
    let stale = put(backend.store(), Operation::UpdateClient(client.clone(), client.updated_at)).await;
    assert!(matches!(stale, Err(StoreError::ClientChanged(id)) if id == client.id));
    assert_eq!(backend.store().clients().await.unwrap(), [changed]);
}

pub async fn two_changes_in_one_millisecond_have_distinct_timestamps<B: Backend>() {
    let (backend, _) = listening::<B>();
    let at: Timestamp = "2026-01-01T00:00:00.001Z".parse().unwrap();
    let client = Client { updated_at: at, ..samples::full_client() };
    put(backend.store(), Operation::CreateClient(client.clone())).await.unwrap();
    let stored = put(backend.store(), Operation::UpdateClient(client.clone(), at)).await.unwrap();
    assert_eq!(stored.updated_at, at + SignedDuration::from_millis(1));
    let stale = put(backend.store(), Operation::UpdateClient(client, at)).await;
    assert!(matches!(stale, Err(StoreError::ClientChanged(_))));
}

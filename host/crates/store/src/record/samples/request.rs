//! Idempotency records.

use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest, RequestName, StoredResponse};
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use super::parts::{client_id, meta};

/// An idempotency record with a response of every kind.
pub fn idempotent_request() -> IdempotentRequest {
    let key = IdempotencyKey::parse("8e03978e-40d5-43e8-bc93-6894a57f9324").unwrap();
    let kinds = RecordKind::ALL;
    let written =
        kinds.into_iter().zip(1..).map(|(kind, number)| Some((kind, RecordId(number * 100), VersionId(number))));
    let answer = |record| StoredResponse { status: 201, record };
    let responses = written.map(answer).chain([StoredResponse { status: 204, record: None }]).collect();
    let name = RequestName { client: client_id("farmers"), key, part: 3 };
    IdempotentRequest { name, digest: [0xa5; 32], at: meta().last_updated, responses }
}

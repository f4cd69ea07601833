//! Stored form of idempotency records, by the client's key.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::idempotency::{IdempotentRequest, RequestName, StoredResponse};
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use super::change::{StoredTouchedV1, Touched};
use super::decode_as;
use super::form::{FormOf, converted, stored};

/// An idempotency record, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRequestV1 {
    digest: [u8; 32],
    at_ms: i64,
    answers: Vec<StoredAnswerV1>,
}

stored! {
    struct StoredAnswerV1 {
        status: u16,
        record: Option<StoredTouchedV1>,
    }
    means StoredResponse { status, record }
}

converted! {
    u16 as u16: Clone::clone, Some;
    StoredTouchedV1 as (RecordKind, RecordId, VersionId):
        |place| Self::from(*place),
        |stored| match Touched::from(stored) {
            Touched::Record(kind, id, version) => Some((kind, id, version)),
            Touched::Client(_) => None,
        };
}

/// Encodes an idempotency record.
///
/// # Errors
/// [`StoreError::TooLarge`] if it exceeds the limit.
pub fn encode(request: &IdempotentRequest) -> Result<Vec<u8>, StoreError> {
    let (at_ms, answers) = (FormOf::of(&request.at), FormOf::of(&request.responses));
    super::encode(&StoredRequestV1 { digest: request.digest, at_ms, answers })
}

/// Decodes the idempotency record with that key.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode(name: RequestName, bytes: &[u8]) -> Result<IdempotentRequest, StoreError> {
    decode_as(bytes, |stored: StoredRequestV1| {
        let (at, responses) = (stored.at_ms.value("at_ms")?, stored.answers.value("answers")?);
        Ok(IdempotentRequest { name, digest: stored.digest, at, responses })
    })
}

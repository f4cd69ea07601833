//! Stored form of idempotency records, by the client's key.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::idempotency::{IdempotentRequest, RequestName, StoredResponse};

use super::change::{StoredTouchedV1, Touched};
use super::instant::{instant, milliseconds};
use super::{Unreadable, decode_as};

/// An idempotency record, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRequestV1 {
    digest: [u8; 32],
    at_ms: i64,
    answers: Vec<StoredAnswerV1>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredAnswerV1 {
    status: u16,
    record: Option<StoredTouchedV1>,
}

/// Encodes an idempotency record.
///
/// # Errors
/// [`StoreError::TooLarge`] if it exceeds the limit.
pub fn encode(request: &IdempotentRequest) -> Result<Vec<u8>, StoreError> {
    let answers = request.responses.iter().map(StoredAnswerV1::from).collect();
    super::encode(&StoredRequestV1 { digest: request.digest, at_ms: milliseconds(request.at), answers })
}

/// Decodes the idempotency record with that key.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode(name: RequestName, bytes: &[u8]) -> Result<IdempotentRequest, StoreError> {
    decode_as(bytes, |stored: StoredRequestV1| {
        let responses = stored.answers.into_iter().map(StoredResponse::try_from).collect::<Result<_, _>>()?;
        let at = instant(stored.at_ms).map_err(|_| Unreadable::field("at_ms"))?;
        Ok(IdempotentRequest { name, digest: stored.digest, at, responses })
    })
}

impl From<&StoredResponse> for StoredAnswerV1 {
    fn from(answer: &StoredResponse) -> Self {
        Self { status: answer.status, record: answer.record.map(StoredTouchedV1::from) }
    }
}

impl TryFrom<StoredAnswerV1> for StoredResponse {
    type Error = Unreadable;

    fn try_from(stored: StoredAnswerV1) -> Result<Self, Unreadable> {
        let record = stored.record.map(|touched| match Touched::from(touched) {
            Touched::Record(kind, id, version) => Ok((kind, id, version)),
            Touched::Client(_) => Err(Unreadable::field("record")),
        });
        Ok(Self { status: stored.status, record: record.transpose()? })
    }
}

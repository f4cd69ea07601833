//! How it is stored that a request was done: under the client's name for it.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::idempotency::{RememberedAnswer, RememberedRequest, RequestName};
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use super::instant::{instant, milliseconds};
use super::{StoredForm, Unreadable, decode_as};

/// A request that was done, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRequestV1 {
    digest: [u8; 32],
    at_ms: i64,
    answers: Vec<StoredAnswerV1>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredAnswerV1 {
    status: u16,
    record: Option<StoredWrittenV1>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StoredWrittenV1 {
    Individual { id: u64, version: u64 },
    Group { id: u64, version: u64 },
    Program { id: u64, version: u64 },
    ProgramMembership { id: u64, version: u64 },
    Consent { id: u64, version: u64 },
}

impl StoredForm for StoredRequestV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "request that was done";
}

/// The bytes of a request.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(request: &RememberedRequest) -> Result<Vec<u8>, StoreError> {
    let answers = request.answers.iter().map(StoredAnswerV1::from).collect();
    super::encode(&StoredRequestV1 { digest: request.digest, at_ms: milliseconds(request.at), answers })
}

/// The request of that name that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(name: RequestName, bytes: &[u8]) -> Result<RememberedRequest, StoreError> {
    decode_as(bytes, |stored: StoredRequestV1| {
        let answers = stored.answers.iter().map(RememberedAnswer::from).collect();
        let at = instant(stored.at_ms).map_err(|_| Unreadable::field("at_ms"))?;
        Ok(RememberedRequest { name, digest: stored.digest, at, answers })
    })
}

impl From<&RememberedAnswer> for StoredAnswerV1 {
    fn from(answer: &RememberedAnswer) -> Self {
        let record = answer.record.map(|(kind, RecordId(id), VersionId(version))| match kind {
            RecordKind::Individual => StoredWrittenV1::Individual { id, version },
            RecordKind::Group => StoredWrittenV1::Group { id, version },
            RecordKind::Program => StoredWrittenV1::Program { id, version },
            RecordKind::ProgramMembership => StoredWrittenV1::ProgramMembership { id, version },
            RecordKind::Consent => StoredWrittenV1::Consent { id, version },
        });
        Self { status: answer.status, record }
    }
}

impl From<&StoredAnswerV1> for RememberedAnswer {
    fn from(stored: &StoredAnswerV1) -> Self {
        let record = stored.record.as_ref().map(|written| {
            let (kind, id, version) = match written {
                StoredWrittenV1::Individual { id, version } => (RecordKind::Individual, id, version),
                StoredWrittenV1::Group { id, version } => (RecordKind::Group, id, version),
                StoredWrittenV1::Program { id, version } => (RecordKind::Program, id, version),
                StoredWrittenV1::ProgramMembership { id, version } => (RecordKind::ProgramMembership, id, version),
                StoredWrittenV1::Consent { id, version } => (RecordKind::Consent, id, version),
            };
            (kind, RecordId(*id), VersionId(*version))
        });
        Self { status: stored.status, record }
    }
}

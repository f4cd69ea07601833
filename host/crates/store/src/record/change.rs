//! How the order of writes is stored: for each write what it touched, not what it said.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::change::{Change, ChangedRecord};
use daftar_domain::client::ClientId;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use super::StoredForm;
use super::instant::milliseconds;

/// What one write touched, version 1: records of every kind, and clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredChangeV1 {
    at_ms: i64,
    touched: Vec<StoredTouchedV1>,
}

impl StoredForm for StoredChangeV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "change";
}

/// One thing that a write touched: a record with the version that it made, or a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StoredTouchedV1 {
    Individual { id: u64, version: u64 },
    Group { id: u64, version: u64 },
    Program { id: u64, version: u64 },
    ProgramMembership { id: u64, version: u64 },
    Consent { id: u64, version: u64 },
    Client { id: String },
}

/// The bytes of what a write touched.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode<'c>(
    at: Timestamp,
    changes: &[Change],
    clients: impl Iterator<Item = &'c ClientId>,
) -> Result<Vec<u8>, StoreError> {
    let records = changes.iter().map(|change| stored_touched(&change.record));
    let clients = clients.map(|client| StoredTouchedV1::Client { id: client.as_str().to_owned() });
    super::encode(&StoredChangeV1 { at_ms: milliseconds(at), touched: records.chain(clients).collect() })
}

fn stored_touched(record: &ChangedRecord) -> StoredTouchedV1 {
    let (kind, id, version) = record.place();
    let (id, version) = (id.0, version.0);
    match kind {
        RecordKind::Individual => StoredTouchedV1::Individual { id, version },
        RecordKind::Group => StoredTouchedV1::Group { id, version },
        RecordKind::Program => StoredTouchedV1::Program { id, version },
        RecordKind::ProgramMembership => StoredTouchedV1::ProgramMembership { id, version },
        RecordKind::Consent => StoredTouchedV1::Consent { id, version },
    }
}

/// One thing that a write touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    /// A record, with the version that the write made.
    Record(RecordKind, RecordId, VersionId),
    /// The client of that id.
    Client(String),
}

impl Touched {
    fn record(kind: RecordKind, id: u64, version: u64) -> Self {
        Self::Record(kind, RecordId(id), VersionId(version))
    }
}

impl From<StoredTouchedV1> for Touched {
    fn from(stored: StoredTouchedV1) -> Self {
        match stored {
            StoredTouchedV1::Individual { id, version } => Self::record(RecordKind::Individual, id, version),
            StoredTouchedV1::Group { id, version } => Self::record(RecordKind::Group, id, version),
            StoredTouchedV1::Program { id, version } => Self::record(RecordKind::Program, id, version),
            StoredTouchedV1::ProgramMembership { id, version } => {
                Self::record(RecordKind::ProgramMembership, id, version)
            }
            StoredTouchedV1::Consent { id, version } => Self::record(RecordKind::Consent, id, version),
            StoredTouchedV1::Client { id } => Self::Client(id),
        }
    }
}

/// The records that a write touched, in the order of its operations.
///
/// # Errors
/// [`StoreError::Corrupt`] when the bytes cannot be read.
pub fn touched(bytes: &[u8]) -> Result<Vec<(RecordKind, RecordId)>, StoreError> {
    let record = |touched| match touched {
        Touched::Record(kind, id, _) => Some((kind, id)),
        Touched::Client(_) => None,
    };
    Ok(decode(bytes)?.into_iter().filter_map(record).collect())
}

/// The records that a write touched, in the order of its operations, each with the version that was made.
///
/// # Errors
/// [`StoreError::Corrupt`] when the bytes cannot be read.
pub fn touched_versions(bytes: &[u8]) -> Result<Vec<(RecordKind, RecordId, VersionId)>, StoreError> {
    let record = |touched| match touched {
        Touched::Record(kind, id, version) => Some((kind, id, version)),
        Touched::Client(_) => None,
    };
    Ok(decode(bytes)?.into_iter().filter_map(record).collect())
}

/// What a write touched, in the order of its operations.
///
/// # Errors
/// [`StoreError::Corrupt`] when the bytes cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Vec<Touched>, StoreError> {
    let stored: StoredChangeV1 = super::decode(bytes)?;
    Ok(stored.touched.into_iter().map(Touched::from).collect())
}

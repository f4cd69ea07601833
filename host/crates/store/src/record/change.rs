//! How the order of writes is stored: for each write what it touched, not what it said.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::change::Change;
use daftar_domain::client::ClientId;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use super::instant::milliseconds;

/// What one write touched, version 1: records of every kind, and clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredChangeV1 {
    at_ms: i64,
    touched: Vec<StoredTouchedV1>,
}

/// One thing that a write touched: a record with the version that it made, or a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StoredTouchedV1 {
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
    let records = changes.iter().map(|change| StoredTouchedV1::from(change.record.place()));
    let clients = clients.map(|client| StoredTouchedV1::Client { id: client.as_str().to_owned() });
    super::encode(&StoredChangeV1 { at_ms: milliseconds(at), touched: records.chain(clients).collect() })
}

impl From<(RecordKind, RecordId, VersionId)> for StoredTouchedV1 {
    fn from((kind, RecordId(id), VersionId(version)): (RecordKind, RecordId, VersionId)) -> Self {
        match kind {
            RecordKind::Individual => Self::Individual { id, version },
            RecordKind::Group => Self::Group { id, version },
            RecordKind::Program => Self::Program { id, version },
            RecordKind::ProgramMembership => Self::ProgramMembership { id, version },
            RecordKind::Consent => Self::Consent { id, version },
        }
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

impl From<StoredTouchedV1> for Touched {
    fn from(stored: StoredTouchedV1) -> Self {
        let (kind, id, version) = match stored {
            StoredTouchedV1::Individual { id, version } => (RecordKind::Individual, id, version),
            StoredTouchedV1::Group { id, version } => (RecordKind::Group, id, version),
            StoredTouchedV1::Program { id, version } => (RecordKind::Program, id, version),
            StoredTouchedV1::ProgramMembership { id, version } => (RecordKind::ProgramMembership, id, version),
            StoredTouchedV1::Consent { id, version } => (RecordKind::Consent, id, version),
            StoredTouchedV1::Client { id } => return Self::Client(id),
        };
        Self::Record(kind, RecordId(id), VersionId(version))
    }
}

/// The records that a write touched, in the order of its operations.
///
/// # Errors
/// [`StoreError::Corrupt`] when the bytes cannot be read.
pub fn touched(bytes: &[u8]) -> Result<Vec<(RecordKind, RecordId)>, StoreError> {
    Ok(touched_versions(bytes)?.into_iter().map(|(kind, id, _)| (kind, id)).collect())
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

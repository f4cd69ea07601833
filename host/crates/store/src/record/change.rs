//! Stored form of the change log: for each write the records that it touched, without their content.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::change::Change;
use daftar_domain::client::ClientId;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use super::instant::milliseconds;

/// The records and clients touched by a write, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredChangeV1 {
    at_ms: i64,
    touched: Vec<StoredTouchedV1>,
}

/// An item touched by a write: a record with its new version, or a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StoredTouchedV1 {
    Individual { id: u64, version: u64 },
    Group { id: u64, version: u64 },
    Program { id: u64, version: u64 },
    ProgramMembership { id: u64, version: u64 },
    Consent { id: u64, version: u64 },
    Client { id: String },
}

/// Encodes the items touched by a write.
///
/// # Errors
/// [`StoreError::TooLarge`] if they exceed the limit.
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

/// An item touched by a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    /// A record, with its new version.
    Record(RecordKind, RecordId, VersionId),
    /// The client with that id.
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

/// Returns the records that a write touched, in the order of its operations.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn touched(bytes: &[u8]) -> Result<Vec<(RecordKind, RecordId)>, StoreError> {
    Ok(touched_versions(bytes)?.into_iter().map(|(kind, id, _)| (kind, id)).collect())
}

/// Returns the records that a write touched, in the order of its operations, each with its new version.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn touched_versions(bytes: &[u8]) -> Result<Vec<(RecordKind, RecordId, VersionId)>, StoreError> {
    let record = |touched| match touched {
        Touched::Record(kind, id, version) => Some((kind, id, version)),
        Touched::Client(_) => None,
    };
    Ok(decode(bytes)?.into_iter().filter_map(record).collect())
}

/// Decodes the items touched by a write, in the order of its operations.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Vec<Touched>, StoreError> {
    let stored: StoredChangeV1 = super::decode(bytes)?;
    Ok(stored.touched.into_iter().map(Touched::from).collect())
}

//! How the order of writes is stored: for each write what it touched, not what it said.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::change::{Change, ChangedRecord};
use crate::domain::client::ClientId;
use crate::store::StoreError;

use super::instant::milliseconds;
use super::{StoredForm, decode};

/// What one write touched, version 1.
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
    let records = changes.iter().map(|change| match &change.record {
        ChangedRecord::Individual(now) => StoredTouchedV1::Individual { id: now.id.0, version: now.meta.version.0 },
        ChangedRecord::Group(now) => StoredTouchedV1::Group { id: now.id.0, version: now.meta.version.0 },
    });
    let clients = clients.map(|client| StoredTouchedV1::Client { id: client.as_str().to_owned() });
    super::encode(&StoredChangeV1 { at_ms: milliseconds(at), touched: records.chain(clients).collect() })
}

/// Checks that the bytes say what a write touched.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn check(bytes: &[u8]) -> Result<(), StoreError> {
    decode::<StoredChangeV1>(bytes).map(|_| ())
}

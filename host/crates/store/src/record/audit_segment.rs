//! How the summary of a stretch of the audit log is stored: what of it can be passed over without being read.

use serde::{Deserialize, Serialize};

use crate::StoreError;

/// The summary of a stretch of the audit log, version 1, which is its stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditSegment {
    /// The number of its first value.
    pub first: u64,
    /// The number of its last value.
    pub last: u64,
    /// How many lines it has.
    pub lines: u64,
    /// The instant of its earliest line, in milliseconds since 1970.
    pub at_min_ms: i64,
    /// The instant of its latest line.
    pub at_max_ms: i64,
    /// The Bloom filter of whom, what and which requests its lines name (`store/segment.rs`).
    pub filter: Vec<u8>,
}

/// The bytes of a summary.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(segment: &AuditSegment) -> Result<Vec<u8>, StoreError> {
    super::encode(segment)
}

/// The summary that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<AuditSegment, StoreError> {
    super::decode(bytes)
}

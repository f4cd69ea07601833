//! Stored form of the summary of an audit log segment: searches skip segments by it.

use serde::{Deserialize, Serialize};

use crate::StoreError;

/// The summary of an audit log segment, version 1, which is its stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditSegment {
    /// The number of its first value.
    pub first: u64,
    /// The number of its last value.
    pub last: u64,
    /// Number of its entries.
    pub lines: u64,
    /// The timestamp of its earliest entry, in milliseconds since 1970.
    pub at_min_ms: i64,
    /// The timestamp of its latest entry.
    pub at_max_ms: i64,
    /// The Bloom filter of the actors, targets and requests in its entries (`store/segment.rs`).
    pub filter: Vec<u8>,
}

/// Encodes a summary.
///
/// # Errors
/// [`StoreError::TooLarge`] if the summary exceeds the limit.
pub fn encode(segment: &AuditSegment) -> Result<Vec<u8>, StoreError> {
    super::encode(segment)
}

/// Decodes a summary.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode(bytes: &[u8]) -> Result<AuditSegment, StoreError> {
    super::decode(bytes)
}

//! How the summary of a stretch of the audit log is stored: what of it can be passed over without being read.

use serde::{Deserialize, Serialize};

use crate::StoreError;

use super::{StoredForm, decode_as};

/// The summary of a stretch of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The Bloom filter of whom, what and which requests its lines name (`store/sled/segment.rs`).
    pub filter: Vec<u8>,
}

/// A summary, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAuditSegmentV1 {
    first: u64,
    last: u64,
    lines: u64,
    at_min_ms: i64,
    at_max_ms: i64,
    filter: Vec<u8>,
}

impl StoredForm for StoredAuditSegmentV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "summary of the audit log";
}

/// The bytes of a summary.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(segment: &AuditSegment) -> Result<Vec<u8>, StoreError> {
    let AuditSegment { first, last, lines, at_min_ms, at_max_ms, filter } = segment.clone();
    super::encode(&StoredAuditSegmentV1 { first, last, lines, at_min_ms, at_max_ms, filter })
}

/// The summary that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<AuditSegment, StoreError> {
    decode_as(bytes, |stored: StoredAuditSegmentV1| {
        let StoredAuditSegmentV1 { first, last, lines, at_min_ms, at_max_ms, filter } = stored;
        Ok(AuditSegment { first, last, lines, at_min_ms, at_max_ms, filter })
    })
}

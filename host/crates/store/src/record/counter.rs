//! How a counter is stored.

use serde::{Deserialize, Serialize};

use crate::StoreError;

use super::{StoredForm, decode_as};

/// A counter's value, version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCounterV1 {
    value: u64,
}

impl StoredForm for StoredCounterV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "counter";
}

/// The bytes of a counter.
///
/// # Errors
/// [`StoreError::TooLarge`], which cannot happen with a number.
pub fn encode(value: u64) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredCounterV1 { value })
}

/// The counter that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<u64, StoreError> {
    decode_as(bytes, |stored: StoredCounterV1| Ok(stored.value))
}

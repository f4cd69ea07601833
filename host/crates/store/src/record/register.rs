//! How a register's own id is stored.

use serde::{Deserialize, Serialize};

use crate::StoreError;

use super::{StoredForm, decode_as};

/// The id of a register, drawn when its store was made, version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRegisterV1 {
    id: [u8; 16],
}

impl StoredForm for StoredRegisterV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "id of the register";
}

/// The bytes of a register's id.
///
/// # Errors
/// [`StoreError::TooLarge`], which cannot happen with sixteen bytes.
pub fn encode(id: [u8; 16]) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredRegisterV1 { id })
}

/// The id that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<[u8; 16], StoreError> {
    decode_as(bytes, |stored: StoredRegisterV1| Ok(stored.id))
}

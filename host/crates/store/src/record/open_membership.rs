//! How it is stored which membership is open in a slot: the one of a beneficiary in a program.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::record::RecordId;

use super::StoredForm;

/// The key of the open membership, version 1; none, after the last one was closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredOpenMembershipV1 {
    membership: Option<u64>,
}

impl StoredForm for StoredOpenMembershipV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "open membership";
}

/// The bytes of what holds a slot.
///
/// # Errors
/// Never in practice: they are few.
pub fn encode(holder: Option<RecordId>) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredOpenMembershipV1 { membership: holder.map(|id| id.0) })
}

/// What holds the slot.
///
/// # Errors
/// [`StoreError::Corrupt`] when the bytes cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Option<RecordId>, StoreError> {
    Ok(super::decode::<StoredOpenMembershipV1>(bytes)?.membership.map(RecordId))
}

//! How the owners of an identifier are stored.

use serde::{Deserialize, Serialize};

use crate::{IdentifierOwner, StoreError};
use daftar_domain::record::RecordId;

use super::{StoredForm, decode_as};

/// The records that carry or carried an identifier, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredOwnersV1 {
    owners: Vec<StoredOwnerV1>,
}

impl StoredForm for StoredOwnersV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "identifier";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct StoredOwnerV1 {
    id: u64,
    is_open: bool,
}

/// The bytes of an identifier's owners.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(owners: &[IdentifierOwner]) -> Result<Vec<u8>, StoreError> {
    let owners = owners.iter().map(|owner| StoredOwnerV1 { id: owner.id.0, is_open: owner.is_open }).collect();
    super::encode(&StoredOwnersV1 { owners })
}

/// The owners that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Vec<IdentifierOwner>, StoreError> {
    decode_as(bytes, |stored: StoredOwnersV1| {
        let owners = stored.owners.into_iter();
        Ok(owners.map(|owner| IdentifierOwner { id: RecordId(owner.id), is_open: owner.is_open }).collect())
    })
}

//! The stored forms of a few members.

/// Stored form of a counter.
pub mod counter {
    use serde::{Deserialize, Serialize};

    use crate::StoreError;
    use crate::record::decode_as;

    /// A counter's value, version 1.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StoredCounterV1 {
        value: u64,
    }

    /// Encodes a counter.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], which cannot happen with a number.
    pub fn encode(value: u64) -> Result<Vec<u8>, StoreError> {
        crate::record::encode(&StoredCounterV1 { value })
    }

    /// Decodes a counter.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the bytes cannot be read.
    pub fn decode(bytes: &[u8]) -> Result<u64, StoreError> {
        decode_as(bytes, |stored: StoredCounterV1| Ok(stored.value))
    }
}

/// Stored form of the owners of an identifier.
pub mod identifier {
    use serde::{Deserialize, Serialize};

    use crate::record::decode_as;
    use crate::{IdentifierOwner, StoreError};
    use daftar_domain::record::RecordId;

    /// The records with a current or former identifier, version 1.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StoredOwnersV1 {
        owners: Vec<StoredOwnerV1>,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    struct StoredOwnerV1 {
        id: u64,
        is_open: bool,
    }

    /// Encodes an identifier's owners.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] if they exceed the limit.
    pub fn encode(owners: &[IdentifierOwner]) -> Result<Vec<u8>, StoreError> {
        let owners = owners.iter().map(|owner| StoredOwnerV1 { id: owner.id.0, is_open: owner.is_open }).collect();
        crate::record::encode(&StoredOwnersV1 { owners })
    }

    /// Decodes an identifier's owners.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the bytes cannot be read.
    pub fn decode(bytes: &[u8]) -> Result<Vec<IdentifierOwner>, StoreError> {
        decode_as(bytes, |stored: StoredOwnersV1| {
            let owners = stored.owners.into_iter();
            Ok(owners.map(|owner| IdentifierOwner { id: RecordId(owner.id), is_open: owner.is_open }).collect())
        })
    }
}

/// Stored form of the open membership in a slot: a beneficiary and a program.
pub mod open_membership {
    use serde::{Deserialize, Serialize};

    use crate::StoreError;
    use daftar_domain::record::RecordId;

    /// The key of the open membership, version 1; none, after the last one was closed.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StoredOpenMembershipV1 {
        membership: Option<u64>,
    }

    /// Encodes the membership in a slot.
    ///
    /// # Errors
    /// Never in practice: it is small.
    pub fn encode(holder: Option<RecordId>) -> Result<Vec<u8>, StoreError> {
        crate::record::encode(&StoredOpenMembershipV1 { membership: holder.map(|id| id.0) })
    }

    /// Decodes the membership in a slot.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the bytes cannot be read.
    pub fn decode(bytes: &[u8]) -> Result<Option<RecordId>, StoreError> {
        Ok(crate::record::decode::<StoredOpenMembershipV1>(bytes)?.membership.map(RecordId))
    }
}

/// Stored form of the register's id.
pub mod register {
    use serde::{Deserialize, Serialize};

    use crate::StoreError;
    use crate::record::decode_as;

    /// The id of a register, random for each new store, version 1.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StoredRegisterV1 {
        id: [u8; 16],
    }

    /// Encodes a register's id.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], which cannot happen with sixteen bytes.
    pub fn encode(id: [u8; 16]) -> Result<Vec<u8>, StoreError> {
        crate::record::encode(&StoredRegisterV1 { id })
    }

    /// Decodes a register's id.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the bytes cannot be read.
    pub fn decode(bytes: &[u8]) -> Result<[u8; 16], StoreError> {
        decode_as(bytes, |stored: StoredRegisterV1| Ok(stored.id))
    }
}

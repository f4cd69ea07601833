//! The stored forms of a few members.

/// How a counter is stored.
pub mod counter {
    use serde::{Deserialize, Serialize};

    use crate::StoreError;
    use crate::record::decode_as;

    /// A counter's value, version 1.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StoredCounterV1 {
        value: u64,
    }

    /// The bytes of a counter.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], which cannot happen with a number.
    pub fn encode(value: u64) -> Result<Vec<u8>, StoreError> {
        crate::record::encode(&StoredCounterV1 { value })
    }

    /// The counter that the bytes hold.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when they cannot be read.
    pub fn decode(bytes: &[u8]) -> Result<u64, StoreError> {
        decode_as(bytes, |stored: StoredCounterV1| Ok(stored.value))
    }
}

/// How the owners of an identifier are stored.
pub mod identifier {
    use serde::{Deserialize, Serialize};

    use crate::record::decode_as;
    use crate::{IdentifierOwner, StoreError};
    use daftar_domain::record::RecordId;

    /// The records that carry or carried an identifier, version 1.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StoredOwnersV1 {
        owners: Vec<StoredOwnerV1>,
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
        crate::record::encode(&StoredOwnersV1 { owners })
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
}

/// How it is stored which membership is open in a slot: the one of a beneficiary in a program.
pub mod open_membership {
    use serde::{Deserialize, Serialize};

    use crate::StoreError;
    use daftar_domain::record::RecordId;

    /// The key of the open membership, version 1; none, after the last one was closed.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StoredOpenMembershipV1 {
        membership: Option<u64>,
    }

    /// The bytes of what holds a slot.
    ///
    /// # Errors
    /// Never in practice: they are few.
    pub fn encode(holder: Option<RecordId>) -> Result<Vec<u8>, StoreError> {
        crate::record::encode(&StoredOpenMembershipV1 { membership: holder.map(|id| id.0) })
    }

    /// What holds the slot.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the bytes cannot be read.
    pub fn decode(bytes: &[u8]) -> Result<Option<RecordId>, StoreError> {
        Ok(crate::record::decode::<StoredOpenMembershipV1>(bytes)?.membership.map(RecordId))
    }
}

/// How a register's own id is stored.
pub mod register {
    use serde::{Deserialize, Serialize};

    use crate::StoreError;
    use crate::record::decode_as;

    /// The id of a register, drawn when its store was made, version 1.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StoredRegisterV1 {
        id: [u8; 16],
    }

    /// The bytes of a register's id.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], which cannot happen with sixteen bytes.
    pub fn encode(id: [u8; 16]) -> Result<Vec<u8>, StoreError> {
        crate::record::encode(&StoredRegisterV1 { id })
    }

    /// The id that the bytes hold.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when they cannot be read.
    pub fn decode(bytes: &[u8]) -> Result<[u8; 16], StoreError> {
        decode_as(bytes, |stored: StoredRegisterV1| Ok(stored.id))
    }
}

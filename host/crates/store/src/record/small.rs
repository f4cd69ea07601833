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

/// Stored form of the state of a copied register.
pub mod origin {
    use serde::{Deserialize, Serialize};

    use crate::StoreError;
    use crate::archive::{Held, Origin};
    use crate::change_log::RegisterId;
    use crate::record::decode_as;
    use daftar_domain::change::Sequence;

    /// The state of a copied register, version 1; none while it is being filled.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct StoredOriginV1 {
        held: Option<StoredHeldV1>,
        stage: StoredStageV1,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    enum StoredStageV1 {
        Unfinished,
        Finished,
        /// Caught up, and not compared since.
        NotCompared,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    struct StoredHeldV1 {
        register: [u8; 16],
        sequence: u64,
        code_table_parts: u64,
        audit: u64,
        audit_values: u64,
        removal: Option<u64>,
    }

    /// Encodes the state of a copied register.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], which cannot happen with a few numbers.
    pub fn encode(origin: &Origin) -> Result<Vec<u8>, StoreError> {
        let (held, stage) = match origin {
            Origin::Filling => (None, StoredStageV1::Unfinished),
            Origin::CatchingUp(held) => (Some(held), StoredStageV1::Unfinished),
            Origin::CaughtUp(held) => (Some(held), StoredStageV1::NotCompared),
            Origin::Filled(held) => (Some(held), StoredStageV1::Finished),
        };
        let held = held.map(|held| StoredHeldV1 {
            register: held.register.0,
            sequence: held.sequence.0,
            code_table_parts: held.code_table_parts,
            audit: held.audit,
            audit_values: held.audit_values,
            removal: held.removal,
        });
        crate::record::encode(&StoredOriginV1 { held, stage })
    }

    /// Decodes the state of a copied register.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the bytes cannot be read.
    pub fn decode(bytes: &[u8]) -> Result<Origin, StoreError> {
        decode_as(bytes, |stored: StoredOriginV1| {
            let held = stored.held.map(|held| Held {
                register: RegisterId(held.register),
                sequence: Sequence(held.sequence),
                code_table_parts: held.code_table_parts,
                audit: held.audit,
                audit_values: held.audit_values,
                removal: held.removal,
            });
            Ok(match (held, stored.stage) {
                (None, _) => Origin::Filling,
                (Some(held), StoredStageV1::Unfinished) => Origin::CatchingUp(held),
                (Some(held), StoredStageV1::NotCompared) => Origin::CaughtUp(held),
                (Some(held), StoredStageV1::Finished) => Origin::Filled(held),
            })
        })
    }
}

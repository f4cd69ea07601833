//! The stored forms: what the bytes of a record mean, for as long as anybody keeps them.
//!
//! **Invariant:** a stored value is one version byte and the postcard of that version's struct. A released struct is never
//! edited, not even its order of fields or cases: a change is a new struct with a new version byte, and the old one stays
//! readable. The golden files under `tests/data/stored` hold bytes of every version and what they say.
//!
//! **Invariant:** reading checks: a value that domain types would not accept, an unknown version byte and left-over bytes are
//! [`StoreError::Corrupt`], whose reason names fields and numbers, never what a person's record says.

pub mod address;
pub mod audit;
pub mod audit_segment;
pub mod change;
pub mod client;
pub mod code_table;
pub mod coded_field;
pub mod concept_group;
pub mod consent;
pub mod counter;
pub mod earlier_version;
pub mod extension;
#[cfg(test)]
mod golden;
pub mod group;
pub mod identifier;
pub mod identifier_system;
pub mod individual;
pub mod instant;
pub mod kept_concepts;
pub mod local_code;
pub mod open_membership;
pub mod parts;
pub mod photo;
pub mod program;
pub mod program_membership;
pub mod register;
pub mod remembered;
#[cfg(test)]
pub mod samples;
pub mod setting;

use serde::Serialize;
use serde::de::DeserializeOwned;

use std::sync::Arc;

use crate::domain::change::ChangedRecord;
use crate::domain::record::{RecordId, RecordKind};

use super::StoreError;

/// The longest stored value, in bytes. Large things do not belong into a value: the embedded database slows down.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;

/// One version of the stored form of something.
pub trait StoredForm: Serialize + DeserializeOwned {
    /// The version byte. A kind of value never has two forms with the same one.
    const VERSION: u8;
    /// What it is, for messages.
    const WHAT: &'static str;
}

/// Why a stored form is not a domain value. Names fields and numbers only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

impl Unreadable {
    /// The value of that field is not one that the registry accepts.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self(format!("its `{name}` is not valid"))
    }
}

/// The bytes of a stored form.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are more than [`VALUE_BYTES_MAX`].
pub fn encode<F: StoredForm>(form: &F) -> Result<Vec<u8>, StoreError> {
    let bytes = postcard::to_extend(form, vec![F::VERSION])
        .map_err(|error| StoreError::Corrupt { what: F::WHAT, reason: format!("it cannot be written: {error}") })?;
    if bytes.len() > VALUE_BYTES_MAX {
        return Err(StoreError::TooLarge { what: F::WHAT, bytes_max: VALUE_BYTES_MAX });
    }
    Ok(bytes)
}

/// The stored form that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when the version byte is another, the bytes do not fit the form, or bytes are left over.
pub fn decode<F: StoredForm>(bytes: &[u8]) -> Result<F, StoreError> {
    let corrupt = |reason: String| StoreError::Corrupt { what: F::WHAT, reason };
    let Some((version, body)) = bytes.split_first() else {
        return Err(corrupt("it is empty".to_owned()));
    };
    if *version != F::VERSION {
        return Err(corrupt(format!("its version is {version}, and this daftar reads {}", F::VERSION)));
    }
    let (form, rest) = postcard::take_from_bytes(body).map_err(|error| corrupt(error.to_string()))?;
    if rest.is_empty() { Ok(form) } else { Err(corrupt(format!("{} bytes are left over", rest.len()))) }
}

/// The version byte of stored bytes; none where there are no bytes.
#[must_use]
pub fn version_of(bytes: &[u8]) -> Option<u8> {
    bytes.first().copied()
}

/// Reads bytes as a form and the form as a domain value.
///
/// # Errors
/// [`StoreError::Corrupt`] when either cannot be done.
pub fn decode_as<F: StoredForm, D>(
    bytes: &[u8],
    convert: impl FnOnce(F) -> Result<D, Unreadable>,
) -> Result<D, StoreError> {
    convert(decode::<F>(bytes)?)
        .map_err(|unreadable| StoreError::Corrupt { what: F::WHAT, reason: unreadable.to_string() })
}

/// The bytes of a record of any kind.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode_any(record: &ChangedRecord) -> Result<Vec<u8>, StoreError> {
    match record {
        ChangedRecord::Individual(record) => individual::encode(record),
        ChangedRecord::Group(record) => group::encode(record),
        ChangedRecord::Program(record) => program::encode(record),
        ChangedRecord::ProgramMembership(record) => program_membership::encode(record),
        ChangedRecord::Consent(record) => consent::encode(record),
    }
}

/// The record of that kind and key that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode_any(kind: RecordKind, id: RecordId, bytes: &[u8]) -> Result<ChangedRecord, StoreError> {
    Ok(match kind {
        RecordKind::Individual => ChangedRecord::Individual(Arc::new(individual::decode(id, bytes)?)),
        RecordKind::Group => ChangedRecord::Group(Arc::new(group::decode(id, bytes)?)),
        RecordKind::Program => ChangedRecord::Program(Arc::new(program::decode(id, bytes)?)),
        RecordKind::ProgramMembership => {
            ChangedRecord::ProgramMembership(Arc::new(program_membership::decode(id, bytes)?))
        }
        RecordKind::Consent => ChangedRecord::Consent(Arc::new(consent::decode(id, bytes)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Sample(u32);

    impl StoredForm for Sample {
        const VERSION: u8 = 3;
        const WHAT: &'static str = "sample";
    }

    fn reason(bytes: &[u8]) -> String {
        decode::<Sample>(bytes).unwrap_err().to_string()
    }

    #[test]
    fn reads_only_its_own_version_whole() {
        assert_eq!(encode(&Sample(300)).unwrap(), [3, 0xac, 0x02]);
        assert_eq!(decode::<Sample>(&[3, 0xac, 0x02]).unwrap(), Sample(300));
        assert!(reason(&[4, 0xac, 0x02]).contains("its version is 4, and this daftar reads 3"));
        assert!(reason(&[]).contains("it is empty"));
        assert!(reason(&[3, 0xac]).starts_with("a stored sample cannot be read"));
        assert!(reason(&[3, 1, 0]).contains("1 bytes are left over"));
    }
}

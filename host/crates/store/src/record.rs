//! Stored forms: the permanent meaning of stored bytes.
//!
//! **Invariant:** a record is stored by the tags of the schema ([`fields`]): a new field is a new tag, without other
//! changes. Every other stored value is one version byte and the postcard encoding of that version's struct. A released
//! struct is never edited, not even its order of fields or cases: a change is a new struct with a new version byte, and
//! the old one stays readable ([`StoredForm::upgrade`]). The golden files under `tests/data/stored` contain the bytes
//! of every version and their content. Every form begins at version 1 with the first release.
//!
//! **Invariant:** reading validates: a value that domain types reject, an unknown version byte and remaining bytes are
//! [`StoreError::Corrupt`], whose reason names fields and numbers, never personal data.

pub mod audit;
pub mod change;
pub mod client;
pub mod code_table;
pub mod fields;
mod form;
#[cfg(test)]
mod golden;
pub mod instant;
pub mod json;
pub mod photo;
pub mod remembered;
mod rule_draft;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
pub mod setting;
mod small;
mod wire;

use serde::Serialize;
use serde::de::DeserializeOwned;

use std::sync::Arc;

use daftar_domain::change::ChangedRecord;
use daftar_domain::record::{RecordId, RecordKind};

pub use self::small::{counter, identifier, open_membership, origin, register};
use super::StoreError;

/// Maximum length of a stored value, in bytes. Large values slow down the embedded database.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;

/// A version of the stored form of a type.
pub trait StoredForm: Serialize + DeserializeOwned {
    /// The version byte. Two forms of a type never have the same one.
    const VERSION: u8;
    /// Name of the type, for messages.
    const WHAT: &'static str;

    /// Converts bytes of an older version. A form with older versions reads each of them here, by [`decode`] of its own
    /// struct; [`None`] if the bytes are of no older version. No form has an older version yet.
    fn upgrade(bytes: &[u8]) -> Option<Result<Self, StoreError>> {
        let _ = bytes;
        None
    }
}

/// The forms: the version byte and the name of each.
macro_rules! forms {
    ($($form:ty: $version:literal, $what:literal;)+) => {$(
        impl StoredForm for $form {
            const VERSION: u8 = $version;
            const WHAT: &'static str = $what;
        }
    )+};
}

forms! {
    audit::StoredAuditV1: 1, "part of the audit log";
    audit::AuditSegment: 1, "summary of the audit log";
    change::StoredChangeV1: 1, "change";
    client::StoredClientV1: 1, "client";
    code_table::StoredCodeTableV1: 1, "part of the code table";
    counter::StoredCounterV1: 1, "counter";
    identifier::StoredOwnersV1: 1, "identifier";
    open_membership::StoredOpenMembershipV1: 1, "open membership";
    origin::StoredOriginV1: 1, "state of a copied register";
    photo::StoredPhotoPartV1: 1, "part of a photo";
    register::StoredRegisterV1: 1, "id of the register";
    remembered::StoredRequestV1: 1, "request that was done";
    setting::StoredConceptGroupV1: 1, "concept group";
    setting::StoredEarlierVersionV1: 1, "part of an earlier version";
    setting::StoredIdentifierSystemV1: 1, "identifier system";
    rule_draft::StoredRuleDraftV1: 1, "rule draft";
    setting::StoredRetainedConceptsV1: 1, "part of the retained codes";
    setting::StoredLocalCodeV1: 1, "local code";
}

/// Size of most stored forms: it is allocated at once.
const ENCODED_BYTES: usize = 64;

/// Reason why a stored form is no domain value. Names fields and numbers only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

impl Unreadable {
    /// The value of that field is invalid.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self(format!("its `{name}` is not valid"))
    }
}

/// Encodes a stored form.
///
/// # Errors
/// [`StoreError::TooLarge`] if they are more than [`VALUE_BYTES_MAX`].
pub fn encode<F: StoredForm>(form: &F) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(ENCODED_BYTES);
    bytes.push(F::VERSION);
    let bytes = postcard::to_extend(form, bytes)
        .map_err(|error| StoreError::Corrupt { what: F::WHAT, reason: format!("it cannot be written: {error}") })?;
    if bytes.len() > VALUE_BYTES_MAX {
        return Err(StoreError::TooLarge { what: F::WHAT, bytes_max: VALUE_BYTES_MAX });
    }
    Ok(bytes)
}

/// Decodes a stored form, of its version or an older one that it [upgrades](StoredForm::upgrade).
///
/// # Errors
/// [`StoreError::Corrupt`] if the version byte is newer or unknown, the bytes do not match the form, or bytes remain.
pub fn decode<F: StoredForm>(bytes: &[u8]) -> Result<F, StoreError> {
    let corrupt = |reason: String| StoreError::Corrupt { what: F::WHAT, reason };
    let Some((version, body)) = bytes.split_first() else {
        return Err(corrupt("it is empty".to_owned()));
    };
    if *version != F::VERSION {
        let unknown = || corrupt(format!("its version is {version}, and this daftar reads {}", F::VERSION));
        return F::upgrade(bytes).unwrap_or_else(|| Err(unknown()));
    }
    let (form, rest) = postcard::take_from_bytes(body).map_err(|error| corrupt(error.to_string()))?;
    if rest.is_empty() { Ok(form) } else { Err(corrupt(format!("{} bytes are left over", rest.len()))) }
}

/// Decodes bytes and converts the form to a domain value.
///
/// # Errors
/// [`StoreError::Corrupt`] if either fails.
pub fn decode_as<F: StoredForm, D>(
    bytes: &[u8],
    convert: impl FnOnce(F) -> Result<D, Unreadable>,
) -> Result<D, StoreError> {
    convert(decode::<F>(bytes)?)
        .map_err(|unreadable| StoreError::Corrupt { what: F::WHAT, reason: unreadable.to_string() })
}

/// Encodes a record of any kind.
///
/// # Errors
/// [`StoreError::TooLarge`] if the encoded record exceeds the limit.
pub fn encode_any(record: &ChangedRecord) -> Result<Vec<u8>, StoreError> {
    match record {
        ChangedRecord::Individual(record) => fields::encode(record),
        ChangedRecord::Group(record) => fields::encode(record),
        ChangedRecord::Program(record) => fields::encode(record),
        ChangedRecord::ProgramMembership(record) => fields::encode(record),
        ChangedRecord::Consent(record) => fields::encode(record),
    }
}

/// Decodes a record of that kind and key.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode_any(kind: RecordKind, id: RecordId, bytes: &[u8]) -> Result<ChangedRecord, StoreError> {
    decode_selected(kind, id, bytes, None)
}

/// Decodes the selected fields of a record of that kind and key: see [`fields::decode_selected`].
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode_selected(
    kind: RecordKind,
    id: RecordId,
    bytes: &[u8],
    selection: Option<&fields::Selection>,
) -> Result<ChangedRecord, StoreError> {
    use fields::decode_selected as decode;
    Ok(match kind {
        RecordKind::Individual => ChangedRecord::Individual(Arc::new(decode(id, bytes, selection)?)),
        RecordKind::Group => ChangedRecord::Group(Arc::new(decode(id, bytes, selection)?)),
        RecordKind::Program => ChangedRecord::Program(Arc::new(decode(id, bytes, selection)?)),
        RecordKind::ProgramMembership => ChangedRecord::ProgramMembership(Arc::new(decode(id, bytes, selection)?)),
        RecordKind::Consent => ChangedRecord::Consent(Arc::new(decode(id, bytes, selection)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A form with a version 2, as there may be after a release.
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Sample {
        count: u32,
        name: String,
    }

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct SampleV2 {
        count: u32,
    }

    impl StoredForm for Sample {
        const VERSION: u8 = 3;
        const WHAT: &'static str = "sample";

        fn upgrade(bytes: &[u8]) -> Option<Result<Self, StoreError>> {
            let upgraded = |old: SampleV2| Self { count: old.count, name: String::new() };
            (bytes.first() == Some(&SampleV2::VERSION)).then(|| Ok(upgraded(decode(bytes)?)))
        }
    }

    impl StoredForm for SampleV2 {
        const VERSION: u8 = 2;
        const WHAT: &'static str = "sample";
    }

    fn sample(name: &str) -> Sample {
        Sample { count: 300, name: name.to_owned() }
    }

    fn reason(bytes: &[u8]) -> String {
        decode::<Sample>(bytes).unwrap_err().to_string()
    }

    #[test]
    fn reads_its_own_version_whole() {
        assert_eq!(encode(&sample("a")).unwrap(), [3, 0xac, 0x02, 1, b'a']);
        assert_eq!(decode::<Sample>(&[3, 0xac, 0x02, 1, b'a']).unwrap(), sample("a"));
        assert!(reason(&[]).contains("it is empty"));
        assert!(reason(&[3, 0xac]).starts_with("a stored sample cannot be read"));
        assert!(reason(&[3, 1, 0, 0]).contains("1 bytes are left over"));
    }

    #[test]
    fn upgrades_an_older_version_and_refuses_newer_and_unknown_ones() {
        let old = encode(&SampleV2 { count: 300 }).unwrap();
        assert_eq!(decode::<Sample>(&old).unwrap(), sample(""));
        assert_eq!(
            encode(&decode::<Sample>(&old).unwrap()).unwrap(),
            [3, 0xac, 0x02, 0],
            "what is written is version 3"
        );
        assert!(reason(&[2, 0xac, 0x02, 1]).contains("1 bytes are left over"), "an older version is checked as well");
        for version in [0, 1, 4, 255] {
            let expected = format!("its version is {version}, and this daftar reads 3");
            assert!(reason(&[version, 0xac, 0x02, 0]).contains(&expected));
        }
        // A form without older versions.
        assert!(decode::<SampleV2>(&[1, 0xac, 0x02]).unwrap_err().to_string().contains("its version is 1"));
    }
}

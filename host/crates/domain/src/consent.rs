//! A person's or household's consent that an organization sees what the register says of it.

use std::collections::BTreeSet;
use std::fmt;

use jiff::civil::Date;
use uuid::Uuid;

use super::field::{FieldName, fields_of};
use super::identifier::{Identifier, IdentifierKey};
use super::organization::{LegalBasis, Organization};
use super::record::{Record, RecordId};
use super::scope::Resource;
use super::subject::SubjectReference;

/// A stored consent.
pub type Consent = Record<ConsentDetails>;

/// The longest purpose of a consent, in bytes.
pub const PURPOSE_BYTES_MAX: usize = 1_000;

/// What a consent can open: the resources that are about somebody.
pub const CONSENT_RESOURCES: [Resource; 3] = [Resource::Individual, Resource::Group, Resource::ProgramMembership];

/// The fields that a consent can name, in alphabetical order: those of all [`CONSENT_RESOURCES`]; `extension.<key>` comes on top.
#[must_use]
pub fn consent_fields() -> Vec<&'static str> {
    let fields = CONSENT_RESOURCES.iter().flat_map(|resource| fields_of(*resource).iter().copied());
    fields.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The public name of a consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsentId(Uuid);

/// Why a text is not a consent's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a consent id is a UUID such as `123e4567-e89b-42d3-a456-426614174000`")]
pub struct ConsentIdError;

impl ConsentId {
    /// Reads an id: 32 hexadecimal digits, with or without the usual four hyphens.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(text: &str) -> Result<Self, ConsentIdError> {
        let is_shaped = matches!(text.len(), 32 | 36);
        let parsed = if is_shaped { Uuid::try_parse(text).ok() } else { None };
        parsed.map(Self).ok_or(ConsentIdError)
    }

    /// The address under which the store finds the consent.
    #[must_use]
    pub fn key(self) -> IdentifierKey {
        IdentifierKey::of_uuid(self.0)
    }

    /// The bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// The id of those bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for ConsentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(formatter)
    }
}

/// What the register says of a consent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentDetails<I = RecordId> {
    /// Its public name.
    pub id: ConsentId,
    /// Who consents.
    pub subject: SubjectReference<I>,
    /// To whom.
    pub grantee: Organization,
    /// What for.
    pub purpose: Option<String>,
    /// The first day on which it holds.
    pub effective_date: Date,
    /// The last day on which it holds; no last day, where absent.
    pub expiry_date: Option<Date>,
    /// What it opens; at least one of [`CONSENT_RESOURCES`], each once.
    pub resources: Vec<Resource>,
    /// Which fields of these; all of them, where absent.
    pub fields: Option<Vec<String>>,
    /// On what ground.
    pub legal_basis: LegalBasis,
    /// Whether it was withdrawn. Never undone.
    pub is_withdrawn: bool,
}

/// Where a consent stands on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentStatus {
    /// It was given and not taken back; whether it has begun its dates say.
    Given,
    /// It was taken back.
    Withdrawn,
    /// Its last day is past.
    Expired,
}

impl ConsentStatus {
    /// The name in bodies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Withdrawn => "withdrawn",
            Self::Expired => "expired",
        }
    }
}

impl<I> ConsentDetails<I> {
    /// Where it stands on that day. What was withdrawn stays so, past its last day too.
    #[must_use]
    pub fn status(&self, day: Date) -> ConsentStatus {
        if self.is_withdrawn {
            ConsentStatus::Withdrawn
        } else if self.expiry_date.is_some_and(|last| last < day) {
            ConsentStatus::Expired
        } else {
            ConsentStatus::Given
        }
    }

    /// The identifier under which the store finds it.
    #[must_use]
    pub fn identifier(&self) -> Identifier {
        Identifier { key: self.id.key(), period: None }
    }
}

/// Whether a consent can name that field.
#[must_use]
pub fn is_consent_field(name: &str) -> bool {
    CONSENT_RESOURCES.iter().any(|resource| FieldName::parse(*resource, name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "123e4567-e89b-42d3-a456-426614174000";

    #[test]
    fn an_id_is_a_uuid_and_its_address_an_identifier() {
        let id = ConsentId::parse(ID).unwrap();
        assert_eq!(id, ConsentId::parse(&ID.replace('-', "").to_uppercase()).unwrap());
        assert_eq!(id.to_string(), ID);
        assert_eq!(id.key().reveal(), format!("urn:uuid|{ID}"));
        assert_eq!(ConsentId::from_bytes(id.to_bytes()), id);
        for wrong in ["", "1", &ID[1..], &format!("{{{ID}}}"), &format!("urn:uuid:{ID}"), &ID.replace('1', "g")] {
            assert!(ConsentId::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fields_are_those_of_what_is_about_somebody_and_extensions_by_key() {
        assert_eq!(consent_fields().len(), 36);
        for right in ["birth_date", "beneficiary", "member", "extension", "extension.farmer"] {
            assert!(is_consent_field(right), "{right}");
        }
        for wrong in
            ["", "grantee", "target_type", "Birth_date", "extension.", "extension.a.b", "extension.A", "birthdate"]
        {
            assert!(!is_consent_field(wrong), "{wrong}");
        }
    }
}

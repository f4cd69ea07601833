//! Consent of a person or household that an organization may read their register data, and the filter of the consents
//! that grant access to a client.

use std::collections::BTreeSet;

use jiff::civil::Date;

use super::code::CodedValue;
use super::field::{FieldName, FieldSet, fields_of};
use super::hidden::hidden_character;
use super::identifier::Identifier;
use super::individual::LIST_ITEMS_MAX;
use super::organization::{LegalBasis, Organization};
use super::public_id::{NamedByUuid, PublicId};
use super::record::{Fields, Record, RecordId, RecordKind};
use super::schema::{Field, Kind};
use super::scope::Resource;
use super::subject::{Subject, SubjectReference};
use super::value::{Key, Link, List, Text, WordOf};

/// A stored consent.
pub type Consent = Record<ConsentDetails>;

/// Maximum length of the purpose of a consent, in bytes.
pub const PURPOSE_BYTES_MAX: usize = 1_000;

/// Resources to which a consent can grant access: those with personal data.
pub const CONSENT_RESOURCES: [Resource; 3] = [Resource::Individual, Resource::Group, Resource::ProgramMembership];

/// Returns the fields that a consent can name, sorted: those of all [`CONSENT_RESOURCES`], without `extension.<key>`.
#[must_use]
pub fn consent_fields() -> Vec<&'static str> {
    let fields = CONSENT_RESOURCES.iter().flat_map(|resource| fields_of(*resource).iter().copied());
    fields.collect::<BTreeSet<_>>().into_iter().collect()
}

record_type!(ConsentRecord is Consent);

impl NamedByUuid for ConsentRecord {
    const KIND: &'static str = RecordKind::Consent.name();
}

/// The public id of a consent.
pub type ConsentId = PublicId<ConsentRecord>;

/// The details of a consent.
pub type ConsentDetails<I = RecordId> = Fields<ConsentRecord, CodedValue, I>;

/// Public id. Required.
pub const CONSENT_ID: Key<ConsentId> = Key::new(1);
/// The consenting person or group. Required.
pub const SUBJECT: Key<Link> = Key::new(2);
/// The grantee, an [`Organization`]. Required.
pub const GRANTEE: Key<Text> = Key::new(3);
/// Purpose.
pub const PURPOSE: Key<Text> = Key::new(4);
/// First day of validity. Required.
pub const EFFECTIVE_DATE: Key<Date> = Key::new(5);
/// Last day of validity; unlimited if absent.
pub const EXPIRY_DATE: Key<Date> = Key::new(6);
/// The resources covered; at least one of [`CONSENT_RESOURCES`], each once.
pub const SCOPES: Key<List<WordOf<Resource>>> = Key::new(7);
/// The fields covered; all fields if absent.
pub const FIELD_NAMES: Key<List<Text>> = Key::new(8);
/// Legal basis. Required.
pub const LEGAL_BASIS: Key<WordOf<LegalBasis>> = Key::new(9);
/// True if the consent was withdrawn. Irreversible.
pub const WITHDRAWN: Key<bool> = Key::new(10);

/// The words of [`SCOPES`] are those of [`CONSENT_RESOURCES`].
/// The fields of a consent.
pub const FIELDS: &[Field] = &[
    Field::new(CONSENT_ID, "consent_id", Kind::ConsentId),
    Field::new(SUBJECT, "subject", Kind::Reference(&[RecordKind::Individual, RecordKind::Group]))
        .required("a reference is required: `Individual/<system>|<value>` or `Group/<system>|<value>`")
        .filter(),
    Field::new(GRANTEE, "grantee", Kind::Organization)
        .required("the organization that the consent is given to is required")
        .about("The organization that the consent is given to.")
        .filter(),
    Field::new(PURPOSE, "purpose", Kind::Text(PURPOSE_BYTES_MAX)),
    Field::new(EFFECTIVE_DATE, "effective_date", Kind::Date)
        .required("the first day on which the consent is valid is required")
        .about("The first day on which it is valid."),
    Field::new(EXPIRY_DATE, "expiry_date", Kind::Date).about("The last day on which it is valid; unlimited if absent."),
    Field::new(
        SCOPES,
        "scopes",
        Kind::List { of: &Kind::Word(&["individual", "group", "program_membership"]), items_max: LIST_ITEMS_MAX },
    ),
    Field::new(FIELD_NAMES, "fields", Kind::List { of: &Kind::FieldName, items_max: LIST_ITEMS_MAX })
        .about("The fields that it covers; all if absent."),
    Field::new(LEGAL_BASIS, "legal_basis", Kind::Word(&LegalBasis::NAMES)),
    Field::new(WITHDRAWN, "withdrawn", Kind::Boolean).internal(),
];

named_enum! {
    /// The status of a consent on a day.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ConsentStatus {
        /// Given and not withdrawn; its dates decide whether it has started.
        Given = "given",
        /// Withdrawn.
        Withdrawn = "withdrawn",
        /// Its last day has passed.
        Expired = "expired",
    }
}

impl<I> ConsentDetails<I> {
    /// Returns the status on a day. A withdrawn consent remains withdrawn after its last day.
    #[must_use]
    pub fn status(&self, day: Date) -> ConsentStatus {
        if self.is_withdrawn() {
            ConsentStatus::Withdrawn
        } else if self.get(EXPIRY_DATE).is_some_and(|last| last < day) {
            ConsentStatus::Expired
        } else {
            ConsentStatus::Given
        }
    }

    /// Returns the public id.
    #[must_use]
    pub fn id(&self) -> ConsentId {
        self.get(CONSENT_ID).unwrap_or(ConsentId::from_bytes([0; 16]))
    }

    /// Returns the name of the grantee.
    #[must_use]
    pub fn grantee(&self) -> &str {
        self.get(GRANTEE).unwrap_or_default()
    }

    /// Returns the first day of validity.
    #[must_use]
    pub fn effective_date(&self) -> Date {
        self.get(EFFECTIVE_DATE).unwrap_or(Date::MAX)
    }

    /// True if the consent was withdrawn.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.get(WITHDRAWN).unwrap_or(false)
    }

    /// Returns the resources covered.
    pub fn resources(&self) -> impl Iterator<Item = Resource> {
        self.items(SCOPES)
    }

    /// Returns the identifier under which the store indexes the consent.
    #[must_use]
    pub fn identifier(&self) -> Identifier {
        Identifier { key: self.id().key(), period: None }
    }
}

impl ConsentDetails {
    /// Returns the consenting person or group.
    #[must_use]
    pub fn subject(&self) -> SubjectReference {
        // Validation on reading ensures that a stored consent has one.
        let missing = SubjectReference { kind: Subject::Individual, id: RecordId(0) };
        self.get(SUBJECT).and_then(|reference| SubjectReference::of(*reference)).unwrap_or(missing)
    }
}

/// True if a consent can name this field.
#[must_use]
pub fn is_consent_field(name: &str) -> bool {
    CONSENT_RESOURCES.iter().any(|resource| FieldName::parse(*resource, name).is_ok())
}

/// Error: a text is not a valid purpose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a purpose has 1 to {PURPOSE_BYTES_MAX} bytes and no control characters")]
pub struct PurposeError;

/// The purpose for which a client reads the register. Purposes are compared case-sensitively, as exact strings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Purpose(String);

texts!(Purpose);

impl Purpose {
    /// Parses a purpose, without surrounding white space.
    ///
    /// # Errors
    /// The purpose is empty, too long or contains invisible characters.
    pub fn parse(text: &str) -> Result<Self, PurposeError> {
        let trimmed = text.trim();
        let is_valid = !trimmed.is_empty() && trimmed.len() <= PURPOSE_BYTES_MAX && hidden_character(trimmed).is_none();
        if is_valid { Ok(Self(trimmed.to_owned())) } else { Err(PurposeError) }
    }
}

/// Selects the consents that count for a client: those given to its organization and, if the client is registered for a
/// purpose, for exactly that purpose.
///
/// **Invariant:** a filter without an organization matches no consent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConsentFilter {
    /// The required grantee.
    pub organization: Option<Organization>,
    /// The required purpose; consents for any purpose or none match, if absent.
    pub purpose: Option<Purpose>,
}

/// The access that consents grant to one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The accessible fields.
    pub fields: FieldSet,
    /// The consents, in the order in which they were recorded.
    pub consents: Vec<ConsentId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_personal_data_and_extensions_by_key() {
        assert!(consent_fields().len() >= 36);
        for right in ["birth_date", "beneficiary", "member", "extension", "extension.farmer"] {
            assert!(is_consent_field(right), "{right}");
        }
        for wrong in
            ["", "grantee", "target_type", "Birth_date", "extension.", "extension.a.b", "extension.A", "birthdate"]
        {
            assert!(!is_consent_field(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_purpose_is_short_plain_text() {
        let longest = "x".repeat(PURPOSE_BYTES_MAX);
        assert_eq!(Purpose::parse(" school meals ").unwrap().as_str(), "school meals");
        assert_eq!(Purpose::parse(&longest).unwrap().to_string(), longest);
        for wrong in ["", "  ", "a\nb", "a\0", "a\u{202e}b", &format!("{longest}x")] {
            assert_eq!(Purpose::parse(wrong), Err(PurposeError), "{wrong:?}");
        }
    }
}

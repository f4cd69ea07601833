//! Public ids of objects that are named by a UUID.

use std::fmt;
use std::marker::PhantomData;

use uuid::Uuid;

use super::identifier::IdentifierKey;

/// A kind of object that is named by a UUID.
pub trait NamedByUuid {
    /// The name of the kind in references.
    const KIND: &'static str;
}

/// The public id of an object of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicId<T>(Uuid, PhantomData<T>);

/// Error: a text is not the id of an object of that kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the id of a `{0}` is a UUID such as `123e4567-e89b-42d3-a456-426614174000`")]
pub struct PublicIdError(&'static str);

impl<T: NamedByUuid> PublicId<T> {
    /// Parses an id: 32 hexadecimal digits, with or without the usual four hyphens.
    ///
    /// # Errors
    /// The text has another format.
    pub fn parse(text: &str) -> Result<Self, PublicIdError> {
        let is_shaped = matches!(text.len(), 32 | 36);
        let parsed = if is_shaped { Uuid::try_parse(text).ok() } else { None };
        parsed.map(|id| Self(id, PhantomData)).ok_or(PublicIdError(T::KIND))
    }

    /// Returns the reference in the audit log.
    #[must_use]
    pub fn reference(self) -> String {
        format!("{}/{self}", T::KIND)
    }
}

impl<T> PublicId<T> {
    /// Returns the key under which the store indexes a record of this id.
    #[must_use]
    pub fn key(self) -> IdentifierKey {
        IdentifierKey::of_uuid(self.0)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// Creates the id from its bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes), PhantomData)
    }
}

impl<T> fmt::Display for PublicId<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use crate::consent::ConsentId;
    use crate::rule_draft::RuleDraftId;

    const ID: &str = "123e4567-e89b-42d3-a456-426614174000";

    #[test]
    fn an_id_is_a_uuid_and_its_key_an_identifier() {
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
    fn references_and_errors_name_the_kind() {
        assert_eq!(ConsentId::parse(ID).unwrap().reference(), format!("Consent/{ID}"));
        assert_eq!(RuleDraftId::parse(ID).unwrap().reference(), format!("RuleDraft/{ID}"));
        let error = RuleDraftId::parse("1").unwrap_err();
        assert_eq!(error.to_string(), format!("the id of a `RuleDraft` is a UUID such as `{ID}`"));
    }
}

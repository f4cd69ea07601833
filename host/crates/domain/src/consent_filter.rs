//! Filter of the consents that grant access to a client whose legal basis is consent.

use super::consent::{ConsentId, PURPOSE_BYTES_MAX};
use super::field::FieldSet;
use super::hidden::hidden_character;
use super::organization::Organization;

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
    fn a_purpose_is_short_plain_text() {
        let longest = "x".repeat(PURPOSE_BYTES_MAX);
        assert_eq!(Purpose::parse(" school meals ").unwrap().as_str(), "school meals");
        assert_eq!(Purpose::parse(&longest).unwrap().to_string(), longest);
        for wrong in ["", "  ", "a\nb", "a\0", "a\u{202e}b", &format!("{longest}x")] {
            assert_eq!(Purpose::parse(wrong), Err(PurposeError), "{wrong:?}");
        }
    }
}

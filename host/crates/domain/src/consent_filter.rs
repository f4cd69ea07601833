//! Which consents open the register to a client whose legal basis is consent.

use super::consent::{ConsentId, PURPOSE_BYTES_MAX};
use super::field::FieldSet;
use super::hidden::hidden_character;
use super::organization::Organization;

/// Why a text is not a purpose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a purpose has 1 to {PURPOSE_BYTES_MAX} bytes and no control characters")]
pub struct PurposeError;

/// What for a client looks at the register. Two purposes are the same when they are written the same, letter for letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Purpose(String);

texts!(Purpose);

impl Purpose {
    /// Reads a purpose; white space around it does not count.
    ///
    /// # Errors
    /// When it is empty, too long or holds characters that nobody sees.
    pub fn parse(text: &str) -> Result<Self, PurposeError> {
        let trimmed = text.trim();
        let is_valid = !trimmed.is_empty() && trimmed.len() <= PURPOSE_BYTES_MAX && hidden_character(trimmed).is_none();
        if is_valid { Ok(Self(trimmed.to_owned())) } else { Err(PurposeError) }
    }
}

/// Which consents count for a client: those given to its organization and, where the client is registered for a purpose, for
/// exactly that purpose.
///
/// **Invariant:** a filter without an organization lets nothing through.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConsentFilter {
    /// To whom they have to be given.
    pub organization: Option<Organization>,
    /// What for; for whatever purpose or none, where absent.
    pub purpose: Option<Purpose>,
}

/// What opens one record to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Which of its fields.
    pub fields: FieldSet,
    /// By which consents, in the order in which they were written down.
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

//! Organizations of clients and grantees of consents, and legal bases.

use serde::{Deserialize, Serialize};

/// Maximum length of the name of an organization, in characters.
pub const ORGANIZATION_CHARACTERS_MAX: usize = 200;

/// Error: a text is not a valid name of an organization.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an organization's name has 1 to {ORGANIZATION_CHARACTERS_MAX} characters and no control characters")]
pub struct OrganizationError;

/// The name of an organization. Names are compared case-sensitively, as exact strings. The serialized form is for
/// checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Organization(String);

texts!(Organization);
read_by_parse!(Organization or OrganizationError);

impl Organization {
    /// Parses a name, without surrounding white space.
    ///
    /// # Errors
    /// The name is empty, too long or contains control characters.
    pub fn parse(text: &str) -> Result<Self, OrganizationError> {
        let trimmed = text.trim();
        let is_valid = !trimmed.is_empty()
            && trimmed.chars().count() <= ORGANIZATION_CHARACTERS_MAX
            && !trimmed.chars().any(char::is_control);
        if is_valid { Ok(Self(trimmed.to_owned())) } else { Err(OrganizationError) }
    }
}

named_enum! {
    /// Legal basis for processing personal data; the six of GDPR article 6(1), in its order.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LegalBasis {
        /// Consent of the person.
        Consent = "consent",
        /// Necessary for a contract with the person.
        Contract = "contract",
        /// Required by law.
        LegalObligation = "legal_obligation",
        /// Necessary to protect a person's life.
        VitalInterests = "vital_interests",
        /// Necessary for a task in the public interest.
        PublicTask = "public_task",
        /// A legitimate interest that outweighs the person's.
        LegitimateInterests = "legitimate_interests",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_plain_text() {
        let longest = "ش".repeat(ORGANIZATION_CHARACTERS_MAX);
        assert_eq!(Organization::parse("  Ministry of Health ").unwrap().as_str(), "Ministry of Health");
        assert!(Organization::parse(&longest).is_ok());
        for wrong in ["", "  ", "a\nb", "a\0", &format!("{longest}x")] {
            assert!(Organization::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_legal_basis_reads_back_as_written() {
        for basis in LegalBasis::ALL {
            assert_eq!(LegalBasis::parse(basis.name()), Some(basis));
        }
        assert_eq!(LegalBasis::parse("Consent"), None);
    }
}

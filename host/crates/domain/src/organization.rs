//! Who clients belong to and to whom consents are given.

use serde::{Deserialize, Serialize};

/// The longest name of an organization, in characters.
pub const ORGANIZATION_CHARACTERS_MAX: usize = 200;

/// Why a text does not name an organization.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an organization's name has 1 to {ORGANIZATION_CHARACTERS_MAX} characters and no control characters")]
pub struct OrganizationError;

/// The name of an organization. Two are the same when they are written the same, letter for letter. Its serialized form is for
/// checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Organization(String);

texts!(Organization);
read_by_parse!(Organization or OrganizationError);

impl Organization {
    /// Reads a name; white space around it does not count.
    ///
    /// # Errors
    /// When it is empty, too long or holds control characters.
    pub fn parse(text: &str) -> Result<Self, OrganizationError> {
        let trimmed = text.trim();
        let is_valid = !trimmed.is_empty()
            && trimmed.chars().count() <= ORGANIZATION_CHARACTERS_MAX
            && !trimmed.chars().any(char::is_control);
        if is_valid { Ok(Self(trimmed.to_owned())) } else { Err(OrganizationError) }
    }
}

named_enum! {
    /// On what ground personal data may be looked at; the six of GDPR article 6(1), in its order.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LegalBasis {
        /// The person agreed.
        Consent = "consent",
        /// A contract with the person needs it.
        Contract = "contract",
        /// The law demands it.
        LegalObligation = "legal_obligation",
        /// Somebody's life depends on it.
        VitalInterests = "vital_interests",
        /// A task in the public interest needs it.
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

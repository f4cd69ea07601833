//! What memberships and consents are searched by.

use serde::{Deserialize, Serialize};

use crate::organization::Organization;
use crate::program_membership::MembershipStatus;
use crate::record::RecordId;
use crate::subject::SubjectReference;

use super::instant::InstantCondition;

/// What a membership is searched by. The serialized form is for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MembershipTerm {
    /// Whose it is.
    Beneficiary(SubjectReference),
    /// In which program.
    Program(RecordId),
    /// Where it stands.
    Status(MembershipStatus),
}

impl MembershipTerm {
    /// The field of the record that it is about.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Beneficiary(_) => "beneficiary",
            Self::Program(_) => "program",
            Self::Status(_) => "status",
        }
    }
}

/// What a consent is searched by. The serialized form is for checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConsentTerm {
    /// Who consents.
    Subject(SubjectReference),
    /// To whom.
    Grantee(Organization),
}

/// Conditions on memberships, all of which must hold. Empty: every membership.
#[derive(Debug, Clone, Default)]
pub struct MembershipConditions {
    /// One term of each list; the terms of a list are of one kind.
    pub terms: Vec<Vec<MembershipTerm>>,
    /// When the record was last written.
    pub last_updated: Vec<InstantCondition>,
}

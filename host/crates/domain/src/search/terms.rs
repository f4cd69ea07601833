//! Index terms of memberships and consents.

use serde::{Deserialize, Serialize};

use crate::organization::Organization;
use crate::program_membership::MembershipStatus;
use crate::record::RecordId;
use crate::subject::SubjectReference;

use super::instant::InstantCondition;

/// An index term of a membership. The serialized form is for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MembershipTerm {
    /// Beneficiary.
    Beneficiary(SubjectReference),
    /// Program.
    Program(RecordId),
    /// Status.
    Status(MembershipStatus),
}

impl MembershipTerm {
    /// Returns the record field of the term.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Beneficiary(_) => "beneficiary",
            Self::Program(_) => "program",
            Self::Status(_) => "status",
        }
    }
}

/// An index term of a consent. The serialized form is for checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConsentTerm {
    /// The consenting person or group.
    Subject(SubjectReference),
    /// The grantee.
    Grantee(Organization),
}

/// Conditions on memberships, all of which must hold. Empty: every membership.
#[derive(Debug, Clone, Default)]
pub struct MembershipConditions {
    /// One term of each list; the terms of a list are of one kind.
    pub terms: Vec<Vec<MembershipTerm>>,
    /// Time of the last write.
    pub last_updated: Vec<InstantCondition>,
}

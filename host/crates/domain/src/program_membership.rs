//! A person's or household's place in a program.
//!
//! The statuses and what may follow on what:
//!
//! | from | to |
//! |---|---|
//! | (new) | any: earlier memberships are brought along from other systems |
//! | draft | enrolled, not_eligible, duplicated |
//! | enrolled | paused, exited, not_eligible, duplicated |
//! | paused | enrolled, exited, not_eligible, duplicated |
//! | not_eligible | draft, enrolled, duplicated |
//! | duplicated | draft |
//! | exited | nothing: whoever comes back gets a new membership |
//!
//! **Invariant:** a beneficiary has at most one membership that is open in one program. `draft`, `enrolled` and `paused` are
//! open; the store sees to it.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::identifier::Identifier;
use super::record::{Record, RecordId};
use super::subject::SubjectReference;

/// A stored membership.
pub type ProgramMembership = Record<ProgramMembershipDetails>;

/// The longest reason for leaving or for an exception, in bytes.
pub const REASON_BYTES_MAX: usize = 1_000;

/// The status of a membership. Its serialized form is for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MembershipStatus {
    /// Applied for, not decided.
    Draft,
    /// The beneficiary takes part.
    Enrolled,
    /// It takes part, and receives nothing for the time being.
    Paused,
    /// It took part.
    Exited,
    /// It was found not to be eligible.
    NotEligible,
    /// It is the same as another membership.
    Duplicated,
}

impl MembershipStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Draft, Self::Enrolled, Self::Paused, Self::Exited, Self::NotEligible, Self::Duplicated];

    /// The name in bodies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Enrolled => "enrolled",
            Self::Paused => "paused",
            Self::Exited => "exited",
            Self::NotEligible => "not_eligible",
            Self::Duplicated => "duplicated",
        }
    }

    /// The place among all statuses by name, counted from 0.
    #[must_use]
    pub fn place(self) -> u8 {
        let before = Self::ALL.into_iter().filter(|other| other.name() < self.name()).count();
        u8::try_from(before).unwrap_or_default()
    }

    /// Whether a second membership beside this one would be one too many.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            Self::Draft | Self::Enrolled | Self::Paused => true,
            Self::Exited | Self::NotEligible | Self::Duplicated => false,
        }
    }

    /// What may follow on it, beside itself.
    #[must_use]
    pub fn successors(self) -> &'static [Self] {
        match self {
            Self::Draft => &[Self::Enrolled, Self::NotEligible, Self::Duplicated],
            Self::Enrolled => &[Self::Paused, Self::Exited, Self::NotEligible, Self::Duplicated],
            Self::Paused => &[Self::Enrolled, Self::Exited, Self::NotEligible, Self::Duplicated],
            Self::NotEligible => &[Self::Draft, Self::Enrolled, Self::Duplicated],
            Self::Duplicated => &[Self::Draft],
            Self::Exited => &[],
        }
    }
}

/// What the register says of a membership.
///
/// `P` is how the program is named and `I` how the beneficiary is: by key in the register, by identifier in a request that has
/// not been checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramMembershipDetails<P = RecordId, I = RecordId> {
    /// Its own; perhaps none.
    pub identifiers: Vec<Identifier>,
    /// Whether it is known to have none, which is more than that none are recorded. Only where there are none.
    pub has_no_identifier: bool,
    /// In which program. Never changes.
    pub program: P,
    /// Whose. Never changes.
    pub beneficiary: SubjectReference<I>,
    /// Where it stands.
    pub status: MembershipStatus,
    /// Since when the beneficiary takes part.
    pub enrollment_date: Option<Date>,
    /// Since when it does not any more. Only with [`MembershipStatus::Exited`].
    pub exit_date: Option<Date>,
    /// Why it does not any more. Only with [`MembershipStatus::Exited`].
    pub exit_reason: Option<String>,
    /// Why it is enrolled against the word of the program's expression.
    pub override_reason: Option<String>,
}

/// The slot that one open membership takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MembershipSlot {
    /// In which program.
    pub program: RecordId,
    /// Whose.
    pub beneficiary: SubjectReference,
}

impl ProgramMembershipDetails {
    /// The slot that it takes while it is open.
    #[must_use]
    pub fn slot(&self) -> MembershipSlot {
        MembershipSlot { program: self.program, beneficiary: self.beneficiary }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_left_for_another_one_and_exited_for_none() {
        for status in MembershipStatus::ALL {
            assert!(!status.successors().contains(&status), "{}", status.name());
            let is_terminal = status.successors().is_empty();
            assert_eq!(is_terminal, status == MembershipStatus::Exited, "{}", status.name());
        }
        let entered = |from: MembershipStatus| from.successors().contains(&MembershipStatus::Enrolled);
        let from: Vec<&str> =
            MembershipStatus::ALL.into_iter().filter(|from| entered(*from)).map(MembershipStatus::name).collect();
        assert_eq!(from, ["draft", "paused", "not_eligible"]);
    }
}

//! Memberships of individuals or households in programs.
//!
//! The statuses and their permitted transitions:
//!
//! | from | to |
//! |---|---|
//! | (new) | any: past memberships are imported from other systems |
//! | draft | enrolled, not_eligible, duplicated |
//! | enrolled | paused, exited, not_eligible, duplicated |
//! | paused | enrolled, exited, not_eligible, duplicated |
//! | not_eligible | draft, enrolled, duplicated |
//! | duplicated | draft |
//! | exited | none: a beneficiary who returns gets a new membership |
//!
//! **Invariant:** a beneficiary has at most one open membership per program. `draft`, `enrolled` and `paused` are open;
//! the store enforces this.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::code::CodedValue;
use super::record::{Fields, Record, RecordId, RecordKind};
use super::schema::{Field, Kind, Struct};
use super::subject::{Subject, SubjectReference};
use super::value::{Key, Link, Part, Text, WordOf};

/// A stored membership.
pub type ProgramMembership = Record<ProgramMembershipDetails>;

/// Maximum length of the reason for an exit or an override, in bytes.
pub const REASON_BYTES_MAX: usize = 1_000;

named_enum! {
    /// The status of a membership. Its serialized form is for checkpoints.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum MembershipStatus {
        /// Application without a decision.
        Draft = "draft",
        /// The beneficiary participates.
        Enrolled = "enrolled",
        /// Participation with suspended benefits.
        Paused = "paused",
        /// Participation has ended.
        Exited = "exited",
        /// The beneficiary was found not eligible.
        NotEligible = "not_eligible",
        /// A duplicate of another membership.
        Duplicated = "duplicated",
    }
}

impl MembershipStatus {
    /// Returns the position among all statuses by name, counted from 0.
    #[must_use]
    pub fn place(self) -> u8 {
        let before = Self::ALL.into_iter().filter(|other| other.name() < self.name()).count();
        u8::try_from(before).unwrap_or_default()
    }

    /// True if the beneficiary may have no second membership in the program.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            Self::Draft | Self::Enrolled | Self::Paused => true,
            Self::Exited | Self::NotEligible | Self::Duplicated => false,
        }
    }

    /// Returns the permitted next statuses, other than itself.
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

record_type!(ProgramMembershipRecord is ProgramMembership);

/// The details of a membership.
///
/// `I` is the reference to program and beneficiary: a stored key, or an identifier in an unvalidated request.
pub type ProgramMembershipDetails<I = RecordId> = Fields<ProgramMembershipRecord, CodedValue, I>;

/// True if it is known to have no identifier, as opposed to none being recorded. Only if there are none.
pub const HAS_NO_IDENTIFIER: Key<bool> = Key::new(1);
/// Program. Required, immutable.
pub const PROGRAM: Key<Link> = Key::new(2);
/// Beneficiary. Required, immutable.
pub const BENEFICIARY: Key<Link> = Key::new(3);
/// Status. Required.
pub const STATUS: Key<WordOf<MembershipStatus>> = Key::new(4);
/// First day of participation.
pub const ENROLLMENT_DATE: Key<Date> = Key::new(5);
/// Day of the exit. Only with [`MembershipStatus::Exited`].
pub const EXIT_DATE: Key<Date> = Key::new(6);
/// Reason for the exit. Only with [`MembershipStatus::Exited`].
pub const EXIT_REASON: Key<Text> = Key::new(7);
/// Reason for an enrolment against the result of the program's expression.
pub const OVERRIDE: Key<Part> = Key::new(8);
/// The reason of an override.
pub const OVERRIDE_REASON: Key<Text> = Key::new(1);

/// The fields of a membership.
pub const FIELDS: &[Field] = &[
    Field::new(HAS_NO_IDENTIFIER, "has_no_identifier", Kind::Boolean).internal(),
    Field::new(PROGRAM, "program", Kind::Reference(&[RecordKind::Program]))
        .required("a reference is required: `Program/<system>|<value>`")
        .in_rules()
        .filter(),
    Field::new(BENEFICIARY, "beneficiary", Kind::Reference(&[RecordKind::Individual, RecordKind::Group]))
        .required("a reference is required: `Individual/<system>|<value>` or `Group/<system>|<value>`")
        .filter(),
    Field::new(STATUS, "status", Kind::Word(&MembershipStatus::NAMES))
        .about("Status of the membership; the default for a new one is `draft`.")
        .in_rules()
        .column()
        .sort()
        .filter(),
    Field::new(ENROLLMENT_DATE, "enrollment_date", Kind::Date).in_rules().column().sort(),
    Field::new(EXIT_DATE, "exit_date", Kind::Date).about("Only with `exited`.").in_rules().column().sort(),
    Field::new(EXIT_REASON, "exit_reason", Kind::Text(REASON_BYTES_MAX)).about("Only with `exited`.").in_rules(),
    Field::new(OVERRIDE, "override", Kind::Struct(&OVERRIDES)),
];

/// Reason for an enrolment against the result of the program's expression.
pub const OVERRIDES: Struct = Struct {
    name: "Override",
    about: "Reason for an enrolment against the result of the program's expression; recorded in the audit log.",
    fields: &[Field::new(OVERRIDE_REASON, "reason", Kind::Text(REASON_BYTES_MAX))
        .required("the reason of an override is required")],
};

/// The uniqueness key of an open membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MembershipSlot {
    /// Program.
    pub program: RecordId,
    /// Beneficiary.
    pub beneficiary: SubjectReference,
}

impl<I: Clone> ProgramMembershipDetails<I> {
    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> MembershipStatus {
        self.get(STATUS).unwrap_or(MembershipStatus::Draft)
    }
}

impl ProgramMembershipDetails {
    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> RecordId {
        // Validation on reading ensures that a stored membership has one.
        self.get(PROGRAM).map_or(RecordId(0), |program| program.id)
    }

    /// Returns the beneficiary.
    #[must_use]
    pub fn beneficiary(&self) -> SubjectReference {
        let missing = SubjectReference { kind: Subject::Individual, id: RecordId(0) };
        self.get(BENEFICIARY).and_then(|reference| SubjectReference::of(*reference)).unwrap_or(missing)
    }

    /// Returns the key that it occupies while it is open.
    #[must_use]
    pub fn slot(&self) -> MembershipSlot {
        MembershipSlot { program: self.program(), beneficiary: self.beneficiary() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_successors_except_exited() {
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

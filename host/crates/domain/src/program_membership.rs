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

use super::code::CodedValue;
use super::record::{Fields, Record, RecordId, RecordKind};
use super::schema::{Field, Kind, Struct};
use super::subject::{Subject, SubjectReference};
use super::value::{Key, Link, Part, Text, WordOf};

/// A stored membership.
pub type ProgramMembership = Record<ProgramMembershipDetails>;

/// The longest reason for leaving or for an exception, in bytes.
pub const REASON_BYTES_MAX: usize = 1_000;

named_enum! {
    /// The status of a membership. Its serialized form is for checkpoints.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum MembershipStatus {
        /// Applied for, not decided.
        Draft = "draft",
        /// The beneficiary takes part.
        Enrolled = "enrolled",
        /// It takes part, and receives nothing for the time being.
        Paused = "paused",
        /// It took part.
        Exited = "exited",
        /// It was found not to be eligible.
        NotEligible = "not_eligible",
        /// It is the same as another membership.
        Duplicated = "duplicated",
    }
}

impl MembershipStatus {
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

record_type!(ProgramMembershipRecord is ProgramMembership);

/// What the register says of a membership.
///
/// `I` is how program and beneficiary are named: by key in the register, by identifier in a request that has not been checked yet.
pub type ProgramMembershipDetails<I = RecordId> = Fields<ProgramMembershipRecord, CodedValue, I>;

/// Whether it is known to have no identifier, which is more than that none are recorded. Only where there are none.
pub const HAS_NO_IDENTIFIER: Key<bool> = Key::new(1);
/// In which program. Every membership has it, and it never changes.
pub const PROGRAM: Key<Link> = Key::new(2);
/// Whose. Every membership has it, and it never changes.
pub const BENEFICIARY: Key<Link> = Key::new(3);
/// Where it stands. Every membership has it.
pub const STATUS: Key<WordOf<MembershipStatus>> = Key::new(4);
/// Since when the beneficiary takes part.
pub const ENROLLMENT_DATE: Key<Date> = Key::new(5);
/// Since when it does not any more. Only with [`MembershipStatus::Exited`].
pub const EXIT_DATE: Key<Date> = Key::new(6);
/// Why it does not any more. Only with [`MembershipStatus::Exited`].
pub const EXIT_REASON: Key<Text> = Key::new(7);
/// Why it is enrolled against the result of the program's expression.
pub const OVERRIDE: Key<Part> = Key::new(8);
/// The reason of an override.
pub const OVERRIDE_REASON: Key<Text> = Key::new(1);

/// The fields of a membership.
pub const FIELDS: &[Field] = &[
    Field::new(HAS_NO_IDENTIFIER, "has_no_identifier", Kind::Boolean).internal(),
    Field::new(PROGRAM, "program", Kind::Reference(&[RecordKind::Program]))
        .required("a reference is needed: `Program/<system>|<value>`")
        .in_rules()
        .filter(),
    Field::new(BENEFICIARY, "beneficiary", Kind::Reference(&[RecordKind::Individual, RecordKind::Group]))
        .required("a reference is needed: `Individual/<system>|<value>` or `Group/<system>|<value>`")
        .filter(),
    Field::new(STATUS, "status", Kind::Word(&MembershipStatus::NAMES))
        .about("Where the membership stands; `draft` where a new one leaves it out.")
        .in_rules()
        .column()
        .sort()
        .filter(),
    Field::new(ENROLLMENT_DATE, "enrollment_date", Kind::Date).in_rules().column().sort(),
    Field::new(EXIT_DATE, "exit_date", Kind::Date).about("Goes with `exited` alone.").in_rules().column().sort(),
    Field::new(EXIT_REASON, "exit_reason", Kind::Text(REASON_BYTES_MAX)).about("Goes with `exited` alone.").in_rules(),
    Field::new(OVERRIDE, "override", Kind::Struct(&OVERRIDES)),
];

/// Why somebody is enrolled against the result of the program's expression.
pub const OVERRIDES: Struct = Struct {
    name: "Override",
    about: "Why the beneficiary is enrolled against the result of the program's expression; kept in the audit log.",
    fields: &[
        Field::new(OVERRIDE_REASON, "reason", Kind::Text(REASON_BYTES_MAX)).required("an override gives its reason")
    ],
};

/// The slot that one open membership takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MembershipSlot {
    /// In which program.
    pub program: RecordId,
    /// Whose.
    pub beneficiary: SubjectReference,
}

impl<I: Clone> ProgramMembershipDetails<I> {
    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> MembershipStatus {
        self.get(STATUS).unwrap_or(MembershipStatus::Draft)
    }
}

impl ProgramMembershipDetails {
    /// In which program.
    #[must_use]
    pub fn program(&self) -> RecordId {
        // Reading a stored membership checks that it has one.
        self.get(PROGRAM).map_or(RecordId(0), |program| program.id)
    }

    /// Whose.
    #[must_use]
    pub fn beneficiary(&self) -> SubjectReference {
        let missing = SubjectReference { kind: Subject::Individual, id: RecordId(0) };
        self.get(BENEFICIARY).and_then(|reference| SubjectReference::of(*reference)).unwrap_or(missing)
    }

    /// The slot that it takes while it is open.
    #[must_use]
    pub fn slot(&self) -> MembershipSlot {
        MembershipSlot { program: self.program(), beneficiary: self.beneficiary() }
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

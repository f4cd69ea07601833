//! Sets of facts that can be missing, as bit sets.
//!
//! **Invariant:** the bits of a set are: one for each field that the rule reads, one for each question, one for
//! `members`, one for `programs`. The limits in [`crate::limits`] keep them disjoint.

use crate::limits::{FIELDS_READ_MAX, QUESTIONS_MAX};

/// One fact that a rule may find missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The value of the field with that reference number.
    Field(usize),
    /// The answer to the question with that number.
    Question(usize),
    /// The members.
    Members,
    /// The programs of the subject.
    Programs,
}

impl Fact {
    /// The number of different facts.
    pub const COUNT: usize = FIELDS_READ_MAX + QUESTIONS_MAX + 2;

    /// The number of this fact, below [`Fact::COUNT`].
    pub fn number(self) -> usize {
        match self {
            Fact::Field(reference) => reference.min(FIELDS_READ_MAX - 1),
            Fact::Question(question) => FIELDS_READ_MAX + question.min(QUESTIONS_MAX - 1),
            Fact::Members => FIELDS_READ_MAX + QUESTIONS_MAX,
            Fact::Programs => FIELDS_READ_MAX + QUESTIONS_MAX + 1,
        }
    }
}

const _: () = assert!(Fact::COUNT <= 128, "a set of facts has 128 bits");

/// A set of facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FactSet(u128);

impl FactSet {
    /// No fact.
    pub const EMPTY: Self = Self(0);

    /// The set of that fact.
    pub fn of(fact: Fact) -> Self {
        Self(1 << fact.number())
    }

    /// The union.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if the sets intersect.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns true if it is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if it contains that fact.
    pub fn contains(self, fact: Fact) -> bool {
        self.intersects(Self::of(fact))
    }
}

//! Facts that can be missing, as small sets.
//!
//! **Invariant:** the bits of a set are: one for each field that the rule reads, one for each question that it asks, one for
//! `members`, one for `programs`. The bounds in [`crate::limits`] keep them apart.

use crate::limits::{FIELDS_READ_MAX, QUESTIONS_MAX};

/// One fact that a rule may find missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The value of the field with that reference number.
    Field(usize),
    /// What the question with that number asks for.
    Question(usize),
    /// Who the members are.
    Members,
    /// Which programs the subject is in.
    Programs,
}

impl Fact {
    /// How many different facts there can be.
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

    /// That fact alone.
    pub fn of(fact: Fact) -> Self {
        Self(1 << fact.number())
    }

    /// The facts of either.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any fact is in both.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it holds no fact.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it holds that fact.
    pub fn contains(self, fact: Fact) -> bool {
        self.intersects(Self::of(fact))
    }
}

//! How the answer of a rule for one subject came about, and what a rule costs.
//!
//! The types say the same as `wit/daftar-plugin/0.1.0/eligibility.wit`, where each field is described.
//!
//! **Invariant:** each part of an explanation stands after the one that it is an operand of, so that one walk builds the tree.

use std::ops::Range;

use super::code::CodeNumber;

/// What one subject costs, estimated from the expression alone, in parts of the expression that are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The fewest.
    pub steps_min: u64,
    /// The most, where each list of the registry has [`Cost::list_items`] items; `u64::MAX` stands for that or more.
    pub steps_max: u64,
    /// How many items `steps_max` assumes.
    pub list_items: u32,
}

/// What is known of a rule before it is evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSummary {
    /// The type of its value, in CEL's words.
    pub result_type: String,
    /// What it costs.
    pub cost: Cost,
}

/// What a part of an expression came to.
#[derive(Debug, Clone, PartialEq)]
pub enum ExplainedValue {
    /// It is not known.
    Unknown,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction, perhaps infinite or not a number.
    Number(f64),
    /// Days since 1970-01-01.
    Day(i32),
    /// A code, which the registry may not know.
    Code(CodeNumber),
    /// Text, or its beginning.
    Text(String),
    /// A list of at least and at most so many items.
    Items(u32, u32),
    /// A person, a membership or a structure.
    Structure,
    /// A value of another type, as an expression would write it.
    Other(String),
}

/// A field that a part of an expression looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenFact {
    /// Its name, such as `members[2].gender`: the third of the subject's members.
    pub name: String,
    /// What it holds.
    pub value: ExplainedValue,
}

/// One part of an expression, and what it came to for one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedPart {
    /// The number of the part that it is an operand of; only the first, which is the whole expression, has none.
    pub parent: Option<usize>,
    /// Its text, as bytes of the expression; the ends are ends of characters.
    pub text: Range<usize>,
    /// The number of the item of a list that it was evaluated for.
    pub item: Option<u32>,
    /// What it came to.
    pub value: ExplainedValue,
    /// The missing facts that would decide, sorted.
    pub missing: Vec<String>,
    /// The stable name of the error, where it failed.
    pub error: Option<String>,
    /// The fields that it looked at by itself.
    pub seen: Vec<SeenFact>,
}

/// How the answer for one subject came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The parts, the whole expression first.
    pub parts: Vec<ExplainedPart>,
    /// Whether there are more parts than are told.
    pub is_cut: bool,
}

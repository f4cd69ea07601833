//! Explanation of a rule's result for one subject, and cost of a rule.
//!
//! The types match `wit/daftar-plugin/0.1.0/eligibility.wit`, which describes each field.
//!
//! **Invariant:** each part of an explanation comes after its parent, so that one pass builds the tree.

use std::ops::Range;

use super::code::CodeNumber;

/// Cost of evaluating one subject, estimated from the expression alone, in evaluated parts of the expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Minimum.
    pub steps_min: u64,
    /// Maximum, if each list of the registry has [`Cost::list_items`] items; `u64::MAX` means that or more.
    pub steps_max: u64,
    /// Number of items assumed by `steps_max`.
    pub list_items: u32,
}

/// Properties of a rule that are known before its evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSummary {
    /// The type of its value, as named by CEL.
    pub result_type: String,
    /// Its cost.
    pub cost: Cost,
}

/// The value of a part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum ExplainedValue {
    /// Unknown.
    Unknown,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction, possibly infinite or NaN.
    Number(f64),
    /// Days since 1970-01-01.
    Day(i32),
    /// A code, possibly unknown to the registry.
    Code(CodeNumber),
    /// Text, possibly truncated.
    Text(String),
    /// A list with a minimum and a maximum number of items.
    Items(u32, u32),
    /// A person, a membership or a structure.
    Structure,
    /// A value of another type, in the syntax of expressions.
    Other(String),
}

/// A field read by a part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenFact {
    /// Its name, such as `members[2].gender`: the third of the subject's members.
    pub name: String,
    /// Its value.
    pub value: ExplainedValue,
}

/// One part of an expression, with its value for one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedPart {
    /// Index of the parent part; absent only for the first part, which is the full expression.
    pub parent: Option<usize>,
    /// Its text, as a byte range of the expression on character boundaries.
    pub text: Range<usize>,
    /// Index of the list item for which it was evaluated.
    pub item: Option<u32>,
    /// Its value.
    pub value: ExplainedValue,
    /// The missing facts that would decide, sorted.
    pub missing: Vec<String>,
    /// Stable name of the error, if it failed.
    pub error: Option<String>,
    /// The fields that it read directly.
    pub seen: Vec<SeenFact>,
}

/// The explanation of the result for one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The parts, the full expression first.
    pub parts: Vec<ExplainedPart>,
    /// True if parts were omitted.
    pub is_cut: bool,
}

//! The explanation of a rule's outcome for one subject.
//!
//! **Invariant:** parts follow their parent, in the order of the text; the first is the whole expression.

use crate::limits::EXPLAINED_TEXT_CHARACTERS_MAX;
use crate::span::Span;
use crate::value::{List, Value};

/// The value of a part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExplainedValue {
    /// Unknown.
    Unknown,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// Days since 1970-01-01.
    Day(i32),
    /// The number of a code.
    Code(u32),
    /// A text, possibly truncated.
    Text(String),
    /// A list with a minimum and a maximum number of items.
    Items(u32, u32),
    /// A record.
    Structure,
    /// A value of another type, in CEL syntax.
    Other(String),
}

/// A field that a part of an expression read.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenFact {
    /// Its name, such as `members[2].gender`; for a variable with a plain value, the name of the variable.
    pub name: String,
    /// Its value.
    pub value: ExplainedValue,
}

/// One part of an expression, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The index of its parent.
    pub parent: Option<usize>,
    /// Its text.
    pub span: Span,
    /// The index of the item for which it was evaluated.
    pub item: Option<u32>,
    /// Its value.
    pub value: ExplainedValue,
    /// The names of the missing facts on which it depends, sorted.
    pub missing: Vec<String>,
    /// The stable name of the error or exhausted budget, if it failed.
    pub error: Option<&'static str>,
    /// The facts that it read itself.
    pub seen: Vec<SeenFact>,
}

/// All parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The parts.
    pub parts: Vec<Explained>,
    /// True if further parts were omitted.
    pub is_cut: bool,
}

impl From<&Value<'_>> for ExplainedValue {
    fn from(value: &Value<'_>) -> Self {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        match value {
            Value::Boolean(truth) => Self::Boolean(*truth),
            Value::Integer(integer) => Self::Integer(*integer),
            Value::Number(number) => Self::Number(*number),
            Value::Date(days) => Self::Day(*days),
            Value::Code(number) => Self::Code(*number),
            Value::Text(text) => Self::Text(shortened(text)),
            Value::Row(_) => Self::Structure,
            Value::Foreign(foreign) => Self::Other(foreign.written()),
            Value::List(List::Rows { start, end, .. }) => {
                let length = end.saturating_sub(*start);
                Self::Items(length, length)
            }
            Value::List(List::Elements(elements)) => {
                let certain = elements.iter().filter(|element| element.doubt.is_none()).count();
                Self::Items(count(certain), count(elements.len()))
            }
        }
    }
}

/// Truncates a text, with `…` at the end.
pub fn shortened(text: &str) -> String {
    let mut characters = text.chars();
    let mut start: String = characters.by_ref().take(EXPLAINED_TEXT_CHARACTERS_MAX).collect();
    if characters.next().is_some() {
        start.push('…');
    }
    start
}

//! How the outcome of a rule for one subject came about.
//!
//! **Invariant:** parts stand after the part that they belong to, in the order of the text; the first is the whole expression.

use crate::limits::EXPLAINED_TEXT_CHARACTERS_MAX;
use crate::span::Span;
use crate::value::{List, Value};

/// What a part of an expression came to.
#[derive(Clone, Debug, PartialEq)]
pub enum ExplainedValue {
    /// It is not known.
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
    /// Text, or its beginning.
    Text(String),
    /// A list of at least and at most so many items.
    Items(u32, u32),
    /// A record.
    Structure,
    /// A value of another type, as an expression would write it.
    Other(String),
}

/// A field that a part of an expression looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenFact {
    /// Its name, such as `members[2].gender`; the name of a variable where that stands for a plain value.
    pub name: String,
    /// What it holds.
    pub value: ExplainedValue,
}

/// One part of an expression, and what it came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The number of the part that it belongs to.
    pub parent: Option<usize>,
    /// Its text.
    pub span: Span,
    /// The number of the item that it was evaluated for.
    pub item: Option<u32>,
    /// What it came to.
    pub value: ExplainedValue,
    /// The names of the missing facts that would decide, sorted.
    pub missing: Vec<String>,
    /// The stable name of the error or exhausted budget, where it failed.
    pub error: Option<&'static str>,
    /// What it looked at by itself.
    pub seen: Vec<SeenFact>,
}

/// All parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The parts.
    pub parts: Vec<Explained>,
    /// Whether there are more.
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

/// The beginning of a text, with `…` where there is more.
pub fn shortened(text: &str) -> String {
    let mut characters = text.chars();
    let mut start: String = characters.by_ref().take(EXPLAINED_TEXT_CHARACTERS_MAX).collect();
    if characters.next().is_some() {
        start.push('…');
    }
    start
}

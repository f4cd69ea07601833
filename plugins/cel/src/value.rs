//! Values while a rule is evaluated: known, or not known for reasons that can be told.
//!
//! **Invariant:** [`Unknown`] carries every fact whose absence, and the first error, that stood in the way. Uniting the
//! reasons of two operands gives the same result in either order.

use crate::facts::FactSet;
use crate::foreign::Foreign;
use crate::span::Span;
use crate::tree::ColumnId;
use std::borrow::Cow;

/// A value, or why there is none.
pub type Evaluated<'a> = Result<Value<'a>, Unknown>;

/// A truth of three values: true, false, or not known.
pub type Truth = Result<bool, Unknown>;

/// A known value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// Days since 1970-01-01.
    Date(i32),
    /// The number of a code.
    Code(u32),
    /// Text.
    Text(Cow<'a, str>),
    /// The number of a row of its domain.
    Row(u32),
    /// A list.
    List(List<'a>),
    /// A value that only the crate knows how to handle.
    Foreign(Foreign),
}

/// A list of values.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Rows or values as they stand in the batch.
    Rows {
        /// The first row.
        start: u32,
        /// One past the last row.
        end: u32,
        /// The column that holds the values; none where the rows themselves are the items.
        items: Option<ColumnId>,
    },
    /// Items that the rule made.
    Elements(Vec<Element<'a>>),
}

/// An item of a list that the rule made.
#[derive(Clone, Debug)]
pub struct Element<'a> {
    /// Its value.
    pub value: Evaluated<'a>,
    /// Why it is not known whether it is in the list at all; none where it is.
    pub doubt: Option<Unknown>,
}

/// Why something is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// The facts that are missing.
    pub missing: FactSet,
    /// The error that comes first in the expression.
    pub error: Option<Failure>,
}

/// An error while one subject was evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// Where.
    pub at: Span,
    /// What.
    pub kind: FailureKind,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// A whole number was divided by zero.
    DivisionByZero,
    /// A whole number beyond 64 bits.
    Overflow,
    /// No item of that number.
    IndexOutOfBounds,
    /// A text that is no number or date, or a number that does not fit the other kind.
    InvalidConversion,
    /// A regular expression that is none.
    InvalidPattern,
    /// A code whose texts the host did not bring.
    UnknownCode,
    /// A name or function that there is not, inside `dyn(…)`.
    Undeclared,
    /// A map without that key.
    NoSuchKey,
    /// A key that a map would have twice.
    DuplicateKey,
    /// A value of a type that the operation does not take.
    WrongType,
}

impl FailureKind {
    /// The stable name that clients see.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::DivisionByZero => "division_by_zero",
            FailureKind::Overflow => "overflow",
            FailureKind::IndexOutOfBounds => "index_out_of_bounds",
            FailureKind::InvalidConversion => "invalid_conversion",
            FailureKind::InvalidPattern => "invalid_pattern",
            FailureKind::UnknownCode => "unknown_code",
            FailureKind::Undeclared => "undeclared",
            FailureKind::NoSuchKey => "no_such_key",
            FailureKind::DuplicateKey => "duplicate_key",
            FailureKind::WrongType => "wrong_type",
        }
    }
}

impl Unknown {
    /// Facts are missing.
    pub fn missing(facts: FactSet) -> Self {
        Self { missing: facts, error: None }
    }

    /// Something failed.
    pub fn failure(kind: FailureKind, at: Span) -> Self {
        Self { missing: FactSet::EMPTY, error: Some(Failure { at, kind }) }
    }

    /// The reasons of both.
    pub fn union(self, other: Self) -> Self {
        let error = match (self.error, other.error) {
            (Some(this), Some(that)) => Some(this.min(that)),
            (this, that) => this.or(that),
        };
        Self { missing: self.missing.union(other.missing), error }
    }
}

/// Both values, or every reason why there are not both.
pub fn both<A, B>(first: Result<A, Unknown>, second: Result<B, Unknown>) -> Result<(A, B), Unknown> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok((first, second)),
        (Err(these), Err(those)) => Err(these.union(those)),
        (Err(reasons), Ok(_)) | (Ok(_), Err(reasons)) => Err(reasons),
    }
}

/// Kleene's "and": false wins over not known, whichever comes first.
pub fn and(first: Truth, second: Truth) -> Truth {
    match (first, second) {
        (Ok(false), _) | (_, Ok(false)) => Ok(false),
        (first, second) => both(first, second).map(|_| true),
    }
}

/// Kleene's "or": true wins over not known, whichever comes first.
pub fn or(first: Truth, second: Truth) -> Truth {
    match (first, second) {
        (Ok(true), _) | (_, Ok(true)) => Ok(true),
        (first, second) => both(first, second).map(|_| false),
    }
}

impl Element<'_> {
    /// Whether the item is in the list.
    pub fn presence(&self) -> Truth {
        self.doubt.map_or(Ok(true), Err)
    }
}

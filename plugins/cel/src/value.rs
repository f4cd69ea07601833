//! Values during evaluation: known, or unknown with reasons.
//!
//! **Invariant:** [`Unknown`] contains all missing facts and the first error on which the value depends. Uniting the
//! reasons of two operands is commutative.

use crate::facts::FactSet;
use crate::foreign::Foreign;
use crate::span::Span;
use crate::tree::ColumnId;
use std::borrow::Cow;

/// A value, or the reasons why it is unknown.
pub type Evaluated<'a> = Result<Value<'a>, Unknown>;

/// A three-valued truth: true, false, or unknown.
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
    /// A value that only the crate can handle.
    Foreign(Foreign),
}

/// A list of values.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Rows or values of the batch.
    Rows {
        /// The first row.
        start: u32,
        /// One past the last row.
        end: u32,
        /// The column of the values; none if the rows themselves are the items.
        items: Option<ColumnId>,
    },
    /// Items built by the rule.
    Elements(Vec<Element<'a>>),
}

/// An item of a list built by the rule.
#[derive(Clone, Debug)]
pub struct Element<'a> {
    /// Its value.
    pub value: Evaluated<'a>,
    /// The reason why it is in doubt whether it is in the list; none if it is.
    pub doubt: Option<Unknown>,
}

/// The reasons why a value is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// The facts that are missing.
    pub missing: FactSet,
    /// The first error in the expression.
    pub error: Option<Failure>,
}

/// An error in the evaluation of one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// The position.
    pub at: Span,
    /// The kind.
    pub kind: FailureKind,
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// A whole number was divided by zero.
    DivisionByZero,
    /// A whole number beyond 64 bits.
    Overflow,
    /// There is no item of that index.
    IndexOutOfBounds,
    /// A text that is not a number or date, or a number that the target type cannot represent.
    InvalidConversion,
    /// An invalid regular expression.
    InvalidPattern,
    /// A code whose texts the host did not send.
    UnknownCode,
    /// An undeclared name or function, inside `dyn(…)`.
    Undeclared,
    /// A map without that key.
    NoSuchKey,
    /// A duplicate key of a map.
    DuplicateKey,
    /// A value of a type that the operation does not accept.
    WrongType,
}

impl FailureKind {
    /// The stable name shown to clients.
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

    /// A failure.
    pub fn failure(kind: FailureKind, at: Span) -> Self {
        Self { missing: FactSet::EMPTY, error: Some(Failure { at, kind }) }
    }

    /// Unites the reasons of both.
    pub fn union(self, other: Self) -> Self {
        let error = match (self.error, other.error) {
            (Some(this), Some(that)) => Some(this.min(that)),
            (this, that) => this.or(that),
        };
        Self { missing: self.missing.union(other.missing), error }
    }
}

/// Both values, or the united reasons.
pub fn both<A, B>(first: Result<A, Unknown>, second: Result<B, Unknown>) -> Result<(A, B), Unknown> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok((first, second)),
        (Err(these), Err(those)) => Err(these.union(those)),
        (Err(reasons), Ok(_)) | (Ok(_), Err(reasons)) => Err(reasons),
    }
}

/// Kleene's "and": false dominates unknown on either side.
pub fn and(first: Truth, second: Truth) -> Truth {
    match (first, second) {
        (Ok(false), _) | (_, Ok(false)) => Ok(false),
        (first, second) => both(first, second).map(|_| true),
    }
}

/// Kleene's "or": true dominates unknown on either side.
pub fn or(first: Truth, second: Truth) -> Truth {
    match (first, second) {
        (Ok(true), _) | (_, Ok(true)) => Ok(true),
        (first, second) => both(first, second).map(|_| false),
    }
}

impl Element<'_> {
    /// Returns whether the item is in the list.
    pub fn presence(&self) -> Truth {
        self.doubt.map_or(Ok(true), Err)
    }
}

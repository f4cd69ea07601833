//! In which order a search gives its records, and where in it a page begins.
//!
//! **Invariant:** records that a key does not tell apart, those without a value among them, follow one another in the order in
//! which they were registered; those without a value come last, whichever way the others run.

use crate::domain::field::field_of_path;
use crate::domain::record::RecordId;
use crate::domain::vocabulary::CodedField;

/// The most keys of one order.
pub const SORT_KEYS_MAX: usize = 5;
/// The longest beginning of a text that counts in an order, in bytes.
pub const SORT_TEXT_BYTES_MAX: usize = 128;

/// What records can be put in order by. Not every kind of record has each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortField {
    /// The name.
    Name,
    /// Day of birth.
    BirthDate,
    /// Day of death.
    DeceasedDate,
    /// A field that holds one code, by the code.
    Code(CodedField),
    /// Where a membership stands, by the name of the status.
    Status,
    /// Since when a membership counts.
    EnrollmentDate,
    /// Since when it does not any more.
    ExitDate,
    /// When the record was last written.
    LastUpdated,
}

impl SortField {
    /// The name in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::BirthDate => "birth_date",
            Self::DeceasedDate => "deceased_date",
            Self::Code(field) => field.path(),
            Self::Status => "status",
            Self::EnrollmentDate => "enrollment_date",
            Self::ExitDate => "exit_date",
            Self::LastUpdated => "_last_updated",
        }
    }

    /// The field of the record that it looks at; absent where everybody may.
    #[must_use]
    pub fn field(self) -> Option<&'static str> {
        match self {
            Self::LastUpdated => None,
            other => Some(field_of_path(other.name())),
        }
    }
}

/// Which way a key runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The least first.
    Ascending,
    /// The greatest first.
    Descending,
}

/// One key of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// By what.
    pub field: SortField,
    /// Which way.
    pub direction: Direction,
}

/// What a record has to show for one key.
#[derive(Clone, PartialEq, Eq)]
pub enum SortValue {
    /// Nothing.
    Missing,
    /// A number: days, milliseconds, the number of a code.
    Number(u64),
    /// The beginning of a text.
    Text(String),
}

impl std::fmt::Debug for SortValue {
    /// Keeps names and days of birth out of logs.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SortValue(..)")
    }
}

/// A place between two records of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// What the record before it has to show, key by key.
    pub values: Vec<SortValue>,
    /// That record.
    pub record: RecordId,
    /// How many records of the walk lie before.
    pub passed: u64,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// After that many records.
    Offset(u64),
    /// Where the page before ended.
    After(Position),
}

/// Which part of an ordered answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Where it begins.
    pub start: Start,
    /// How many records it has at most.
    pub count: u32,
}

impl From<super::Page> for Window {
    fn from(page: super::Page) -> Self {
        Self { start: Start::Offset(page.offset), count: page.count }
    }
}

impl Window {
    /// How many records lie before it.
    #[must_use]
    pub fn passed(&self) -> u64 {
        match &self.start {
            Start::Offset(offset) => *offset,
            Start::After(position) => position.passed,
        }
    }
}

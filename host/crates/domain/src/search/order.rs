//! Sort order of searches, and positions of pages in it.
//!
//! **Invariant:** records with equal keys, including those without a value, are in the order of registration; those
//! without a value come last in both directions.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::field::field_of_path;
use crate::record::{RecordId, RecordKind};
use crate::schema::{self, Field, Kind};
use crate::vocabulary::CodedField;

/// Maximum number of sort keys.
pub const SORT_KEYS_MAX: usize = 5;
/// Maximum length of the prefix of a text that is used for sorting, in bytes.
pub const SORT_TEXT_BYTES_MAX: usize = 128;

/// Returns the prefix of a text that is used for sorting; none if the text is empty.
#[must_use]
pub fn sortable(text: &str) -> Option<&str> {
    let mut end = text.len().min(SORT_TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).filter(|text| !text.is_empty() && !text.starts_with('\0'))
}

/// Returns a number with the order of days since 1970-01-01; never the minimum or the maximum.
#[must_use]
pub fn number_of_day(day: i32) -> u64 {
    u64::from(day.cast_unsigned() ^ (1 << 31)) + 1
}

/// Returns a number with the order of timestamps in milliseconds since 1970-01-01; never the minimum or the maximum,
/// for timestamps of the calendar.
#[must_use]
pub fn number_of_instant(at_ms: i64) -> u64 {
    at_ms.cast_unsigned() ^ (1 << 63)
}

/// Returns a number with the order of the ranks of codes: those without a rank come last, by their number.
#[must_use]
pub fn number_of_code(code: u32, ranks: &[u32]) -> u64 {
    match ranks.get(code as usize) {
        Some(rank) => u64::from(*rank) + 1,
        None => u64::from(code) + (1 << 32),
    }
}

/// A sort field. Not every kind of record has each; [`sort_fields`] returns those of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortField {
    /// The name.
    Name,
    /// A day, by field name.
    Date(&'static str),
    /// A word, such as the status of a membership, in alphabetical order; by field name.
    Word(&'static str),
    /// A field with one code, by the code.
    Code(CodedField),
    /// Time of the last write.
    LastUpdated,
}

/// Returns the sort fields of a kind of record: the sortable rows of the schema, and the time of the last write.
#[must_use]
pub fn sort_fields(kind: RecordKind) -> &'static [SortField] {
    static FIELDS: LazyLock<[Vec<SortField>; 5]> = LazyLock::new(|| RecordKind::ALL.map(all_sort_fields));
    FIELDS.get(kind.place()).map_or(&[], Vec::as_slice)
}

fn all_sort_fields(kind: RecordKind) -> Vec<SortField> {
    let of_row = |field: &Field| match field.kind {
        Kind::Date => SortField::Date(field.name),
        Kind::Word(_) => SortField::Word(field.name),
        Kind::Code(coded) => SortField::Code(coded),
        _ => SortField::Name,
    };
    let rows = schema::fields(kind).iter().filter(|field| field.is_sortable).map(of_row);
    rows.chain([SortField::LastUpdated]).collect()
}

impl SortField {
    /// Returns the name in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Date(name) | Self::Word(name) => name,
            Self::Code(field) => field.path(),
            Self::LastUpdated => "_last_updated",
        }
    }

    /// Returns the record field that must be readable; absent if no grant is required.
    #[must_use]
    pub fn field(self) -> Option<&'static str> {
        match self {
            Self::LastUpdated => None,
            other => Some(field_of_path(other.name())),
        }
    }
}

/// Sort direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Lowest first.
    Ascending,
    /// Highest first.
    Descending,
}

/// A sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// The field.
    pub field: SortField,
    /// The direction.
    pub direction: Direction,
}

/// The value of a record for one sort key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SortValue {
    /// No value.
    Missing,
    /// A number: days, milliseconds, the number of a code.
    Number(u64),
    /// The prefix of a text.
    Text(String),
}

opaque_debug!(SortValue);

/// A position between two records of an order. Its serialized form is for cursors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Sort values of the record before it, by key.
    pub values: Vec<SortValue>,
    /// The record before it.
    pub record: RecordId,
    /// Number of records before it.
    pub passed: u64,
}

/// The start of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// After this many records.
    Offset(u64),
    /// At the end of the previous page.
    After(Position),
}

/// A window of a sorted result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub start: Start,
    /// Maximum number of records.
    pub count: u32,
}

impl From<super::Page> for Window {
    fn from(page: super::Page) -> Self {
        Self { start: Start::Offset(page.offset), count: page.count }
    }
}

impl Window {
    /// Returns the number of records before it.
    #[must_use]
    pub fn passed(&self) -> u64 {
        match &self.start {
            Start::Offset(offset) => *offset,
            Start::After(position) => position.passed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_truncated_between_characters() {
        assert_eq!(sortable(""), None);
        let long = "é".repeat(SORT_TEXT_BYTES_MAX);
        assert_eq!(sortable(&long).map(str::len), Some(SORT_TEXT_BYTES_MAX));
        let odd = format!("a{long}");
        assert_eq!(sortable(&odd).map(str::len), Some(SORT_TEXT_BYTES_MAX - 1));
    }

    #[test]
    fn sort_fields_follow_from_the_schema() {
        let names = |kind| sort_fields(kind).iter().map(|field| field.name()).collect::<Vec<_>>();
        assert_eq!(
            names(RecordKind::Individual).get(..4),
            Some(&["name", "birth_date", "deceased_date", "gender"][..])
        );
        assert!(names(RecordKind::Individual).len() >= 13);
        assert!(names(RecordKind::Group).starts_with(&["name", "group_type", "housing_type"]));
        assert_eq!(names(RecordKind::Group).last(), Some(&"_last_updated"));
        assert_eq!(names(RecordKind::Program), ["name", "_last_updated"]);
        let of_memberships = ["status", "enrollment_date", "exit_date", "_last_updated"];
        assert_eq!(names(RecordKind::ProgramMembership), of_memberships);
    }

    #[test]
    fn numbers_sort_like_their_values() {
        let days = [i32::MIN + 1, -62_091, -1, 0, 1, i32::MAX];
        assert!(days.map(number_of_day).is_sorted());
        let instants = [i64::MIN + 1, -1, 0, 1, i64::MAX - 1];
        assert!(instants.map(number_of_instant).is_sorted());
        // Two codes have ranks, in the reverse order of their numbers; the others come after them.
        assert!([1, 0, 2, 3, u32::MAX].map(|code| number_of_code(code, &[1, 0])).is_sorted());
    }
}

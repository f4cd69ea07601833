//! In which order a search gives its records, and where in it a page begins.
//!
//! **Invariant:** records that a key does not tell apart, those without a value among them, follow one another in the order in
//! which they were registered; those without a value come last, whichever way the others run.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::field::field_of_path;
use crate::record::{RecordId, RecordKind};
use crate::schema::{self, Field, Kind};
use crate::vocabulary::CodedField;

/// The most keys of one order.
pub const SORT_KEYS_MAX: usize = 5;
/// The longest beginning of a text that counts in an order, in bytes.
pub const SORT_TEXT_BYTES_MAX: usize = 128;

/// The part of a text that counts in an order; none, where the text is empty.
#[must_use]
pub fn sortable(text: &str) -> Option<&str> {
    let mut end = text.len().min(SORT_TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).filter(|text| !text.is_empty() && !text.starts_with('\0'))
}

/// A number that sorts as the day does, counted since 1970-01-01; never the least or the greatest.
#[must_use]
pub fn number_of_day(day: i32) -> u64 {
    u64::from(day.cast_unsigned() ^ (1 << 31)) + 1
}

/// A number that sorts as the instant does, in milliseconds since 1970-01-01; never the least or the greatest, for instants of the
/// calendar.
#[must_use]
pub fn number_of_instant(at_ms: i64) -> u64 {
    at_ms.cast_unsigned() ^ (1 << 63)
}

/// A number that sorts as codes of these places do: those without a place come last, by their number.
#[must_use]
pub fn number_of_code(code: u32, ranks: &[u32]) -> u64 {
    match ranks.get(code as usize) {
        Some(rank) => u64::from(*rank) + 1,
        None => u64::from(code) + (1 << 32),
    }
}

/// What records can be put in order by. Not every kind of record has each; [`sort_fields`] gives those of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortField {
    /// The name.
    Name,
    /// A day, by the name of its field.
    Date(&'static str),
    /// A word, such as the status of a membership, in the order of the alphabet; by the name of its field.
    Word(&'static str),
    /// A field that holds one code, by the code.
    Code(CodedField),
    /// When the record was last written.
    LastUpdated,
}

/// What records of a kind can be put in order by: the rows of the schema that say so, and when records were last written.
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
    /// The name in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Date(name) | Self::Word(name) => name,
            Self::Code(field) => field.path(),
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
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SortValue {
    /// Nothing.
    Missing,
    /// A number: days, milliseconds, the number of a code.
    Number(u64),
    /// The beginning of a text.
    Text(String),
}

opaque_debug!(SortValue);

/// A place between two records of an order. Its serialized form is for cursors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(sortable(""), None);
        let long = "é".repeat(SORT_TEXT_BYTES_MAX);
        assert_eq!(sortable(&long).map(str::len), Some(SORT_TEXT_BYTES_MAX));
        let odd = format!("a{long}");
        assert_eq!(sortable(&odd).map(str::len), Some(SORT_TEXT_BYTES_MAX - 1));
    }

    #[test]
    fn what_records_are_put_in_order_by_follows_from_the_schema() {
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
    fn numbers_sort_as_what_they_stand_for() {
        let days = [i32::MIN + 1, -62_091, -1, 0, 1, i32::MAX];
        assert!(days.map(number_of_day).is_sorted());
        let instants = [i64::MIN + 1, -1, 0, 1, i64::MAX - 1];
        assert!(instants.map(number_of_instant).is_sorted());
        // Two codes have places, the other way round than their numbers; the others come after them.
        assert!([1, 0, 2, 3, u32::MAX].map(|code| number_of_code(code, &[1, 0])).is_sorted());
    }
}

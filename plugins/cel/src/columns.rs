//! A batch that was validated against the rule's plan: every offset, bitmap and length is valid.
//!
//! **Invariant:** columns are in the order of the plan, so a column's number in the tree is its index here.
//! **Invariant:** reading never panics; a row that does not exist reads as a missing value.

mod validate;

pub use validate::{BatchFault, validate};

use crate::calendar::Day;
use crate::facts::FactSet;
use crate::schema::Space;
use crate::span::Span;
use crate::tree::ColumnId;
use crate::value::{Evaluated, FailureKind, List, Unknown, Value};
use std::borrow::Cow;
use std::ops::Range;

/// The columns of a batch, ready to be read.
#[derive(Debug)]
pub struct Columns {
    rows: u32,
    as_of: i32,
    today: Day,
    members: Option<Rows>,
    programs: Option<Rows>,
    columns: Vec<CheckedColumn>,
}

/// Consecutive rows of each owner, if known.
#[derive(Debug)]
pub(crate) struct Rows {
    /// One more than the number of owners.
    pub(crate) offsets: Vec<u32>,
    /// The owners whose rows are known.
    pub(crate) known: Bitmap,
}

/// A column with as many values as its domain has rows.
#[derive(Debug)]
pub(crate) struct CheckedColumn {
    /// The rows that have a value.
    pub(crate) valid: Bitmap,
    /// The values.
    pub(crate) values: CheckedValues,
    /// The facts that are missing for a row without a value.
    pub(crate) missing: FactSet,
}

/// The values of a column. Those of rows without a value are undefined.
#[derive(Debug)]
pub(crate) enum CheckedValues {
    Booleans(Vec<u8>),
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Days(Vec<i32>),
    Codes(Vec<u32>),
    Texts { offsets: Vec<u32>, text: String },
    Lists(Vec<u32>),
}

/// One bit per row; empty if every bit is set.
#[derive(Debug)]
pub(crate) struct Bitmap(Vec<u8>);

impl Bitmap {
    /// Its bytes, lowest bit first; empty if every bit is set.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if the bit of a row is set.
    pub(crate) fn has(&self, row: u32) -> bool {
        self.0.is_empty() || self.0.get(row as usize / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
    }
}

impl Rows {
    fn of(&self, owner: u32) -> Option<Range<u32>> {
        if self.known.has(owner) { range(&self.offsets, owner) } else { None }
    }
}

impl Columns {
    /// The number of subjects.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The day of the evaluation, in days since 1970-01-01.
    pub fn as_of(&self) -> i32 {
        self.as_of
    }

    /// The same as a calendar day.
    pub fn today(&self) -> Day {
        self.today
    }

    /// The members or memberships of a subject; none if unknown.
    pub fn children(&self, space: Space, subject: u32) -> Option<Range<u32>> {
        match space {
            Space::Me => Some(subject..subject + 1),
            Space::Members => self.members.as_ref()?.of(subject),
            Space::Programs => self.programs.as_ref()?.of(subject),
        }
    }

    /// All members or memberships, by subject; none if the rule does not read them.
    pub(crate) fn rows_of(&self, space: Space) -> Option<&Rows> {
        match space {
            Space::Me => None,
            Space::Members => self.members.as_ref(),
            Space::Programs => self.programs.as_ref(),
        }
    }

    /// A whole column.
    pub(crate) fn column(&self, column: ColumnId) -> Option<&CheckedColumn> {
        self.columns.get(column)
    }

    /// The row that has the list of an item, and the index of the item in it.
    pub fn owner_of_item(&self, list: ColumnId, item: u32) -> Option<(u32, u32)> {
        let CheckedValues::Lists(offsets) = &self.columns.get(list)?.values else { return None };
        let owner = offsets.partition_point(|offset| *offset <= item).checked_sub(1)?;
        Some((u32::try_from(owner).ok()?, item.checked_sub(*offsets.get(owner)?)?))
    }

    /// Reads the value of a row; a list has its items in the column `items`.
    pub fn read(&self, column: ColumnId, items: Option<ColumnId>, row: u32, at: Span) -> Evaluated<'_> {
        let Some(column) = self.columns.get(column) else {
            return Err(Unknown::failure(FailureKind::WrongType, at));
        };
        column.read(items, row).ok_or(Unknown::missing(column.missing))
    }
}

impl CheckedColumn {
    fn read(&self, items: Option<ColumnId>, row: u32) -> Option<Value<'_>> {
        if !self.valid.has(row) {
            return None;
        }
        let index = row as usize;
        Some(match &self.values {
            CheckedValues::Booleans(values) => Value::Boolean(*values.get(index)? != 0),
            CheckedValues::Integers(values) => Value::Integer(*values.get(index)?),
            CheckedValues::Numbers(values) => Value::Number(*values.get(index)?),
            CheckedValues::Days(values) => Value::Date(*values.get(index)?),
            CheckedValues::Codes(values) => Value::Code(*values.get(index)?),
            CheckedValues::Texts { offsets, text } => {
                let range = range(offsets, row)?;
                Value::Text(Cow::Borrowed(text.get(range.start as usize..range.end as usize)?))
            }
            CheckedValues::Lists(offsets) => {
                let range = range(offsets, row)?;
                Value::List(List::Rows { start: range.start, end: range.end, items })
            }
        })
    }
}

/// The range from the offset of `owner` to the next one.
fn range(offsets: &[u32], owner: u32) -> Option<Range<u32>> {
    let owner = owner as usize;
    Some(*offsets.get(owner)?..*offsets.get(owner + 1)?)
}

//! A batch as received from the host: columns of subjects, not validated yet.
//!
//! A *bitmap* has bit `i % 8` of byte `i / 8` for row `i`, the lowest bit first; an empty one has every bit set.

use crate::schema::Space;

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValues {
    /// 0 or 1.
    Booleans(Vec<u8>),
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Numbers with a fraction, never NaN.
    Numbers(Vec<f64>),
    /// Days since 1970-01-01.
    Days(Vec<i32>),
    /// Code numbers.
    Codes(Vec<u32>),
    /// Concatenated texts; text `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    Texts {
        /// One more than the number of rows.
        offsets: Vec<u32>,
        /// UTF-8.
        bytes: Vec<u8>,
    },
    /// Lists; the items of row `i` are the rows `offsets[i]..offsets[i + 1]` of the item columns.
    Lists(Vec<u32>),
}

/// One field of every row of its space.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The rows it belongs to.
    pub space: Space,
    /// The field's path, with `[]` for the items of a list.
    pub path: String,
    /// Bitmap of the rows that have a value.
    pub valid: Vec<u8>,
    /// The values.
    pub values: ColumnValues,
}

/// The rows of `members` or `programs` of each subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Children {
    /// One more than the number of subjects.
    pub offsets: Vec<u32>,
    /// Bitmap of the subjects whose rows are known.
    pub known: Vec<u8>,
}

/// Some subjects with the columns that a rule reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The day of the evaluation, in days since 1970-01-01.
    pub as_of: i32,
    /// The number of subjects.
    pub rows: u32,
    /// The members of the subjects; present if the rule reads `members`.
    pub members: Option<Children>,
    /// The program memberships of the subjects; present if the rule reads `programs`.
    pub programs: Option<Children>,
    /// The columns that the rule reads, and no others.
    pub columns: Vec<Column>,
}

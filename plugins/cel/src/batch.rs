//! A batch as the host sends it: columns of subjects, nothing of it believed yet.
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
    /// Texts laid end to end; text `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    Texts {
        /// One more than there are rows.
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
    /// Bitmap: which rows have a value.
    pub valid: Vec<u8>,
    /// The values.
    pub values: ColumnValues,
}

/// Which rows of `members` or `programs` belong to which subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Children {
    /// One more than there are subjects.
    pub offsets: Vec<u32>,
    /// Bitmap over the subjects: clear where it is not known who they are.
    pub known: Vec<u8>,
}

/// Some subjects with the columns that a rule reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The day on which the rule is asked, in days since 1970-01-01.
    pub as_of: i32,
    /// How many subjects.
    pub rows: u32,
    /// Whose members are whose; present when the rule reads `members`.
    pub members: Option<Children>,
    /// Whose program memberships are whose; present when the rule reads `programs`.
    pub programs: Option<Children>,
    /// The columns that the rule reads, and no others.
    pub columns: Vec<Column>,
}

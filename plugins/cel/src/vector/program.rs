//! Programs over columns: the parts of an expression, each with its frame of rows.
//!
//! A *frame* is a run of consecutive rows: frame 0 contains the subjects of a block, the others contain the items of
//! one list of every row of another frame. A part that does not depend on an item belongs to the outer frame and is
//! *lifted*: evaluated once there, and repeated for each item.

use super::Truth;
use super::days::DayRange;
use crate::leaf::Conversion;
use crate::schema::Space;
use crate::tree::{CodePart, ColumnId, Comparison, Node, Operator, TextTest};

/// The number of a frame of a program.
pub type FrameId = usize;

/// A compiled expression.
#[derive(Debug)]
pub struct Program<'a> {
    /// The test of each subject.
    pub test: Test<'a>,
    /// The outer frame of each frame; that of frame 0 is itself.
    pub parents: Vec<FrameId>,
    /// True if any part needs the row evaluator.
    pub has_rows: bool,
}

/// A boolean part.
#[derive(Debug)]
pub enum Test<'a> {
    /// The same for all rows.
    Constant(Truth),
    /// A column of truths.
    Booleans(ColumnId),
    /// `!`
    Not(Box<Test<'a>>),
    /// `&&` of any number of operands.
    All(Vec<Test<'a>>),
    /// `||` of any number of operands.
    Any(Vec<Test<'a>>),
    /// A comparison of two values.
    Compare(Comparison, Box<Value<'a>>, Box<Value<'a>>),
    /// True if a value is between the second and the third.
    Between(Box<Value<'a>>, Box<Value<'a>>, Box<Value<'a>>),
    /// A comparison of two truths.
    CompareTruths(Comparison, Box<Test<'a>>, Box<Test<'a>>),
    /// True if a day is in a range.
    Days(Box<Value<'a>>, DayRange),
    /// True if a code is in a truth table of the host.
    Among(Box<Value<'a>>, &'a [u8]),
    /// True if any of these columns has a value.
    Recorded(Vec<ColumnId>),
    /// True if a date of death is neither recorded nor reached.
    Alive(ColumnId),
    /// A test of two texts.
    Text(TextTest, Box<Value<'a>>, Box<Value<'a>>),
    /// True if a value is one of these.
    In(Box<Value<'a>>, Vec<Value<'a>>),
    /// True if a value is an item of a list, whose items are that column.
    InItems(Box<Value<'a>>, ListOf<'a>, ColumnId),
    /// `?:`
    Choice(Box<Test<'a>>, Box<Test<'a>>, Box<Test<'a>>),
    /// True if it holds for any item.
    Exists(ListOf<'a>, Box<Test<'a>>),
    /// True if it holds for every item.
    Every(ListOf<'a>, Box<Test<'a>>),
    /// True if it holds for exactly one item.
    One(ListOf<'a>, Box<Test<'a>>),
    /// A part of an outer frame.
    Lifted(FrameId, Box<Test<'a>>),
    /// A part about subjects that only the row evaluator supports.
    ByRow(&'a Node),
}

/// A part that is a value.
#[derive(Debug)]
pub enum Value<'a> {
    /// The same for all rows.
    Constant(Scalar<'a>),
    /// The values of a column.
    Column(ColumnId),
    /// A text of a code.
    CodeText(CodePart, Box<Value<'a>>),
    /// `+` and similar on numbers of one kind.
    Arithmetic(Operator, Box<Value<'a>>, Box<Value<'a>>),
    /// `-` before a number.
    Negate(Box<Value<'a>>),
    /// Whole years from a day to the day of the evaluation.
    Age(Box<Value<'a>>),
    /// Days from a day to the day of the evaluation.
    DaysSince(Box<Value<'a>>),
    /// A day from a text.
    ParseDate(Box<Value<'a>>),
    /// The number of items of a list.
    Size(ListOf<'a>),
    /// The number of characters of a text.
    Length(Box<Value<'a>>),
    /// A whole number converted to one with a fraction.
    ToNumber(Box<Value<'a>>),
    /// A conversion to a whole number, by the crate.
    ToInteger(Conversion, Box<Value<'a>>),
    /// `?:`
    Choice(Box<Test<'a>>, Box<Value<'a>>, Box<Value<'a>>),
    /// A part of an outer frame.
    Lifted(FrameId, Box<Value<'a>>),
}

/// A value that is the same for all rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// Days since 1970-01-01.
    Day(i32),
    /// The number of a code.
    Code(u32),
    /// Text.
    Text(&'a str),
}

/// One list of every row of a frame.
#[derive(Debug)]
pub struct ListOf<'a> {
    /// The frame of the rows that have the lists.
    pub owner: FrameId,
    /// The frame of their items.
    pub items: FrameId,
    /// The source of the lists.
    pub source: Source,
    /// The filters of the items, applied in order.
    pub keep: Vec<Test<'a>>,
}

/// The source of lists in a batch.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The members or memberships of the subjects.
    Rows(Space),
    /// A list column.
    Column(ColumnId),
}

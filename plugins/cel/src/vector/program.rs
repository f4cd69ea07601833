//! What is run over columns: the parts of an expression, each at the frame of rows that it is about.
//!
//! A *frame* is a run of consecutive rows: frame 0 are the subjects of a block, the others are the items of one list of every row of
//! another frame. A part that says nothing about an item stands at the frame outside and is *lifted*: found once there, and
//! repeated for each item.

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
    /// What is asked of each subject.
    pub test: Test<'a>,
    /// Of each frame the one outside of it; frame 0 is its own.
    pub parents: Vec<FrameId>,
    /// Whether any part needs the row evaluator.
    pub has_rows: bool,
}

/// A part that is true or false.
#[derive(Debug)]
pub enum Test<'a> {
    /// The same for all rows.
    Constant(Truth),
    /// A column of truths.
    Booleans(ColumnId),
    /// `!`
    Not(Box<Test<'a>>),
    /// `&&`, of any number.
    All(Vec<Test<'a>>),
    /// `||`, of any number.
    Any(Vec<Test<'a>>),
    /// A comparison of two values.
    Compare(Comparison, Box<Value<'a>>, Box<Value<'a>>),
    /// Whether a value is neither below the second nor above the third.
    Between(Box<Value<'a>>, Box<Value<'a>>, Box<Value<'a>>),
    /// A comparison of two truths.
    CompareTruths(Comparison, Box<Test<'a>>, Box<Test<'a>>),
    /// Whether a day is in a range.
    Days(Box<Value<'a>>, DayRange),
    /// Whether a code is in a truth table of the host.
    Among(Box<Value<'a>>, &'a [u8]),
    /// Whether any of these columns has a value.
    Recorded(Vec<ColumnId>),
    /// Whether a date of death is neither recorded nor reached.
    Alive(ColumnId),
    /// A test of two texts.
    Text(TextTest, Box<Value<'a>>, Box<Value<'a>>),
    /// Whether a value is one of these.
    In(Box<Value<'a>>, Vec<Value<'a>>),
    /// Whether a value is an item of a list, whose items are that column.
    InItems(Box<Value<'a>>, ListOf<'a>, ColumnId),
    /// `?:`
    Choice(Box<Test<'a>>, Box<Test<'a>>, Box<Test<'a>>),
    /// Whether it holds for any item.
    Exists(ListOf<'a>, Box<Test<'a>>),
    /// Whether it holds for every item.
    Every(ListOf<'a>, Box<Test<'a>>),
    /// Whether it holds for exactly one item.
    One(ListOf<'a>, Box<Test<'a>>),
    /// A part about that outer frame.
    Lifted(FrameId, Box<Test<'a>>),
    /// A part of subjects that only the row evaluator can do.
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
    /// `+` and its like on numbers of one kind.
    Arithmetic(Operator, Box<Value<'a>>, Box<Value<'a>>),
    /// `-` before a number.
    Negate(Box<Value<'a>>),
    /// Whole years from a day to the day of asking.
    Age(Box<Value<'a>>),
    /// Days from a day to the day of asking.
    DaysSince(Box<Value<'a>>),
    /// A day from a text.
    ParseDate(Box<Value<'a>>),
    /// How many items a list has.
    Size(ListOf<'a>),
    /// How many characters a text has.
    Length(Box<Value<'a>>),
    /// A whole number as one with a fraction.
    ToNumber(Box<Value<'a>>),
    /// A conversion to a whole number, by the crate.
    ToInteger(Conversion, Box<Value<'a>>),
    /// `?:`
    Choice(Box<Test<'a>>, Box<Value<'a>>, Box<Value<'a>>),
    /// A part about that outer frame.
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
    /// Where the lists stand.
    pub source: Source,
    /// What an item must pass to be in the list, by one `filter` after another.
    pub keep: Vec<Test<'a>>,
}

/// Where lists stand in a batch.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The members or memberships of the subjects.
    Rows(Space),
    /// A list column.
    Column(ColumnId),
}

//! The checked expression: every name resolved to a column, a question or a variable, every type known.
//!
//! **Invariant:** a tree that the checker made is well typed: each operand has the type that its operation takes.
//! **Invariant:** the tree holds nothing of how it is evaluated, so a row-by-row and a column-by-column evaluator share it.

mod types;

pub use self::types::{OtherType, RecordType, Type};
use crate::foreign::Operation;
use crate::leaf::{Conversion, Matcher};
use crate::schema::Space;
use crate::span::Span;
use crate::value::FailureKind;
use std::cmp::Ordering;

/// The number of a column of the rule's [`Plan`](crate::plan::Plan).
pub type ColumnId = usize;
/// The number of a question of the rule's plan.
pub type QuestionId = usize;
/// The number of a variable: 0 is `me`, the others are those of the comprehensions around, from the outside in.
pub type VariableId = usize;

/// Which rows a column has values for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// One for each row of that space.
    Space(Space),
    /// One for each item of that list column.
    Items(ColumnId),
}

/// One part of a checked expression.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub kind: Kind,
    /// The type of its value.
    pub value: Type,
    /// All of its text.
    pub span: Span,
    /// Where it fails when it fails: its operator or function name.
    pub at: Span,
}

impl Node {
    /// The parts that it is made of, in the order in which they are written; of a comprehension only its list.
    pub fn operands(&self) -> Vec<&Node> {
        match &self.kind {
            Kind::Constant(_) | Kind::AsOf | Kind::Code(_) | Kind::Variable(_) | Kind::Rows(_) | Kind::Failure(_) => {
                Vec::new()
            }
            Kind::IsRecorded(operands) | Kind::List(operands) | Kind::Foreign(_, operands) => operands.iter().collect(),
            Kind::Field { record: operand, .. }
            | Kind::CodeText(_, operand)
            | Kind::Not(operand)
            | Kind::Negate(operand)
            | Kind::IsAmong(operand, _)
            | Kind::IsAlive(operand)
            | Kind::AgeYears(operand)
            | Kind::DaysSince(operand)
            | Kind::ParseDate(operand)
            | Kind::Size(operand)
            | Kind::Convert(_, operand)
            | Kind::Midnight(operand)
            | Kind::WrittenDate(operand)
            | Kind::Optional(operand)
            | Kind::Bind { value: operand, .. }
            | Kind::Comprehension { list: operand, .. } => vec![operand],
            Kind::And(left, right)
            | Kind::Or(left, right)
            | Kind::Compare(_, left, right)
            | Kind::Arithmetic(_, left, right)
            | Kind::In(left, right)
            | Kind::Index(left, right)
            | Kind::TestText(_, left, right) => vec![left, right],
            Kind::Conditional(first, second, third) | Kind::Between(first, second, third) => vec![first, second, third],
        }
    }
}

/// A value written out in the expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// A text.
    Text(String),
    /// `date('…')`, in days since 1970-01-01.
    Date(i32),
}

/// What a node does. Operands are boxed in the order in which they are written.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A value written out in the expression.
    Constant(Constant),
    /// The day on which the rule is asked.
    AsOf,
    /// The number of the code that a question asks for.
    Code(QuestionId),
    /// The value of a variable.
    Variable(VariableId),
    /// The members or memberships of the subject.
    Rows(Space),
    /// A field of a record.
    Field {
        /// The record.
        record: Box<Node>,
        /// The field's column.
        column: ColumnId,
        /// For a repeated field of plain values, the column of its items.
        items: Option<ColumnId>,
    },
    /// Whether any of these values is recorded; never undetermined.
    IsRecorded(Vec<Node>),
    /// A text of a code.
    CodeText(CodePart, Box<Node>),
    /// `!`
    Not(Box<Node>),
    /// `&&`
    And(Box<Node>, Box<Node>),
    /// `||`
    Or(Box<Node>, Box<Node>),
    /// `?:`
    Conditional(Box<Node>, Box<Node>, Box<Node>),
    /// `==` and its like.
    Compare(Comparison, Box<Node>, Box<Node>),
    /// `between(x, low, high)`, both ends included.
    Between(Box<Node>, Box<Node>, Box<Node>),
    /// `+` and its like on numbers, texts and lists.
    Arithmetic(Operator, Box<Node>, Box<Node>),
    /// `-` before a number.
    Negate(Box<Node>),
    /// `x in list`
    In(Box<Node>, Box<Node>),
    /// Whether a code is among those that a question asks for.
    IsAmong(Box<Node>, QuestionId),
    /// Whether a date of death is neither recorded nor reached yet.
    IsAlive(Box<Node>),
    /// Whole years from a date to the day on which the rule is asked.
    AgeYears(Box<Node>),
    /// Days from a date to the day on which the rule is asked.
    DaysSince(Box<Node>),
    /// A date from a text.
    ParseDate(Box<Node>),
    /// A list written out.
    List(Vec<Node>),
    /// `list[i]`
    Index(Box<Node>, Box<Node>),
    /// The length of a list or text.
    Size(Box<Node>),
    /// `list.exists(x, …)` and its like.
    Comprehension {
        /// What is done with the items.
        quantifier: Quantifier,
        /// The list.
        list: Box<Node>,
        /// The number of its variable.
        variable: VariableId,
        /// Whether another variable stands before it, for the number of the item or the key of the entry.
        is_indexed: bool,
        /// Which items are asked for at all; all of them, where absent.
        keep: Option<Box<Node>>,
        /// What is asked of each item, or made of it.
        body: Box<Node>,
    },
    /// `cel.bind(x, value, body)`
    Bind {
        /// What the variable stands for.
        value: Box<Node>,
        /// The number of the variable.
        variable: VariableId,
        /// What is made with it.
        body: Box<Node>,
    },
    /// What fails whenever it is asked for.
    Failure(FailureKind),
    /// An operation that the crate does, once all operands are known.
    Foreign(Operation, Vec<Node>),
    /// The instant with which a day begins, in UTC.
    Midnight(Box<Node>),
    /// A day as a text.
    WrittenDate(Box<Node>),
    /// A field that may not be recorded, as an optional value; never missing.
    Optional(Box<Node>),
    /// A test of two texts.
    TestText(TextTest, Box<Node>, Box<Node>),
    /// A conversion, by the crate.
    Convert(Conversion, Box<Node>),
}

/// What of a code is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodePart {
    /// `.code`
    Code,
    /// `.uri`
    Uri,
    /// `.display`
    Display,
    /// `.namespace`
    Namespace,
}

/// A comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// Whether it holds for two values in that order; values without one are unequal and nothing else.
    pub fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::NotEqual => order != Some(Ordering::Equal),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }

    /// The one that holds of two values as this one does of the same two the other way round.
    pub fn turned(self) -> Self {
        match self {
            Comparison::Equal => Comparison::Equal,
            Comparison::NotEqual => Comparison::NotEqual,
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        }
    }
}

/// An operator that makes a value of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
}

/// What a comprehension does with the items of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// Whether it holds for any item.
    Exists,
    /// Whether it holds for every item.
    All,
    /// Whether it holds for exactly one item.
    ExistsOne,
    /// The items for which it holds.
    Filter,
    /// What is made of each item.
    Map,
    /// A map of what is made of each item, by its number or key.
    TransformMap,
    /// A map of the entries that are made of each item.
    TransformMapEntry,
}

/// A test of two texts.
#[derive(Clone, Copy, Debug)]
pub enum TextTest {
    /// Whether the second is in the first.
    Contains,
    /// Whether the first begins with the second.
    StartsWith,
    /// Whether the first ends with the second.
    EndsWith,
    /// Whether the regular expression in the second matches anywhere in the first.
    Matches(Matcher),
}

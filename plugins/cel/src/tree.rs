//! The checked expression: every name resolved to a column, a question or a variable, every type known.
//!
//! **Invariant:** the tree is well typed: each operand has the type that its operation requires.
//! **Invariant:** the tree is independent of the evaluation strategy: the row and the column evaluator share it.

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
/// The number of a variable: 0 is `me`, the others are those of the enclosing comprehensions, outermost first.
pub type VariableId = usize;

/// The rows for which a column has values.
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
    /// Its operation.
    pub kind: Kind,
    /// The type of its value.
    pub value: Type,
    /// All of its text.
    pub span: Span,
    /// The position of its failures: its operator or function name.
    pub at: Span,
}

impl Node {
    /// The operands, in text order; of a comprehension only its list.
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

/// A constant.
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

/// The operation of a node. Operands are boxed in text order.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A constant.
    Constant(Constant),
    /// The day of the evaluation.
    AsOf,
    /// The number of the code of a question.
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
    /// True if any of these values is recorded; never undetermined.
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
    /// `==` and similar.
    Compare(Comparison, Box<Node>, Box<Node>),
    /// `between(x, low, high)`, both ends included.
    Between(Box<Node>, Box<Node>, Box<Node>),
    /// `+` and similar on numbers, texts and lists.
    Arithmetic(Operator, Box<Node>, Box<Node>),
    /// `-` before a number.
    Negate(Box<Node>),
    /// `x in list`
    In(Box<Node>, Box<Node>),
    /// True if a code is in the answer to a question.
    IsAmong(Box<Node>, QuestionId),
    /// True if a date of death is neither recorded nor reached yet.
    IsAlive(Box<Node>),
    /// Whole years from a date to the day of the evaluation.
    AgeYears(Box<Node>),
    /// Days from a date to the day of the evaluation.
    DaysSince(Box<Node>),
    /// A date from a text.
    ParseDate(Box<Node>),
    /// A list literal.
    List(Vec<Node>),
    /// `list[i]`
    Index(Box<Node>, Box<Node>),
    /// The length of a list or text.
    Size(Box<Node>),
    /// `list.exists(x, …)` and similar.
    Comprehension {
        /// The operation on the items.
        quantifier: Quantifier,
        /// The list.
        list: Box<Node>,
        /// The number of its variable.
        variable: VariableId,
        /// True if another variable precedes it, for the index of the item or the key of the entry.
        is_indexed: bool,
        /// The filter of the items; none for all items.
        keep: Option<Box<Node>>,
        /// The expression evaluated for each item.
        body: Box<Node>,
    },
    /// `cel.bind(x, value, body)`
    Bind {
        /// The value of the variable.
        value: Box<Node>,
        /// The number of the variable.
        variable: VariableId,
        /// The expression with the variable.
        body: Box<Node>,
    },
    /// A failure at evaluation.
    Failure(FailureKind),
    /// An operation of the crate, once all operands are known.
    Foreign(Operation, Vec<Node>),
    /// The start of a day in UTC.
    Midnight(Box<Node>),
    /// A day as a text.
    WrittenDate(Box<Node>),
    /// A field that may be missing, as an optional value; missing itself only if its record is unknown.
    Optional(Box<Node>),
    /// A test of two texts.
    TestText(TextTest, Box<Node>, Box<Node>),
    /// A conversion, by the crate.
    Convert(Conversion, Box<Node>),
}

/// The text of a code that is read.
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
    /// Returns true if it holds for two values in that order; values without an order are only unequal.
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

    /// The comparison with swapped operands.
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

/// A binary operator.
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

/// The operation of a comprehension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// True if any item matches.
    Exists,
    /// True if all items match.
    All,
    /// True if exactly one item matches.
    ExistsOne,
    /// The matching items.
    Filter,
    /// The results of all items.
    Map,
    /// A map of the results of all items, by index or key.
    TransformMap,
    /// A map of the entries of all items.
    TransformMapEntry,
}

/// A test of two texts.
#[derive(Clone, Copy, Debug)]
pub enum TextTest {
    /// The first contains the second.
    Contains,
    /// The first starts with the second.
    StartsWith,
    /// The first ends with the second.
    EndsWith,
    /// The regular expression in the second matches anywhere in the first.
    Matches(Matcher),
}

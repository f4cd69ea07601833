//! Evaluates a checked expression row by row, with three-valued logic.
//!
//! Every part is evaluated to a value or to the reasons why it is unknown. Logic follows Kleene and is commutative; all
//! other operations need all operands and unite the reasons of the unknown ones.
//!
//! **Invariant:** an error is never a result and never hides one: it propagates like a missing fact, so `false &&
//! error` is false, and a row that depends on it is undetermined. A row may have both missing facts and an error.
//!
//! **Invariant:** evaluating never panics. Cases that the checker excludes are `wrong_type` failures here.

mod arithmetic;
mod compare;
mod explain;
mod foreign;
mod lists;

use crate::bind::Bindings;
use crate::calendar;
use crate::columns::Columns;
use crate::facts::{Fact, FactSet};
use crate::foreign::CrateValue;
use crate::limits::{LIST_ITEMS_MAX, TEXT_BYTES_MAX};
use crate::schema::Space;
use crate::span::Span;
use crate::tree::{CodePart, Constant, Kind, Node, TextTest, Type};
use crate::value::{Evaluated, FailureKind, List, Truth, Unknown, Value, and, both, or};
use lists::Body;
use std::borrow::Cow;

/// A limit that a rule exceeded during the evaluation; the batch has no outcomes then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// A text built by the rule is too long.
    TextBytes,
    /// A list built by the rule is too long.
    ListItems,
}

impl Budget {
    /// The size of the budget.
    pub fn size(self) -> usize {
        match self {
            Budget::TextBytes => TEXT_BYTES_MAX,
            Budget::ListItems => LIST_ITEMS_MAX,
        }
    }

    /// The stable name shown to clients.
    pub fn name(self) -> &'static str {
        match self {
            Budget::TextBytes => "text_bytes",
            Budget::ListItems => "list_items",
        }
    }
}

/// Evaluates one rule over one batch.
pub struct Evaluator<'a> {
    bindings: &'a Bindings,
    columns: &'a Columns,
    /// `me` and the variables of the enclosing comprehensions, by number.
    variables: Vec<Evaluated<'a>>,
    exhausted: Option<Budget>,
}

impl<'a> Evaluator<'a> {
    /// Creates an evaluator of the rows of `columns`.
    pub fn new(bindings: &'a Bindings, columns: &'a Columns) -> Self {
        Self { bindings, columns, variables: Vec::new(), exhausted: None }
    }

    /// Evaluates the rule for one subject.
    ///
    /// # Errors
    ///
    /// The rule exceeds a budget.
    pub fn verdict(&mut self, tree: &'a Node, subject: u32) -> Result<Truth, Budget> {
        self.variables.clear();
        self.variables.push(Ok(Value::Row(subject)));
        self.exhausted = None;
        let verdict = self.truth(tree);
        self.exhausted.map_or(Ok(verdict), Err)
    }

    /// The value of an expression of any type, as a value of the crate.
    ///
    /// # Errors
    ///
    /// The expression exceeds a budget.
    pub fn value(&mut self, tree: &'a Node, subject: u32) -> Result<Result<CrateValue, Unknown>, Budget> {
        self.variables.clear();
        self.variables.push(Ok(Value::Row(subject)));
        let value = self.evaluate(tree).and_then(|value| self.to_crate(value, tree.at));
        self.exhausted.map_or(Ok(value), Err)
    }

    fn evaluate(&mut self, node: &'a Node) -> Evaluated<'a> {
        match &node.kind {
            Kind::Constant(constant) => Ok(written(constant)),
            Kind::AsOf => Ok(Value::Date(self.columns.as_of())),
            Kind::Code(question) => self.bindings.number(*question).map(Value::Code).ok_or_else(|| wrong_type(node.at)),
            Kind::Variable(number) => self.variables.get(*number).cloned().unwrap_or_else(|| Err(wrong_type(node.at))),
            Kind::Rows(space) => self.rows(*space, node.at),
            Kind::Field { record, column, items } => {
                let row = self.row(record)?;
                self.columns.read(*column, *items, row, node.at)
            }
            Kind::CodeText(part, code) => self.code_text(*part, code, node.at),
            Kind::Conditional(condition, then, otherwise) => self.conditional(condition, then, otherwise, node.at),
            Kind::Arithmetic(operator, left, right) => {
                let (left, right) = both(self.evaluate(left), self.evaluate(right))?;
                self.arithmetic(*operator, left, right, node.at)
            }
            Kind::Negate(operand) => arithmetic::negate(self.evaluate(operand)?, node.at),
            Kind::AgeYears(date) => {
                let born = calendar::Day::from_number(self.date(date)?);
                Ok(Value::Integer(born.years_until(self.columns.today())))
            }
            Kind::DaysSince(date) => {
                let days = i64::from(self.columns.as_of()) - i64::from(self.date(date)?);
                Ok(Value::Integer(days))
            }
            Kind::ParseDate(text) => match self.evaluate(text)? {
                Value::Text(text) => calendar::parse_date(&text)
                    .map(Value::Date)
                    .ok_or_else(|| Unknown::failure(FailureKind::InvalidConversion, node.at)),
                _ => Err(wrong_type(node.at)),
            },
            Kind::List(elements) => self.list(elements),
            Kind::Index(list, index) => self.index(list, index, node.at),
            Kind::Size(operand) => self.size(operand, node.at),
            Kind::Comprehension { quantifier, list, is_indexed, keep, body, variable: _ } => {
                let body = Body { is_indexed: *is_indexed, keep: keep.as_deref(), body };
                self.comprehension(*quantifier, list, &body)
            }
            Kind::Bind { value, body, variable: _ } => {
                let value = self.evaluate(value);
                self.variables.push(value);
                let bound = self.evaluate(body);
                self.variables.pop();
                bound
            }
            Kind::Failure(kind) => Err(Unknown::failure(*kind, node.at)),
            Kind::Foreign(operation, operands) => self.foreign(operation, operands, node.at),
            Kind::Midnight(date) => Ok(Value::Integer(i64::from(self.date(date)?) * calendar::DAY_SECONDS)),
            Kind::WrittenDate(date) => {
                let day = calendar::Day::from_number(self.date(date)?);
                Ok(Value::Text(Cow::Owned(day.to_string())))
            }
            Kind::Optional(field) => self.optional(field),
            Kind::Convert(conversion, operand) => {
                let operand = self.evaluate(operand)?;
                conversion.apply(&operand).ok_or_else(|| Unknown::failure(FailureKind::InvalidConversion, node.at))
            }
            Kind::IsRecorded(_)
            | Kind::Not(_)
            | Kind::And(..)
            | Kind::Or(..)
            | Kind::Compare(..)
            | Kind::Between(..)
            | Kind::In(..)
            | Kind::IsAmong(..)
            | Kind::IsAlive(_)
            | Kind::TestText(..) => self.truth(node).map(Value::Boolean),
        }
    }

    /// Evaluates a boolean part.
    fn truth(&mut self, node: &'a Node) -> Truth {
        match &node.kind {
            Kind::IsRecorded(fields) => Ok(fields.iter().any(|field| self.evaluate(field).is_ok())),
            Kind::Not(operand) => self.truth(operand).map(|truth| !truth),
            Kind::And(left, right) => match self.truth(left) {
                Ok(false) => Ok(false),
                left => and(left, self.truth(right)),
            },
            Kind::Or(left, right) => match self.truth(left) {
                Ok(true) => Ok(true),
                left => or(left, self.truth(right)),
            },
            Kind::Compare(comparison, left, right) => self.compare(*comparison, left, right, node.at),
            Kind::Between(value, low, high) => self.between(value, low, high, node.at),
            Kind::In(item, list) => self.is_in(item, list, node.at),
            Kind::IsAmong(code, question) => match self.evaluate(code)? {
                Value::Code(number) => self.bindings.is_in_set(*question, number, origin(code)),
                _ => Err(wrong_type(node.at)),
            },
            Kind::IsAlive(date) => self.is_alive(date, node.at),
            Kind::TestText(test, text, argument) => {
                let operands = both(self.evaluate(text), self.evaluate(argument))?;
                test_text(*test, &operands, node.at)
            }
            _ => match self.evaluate(node)? {
                Value::Boolean(truth) => Ok(truth),
                _ => Err(wrong_type(node.at)),
            },
        }
    }

    fn row(&mut self, record: &'a Node) -> Result<u32, Unknown> {
        match self.evaluate(record)? {
            Value::Row(row) => Ok(row),
            _ => Err(wrong_type(record.at)),
        }
    }

    fn date(&mut self, node: &'a Node) -> Result<i32, Unknown> {
        match self.evaluate(node)? {
            Value::Date(days) => Ok(days),
            _ => Err(wrong_type(node.at)),
        }
    }

    fn rows(&self, space: Space, at: Span) -> Evaluated<'a> {
        let Some(Ok(Value::Row(subject))) = self.variables.first() else { return Err(wrong_type(at)) };
        match self.columns.children(space, *subject) {
            Some(rows) => Ok(Value::List(List::Rows { start: rows.start, end: rows.end, items: None })),
            None => Err(Unknown::missing(match space {
                Space::Me => FactSet::EMPTY,
                Space::Members => FactSet::of(Fact::Members),
                Space::Programs => FactSet::of(Fact::Programs),
            })),
        }
    }

    fn code_text(&mut self, part: CodePart, code: &'a Node, at: Span) -> Evaluated<'a> {
        let Value::Code(number) = self.evaluate(code)? else { return Err(wrong_type(at)) };
        let Some(texts) = self.bindings.texts(number) else {
            return Err(Unknown::failure(FailureKind::UnknownCode, at));
        };
        Ok(Value::Text(Cow::Borrowed(texts.part(part))))
    }

    /// If the condition is unknown, the result is known only if both branches agree.
    fn conditional(&mut self, condition: &'a Node, then: &'a Node, otherwise: &'a Node, at: Span) -> Evaluated<'a> {
        let doubt = match self.truth(condition) {
            Ok(true) => return self.evaluate(then),
            Ok(false) => return self.evaluate(otherwise),
            Err(doubt) if doubt.error.is_some() => return Err(doubt),
            Err(doubt) => doubt,
        };
        let (then, otherwise) =
            both(self.evaluate(then), self.evaluate(otherwise)).map_err(|reasons| doubt.union(reasons))?;
        match self.is_equal(&then, &otherwise, at) {
            Ok(true) => Ok(then),
            Ok(false) => Err(doubt),
            Err(reasons) => Err(doubt.union(reasons)),
        }
    }

    /// A missing date of death means that the person is alive.
    fn is_alive(&mut self, date: &'a Node, at: Span) -> Truth {
        let Kind::Field { record, column, items } = &date.kind else { return Err(wrong_type(at)) };
        let row = self.row(record)?;
        match self.columns.read(*column, *items, row, at) {
            Ok(Value::Date(deceased)) => Ok(deceased > self.columns.as_of()),
            Ok(_) => Err(wrong_type(at)),
            Err(_) => Ok(true),
        }
    }

    /// Stops the batch because the rule exceeds a budget.
    fn exhaust(&mut self, budget: Budget) -> Unknown {
        self.exhausted.get_or_insert(budget);
        Unknown::default()
    }
}

fn written(constant: &Constant) -> Value<'_> {
    match constant {
        Constant::Boolean(boolean) => Value::Boolean(*boolean),
        Constant::Integer(integer) => Value::Integer(*integer),
        Constant::Number(number) => Value::Number(*number),
        Constant::Text(text) => Value::Text(Cow::Borrowed(text)),
        Constant::Date(days) => Value::Date(*days),
    }
}

fn test_text(test: TextTest, operands: &(Value<'_>, Value<'_>), at: Span) -> Truth {
    let (Value::Text(text), Value::Text(argument)) = operands else { return Err(wrong_type(at)) };
    match test {
        TextTest::Contains => Ok(text.contains(argument.as_ref())),
        TextTest::StartsWith => Ok(text.starts_with(argument.as_ref())),
        TextTest::EndsWith => Ok(text.ends_with(argument.as_ref())),
        TextTest::Matches(matcher) => {
            matcher.matches(text, argument).ok_or_else(|| Unknown::failure(FailureKind::InvalidPattern, at))
        }
    }
}

/// The fields from which a code may have been read.
fn origin(code: &Node) -> FactSet {
    match &code.value {
        Type::Coded(fields) => *fields,
        _ => FactSet::EMPTY,
    }
}

fn wrong_type(at: Span) -> Unknown {
    Unknown::failure(FailureKind::WrongType, at)
}

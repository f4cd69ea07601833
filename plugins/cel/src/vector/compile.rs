//! Compiles the checked tree to a program over columns, with the day of the evaluation and the host's answers as
//! constants.
//!
//! Unsupported parts are left to the row evaluator: the smallest enclosing boolean part about a subject. A part that
//! may exceed a budget keeps its position among the operands of `&&` and `||`; other such parts are moved last, so that
//! they are evaluated only for undecided subjects.

mod days;
mod lists;
mod values;

use super::program::{FrameId, Program, Test, Value};
use super::{NO, YES};
use crate::bind::Bindings;
use crate::columns::Columns;
use crate::tree::{ColumnId, Comparison, Constant, Kind, Node, Operator, Quantifier, TextTest, Type};

/// Compiles an expression; none if the row evaluator is needed for all of it.
pub fn compile<'a>(tree: &'a Node, bindings: &'a Bindings, columns: &'a Columns) -> Option<Program<'a>> {
    let as_of = columns.as_of();
    let mut compiler = Compiler { bindings, as_of, scope: vec![Name::Row(0)], parents: vec![0], has_rows: false };
    let test = compiler.by_columns(tree)?;
    let test = lifted_test(test, Some(0));
    Some(Program { test, parents: compiler.parents, has_rows: compiler.has_rows })
}

/// A part with its frame; none if it is the same for all rows.
struct Placed<T> {
    part: T,
    frame: Option<FrameId>,
}

/// The meaning of a variable.
#[derive(Clone, Copy)]
enum Name {
    /// A row of that frame.
    Row(FrameId),
    /// A value of that column, whose rows are that frame.
    Item(FrameId, ColumnId),
}

struct Compiler<'a> {
    bindings: &'a Bindings,
    as_of: i32,
    /// The variables, by number.
    scope: Vec<Name>,
    /// The outer frame of each frame.
    parents: Vec<FrameId>,
    has_rows: bool,
}

impl<'a> Compiler<'a> {
    /// Compiles a boolean part; always succeeds for subjects, and fails for items if columns cannot evaluate it.
    fn test(&mut self, node: &'a Node) -> Option<Placed<Test<'a>>> {
        if let Some(test) = self.by_columns(node) {
            return Some(test);
        }
        let is_of_subjects = self.scope.len() == 1;
        is_of_subjects.then(|| {
            self.has_rows = true;
            Placed { part: Test::ByRow(node), frame: Some(0) }
        })
    }

    fn by_columns(&mut self, node: &'a Node) -> Option<Placed<Test<'a>>> {
        match &node.kind {
            Kind::Constant(Constant::Boolean(truth)) => {
                Some(Placed { part: Test::Constant(if *truth { YES } else { NO }), frame: None })
            }
            Kind::Variable(_) | Kind::Field { .. } if node.value == Type::Boolean => {
                let Placed { part, frame } = self.column(node)?;
                Some(Placed { part: Test::Booleans(part), frame })
            }
            Kind::Not(operand) => {
                let Placed { part, frame } = self.test(operand)?;
                Some(Placed { part: Test::Not(Box::new(part)), frame })
            }
            Kind::And(left, right) => self.chain(left, right, true),
            Kind::Or(left, right) => self.chain(left, right, false),
            Kind::Conditional(condition, then, otherwise) if node.value == Type::Boolean => {
                let (condition, then) = (self.test(condition)?, self.test(then)?);
                let otherwise = self.test(otherwise)?;
                let frame = self.innermost([condition.frame, then.frame, otherwise.frame])?;
                let [condition, then, otherwise] =
                    [condition, then, otherwise].map(|test| Box::new(lifted_test(test, frame)));
                Some(Placed { part: Test::Choice(condition, then, otherwise), frame })
            }
            Kind::Compare(comparison, left, right) => self.comparison(*comparison, left, right),
            Kind::Between(value, low, high) => self.between(value, low, high),
            Kind::In(item, list) => self.is_in(item, list),
            Kind::IsAmong(code, question) => {
                let Placed { part, frame } = self.value(code)?;
                let table = self.bindings.truths(*question)?;
                // If the question rather than the field is missing, the row evaluator reports it.
                Some(Placed { part: Test::Among(Box::new(part), table), frame })
            }
            Kind::IsAlive(date) => {
                let Placed { part, frame } = self.column(date)?;
                Some(Placed { part: Test::Alive(part), frame })
            }
            Kind::IsRecorded(fields) => {
                let mut columns = Vec::with_capacity(fields.len());
                let mut frames = Vec::with_capacity(fields.len());
                for field in fields {
                    let Placed { part, frame } = self.field(field)?;
                    columns.push(part);
                    frames.push(frame);
                }
                let frame = frames.first().copied()?;
                let is_one_record = frames.iter().all(|other| *other == frame);
                is_one_record.then_some(Placed { part: Test::Recorded(columns), frame })
            }
            Kind::TestText(TextTest::Matches(_), ..) => None,
            Kind::TestText(test, text, argument) => {
                let (frame, text, argument) = self.both(text, argument)?;
                Some(Placed { part: Test::Text(*test, text, argument), frame })
            }
            Kind::Comprehension { quantifier, list, is_indexed: false, keep: None, body, .. } => {
                self.quantified(*quantifier, list, body)
            }
            _ => None,
        }
    }

    /// `&&` or `||` of all operands of one chain.
    fn chain(&mut self, left: &'a Node, right: &'a Node, is_all: bool) -> Option<Placed<Test<'a>>> {
        let mut operands = Vec::new();
        flatten(left, is_all, &mut operands);
        flatten(right, is_all, &mut operands);
        let mut parts = Vec::with_capacity(operands.len());
        let mut last = Vec::new();
        for operand in operands {
            let part = self.test(operand)?;
            let may_wait = matches!(part.part, Test::ByRow(_)) && !may_exhaust(operand);
            if may_wait { last.push(part) } else { parts.push(part) }
        }
        parts.append(&mut last);
        self.joined(parts, is_all)
    }

    fn joined(&self, parts: Vec<Placed<Test<'a>>>, is_all: bool) -> Option<Placed<Test<'a>>> {
        let mut joined: Vec<Placed<Test<'a>>> = Vec::with_capacity(parts.len());
        for part in parts {
            // The operands before a part that may exceed a budget determine the subjects for which it is evaluated, so
            // no operand is moved.
            let is_merged = is_all && !self.has_rows && joined.iter_mut().any(|before| days::merge(before, &part));
            if !is_merged {
                joined.push(part);
            }
        }
        let frame = self.innermost(joined.iter().map(|part| part.frame))?;
        let mut parts: Vec<Test<'a>> = joined.into_iter().map(|part| lifted_test(part, frame)).collect();
        let part = match (parts.len(), is_all) {
            (1, _) => parts.pop()?,
            (_, true) => Test::All(parts),
            (_, false) => Test::Any(parts),
        };
        Some(Placed { part, frame })
    }

    fn comparison(&mut self, comparison: Comparison, left: &'a Node, right: &'a Node) -> Option<Placed<Test<'a>>> {
        if let Some(measured) = self.measured_of(comparison, left, right) {
            return self.day_test(measured);
        }
        if left.value == Type::Boolean && right.value == Type::Boolean {
            let (left, right) = (self.test(left)?, self.test(right)?);
            let frame = self.innermost([left.frame, right.frame])?;
            let [left, right] = [left, right].map(|test| Box::new(lifted_test(test, frame)));
            return Some(Placed { part: Test::CompareTruths(comparison, left, right), frame });
        }
        let (frame, left, right) = self.both(left, right)?;
        Some(Placed { part: Test::Compare(comparison, left, right), frame })
    }

    fn between(&mut self, value: &'a Node, low: &'a Node, high: &'a Node) -> Option<Placed<Test<'a>>> {
        let above = self.measured_of_first(Comparison::GreaterOrEqual, value, low);
        let below = self.measured_of_first(Comparison::LessOrEqual, value, high);
        if let (Some(above), Some(below)) = (above, below) {
            return self.day_test(above.and(below));
        }
        let widens = value.value == Type::Number;
        let mut parts = [self.value(value)?, self.value(low)?, self.value(high)?];
        if widens {
            parts.iter_mut().for_each(|part| values::widen(&mut part.part));
        }
        let frame = self.innermost(parts.iter().map(|part| part.frame))?;
        let [value, low, high] = parts.map(|part| Box::new(lifted_value(part, frame)));
        Some(Placed { part: Test::Between(value, low, high), frame })
    }

    /// Two values at one frame, of one kind if one of them is a whole number that the other kind represents exactly.
    fn both(&mut self, left: &'a Node, right: &'a Node) -> Option<(Option<FrameId>, Box<Value<'a>>, Box<Value<'a>>)> {
        let (mut first, mut second) = (self.value(left)?, self.value(right)?);
        match (&left.value, &right.value) {
            (Type::Integer, Type::Number) => values::widen(&mut first.part),
            (Type::Number, Type::Integer) => values::widen(&mut second.part),
            _ => {}
        }
        let frame = self.innermost([first.frame, second.frame])?;
        Some((frame, Box::new(lifted_value(first, frame)), Box::new(lifted_value(second, frame))))
    }

    /// The column of a field of one row, or of an item of a list of plain values.
    fn column(&self, node: &'a Node) -> Option<Placed<ColumnId>> {
        match &node.kind {
            Kind::Field { items: None, .. } => self.field(node),
            Kind::Variable(number) => match self.scope.get(*number)? {
                Name::Item(frame, column) => Some(Placed { part: *column, frame: Some(*frame) }),
                Name::Row(_) => None,
            },
            _ => None,
        }
    }

    /// The column of a field of one row, of values or of lists.
    fn field(&self, node: &'a Node) -> Option<Placed<ColumnId>> {
        let Kind::Field { record, column, .. } = &node.kind else { return None };
        let Kind::Variable(number) = &record.kind else { return None };
        match self.scope.get(*number)? {
            Name::Row(frame) => Some(Placed { part: *column, frame: Some(*frame) }),
            Name::Item(..) => None,
        }
    }

    /// The innermost frame; none if they are not nested.
    fn innermost(&self, frames: impl IntoIterator<Item = Option<FrameId>>) -> Option<Option<FrameId>> {
        let mut innermost = None;
        for frame in frames.into_iter().flatten() {
            innermost = match innermost {
                None => Some(frame),
                Some(other) if self.is_within(other, frame) => Some(other),
                Some(other) if self.is_within(frame, other) => Some(frame),
                Some(_) => return None,
            };
        }
        Some(innermost)
    }

    fn is_within(&self, inner: FrameId, outer: FrameId) -> bool {
        let mut at = inner;
        while at != outer {
            match self.parents.get(at) {
                Some(parent) if *parent != at => at = *parent,
                _ => return false,
            }
        }
        true
    }
}

fn flatten<'a>(node: &'a Node, is_all: bool, operands: &mut Vec<&'a Node>) {
    match (&node.kind, is_all) {
        (Kind::And(left, right), true) | (Kind::Or(left, right), false) => {
            flatten(left, is_all, operands);
            flatten(right, is_all, operands);
        }
        _ => operands.push(node),
    }
}

fn lifted_test<'a>(test: Placed<Test<'a>>, to: Option<FrameId>) -> Test<'a> {
    match test.frame {
        Some(frame) if Some(frame) != to => Test::Lifted(frame, Box::new(test.part)),
        _ => test.part,
    }
}

fn lifted_value<'a>(value: Placed<Value<'a>>, to: Option<FrameId>) -> Value<'a> {
    match value.frame {
        Some(frame) if Some(frame) != to => Value::Lifted(frame, Box::new(value.part)),
        _ => value.part,
    }
}

/// Returns true if the row evaluator may exceed a budget in this part.
fn may_exhaust(node: &Node) -> bool {
    let makes = match &node.kind {
        Kind::Foreign(..) => true,
        Kind::Arithmetic(Operator::Add, ..) => matches!(node.value, Type::Text | Type::List(_)),
        Kind::Comprehension { quantifier, keep, body, .. } => {
            let makes_list = match quantifier {
                Quantifier::Exists | Quantifier::All | Quantifier::ExistsOne => false,
                Quantifier::Filter | Quantifier::Map | Quantifier::TransformMap | Quantifier::TransformMapEntry => true,
            };
            makes_list || may_exhaust(body) || keep.as_deref().is_some_and(may_exhaust)
        }
        Kind::Bind { body, .. } => may_exhaust(body),
        _ => false,
    };
    makes || node.operands().into_iter().any(may_exhaust)
}

//! The missing facts of a subject that the columns leave undetermined.
//!
//! Most of these subjects lack a value that one part of the rule compares with a constant. If the rule consists of such
//! parts, the facts follow from the program and the bitmaps of the columns, at a fraction of the cost of the row
//! evaluator.
//!
//! **Invariant:** the facts are those that the row evaluator reports. Only parts that cannot fail are supported, and
//! their value is unknown only if a column has no value. Every other part is left to the row evaluator.

use super::days::DayRange;
use super::program::{Scalar, Test, Value};
use crate::columns::{CheckedValues, Columns};
use crate::facts::FactSet;
use crate::tree::{ColumnId, Comparison, TextTest};
use std::ops::ControlFlow;

/// The value of a part, or the facts that it lacks.
type Known<T> = Result<T, FactSet>;

/// Returns the facts that a subject lacks; none if the row evaluator has to find the reasons.
pub fn facts_of(test: &Test<'_>, columns: &Columns, row: u32) -> Option<FactSet> {
    Reader { columns, row }.test(test)?.err()
}

/// Reads the columns of one subject.
#[derive(Clone, Copy)]
struct Reader<'a> {
    columns: &'a Columns,
    row: u32,
}

impl<'a> Reader<'a> {
    /// The truth of a part; none if the row evaluator has to determine it.
    fn test(self, test: &Test<'a>) -> Option<Known<bool>> {
        Some(match test {
            Test::Constant(truth) => Ok(*truth == super::YES),
            Test::Booleans(column) => {
                let CheckedValues::Booleans(values) = self.values(*column)? else { return None };
                let value = *values.get(self.row as usize)?;
                self.of_column(*column, value != 0)?
            }
            Test::Not(operand) => self.test(operand)?.map(|truth| !truth),
            Test::All(parts) => self.chain(parts, false)?,
            Test::Any(parts) => self.chain(parts, true)?,
            Test::Compare(comparison, left, right) => match (self.value(left)?, self.value(right)?) {
                (Ok(left), Ok(right)) => Ok(compare(*comparison, left, right)?),
                (left, right) => Err(union(left.err(), right.err())),
            },
            Test::Days(days, range) => match self.value(days)? {
                Ok(Scalar::Day(day)) => Ok(contains(*range, day)),
                Ok(_) => return None,
                Err(facts) => Err(facts),
            },
            Test::Among(code, table) => match self.value(code)? {
                Ok(Scalar::Code(code)) => match table.get(code as usize) {
                    None | Some(0) => Ok(false),
                    Some(1) => Ok(true),
                    // The question may be missing rather than the field.
                    Some(_) => return None,
                },
                Ok(_) => return None,
                Err(facts) => Err(facts),
            },
            Test::Text(test, text, argument) => match (self.value(text)?, self.value(argument)?) {
                (Ok(Scalar::Text(text)), Ok(Scalar::Text(argument))) => Ok(holds(*test, text, argument)?),
                (Ok(_), Ok(_)) => return None,
                (text, argument) => Err(union(text.err(), argument.err())),
            },
            Test::Recorded(columns) => {
                let is_recorded = |column: &ColumnId| Some(self.columns.column(*column)?.valid.has(self.row));
                let recorded: Option<Vec<bool>> = columns.iter().map(is_recorded).collect();
                Ok(recorded?.contains(&true))
            }
            Test::Alive(column) => match self.value(&Value::Column(*column))? {
                Ok(Scalar::Day(deceased)) => Ok(deceased > self.columns.as_of()),
                Ok(_) => return None,
                Err(_) => Ok(true),
            },
            Test::Between(..)
            | Test::CompareTruths(..)
            | Test::In(..)
            | Test::InItems(..)
            | Test::Choice(..)
            | Test::Exists(..)
            | Test::Every(..)
            | Test::One(..)
            | Test::Lifted(..)
            | Test::ByRow(_) => return None,
        })
    }

    /// `&&` if `settled` is false, otherwise `||`: one operand with that truth decides, and otherwise the facts of all
    /// unknown operands are missing.
    fn chain(self, parts: &[Test<'a>], settled: bool) -> Option<Known<bool>> {
        let chained = parts.iter().try_fold(Ok(!settled), |before, part| match self.test(part) {
            None => ControlFlow::Break(None),
            Some(Ok(truth)) if truth == settled => ControlFlow::Break(Some(Ok(settled))),
            Some(Ok(_)) => ControlFlow::Continue(before),
            Some(Err(facts)) => ControlFlow::Continue(Err(union(before.err(), Some(facts)))),
        });
        match chained {
            ControlFlow::Continue(known) => Some(known),
            ControlFlow::Break(decided) => decided,
        }
    }

    /// A constant or the value of a column; none for other parts.
    fn value(self, value: &Value<'a>) -> Option<Known<Scalar<'a>>> {
        let column = match value {
            Value::Constant(scalar) => return Some(Ok(*scalar)),
            Value::Column(column) => *column,
            _ => return None,
        };
        let row = self.row as usize;
        let scalar = match self.values(column)? {
            CheckedValues::Integers(values) => Scalar::Integer(*values.get(row)?),
            CheckedValues::Numbers(values) => Scalar::Number(*values.get(row)?),
            CheckedValues::Days(values) => Scalar::Day(*values.get(row)?),
            CheckedValues::Codes(values) => Scalar::Code(*values.get(row)?),
            CheckedValues::Texts { offsets, text } => {
                let (start, end) = (*offsets.get(row)?, *offsets.get(row + 1)?);
                Scalar::Text(text.get(start as usize..end as usize)?)
            }
            CheckedValues::Booleans(_) | CheckedValues::Lists(_) => return None,
        };
        self.of_column(column, scalar)
    }

    fn values(self, column: ColumnId) -> Option<&'a CheckedValues> {
        Some(&self.columns.column(column)?.values)
    }

    /// The value if the column has one for the subject, otherwise its missing facts.
    fn of_column<T>(self, column: ColumnId, value: T) -> Option<Known<T>> {
        let column = self.columns.column(column)?;
        Some(if column.valid.has(self.row) { Ok(value) } else { Err(column.missing) })
    }
}

fn union(these: Option<FactSet>, those: Option<FactSet>) -> FactSet {
    these.unwrap_or_default().union(those.unwrap_or_default())
}

fn contains(range: DayRange, day: i32) -> bool {
    range.ends().is_some_and(|(lowest, highest)| (lowest..=highest).contains(&day))
}

/// Compares two values of one type; none for others.
fn compare(comparison: Comparison, left: Scalar<'_>, right: Scalar<'_>) -> Option<bool> {
    Some(comparison.holds(match (left, right) {
        (Scalar::Integer(left), Scalar::Integer(right)) => Some(left.cmp(&right)),
        (Scalar::Number(left), Scalar::Number(right)) => left.partial_cmp(&right),
        (Scalar::Day(left), Scalar::Day(right)) => Some(left.cmp(&right)),
        (Scalar::Code(left), Scalar::Code(right)) => Some(left.cmp(&right)),
        (Scalar::Text(left), Scalar::Text(right)) => Some(left.cmp(right)),
        _ => return None,
    }))
}

/// A test of two texts; none for tests that only the crate supports.
fn holds(test: TextTest, text: &str, argument: &str) -> Option<bool> {
    match test {
        TextTest::Contains => Some(text.contains(argument)),
        TextTest::StartsWith => Some(text.starts_with(argument)),
        TextTest::EndsWith => Some(text.ends_with(argument)),
        TextTest::Matches(_) => None,
    }
}

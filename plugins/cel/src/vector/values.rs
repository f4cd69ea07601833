//! Values over a frame: columns, arithmetic, dates, conversions.

use super::lane::{Known, Lane, Values, Vector, with_lane};
use super::program::{FrameId, Scalar, Value};
use super::run::Run;
use super::texts;
use crate::calendar::{Day, parse_date};
use crate::columns::CheckedValues;
use crate::leaf::Conversion;
use crate::tree::{ColumnId, Operator};
use crate::value;
use std::borrow::Cow;

impl<'p, 'a> Run<'p, 'a> {
    /// The values of a part for every row of a frame; none if a list has too many items for one block.
    pub(super) fn value(&mut self, value: &'p Value<'a>, at: FrameId, requested: Option<&[u8]>) -> Option<Vector<'a>> {
        let rows = self.frame(at)?.rows;
        Some(match value {
            Value::Constant(scalar) => constant(*scalar),
            Value::Column(column) => self.column(*column, at)?,
            Value::CodeText(part, codes) => {
                let Vector::Codes(codes) = self.value(codes, at, requested)? else { return None };
                Vector::Texts(texts::of_codes(&codes, *part, self.bindings, rows))
            }
            Value::Arithmetic(operator, left, right) => {
                match (self.value(left, at, requested)?, self.value(right, at, requested)?) {
                    (Vector::Integers(left), Vector::Integers(right)) => {
                        Vector::Integers(integers(*operator, left, &right, rows))
                    }
                    (Vector::Numbers(left), Vector::Numbers(right)) => {
                        Vector::Numbers(numbers(*operator, left, &right)?)
                    }
                    _ => return None,
                }
            }
            Value::Negate(operand) => match self.value(operand, at, requested)? {
                Vector::Integers(lane) => Vector::Integers(lane.try_map(rows, i64::checked_neg)),
                Vector::Numbers(lane) => Vector::Numbers(lane.map(|number| -number)),
                _ => return None,
            },
            Value::Age(days) => {
                let Vector::Days(days) = self.value(days, at, requested)? else { return None };
                let today = self.columns.today();
                Vector::Integers(days.map(|day| Day::from_number(day).years_until(today)))
            }
            Value::DaysSince(days) => {
                let Vector::Days(days) = self.value(days, at, requested)? else { return None };
                let as_of = i64::from(self.columns.as_of());
                Vector::Integers(days.map(|day| as_of - i64::from(day)))
            }
            Value::ParseDate(text) => {
                let Vector::Texts(texts) = self.value(text, at, requested)? else { return None };
                Vector::Days(texts.try_map(rows, parse_date))
            }
            Value::Size(list) => Vector::Integers(self.size(list)?),
            Value::Length(text) => {
                let Vector::Texts(texts) = self.value(text, at, requested)? else { return None };
                Vector::Integers(texts.try_map(rows, |text| i64::try_from(text.chars().count()).ok()))
            }
            Value::ToNumber(operand) => {
                let Vector::Integers(integers) = self.value(operand, at, requested)? else { return None };
                Vector::Numbers(integers.map(|integer| integer as f64))
            }
            Value::ToInteger(conversion, operand) => {
                Vector::Integers(to_integers(*conversion, self.value(operand, at, requested)?, rows)?)
            }
            Value::Choice(choice, then, otherwise) => {
                let choice = self.test(choice, at, requested)?;
                match (self.value(then, at, requested)?, self.value(otherwise, at, requested)?) {
                    (Vector::Integers(then), Vector::Integers(other)) => {
                        Vector::Integers(then.or_else(&choice, &other)?)
                    }
                    (Vector::Numbers(then), Vector::Numbers(other)) => Vector::Numbers(then.or_else(&choice, &other)?),
                    (Vector::Days(then), Vector::Days(other)) => Vector::Days(then.or_else(&choice, &other)?),
                    (Vector::Codes(then), Vector::Codes(other)) => Vector::Codes(then.or_else(&choice, &other)?),
                    (Vector::Texts(then), Vector::Texts(other)) => Vector::Texts(then.or_else(&choice, &other)?),
                    _ => return None,
                }
            }
            Value::Lifted(frame, value) => {
                let mut found = self.value(value, *frame, None)?;
                for offsets in self.ways_in(*frame, at)? {
                    found = with_lane!(found, lane => lane.repeated(offsets));
                }
                found
            }
        })
    }

    /// The rows of a frame in a column of its domain.
    pub(super) fn column(&self, column: ColumnId, at: FrameId) -> Option<Vector<'a>> {
        let frame = self.frame(at)?;
        let column = self.columns.column(column)?;
        let rows = frame.start..frame.start + frame.rows;
        let known = Known::of(&column.valid, frame.start, frame.rows);
        Some(match &column.values {
            CheckedValues::Integers(values) => Vector::Integers(slice(values.get(rows)?, known)),
            CheckedValues::Numbers(values) => Vector::Numbers(slice(values.get(rows)?, known)),
            CheckedValues::Days(values) => Vector::Days(slice(values.get(rows)?, known)),
            CheckedValues::Codes(values) => Vector::Codes(slice(values.get(rows)?, known)),
            values @ CheckedValues::Texts { .. } => {
                let texts = texts::column(values, frame.start, frame.rows)?;
                Vector::Texts(Lane { values: Values::Each(Cow::Owned(texts)), known })
            }
            CheckedValues::Booleans(_) | CheckedValues::Lists(_) => return None,
        })
    }
}

fn slice<T: Copy>(values: &[T], known: Known) -> Lane<'_, T> {
    Lane { values: Values::Each(Cow::Borrowed(values)), known }
}

fn constant(scalar: Scalar<'_>) -> Vector<'_> {
    match scalar {
        Scalar::Integer(integer) => Vector::Integers(Lane::one(integer)),
        Scalar::Number(number) => Vector::Numbers(Lane::one(number)),
        Scalar::Day(day) => Vector::Days(Lane::one(day)),
        Scalar::Code(code) => Vector::Codes(Lane::one(code)),
        Scalar::Text(text) => Vector::Texts(Lane::one(text)),
    }
}

fn integers<'a>(operator: Operator, left: Lane<'a, i64>, right: &Lane<'a, i64>, rows: usize) -> Lane<'a, i64> {
    match operator {
        Operator::Add => checked(left, right, rows, i64::checked_add),
        Operator::Subtract => checked(left, right, rows, i64::checked_sub),
        Operator::Multiply => checked(left, right, rows, i64::checked_mul),
        Operator::Divide => checked(left, right, rows, i64::checked_div),
        Operator::Remainder => checked(left, right, rows, i64::checked_rem),
    }
}

/// Checked arithmetic on whole numbers; overflow and division by zero are unknown here, and the row evaluator reports
/// them.
fn checked<'a>(
    left: Lane<'a, i64>,
    right: &Lane<'a, i64>,
    rows: usize,
    make: impl Fn(i64, i64) -> Option<i64>,
) -> Lane<'a, i64> {
    let is_sound = left.values.zip(&right.values, |left, right| make(left, right).is_some());
    let values = left.values.zip(&right.values, |left, right| make(left, right).unwrap_or_default());
    Lane { values, known: left.known.and(&right.known).and(&Known::where_true(&is_sound, rows)) }
}

fn numbers<'a>(operator: Operator, left: Lane<'a, f64>, right: &Lane<'a, f64>) -> Option<Lane<'a, f64>> {
    let values = match operator {
        Operator::Add => left.values.zip(&right.values, |left, right| left + right),
        Operator::Subtract => left.values.zip(&right.values, |left, right| left - right),
        Operator::Multiply => left.values.zip(&right.values, |left, right| left * right),
        Operator::Divide => left.values.zip(&right.values, |left, right| left / right),
        Operator::Remainder => return None,
    };
    Some(Lane { values, known: left.known.and(&right.known) })
}

/// Whole numbers by the crate's conversion.
fn to_integers<'a>(conversion: Conversion, vector: Vector<'a>, rows: usize) -> Option<Lane<'a, i64>> {
    let convert = |value| match conversion.apply(&value) {
        Some(value::Value::Integer(integer)) => Some(integer),
        _ => None,
    };
    Some(match vector {
        Vector::Integers(lane) => lane.try_map(rows, |integer| convert(value::Value::Integer(integer))),
        Vector::Numbers(lane) => lane.try_map(rows, |number| convert(value::Value::Number(number))),
        Vector::Texts(lane) => lane.try_map(rows, |text| convert(value::Value::Text(Cow::Borrowed(text)))),
        Vector::Days(_) | Vector::Codes(_) => return None,
    })
}

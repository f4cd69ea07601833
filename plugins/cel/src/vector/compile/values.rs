//! Compiles parts that are values.

use super::{Compiler, Placed, lifted_test, lifted_value};
use crate::tree::{Constant, Kind, Node, Operator, Type};
use crate::vector::program::{Scalar, Value};

/// The largest whole number up to which all are exactly representable as a number with a fraction.
const EXACT_MAX: u64 = 1 << 53;

impl<'a> Compiler<'a> {
    /// A part of one of the types that columns have.
    pub(super) fn value(&mut self, node: &'a Node) -> Option<Placed<Value<'a>>> {
        let scalar = |scalar| Some(Placed { part: Value::Constant(scalar), frame: None });
        match &node.kind {
            Kind::Constant(constant) => scalar(match constant {
                Constant::Boolean(_) => return None,
                Constant::Integer(integer) => Scalar::Integer(*integer),
                Constant::Number(number) => Scalar::Number(*number),
                Constant::Text(text) => Scalar::Text(text),
                Constant::Date(day) => Scalar::Day(*day),
            }),
            Kind::AsOf => scalar(Scalar::Day(self.as_of)),
            Kind::Code(question) => scalar(Scalar::Code(self.bindings.number(*question)?)),
            Kind::Variable(_) | Kind::Field { .. } if has_lane(&node.value) => {
                let Placed { part, frame } = self.column(node)?;
                Some(Placed { part: Value::Column(part), frame })
            }
            Kind::CodeText(part, code) => self.one(code, |code| Value::CodeText(*part, code)),
            Kind::Arithmetic(operator, left, right) => {
                let is_known = match node.value {
                    Type::Integer => true,
                    Type::Number => *operator != Operator::Remainder,
                    _ => false,
                };
                if !is_known {
                    return None;
                }
                let (frame, left, right) = self.both(left, right)?;
                Some(Placed { part: Value::Arithmetic(*operator, left, right), frame })
            }
            Kind::Negate(operand) => self.one(operand, Value::Negate),
            Kind::AgeYears(date) => self.one(date, Value::Age),
            Kind::DaysSince(date) => self.one(date, Value::DaysSince),
            Kind::ParseDate(text) => self.one(text, Value::ParseDate),
            Kind::Size(operand) if operand.value == Type::Text => self.one(operand, Value::Length),
            Kind::Size(list) => self.size(list),
            Kind::Convert(conversion, operand) => match (&node.value, &operand.value) {
                (Type::Number, Type::Integer) => self.one(operand, Value::ToNumber),
                (Type::Number, Type::Number) => self.value(operand),
                (Type::Integer, _) => self.one(operand, |operand| Value::ToInteger(*conversion, operand)),
                _ => None,
            },
            Kind::Conditional(condition, then, otherwise) if has_lane(&node.value) => {
                let condition = self.test(condition)?;
                let (then, otherwise) = (self.value(then)?, self.value(otherwise)?);
                let frame = self.innermost([condition.frame, then.frame, otherwise.frame])?;
                let condition = Box::new(lifted_test(condition, frame));
                let [then, otherwise] = [then, otherwise].map(|value| Box::new(lifted_value(value, frame)));
                Some(Placed { part: Value::Choice(condition, then, otherwise), frame })
            }
            _ => None,
        }
    }

    fn one(&mut self, operand: &'a Node, make: impl Fn(Box<Value<'a>>) -> Value<'a>) -> Option<Placed<Value<'a>>> {
        let Placed { part, frame } = self.value(operand)?;
        Some(Placed { part: make(Box::new(part)), frame })
    }
}

/// Converts a constant whole number to one with a fraction, if it is exact, so that both sides have one type.
pub(super) fn widen(value: &mut Value<'_>) {
    if let Value::Constant(Scalar::Integer(integer)) = value
        && integer.unsigned_abs() <= EXACT_MAX
    {
        *value = Value::Constant(Scalar::Number(*integer as f64));
    }
}

fn has_lane(value: &Type) -> bool {
    matches!(value, Type::Integer | Type::Number | Type::Text | Type::Date | Type::Coded(_))
}

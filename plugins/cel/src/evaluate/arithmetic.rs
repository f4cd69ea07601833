//! Arithmetic on numbers with overflow detection, and concatenation of texts and lists.

use super::{Budget, Evaluator, wrong_type};
use crate::limits::{LIST_ITEMS_MAX, TEXT_BYTES_MAX};
use crate::span::Span;
use crate::tree::Operator;
use crate::value::{Evaluated, FailureKind, List, Unknown, Value};
use std::borrow::Cow;

impl<'a> Evaluator<'a> {
    pub(super) fn arithmetic(
        &mut self,
        operator: Operator,
        left: Value<'a>,
        right: Value<'a>,
        at: Span,
    ) -> Evaluated<'a> {
        match (operator, left, right) {
            (_, Value::Integer(left), Value::Integer(right)) => integers(operator, left, right, at),
            (_, Value::Number(left), Value::Number(right)) => numbers(operator, left, right, at),
            (Operator::Add, Value::Text(left), Value::Text(right)) => {
                if left.len() + right.len() > TEXT_BYTES_MAX {
                    return Err(self.exhaust(Budget::TextBytes));
                }
                let mut joined = left.into_owned();
                joined.push_str(&right);
                Ok(Value::Text(Cow::Owned(joined)))
            }
            (Operator::Add, Value::List(left), Value::List(right)) => {
                let (left, right) = (self.elements(left, at), self.elements(right, at));
                let joined: Vec<_> = left.chain(right).take(LIST_ITEMS_MAX + 1).collect();
                if joined.len() > LIST_ITEMS_MAX {
                    return Err(self.exhaust(Budget::ListItems));
                }
                Ok(Value::List(List::Elements(joined)))
            }
            _ => Err(wrong_type(at)),
        }
    }
}

fn integers<'a>(operator: Operator, left: i64, right: i64, at: Span) -> Evaluated<'a> {
    let is_division = matches!(operator, Operator::Divide | Operator::Remainder);
    if is_division && right == 0 {
        return Err(Unknown::failure(FailureKind::DivisionByZero, at));
    }
    let result = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide => left.checked_div(right),
        Operator::Remainder => left.checked_rem(right),
    };
    result.map(Value::Integer).ok_or(Unknown::failure(FailureKind::Overflow, at))
}

fn numbers<'a>(operator: Operator, left: f64, right: f64, at: Span) -> Evaluated<'a> {
    Ok(Value::Number(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Remainder => return Err(wrong_type(at)),
    }))
}

pub(super) fn negate(operand: Value<'_>, at: Span) -> Evaluated<'_> {
    match operand {
        Value::Integer(integer) => {
            integer.checked_neg().map(Value::Integer).ok_or(Unknown::failure(FailureKind::Overflow, at))
        }
        Value::Number(number) => Ok(Value::Number(-number)),
        _ => Err(wrong_type(at)),
    }
}

//! Comparisons of values, and of counts that are known only within bounds.

use super::{Evaluator, wrong_type};
use crate::leaf::compare_mixed;
use crate::span::Span;
use crate::tree::{Comparison, Kind, Node, Type};
use crate::value::{List, Truth, Unknown, Value, and, both};
use std::cmp::Ordering;

/// One side of a comparison.
enum Operand<'a> {
    Value(Value<'a>),
    /// The size of a list with items in doubt: `low` to `high`, and the reason.
    Count {
        low: i64,
        high: i64,
        doubt: Unknown,
    },
}

impl<'a> Evaluator<'a> {
    pub(super) fn compare(&mut self, comparison: Comparison, left: &'a Node, right: &'a Node, at: Span) -> Truth {
        let operands = both(self.operand(left), self.operand(right));
        let (left, right) = operands?;
        self.compare_operands(comparison, &left, &right, at)
    }

    /// Both ends are included; an unknown end does not matter if the other one decides.
    pub(super) fn between(&mut self, value: &'a Node, low: &'a Node, high: &'a Node, at: Span) -> Truth {
        let value = self.operand(value);
        let (low, high) = (self.operand(low), self.operand(high));
        let value = match value {
            Ok(value) => value,
            Err(reasons) => {
                let ends = [low.err(), high.err()].into_iter().flatten();
                return Err(ends.fold(reasons, Unknown::union));
            }
        };
        let is_above = low.and_then(|low| self.compare_operands(Comparison::GreaterOrEqual, &value, &low, at));
        let is_below = high.and_then(|high| self.compare_operands(Comparison::LessOrEqual, &value, &high, at));
        and(is_above, is_below)
    }

    fn operand(&mut self, node: &'a Node) -> Result<Operand<'a>, Unknown> {
        if let Kind::Size(list) = &node.kind
            && matches!(list.value, Type::List(_))
        {
            let (low, high, doubt) = self.count(list)?;
            return Ok(match doubt {
                Some(doubt) => Operand::Count { low, high, doubt },
                None => Operand::Value(Value::Integer(low)),
            });
        }
        self.evaluate(node).map(Operand::Value)
    }

    fn compare_operands(&self, comparison: Comparison, left: &Operand<'a>, right: &Operand<'a>, at: Span) -> Truth {
        match (left, right) {
            (Operand::Value(left), Operand::Value(right)) => self.compare_values(comparison, left, right, at),
            (Operand::Count { low, high, doubt }, Operand::Value(value)) => {
                let lowest = order(&Value::Integer(*low), value);
                let highest = order(&Value::Integer(*high), value);
                decide(comparison, lowest, highest, *doubt)
            }
            (Operand::Value(value), Operand::Count { low, high, doubt }) => {
                let lowest = order(value, &Value::Integer(*low));
                let highest = order(value, &Value::Integer(*high));
                decide(comparison, lowest, highest, *doubt)
            }
            (
                Operand::Count { low, high, doubt },
                Operand::Count { low: other_low, high: other_high, doubt: other_doubt },
            ) => decide(comparison, Some(low.cmp(other_high)), Some(high.cmp(other_low)), doubt.union(*other_doubt)),
        }
    }

    fn compare_values(&self, comparison: Comparison, left: &Value<'a>, right: &Value<'a>, at: Span) -> Truth {
        match comparison {
            Comparison::Equal => self.is_equal(left, right, at),
            Comparison::NotEqual => self.is_equal(left, right, at).map(|is_equal| !is_equal),
            Comparison::Less | Comparison::LessOrEqual | Comparison::Greater | Comparison::GreaterOrEqual => {
                Ok(comparison.holds(order(left, right)))
            }
        }
    }

    /// Compares two values for equality; lists are equal if their items are.
    pub(super) fn is_equal(&self, left: &Value<'a>, right: &Value<'a>, at: Span) -> Truth {
        match (left, right) {
            (Value::Code(left), Value::Code(right)) => Ok(left == right),
            (Value::Row(left), Value::Row(right)) => Ok(left == right),
            (Value::List(left), Value::List(right)) => self.are_lists_equal(left, right, at),
            (Value::Foreign(_), _) | (_, Value::Foreign(_)) => {
                let (left, right) = both(self.to_crate(left.clone(), at), self.to_crate(right.clone(), at))?;
                Ok(left == right)
            }
            (Value::Code(_) | Value::Row(_) | Value::List(_), _)
            | (_, Value::Code(_) | Value::Row(_) | Value::List(_)) => Err(wrong_type(at)),
            _ => Ok(order(left, right) == Some(Ordering::Equal)),
        }
    }

    fn are_lists_equal(&self, left: &List<'a>, right: &List<'a>, at: Span) -> Truth {
        let left: Vec<_> = self.elements(left.clone(), at).collect();
        let right: Vec<_> = self.elements(right.clone(), at).collect();
        let doubts = left.iter().chain(&right).filter_map(|element| element.doubt);
        if let Some(doubt) = doubts.reduce(Unknown::union) {
            return Err(doubt);
        }
        if left.len() != right.len() {
            return Ok(false);
        }
        let mut are_equal = Ok(true);
        for (left, right) in left.into_iter().zip(right) {
            let is_equal = both(left.value, right.value).and_then(|(left, right)| self.is_equal(&left, &right, at));
            are_equal = and(are_equal, is_equal);
        }
        are_equal
    }
}

/// The order of two values of one type or of two numbers; none for NaN and for values without an order.
fn order(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Boolean(left), Value::Boolean(right)) => Some(left.cmp(right)),
        (Value::Integer(left), Value::Integer(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.partial_cmp(right),
        (Value::Integer(left), Value::Number(right)) => compare_mixed(*left, *right),
        (Value::Number(left), Value::Integer(right)) => compare_mixed(*right, *left).map(Ordering::reverse),
        (Value::Date(left), Value::Date(right)) => Some(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

/// Decides a comparison with a side known only within bounds, from the orders at both bounds.
fn decide(comparison: Comparison, at_one: Option<Ordering>, at_other: Option<Ordering>, doubt: Unknown) -> Truth {
    let is_decided = match comparison {
        // A value between two different bounds may be equal; only one beyond both is certainly unequal.
        Comparison::Equal | Comparison::NotEqual => at_one == at_other && at_one != Some(Ordering::Equal),
        Comparison::Less | Comparison::LessOrEqual | Comparison::Greater | Comparison::GreaterOrEqual => {
            comparison.holds(at_one) == comparison.holds(at_other)
        }
    };
    if is_decided { Ok(comparison.holds(at_one)) } else { Err(doubt) }
}

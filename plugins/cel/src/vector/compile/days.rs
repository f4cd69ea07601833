//! Comparisons of days, ages and distances with constants, as ranges of days.

use super::{Compiler, Placed};
use crate::tree::{Comparison, Constant, Kind, Node, Type};
use crate::vector::days::{DayRange, Measure};
use crate::vector::program::{Test, Value};

/// A date with a property in a range.
pub(super) struct Measured<'a> {
    date: &'a Node,
    range: DayRange,
    is_negated: bool,
}

impl Measured<'_> {
    /// The intersection with another one of the same date.
    pub(super) fn and(self, other: Self) -> Self {
        Self { range: self.range.intersection(other.range), ..self }
    }
}

impl<'a> Compiler<'a> {
    /// Converts a comparison with a constant on either side to a range of days, if possible.
    pub(super) fn measured_of(&self, comparison: Comparison, left: &'a Node, right: &'a Node) -> Option<Measured<'a>> {
        let measured = self.measured_of_first(comparison, left, right);
        measured.or_else(|| self.measured_of_first(comparison.turned(), right, left))
    }

    /// The same with the constant on the right.
    pub(super) fn measured_of_first(
        &self,
        comparison: Comparison,
        left: &'a Node,
        right: &'a Node,
    ) -> Option<Measured<'a>> {
        let (measure, date, number) = self.measured(left, right)?;
        let is_negated = comparison == Comparison::NotEqual;
        let comparison = if is_negated { Comparison::Equal } else { comparison };
        let range = DayRange::of(measure, comparison, number, self.as_of)?;
        Some(Measured { date, range, is_negated })
    }

    pub(super) fn day_test(&mut self, measured: Measured<'a>) -> Option<Placed<Test<'a>>> {
        let Placed { part, frame } = self.value(measured.date)?;
        let test = Test::Days(Box::new(part), measured.range);
        Some(Placed { part: if measured.is_negated { Test::Not(Box::new(test)) } else { test }, frame })
    }

    /// The measure and the date that are compared with a number.
    fn measured(&self, node: &'a Node, other: &'a Node) -> Option<(Measure, &'a Node, i64)> {
        match (&node.kind, &node.value, &other.kind) {
            (Kind::AgeYears(date), _, Kind::Constant(Constant::Integer(years))) => Some((Measure::Age, date, *years)),
            (Kind::DaysSince(date), _, Kind::Constant(Constant::Integer(days))) => {
                Some((Measure::DaysSince, date, *days))
            }
            (_, Type::Date, Kind::Constant(Constant::Date(day))) => Some((Measure::Day, node, i64::from(*day))),
            (_, Type::Date, Kind::AsOf) => Some((Measure::Day, node, i64::from(self.as_of))),
            _ => None,
        }
    }
}

/// Merges a range of days into another one of the same column, if both must hold.
pub(super) fn merge<'a>(before: &mut Placed<Test<'a>>, part: &Placed<Test<'a>>) -> bool {
    if before.frame != part.frame {
        return false;
    }
    let (Test::Days(this, range), Test::Days(that, other)) = (&mut before.part, &part.part) else { return false };
    match (this.as_ref(), that.as_ref()) {
        (Value::Column(this), Value::Column(that)) if this == that => {
            *range = range.intersection(*other);
            true
        }
        _ => false,
    }
}

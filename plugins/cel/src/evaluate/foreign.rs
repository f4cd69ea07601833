//! Operations of the crate on evaluated operands.

use super::{Budget, Evaluator, wrong_type};
use crate::foreign::{self, CrateValue, Operation};
use crate::limits::{LIST_ITEMS_MAX, TEXT_BYTES_MAX};
use crate::span::Span;
use crate::tree::{Kind, Node};
use crate::value::{Evaluated, List, Unknown, Value};

impl<'a> Evaluator<'a> {
    /// All operands are needed, and the reasons of all unknown ones are united.
    pub(super) fn foreign(&mut self, operation: &Operation, operands: &'a [Node], at: Span) -> Evaluated<'a> {
        let mut values = Vec::with_capacity(operands.len());
        let mut unknown: Option<Unknown> = None;
        for operand in operands {
            match self.evaluate(operand).and_then(|value| self.to_crate(value, operand.at)) {
                Ok(value) => values.push(value),
                Err(reasons) => unknown = Some(unknown.map_or(reasons, |known| known.union(reasons))),
            }
        }
        if let Some(reasons) = unknown {
            return Err(reasons);
        }
        let made = operation.apply(values).map_err(|kind| Unknown::failure(kind, at))?;
        self.bounded(foreign::known(made))
    }

    /// Checks that a value does not exceed a budget.
    pub(super) fn bounded(&mut self, value: Value<'a>) -> Evaluated<'a> {
        match &value {
            Value::Text(text) if text.len() > TEXT_BYTES_MAX => Err(self.exhaust(Budget::TextBytes)),
            Value::List(List::Elements(items)) if items.len() > LIST_ITEMS_MAX => Err(self.exhaust(Budget::ListItems)),
            Value::Foreign(map) if map.entry_count() > LIST_ITEMS_MAX => Err(self.exhaust(Budget::ListItems)),
            _ => Ok(value),
        }
    }

    /// A missing field of a known record as an empty optional value. If the record is unknown, so is the value.
    pub(super) fn optional(&mut self, field: &'a Node) -> Evaluated<'a> {
        let Kind::Field { record, column, items } = &field.kind else { return Err(wrong_type(field.at)) };
        let row = self.row(record)?;
        let value = match self.columns.read(*column, *items, row, field.at) {
            Ok(value) => Some(self.to_crate(value, field.at)?),
            Err(reasons) if reasons.error.is_some() => return Err(reasons),
            Err(_) => None,
        };
        Ok(foreign::known(foreign::optional(value)))
    }

    /// Converts a value to one of the crate.
    pub(super) fn to_crate(&self, value: Value<'a>, at: Span) -> Result<CrateValue, Unknown> {
        let list = match value {
            Value::List(list) => list,
            plain => return foreign::portable(&plain).ok_or_else(|| wrong_type(at)),
        };
        let mut items = Vec::new();
        let mut unknown: Option<Unknown> = None;
        for element in self.elements(list, at) {
            let item = element.presence().and(element.value).and_then(|item| self.to_crate(item, at));
            match item {
                Ok(item) => items.push(item),
                Err(reasons) => unknown = Some(unknown.map_or(reasons, |known| known.union(reasons))),
            }
        }
        unknown.map_or_else(|| Ok(foreign::list(items)), Err)
    }
}

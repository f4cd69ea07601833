//! Lists, whose items and length may be unknown.
//!
//! An item that a filter cannot decide stays in the list in doubt. A result is undetermined only if it depends on that
//! item. An error is stricter, as in CEL: it makes the whole new list an error.

use super::{Budget, Evaluator, wrong_type};
use crate::columns::Columns;
use crate::foreign::{self, CrateValue};
use crate::limits::LIST_ITEMS_MAX;
use crate::span::Span;
use crate::tree::{ColumnId, Node, Quantifier, Type};
use crate::value::{Element, Evaluated, FailureKind, List, Truth, Unknown, Value, and, both, or};
use std::ops::Range;

/// Iterates over the items of a list, or the entries of a map.
pub(super) struct Elements<'a> {
    columns: &'a Columns,
    at: Span,
    rows: Range<u32>,
    items: Option<ColumnId>,
    made: std::vec::IntoIter<Element<'a>>,
    /// The keys of a map.
    keys: Option<std::vec::IntoIter<Value<'a>>>,
    /// The index of the next item.
    number: i64,
    /// The reason why that index is unknown: an earlier item is in doubt.
    doubt: Option<Unknown>,
}

/// The body of a comprehension.
pub(super) struct Body<'a> {
    pub is_indexed: bool,
    pub keep: Option<&'a Node>,
    pub body: &'a Node,
}

impl<'a> Elements<'a> {
    /// The next item with its index, or the next entry with its key.
    pub(super) fn next_entry(&mut self) -> Option<(Evaluated<'a>, Element<'a>)> {
        let element = self.next()?;
        if let Some(keys) = &mut self.keys {
            return keys.next().map(|key| (Ok(key), element));
        }
        let number = self.number;
        self.number += 1;
        let key = self.doubt.map_or(Ok(Value::Integer(number)), Err);
        self.doubt = self.doubt.or(element.doubt);
        Some((key, element))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let Some(row) = self.rows.next() else { return self.made.next() };
        let value = match self.items {
            None => Ok(Value::Row(row)),
            Some(items) => self.columns.read(items, None, row, self.at),
        };
        Some(Element { value, doubt: None })
    }
}

impl<'a> Evaluator<'a> {
    /// The items of a list.
    pub(super) fn elements(&self, list: List<'a>, at: Span) -> Elements<'a> {
        let (rows, items, made) = match list {
            List::Rows { start, end, items } => (start..end, items, Vec::new()),
            List::Elements(elements) => (0..0, None, elements),
        };
        let made = made.into_iter();
        Elements { columns: self.columns, at, rows, items, made, keys: None, number: 0, doubt: None }
    }

    /// The items of a list, or the keys of a map.
    pub(super) fn elements_of(&mut self, node: &'a Node) -> Result<Elements<'a>, Unknown> {
        match self.evaluate(node)? {
            Value::List(list) => Ok(self.elements(list, node.at)),
            Value::Foreign(map) => {
                let entries = map.entries().ok_or_else(|| wrong_type(node.at))?;
                let keys = entries.into_iter().map(|(key, _)| Element { value: Ok(key), doubt: None });
                Ok(self.elements(List::Elements(keys.collect()), node.at))
            }
            _ => Err(wrong_type(node.at)),
        }
    }

    /// The items of a list by index, or the values of a map by key.
    pub(super) fn entries_of(&mut self, node: &'a Node, is_indexed: bool) -> Result<Elements<'a>, Unknown> {
        if !is_indexed {
            return self.elements_of(node);
        }
        match self.evaluate(node)? {
            Value::List(list) => Ok(self.elements(list, node.at)),
            Value::Foreign(map) => {
                let entries = map.entries().ok_or_else(|| wrong_type(node.at))?;
                let (keys, values): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
                let values = values.into_iter().map(|value| Element { value: Ok(value), doubt: None });
                let elements = self.elements(List::Elements(values.collect()), node.at);
                Ok(Elements { keys: Some(keys.into_iter()), ..elements })
            }
            _ => Err(wrong_type(node.at)),
        }
    }

    /// `[a, b, c]`
    pub(super) fn list(&mut self, elements: &'a [Node]) -> Evaluated<'a> {
        let mut builder = Builder::default();
        for element in elements {
            builder.push(Element { value: self.evaluate(element), doubt: None });
        }
        self.built(builder)
    }

    /// `list.exists(x, …)` and similar.
    pub(super) fn comprehension(&mut self, quantifier: Quantifier, list: &'a Node, body: &Body<'a>) -> Evaluated<'a> {
        let elements = self.entries_of(list, body.is_indexed)?;
        match quantifier {
            Quantifier::Exists => self.exists(elements, body).map(Value::Boolean),
            Quantifier::All => self.all(elements, body).map(Value::Boolean),
            Quantifier::ExistsOne => self.exists_one(elements, body).map(Value::Boolean),
            Quantifier::Filter => self.filter(elements, body),
            Quantifier::Map => self.map(elements, body),
            Quantifier::TransformMap | Quantifier::TransformMapEntry => {
                self.transform_map(quantifier, elements, body, list.at)
            }
        }
    }

    fn exists(&mut self, mut elements: Elements<'a>, body: &Body<'a>) -> Truth {
        let mut exists = Ok(false);
        while let Some((key, element)) = elements.next_entry() {
            let presence = element.presence();
            exists = or(exists, and(presence, self.test(key, element.value, body, body.body)));
            if exists == Ok(true) || self.exhausted.is_some() {
                break;
            }
        }
        exists
    }

    fn all(&mut self, mut elements: Elements<'a>, body: &Body<'a>) -> Truth {
        let mut all = Ok(true);
        while let Some((key, element)) = elements.next_entry() {
            let absence = element.presence().map(|is_present| !is_present);
            all = and(all, or(absence, self.test(key, element.value, body, body.body)));
            if all == Ok(false) || self.exhausted.is_some() {
                break;
            }
        }
        all
    }

    /// Two matching items decide, even if others are unknown; an error is not overridden, as in CEL.
    fn exists_one(&mut self, mut elements: Elements<'a>, body: &Body<'a>) -> Truth {
        let mut fitting = 0_u32;
        let mut doubt: Option<Unknown> = None;
        while let Some((key, element)) = elements.next_entry() {
            let presence = element.presence();
            match and(presence, self.test(key, element.value, body, body.body)) {
                Ok(true) => fitting += 1,
                Ok(false) => {}
                Err(reasons) => doubt = Some(doubt.map_or(reasons, |doubt| doubt.union(reasons))),
            }
            if self.exhausted.is_some() {
                break;
            }
        }
        match doubt {
            None => Ok(fitting == 1),
            Some(doubt) if fitting > 1 && doubt.error.is_none() => Ok(false),
            Some(doubt) => Err(doubt),
        }
    }

    fn filter(&mut self, mut elements: Elements<'a>, body: &Body<'a>) -> Evaluated<'a> {
        let mut builder = Builder::default();
        while let Some((key, element)) = elements.next_entry() {
            match and(element.presence(), self.test(key, element.value.clone(), body, body.body)) {
                Ok(true) => builder.push(element),
                Ok(false) => {}
                Err(doubt) => builder.push(Element { value: element.value, doubt: Some(doubt) }),
            }
            if builder.is_full() || self.exhausted.is_some() {
                break;
            }
        }
        self.built(builder)
    }

    fn map(&mut self, mut elements: Elements<'a>, body: &Body<'a>) -> Evaluated<'a> {
        let mut builder = Builder::default();
        while let Some((key, element)) = elements.next_entry() {
            let Some(doubt) = self.selects(&key, &element, body) else { continue };
            let value = self.made(key, element.value, body);
            builder.push(Element { value, doubt });
            if builder.is_full() || self.exhausted.is_some() {
                break;
            }
        }
        self.built(builder)
    }

    /// A map of the result of each item; it is known only as a whole.
    fn transform_map(
        &mut self,
        quantifier: Quantifier,
        mut elements: Elements<'a>,
        body: &Body<'a>,
        at: Span,
    ) -> Evaluated<'a> {
        let mut entries = Vec::new();
        let mut unknown: Option<Unknown> = None;
        let mut note = |reasons: Unknown| {
            unknown = Some(unknown.map_or(reasons, |known: Unknown| known.union(reasons)));
        };
        while let Some((key, element)) = elements.next_entry() {
            let Some(doubt) = self.selects(&key, &element, body) else { continue };
            let made = self.made(key.clone(), element.value, body);
            let made = doubt.map_or(Ok(()), Err).and(made);
            if quantifier == Quantifier::TransformMap {
                let entry = both(key, made);
                match entry.and_then(|(key, made)| both(self.to_crate(key, at), self.to_crate(made, at))) {
                    Ok(entry) => entries.push(entry),
                    Err(reasons) => note(reasons),
                }
            } else {
                match made.and_then(|made| self.entries_of_map(made, at)) {
                    Ok(made) => entries.extend(made),
                    Err(reasons) => note(reasons),
                }
            }
            if entries.len() > LIST_ITEMS_MAX {
                return Err(self.exhaust(Budget::ListItems));
            }
            if self.exhausted.is_some() {
                break;
            }
        }
        if let Some(reasons) = unknown {
            return Err(reasons);
        }
        let map = foreign::map(entries).ok_or_else(|| Unknown::failure(FailureKind::DuplicateKey, at))?;
        Ok(foreign::known(map))
    }

    fn entries_of_map(&self, map: Value<'a>, at: Span) -> Result<Vec<(CrateValue, CrateValue)>, Unknown> {
        let Value::Foreign(map) = map else { return Err(wrong_type(at)) };
        let entries = map.entries().ok_or_else(|| wrong_type(at))?;
        let entries = entries.into_iter();
        entries.map(|(key, value)| both(self.to_crate(key, at), self.to_crate(value, at))).collect()
    }

    /// Returns whether an item passes the filter: none if it does not, or the reason why it is unknown.
    fn selects(&mut self, key: &Evaluated<'a>, element: &Element<'a>, body: &Body<'a>) -> Option<Option<Unknown>> {
        let Some(keep) = body.keep else { return Some(element.doubt) };
        match and(element.presence(), self.test(key.clone(), element.value.clone(), body, keep)) {
            Ok(true) => Some(None),
            Ok(false) => None,
            Err(doubt) => Some(Some(doubt)),
        }
    }

    /// The result for one item.
    fn made(&mut self, key: Evaluated<'a>, item: Evaluated<'a>, body: &Body<'a>) -> Evaluated<'a> {
        let outer = self.enter(key, item, body.is_indexed);
        let value = self.evaluate(body.body);
        self.variables.truncate(outer);
        value
    }

    /// Evaluates a part of the body for one item.
    fn test(&mut self, key: Evaluated<'a>, item: Evaluated<'a>, body: &Body<'a>, part: &'a Node) -> Truth {
        let outer = self.enter(key, item, body.is_indexed);
        let truth = self.truth(part);
        self.variables.truncate(outer);
        truth
    }

    /// Binds the variables of one item, and returns the previous number of variables.
    pub(super) fn enter(&mut self, key: Evaluated<'a>, item: Evaluated<'a>, is_indexed: bool) -> usize {
        let outer = self.variables.len();
        if is_indexed {
            self.variables.push(key);
        }
        self.variables.push(item);
        outer
    }

    /// `item in list`
    pub(super) fn is_in(&mut self, item: &'a Node, list: &'a Node, at: Span) -> Truth {
        let item = self.evaluate(item);
        let elements = self.elements_of(list);
        let elements = match (&item, elements) {
            (Err(reasons), Err(others)) => return Err(reasons.union(others)),
            (Err(reasons), Ok(_)) if reasons.error.is_some() => return Err(*reasons),
            (_, elements) => elements?,
        };
        let mut is_in = Ok(false);
        for element in elements {
            let presence = element.presence();
            let is_same = match (&item, element.value) {
                (Ok(item), Ok(value)) => self.is_equal(item, &value, at),
                (item, value) => both(item.clone(), value).map(|_| false),
            };
            is_in = or(is_in, and(presence, is_same));
            if is_in == Ok(true) {
                break;
            }
        }
        is_in
    }

    /// `list[index]`
    pub(super) fn index(&mut self, list: &'a Node, index: &'a Node, at: Span) -> Evaluated<'a> {
        let (index, elements) = both(self.evaluate(index), self.elements_of(list))?;
        let Value::Integer(index) = index else { return Err(wrong_type(at)) };
        let out_of_bounds = Unknown::failure(FailureKind::IndexOutOfBounds, at);
        let mut left = usize::try_from(index).map_err(|_| out_of_bounds)?;
        // An item in doubt makes the index of all later ones uncertain.
        for element in elements {
            if let Some(doubt) = element.doubt {
                return Err(doubt);
            }
            if left == 0 {
                return element.value;
            }
            left -= 1;
        }
        Err(out_of_bounds)
    }

    /// The length of a list or text.
    pub(super) fn size(&mut self, operand: &'a Node, at: Span) -> Evaluated<'a> {
        if matches!(operand.value, Type::List(_)) {
            let (low, _, doubt) = self.count(operand)?;
            return doubt.map_or(Ok(Value::Integer(low)), Err);
        }
        match self.evaluate(operand)? {
            Value::Text(text) => Ok(Value::Integer(length(text.chars().count()))),
            _ => Err(wrong_type(at)),
        }
    }

    /// The fewest and the most items of a list, and the reason if they differ.
    pub(super) fn count(&mut self, list: &'a Node) -> Result<(i64, i64, Option<Unknown>), Unknown> {
        match self.evaluate(list)? {
            Value::List(List::Rows { start, end, .. }) => {
                let count = i64::from(end.saturating_sub(start));
                Ok((count, count, None))
            }
            Value::List(List::Elements(elements)) => {
                let doubts = elements.iter().filter_map(|element| element.doubt);
                let doubtful = doubts.clone().count();
                let low = length(elements.len() - doubtful);
                Ok((low, length(elements.len()), doubts.reduce(Unknown::union)))
            }
            _ => Err(wrong_type(list.at)),
        }
    }

    fn built(&mut self, builder: Builder<'a>) -> Evaluated<'a> {
        if builder.is_full() {
            return Err(self.exhaust(Budget::ListItems));
        }
        match builder.failed {
            Some(reasons) => Err(reasons),
            None => Ok(Value::List(List::Elements(builder.elements))),
        }
    }
}

/// A list under construction.
#[derive(Default)]
struct Builder<'a> {
    elements: Vec<Element<'a>>,
    /// The reasons of all failed items; one is enough to fail the list.
    failed: Option<Unknown>,
}

impl<'a> Builder<'a> {
    fn push(&mut self, element: Element<'a>) {
        let reasons = element.doubt.into_iter().chain(element.value.as_ref().err().copied());
        for reasons in reasons.filter(|reasons| reasons.error.is_some()) {
            self.failed = Some(self.failed.map_or(reasons, |failed| failed.union(reasons)));
        }
        self.elements.push(element);
    }

    fn is_full(&self) -> bool {
        self.elements.len() > LIST_ITEMS_MAX
    }
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

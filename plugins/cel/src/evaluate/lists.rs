//! Lists, whose items may be missing, and whose very length may not be known.
//!
//! An item that a filter cannot decide on stays in the list in doubt. What is asked of the list afterwards is undetermined
//! only where the answer depends on that item. An error is stricter, as in CEL: it makes the whole new list an error.

use super::{Budget, Evaluator, wrong_type};
use crate::columns::Columns;
use crate::limits::LIST_ITEMS_MAX;
use crate::span::Span;
use crate::tree::{ColumnId, Node, Quantifier, Type};
use crate::value::{Element, Evaluated, FailureKind, List, Truth, Unknown, Value, and, both, or};
use std::ops::Range;

/// The items of a list, one after another.
pub(super) struct Elements<'a> {
    columns: &'a Columns,
    at: Span,
    rows: Range<u32>,
    items: Option<ColumnId>,
    made: std::vec::IntoIter<Element<'a>>,
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
        Elements { columns: self.columns, at, rows, items, made: made.into_iter() }
    }

    pub(super) fn elements_of(&mut self, node: &'a Node) -> Result<Elements<'a>, Unknown> {
        match self.evaluate(node)? {
            Value::List(list) => Ok(self.elements(list, node.at)),
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

    /// `list.exists(x, …)` and its like.
    pub(super) fn comprehension(&mut self, quantifier: Quantifier, list: &'a Node, body: &'a Node) -> Evaluated<'a> {
        let elements = self.elements_of(list)?;
        match quantifier {
            Quantifier::Exists => self.exists(elements, body).map(Value::Boolean),
            Quantifier::All => self.all(elements, body).map(Value::Boolean),
            Quantifier::ExistsOne => self.exists_one(elements, body).map(Value::Boolean),
            Quantifier::Filter => self.filter(elements, body),
            Quantifier::Map => self.map(elements, body),
        }
    }

    fn exists(&mut self, elements: Elements<'a>, body: &'a Node) -> Truth {
        let mut exists = Ok(false);
        for element in elements {
            let presence = element.presence();
            exists = or(exists, and(presence, self.test(element.value, body)));
            if exists == Ok(true) || self.exhausted.is_some() {
                break;
            }
        }
        exists
    }

    fn all(&mut self, elements: Elements<'a>, body: &'a Node) -> Truth {
        let mut all = Ok(true);
        for element in elements {
            let absence = element.presence().map(|is_present| !is_present);
            all = and(all, or(absence, self.test(element.value, body)));
            if all == Ok(false) || self.exhausted.is_some() {
                break;
            }
        }
        all
    }

    /// Two items that fit decide, whatever is missing of the others; an error does not let itself be outvoted, as in CEL.
    fn exists_one(&mut self, elements: Elements<'a>, body: &'a Node) -> Truth {
        let mut fitting = 0_u32;
        let mut doubt: Option<Unknown> = None;
        for element in elements {
            let presence = element.presence();
            match and(presence, self.test(element.value, body)) {
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

    fn filter(&mut self, elements: Elements<'a>, body: &'a Node) -> Evaluated<'a> {
        let mut builder = Builder::default();
        for element in elements {
            match and(element.presence(), self.test(element.value.clone(), body)) {
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

    fn map(&mut self, elements: Elements<'a>, body: &'a Node) -> Evaluated<'a> {
        let mut builder = Builder::default();
        for element in elements {
            self.variables.push(element.value);
            let value = self.evaluate(body);
            self.variables.pop();
            builder.push(Element { value, doubt: element.doubt });
            if builder.is_full() || self.exhausted.is_some() {
                break;
            }
        }
        self.built(builder)
    }

    /// Whether the body holds for one item.
    fn test(&mut self, item: Evaluated<'a>, body: &'a Node) -> Truth {
        self.variables.push(item);
        let truth = self.truth(body);
        self.variables.pop();
        truth
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
        // An item in doubt makes the number of every later one uncertain.
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

    /// The fewest and the most items that a list may have, and why that is not one number.
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

/// A list in the making.
#[derive(Default)]
struct Builder<'a> {
    elements: Vec<Element<'a>>,
    /// The reasons of every item that failed; one is enough to fail the list.
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

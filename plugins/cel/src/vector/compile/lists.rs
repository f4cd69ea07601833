//! Lists of the registry: members, memberships and repeated fields, filtered or not.

use super::{Compiler, Name, Placed, lifted_test, lifted_value, values};
use crate::schema::Space;
use crate::tree::{Kind, Node, Quantifier, Type};
use crate::vector::program::{ListOf, Source, Test, Value};

impl<'a> Compiler<'a> {
    /// A list of every row of a frame, and its items. Lists built by the rule are left to the row evaluator.
    pub(super) fn list(&mut self, node: &'a Node) -> Option<(ListOf<'a>, Name)> {
        match &node.kind {
            Kind::Rows(Space::Me) => None,
            Kind::Rows(space) => {
                let items = self.frame_within(0);
                let source = Source::Rows(*space);
                Some((ListOf { owner: 0, items, source, keep: Vec::new() }, Name::Row(items)))
            }
            Kind::Field { items: values, .. } => {
                let Placed { part: column, frame } = self.field(node)?;
                let owner = frame?;
                let items = self.frame_within(owner);
                let source = Source::Column(column);
                let name = values.map_or(Name::Row(items), |values| Name::Item(items, values));
                Some((ListOf { owner, items, source, keep: Vec::new() }, name))
            }
            Kind::Comprehension {
                quantifier: Quantifier::Filter,
                list,
                is_indexed: false,
                keep: None,
                body,
                variable: _,
            } => {
                let (mut list, name) = self.list(list)?;
                list.keep.push(self.of_items(&list, name, body)?);
                Some((list, name))
            }
            _ => None,
        }
    }

    pub(super) fn quantified(
        &mut self,
        quantifier: Quantifier,
        list: &'a Node,
        body: &'a Node,
    ) -> Option<Placed<Test<'a>>> {
        let make: fn(ListOf<'a>, Box<Test<'a>>) -> Test<'a> = match quantifier {
            Quantifier::Exists => Test::Exists,
            Quantifier::All => Test::Every,
            Quantifier::ExistsOne => Test::One,
            Quantifier::Filter | Quantifier::Map | Quantifier::TransformMap | Quantifier::TransformMapEntry => {
                return None;
            }
        };
        let (list, name) = self.list(list)?;
        let body = self.of_items(&list, name, body)?;
        let frame = Some(list.owner);
        Some(Placed { part: make(list, Box::new(body)), frame })
    }

    /// The test of each item.
    fn of_items(&mut self, list: &ListOf<'a>, name: Name, body: &'a Node) -> Option<Test<'a>> {
        self.scope.push(name);
        let body = self.test(body);
        self.scope.pop();
        let body = body?;
        let is_of_items = body.frame.is_none_or(|frame| self.is_within(list.items, frame));
        is_of_items.then(|| lifted_test(body, Some(list.items)))
    }

    /// `item in list`, for a literal or a list of the registry.
    pub(super) fn is_in(&mut self, item: &'a Node, list: &'a Node) -> Option<Placed<Test<'a>>> {
        let value = self.value(item)?;
        if let Kind::List(elements) = &list.kind {
            let mut candidates = Vec::with_capacity(elements.len());
            for element in elements {
                let mut candidate = self.value(element)?;
                if item.value == Type::Number {
                    values::widen(&mut candidate.part);
                }
                candidates.push(candidate);
            }
            let frame = self.innermost(candidates.iter().map(|candidate| candidate.frame).chain([value.frame]))?;
            let candidates = candidates.into_iter().map(|candidate| lifted_value(candidate, frame)).collect();
            let value = Box::new(lifted_value(value, frame));
            return Some(Placed { part: Test::In(value, candidates), frame });
        }
        let (list, Name::Item(_, column)) = self.list(list)? else { return None };
        if !list.keep.is_empty() || !value.frame.is_none_or(|frame| self.is_within(list.owner, frame)) {
            return None;
        }
        let frame = Some(list.owner);
        let value = Box::new(lifted_value(value, frame));
        Some(Placed { part: Test::InItems(value, list, column), frame })
    }

    /// The number of items of a list.
    pub(super) fn size(&mut self, list: &'a Node) -> Option<Placed<Value<'a>>> {
        let (list, _) = self.list(list)?;
        let frame = Some(list.owner);
        Some(Placed { part: Value::Size(list), frame })
    }

    fn frame_within(&mut self, owner: usize) -> usize {
        self.parents.push(owner);
        self.parents.len() - 1
    }
}

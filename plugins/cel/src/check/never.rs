//! Comparisons that are never true: codes of other vocabularies, bounds in the wrong order, and contradictory bounds.
//!
//! **Invariant:** a reported comparison is true for no subject with any facts.

use super::Checker;
use crate::diagnostic::{Diagnostic, Fault};
use crate::facts::Fact;
use crate::message::Reason;
use crate::plan::Question;
use crate::span::Span;
use crate::tree::{CodePart, Comparison, Constant, Kind, Node, Type};

/// The values of a part for which a comparison is true.
#[derive(Clone, Debug, PartialEq)]
enum Allowed {
    /// Numbers or days between two ends, each included or excluded.
    Between { low: f64, has_low: bool, high: f64, has_high: bool },
    /// One text or code.
    Only(String),
}

const ALL: Allowed = Allowed::Between { low: f64::NEG_INFINITY, has_low: true, high: f64::INFINITY, has_high: true };
const COUNTS: Allowed = Allowed::Between { low: 0.0, has_low: true, high: f64::INFINITY, has_high: true };

impl Checker<'_> {
    /// Reports a comparison of a code with a code of a vocabulary that its field does not use.
    pub(super) fn can_be_same_code(&mut self, left: &Node, right: &Node) -> bool {
        let (Some(these), Some(those)) = (self.namespaces_of(left), self.namespaces_of(right)) else { return true };
        if these.iter().any(|namespace| those.contains(namespace)) {
            return true;
        }
        let (field, other, of_field, of_other) = match right.kind {
            Kind::Code(_) => (left, right, these, those),
            _ => (right, left, those, these),
        };
        let message = Reason::OtherVocabulary.with([&self.quote(field.span), &of_field.join(" "), &of_other.join(" ")]);
        self.error(Fault::NeverTrue, other.span, message);
        false
    }

    /// Returns true unless the code is of a vocabulary that the field does not use.
    pub(super) fn can_hold_code(&self, field: &Node, uri: &str) -> bool {
        let (Some(these), Some((namespace, _))) = (self.namespaces_of(field), uri.split_once('#')) else { return true };
        these.iter().any(|this| this == namespace)
    }

    /// Warns of a hierarchy of another vocabulary than those of the field.
    pub(super) fn warn_of_other_hierarchy(&mut self, field: &Node, uri: &str, literal: Span) {
        if self.can_hold_code(field, uri) {
            return;
        }
        let these = self.namespaces_of(field).unwrap_or_default();
        let namespace = uri.split_once('#').map_or(uri, |(namespace, _)| namespace);
        let message = Reason::OtherHierarchy.with([&self.quote(field.span), &these.join(" "), namespace]);
        self.diagnostics.push(Diagnostic::warning(Fault::NeverTrue, literal, message));
    }

    /// Reports a code compared with a text that is not a URI. The suggestion is the code of that name or number in the
    /// field's vocabulary; the host removes it if there is none.
    pub(super) fn compared_with_text(&mut self, field: &Node, text: &Node, written: &str) -> Option<Node> {
        let namespace = self.only_vocabulary(field)?;
        let message = Reason::CompareWithCodeOf.with([&self.quote(field.span), &namespace]);
        let is_plain = !written.trim().is_empty() && !written.contains(['\'', '\\', '#']);
        let suggestion = is_plain.then(|| format!("code('{namespace}#{written}')"));
        self.report(Diagnostic::error(Fault::WrongType, text.span, message).suggest(suggestion))
    }

    /// The vocabulary of a field, if it has exactly one.
    pub(super) fn only_vocabulary(&self, node: &Node) -> Option<String> {
        match self.namespaces_of(node)?.as_slice() {
            [namespace] if !matches!(node.kind, Kind::Code(_)) => Some(namespace.clone()),
            _ => None,
        }
    }

    /// Warns of a part of a code compared with a text that no code of the field has: another vocabulary, or a URI where
    /// `.code` is the code alone.
    pub(super) fn warn_of_other_text(&mut self, left: &Node, right: &Node) {
        for (one, other) in [(left, right), (right, left)] {
            let (Kind::CodeText(part, code), Kind::Constant(Constant::Text(text))) = (&one.kind, &other.kind) else {
                continue;
            };
            let Some(namespaces) = self.namespaces_of(code) else { continue };
            let is_of_field = |namespace: &str| namespaces.iter().any(|this| this == namespace);
            let can_be = match part {
                CodePart::Display => true,
                CodePart::Namespace => is_of_field(text),
                CodePart::Uri => text.split_once('#').is_some_and(|(namespace, _)| is_of_field(namespace)),
                CodePart::Code => text.split_once('#').is_none_or(|(namespace, _)| !is_of_field(namespace)),
            };
            if can_be {
                continue;
            }
            let message =
                Reason::OtherText.with([&self.quote(one.span), &self.quote(other.span), &namespaces.join(" ")]);
            self.diagnostics.push(Diagnostic::warning(Fault::NeverTrue, other.span, message));
        }
    }

    /// Reports bounds of `between` in the wrong order.
    pub(super) fn has_room_between(&mut self, low: &Node, high: &Node, span: Span) -> bool {
        let (Some(least), Some(most)) = (number(low), number(high)) else { return true };
        if least <= most {
            return true;
        }
        let message = Reason::NothingBetween.with([&self.quote(low.span), &self.quote(high.span)]);
        self.error(Fault::NeverTrue, span, message);
        false
    }

    /// Reports a comparison of a count with an impossible count.
    pub(super) fn can_hold(&mut self, comparison: &Node) -> bool {
        let Some((part, allowed)) = self.allowed(comparison) else { return true };
        let Kind::Size(_) = &part.kind else { return true };
        if overlap(&COUNTS, &allowed).is_some() {
            return true;
        }
        let message = Reason::NegativeCount.with([&self.quote(part.span)]);
        self.error(Fault::NeverTrue, comparison.span, message);
        false
    }

    /// Warns of contradictory comparisons of the same part.
    pub(super) fn warn_of_contradiction(&mut self, left: &Node, right: &Node) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        conjuncts(left, &mut before);
        conjuncts(right, &mut after);
        for later in &after {
            let Some((part, allowed)) = self.allowed(later) else { continue };
            let text = part.span.text(self.source);
            for earlier in &before {
                let Some((other, with)) = self.allowed(earlier) else { continue };
                if other.span.text(self.source) != text || overlap(&allowed, &with).is_some() {
                    continue;
                }
                let message = Reason::Contradiction.with([&self.quote(earlier.span), &self.quote(later.span)]);
                self.diagnostics.push(Diagnostic::warning(Fault::NeverTrue, later.span, message));
                return;
            }
        }
    }

    /// The part of a comparison with a constant, and the values for which it is true.
    fn allowed<'n>(&self, node: &'n Node) -> Option<(&'n Node, Allowed)> {
        let Kind::Compare(comparison, left, right) = &node.kind else { return None };
        if let Some(value) = number(right) {
            return Some((left, within(*comparison, value)?));
        }
        if let Some(value) = number(left) {
            return Some((right, within(comparison.turned(), value)?));
        }
        if *comparison != Comparison::Equal {
            return None;
        }
        let only = |node: &Node| match &node.kind {
            Kind::Constant(Constant::Text(text)) => Some(text.clone()),
            Kind::Code(question) => match &self.plan.questions().get(*question)?.question {
                Question::Code(uri) => Some(uri.clone()),
                Question::InGroup(_) | Question::DescendsFrom(_) => None,
            },
            _ => None,
        };
        match (only(left), only(right)) {
            (None, Some(text)) => Some((left, Allowed::Only(text))),
            (Some(text), None) => Some((right, Allowed::Only(text))),
            _ => None,
        }
    }

    /// The possible vocabularies of a code; none if unknown.
    fn namespaces_of(&self, node: &Node) -> Option<Vec<String>> {
        match &node.kind {
            Kind::Code(question) => {
                let Question::Code(uri) = &self.plan.questions().get(*question)?.question else { return None };
                uri.split_once('#').map(|(namespace, _)| vec![namespace.to_owned()])
            }
            Kind::Field { .. } => self.vocabularies_of(&node.value),
            Kind::Variable(number) if self.item_variables.contains(number) => self.vocabularies_of(&node.value),
            _ => None,
        }
    }

    fn vocabularies_of(&self, value: &Type) -> Option<Vec<String>> {
        let Type::Coded(fields) = value else { return None };
        let mut namespaces = Vec::new();
        for (number, reference) in self.plan.references().iter().enumerate() {
            if fields.contains(Fact::Field(number)) {
                let field = self.schema.field(reference.space, &reference.path)?;
                namespaces.extend(field.vocabularies.iter().cloned());
                if field.vocabularies.is_empty() {
                    return None;
                }
            }
        }
        (!namespaces.is_empty()).then_some(namespaces)
    }
}

/// The operands of a conjunction.
fn conjuncts<'n>(node: &'n Node, found: &mut Vec<&'n Node>) {
    match &node.kind {
        Kind::And(left, right) => {
            conjuncts(left, found);
            conjuncts(right, found);
        }
        Kind::Compare(..) => found.push(node),
        _ => {}
    }
}

/// A constant number or day.
fn number(node: &Node) -> Option<f64> {
    match &node.kind {
        // Whole numbers beyond 2^53 are rounded, always both of a pair in the same direction.
        Kind::Constant(Constant::Integer(integer)) => Some(*integer as f64),
        Kind::Constant(Constant::Number(number)) => Some(*number),
        Kind::Constant(Constant::Date(days)) => Some(f64::from(*days)),
        _ => None,
    }
}

fn within(comparison: Comparison, value: f64) -> Option<Allowed> {
    let Allowed::Between { low, has_low, high, has_high } = ALL else { return None };
    Some(match comparison {
        Comparison::Equal => Allowed::Between { low: value, has_low: true, high: value, has_high: true },
        Comparison::NotEqual => return None,
        Comparison::Less => Allowed::Between { low, has_low, high: value, has_high: false },
        Comparison::LessOrEqual => Allowed::Between { low, has_low, high: value, has_high: true },
        Comparison::Greater => Allowed::Between { low: value, has_low: false, high, has_high },
        Comparison::GreaterOrEqual => Allowed::Between { low: value, has_low: true, high, has_high },
    })
}

/// The intersection; none if it is empty.
fn overlap(these: &Allowed, those: &Allowed) -> Option<Allowed> {
    match (these, those) {
        (Allowed::Only(this), Allowed::Only(that)) => (this == that).then(|| these.clone()),
        (
            Allowed::Between { low, has_low, high, has_high },
            Allowed::Between { low: other_low, has_low: has_other_low, high: other_high, has_high: has_other_high },
        ) => {
            let (least, has_least) = match low.total_cmp(other_low) {
                std::cmp::Ordering::Equal => (*low, *has_low && *has_other_low),
                std::cmp::Ordering::Less => (*other_low, *has_other_low),
                std::cmp::Ordering::Greater => (*low, *has_low),
            };
            let (most, has_most) = match high.total_cmp(other_high) {
                std::cmp::Ordering::Equal => (*high, *has_high && *has_other_high),
                std::cmp::Ordering::Less => (*high, *has_high),
                std::cmp::Ordering::Greater => (*other_high, *has_other_high),
            };
            let is_empty = least > most || (least == most && !(has_least && has_most));
            (!is_empty).then_some(Allowed::Between { low: least, has_low: has_least, high: most, has_high: has_most })
        }
        // A text and a number for the same part are a type fault, which is reported elsewhere.
        _ => Some(these.clone()),
    }
}

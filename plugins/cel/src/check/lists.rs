//! Lists: literals, indexing, searching, and comprehensions.

use super::operators::can_equal;
use super::{Checker, signature::Method};
use crate::diagnostic::{Diagnostic, Fault};
use crate::foreign::{call, operand};
use crate::message::{Message, Reason};
use crate::span::Span;
use crate::tree::{Kind, Node, OtherType, Quantifier, Type};
use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{Expr, ListExpr, operators as symbols};

impl Checker<'_> {
    /// `[a, b, c]`
    pub(super) fn list(&mut self, expression: &IdedExpr, list: &ListExpr) -> Option<Node> {
        let at = self.parsed.token(expression);
        let checked: Vec<Option<Node>> = list.elements.iter().map(|element| self.expression(element)).collect();
        let elements: Vec<Node> = checked.into_iter().collect::<Option<_>>()?;
        if !list.optional_indices.is_empty() {
            let span = at.to(self.parsed.closing(at));
            let placed = (0..elements.len()).map(operand).collect();
            let written = Expr::List(ListExpr::new_with_optionals(placed, list.optional_indices.clone()));
            let value = Type::List(Box::new(Type::Dynamic));
            return self.foreign(written, elements, value, span, at);
        }
        let mut item = Type::Nothing;
        for element in &elements {
            item = match item.common(&element.value) {
                Some(item) => item,
                None => {
                    let message = Message::from(Reason::ListOfOneType).about(self.describe(element)).of_type(&item);
                    return self.error(Fault::WrongType, element.span, message);
                }
            };
        }
        let span = at.to(self.parsed.closing(at));
        Some(Node { kind: Kind::List(elements), value: Type::List(Box::new(item)), span, at })
    }

    /// `item in list`
    pub(super) fn is_in(&mut self, at: Span, item: &IdedExpr, list: &IdedExpr) -> Option<Node> {
        let (item, list) = self.both(item, list)?;
        let span = item.span.to(list.span);
        if matches!(list.value, Type::Dynamic | Type::Other(OtherType::Map))
            || (matches!(list.value, Type::List(_)) && (item.value.is_foreign() || list.value.is_foreign()))
        {
            return self.foreign(call(symbols::IN, false, 2), vec![item, list], Type::Boolean, span, at);
        }
        let Type::List(inner) = &list.value else {
            let is_text = list.value == Type::Text;
            let reason = if is_text { Reason::InTakesListNotText } else { Reason::InTakesList };
            let message = Message::from(reason).about(self.describe(&list));
            return self.error(Fault::WrongType, list.span, message);
        };
        if !can_equal(&item.value, inner) {
            let is_code_among_texts = matches!(item.value, Type::Coded(_)) && **inner == Type::Text;
            let reason = if is_code_among_texts { Reason::CannotFindCode } else { Reason::CannotFind };
            let message = Message::from(reason).of_type(&item.value).of_type(inner);
            return self.error(Fault::WrongType, span, message);
        }
        if let Kind::List(elements) = &list.kind {
            let mut can_be = true;
            for element in elements {
                can_be &= self.can_be_same_code(&item, element);
            }
            if !can_be {
                return None;
            }
        }
        Some(Node { kind: Kind::In(Box::new(item), Box::new(list)), value: Type::Boolean, span, at })
    }

    /// `list[index]`
    pub(super) fn index(&mut self, symbol: &str, at: Span, list: &IdedExpr, index: &IdedExpr) -> Option<Node> {
        let (list, index) = self.both(list, index)?;
        if symbol == symbols::OPT_INDEX || !matches!(list.value, Type::List(_)) || index.value.is_foreign() {
            return self.foreign_index(symbol, at, list, index);
        }
        let span = list.span.to(self.parsed.closing(at));
        let Type::List(item) = &list.value else {
            let message = Message::from(Reason::ItemOfList).about(self.describe(&list));
            return self.error(Fault::WrongType, list.span, message);
        };
        if index.value != Type::Integer {
            let message = Message::from(Reason::ItemByNumber).about(self.describe(&index));
            return self.error(Fault::WrongType, index.span, message);
        }
        let value = (**item).clone();
        Some(Node { kind: Kind::Index(Box::new(list), Box::new(index)), value, span, at })
    }

    /// The length of a list or text.
    pub(super) fn size(&mut self, operand: Node, at: Span, span: Span) -> Option<Node> {
        if matches!(operand.value, Type::Dynamic | Type::Other(OtherType::Map | OtherType::Bytes)) {
            return self.foreign(call("size", false, 1), vec![operand], Type::Integer, span, at);
        }
        if !matches!(operand.value, Type::List(_) | Type::Text) {
            let message = Reason::TakesListOrText.with(["size"]).about(self.describe(&operand));
            return self.error(Fault::WrongType, operand.span, message);
        }
        Some(Node { kind: Kind::Size(Box::new(operand)), value: Type::Integer, span, at })
    }

    /// `list.exists(x, …)` and similar.
    pub(super) fn comprehension(
        &mut self,
        method: Method,
        list: Node,
        arguments: &[IdedExpr],
        at: Span,
        span: Span,
    ) -> Option<Node> {
        let item = self.item_of(&list, at)?;
        match (method, arguments) {
            (Method::Exists, [variable, body]) => {
                self.quantified(Quantifier::Exists, list, &item, variable, body, at, span)
            }
            (Method::All, [variable, body]) => self.quantified(Quantifier::All, list, &item, variable, body, at, span),
            (Method::ExistsOne, [variable, body]) => {
                self.quantified(Quantifier::ExistsOne, list, &item, variable, body, at, span)
            }
            (Method::Filter, [variable, body]) => {
                self.quantified(Quantifier::Filter, list, &item, variable, body, at, span)
            }
            (Method::Map, [variable, body]) => self.quantified(Quantifier::Map, list, &item, variable, body, at, span),
            (Method::Map, [variable, condition, body]) => {
                let stored = self.quantified(Quantifier::Filter, list, &item, variable, condition, at, span)?;
                self.quantified(Quantifier::Map, stored, &item, variable, body, at, span)
            }
            _ => None,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of the call as it was written")]
    fn quantified(
        &mut self,
        quantifier: Quantifier,
        list: Node,
        item: &Type,
        variable: &IdedExpr,
        body: &IdedExpr,
        at: Span,
        span: Span,
    ) -> Option<Node> {
        let Expr::Ident(name) = &variable.expr else {
            let message = Reason::TakesNameForItem.with([&self.quote(at)]);
            let span = self.parsed.token(variable);
            return self.report(Diagnostic::error(Fault::WrongType, span, message));
        };
        self.scopes.push((name.clone(), item.clone()));
        let number = self.scopes.len();
        let is_of_field = matches!(list.kind, Kind::Field { .. });
        self.item_variables.extend(is_of_field.then_some(number));
        let body = self.expression(body);
        self.scopes.pop();
        if is_of_field {
            self.item_variables.pop();
        }
        let body = body?;
        let value = match quantifier {
            Quantifier::Map => Type::List(Box::new(body.value.clone())),
            _ if !self.is_boolean(at, &body) => return None,
            Quantifier::Filter if matches!(list.value, Type::List(_)) => list.value.clone(),
            Quantifier::Filter => Type::List(Box::new(Type::Dynamic)),
            Quantifier::Exists | Quantifier::All | Quantifier::ExistsOne => Type::Boolean,
            Quantifier::TransformMap | Quantifier::TransformMapEntry => Type::Other(OtherType::Map),
        };
        let (list, body) = (Box::new(list), Box::new(body));
        let kind = Kind::Comprehension { quantifier, list, variable: number, is_indexed: false, keep: None, body };
        Some(Node { kind, value, span, at })
    }

    /// The type of the items of a list, or of the keys of a map.
    pub(super) fn item_of(&mut self, list: &Node, at: Span) -> Option<Type> {
        match &list.value {
            Type::List(item) => Some((**item).clone()),
            Type::Dynamic | Type::Other(OtherType::Map) => Some(Type::Dynamic),
            _ => {
                let message = Reason::TakesList.with([&self.quote(at)]).about(self.describe(list));
                self.error(Fault::WrongType, list.span, message);
                None
            }
        }
    }
}

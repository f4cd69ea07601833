//! Macros with more variables than one per item: `cel.bind`, macros of two variables, of optional values, and `sortBy`.

use super::Checker;
use crate::diagnostic::{Diagnostic, Fault};
use crate::foreign::call;
use crate::message::{Message, Reason};
use crate::span::Span;
use crate::tree::{Kind, Node, OtherType, Quantifier, Type};
use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::Expr;

/// A variable name that is not valid in expressions.
const HIDDEN: &str = "@target";

impl Checker<'_> {
    /// `cel.bind(name, value, body)`
    pub(super) fn bind(&mut self, arguments: &[IdedExpr], at: Span, span: Span) -> Option<Node> {
        let [name, value, body] = arguments else {
            let given = arguments.len().to_string();
            let message = Reason::ArgumentCount.with(["bind", "3", "3", &given, "cel.bind(x, value, …)"]);
            return self.error(Fault::WrongArgumentCount, at, message);
        };
        let name = self.variable(name, at)?;
        let value = self.expression(value);
        // A body with an invalid variable would only repeat that fault.
        let value = value?;
        self.bound(&name, value, at, span, |checker| checker.expression(body))
    }

    /// A body in which a name is bound to a value.
    fn bound(
        &mut self,
        name: &str,
        value: Node,
        at: Span,
        span: Span,
        body: impl FnOnce(&mut Self) -> Option<Node>,
    ) -> Option<Node> {
        self.scopes.push((name.to_owned(), value.value.clone()));
        let variable = self.scopes.len();
        let body = body(self);
        self.scopes.pop();
        let body = body?;
        let made = body.value.clone();
        Some(Node {
            kind: Kind::Bind { value: Box::new(value), variable, body: Box::new(body) },
            value: made,
            span,
            at,
        })
    }

    /// The macros of two variables, those of optional values, and `sortBy`; none for other calls.
    pub(super) fn macro_with_variables(
        &mut self,
        name: &str,
        target: &Node,
        arguments: &[IdedExpr],
        at: Span,
        open: Span,
    ) -> Option<Option<Node>> {
        let span = target.span.to(self.parsed.closing(open));
        Some(match (name, arguments) {
            ("exists", [first, second, body]) => {
                self.indexed(Quantifier::Exists, target, [first, second], None, body, at, span)
            }
            ("all", [first, second, body]) => {
                self.indexed(Quantifier::All, target, [first, second], None, body, at, span)
            }
            ("exists_one" | "existsOne", [first, second, body]) => {
                self.indexed(Quantifier::ExistsOne, target, [first, second], None, body, at, span)
            }
            ("transformList", [first, second, body]) => {
                self.indexed(Quantifier::Map, target, [first, second], None, body, at, span)
            }
            ("transformList", [first, second, keep, body]) => {
                self.indexed(Quantifier::Map, target, [first, second], Some(keep), body, at, span)
            }
            ("transformMap", [first, second, body]) => {
                self.indexed(Quantifier::TransformMap, target, [first, second], None, body, at, span)
            }
            ("transformMap", [first, second, keep, body]) => {
                self.indexed(Quantifier::TransformMap, target, [first, second], Some(keep), body, at, span)
            }
            ("transformMapEntry", [first, second, body]) => {
                self.indexed(Quantifier::TransformMapEntry, target, [first, second], None, body, at, span)
            }
            ("transformMapEntry", [first, second, keep, body]) => {
                self.indexed(Quantifier::TransformMapEntry, target, [first, second], Some(keep), body, at, span)
            }
            ("optMap", [variable, body]) => self.optional_map(target, variable, body, true, at, span),
            ("optFlatMap", [variable, body]) => self.optional_map(target, variable, body, false, at, span),
            ("sortBy", [variable, key]) => self.sort_by(target, variable, key, at, span),
            _ => return None,
        })
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of the call as it was written")]
    fn indexed(
        &mut self,
        quantifier: Quantifier,
        list: &Node,
        variables: [&IdedExpr; 2],
        keep: Option<&IdedExpr>,
        body: &IdedExpr,
        at: Span,
        span: Span,
    ) -> Option<Node> {
        let item = match &list.value {
            Type::Dynamic | Type::Other(OtherType::Map) => Type::Dynamic,
            _ => self.item_of(list, at)?,
        };
        let key = if matches!(list.value, Type::List(_)) { Type::Integer } else { Type::Dynamic };
        let [first, second] = variables;
        let (first_name, second_name) = (self.variable(first, at)?, self.variable(second, at)?);
        if first_name == second_name {
            let message = Reason::SameVariables.with([&self.quote(at), &first_name]);
            return self.error(Fault::WrongType, self.parsed.token(second), message);
        }
        self.scopes.push((first_name, key));
        self.scopes.push((second_name, item));
        let number = self.scopes.len();
        let keep = keep.map(|keep| self.expression(keep));
        let body = self.expression(body);
        self.scopes.truncate(number - 2);
        let keep = match keep {
            Some(keep) => Some(keep?),
            None => None,
        };
        let body = body?;
        if let Some(keep) = &keep
            && !self.is_boolean(at, keep)
        {
            return None;
        }
        let value = match quantifier {
            Quantifier::Map => Type::List(Box::new(body.value.clone())),
            Quantifier::TransformMap => Type::Other(OtherType::Map),
            Quantifier::TransformMapEntry if matches!(body.value, Type::Dynamic | Type::Other(OtherType::Map)) => {
                Type::Other(OtherType::Map)
            }
            Quantifier::TransformMapEntry => {
                let message = Reason::MakesEntry.with([&self.quote(at)]).about(self.describe(&body));
                return self.error(Fault::WrongType, body.span, message);
            }
            _ if !self.is_boolean(at, &body) => return None,
            Quantifier::Exists | Quantifier::All | Quantifier::ExistsOne | Quantifier::Filter => Type::Boolean,
        };
        if quantifier == Quantifier::TransformMap && !body.value.is_portable() {
            let message = Message::from(Reason::MapHoldsNot).about(self.describe(&body));
            return self.error(Fault::WrongType, body.span, message);
        }
        let kind = Kind::Comprehension {
            quantifier,
            list: Box::new(list.clone()),
            variable: number,
            is_indexed: true,
            keep: keep.map(Box::new),
            body: Box::new(body),
        };
        Some(Node { kind, value, span, at })
    }

    /// `optional.optMap(x, body)`: maps the value, if there is one.
    fn optional_map(
        &mut self,
        target: &Node,
        variable: &IdedExpr,
        body: &IdedExpr,
        is_wrapped: bool,
        at: Span,
        span: Span,
    ) -> Option<Node> {
        let optional = Type::Other(OtherType::Optional);
        if !matches!(&target.value, Type::Dynamic) && target.value != optional {
            let message = Reason::TakesOptional.with([&self.quote(at)]).about(self.describe(target));
            return self.error(Fault::WrongType, target.span, message);
        }
        let name = self.variable(variable, at)?;
        self.bound(HIDDEN, target.clone(), at, span, |checker| {
            let number = checker.scopes.len();
            let hidden =
                Node { kind: Kind::Variable(number), value: optional.clone(), span: target.span, at: target.span };
            let has_value = checker.library_method("hasValue", vec![hidden.clone()], at, span)?;
            let value = checker.library_method("value", vec![hidden], at, span)?;
            let mut made = checker.bound(&name, value, at, span, |checker| checker.expression(body))?;
            if is_wrapped {
                made = checker.library_function("optional.of", vec![made], at, span)?;
            }
            let none = checker.library_function("optional.none", Vec::new(), at, span)?;
            let kind = Kind::Conditional(Box::new(has_value), Box::new(made), Box::new(none));
            Some(Node { kind, value: optional, span, at })
        })
    }

    /// `list.sortBy(x, key)`
    fn sort_by(&mut self, target: &Node, variable: &IdedExpr, key: &IdedExpr, at: Span, span: Span) -> Option<Node> {
        let item = self.item_of(target, at)?;
        if !target.value.is_portable() {
            let message = Reason::SortsPlainValues.with([&self.quote(at)]).about(self.describe(target));
            return self.error(Fault::WrongType, target.span, message);
        }
        let name = self.variable(variable, at)?;
        self.bound(HIDDEN, target.clone(), at, span, |checker| {
            let number = checker.scopes.len();
            let list =
                Node { kind: Kind::Variable(number), value: target.value.clone(), span: target.span, at: target.span };
            checker.scopes.push((name, item));
            let keys = checker.expression(key);
            checker.scopes.pop();
            let keys = keys?;
            let value = Type::List(Box::new(keys.value.clone()));
            let kind = Kind::Comprehension {
                quantifier: Quantifier::Map,
                list: Box::new(list.clone()),
                variable: number + 1,
                is_indexed: false,
                keep: None,
                body: Box::new(keys),
            };
            let keys = Node { kind, value, span, at };
            let value = list.value.clone();
            checker.foreign(call("@sortByAssociatedKeys", true, 2), vec![list, keys], value, span, at)
        })
    }

    /// The name of a variable.
    fn variable(&mut self, variable: &IdedExpr, at: Span) -> Option<String> {
        if let Expr::Ident(name) = &variable.expr {
            return Some(name.clone());
        }
        let message = Reason::TakesNameForValue.with([&self.quote(at)]);
        let span = self.parsed.token(variable);
        self.report(Diagnostic::error(Fault::WrongType, span, message));
        None
    }
}

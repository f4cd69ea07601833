//! Parts that only the crate evaluates: literals, maps, and operators on values of types that records do not have.
//!
//! **Invariant:** the crate is never given a date, code or record, which it does not support.

use super::Checker;
use crate::diagnostic::{Diagnostic, Fault};
use crate::foreign::{call, operand};
use crate::message::{Message, Reason};
use crate::span::Span;
use crate::tree::{Kind, Node, OtherType, Type};
use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{
    EntryExpr, Expr, IdedEntryExpr, LiteralValue, MapEntryExpr, MapExpr, SelectExpr, operators as symbols,
};

/// The types that expressions can name.
const TYPES: [&str; 10] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

impl Checker<'_> {
    /// An operation of the crate with these operands.
    pub(super) fn foreign(
        &mut self,
        expression: Expr,
        operands: Vec<Node>,
        value: Type,
        span: Span,
        at: Span,
    ) -> Option<Node> {
        for operand in &operands {
            if !operand.value.is_portable() {
                return self.not_portable(operand, at);
            }
        }
        let operation = self.environment.operation(expression);
        Some(Node { kind: Kind::Foreign(operation, operands), value, span, at })
    }

    fn not_portable(&mut self, operand: &Node, at: Span) -> Option<Node> {
        let text = operand.span.text(self.source);
        let (reason, suggestion) = match &operand.value {
            Type::Coded(_) => (Reason::CannotTakeCode, Some(format!("{text}.code"))),
            Type::Date => (Reason::CannotTakeDate, Some(format!("timestamp({text})"))),
            _ => (Reason::CannotTake, None),
        };
        let message = reason.with([&self.quote(at)]).about(self.describe(operand));
        self.report(Diagnostic::error(Fault::WrongType, operand.span, message).suggest(suggestion))
    }

    /// A literal of a type that records do not have.
    pub(super) fn other_literal(&mut self, expression: &IdedExpr, literal: &LiteralValue) -> Option<Node> {
        let at = self.parsed.token(expression);
        let value = match literal {
            LiteralValue::UInt(_) => OtherType::Unsigned,
            LiteralValue::Bytes(_) => OtherType::Bytes,
            _ => OtherType::Null,
        };
        let value = if self.is_unchecked() { Type::Dynamic } else { Type::Other(value) };
        self.foreign(Expr::Literal(literal.clone()), Vec::new(), value, at, at)
    }

    /// `{key: value, …}`
    pub(super) fn map(&mut self, expression: &IdedExpr, map: &MapExpr) -> Option<Node> {
        let at = self.parsed.token(expression);
        let span = at.to(self.parsed.closing(at));
        let mut operands = Vec::with_capacity(map.entries.len() * 2);
        let mut entries = Vec::with_capacity(map.entries.len());
        let mut is_sound = true;
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return self.unsupported(expression, Reason::NoMessages);
            };
            let Some((key, value)) = self.both(&entry.key, &entry.value) else {
                is_sound = false;
                continue;
            };
            let may_be_key = matches!(
                key.value,
                Type::Boolean | Type::Integer | Type::Text | Type::Dynamic | Type::Other(OtherType::Unsigned)
            );
            if !may_be_key {
                let message = Message::from(Reason::KeyOfMap).about(self.describe(&key));
                self.error(Fault::WrongType, key.span, message);
                is_sound = false;
            }
            let number = operands.len();
            let entry = MapEntryExpr { key: operand(number), value: operand(number + 1), optional: entry.optional };
            entries.push(IdedEntryExpr { id: 0, expr: EntryExpr::MapEntry(entry) });
            operands.extend([key, value]);
        }
        if !is_sound {
            return None;
        }
        let value = if self.is_unchecked() { Type::Dynamic } else { Type::Other(OtherType::Map) };
        self.foreign(Expr::Map(MapExpr { entries }), operands, value, span, at)
    }

    /// `operand.field`, of a map or a value that may be one.
    pub(super) fn select_key(
        &mut self,
        operand_node: Node,
        field: &str,
        is_test: bool,
        at: Span,
        span: Span,
    ) -> Option<Node> {
        let may_have_fields =
            matches!(operand_node.value, Type::Dynamic | Type::Other(OtherType::Map | OtherType::Optional));
        if !may_have_fields {
            let message = Message::from(Reason::HasNoField).about(self.describe(&operand_node)).and(field);
            return self.error(Fault::WrongType, at, message);
        }
        let value = if is_test { Type::Boolean } else { Type::Dynamic };
        let select = SelectExpr { operand: Box::new(operand(0)), field: field.to_owned(), test: is_test };
        self.foreign(Expr::Select(select), vec![operand_node], value, span, at)
    }

    /// `a + b` and similar, with a foreign operand.
    pub(super) fn foreign_arithmetic(&mut self, symbol: &str, at: Span, left: Node, right: Node) -> Option<Node> {
        use OtherType::{Bytes, Duration, Timestamp, Unsigned};
        let value = match (symbol, &left.value, &right.value) {
            (_, Type::Dynamic, _) | (_, _, Type::Dynamic) => Type::Dynamic,
            (_, Type::Other(Unsigned), Type::Other(Unsigned)) => Type::Other(Unsigned),
            (symbols::ADD, Type::Other(Bytes), Type::Other(Bytes)) => Type::Other(Bytes),
            (symbols::ADD, Type::Other(Timestamp), Type::Other(Duration))
            | (symbols::ADD, Type::Other(Duration), Type::Other(Timestamp))
            | (symbols::SUBSTRACT, Type::Other(Timestamp), Type::Other(Duration)) => Type::Other(Timestamp),
            (symbols::ADD | symbols::SUBSTRACT, Type::Other(Duration), Type::Other(Duration))
            | (symbols::SUBSTRACT, Type::Other(Timestamp), Type::Other(Timestamp)) => Type::Other(Duration),
            (symbols::ADD, these @ Type::List(_), those @ Type::List(_)) => {
                these.common(those).unwrap_or(Type::List(Box::new(Type::Dynamic)))
            }
            _ => {
                let message = Reason::DoesNotTake.with([&self.quote(at)]).of_type(&left.value).of_type(&right.value);
                return self.error(Fault::WrongType, left.span.to(right.span), message);
            }
        };
        let span = left.span.to(right.span);
        self.foreign(call(symbol, false, 2), vec![left, right], value, span, at)
    }

    /// `a == b`, `a < b` and similar, with a foreign operand.
    pub(super) fn foreign_comparison(&mut self, symbol: &str, at: Span, left: Node, right: Node) -> Option<Node> {
        let is_equality = matches!(symbol, symbols::EQUALS | symbols::NOT_EQUALS);
        if let Some(null) = [&left, &right].into_iter().find(|node| node.value == Type::Other(OtherType::Null))
            && ![&left, &right].into_iter().any(|node| node.value == Type::Dynamic)
            && left.value != right.value
        {
            return self.error(Fault::NeverTrue, null.span, Reason::NoNull);
        }
        if !may_compare(&left.value, &right.value, is_equality) {
            return self.incomparable(at, &left, &right);
        }
        let span = left.span.to(right.span);
        self.foreign(call(symbol, false, 2), vec![left, right], Type::Boolean, span, at)
    }

    /// `list[i]`, `map[key]`, and both as an optional value.
    pub(super) fn foreign_index(&mut self, symbol: &str, at: Span, list: Node, index: Node) -> Option<Node> {
        let may_have_items =
            matches!(list.value, Type::Dynamic | Type::List(_) | Type::Other(OtherType::Map | OtherType::Optional));
        if !may_have_items {
            let message = Message::from(Reason::ItemsOfListOrMap).about(self.describe(&list));
            return self.error(Fault::WrongType, list.span, message);
        }
        let is_optional = symbol == symbols::OPT_INDEX || list.value == Type::Other(OtherType::Optional);
        let value = match &list.value {
            Type::Dynamic => Type::Dynamic,
            _ if is_optional => Type::Other(OtherType::Optional),
            Type::List(item) => (**item).clone(),
            _ => Type::Dynamic,
        };
        let span = list.span.to(self.parsed.closing(at));
        self.foreign(call(symbol, false, 2), vec![list, index], value, span, at)
    }

    /// `operand.?field`: a field of a record that may be missing, or a key of a map that may be absent.
    pub(super) fn optional_select(&mut self, at: Span, record: &IdedExpr, field: &IdedExpr) -> Option<Node> {
        let name = match &field.expr {
            Expr::Literal(LiteralValue::String(name)) => name.inner().to_owned(),
            _ => return self.unsupported(field, Reason::Unreadable),
        };
        let record = self.expression(record)?;
        let at_name = self.parsed.after(self.parsed.after(at));
        let span = record.span.to(at_name);
        let Type::Record(of) = record.value.clone() else {
            let value = Type::Other(OtherType::Optional);
            let may_have_fields =
                matches!(record.value, Type::Dynamic | Type::Other(OtherType::Map | OtherType::Optional));
            if !may_have_fields {
                let message = Message::from(Reason::HasNoField).about(self.describe(&record)).and(&name);
                return self.error(Fault::WrongType, at_name, message);
            }
            let name = Node {
                kind: Kind::Constant(crate::tree::Constant::Text(name)),
                value: Type::Text,
                span: at_name,
                at: at_name,
            };
            return self.foreign(call(symbols::OPT_SELECT, false, 2), vec![record, name], value, span, at);
        };
        let node = self.field(record, &of, &name, at_name)?;
        if matches!(node.value, Type::Record(_)) {
            // A structure has no value of its own; its fields are optional anyway.
            return Some(node);
        }
        if !node.value.is_portable() {
            return self.not_portable(&node, at);
        }
        let value = Type::Other(OtherType::Optional);
        Some(Node { kind: Kind::Optional(Box::new(node)), value, span, at })
    }

    /// The name of a type, such as `int` or `google.protobuf.Timestamp`.
    pub(super) fn type_name(&mut self, name: &str, span: Span) -> Option<Node> {
        TYPES.contains(&name).then_some(())?;
        let value = if self.is_unchecked() { Type::Dynamic } else { Type::Other(OtherType::Kind) };
        self.foreign(Expr::Ident(name.to_owned()), Vec::new(), value, span, span)
    }

    /// A dotted name that is a type of CEL, or a variable of the environment.
    pub(super) fn qualified_name(&mut self, expression: &IdedExpr) -> Option<Node> {
        let name = dotted(expression)?;
        let root = name.split('.').next().unwrap_or(&name);
        let is_ours = self.scopes.iter().any(|(variable, _)| variable == root);
        let is_type = name.starts_with("google.protobuf.") || name == "optional_type";
        if is_ours || !(is_type || self.environment.has_variables()) {
            return None;
        }
        let span = self.parsed.token(expression);
        self.foreign(expression.expr.clone(), Vec::new(), Type::Dynamic, span, span)
    }
}

/// The dotted name of an expression; none for any other expression.
pub(super) fn dotted(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => Some(format!("{}.{}", dotted(&select.operand)?, select.field)),
        _ => None,
    }
}

/// Returns true if values of these types may be equal, or have an order.
fn may_compare(left: &Type, right: &Type, is_equality: bool) -> bool {
    use OtherType::{Bytes, Duration, Timestamp, Unsigned};
    match (left, right) {
        (Type::Dynamic, _) | (_, Type::Dynamic) => true,
        (Type::Other(Unsigned), number) | (number, Type::Other(Unsigned))
            if number.is_numeric() || *number == Type::Other(Unsigned) =>
        {
            true
        }
        (Type::Other(this), Type::Other(that)) if this == that => {
            is_equality || matches!(this, Bytes | Duration | Timestamp)
        }
        (Type::List(these), Type::List(those)) => is_equality && may_compare_items(these, those),
        _ => false,
    }
}

fn may_compare_items(these: &Type, those: &Type) -> bool {
    may_compare(these, those, true) || super::operators::can_equal(these, those)
}

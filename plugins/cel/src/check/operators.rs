//! Operators: logic, comparison, arithmetic, the ternary.

use super::{Checker, origin};
use crate::calendar::parse_date;
use crate::diagnostic::{Diagnostic, Fault};
use crate::foreign::call;
use crate::message::{Message, Reason};
use crate::span::Span;
use crate::tree::{Comparison, Constant, Kind, Node, Operator, Type};
use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::operators as symbols;

impl Checker<'_> {
    /// An operator; none if the call is a function.
    pub(super) fn operator(
        &mut self,
        expression: &IdedExpr,
        name: &str,
        operands: &[IdedExpr],
    ) -> Option<Option<Node>> {
        let at = self.parsed.token(expression);
        Some(match (name, operands) {
            (symbols::LOGICAL_AND | symbols::LOGICAL_OR, [left, right]) => {
                self.logic(at, name == symbols::LOGICAL_AND, left, right)
            }
            (symbols::LOGICAL_NOT, [operand]) => self.not(at, operand),
            (symbols::CONDITIONAL, [condition, then, otherwise]) => self.conditional(at, condition, then, otherwise),
            (symbols::NEGATE, [operand]) => self.negate(at, operand),
            (symbols::IN, [item, list]) => self.is_in(at, item, list),
            (symbols::INDEX | symbols::OPT_INDEX, [list, index]) => self.index(name, at, list, index),
            (symbols::OPT_SELECT, [record, field]) => self.optional_select(at, record, field),
            (_, [left, right]) => match (comparison(name), arithmetic(name)) {
                (Some(comparison), _) => self.compare(name, at, comparison, left, right),
                (None, Some(operator)) => self.arithmetic(name, at, operator, left, right),
                (None, None) => return None,
            },
            _ => return None,
        })
    }

    /// Checks both operands, so that faults in each are found.
    pub(super) fn both(&mut self, left: &IdedExpr, right: &IdedExpr) -> Option<(Node, Node)> {
        let left = self.expression(left);
        let right = self.expression(right);
        Some((left?, right?))
    }

    fn logic(&mut self, at: Span, is_and: bool, left: &IdedExpr, right: &IdedExpr) -> Option<Node> {
        let (left, right) = self.both(left, right)?;
        let is_left = self.is_boolean(at, &left);
        let is_right = self.is_boolean(at, &right);
        if !is_left || !is_right {
            return None;
        }
        if is_and {
            self.warn_of_contradiction(&left, &right);
        }
        let span = left.span.to(right.span);
        let (left, right) = (Box::new(left), Box::new(right));
        let kind = if is_and { Kind::And(left, right) } else { Kind::Or(left, right) };
        Some(Node { kind, value: Type::Boolean, span, at })
    }

    fn not(&mut self, at: Span, operand: &IdedExpr) -> Option<Node> {
        let operand = self.expression(operand)?;
        if !matches!(operand.value, Type::Boolean | Type::Dynamic) {
            let message = Reason::NotTakesBoolean.with([&self.quote(at)]).about(self.describe(&operand));
            return self.error(Fault::WrongType, operand.span, message);
        }
        let span = at.to(operand.span);
        Some(Node { kind: Kind::Not(Box::new(operand)), value: Type::Boolean, span, at })
    }

    /// Checks that an operand or condition is boolean.
    pub(super) fn is_boolean(&mut self, at: Span, node: &Node) -> bool {
        if matches!(node.value, Type::Boolean | Type::Dynamic) {
            return true;
        }
        let message = Reason::TakesBoolean.with([&self.quote(at)]).about(self.describe(node));
        self.error(Fault::WrongType, node.span, message);
        false
    }

    fn conditional(&mut self, at: Span, condition: &IdedExpr, then: &IdedExpr, otherwise: &IdedExpr) -> Option<Node> {
        let condition = self.expression(condition);
        let branches = self.both(then, otherwise);
        let condition = condition?;
        let is_boolean = self.is_boolean(at, &condition);
        let (then, otherwise) = branches?;
        let Some(value) = then.value.common(&otherwise.value) else {
            let message =
                Message::from(Reason::BranchTypes).about(self.describe(&then)).about(self.describe(&otherwise));
            return self.error(Fault::WrongType, then.span.to(otherwise.span), message);
        };
        if !is_boolean {
            return None;
        }
        let span = condition.span.to(otherwise.span);
        let kind = Kind::Conditional(Box::new(condition), Box::new(then), Box::new(otherwise));
        Some(Node { kind, value, span, at })
    }

    fn negate(&mut self, at: Span, operand: &IdedExpr) -> Option<Node> {
        let operand = self.expression(operand)?;
        if operand.value == Type::Dynamic {
            let span = at.to(operand.span);
            return self.foreign(call(symbols::NEGATE, false, 1), vec![operand], Type::Dynamic, span, at);
        }
        if !operand.value.is_numeric() {
            let message = Reason::TakesType.with(["-", "numeric"]).about(self.describe(&operand));
            return self.error(Fault::WrongType, operand.span, message);
        }
        let span = at.to(operand.span);
        let value = operand.value.clone();
        Some(Node { kind: Kind::Negate(Box::new(operand)), value, span, at })
    }

    fn compare(
        &mut self,
        symbol: &str,
        at: Span,
        comparison: Comparison,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Option<Node> {
        let (left, right) = self.both(left, right)?;
        if left.value.is_foreign() || right.value.is_foreign() {
            return self.foreign_comparison(symbol, at, left, right);
        }
        let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let is_sound = if is_equality { can_equal(&left.value, &right.value) } else { has_order(&left, &right) };
        if !is_sound {
            return self.incomparable(at, &left, &right);
        }
        if is_equality && !self.can_be_same_code(&left, &right) {
            return None;
        }
        if is_equality {
            self.warn_of_other_text(&left, &right);
        }
        let span = left.span.to(right.span);
        let kind = Kind::Compare(comparison, Box::new(left), Box::new(right));
        let node = Node { kind, value: Type::Boolean, span, at };
        self.can_hold(&node).then_some(node)
    }

    /// Reports why two values cannot be compared, with a suggestion.
    pub(super) fn incomparable(&mut self, at: Span, left: &Node, right: &Node) -> Option<Node> {
        let operator = self.quote(at);
        for (one, other) in [(left, right), (right, left)] {
            match (&one.value, &other.value, &other.kind) {
                (Type::Coded(_), Type::Text, Kind::Constant(Constant::Text(text))) if text.contains('#') => {
                    let message = Reason::CompareWithCode.with([&self.quote(one.span)]);
                    let suggestion =
                        self.can_hold_code(one, text).then(|| format!("code({})", other.span.text(self.source)));
                    let fault = Diagnostic::error(Fault::WrongType, other.span, message);
                    return self.report(fault.suggest(suggestion));
                }
                (Type::Coded(_), Type::Text, Kind::Constant(Constant::Text(text)))
                    if self.only_vocabulary(one).is_some() =>
                {
                    return self.compared_with_text(one, other, text);
                }
                (Type::Coded(_), Type::Text, _) => {
                    let code = one.span.text(self.source);
                    let message = Reason::ComparePartOfCode.with([&self.quote(one.span)]);
                    let suggestion = (!origin(&one.value).is_empty()).then(|| format!("{code}.code"));
                    return self.report(Diagnostic::error(Fault::WrongType, one.span, message).suggest(suggestion));
                }
                (Type::Date, Type::Text, _) => {
                    let message = Reason::CompareWithDate.with([&self.quote(one.span)]);
                    let suggestion = can_be_date(other).then(|| format!("date({})", other.span.text(self.source)));
                    let fault = Diagnostic::error(Fault::WrongType, other.span, message);
                    return self.report(fault.suggest(suggestion));
                }
                (Type::Record(_) | Type::List(_), _, _) => {
                    let message = Reason::CannotCompare.with([&operator]).about(self.describe(one));
                    return self.error(Fault::WrongType, one.span, message);
                }
                _ => {}
            }
        }
        let message = Reason::CannotCompareTypes.with([&operator]).of_type(&left.value).of_type(&right.value);
        self.error(Fault::WrongType, left.span.to(right.span), message)
    }

    fn arithmetic(
        &mut self,
        symbol: &str,
        at: Span,
        operator: Operator,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Option<Node> {
        let (left, right) = self.both(left, right)?;
        if left.value.is_foreign() || right.value.is_foreign() {
            return self.foreign_arithmetic(symbol, at, left, right);
        }
        let value = match (operator, &left.value, &right.value) {
            (_, Type::Integer, Type::Integer) => Type::Integer,
            (Operator::Remainder, _, _) => return self.not_arithmetic(at, Reason::TakesIntegers, &left, &right),
            (_, Type::Number, Type::Number) => Type::Number,
            (Operator::Add, Type::Text, Type::Text) => Type::Text,
            (Operator::Add, these @ Type::List(_), those @ Type::List(_)) => match these.common(those) {
                Some(value) => value,
                None => return self.not_arithmetic(at, Reason::TakesListsOfOneType, &left, &right),
            },
            (_, Type::Integer, Type::Number) => return self.mixed_numbers(at, &left),
            (_, Type::Number, Type::Integer) => return self.mixed_numbers(at, &right),
            (Operator::Subtract, Type::Date, Type::Date) => {
                return self.error(Fault::WrongType, left.span.to(right.span), Reason::NoDateArithmetic);
            }
            (Operator::Add, _, _) => return self.not_arithmetic(at, Reason::TakesSummands, &left, &right),
            _ => return self.not_arithmetic(at, Reason::TakesTwoNumbers, &left, &right),
        };
        let span = left.span.to(right.span);
        Some(Node { kind: Kind::Arithmetic(operator, Box::new(left), Box::new(right)), value, span, at })
    }

    fn not_arithmetic(&mut self, at: Span, reason: Reason, left: &Node, right: &Node) -> Option<Node> {
        let message = reason.with([&self.quote(at)]).of_type(&left.value).of_type(&right.value);
        self.error(Fault::WrongType, left.span.to(right.span), message)
    }

    fn mixed_numbers(&mut self, at: Span, integer: &Node) -> Option<Node> {
        let text = integer.span.text(self.source);
        let is_decimal = matches!(integer.kind, Kind::Constant(_)) && !text.contains("0x");
        let suggestion = if is_decimal { format!("{text}.0") } else { format!("double({text})") };
        let message = Reason::MixedNumbers.with([&self.quote(at), &suggestion]);
        self.report(Diagnostic::error(Fault::WrongType, integer.span, message).suggest(Some(suggestion)))
    }
}

/// Returns true if a text may be a day: a constant must be one, other texts are read at evaluation.
pub(super) fn can_be_date(text: &Node) -> bool {
    match &text.kind {
        Kind::Constant(Constant::Text(written)) => parse_date(written).is_some(),
        _ => true,
    }
}

/// Returns true if values of these types support `==`.
pub(super) fn can_equal(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Record(_), _) | (_, Type::Record(_)) => false,
        (Type::List(these), Type::List(those)) => can_equal(these, those),
        _ => (left.is_numeric() && right.is_numeric()) || left.common(right).is_some(),
    }
}

/// Returns true if these values support `<`.
pub(super) fn has_order(left: &Node, right: &Node) -> bool {
    matches!(
        (&left.value, &right.value),
        (Type::Integer | Type::Number, Type::Integer | Type::Number)
            | (Type::Text, Type::Text)
            | (Type::Date, Type::Date)
            | (Type::Boolean, Type::Boolean)
    )
}

fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        symbols::EQUALS => Comparison::Equal,
        symbols::NOT_EQUALS => Comparison::NotEqual,
        symbols::LESS => Comparison::Less,
        symbols::LESS_EQUALS => Comparison::LessOrEqual,
        symbols::GREATER => Comparison::Greater,
        symbols::GREATER_EQUALS => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn arithmetic(name: &str) -> Option<Operator> {
    Some(match name {
        symbols::ADD => Operator::Add,
        symbols::SUBSTRACT => Operator::Subtract,
        symbols::MULTIPLY => Operator::Multiply,
        symbols::DIVIDE => Operator::Divide,
        symbols::MODULO => Operator::Remainder,
        _ => return None,
    })
}

//! Calls: function lookup, argument counts, and the standard functions of CEL.

use super::Checker;
use super::signature::{self, Function, Method, Signature};
use crate::diagnostic::{Diagnostic, Fault};
use crate::foreign::call;
use crate::leaf::CONVERSIONS;
use crate::message::Reason;
use crate::span::Span;
use crate::tree::{Constant, Kind, Node, TextTest, Type};
use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{Expr, LiteralValue};

impl Checker<'_> {
    /// `function(arguments)`
    pub(super) fn function(&mut self, expression: &IdedExpr, name: &str, arguments: &[IdedExpr]) -> Option<Node> {
        let open = self.parsed.token(expression);
        let at = self.parsed.before(open);
        let span = at.to(self.parsed.closing(open));
        if name == "dyn" {
            return self.unchecked(arguments, at, span);
        }
        let Some(signature) = signature::function(name) else {
            if !Self::is_library_function(name) {
                return self.unknown_function(name, at);
            }
            let operands = self.operands(arguments)?;
            return self.library_function(name, operands, at, span);
        };
        self.count(signature, arguments.len(), at)?;
        match (signature.function, arguments) {
            (Function::Has, [argument]) => self.has(argument, at, span),
            (Function::Size, [argument]) => {
                let operand = self.expression(argument)?;
                self.size(operand, at, span)
            }
            (Function::Matches, [text, pattern]) => {
                let (text, pattern) = self.both(text, pattern)?;
                self.text_test(TextTest::Matches(self.environment.matcher()), text, pattern, at, span)
            }
            (Function::Convert, [argument]) => {
                let operand = self.expression(argument)?;
                self.convert(name, operand, at, span)
            }
            (helper, arguments) => self.helper(helper, arguments, at, span),
        }
    }

    /// `target.method(arguments)`
    pub(super) fn method(
        &mut self,
        expression: &IdedExpr,
        target: &IdedExpr,
        name: &str,
        arguments: &[IdedExpr],
    ) -> Option<Node> {
        let open = self.parsed.token(expression);
        let at = self.parsed.before(open);
        if let Expr::Ident(namespace) = &target.expr {
            let span = self.parsed.token(target).to(self.parsed.closing(open));
            if namespace == "cel" && name == "bind" {
                return self.bind(arguments, at, span);
            }
            if let Some(checked) = self.namespaced(namespace, name, arguments, at, span) {
                return checked;
            }
        }
        let target = self.expression(target);
        if let Some(target) = &target
            && let Some(checked) = self.macro_with_variables(name, target, arguments, at, open)
        {
            return checked;
        }
        let Some(signature) = signature::method(name) else {
            if !Self::is_library_method(name) {
                return self.unknown_method(name, at, target.as_ref());
            }
            let operands = self.operands(arguments);
            let (target, operands) = (target?, operands?);
            let span = target.span.to(self.parsed.closing(open));
            return self.library_method(name, std::iter::once(target).chain(operands).collect(), at, span);
        };
        self.count(signature, arguments.len(), at)?;
        let target = target?;
        let span = target.span.to(self.parsed.closing(open));
        let test = match signature.function {
            Method::Exists | Method::All | Method::ExistsOne | Method::Filter | Method::Map => {
                return self.comprehension(signature.function, target, arguments, at, span);
            }
            Method::Size => return self.size(target, at, span),
            Method::Contains => TextTest::Contains,
            Method::StartsWith => TextTest::StartsWith,
            Method::EndsWith => TextTest::EndsWith,
            Method::Matches => TextTest::Matches(self.environment.matcher()),
        };
        let argument = self.expression(arguments.first()?)?;
        self.text_test(test, target, argument, at, span)
    }

    /// All arguments, so that faults in each are found.
    fn operands(&mut self, arguments: &[IdedExpr]) -> Option<Vec<Node>> {
        let operands: Vec<Option<Node>> = arguments.iter().map(|argument| self.expression(argument)).collect();
        operands.into_iter().collect()
    }

    /// `dyn(x)`: types in it are checked only at evaluation.
    fn unchecked(&mut self, arguments: &[IdedExpr], at: Span, span: Span) -> Option<Node> {
        let [argument] = arguments else {
            let message = Reason::ArgumentCount.with(["dyn", "1", "1", &arguments.len().to_string(), "dyn(x)"]);
            return self.error(Fault::WrongArgumentCount, at, message);
        };
        self.unchecked += 1;
        let node = self.expression(argument);
        self.unchecked -= 1;
        let node = node?;
        if !node.value.is_portable() {
            let message = Reason::TakesCelValue.with(["dyn"]).about(self.describe(&node));
            return self.error(Fault::WrongType, node.span, message);
        }
        Some(Node { value: Type::Dynamic, span, ..node })
    }

    /// The text of a literal argument.
    pub(super) fn written_text(&mut self, function: &str, argument: &IdedExpr) -> Option<(String, Span)> {
        if let Expr::Literal(LiteralValue::String(text)) = &argument.expr {
            return Some((text.inner().to_owned(), self.parsed.token(argument)));
        }
        let span = self.expression(argument).map_or_else(|| self.parsed.token(argument), |node| node.span);
        let message = Reason::NotLiteral.with([function]);
        self.error(Fault::NotLiteral, span, message);
        None
    }

    fn count<F>(&mut self, signature: &Signature<F>, given: usize, at: Span) -> Option<()> {
        let Signature { name, arguments_min, arguments_max, usage, .. } = signature;
        if (*arguments_min..=*arguments_max).contains(&given) {
            return Some(());
        }
        let [least, most, given] = [*arguments_min, *arguments_max, given].map(|count| count.to_string());
        let message = Reason::ArgumentCount.with([name, &least, &most, &given, usage]);
        self.error(Fault::WrongArgumentCount, at, message);
        None
    }

    fn unknown_function(&mut self, name: &str, at: Span) -> Option<Node> {
        if let Some(method) = signature::method(name) {
            let message = Reason::CalledOnValue.with([name, method.usage]);
            return self.undeclared(Diagnostic::error(Fault::UnknownFunction, at, message));
        }
        let suggestion = signature::nearest_function(name);
        let message = match suggestion {
            Some(suggestion) => Reason::NoFunctionSuggested.with([name, suggestion]),
            None => Reason::NoFunction.with([name]),
        };
        self.undeclared(Diagnostic::error(Fault::UnknownFunction, at, message).suggest(suggestion.map(str::to_owned)))
    }

    fn unknown_method(&mut self, name: &str, at: Span, target: Option<&Node>) -> Option<Node> {
        if let Some(function) = signature::function(name) {
            let message = Reason::TakesInBrackets.with([name, function.usage]);
            return self.undeclared(Diagnostic::error(Fault::UnknownFunction, at, message));
        }
        // An invalid target is reported already, and the name may be valid.
        target?;
        let suggestion = signature::nearest_method(name).or_else(|| Self::nearest_library_method(name));
        let message = match suggestion {
            Some(suggestion) => Reason::NoFunctionSuggested.with([&format!(".{name}()"), &format!(".{suggestion}()")]),
            None => Reason::NoFunction.with([&format!(".{name}()")]),
        };
        self.undeclared(Diagnostic::error(Fault::UnknownFunction, at, message).suggest(suggestion.map(str::to_owned)))
    }

    fn text_test(&mut self, test: TextTest, text: Node, argument: Node, at: Span, span: Span) -> Option<Node> {
        if text.value == Type::Dynamic || argument.value == Type::Dynamic {
            let name = match test {
                TextTest::Contains => "contains",
                TextTest::StartsWith => "startsWith",
                TextTest::EndsWith => "endsWith",
                TextTest::Matches(_) => "matches",
            };
            return self.foreign(call(name, true, 2), vec![text, argument], Type::Boolean, span, at);
        }
        for node in [&text, &argument] {
            if node.value == Type::Text {
                continue;
            }
            let is_code = matches!(node.value, Type::Coded(_));
            let suggestion = is_code.then(|| format!("{}.code", node.span.text(self.source)));
            let message = Reason::TakesType.with([&self.quote(at), "text"]).about(self.describe(node));
            return self.report(Diagnostic::error(Fault::WrongType, node.span, message).suggest(suggestion));
        }
        if let (TextTest::Matches(matcher), Kind::Constant(Constant::Text(pattern))) = (test, &argument.kind)
            && matcher.matches("", pattern).is_none()
        {
            let message = Reason::NotPattern.with([&self.quote(argument.span)]);
            return self.error(Fault::InvalidLiteral, argument.span, message);
        }
        Some(Node { kind: Kind::TestText(test, Box::new(text), Box::new(argument)), value: Type::Boolean, span, at })
    }

    fn convert(&mut self, name: &str, operand: Node, at: Span, span: Span) -> Option<Node> {
        let value = CONVERSIONS.iter().find(|(conversion, _)| *conversion == name).map(|(_, value)| value.clone())?;
        if operand.value.is_foreign() {
            return self.foreign(call(name, false, 1), vec![operand], value, span, at);
        }
        if name == "string" && operand.value == Type::Date {
            return Some(Node { kind: Kind::WrittenDate(Box::new(operand)), value, span, at });
        }
        let Some(conversion) = self.environment.conversion(name, &operand.value) else {
            let message = Reason::CannotConvert.with([name]).about(self.describe(&operand));
            return self.error(Fault::WrongType, operand.span, message);
        };
        Some(Node { kind: Kind::Convert(conversion, Box::new(operand)), value, span, at })
    }
}

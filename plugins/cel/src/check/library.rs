//! The functions of the crate's libraries (strings, math, lists, optional values, times), by name and types.

use super::Checker;
use crate::diagnostic::{Diagnostic, Fault};
use crate::foreign::{call, choose};
use crate::message::Reason;
use crate::span::Span;
use crate::suggestion::nearest;
use crate::tree::{Kind, Node, OtherType, Type};
use cel_interpreter::IdedExpr;

/// The type of an operand or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Boolean,
    Integer,
    Number,
    /// A number of either kind, signed or unsigned.
    Numeric,
    Text,
    Texts,
    Integers,
    List,
    Bytes,
    Timestamp,
    /// An instant or a duration.
    Time,
    Duration,
    Unsigned,
    Kind,
    Optional,
    Any,
    /// The type of the first operand.
    Same,
}

/// A function of the crate.
#[derive(Debug)]
struct Known {
    name: &'static str,
    /// The types of all operands; the first operand of a method is its target.
    operands: &'static [Of],
    /// The number of required operands.
    required: usize,
    result: Of,
    usage: &'static str,
}

const fn of(name: &'static str, operands: &'static [Of], required: usize, result: Of, usage: &'static str) -> Known {
    Known { name, operands, required, result, usage }
}

use Of::{
    Any, Boolean, Bytes, Duration, Integer, Integers, List, Number, Numeric, Optional, Same, Text, Texts, Time,
    Timestamp, Unsigned,
};

static METHODS: [Known; 31] = [
    of("charAt", &[Text, Integer], 2, Text, "text.charAt(0)"),
    of("indexOf", &[Text, Text, Integer], 2, Integer, "text.indexOf('part')"),
    of("lastIndexOf", &[Text, Text, Integer], 2, Integer, "text.lastIndexOf('part')"),
    of("lowerAscii", &[Text], 1, Text, "text.lowerAscii()"),
    of("upperAscii", &[Text], 1, Text, "text.upperAscii()"),
    of("trim", &[Text], 1, Text, "text.trim()"),
    of("replace", &[Text, Text, Text, Integer], 3, Text, "text.replace('old', 'new')"),
    of("split", &[Text, Text, Integer], 2, Texts, "text.split(',')"),
    of("substring", &[Text, Integer, Integer], 2, Text, "text.substring(0, 2)"),
    of("format", &[Text, List], 2, Text, "'%d'.format([1])"),
    of("reverse", &[Any], 1, Same, "list.reverse()"),
    of("join", &[List, Text], 1, Text, "list.join(', ')"),
    of("slice", &[List, Integer, Integer], 3, Same, "list.slice(0, 2)"),
    of("flatten", &[List, Integer], 1, List, "list.flatten()"),
    of("distinct", &[List], 1, Same, "list.distinct()"),
    of("sort", &[List], 1, Same, "list.sort()"),
    of("getFullYear", &[Timestamp, Text], 1, Integer, "date.getFullYear()"),
    of("getMonth", &[Timestamp, Text], 1, Integer, "date.getMonth()"),
    of("getDayOfYear", &[Timestamp, Text], 1, Integer, "date.getDayOfYear()"),
    of("getDayOfMonth", &[Timestamp, Text], 1, Integer, "date.getDayOfMonth()"),
    of("getDate", &[Timestamp, Text], 1, Integer, "date.getDate()"),
    of("getDayOfWeek", &[Timestamp, Text], 1, Integer, "date.getDayOfWeek()"),
    of("getHours", &[Time, Text], 1, Integer, "instant.getHours()"),
    of("getMinutes", &[Time, Text], 1, Integer, "instant.getMinutes()"),
    of("getSeconds", &[Time, Text], 1, Integer, "instant.getSeconds()"),
    of("getMilliseconds", &[Time, Text], 1, Integer, "instant.getMilliseconds()"),
    of("hasValue", &[Optional], 1, Boolean, "optional.hasValue()"),
    of("value", &[Optional], 1, Any, "optional.value()"),
    of("or", &[Optional, Optional], 2, Optional, "optional.or(other)"),
    of("orValue", &[Optional, Any], 2, Any, "optional.orValue(0)"),
    of("@sortByAssociatedKeys", &[List, List], 2, Same, "list.sortBy(x, …)"),
];

static FUNCTIONS: [Known; 28] = [
    of("math.ceil", &[Number], 1, Number, "math.ceil(1.5)"),
    of("math.floor", &[Number], 1, Number, "math.floor(1.5)"),
    of("math.round", &[Number], 1, Number, "math.round(1.5)"),
    of("math.trunc", &[Number], 1, Number, "math.trunc(1.5)"),
    of("math.isInf", &[Number], 1, Boolean, "math.isInf(x)"),
    of("math.isNaN", &[Number], 1, Boolean, "math.isNaN(x)"),
    of("math.isFinite", &[Number], 1, Boolean, "math.isFinite(x)"),
    of("math.abs", &[Numeric], 1, Same, "math.abs(x)"),
    of("math.sign", &[Numeric], 1, Same, "math.sign(x)"),
    of("math.sqrt", &[Numeric], 1, Number, "math.sqrt(x)"),
    of("math.bitAnd", &[Numeric, Numeric], 2, Same, "math.bitAnd(a, b)"),
    of("math.bitOr", &[Numeric, Numeric], 2, Same, "math.bitOr(a, b)"),
    of("math.bitXor", &[Numeric, Numeric], 2, Same, "math.bitXor(a, b)"),
    of("math.bitNot", &[Numeric], 1, Same, "math.bitNot(a)"),
    of("math.bitShiftLeft", &[Numeric, Integer], 2, Same, "math.bitShiftLeft(a, 1)"),
    of("math.bitShiftRight", &[Numeric, Integer], 2, Same, "math.bitShiftRight(a, 1)"),
    of("strings.quote", &[Text], 1, Text, "strings.quote(text)"),
    of("base64.encode", &[Bytes], 1, Text, "base64.encode(b'…')"),
    of("base64.decode", &[Text], 1, Bytes, "base64.decode('…')"),
    of("lists.range", &[Integer], 1, Integers, "lists.range(10)"),
    of("optional.of", &[Any], 1, Optional, "optional.of(x)"),
    of("optional.none", &[], 0, Optional, "optional.none()"),
    of("optional.ofNonZeroValue", &[Any], 1, Optional, "optional.ofNonZeroValue(x)"),
    of("type", &[Any], 1, Of::Kind, "type(x)"),
    of("uint", &[Any], 1, Unsigned, "uint(x)"),
    of("bytes", &[Any], 1, Bytes, "bytes(x)"),
    of("timestamp", &[Any], 1, Timestamp, "timestamp('2026-01-31T00:00:00Z')"),
    of("duration", &[Any], 1, Duration, "duration('24h')"),
];

/// The namespaces of functions.
const NAMESPACES: [&str; 5] = ["math", "strings", "base64", "lists", "optional"];

impl Checker<'_> {
    /// Returns true if a function of the crate has that unqualified name.
    pub(super) fn is_library_function(name: &str) -> bool {
        FUNCTIONS.iter().any(|known| known.name == name)
    }

    /// Returns true if a method of the crate has that name.
    pub(super) fn is_library_method(name: &str) -> bool {
        METHODS.iter().any(|known| known.name == name)
    }

    /// The method with the closest name.
    pub(super) fn nearest_library_method(name: &str) -> Option<&'static str> {
        nearest(name, METHODS.iter().map(|known| known.name).filter(|name| !name.starts_with('@')))
    }

    /// A function of the crate's, by its full name.
    pub(super) fn library_function(&mut self, name: &str, operands: Vec<Node>, at: Span, span: Span) -> Option<Node> {
        let Some(known) = FUNCTIONS.iter().find(|known| known.name == name) else {
            let suggestion = nearest(name, FUNCTIONS.iter().map(|known| known.name)).map(str::to_owned);
            let message = match &suggestion {
                Some(suggestion) => Reason::NoFunctionSuggested.with([name, suggestion]),
                None => Reason::NoFunction.with([name]),
            };
            return self.undeclared(Diagnostic::error(Fault::UnknownFunction, at, message).suggest(suggestion));
        };
        self.known(known, false, operands, at, span)
    }

    /// A method of the crate's.
    pub(super) fn library_method(&mut self, name: &str, operands: Vec<Node>, at: Span, span: Span) -> Option<Node> {
        let known = METHODS.iter().find(|known| known.name == name)?;
        self.known(known, true, operands, at, span)
    }

    fn known(&mut self, known: &Known, is_method: bool, operands: Vec<Node>, at: Span, span: Span) -> Option<Node> {
        let methods = usize::from(is_method);
        if !(known.required..=known.operands.len()).contains(&operands.len()) {
            let least = (known.required - methods.min(known.required)).to_string();
            let most = (known.operands.len() - methods).to_string();
            let given = (operands.len() - methods.min(operands.len())).to_string();
            let message = Reason::ArgumentCount.with([known.name, &least, &most, &given, known.usage]);
            return self.error(Fault::WrongArgumentCount, at, message);
        }
        let mut taken = Vec::with_capacity(operands.len());
        for (operand, wanted) in operands.into_iter().zip(known.operands) {
            let operand = match (wanted, &operand.value) {
                (Timestamp | Time, Type::Date) => self.midnight(operand)?,
                (Any, Type::Date) if known.name == "timestamp" => self.midnight(operand)?,
                _ => operand,
            };
            if !takes(*wanted, &operand.value) {
                let is_code = matches!(operand.value, Type::Coded(_)) && *wanted == Text;
                let suggestion = is_code.then(|| format!("{}.code", operand.span.text(self.source)));
                let message = Reason::TakesType.with([known.name, name(*wanted)]).about(self.describe(&operand));
                let fault = Diagnostic::error(Fault::WrongType, operand.span, message);
                return self.report(fault.suggest(suggestion));
            }
            taken.push(operand);
        }
        let first = taken.first().map(|node| node.value.clone());
        let result = result(known.result, first);
        let value = if self.is_unchecked() { Type::Dynamic } else { result };
        self.foreign(call(known.name, is_method, taken.len()), taken, value, span, at)
    }

    /// The instant of the start of a day.
    fn midnight(&mut self, date: Node) -> Option<Node> {
        let (span, at) = (date.span, date.at);
        let seconds = Node { kind: Kind::Midnight(Box::new(date)), value: Type::Integer, span, at };
        self.foreign(call("timestamp", false, 1), vec![seconds], Type::Other(OtherType::Timestamp), span, at)
    }

    /// `namespace.function(arguments)`; none if the target is not a namespace.
    pub(super) fn namespaced(
        &mut self,
        namespace: &str,
        function: &str,
        arguments: &[IdedExpr],
        at: Span,
        span: Span,
    ) -> Option<Option<Node>> {
        let is_shadowed = self.scopes.iter().any(|(variable, _)| variable == namespace);
        if is_shadowed || !NAMESPACES.contains(&namespace) {
            return None;
        }
        let operands: Vec<Option<Node>> = arguments.iter().map(|argument| self.expression(argument)).collect();
        let operands: Option<Vec<Node>> = operands.into_iter().collect();
        let Some(operands) = operands else { return Some(None) };
        Some(match (namespace, function) {
            ("math", "greatest") => self.extreme("math.@max", operands, at, span),
            ("math", "least") => self.extreme("math.@min", operands, at, span),
            _ => self.library_function(&format!("{namespace}.{function}"), operands, at, span),
        })
    }

    /// The maximum or minimum of some numbers, or of the numbers of a list.
    fn extreme(&mut self, function: &str, operands: Vec<Node>, at: Span, span: Span) -> Option<Node> {
        let is_list = matches!(operands.as_slice(), [Node { value: Type::List(_), .. }]);
        for operand in &operands {
            let numbers = match &operand.value {
                Type::List(item) if is_list => item,
                value => value,
            };
            if !takes(Numeric, numbers) {
                let message = Reason::TakesNumbers.with([&self.quote(at)]).about(self.describe(operand));
                return self.error(Fault::WrongType, operand.span, message);
            }
        }
        let mut value: Option<Type> = None;
        for operand in &operands {
            let number = match &operand.value {
                Type::List(item) => (**item).clone(),
                number => number.clone(),
            };
            value = Some(match value {
                Some(before) if before != number => Type::Dynamic,
                _ => number,
            });
        }
        let Some(value) = value else {
            let message = Reason::TakesOneNumber.with([&self.quote(at)]);
            return self.error(Fault::WrongArgumentCount, at, message);
        };
        let value = if self.is_unchecked() { Type::Dynamic } else { value };
        let count = operands.len();
        let expression = if count > 2 { choose(function, count) } else { call(function, false, count) };
        self.foreign(expression, operands, value, span, at)
    }
}

fn takes(wanted: Of, given: &Type) -> bool {
    if *given == Type::Dynamic {
        return true;
    }
    match wanted {
        Any | Same => given.is_portable(),
        Boolean => *given == Type::Boolean,
        Integer => *given == Type::Integer,
        Number => *given == Type::Number,
        Numeric => given.is_numeric() || *given == Type::Other(OtherType::Unsigned),
        Text => *given == Type::Text,
        Texts | Integers | List => matches!(given, Type::List(_)) && given.is_portable(),
        Bytes => *given == Type::Other(OtherType::Bytes),
        Timestamp => *given == Type::Other(OtherType::Timestamp),
        Duration => *given == Type::Other(OtherType::Duration),
        Time => matches!(given, Type::Other(OtherType::Timestamp | OtherType::Duration)),
        Unsigned => *given == Type::Other(OtherType::Unsigned),
        Of::Kind => *given == Type::Other(OtherType::Kind),
        Optional => *given == Type::Other(OtherType::Optional),
    }
}

/// The stable name of a type in messages.
fn name(wanted: Of) -> &'static str {
    match wanted {
        Any | Same => "value",
        Boolean => "boolean",
        Integer => "integer",
        Number => "number",
        Numeric => "numeric",
        Text => "text",
        Texts | Integers | List => "list",
        Bytes => "bytes",
        Timestamp => "date_or_instant",
        Time => "time",
        Duration => "duration",
        Unsigned => "unsigned",
        Of::Kind => "type",
        Optional => "optional",
    }
}

fn result(result: Of, first: Option<Type>) -> Type {
    match result {
        Any => Type::Dynamic,
        Same => first.unwrap_or(Type::Dynamic),
        Boolean => Type::Boolean,
        Integer => Type::Integer,
        Number | Numeric => Type::Number,
        Text => Type::Text,
        Texts => Type::List(Box::new(Type::Text)),
        Integers => Type::List(Box::new(Type::Integer)),
        List => Type::List(Box::new(Type::Dynamic)),
        Bytes => Type::Other(OtherType::Bytes),
        Timestamp | Time => Type::Other(OtherType::Timestamp),
        Duration => Type::Other(OtherType::Duration),
        Unsigned => Type::Other(OtherType::Unsigned),
        Of::Kind => Type::Other(OtherType::Kind),
        Optional => Type::Other(OtherType::Optional),
    }
}

//! Roots, variables, fields and parts of codes.

use super::{Checker, signature};
use crate::diagnostic::{Diagnostic, Fault};
use crate::message::{Message, Reason};
use crate::schema::{Field, FieldType, Space};
use crate::span::Span;
use crate::suggestion::nearest;
use crate::tree::{CodePart, Domain, Kind, Node, RecordType, Type};
use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{Expr, SelectExpr};

const ROOTS: [&str; 4] = ["me", "members", "programs", "as_of"];
const CODE_PARTS: [(&str, CodePart); 4] = [
    ("code", CodePart::Code),
    ("uri", CodePart::Uri),
    ("display", CodePart::Display),
    ("namespace", CodePart::Namespace),
];

/// Member of records that the API has and rules have not.
const IDENTIFIER: &str = "identifier";

impl Checker<'_> {
    /// A root or a variable.
    pub(super) fn name(&mut self, expression: &IdedExpr, name: &str) -> Option<Node> {
        let span = self.parsed.token(expression);
        if let Some(index) = self.scopes.iter().rposition(|(variable, _)| variable == name) {
            let value = self.scopes.get(index).map(|(_, value)| value.clone())?;
            return Some(Node { kind: Kind::Variable(index + 1), value, span, at: span });
        }
        let (kind, value) = match name {
            "me" => (Kind::Variable(0), row(Space::Me)),
            "members" | "programs" if !self.has_root(name) => {
                let message = Reason::NotReadable.with([name]);
                return self.error(Fault::UnknownName, span, message);
            }
            "members" => (Kind::Rows(Space::Members), Type::List(Box::new(row(Space::Members)))),
            "programs" => (Kind::Rows(Space::Programs), Type::List(Box::new(row(Space::Programs)))),
            "as_of" => (Kind::AsOf, Type::Date),
            _ => {
                let other = self.type_name(name, span).or_else(|| self.qualified_name(expression));
                return other.or_else(|| self.unknown_name(name, span));
            }
        };
        if let Kind::Rows(space) = kind {
            self.plan.read_rows(space, span);
        }
        Some(Node { kind, value, span, at: span })
    }

    /// Returns true if the schema has a field of that root; a root without fields does not exist for the client.
    fn has_root(&self, name: &str) -> bool {
        let spaces = [Space::Members, Space::Programs].into_iter().filter(|space| space.root() == name);
        spaces.into_iter().any(|space| self.schema.below(space, "").next().is_some())
    }

    /// `operand.field`
    pub(super) fn select(&mut self, expression: &IdedExpr, select: &SelectExpr) -> Option<Node> {
        if let Some(name) = self.qualified_name(expression) {
            return Some(name);
        }
        let operand = self.expression(&select.operand)?;
        let at = self.parsed.after(self.parsed.token(expression));
        let span = operand.span.to(at);
        match &operand.value {
            Type::Record(record) => {
                let record = record.clone();
                self.field(operand, &record, &select.field, at)
            }
            Type::Coded(fields) => {
                let fields = *fields;
                let Some((_, part)) = CODE_PARTS.iter().find(|(name, _)| *name == select.field) else {
                    let suggestion = nearest(&select.field, CODE_PARTS.map(|(name, _)| name)).map(str::to_owned);
                    let message = Reason::NoPartOfCode.with([&select.field]);
                    return self.report(Diagnostic::error(Fault::UnknownField, at, message).suggest(suggestion));
                };
                self.plan.read_texts(fields);
                Some(Node { kind: Kind::CodeText(*part, Box::new(operand)), value: Type::Text, span, at })
            }
            Type::Dynamic | Type::Other(_) => self.select_key(operand, &select.field, select.test, at, span),
            _ => {
                let message = Message::from(Reason::HasNoField).about(self.describe(&operand)).and(&select.field);
                self.error(Fault::WrongType, at, message)
            }
        }
    }

    /// `has(operand.field)`
    pub(super) fn has(&mut self, argument: &IdedExpr, name: Span, span: Span) -> Option<Node> {
        let Expr::Select(select) = &argument.expr else {
            return self.error(Fault::WrongType, name, Reason::TakesField);
        };
        let recorded = match self.expression(&select.operand)? {
            map @ Node { value: Type::Dynamic | Type::Other(_), .. } => {
                return self.select_key(map, &select.field, true, name, span);
            }
            operand @ Node { value: Type::Coded(_), .. } => vec![operand],
            Node { value: Type::Record(record), kind, span, at } => {
                let path = format!("{}{}", record.prefix, select.field);
                let operand = Node { kind, value: Type::Record(record.clone()), span, at };
                let parts = self.parts_of_structure(&record, &path);
                if parts.is_empty() {
                    let at = self.parsed.after(self.parsed.token(argument));
                    vec![self.field(operand, &record, &select.field, at)?]
                } else {
                    parts.iter().filter_map(|part| self.read(operand.clone(), part, &record, span, at)).collect()
                }
            }
            operand => {
                let message = Message::from(Reason::HasNoFields).about(self.describe(&operand));
                return self.error(Fault::WrongType, operand.span, message);
            }
        };
        Some(Node { kind: Kind::IsRecorded(recorded), value: Type::Boolean, span, at: name })
    }

    /// A field of a record, or a structure whose fields are accessed by one more dot.
    pub(super) fn field(&mut self, operand: Node, record: &RecordType, name: &str, at: Span) -> Option<Node> {
        let path = format!("{}{name}", record.prefix);
        let span = operand.span.to(at);
        if let Some(field) = self.plain_field(record.space, &path) {
            return self.read(operand, &field, record, span, at);
        }
        let prefix = format!("{path}.");
        if self.schema.below(record.space, &prefix).next().is_some() {
            let value = Type::Record(RecordType { prefix, ..record.clone() });
            return Some(Node { value, span, at, ..operand });
        }
        let names = self.schema.names_below(record.space, &record.prefix);
        let suggestion = nearest(name, names.iter().copied()).filter(|_| name != IDENTIFIER).map(str::to_owned);
        let quoted = self.quote(operand.span);
        let message = match &suggestion {
            Some(suggestion) => Reason::NoFieldSuggested.with([&quoted, name, suggestion]),
            None if name == IDENTIFIER => Reason::NoIdentifiers.with([&quoted, name]),
            None => Reason::NoField.with([&quoted, name]),
        };
        self.report(Diagnostic::error(Fault::UnknownField, at, message).suggest(suggestion))
    }

    /// The field of that path; none for a structure that is not repeated, which has no value of its own.
    fn plain_field(&self, space: Space, path: &str) -> Option<Field> {
        let field = self.schema.field(space, path)?;
        (field.is_repeated || field.kind != FieldType::Structure).then(|| field.clone())
    }

    /// The fields of a structure that is not repeated; empty if the path is a field or unknown.
    fn parts_of_structure(&self, record: &RecordType, path: &str) -> Vec<Field> {
        if self.plain_field(record.space, path).is_some() {
            return Vec::new();
        }
        let prefix = format!("{path}.");
        let parts = self.schema.below(record.space, &prefix);
        parts.filter(|part| !part.path.get(prefix.len()..).unwrap_or("").contains("[]")).cloned().collect()
    }

    fn read(&mut self, operand: Node, field: &Field, record: &RecordType, span: Span, at: Span) -> Option<Node> {
        let columns = match self.plan.read_field(field, record.domain, span) {
            Ok(columns) => columns,
            Err(full) => {
                self.plan_full(full, at);
                return None;
            }
        };
        let item = match field.kind {
            FieldType::Boolean => Type::Boolean,
            FieldType::Integer => Type::Integer,
            FieldType::Number => Type::Number,
            FieldType::Text => Type::Text,
            FieldType::Date => Type::Date,
            FieldType::Coded => Type::Coded(columns.missing),
            FieldType::Structure => Type::Record(RecordType {
                space: field.space,
                prefix: format!("{}[].", field.path),
                domain: Domain::Items(columns.column),
            }),
        };
        let value = if field.is_repeated { Type::List(Box::new(item)) } else { item };
        let kind = Kind::Field { record: Box::new(operand), column: columns.column, items: columns.items };
        Some(Node { kind, value, span, at })
    }

    fn unknown_name(&mut self, name: &str, span: Span) -> Option<Node> {
        if let Some(usage) = signature::usage(name) {
            let message = Reason::FunctionAsName.with([name, usage]);
            return self.undeclared(Diagnostic::error(Fault::UnknownName, span, message));
        }
        let suggestion = self.field_of_that_name(name).or_else(|| {
            let variables = self.scopes.iter().map(|(variable, _)| variable.as_str());
            nearest(name, ROOTS.into_iter().chain(variables)).map(str::to_owned)
        });
        let message = match &suggestion {
            Some(suggestion) => Reason::NoNameSuggested.with([name, suggestion]),
            None => Reason::NoName.with([name]),
        };
        self.undeclared(Diagnostic::error(Fault::UnknownName, span, message).suggest(suggestion))
    }

    /// Suggests `m.gender` or `me.gender` for a bare `gender`.
    fn field_of_that_name(&self, name: &str) -> Option<String> {
        let records = self.scopes.iter().rev().filter_map(|(variable, value)| match value {
            Type::Record(record) => Some((variable.as_str(), record.space, record.prefix.as_str())),
            _ => None,
        });
        records.chain([("me", Space::Me, "")]).find_map(|(variable, space, prefix)| {
            let names = self.schema.names_below(space, prefix);
            names.contains(&name).then(|| format!("{variable}.{name}"))
        })
    }

    /// Checks that a node is a code that was read from a field: only such a code has a name when it is missing.
    pub(super) fn is_code(&mut self, function: &str, node: &Node) -> bool {
        let Type::Coded(fields) = &node.value else {
            let message = Reason::TakesCode.with([function]).about(self.describe(node));
            self.error(Fault::WrongType, node.span, message);
            return false;
        };
        if fields.is_empty() {
            let message = Reason::TakesRecordedCode.with([function]);
            self.error(Fault::WrongType, node.span, message);
            return false;
        }
        true
    }
}

/// The type of a row of a space.
fn row(space: Space) -> Type {
    Type::Record(RecordType { space, prefix: String::new(), domain: Domain::Space(space) })
}

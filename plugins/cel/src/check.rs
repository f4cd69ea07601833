//! Checks a parsed expression against the schema and resolves every name in it.
//!
//! Each part is checked even where a part beside it is wrong, so that one reading finds every fault; a part that was found
//! wrong has no node, and whatever is built on it stays silent.
//!
//! **Invariant:** a tree is returned only when there is no error, so the evaluator may rely on its types.

mod functions;
mod helpers;
mod lists;
mod names;
mod operators;
mod signature;

use crate::diagnostic::{Diagnostic, Diagnostics, Fault};
use crate::facts::FactSet;
use crate::limits::{FIELDS_READ_MAX, QUESTIONS_MAX, SCHEMA_FIELDS_MAX};
use crate::plan::{Plan, PlanFull, Question};
use crate::schema::{Schema, Space};
use crate::span::Span;
use crate::syntax::Parsed;
use crate::tree::{Constant, Kind, Node, QuestionId, Type};
use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{Expr, LiteralValue};

/// Longest piece of the expression that a message repeats, in characters.
const QUOTED_CHARACTERS_MAX: usize = 60;

/// A checked expression.
#[derive(Debug)]
pub struct Checked {
    /// The expression.
    pub tree: Node,
    /// What it needs.
    pub plan: Plan,
    /// What is doubtful about it.
    pub warnings: Vec<Diagnostic>,
}

/// Checks an expression.
///
/// # Errors
///
/// Everything that is wrong with it, by place.
pub fn check(source: &str, parsed: &Parsed, schema: &Schema) -> Result<Checked, Vec<Diagnostic>> {
    let mut checker = Checker {
        source,
        parsed,
        schema,
        plan: Plan::default(),
        diagnostics: Diagnostics::default(),
        scopes: Vec::new(),
    };
    if schema.len() > SCHEMA_FIELDS_MAX {
        let message = format!("the schema has more than {SCHEMA_FIELDS_MAX} fields");
        checker.error(Fault::TooMany, Span::new(0, 0), message);
    }
    let tree = checker.expression(&parsed.expression);
    if let Some(tree) = &tree {
        checker.check_result(tree);
    }
    let is_wrong = checker.diagnostics.has_errors();
    match tree {
        Some(tree) if !is_wrong => {
            Ok(Checked { tree, plan: checker.plan, warnings: checker.diagnostics.into_sorted() })
        }
        _ => Err(checker.diagnostics.into_sorted()),
    }
}

struct Checker<'s> {
    source: &'s str,
    parsed: &'s Parsed,
    schema: &'s Schema,
    plan: Plan,
    diagnostics: Diagnostics,
    /// The variables of the comprehensions around, from the outside in.
    scopes: Vec<(String, Type)>,
}

impl Checker<'_> {
    /// Checks one part of the expression; nothing where it is wrong.
    fn expression(&mut self, expression: &IdedExpr) -> Option<Node> {
        match &expression.expr {
            Expr::Literal(literal) => self.literal(expression, literal),
            Expr::Ident(name) => self.name(expression, name),
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => match &call.target {
                Some(target) => self.method(expression, target, &call.func_name, &call.args),
                None => match self.operator(expression, &call.func_name, &call.args) {
                    Some(checked) => checked,
                    None => self.function(expression, &call.func_name, &call.args),
                },
            },
            Expr::List(list) => self.list(expression, &list.elements),
            Expr::Map(_) | Expr::Struct(_) => {
                self.unsupported(expression, "maps and messages are not part of this language")
            }
            Expr::Comprehension(_) | Expr::Unspecified => self.unsupported(expression, "this cannot be read"),
        }
    }

    fn literal(&mut self, expression: &IdedExpr, literal: &LiteralValue) -> Option<Node> {
        let token = self.parsed.token(expression);
        let (constant, value) = match literal {
            LiteralValue::Boolean(boolean) => (Constant::Boolean(*boolean.inner()), Type::Boolean),
            LiteralValue::Int(integer) => (Constant::Integer(*integer.inner()), Type::Integer),
            LiteralValue::Double(number) => (Constant::Number(*number.inner()), Type::Number),
            LiteralValue::String(text) => (Constant::Text(text.inner().to_owned()), Type::Text),
            LiteralValue::UInt(_) => {
                return self.unsupported(expression, "whole numbers are written without `u` here");
            }
            LiteralValue::Bytes(_) => return self.unsupported(expression, "bytes are not part of this language"),
            LiteralValue::Null => {
                return self
                    .unsupported(expression, "there is no `null` here; `has(…)` asks whether a field is recorded");
            }
        };
        let before = self.parsed.before(token);
        let is_negative = matches!(constant, Constant::Integer(_) | Constant::Number(_))
            && before.end <= token.start
            && before.text(self.source) == "-"
            && !matches!(constant, Constant::Integer(0..))
            && !matches!(constant, Constant::Number(number) if number.is_sign_positive());
        let span = if is_negative { before.to(token) } else { token };
        Some(Node { kind: Kind::Constant(constant), value, span, at: token })
    }

    fn check_result(&mut self, tree: &Node) {
        if tree.value != Type::Boolean {
            let message = format!("a rule answers with true or false; this is {}", tree.value.name());
            self.error(Fault::NotBoolean, tree.span, message);
        }
        let reads_rows = self.plan.reads_rows_of(Space::Members) || self.plan.reads_rows_of(Space::Programs);
        if self.plan.references().is_empty() && !reads_rows && !self.diagnostics.has_errors() {
            let message = "this reads nothing about its subject, so its answer is the same for everyone";
            self.diagnostics.push(Diagnostic::warning(Fault::Constant, tree.span, message));
        }
    }

    /// Notes an error and gives no node.
    fn error(&mut self, fault: Fault, span: Span, message: impl Into<String>) -> Option<Node> {
        self.report(Diagnostic::error(fault, span, message))
    }

    /// Notes a remark and gives no node.
    fn report(&mut self, diagnostic: Diagnostic) -> Option<Node> {
        self.diagnostics.push(diagnostic);
        None
    }

    fn unsupported(&mut self, expression: &IdedExpr, message: &str) -> Option<Node> {
        self.error(Fault::Unsupported, self.parsed.token(expression), message)
    }

    /// The text at `span`, in backticks, shortened where it is long.
    fn quote(&self, span: Span) -> String {
        let text = span.text(self.source);
        let mut characters = text.chars();
        let start: String = characters.by_ref().take(QUOTED_CHARACTERS_MAX).collect();
        if characters.next().is_none() { format!("`{start}`") } else { format!("`{start}…`") }
    }

    /// What a node is, with what to do about it where it is not a plain value.
    fn describe(&self, node: &Node) -> String {
        let quoted = self.quote(node.span);
        match &node.value {
            Type::Record(record) => {
                let names = self.schema.names_below(record.space, &record.prefix);
                match names.as_slice() {
                    [] => format!("{quoted} is a record"),
                    [first, ..] => format!("{quoted} is a record; name one of its fields, such as `{first}`"),
                }
            }
            Type::List(_) => format!("{quoted} is a list; ask it with `exists`, `all` or `in`"),
            value => format!("{quoted} is {}", value.name()),
        }
    }

    fn ask(&mut self, question: Question, span: Span) -> Option<QuestionId> {
        match self.plan.ask(question, span) {
            Ok(number) => Some(number),
            Err(full) => {
                self.plan_full(full, span);
                None
            }
        }
    }

    fn plan_full(&mut self, full: PlanFull, span: Span) {
        let message = match full {
            PlanFull::Fields => format!("a rule may read at most {FIELDS_READ_MAX} fields"),
            PlanFull::Questions => format!("a rule may name at most {QUESTIONS_MAX} codes and concept groups"),
        };
        self.error(Fault::TooMany, span, message);
    }
}

/// The fields that a coded value may have been read from.
fn origin(value: &Type) -> FactSet {
    match value {
        Type::Coded(fields) => *fields,
        _ => FactSet::EMPTY,
    }
}

//! Checks a parsed expression against the schema and resolves every name in it.
//!
//! All parts are checked, so that one run finds every fault; an invalid part has no node, and the parts that contain it
//! report nothing.
//!
//! **Invariant:** a tree is returned only when there is no error, so the evaluator may rely on its types.

mod bind;
mod foreign;
mod functions;
mod helpers;
mod library;
mod lists;
mod names;
mod never;
mod operators;
mod signature;

use crate::diagnostic::{Diagnostic, Diagnostics, Fault, Severity};
use crate::facts::FactSet;
use crate::foreign::Environment;
use crate::limits::{FIELDS_READ_MAX, QUESTIONS_MAX, SCHEMA_FIELDS_MAX};
use crate::message::{Message, Reason, type_name};
use crate::plan::{Plan, PlanFull, Question};
use crate::schema::{Schema, Space};
use crate::span::Span;
use crate::syntax::Parsed;
use crate::tree::{Constant, Kind, Node, QuestionId, Type, VariableId};
use crate::value::FailureKind;
use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{Expr, LiteralValue};

/// The longest quote of the expression in a message, in characters.
const QUOTED_CHARACTERS_MAX: usize = 60;

/// A checked expression.
#[derive(Debug)]
pub struct Checked {
    /// The expression.
    pub tree: Node,
    /// Its requirements.
    pub plan: Plan,
    /// The warnings.
    pub warnings: Vec<Diagnostic>,
}

/// True if types are checked before the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// They are, and a rule must be boolean.
    Static,
    /// Every value may be of any type, as in `dyn(…)`; a mismatch fails at evaluation.
    Dynamic,
}

/// Checks a rule.
///
/// # Errors
///
/// All faults, sorted by position.
pub fn check(source: &str, parsed: &Parsed, schema: &Schema) -> Result<Checked, Vec<Diagnostic>> {
    check_in(source, parsed, schema, Environment::default(), Typing::Static).and_then(|checked| {
        let mut diagnostics = Diagnostics::default();
        check_result(&checked, &mut diagnostics);
        if diagnostics.has_errors() {
            return Err(diagnostics.into_sorted());
        }
        let mut checked = checked;
        checked.warnings.extend(diagnostics.into_sorted());
        checked.warnings.sort_by_key(|warning| warning.span);
        Ok(checked)
    })
}

/// Checks an expression of any type in an environment.
///
/// # Errors
///
/// All faults, sorted by position.
pub fn check_in(
    source: &str,
    parsed: &Parsed,
    schema: &Schema,
    environment: Environment,
    typing: Typing,
) -> Result<Checked, Vec<Diagnostic>> {
    let mut checker = Checker {
        source,
        parsed,
        schema,
        environment,
        unchecked: u32::from(typing == Typing::Dynamic),
        plan: Plan::default(),
        diagnostics: Diagnostics::default(),
        scopes: Vec::new(),
        item_variables: Vec::new(),
    };
    if schema.len() > SCHEMA_FIELDS_MAX {
        let message = Reason::SchemaTooLarge.with([&SCHEMA_FIELDS_MAX.to_string()]);
        checker.error(Fault::TooMany, Span::new(0, 0), message);
    }
    let tree = checker.expression(&parsed.expression);
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
    environment: Environment,
    /// The number of enclosing `dyn(…)`; inside of one every value may be of any type.
    unchecked: u32,
    plan: Plan,
    diagnostics: Diagnostics,
    /// The variables of the enclosing comprehensions, outermost first.
    scopes: Vec<(String, Type)>,
    /// The variables for the items of one field.
    item_variables: Vec<VariableId>,
}

impl Checker<'_> {
    /// Checks one part of the expression; none if it is invalid.
    fn expression(&mut self, expression: &IdedExpr) -> Option<Node> {
        let node = self.typed(expression)?;
        Some(if self.is_unchecked() && node.value.is_portable() { Node { value: Type::Dynamic, ..node } } else { node })
    }

    /// Returns true if types are checked only at evaluation.
    fn is_unchecked(&self) -> bool {
        self.unchecked > 0
    }

    fn typed(&mut self, expression: &IdedExpr) -> Option<Node> {
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
            Expr::List(list) => self.list(expression, list),
            Expr::Map(map) => self.map(expression, map),
            Expr::Struct(_) => self.unsupported(expression, Reason::NoMessages),
            Expr::Comprehension(_) | Expr::Unspecified => self.unsupported(expression, Reason::Unreadable),
        }
    }

    fn literal(&mut self, expression: &IdedExpr, literal: &LiteralValue) -> Option<Node> {
        let token = self.parsed.token(expression);
        let (constant, value) = match literal {
            LiteralValue::Boolean(boolean) => (Constant::Boolean(*boolean.inner()), Type::Boolean),
            LiteralValue::Int(integer) => (Constant::Integer(*integer.inner()), Type::Integer),
            LiteralValue::Double(number) => (Constant::Number(*number.inner()), Type::Number),
            LiteralValue::String(text) => (Constant::Text(text.inner().to_owned()), Type::Text),
            LiteralValue::UInt(_) | LiteralValue::Bytes(_) | LiteralValue::Null => {
                return self.other_literal(expression, literal);
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

    /// Reports an error and returns no node.
    fn error(&mut self, fault: Fault, span: Span, message: impl Into<Message>) -> Option<Node> {
        self.report(Diagnostic::error(fault, span, message))
    }

    /// Reports a diagnostic and returns no node.
    fn report(&mut self, diagnostic: Diagnostic) -> Option<Node> {
        self.diagnostics.push(diagnostic);
        None
    }

    /// Reports an undeclared name or function. Inside `dyn(…)` it fails only at evaluation, and is a warning here.
    fn undeclared(&mut self, mut diagnostic: Diagnostic) -> Option<Node> {
        if !self.is_unchecked() {
            return self.report(diagnostic);
        }
        let at = diagnostic.span;
        diagnostic.severity = Severity::Warning;
        self.diagnostics.push(diagnostic);
        Some(Node { kind: Kind::Failure(FailureKind::Undeclared), value: Type::Dynamic, span: at, at })
    }

    fn unsupported(&mut self, expression: &IdedExpr, message: Reason) -> Option<Node> {
        self.error(Fault::Unsupported, self.parsed.token(expression), message)
    }

    /// The text at `span`, truncated if it is long.
    fn quote(&self, span: Span) -> String {
        let text = span.text(self.source);
        let mut characters = text.chars();
        let start: String = characters.by_ref().take(QUOTED_CHARACTERS_MAX).collect();
        if characters.next().is_none() { start } else { format!("{start}…") }
    }

    /// Describes a node: its text, its type, and the first field of a record.
    fn describe(&self, node: &Node) -> (String, &'static str, String) {
        let field = match &node.value {
            Type::Record(record) => self.schema.names_below(record.space, &record.prefix).first().copied(),
            _ => None,
        };
        (self.quote(node.span), type_name(&node.value), field.unwrap_or_default().to_owned())
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
            PlanFull::Fields => Reason::TooManyFields.with([&FIELDS_READ_MAX.to_string()]),
            PlanFull::Questions => Reason::TooManyCodes.with([&QUESTIONS_MAX.to_string()]),
        };
        self.error(Fault::TooMany, span, message);
    }
}

fn check_result(checked: &Checked, diagnostics: &mut Diagnostics) {
    let Checked { tree, plan, .. } = checked;
    if !matches!(tree.value, Type::Boolean | Type::Dynamic) {
        let message = Message::from(Reason::NotBoolean).of_type(&tree.value);
        diagnostics.push(Diagnostic::error(Fault::NotBoolean, tree.span, message));
    }
    let reads_rows = plan.reads_rows_of(Space::Members) || plan.reads_rows_of(Space::Programs);
    if plan.references().is_empty() && !reads_rows && !diagnostics.has_errors() {
        diagnostics.push(Diagnostic::warning(Fault::Constant, tree.span, Reason::Constant));
    }
}

/// The fields from which a coded value may have been read.
fn origin(value: &Type) -> FactSet {
    match value {
        Type::Coded(fields) => *fields,
        _ => FactSet::EMPTY,
    }
}

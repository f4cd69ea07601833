//! Errors and warnings about expressions.
//!
//! **Invariant:** a message is one sentence, quotes the text in question in backticks and gives advice if possible. It
//! is derived from the expression and the schema only, never from a record.
//! **Invariant:** messages and suggestions are short and contain no control characters, for every expression: the
//! host treats other responses as a fault of the engine.

use crate::limits::{DIAGNOSTICS_MAX, MESSAGE_CHARACTERS_MAX, SUGGESTION_BYTES_MAX};
use crate::message::{Message, Reason};
use crate::span::{Place, Span};

/// True if a diagnostic prevents the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It cannot be evaluated.
    Error,
    /// It can be evaluated, but may not have the intended meaning.
    Warning,
}

/// The kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text is not an expression.
    Syntax,
    /// The text is longer than the bound.
    TooLong,
    /// Brackets, ternaries or chains go deeper than the bound.
    TooDeep,
    /// More fields or questions than one rule may have, or a schema beyond its bound.
    TooMany,
    /// The schema has no such field.
    UnknownField,
    /// There is no such root or variable.
    UnknownName,
    /// There is no such function.
    UnknownFunction,
    /// An operand or argument is of a type that the operation does not take.
    WrongType,
    /// The expression is not boolean.
    NotBoolean,
    /// A function was given too few or too many arguments.
    WrongArgumentCount,
    /// An argument must be written out as a text.
    NotLiteral,
    /// A written-out date, number, URI or pattern cannot be read.
    InvalidLiteral,
    /// Part of CEL that this engine does not offer.
    Unsupported,
    /// A comparison that is never true.
    NeverTrue,
    /// The expression reads nothing about its subject.
    Constant,
}

impl Fault {
    /// The stable name shown to clients.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Syntax => "syntax",
            Fault::TooLong => "too_long",
            Fault::TooDeep => "too_deep",
            Fault::TooMany => "too_many",
            Fault::UnknownField => "unknown_field",
            Fault::UnknownName => "unknown_name",
            Fault::UnknownFunction => "unknown_function",
            Fault::WrongType => "wrong_type",
            Fault::NotBoolean => "not_boolean",
            Fault::WrongArgumentCount => "wrong_argument_count",
            Fault::NotLiteral => "not_literal",
            Fault::InvalidLiteral => "invalid_literal",
            Fault::Unsupported => "unsupported",
            Fault::NeverTrue => "never_true",
            Fault::Constant => "constant",
        }
    }
}

/// One diagnostic of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// True if the expression can run all the same.
    pub severity: Severity,
    /// The kind of fault.
    pub fault: Fault,
    /// One English sentence.
    pub message: String,
    /// The stable name of the sentence.
    pub reason: Reason,
    /// The parameters of the sentence.
    pub parameters: Vec<String>,
    /// The position.
    pub span: Span,
    /// The suggested replacement of the text at `span`.
    pub suggestion: Option<String>,
}

impl Diagnostic {
    /// A diagnostic that prevents the evaluation.
    pub fn error(fault: Fault, span: Span, message: impl Into<Message>) -> Self {
        Self::new(Severity::Error, fault, span, message.into())
    }

    /// A diagnostic that does not prevent the evaluation.
    pub fn warning(fault: Fault, span: Span, message: impl Into<Message>) -> Self {
        Self::new(Severity::Warning, fault, span, message.into())
    }

    fn new(severity: Severity, fault: Fault, span: Span, message: Message) -> Self {
        let text = sentence(&message.to_string());
        let Message { reason, parameters } = message;
        Self { severity, fault, message: text, reason, parameters, span, suggestion: None }
    }

    /// Adds a suggested replacement, unless it is too long to be useful.
    pub fn suggest(mut self, suggestion: Option<String>) -> Self {
        self.suggestion =
            suggestion.filter(|text| text.len() <= SUGGESTION_BYTES_MAX && !text.contains(char::is_control));
        self
    }

    /// Line, column and length in `source`.
    pub fn place(&self, source: &str) -> Place {
        self.span.place(source)
    }
}

/// The start of a message, on one line.
fn sentence(message: &str) -> String {
    let shown = message.chars().take(MESSAGE_CHARACTERS_MAX);
    shown.map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// The diagnostics of one expression, limited in number and sorted by position.
#[derive(Debug, Default)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Adds a diagnostic; dropped beyond the limit, since an earlier one already prevents the evaluation.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if self.0.len() < DIAGNOSTICS_MAX {
            self.0.push(diagnostic);
        }
    }

    /// Returns true if any of them prevents the evaluation.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// All of them, sorted by position.
    pub fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.0.sort_by_key(|diagnostic| diagnostic.span);
        self.0
    }
}

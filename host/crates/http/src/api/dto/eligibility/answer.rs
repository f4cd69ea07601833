//! The answer of `$evaluate`.

use serde::Serialize;
use serde_json::{Map, Number, Value};

use super::decision::DecisionBody;
use crate::api::error::DiagnosticItem;
use daftar_domain::eligibility::{RowError, Verdict};
use daftar_service::eligibility::evaluate::{EvaluateRequest, Evaluated, SubjectInput, SubjectResult};
use daftar_service::eligibility::explained::{ExplanationTree, Node, Told};

/// The answer of `$evaluate`.
#[derive(Debug, Serialize)]
pub struct EvaluatedBody<'a> {
    results: Vec<ResultBody<'a>>,
    decision: DecisionBody<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<DiagnosticItem<'a>>,
}

#[derive(Debug, Serialize)]
struct ResultBody<'a> {
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<RowErrorBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<SubjectErrorBody>,
}

#[derive(Debug, Serialize)]
struct ExplanationBody<'a> {
    #[serde(flatten)]
    root: NodeBody<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

#[derive(Debug, Serialize)]
struct NodeBody<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<u32>,
    value: Value,
    seen: Map<String, Value>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    missing: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    children: Vec<NodeBody<'a>>,
}

impl<'a> From<&'a ExplanationTree> for ExplanationBody<'a> {
    fn from(tree: &'a ExplanationTree) -> Self {
        Self { root: NodeBody::from(&tree.root), cut: tree.is_cut }
    }
}

impl<'a> From<&'a Node> for NodeBody<'a> {
    /// A tree has few levels, so that it may be walked down by itself.
    fn from(node: &'a Node) -> Self {
        Self {
            text: &node.text,
            item: node.item,
            value: value(&node.value),
            seen: node.seen.iter().map(|(name, told)| (name.clone(), value(told))).collect(),
            missing: &node.missing,
            error: node.error.as_deref(),
            children: node.children.iter().map(Self::from).collect(),
        }
    }
}

/// What a part came to: plain JSON where JSON has it, `null` where it is not known, an object for a code, a list and a record.
fn value(told: &Told) -> Value {
    match told {
        Told::Unknown => Value::Null,
        Told::Boolean(truth) => Value::Bool(*truth),
        Told::Integer(number) => Value::from(*number),
        Told::Number(number) => match Number::from_f64(*number) {
            Some(number) => Value::Number(number),
            None => Value::String(number.to_string()),
        },
        Told::Text(text) => Value::String(text.clone()),
        Told::Code(code) => serde_json::json!({
            "uri": format!("{}#{}", code.namespace, code.code), "code": code.code, "display": code.display,
            "namespace": code.namespace,
        }),
        Told::Items(least, most) => serde_json::json!({"items_min": least, "items_max": most}),
        Told::Record => Value::Object(Map::new()),
    }
}

/// An outcome as answers call it.
#[must_use]
pub fn outcome_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Eligible => "eligible",
        Verdict::NotEligible => "not_eligible",
        Verdict::Undetermined => "undetermined",
    }
}

/// An error while one subject was evaluated.
#[derive(Debug, Serialize)]
pub struct RowErrorBody<'a> {
    code: &'a str,
    line: u32,
    column: u32,
}

impl<'a> From<&'a RowError> for RowErrorBody<'a> {
    fn from(error: &'a RowError) -> Self {
        Self { code: &error.code, line: error.line, column: error.column }
    }
}

#[derive(Debug, Serialize)]
struct SubjectErrorBody {
    status: u16,
    detail: String,
}

/// How each subject is named in the answer: its reference, or its place for one given in the request.
#[must_use]
pub fn subject_names(request: &EvaluateRequest) -> Vec<String> {
    let numbered = request.subjects.iter().enumerate();
    numbered
        .map(|(at, subject)| match subject {
            SubjectInput::Reference(kind, key) => format!("{}/{}", kind.record_kind(), key.reveal()),
            SubjectInput::Inline(_) | SubjectInput::Stored(_) => format!("subjects[{at}]"),
        })
        .collect()
}

/// Writes the answer; the seal of the decision is that for the client that asked.
#[must_use]
pub fn write<'a>(names: &'a [String], evaluated: &'a Evaluated, seal: String) -> EvaluatedBody<'a> {
    let results = names.iter().zip(&evaluated.results).map(|(subject, result)| match result {
        SubjectResult::Outcome { verdict, missing, errors, explanation } => ResultBody {
            subject,
            outcome: Some(outcome_name(*verdict)),
            missing: Some(missing),
            errors: errors.iter().map(RowErrorBody::from).collect(),
            explanation: explanation.as_deref().map(ExplanationBody::from),
            error: None,
        },
        SubjectResult::NotFound(problem) => ResultBody {
            subject,
            outcome: None,
            missing: None,
            errors: Vec::new(),
            explanation: None,
            error: Some(problem.into()),
        },
    });
    EvaluatedBody {
        results: results.collect(),
        decision: DecisionBody::new(&evaluated.decision, seal),
        warnings: evaluated.warnings.iter().map(DiagnosticItem::from).collect(),
    }
}

impl From<&daftar_domain::error::AppError> for SubjectErrorBody {
    fn from(error: &daftar_domain::error::AppError) -> Self {
        Self { status: error.code().entry().status, detail: error.to_string() }
    }
}

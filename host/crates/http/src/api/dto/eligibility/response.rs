//! Responses of `$validate` and `$evaluate`, and their parts in common with `$preview`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use daftar_api_types::public::eligibility as body;
use serde_json::{Map, Number, Value};

use super::decision;
use daftar_domain::calendar::date_from_days;
use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::{CodeTexts, Diagnostic, RowError, Severity, Verdict};
use daftar_domain::explanation::{Cost, ExplainedValue};
use daftar_service::eligibility::check::Checked;
use daftar_service::eligibility::evaluate::{EvaluateRequest, Evaluated, Node, SubjectInput, SubjectResult};
use daftar_service::eligibility::evidence::{Content, Replayed};

/// The response of `$validate`.
#[must_use]
pub fn validated(checked: &Checked) -> body::Validated<'_> {
    let summary = checked.summary.as_ref();
    body::Validated {
        valid: checked.is_valid(),
        result_type: summary.map(|summary| Cow::Borrowed(summary.result_type.as_str())),
        references: Cow::Borrowed(&checked.references),
        cost: summary.map(|summary| cost(summary.cost)),
        diagnostics: diagnostics(&checked.diagnostics),
    }
}

fn cost(cost: Cost) -> body::RuleCost {
    // The interface has no greater number: this value means that or more.
    let steps_max = Some(cost.steps_max).filter(|steps| *steps < u64::MAX);
    body::RuleCost { steps_min: cost.steps_min, steps_max, list_items: cost.list_items }
}

/// Errors and warnings about an expression.
#[must_use]
pub fn diagnostics(diagnostics: &[Diagnostic]) -> Vec<body::Diagnostic<'_>> {
    let bodies = diagnostics.iter().map(|diagnostic| body::Diagnostic {
        severity: match diagnostic.severity {
            Severity::Error => body::Severity::Error,
            Severity::Warning => body::Severity::Warning,
        },
        code: Cow::Borrowed(&diagnostic.code),
        message: Cow::Borrowed(&diagnostic.message),
        reason: Some(Cow::Borrowed(diagnostic.reason.as_str())).filter(|reason| !reason.is_empty()),
        parameters: Cow::Borrowed(&diagnostic.parameters),
        line: diagnostic.line,
        column: diagnostic.column,
        length: diagnostic.length,
        suggestion: diagnostic.suggestion.as_deref().map(Cow::Borrowed),
    });
    bodies.collect()
}

/// The explanation of an outcome. A tree has few levels, so the function may be recursive.
fn explanation<'a>(codes: &Codes, node: &'a Node, is_cut: bool) -> body::Explanation<'a> {
    let Node { text, part, children } = node;
    body::Explanation {
        text: Cow::Borrowed(text),
        item: part.item,
        value: value(codes, &part.value),
        seen: part.seen.iter().map(|fact| (fact.name.clone(), value(codes, &fact.value))).collect(),
        missing: Cow::Borrowed(&part.missing),
        error: part.error.as_deref().map(Cow::Borrowed),
        children: children.iter().map(|child| explanation(codes, child, false)).collect(),
        truncated: is_cut,
    }
}

/// The value of an expression part: plain JSON where possible, `null` if unknown, an object for a code, a list and a
/// record.
fn value(codes: &Codes, value: &ExplainedValue) -> Value {
    match value {
        ExplainedValue::Unknown => Value::Null,
        ExplainedValue::Boolean(truth) => Value::Bool(*truth),
        ExplainedValue::Integer(number) => Value::from(*number),
        ExplainedValue::Number(number) => match Number::from_f64(*number) {
            Some(number) => Value::Number(number),
            None => Value::String(number.to_string()),
        },
        ExplainedValue::Day(days) => date_from_days(*days).map_or(Value::Null, |day| Value::String(day.to_string())),
        ExplainedValue::Code(number) => codes.get(number).map_or(Value::Null, |code| {
            serde_json::json!({
                "uri": format!("{}#{}", code.namespace, code.code), "code": code.code, "display": code.display,
                "namespace": code.namespace,
            })
        }),
        ExplainedValue::Text(text) | ExplainedValue::Other(text) => Value::String(text.clone()),
        ExplainedValue::Items(least, most) => serde_json::json!({"items_min": least, "items_max": most}),
        ExplainedValue::Structure => Value::Object(Map::new()),
    }
}

/// The outcome of a rule.
#[must_use]
pub fn outcome(verdict: Verdict) -> body::Outcome {
    match verdict {
        Verdict::Eligible => body::Outcome::Eligible,
        Verdict::NotEligible => body::Outcome::NotEligible,
        Verdict::Undetermined => body::Outcome::Undetermined,
    }
}

/// The evaluation errors for one subject.
#[must_use]
pub fn row_errors(errors: &[RowError]) -> Vec<body::RowError<'_>> {
    errors
        .iter()
        .map(|error| body::RowError { code: Cow::Borrowed(&error.code), line: error.line, column: error.column })
        .collect()
}

/// The name of each subject in the response: its reference, or its position if it was inline.
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

/// The codes in explanations.
type Codes = BTreeMap<CodeNumber, CodeTexts>;

/// The results of subjects with these names.
fn results<'a>(names: &'a [String], results: &'a [SubjectResult], codes: &Codes) -> Vec<body::SubjectResult<'a>> {
    let result = |(subject, result): (&'a String, &'a SubjectResult)| {
        let subject = Cow::Borrowed(subject.as_str());
        match result {
            SubjectResult::Outcome { outcome: decided, explanation: tree } => body::SubjectResult {
                subject,
                outcome: Some(outcome(decided.verdict)),
                missing: Some(Cow::Borrowed(&decided.missing)),
                errors: row_errors(&decided.errors),
                explanation: tree.as_deref().map(|tree| explanation(codes, &tree.root, tree.is_cut)),
                error: None,
            },
            SubjectResult::NotFound(error) => {
                let status = error.code().entry().status;
                let error = body::SubjectError { status, detail: Cow::Owned(error.to_string()) };
                body::SubjectResult { subject, error: Some(error), ..body::SubjectResult::default() }
            }
        }
    };
    names.iter().zip(results).map(result).collect()
}

/// The response of `$evaluate`; the decision is sealed for the client of the request.
#[must_use]
pub fn evaluated<'a>(names: &'a [String], evaluated: &'a Evaluated, seal: String) -> body::Evaluated<'a> {
    body::Evaluated {
        results: results(names, &evaluated.results, &evaluated.codes),
        decision: decision::write(&evaluated.decision, seal),
        warnings: diagnostics(&evaluated.warnings),
    }
}

/// The bytes of the response to a repeated evaluation. The versions of records and the digests of vocabularies are those
/// of the recorded response, since they are not inputs of the engine; everything else was computed again.
///
/// # Errors
/// The recorded response is not a response of `$evaluate`; one sentence.
pub fn replayed(content: &Content, replayed: &Replayed) -> Result<Vec<u8>, String> {
    let recorded: body::Evaluated<'_> = serde_json::from_str(&content.response)
        .map_err(|error| format!("`response` is not a response of `$evaluate`: {error}"))?;
    let names: Vec<String> = content.subjects.iter().map(|subject| subject.subject.clone()).collect();
    let repeated = body::Evaluated {
        results: results(&names, &replayed.results, &replayed.codes),
        decision: body::Decision {
            expression_digest: Cow::Borrowed(&replayed.expression_digest),
            engine: Cow::Borrowed(&replayed.engine),
            schema: Cow::Borrowed(&replayed.schema),
            as_of: Cow::Borrowed(&content.as_of),
            ..recorded.decision
        },
        warnings: diagnostics(&replayed.warnings),
    };
    serde_json::to_vec(&repeated).map_err(|error| error.to_string())
}

//! Eligibility engines of interface version 0.1.0: rules, outcomes and explanations.
//!
//! **Invariant:** outcomes from this module have one verdict for each row of their batch, and every index in them is
//! valid.
//! **Invariant:** an explanation from this module is a tree: only its first part has no parent, each other part follows
//! its parent, and each text range is within the expression.

mod input;
#[cfg(test)]
mod tests;

use wasmtime::Store;

use self::input::{batch_bytes, bindings_bytes, with_batch, with_bindings, with_schema};
use super::generated::daftar::plugin::schema as wire_schema;
use super::generated::exports::daftar::plugin::eligibility as wire;
use super::rule::EngineError;
use super::{RuleHandle, Rules};
use crate::fault::excerpt;
use crate::sandbox::{CallError, HostState};
use crate::wit::{Position, filled, invalid, list, same, text};
use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::{
    Batch, Bindings, Diagnostic, Outcomes, PlacedQuestion, Question, Reference, RowError, RowSpace, Schema, Severity,
    Verdict,
};
use daftar_domain::explanation::{Cost, ExplainedPart, ExplainedValue, Explanation, RuleSummary, SeenFact};

/// The longest expression that is passed to an engine, in bytes. Engines have lower limits of their own.
const EXPRESSION_BYTES_MAX: usize = 64 << 10;
/// The most diagnostics of one expression.
const DIAGNOSTICS_MAX: usize = 1_000;
/// The most parameters of a diagnostic.
const PARAMETERS_MAX: usize = 20;
/// The most fields that one rule reads.
const REFERENCES_MAX: usize = 1_000;
/// The most questions of one rule.
const QUESTIONS_MAX: usize = 1_000;
/// The most distinct missing facts of one batch.
const MISSING_NAMES_MAX: usize = 10_000;
/// The longest stable name, in bytes.
const NAME_BYTES_MAX: usize = 300;
/// The longest message, suggestion, path or URI, in bytes.
const LINE_BYTES_MAX: usize = 4_000;

impl Rules {
    /// Compiles an expression: a rule, or at least one error.
    pub(crate) fn compile(
        &self,
        store: &mut Store<HostState>,
        expression: &str,
        schema: &Schema,
    ) -> Result<Result<RuleHandle, Vec<Diagnostic>>, CallError> {
        store.data().give("the expression", expression.len())?;
        if expression.len() > EXPRESSION_BYTES_MAX {
            let bytes = expression.len();
            return Err(CallError::RefusedInput(format!(
                "the expression has {bytes} bytes; the limit is {EXPRESSION_BYTES_MAX}"
            )));
        }
        let refused = match with_schema(schema, |schema| self.exports().call_compile(store, expression, schema))? {
            Ok(rule) => return Ok(Ok(rule)),
            Err(diagnostics) => diagnostics,
        };
        let place = "compile";
        let diagnostics = list(refused, DIAGNOSTICS_MAX, &place, diagnostic)?;
        if !diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return Err(invalid(&place, "the expression was rejected without an error"));
        }
        Ok(Err(diagnostics))
    }

    /// The fields that a rule reads, each of them one of `schema`.
    pub(crate) fn references(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
        schema: &Schema,
    ) -> Result<Vec<Reference>, CallError> {
        let place = "references";
        list(self.exports().rule().call_references(store, rule)?, REFERENCES_MAX, &place, |from| {
            let wire::Reference { space: rows, path, needs_texts, line, column, length } = from;
            let space = same!(rows, wire_schema::RowSpace => RowSpace { Me, Members, Programs });
            let reference = Reference { space, path, needs_texts, line, column, length };
            // A field outside the schema may be one that the client must not see. An empty path reads no field, only
            // which members or memberships exist.
            let is_empty = reference.path.is_empty() && reference.space != RowSpace::Me;
            let mut fields = schema.fields.iter().filter(|field| field.space == reference.space);
            let is_known = fields.any(|field| is_empty || field.path == reference.path);
            if !is_known {
                let (root, path) = (reference.space.name(), excerpt(&reference.path));
                return Err(invalid(&place, format_args!("`{root}.{path}` is not a field of the schema")));
            }
            Ok(reference)
        })
    }

    /// A rule's questions about codes.
    pub(crate) fn questions(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
    ) -> Result<Vec<PlacedQuestion>, CallError> {
        let place = "questions";
        list(self.exports().rule().call_questions(store, rule)?, QUESTIONS_MAX, &place, |from| {
            let requested = |subject: String| filled(subject, LINE_BYTES_MAX, &place);
            let question = match from.question {
                wire::Question::InGroup(name) => Question::InGroup(requested(name)?),
                wire::Question::DescendsFrom(uri) => Question::DescendsFrom(requested(uri)?),
                wire::Question::Code(uri) => Question::Code(requested(uri)?),
            };
            Ok(PlacedQuestion { question, line: from.line, column: from.column, length: from.length })
        })
    }

    /// The warnings of a rule.
    pub(crate) fn warnings(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
    ) -> Result<Vec<Diagnostic>, CallError> {
        let place = "warnings";
        let answer = self.exports().rule().call_warnings(store, rule)?;
        let warnings = list(answer, DIAGNOSTICS_MAX, &place, diagnostic)?;
        if warnings.iter().any(|warning| warning.severity != Severity::Warning) {
            return Err(invalid(&place, "a rule that compiled has an error"));
        }
        Ok(warnings)
    }

    /// The type of a rule's value and its cost.
    pub(crate) fn summary(&self, store: &mut Store<HostState>, rule: RuleHandle) -> Result<RuleSummary, CallError> {
        rule_summary(self.exports().rule().call_summary(store, rule)?)
    }

    /// Answers a rule's questions.
    pub(crate) fn bind(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
        bindings: &Bindings,
    ) -> Result<(), CallError> {
        store.data().give("the bindings", bindings_bytes(bindings))?;
        let bound = with_bindings(bindings, |bindings| Ok(self.exports().rule().call_bind(store, rule, bindings)?))?;
        bound.map_err(|error| {
            CallError::RefusedInput(match error {
                wire::BindError::WrongAnswerCount => {
                    "bind: the number of answers differs from the number of questions".to_owned()
                }
                wire::BindError::WrongAnswerKind(index) => {
                    format!("bind: the answer at {index} does not match the kind of its question")
                }
            })
        })
    }

    /// Evaluates a batch. Returns one outcome for each row.
    pub(crate) fn evaluate(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
        batch: &Batch,
    ) -> Result<Result<Outcomes, EngineError>, CallError> {
        store.data().give("the batch", batch_bytes(batch))?;
        match with_batch(batch, |batch| Ok(self.exports().rule().call_evaluate(store, rule, batch)?))? {
            Ok(answered) => outcomes(answered, batch.rows).map(Ok),
            Err(refusal) => refused("evaluate", refusal).map(Err),
        }
    }

    /// Explains the outcome of one row.
    pub(crate) fn explain(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
        batch: &Batch,
        row: u32,
        expression: &str,
    ) -> Result<Result<Explanation, EngineError>, CallError> {
        if row >= batch.rows {
            return Err(CallError::RefusedInput(format!("explain: row {row} of a batch of {} rows", batch.rows)));
        }
        store.data().give("the batch", batch_bytes(batch))?;
        match with_batch(batch, |batch| Ok(self.exports().rule().call_explain(store, rule, batch, row)?))? {
            Ok(Some(answered)) => explanation(answered, expression).map(Ok),
            Ok(None) => Err(invalid(&"explain", format_args!("no explanation of the existing row {row}"))),
            Err(refusal) => refused("explain", refusal).map(Err),
        }
    }

    fn exports(&self) -> &wire::Guest {
        self.daftar_plugin_eligibility()
    }
}

/// A budget that the rule exhausted is an error of the rule; every other refusal is a defect of the host.
fn refused(call: &str, refusal: wire::EvaluationError) -> Result<EngineError, CallError> {
    Err(CallError::RefusedInput(match refusal {
        wire::EvaluationError::Exhausted(wire::Budget { name, size }) => {
            return Ok(EngineError::EngineBudget { budget: excerpt(&name), allowed: size });
        }
        wire::EvaluationError::NotBound => format!("{call}: the rule is not bound"),
        wire::EvaluationError::MissingColumn(path) => format!("{call}: no column `{}`", excerpt(&path)),
        wire::EvaluationError::MalformedBatch(reason) => format!("{call}: `{}`", excerpt(&reason)),
    }))
}

fn diagnostic(from: wire::Diagnostic) -> Result<Diagnostic, CallError> {
    let place = "a diagnostic";
    Ok(Diagnostic {
        severity: same!(from.severity, wire::Severity => Severity { Error, Warning }),
        code: filled(from.code, NAME_BYTES_MAX, &place)?,
        message: filled(from.message, LINE_BYTES_MAX, &place)?,
        reason: text(from.reason, NAME_BYTES_MAX, &place)?,
        parameters: list(from.parameters, PARAMETERS_MAX, &place, |part| text(part, LINE_BYTES_MAX, &place))?,
        line: from.line,
        column: from.column,
        length: from.length,
        suggestion: from.suggestion.map(|suggestion| text(suggestion, LINE_BYTES_MAX, &place)).transpose()?,
    })
}

/// Converts the outcomes of that many rows, with every length and index checked.
fn outcomes(from: wire::Outcomes, rows: u32) -> Result<Outcomes, CallError> {
    let place = "outcomes";
    let row_count = usize::try_from(rows).unwrap_or(usize::MAX);
    if from.verdicts.len() != row_count {
        return Err(invalid(&place, format_args!("{} verdicts for {rows} rows", from.verdicts.len())));
    }
    let verdicts = verdicts(from.verdicts)?;
    let missing_names =
        list(from.missing_names, MISSING_NAMES_MAX, &place, |name| filled(name, LINE_BYTES_MAX, &place))?;
    check_missing(&from.missing_offsets, &from.missing, &missing_names, &verdicts)?;
    let errors = row_errors(from.errors, &verdicts)?;
    Ok(Outcomes { verdicts, missing_names, missing_offsets: from.missing_offsets, missing: from.missing, errors })
}

/// Converts verdicts. Without a branch for each row: a batch has thousands, and most of the time of a call is not the
/// plugin's.
fn verdicts(bytes: Vec<u8>) -> Result<Vec<Verdict>, CallError> {
    let greatest = bytes.iter().fold(0, |greatest: u8, byte| greatest.max(*byte));
    if greatest > Verdict::Undetermined as u8 {
        return Err(invalid(&"outcomes", format_args!("{greatest} is not a verdict")));
    }
    let verdict = |byte| match byte {
        0 => Verdict::NotEligible,
        1 => Verdict::Eligible,
        _ => Verdict::Undetermined,
    };
    Ok(bytes.into_iter().map(verdict).collect())
}

/// Checks that the missing facts are divided into rows, that only undetermined rows have any, and that those of a row
/// are sorted.
fn check_missing(offsets: &[u32], missing: &[u32], names: &[String], verdicts: &[Verdict]) -> Result<(), CallError> {
    let place = "outcomes: missing facts";
    let ends_match = offsets.first() == Some(&0)
        && offsets.last().and_then(|end| usize::try_from(*end).ok()) == Some(missing.len())
        && offsets.len() == verdicts.len().saturating_add(1);
    if !ends_match {
        return Err(invalid(&place, "the offsets do not cover the rows"));
    }
    if missing.is_empty() && offsets.iter().fold(0, |any, offset| any | offset) == 0 {
        return Ok(());
    }
    for ((start, end), verdict) in offsets.iter().zip(offsets.iter().skip(1)).zip(verdicts) {
        if start == end {
            continue;
        }
        let range = usize::try_from(*start).unwrap_or(usize::MAX)..usize::try_from(*end).unwrap_or(usize::MAX);
        let Some(indices) = missing.get(range) else {
            return Err(invalid(&place, "the offsets go backwards"));
        };
        if *verdict != Verdict::Undetermined {
            return Err(invalid(&place, "a determined row has missing facts"));
        }
        let mut previous: Option<&str> = None;
        for index in indices {
            let Some(name) = usize::try_from(*index).ok().and_then(|index| names.get(index)) else {
                return Err(invalid(&place, format_args!("there is no name at {index}")));
            };
            if previous.is_some_and(|previous| previous >= name.as_str()) {
                return Err(invalid(&place, "the facts of a row are not sorted by name"));
            }
            previous = Some(name);
        }
    }
    Ok(())
}

/// Converts the errors of a batch: at most one per row, and only for undetermined rows.
fn row_errors(from: Vec<wire::RowError>, verdicts: &[Verdict]) -> Result<Vec<RowError>, CallError> {
    let place = "outcomes: errors";
    if from.is_empty() {
        return Ok(Vec::new());
    }
    let mut seen = vec![false; verdicts.len()];
    list(from, verdicts.len(), &place, |error| {
        let row = usize::try_from(error.row).unwrap_or(usize::MAX);
        let (Some(verdict), Some(seen)) = (verdicts.get(row), seen.get_mut(row)) else {
            return Err(invalid(&place, format_args!("there is no row {row}")));
        };
        if *verdict != Verdict::Undetermined {
            return Err(invalid(&place, format_args!("row {row} is determined and has an error")));
        }
        if std::mem::replace(seen, true) {
            return Err(invalid(&place, format_args!("row {row} has two errors")));
        }
        let code = filled(error.code, NAME_BYTES_MAX, &place)?;
        Ok(RowError { row: error.row, code, line: error.line, column: error.column })
    })
}

/// The most parts of one explanation.
const PARTS_MAX: usize = 4_000;
/// The most fields that one part reads.
const SEEN_MAX: usize = 1_000;
/// The most missing facts of one part.
const MISSING_MAX: usize = 1_000;

/// Converts the response to `summary`.
pub(super) fn rule_summary(from: wire::Summary) -> Result<RuleSummary, CallError> {
    let place = "summary";
    let wire::Cost { steps_min, steps_max, list_items } = from.cost;
    if steps_min > steps_max {
        return Err(invalid(&place, format_args!("at least {steps_min} steps and at most {steps_max}")));
    }
    let result_type = filled(from.result_type, NAME_BYTES_MAX, &place)?;
    Ok(RuleSummary { result_type, cost: Cost { steps_min, steps_max, list_items } })
}

/// Converts the response to `explain`.
pub(super) fn explanation(from: wire::Explanation, expression: &str) -> Result<Explanation, CallError> {
    let place = "explain";
    let mut count = 0;
    let parts = list(from.parts, PARTS_MAX, &place, |part| {
        let part = explained(part, count, expression)?;
        count += 1;
        Ok(part)
    })?;
    if parts.is_empty() {
        return Err(invalid(&place, "an explanation without any part"));
    }
    Ok(Explanation { parts, is_cut: from.is_cut })
}

fn explained(from: wire::Explained, number: usize, expression: &str) -> Result<ExplainedPart, CallError> {
    let place = format_args!("explain: part {number}");
    let parent = from.parent.and_then(|parent| usize::try_from(parent).ok());
    match parent {
        None if number == 0 && from.parent.is_none() => {}
        Some(parent) if parent < number => {}
        _ => return Err(invalid(&place, "it does not follow its parent")),
    }
    let bound = |byte: u32| usize::try_from(byte).unwrap_or(usize::MAX);
    let text = bound(from.start)..bound(from.end);
    if expression.get(text.clone()).is_none() {
        return Err(invalid(
            &place,
            format_args!("bytes {} to {} are not a text range of the expression", text.start, text.end),
        ));
    }
    let missing = list(from.missing, MISSING_MAX, &place, |name| filled(name, LINE_BYTES_MAX, &place))?;
    if !missing.is_sorted() {
        return Err(invalid(&place, "the missing facts are not sorted"));
    }
    let error = from.error.map(|error| filled(error, NAME_BYTES_MAX, &place)).transpose()?;
    let value = value(from.value, &place)?;
    if value != ExplainedValue::Unknown && (error.is_some() || !missing.is_empty()) {
        return Err(invalid(&place, "its value is known and facts are missing"));
    }
    let seen = list(from.seen, SEEN_MAX, &place, |fact| {
        Ok(SeenFact { name: filled(fact.name, LINE_BYTES_MAX, &place)?, value: self::value(fact.value, &place)? })
    })?;
    Ok(ExplainedPart { parent, text, item: from.item, value, missing, error, seen })
}

fn value(from: wire::ExplainedValue, place: Position<'_>) -> Result<ExplainedValue, CallError> {
    Ok(match from {
        wire::ExplainedValue::Unknown => ExplainedValue::Unknown,
        wire::ExplainedValue::Boolean(truth) => ExplainedValue::Boolean(truth),
        wire::ExplainedValue::Integer(integer) => ExplainedValue::Integer(integer),
        wire::ExplainedValue::Number(number) => ExplainedValue::Number(number),
        wire::ExplainedValue::Day(days) => ExplainedValue::Day(days),
        wire::ExplainedValue::Code(number) => ExplainedValue::Code(CodeNumber(number)),
        wire::ExplainedValue::Text(text) => ExplainedValue::Text(shown(text, place)?),
        wire::ExplainedValue::Items((low, high)) if low <= high => ExplainedValue::Items(low, high),
        wire::ExplainedValue::Items((low, high)) => {
            return Err(invalid(place, format_args!("a list of at least {low} and at most {high} items")));
        }
        wire::ExplainedValue::Structure => ExplainedValue::Structure,
        wire::ExplainedValue::Other(text) => ExplainedValue::Other(shown(text, place)?),
    })
}

/// Converts a text of a record, which may contain any character; invisible ones become `U+FFFD`.
fn shown(text: String, place: Position<'_>) -> Result<String, CallError> {
    if text.len() > LINE_BYTES_MAX {
        return Err(invalid(
            place,
            format_args!("a text of {} bytes exceeds the limit of {LINE_BYTES_MAX}", text.len()),
        ));
    }
    let is_foreign = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(is_foreign) {
        return Ok(text);
    }
    Ok(text
        .chars()
        .map(|character| if is_foreign(character) { char::REPLACEMENT_CHARACTER } else { character })
        .collect())
}

#[cfg(test)]
mod explanation_tests {
    use super::*;

    const EXPRESSION: &str = "é && b";

    fn part(parent: Option<u32>, start: u32, end: u32) -> wire::Explained {
        let value = wire::ExplainedValue::Boolean(true);
        wire::Explained { parent, start, end, item: None, value, missing: vec![], error: None, seen: vec![] }
    }

    fn read(parts: Vec<wire::Explained>) -> Result<Explanation, String> {
        explanation(wire::Explanation { parts, is_cut: false }, EXPRESSION).map_err(|error| match error {
            CallError::InvalidAnswer(reason) => reason,
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn a_valid_explanation_is_a_tree_with_texts_of_the_expression() {
        let explained = read(vec![part(None, 0, 7), part(Some(0), 0, 2), part(Some(0), 6, 7)]).unwrap();
        let texts: Vec<&str> = explained.parts.iter().map(|part| &EXPRESSION[part.text.clone()]).collect();
        assert_eq!(texts, ["é && b", "é", "b"]);
        assert_eq!(explained.parts[2].parent, Some(0));
    }

    #[test]
    fn parts_that_are_not_a_tree_or_not_a_text_range_are_rejected() {
        assert!(read(vec![]).unwrap_err().contains("without any part"));
        assert!(read(vec![part(Some(0), 0, 7)]).unwrap_err().contains("part 0"));
        assert!(read(vec![part(None, 0, 7), part(None, 0, 2)]).unwrap_err().contains("part 1"));
        assert!(read(vec![part(None, 0, 7), part(Some(1), 0, 2)]).unwrap_err().contains("part 1"));
        assert!(read(vec![part(None, 0, 1)]).unwrap_err().contains("bytes 0 to 1"));
        assert!(read(vec![part(None, 0, 8)]).unwrap_err().contains("bytes 0 to 8"));
        assert!(read(vec![part(None, 2, 0)]).unwrap_err().contains("bytes 2 to 0"));
    }

    #[test]
    fn a_known_value_has_no_missing_facts_and_hidden_characters_are_shown() {
        let lacking = wire::Explained { missing: vec!["me.a".to_owned()], ..part(None, 0, 7) };
        assert!(read(vec![lacking]).unwrap_err().contains("facts are missing"));
        let text = wire::ExplainedValue::Text("a\u{1b}[2J\n".to_owned());
        let shown = read(vec![wire::Explained { value: text, ..part(None, 0, 7) }]).unwrap();
        assert_eq!(shown.parts[0].value, ExplainedValue::Text("a\u{fffd}[2J\n".to_owned()));
    }

    #[test]
    fn the_minimum_of_a_cost_does_not_exceed_its_maximum() {
        let summary = |steps_min, steps_max| {
            let cost = wire::Cost { steps_min, steps_max, list_items: 100 };
            rule_summary(wire::Summary { result_type: "bool".to_owned(), cost })
        };
        assert_eq!(summary(2, 2).unwrap().cost.steps_max, 2);
        assert!(matches!(summary(3, 2), Err(CallError::InvalidAnswer(_))));
    }
}

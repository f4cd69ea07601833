//! Answers a rule's questions about codes, once for all subjects, and says which of them have no answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::open;
use crate::registry::Registry;
use daftar_domain::code::{CodeNumber, CodeUri};
use daftar_domain::eligibility::{Answer, Bindings, Diagnostic, PlacedQuestion, Question, Severity};
use daftar_domain::error::AppError;
use daftar_vocabulary::{Generation, QuestionProblem};

/// What the missing fact of a concept group that is not set begins with.
const MISSING_GROUP_PREFIX: &str = "concept_group.";

/// The active vocabularies with what packs of open vocabularies say about some codes; on a thread of the sandbox.
pub(super) fn consulted(
    registry: &Registry,
    codes: impl FnOnce() -> Vec<CodeUri>,
) -> Result<Arc<Generation>, AppError> {
    let generation = registry.vocabularies.current();
    if generation.has_open_vocabularies() { open::consult_here(registry, generation, &codes()) } else { Ok(generation) }
}

/// The codes that questions name.
pub(super) fn codes_of(questions: &[PlacedQuestion]) -> Vec<CodeUri> {
    let codes = questions.iter().filter_map(|placed| match &placed.question {
        Question::Code(text) | Question::DescendsFrom(text) => CodeUri::parse(text).ok(),
        Question::InGroup(_) => None,
    });
    codes.collect()
}

/// The bindings of a rule.
///
/// # Errors
/// A diagnostic for each question that names a group or code that does not exist, at the place where it stands.
pub(super) fn bindings(
    generation: &Generation,
    questions: &[PlacedQuestion],
    with_texts: &BTreeSet<CodeNumber>,
) -> Result<Bindings, Vec<Diagnostic>> {
    let mut answers: Vec<Answer> = Vec::with_capacity(questions.len());
    let mut diagnostics = Vec::new();
    for placed in questions {
        match generation.answer(&placed.question) {
            Ok(answer) => answers.push(answer),
            Err(problem) => diagnostics.push(wrong(placed, &problem)),
        }
    }
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let texts = with_texts.iter().filter_map(|number| generation.code_texts(*number)).collect();
    Ok(Bindings { answers, texts })
}

/// What is wrong with the groups and codes that questions name, or doubtful: a concept group that is unset leaves every answer
/// that depends on it undetermined.
pub(super) fn diagnostics(generation: &Generation, questions: &[PlacedQuestion]) -> Vec<Diagnostic> {
    let told = questions.iter().filter_map(|placed| match generation.answer(&placed.question) {
        Err(problem) => Some(wrong(placed, &problem)),
        Ok(_) => generation.unset_in(&placed.question).map(|missing| unset(placed, &missing)),
    });
    told.collect()
}

fn wrong(placed: &PlacedQuestion, problem: &QuestionProblem) -> Diagnostic {
    let suggestion = problem.suggestion().map(str::to_owned);
    Diagnostic { suggestion, ..diagnostic(placed, Severity::Error, problem.code(), problem.to_string()) }
}

fn unset(placed: &PlacedQuestion, missing: &str) -> Diagnostic {
    let name = missing.strip_prefix(MISSING_GROUP_PREFIX).unwrap_or(missing);
    let message = format!(
        "the concept group `{name}` is not set yet: where the answer depends on it the outcome is undetermined and names `{missing}`; the administrator sets it with `daftar concept-group set`"
    );
    diagnostic(placed, Severity::Warning, "unset_concept_group", message)
}

fn diagnostic(placed: &PlacedQuestion, severity: Severity, code: &str, message: String) -> Diagnostic {
    let PlacedQuestion { line, column, length, .. } = *placed;
    Diagnostic { severity, code: code.to_owned(), message, line, column, length, suggestion: None }
}

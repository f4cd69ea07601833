//! Answers a rule's questions about codes, once for all subjects, and says which of them have no answer.

use std::collections::BTreeSet;

use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::{Answer, Bindings, Diagnostic, PlacedQuestion, Severity};
use daftar_vocabulary::{Generation, QuestionProblem};

/// What the missing fact of a concept group that is not set begins with.
const MISSING_GROUP_PREFIX: &str = "concept_group.";

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
    Diagnostic {
        severity: Severity::Error,
        code: problem.code().to_owned(),
        message: problem.to_string(),
        line: placed.line,
        column: placed.column,
        length: placed.length,
        suggestion: problem.suggestion().map(str::to_owned),
    }
}

fn unset(placed: &PlacedQuestion, missing: &str) -> Diagnostic {
    let name = missing.strip_prefix(MISSING_GROUP_PREFIX).unwrap_or(missing);
    Diagnostic {
        severity: Severity::Warning,
        code: "unset_concept_group".to_owned(),
        message: format!(
            "the concept group `{name}` is not set yet: where the answer depends on it the outcome is undetermined and names `{missing}`; the administrator sets it with `daftar concept-group set`"
        ),
        line: placed.line,
        column: placed.column,
        length: placed.length,
        suggestion: None,
    }
}

//! Answers a rule's questions about codes, once for all subjects.

use std::collections::BTreeSet;

use crate::domain::code::CodeNumber;
use crate::domain::eligibility::{Answer, Bindings, Diagnostic, PlacedQuestion, Severity};
use crate::vocab::Generation;

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
            Err(problem) => diagnostics.push(Diagnostic {
                severity: Severity::Error,
                code: problem.code().to_owned(),
                message: problem.to_string(),
                line: placed.line,
                column: placed.column,
                length: placed.length,
                suggestion: problem.suggestion().map(str::to_owned),
            }),
        }
    }
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let texts = with_texts.iter().filter_map(|number| generation.code_texts(*number)).collect();
    Ok(Bindings { answers, texts })
}

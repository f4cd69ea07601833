//! Validates an expression before it is stored or evaluated: it must compile against the facts of its subject, and
//! every code and concept group that it names must exist. Resolves the questions of a rule about codes, once for all
//! subjects.
//!
//! **Invariant:** this module reads no record: the result depends only on the expression, the schema, the vocabularies
//! and the grants of the client.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::codes::{never_in_group, with_known_codes};
use super::decision::expression_digest;
use super::failure::{Failure, RequestIdentity, engine_error, refused, unless_exhausted};
use super::schema::{gaps, schema};
use crate::open_vocabulary;
use crate::registry::Registry;
use daftar_domain::code::{CodeNumber, CodeUri};
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{
    Answer, Bindings, Diagnostic, PlacedQuestion, Question, Reference, Severity, Subject,
};
use daftar_domain::error::AppError;
use daftar_domain::explanation::RuleSummary;
use daftar_sandbox::{EligibilityEngine, EngineError, Priority, RuleRequest, RuleSession, run_rule};
use daftar_vocabulary::{Generation, QuestionProblem};

/// Result of checking an expression before its evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The type of its value and its cost; `None` if the engine could not compile it.
    pub summary: Option<RuleSummary>,
    /// The fields that it reads, named as in missing facts: `me.birth_date`, `members`.
    pub references: Vec<String>,
    /// Errors and warnings about the expression, by position.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// Returns true if the expression can be evaluated.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.diagnostics.iter().all(|diagnostic| diagnostic.severity != Severity::Error)
    }
}

/// Checks an expression for the client.
///
/// # Errors
/// [`AppError::Expression`] if checking exhausts a budget; [`AppError::NoEngine`], [`AppError::Busy`]. An invalid
/// expression is not an error: its diagnostics state the problems.
pub async fn check(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    expression: &str,
    subject: Subject,
) -> Result<Checked, AppError> {
    let engine_name = engine.engine_name().map_err(engine_error)?;
    let requested = RequestIdentity {
        expression_digest: expression_digest(expression),
        under: format!("{subject:?} {engine_name}"),
        subjects: 0,
    };
    let schema = Arc::new(schema(subject, registry.vocabularies.current().extension_fields()));
    let rule = RuleRequest { actor: ctx.actor.clone(), expression: expression.to_owned(), schema, idle: None };
    let (of_client, of_registry) = (ctx.clone(), registry.clone());
    let checking = move |session: &mut RuleSession| checked(&of_client, &of_registry, subject, session);
    let run = async {
        match run_rule(engine.as_ref(), Priority::Interactive, rule, checking).await {
            Ok(checked) => Ok(checked?),
            Err(EngineError::Diagnostics(diagnostics)) => {
                let diagnostics = with_known_codes(&registry.vocabularies.current(), diagnostics);
                Ok(Checked { summary: None, references: Vec::new(), diagnostics })
            }
            Err(other) => Err(Failure::Engine(other)),
        }
    };
    unless_exhausted(ctx, registry, requested, run).await
}

/// Checks an expression that is to be stored, and returns its warnings.
///
/// # Errors
/// [`AppError::Expression`] with all diagnostics, or if checking exhausts a budget; [`AppError::NoEngine`],
/// [`AppError::Busy`].
pub async fn check_expression(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    expression: &str,
    subject: Subject,
) -> Result<Vec<Diagnostic>, AppError> {
    let checked = check(ctx, registry, engine, expression, subject).await?;
    if checked.is_valid() { Ok(checked.diagnostics) } else { Err(refused(checked.diagnostics)) }
}

/// Checks a compiled expression. Called on a thread of the sandbox.
fn checked(
    ctx: &OpContext,
    registry: &Registry,
    subject: Subject,
    session: &mut RuleSession,
) -> Result<Checked, AppError> {
    let generation = consulted(registry, registry.vocabularies.current(), || codes_of(session.questions()))?;
    let mut diagnostics = session.warnings().to_vec();
    diagnostics.extend(diagnostics_of(&generation, session.questions()));
    diagnostics.extend(never_in_group(&generation, registry, subject, session.questions(), session.references()));
    diagnostics.extend(gaps(ctx, subject, session.references()));
    diagnostics.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
    Ok(Checked { summary: Some(session.summary().clone()), references: names(session.references()), diagnostics })
}

/// Returns the names of the fields as in missing facts, each once.
fn names(references: &[Reference]) -> Vec<String> {
    let mut names: Vec<String> = references.iter().map(Reference::name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Prefix of the missing fact of an undefined concept group.
const MISSING_GROUP_PREFIX: &str = "concept_group.";

/// Returns the vocabularies with the contents of packs of open vocabularies for some codes. Called on a thread of the
/// sandbox.
pub(super) fn consulted(
    registry: &Registry,
    generation: Arc<Generation>,
    codes: impl FnOnce() -> Vec<CodeUri>,
) -> Result<Arc<Generation>, AppError> {
    if generation.has_open_vocabularies() {
        open_vocabulary::resolve_local(registry, generation, &codes())
    } else {
        Ok(generation)
    }
}

/// Returns the codes that questions name.
pub(super) fn codes_of(questions: &[PlacedQuestion]) -> Vec<CodeUri> {
    let codes = questions.iter().filter_map(|placed| match &placed.question {
        Question::Code(text) | Question::DescendsFrom(text) => CodeUri::parse(text).ok(),
        Question::InGroup(_) => None,
    });
    codes.collect()
}

/// Returns the bindings of a rule, with the texts of the codes in `with_texts` and of those that the rule names.
///
/// # Errors
/// A diagnostic for each question that names a group or code that does not exist, with its position.
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
    let mut with_texts = with_texts.clone();
    with_texts.extend(answers.iter().filter_map(named_code));
    let texts = with_texts.into_iter().filter_map(|number| generation.code_texts(number)).collect();
    Ok(Bindings { answers, texts })
}

/// Returns the code of the answer to `code('…')`. A rule may read its texts, also if no fact contains it.
pub(super) fn named_code(answer: &Answer) -> Option<CodeNumber> {
    match answer {
        Answer::Number(number) => Some(*number),
        Answer::Truths { .. } => None,
    }
}

/// Returns errors for groups and codes that do not exist, and warnings for concept groups that are not set: a result
/// that depends on such a group is undetermined.
fn diagnostics_of(generation: &Generation, questions: &[PlacedQuestion]) -> Vec<Diagnostic> {
    let reported = questions.iter().filter_map(|placed| match generation.answer(&placed.question) {
        Err(problem) => Some(wrong(placed, &problem)),
        Ok(_) => generation.unset_in(&placed.question).map(|missing| unset(placed, &missing)),
    });
    reported.collect()
}

fn wrong(placed: &PlacedQuestion, problem: &QuestionProblem) -> Diagnostic {
    let suggestion = problem.suggestion().map(str::to_owned);
    let (Question::InGroup(text) | Question::DescendsFrom(text) | Question::Code(text)) = &placed.question;
    let parameters = [Some(text.clone()), suggestion.clone()].into_iter().flatten().collect();
    let found = diagnostic(placed, Severity::Error, problem.code(), problem.to_string(), parameters);
    Diagnostic { suggestion, ..found }
}

fn unset(placed: &PlacedQuestion, missing: &str) -> Diagnostic {
    let name = missing.strip_prefix(MISSING_GROUP_PREFIX).unwrap_or(missing);
    let message = format!(
        "the concept group `{name}` is not set yet: where the answer depends on it the outcome is undetermined and names `{missing}`; the administrator sets it with `daftar concept-group set`"
    );
    diagnostic(placed, Severity::Warning, "unset_concept_group", message, vec![name.to_owned(), missing.to_owned()])
}

/// A diagnostic whose message is identified by its code.
fn diagnostic(
    placed: &PlacedQuestion,
    severity: Severity,
    code: &str,
    message: String,
    parameters: Vec<String>,
) -> Diagnostic {
    let PlacedQuestion { line, column, length, .. } = *placed;
    let (code, reason) = (code.to_owned(), code.to_owned());
    Diagnostic { severity, code, message, reason, parameters, line, column, length, suggestion: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_vocabulary::testing::generation;

    #[test]
    fn the_texts_of_codes_that_a_rule_names_are_bound_also_if_no_fact_contains_them() {
        let generation = generation();
        let uri = |text: &str| CodeUri::parse(text).unwrap();
        let question = |question| PlacedQuestion { question, line: 1, column: 1, length: 1 };
        let questions = [
            question(Question::Code("urn:iso:std:iso:5218#2".to_owned())),
            question(Question::DescendsFrom("urn:iso:std:iso:5218#1".to_owned())),
        ];
        let head = generation.number_of(&uri("urn:svc:vocab:relationship#head")).unwrap();
        let bound = bindings(&generation, &questions, &BTreeSet::from([head])).unwrap();
        let displays: BTreeSet<&str> = bound.texts.iter().map(|texts| texts.display.as_str()).collect();
        assert_eq!(displays, BTreeSet::from(["Female", "Head of household"]));
        let codes: Vec<Option<CodeNumber>> = bound.answers.iter().map(named_code).collect();
        assert_eq!(codes, [generation.number_of(&uri("urn:iso:std:iso:5218#2")), None]);
    }
}

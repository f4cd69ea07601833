//! What is done with programs: written by the administrator, read and searched by clients.

pub mod rules;
mod search;

use std::sync::Arc;

pub use search::{ProgramQuery, check_search, search};

use super::eligibility::check::check_expression;
use super::registry::Registry;
use super::visibility::{self, Seen};
use super::{audit, changed, identifiers, records, subjects, written};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::change::Details;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::Diagnostic;
use daftar_domain::error::{AppError, FieldProblem, FieldUse};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::program::{ELIGIBILITY, Program, ProgramDetails};
use daftar_domain::record::{RecordKind, VersionId};
use daftar_domain::scope::Resource;
use daftar_domain::subject::Subject;
use daftar_sandbox::EligibilityEngine;
use daftar_store::Operation;

/// A program as it was written, with what is doubtful about its expression.
pub struct WrittenProgram {
    /// The program.
    pub program: Arc<Program>,
    /// Diagnostics that did not stop it.
    pub warnings: Vec<Diagnostic>,
}

/// Adds a program.
///
/// # Errors
/// [`AppError::Invalid`] with every field that is not right, [`AppError::Expression`] when the expression does not compile,
/// [`AppError::NoEngine`] when nothing can tell whether it does, [`AppError::IdentifierInUse`].
pub async fn create(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    details: ProgramDetails,
) -> Result<WrittenProgram, AppError> {
    let mut problems = Vec::new();
    check_details((ctx, registry), &[], &details, &mut problems);
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let warnings = check_eligibility(ctx, registry, engine, &details).await?;
    let program = write(ctx, registry, None, details).await?;
    Ok(WrittenProgram { program, warnings })
}

/// Replaces what a program says, if it is still as `before`.
///
/// # Errors
/// As [`create`], and [`AppError::VersionMismatch`].
pub async fn replace(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    before: &Program,
    details: ProgramDetails,
) -> Result<WrittenProgram, AppError> {
    let mut problems = Vec::new();
    check_details((ctx, registry), &before.details.identifiers, &details, &mut problems);
    identifiers::check_kept(&before.details.identifiers, &details.identifiers, &mut problems);
    if details.target_type() != before.details.target_type() {
        problems.push(FieldProblem {
            field: "target_type".to_owned(),
            code: "immutable",
            message: format!(
                "the program enrols beneficiaries of type `{}`, and that never changes; create another program",
                before.details.target_type().name()
            ),
        });
    }
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    // An expression that stays as it is was checked when it was written: a program can be ended without an engine.
    let warnings = if details.get(ELIGIBILITY) == before.details.get(ELIGIBILITY) {
        Vec::new()
    } else {
        check_eligibility(ctx, registry, engine, &details).await?
    };
    let details = written::keep(&before.details, details, &FieldSet::All);
    let program = write(ctx, registry, Some(before), details).await?;
    Ok(WrittenProgram { program, warnings })
}

fn check_details(
    (ctx, registry): (&OpContext, &Registry),
    before: &[Identifier],
    details: &ProgramDetails,
    problems: &mut Vec<FieldProblem>,
) {
    let generation = registry.vocabularies.current();
    let (kind, identifiers) = (RecordKind::Program, &details.identifiers);
    identifiers::check((&generation, utc_day(ctx.now)), kind, before, identifiers, problems);
    if details.enforces_eligibility() && !details.has(ELIGIBILITY) {
        problems.push(FieldProblem {
            field: "enforce_eligibility".to_owned(),
            code: "contradiction",
            message: "there is no expression to enforce: give `eligibility`, or leave `enforce_eligibility` out"
                .to_owned(),
        });
    }
}

async fn check_eligibility(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    details: &ProgramDetails,
) -> Result<Vec<Diagnostic>, AppError> {
    match details.get(ELIGIBILITY) {
        Some(expression) => check_expression(ctx, registry, engine, expression, details.target_type()).await,
        None => Ok(Vec::new()),
    }
}

async fn write(
    ctx: &OpContext,
    registry: &Registry,
    before: Option<&Program>,
    details: ProgramDetails,
) -> Result<Arc<Program>, AppError> {
    let targets = records::references(RecordKind::Program, &details.identifiers);
    let fields = changed::fields(before.map(|before| &before.details), &details);
    let (action, operation) = match before {
        None => (AuditAction::Create, Operation::create(details)),
        Some(before) => (AuditAction::Update, Operation::update(before.id, before.meta.version, details)),
    };
    let entry = audit::entry(ctx, action, AuditOutcome::Allowed, targets).with_fields(fields);
    records::commit(registry, records::write(ctx, vec![operation], entry)).await
}

/// Reads a program by identifier.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`].
pub async fn read(ctx: &OpContext, registry: &Registry, key: &IdentifierKey) -> Result<Seen<ProgramDetails>, AppError> {
    let found = visibility::find_record(ctx, registry, key).await;
    let outcome = if found.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
    let targets = vec![records::reference(RecordKind::Program, key)];
    registry.audit.record(ctx, audit::entry(ctx, AuditAction::Read, outcome, targets)).await?;
    found
}

/// A program's own rule.
#[derive(Debug)]
pub struct ProgramRule {
    /// `Program/<system>|<value>`, as it was asked for.
    pub reference: String,
    /// At which version of the program.
    pub version: VersionId,
    /// The expression.
    pub expression: String,
    /// Whom it is about.
    pub subject: Subject,
}

/// The rule of a program that a request names, as the program stands or stood at a version.
///
/// # Errors
/// [`AppError::MissingScope`] without `program:read`; [`AppError::FieldNotGranted`] where the client may not see the rule or whom
/// it is about; [`AppError::Invalid`] where there is no such program or it has no
/// expression.
pub async fn rule_of(
    ctx: &OpContext,
    registry: &Registry,
    key: &IdentifierKey,
    then: Option<VersionId>,
) -> Result<ProgramRule, AppError> {
    for field in ["eligibility", "target_type"] {
        visibility::check_read(ctx, Resource::Program, field, FieldUse::Rule)?;
    }
    let program: Arc<Program> = match visibility::find_record(ctx, registry, key).await {
        Ok(seen) => seen.record,
        Err(error) => return Err(AppError::Invalid(vec![subjects::leads_nowhere("program", error)?])),
    };
    let program = match then.filter(|then| *then != program.meta.version) {
        None => program,
        Some(then) => as_it_stood(registry, &program, then).await?,
    };
    let Some(expression) = program.details.get(ELIGIBILITY).map(str::to_owned) else {
        return Err(AppError::invalid("program", "no_expression", "the program has no eligibility expression"));
    };
    let reference = records::reference(RecordKind::Program, key);
    Ok(ProgramRule { reference, version: program.meta.version, expression, subject: program.details.target_type() })
}

/// A program as it stood at a version.
async fn as_it_stood(registry: &Registry, program: &Program, then: VersionId) -> Result<Arc<Program>, AppError> {
    let record = registry.store.record_version(RecordKind::Program, program.id, then).await?;
    record.and_then(ProgramDetails::of).ok_or_else(|| {
        let detail = format!("the decision names version {then} of the program, and there is no such version");
        AppError::Conflict(ErrorCode::DecisionNotRepeatable, detail)
    })
}

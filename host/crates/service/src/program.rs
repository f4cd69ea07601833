//! Operations on programs: written by the administrator, read and searched by clients. Their number is small, and all
//! of them are in memory, so that a search checks each.
//!
//! Their rules are checked again after changes: one that was valid when it was stored can break when a pack, a module,
//! a concept group or the engine changes.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::civil::Date;

use crate::eligibility::check::check_expression;
use crate::eligibility::{engine_of_body, engine_of_program};
use crate::registry::Registry;
use crate::search::{self, FoundPage, Paging};
use crate::visibility::{self, Seen};
use crate::{audit, identifiers, records, subjects, written};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::change::Details;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::Diagnostic;
use daftar_domain::error::{AppError, FieldProblem, FieldUse};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::person_name::{search_phrase, search_words};
use daftar_domain::program::{ELIGIBILITY, ENGINE, Program, ProgramDetails, ProgramPhase};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::scope::Resource;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::order::{Direction, Position, SortField, SortKey, SortValue, Start};
use daftar_domain::subject::Subject;
use daftar_sandbox::EligibilityEngine;
use daftar_store::Operation;

/// A program as it was written, with warnings about its expression.
pub struct WrittenProgram {
    /// The program.
    pub program: Arc<Program>,
    /// Warnings, which did not prevent the write.
    pub warnings: Vec<Diagnostic>,
}

/// Adds a program.
///
/// # Errors
/// [`AppError::Invalid`] with every invalid field or when its engine is not installed, [`AppError::Expression`] when the
/// expression does not compile, [`AppError::NoEngine`] when no engine can check it, [`AppError::IdentifierInUse`].
pub async fn create(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    details: ProgramDetails,
) -> Result<WrittenProgram, AppError> {
    let mut problems = Vec::new();
    check_details((ctx, registry), &[], &details, &mut problems);
    AppError::check(&mut problems)?;
    let warnings = check_eligibility(ctx, registry, engine, &details).await?;
    let program = write(ctx, registry, None, details).await?;
    Ok(WrittenProgram { program, warnings })
}

/// Replaces a program, if it is still as `before`.
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
    identifiers::check_retained(&before.details.identifiers, &details.identifiers, &mut problems);
    if details.target_type() != before.details.target_type() {
        problems.push(FieldProblem::new(
            "target_type",
            "immutable",
            format!(
                "the program enrols beneficiaries of type `{}`, and that never changes; create another program",
                before.details.target_type().name()
            ),
        ));
    }
    AppError::check(&mut problems)?;
    // An unchanged expression was checked when it was written: a program can be ended without an active engine.
    let of_rule = |details: &ProgramDetails| [ELIGIBILITY, ENGINE].map(|key| details.get(key).map(str::to_owned));
    let warnings = if of_rule(&details) == of_rule(&before.details) {
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
        problems.push(FieldProblem::new(
            "enforce_eligibility",
            "contradiction",
            "there is no expression to enforce: give `eligibility`, or leave `enforce_eligibility` out",
        ));
    }
}

async fn check_eligibility(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    details: &ProgramDetails,
) -> Result<Vec<Diagnostic>, AppError> {
    let engine = engine_of_body(engine, details.get(ENGINE))?;
    match details.get(ELIGIBILITY) {
        Some(expression) => check_expression(ctx, registry, &engine, expression, details.target_type()).await,
        None => Ok(Vec::new()),
    }
}

/// Returns the operation that gives a program another rule, and the names of the changed fields. The engine stays if the
/// rule names none.
///
/// # Errors
/// [`AppError::Conflict`] if there is no such program, or its beneficiaries are of another kind; those of [`replace`].
pub(crate) async fn rule_change(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    key: &IdentifierKey,
    (subject, expression, engine_name): (Subject, &str, Option<&str>),
) -> Result<(Operation, Vec<String>), AppError> {
    let found = visibility::find_record::<ProgramDetails>(ctx, registry, key).await;
    let before = match found {
        Ok(found) => found.record,
        Err(AppError::NotFound(_)) => {
            let message = format!("there is no program `{}`", key.reveal());
            return Err(AppError::conflict(ErrorCode::Conflict, message));
        }
        Err(error) => return Err(error),
    };
    if before.details.target_type() != subject {
        let (of_program, of_rule) = (before.details.target_type().name(), subject.name());
        let message = format!("the program is for beneficiaries of type `{of_program}`, and the rule for `{of_rule}`");
        return Err(AppError::conflict(ErrorCode::Conflict, message));
    }
    let mut details = before.details.clone().with(ELIGIBILITY, expression.to_owned());
    if let Some(name) = engine_name {
        details = details.with(ENGINE, name.to_owned());
    }
    check_eligibility(ctx, registry, engine, &details).await?;
    let fields = written::changed_fields(Some(&before.details), &details).into_iter().collect();
    Ok((Operation::update(before.id, before.meta.version, details), fields))
}

async fn write(
    ctx: &OpContext,
    registry: &Registry,
    before: Option<&Program>,
    details: ProgramDetails,
) -> Result<Arc<Program>, AppError> {
    let targets = records::references(RecordKind::Program, &details.identifiers);
    let fields = written::changed_fields(before.map(|before| &before.details), &details);
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
    let targets = vec![records::reference(RecordKind::Program, key)];
    registry.audit.record_read(ctx, &found, targets, None).await?;
    found
}

/// The eligibility rule of a program.
pub struct ProgramRule {
    /// `Program/<system>|<value>`, as requested.
    pub reference: String,
    /// The version of the program.
    pub version: VersionId,
    /// The expression.
    pub expression: String,
    /// Its engine.
    pub engine: Arc<dyn EligibilityEngine>,
    /// The type of its subjects.
    pub subject: Subject,
}

/// The rule of a program that a request names, at its current version or a given one.
///
/// # Errors
/// [`AppError::MissingScope`] without `program:read`; [`AppError::FieldNotGranted`] if the client may not see the rule,
/// its engine or the type of its subjects; [`AppError::Invalid`] if there is no such program or it has no expression;
/// [`AppError::EngineNotInstalled`].
pub async fn rule_of(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    key: &IdentifierKey,
    then: Option<VersionId>,
) -> Result<ProgramRule, AppError> {
    for field in ["eligibility", "engine", "target_type"] {
        visibility::check_read(ctx, Resource::Program, field, FieldUse::Rule)?;
    }
    let found = visibility::find_record::<ProgramDetails>(ctx, registry, key).await;
    let program = found.map_err(|error| subjects::invalid("program", error))?.record;
    let program = match then.filter(|then| *then != program.meta.version) {
        None => program,
        Some(then) => as_it_stood(registry, &program, then).await?,
    };
    let Some(expression) = program.details.get(ELIGIBILITY).map(str::to_owned) else {
        return Err(AppError::invalid("program", "no_expression", "the program has no eligibility expression"));
    };
    let (version, subject) = (program.meta.version, program.details.target_type());
    let engine = engine_of_program(engine, &program.details)?;
    Ok(ProgramRule { reference: records::reference(RecordKind::Program, key), version, expression, engine, subject })
}

/// A program at a version.
async fn as_it_stood(registry: &Registry, program: &Program, then: VersionId) -> Result<Arc<Program>, AppError> {
    let record = registry.store.record_version(RecordKind::Program, program.id, then).await?;
    record.and_then(ProgramDetails::of).ok_or_else(|| {
        let detail = format!("the decision names version {then} of the program, and there is no such version");
        AppError::Conflict(ErrorCode::DecisionNotRepeatable, detail)
    })
}

/// The rule of a program that can no longer be evaluated.
#[derive(Debug)]
pub struct BrokenRule {
    /// `Program/<system>|<value>`
    pub program: String,
    /// Its expression.
    pub expression: String,
    /// The problem, in one sentence.
    pub message: String,
    /// All problems; empty if it exceeds a budget or its engine is not installed.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks the rule of every program, and returns the invalid ones.
///
/// # Errors
/// [`AppError::NoEngine`], [`AppError::EngineCompiling`] and [`AppError::Busy`]: then no rule is checked.
pub async fn broken_rules(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
) -> Result<Vec<BrokenRule>, AppError> {
    let mut broken = Vec::new();
    for program in registry.index.current().await.programs().await? {
        let Some(expression) = program.details.get(ELIGIBILITY) else { continue };
        let checked = match engine_of_program(engine, &program.details) {
            Ok(engine) => check_expression(ctx, registry, &engine, expression, program.details.target_type()).await,
            Err(error) => Err(error),
        };
        let (message, diagnostics) = match checked {
            Ok(_) => continue,
            Err(AppError::Expression(problem)) => (problem.message, problem.diagnostics),
            Err(error @ AppError::EngineNotInstalled(_)) => (error.to_string(), Vec::new()),
            Err(other) => return Err(other),
        };
        let name = records::name_of(&program).unwrap_or_default();
        broken.push(BrokenRule { program: name, expression: expression.to_owned(), message, diagnostics });
    }
    Ok(broken)
}

/// Logs how many programs have rules that a change has broken, if any.
pub async fn log_broken_rules(ctx: &OpContext, registry: &Registry, engine: &Arc<dyn EligibilityEngine>) {
    match broken_rules(ctx, registry, engine).await {
        Ok(broken) if broken.is_empty() => {}
        Ok(broken) => tracing::warn!(
            programs.count = broken.len(),
            "the eligibility rules of some programs are not valid any more, `daftar program check` names them"
        ),
        Err(error) => {
            tracing::warn!(error = %error, "the eligibility rules of programs could not be checked after the change");
        }
    }
}

/// Conditions on programs, all of which must hold. Empty: every program.
#[derive(Debug, Clone, Default)]
pub struct ProgramQuery {
    /// Has that identifier, open or ended; each of them.
    pub identifiers: Vec<IdentifierKey>,
    /// Words, each of which begins a word of the name.
    pub name_words: Vec<String>,
    /// True if it is active; a program without the field is.
    pub active: Option<bool>,
    /// The type of its beneficiaries.
    pub target_type: Option<Subject>,
    /// Its status today.
    pub phase: Option<ProgramPhase>,
    /// When the record was last written.
    pub last_updated: Vec<InstantCondition>,
}

/// Checks that the client may use every field that a search filters or sorts by. `filtered` are fields of the API.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check_search(ctx: &OpContext, filtered: &[String], paging: &Paging) -> Result<(), AppError> {
    search::check_fields(ctx, Resource::Program, filtered, &paging.sort)
}

/// Searches programs. The caller must have called [`check_search`].
///
/// # Errors
/// [`AppError::Invalid`] when the system of an identifier is not known, and when the search cannot be written into the
/// audit log.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    query: ProgramQuery,
    paging: &Paging,
) -> Result<FoundPage<Seen<ProgramDetails>>, AppError> {
    visibility::check_systems(ctx, registry, ("identifier", RecordKind::Program), &query.identifiers).await?;
    let today = utc_day(ctx.now);
    let mut programs = registry.index.current().await.programs().await?;
    programs.retain(|program| query.holds(program, today));
    let ids: Vec<RecordId> = programs.iter().map(|program| program.id).collect();
    let seen = visibility::of_each_found(ctx, registry, RecordKind::Program, &ids).await?;
    let mut found: Vec<Candidate> = Vec::new();
    for (record, fields) in programs.into_iter().zip(seen) {
        let Some(fields) = fields else { continue };
        let values = paging.sort.iter().map(|key| value(key.field, &record)).collect();
        found.push((values, Seen { record, fields }));
    }
    found.sort_by(|one, other| compare(&paging.sort, &one.0, &other.0).then(one.1.record.id.cmp(&other.1.record.id)));
    let page = cut(found, paging);
    let targets = page.records.iter().filter_map(|program| records::name_of(&program.record)).collect();
    registry.audit.record(ctx, audit::entry(ctx, AuditAction::Search, AuditOutcome::Allowed, targets)).await?;
    Ok(page)
}

/// The sort keys of a program, in order, and the program.
type Candidate = (Vec<SortValue>, Seen<ProgramDetails>);

fn cut(found: Vec<Candidate>, paging: &Paging) -> FoundPage<Seen<ProgramDetails>> {
    let total = found.len() as u64;
    let begin = match &paging.window.start {
        Start::Offset(offset) => usize::try_from(*offset).unwrap_or(usize::MAX),
        Start::After(position) => found.partition_point(|(values, program)| {
            let order = compare(&paging.sort, values, &position.values);
            order.then(program.record.id.cmp(&position.record)).is_le()
        }),
    };
    let mut page: Vec<Candidate> = found.into_iter().skip(begin).collect();
    let has_more = page.len() > paging.window.count as usize;
    page.truncate(paging.window.count as usize);
    let passed = paging.window.passed().saturating_add(page.len() as u64);
    let next = page.last().filter(|_| has_more).map(|(values, program)| Position {
        values: values.clone(),
        record: program.record.id,
        passed,
    });
    FoundPage { total, records: page.into_iter().map(|(_, program)| program).collect(), next }
}

fn value(field: SortField, program: &Program) -> SortValue {
    match field {
        SortField::Name => SortValue::Text(search_phrase(program.details.name())),
        SortField::LastUpdated => {
            SortValue::Number(program.meta.last_updated.as_millisecond().cast_unsigned() ^ (1 << 63))
        }
        SortField::Date(_) | SortField::Word(_) | SortField::Code(_) => SortValue::Missing,
    }
}

fn compare(keys: &[SortKey], one: &[SortValue], other: &[SortValue]) -> Ordering {
    let mut pairs = keys.iter().zip(one.iter().zip(other));
    let by_key = pairs.find_map(|(key, (one, other))| {
        let order = match (one, other) {
            (SortValue::Missing, SortValue::Missing) => Ordering::Equal,
            (SortValue::Missing, _) => return Some(Ordering::Greater),
            (_, SortValue::Missing) => return Some(Ordering::Less),
            (SortValue::Number(one), SortValue::Number(other)) => one.cmp(other),
            (SortValue::Text(one), SortValue::Text(other)) => one.cmp(other),
            (SortValue::Number(_), SortValue::Text(_)) => Ordering::Less,
            (SortValue::Text(_), SortValue::Number(_)) => Ordering::Greater,
        };
        let directed = if key.direction == Direction::Ascending { order } else { order.reverse() };
        directed.is_ne().then_some(directed)
    });
    by_key.unwrap_or(Ordering::Equal)
}

impl ProgramQuery {
    fn holds(&self, program: &Program, today: Date) -> bool {
        let details = &program.details;
        let carries = |key: &IdentifierKey| details.identifiers.iter().any(|identifier| identifier.key == *key);
        let at_ms = program.meta.last_updated.as_millisecond();
        self.identifiers.iter().all(carries)
            && self.active.is_none_or(|active| active == details.is_active())
            && self.target_type.is_none_or(|target| target == details.target_type())
            && self.phase.is_none_or(|phase| phase == details.phase(today))
            && self.last_updated.iter().all(|condition| condition.holds(at_ms))
            && self.name_holds(details.name())
    }

    fn name_holds(&self, name: &str) -> bool {
        if self.name_words.is_empty() {
            return true;
        }
        let words = search_words(name);
        self.name_words.iter().all(|beginning| words.iter().any(|word| word.starts_with(beginning)))
    }
}

//! Enrolling, and what every write of a membership is checked against.

use std::sync::Arc;

use super::replace::Present;
use super::rests_on;
use super::rules::{Entry, check_dates, check_transition};
use super::{MembershipDraft, MembershipView, named_in, view};
use crate::edit::references::To;
use crate::eligibility::evaluate::ask_program;
use crate::eligibility::schema::may_be_told;
use crate::registry::Registry;
use crate::{audit, changed, identifiers, records, subjects, visibility, written};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::Verdict;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program::{ELIGIBILITY, Program, ProgramDetails, ProgramPhase};
use daftar_domain::program_membership::{
    BENEFICIARY, MembershipStatus, OVERRIDE, ProgramMembership, ProgramMembershipDetails, STATUS,
};
use daftar_domain::record::{RecordKind, VersionCondition};
use daftar_domain::scope::Resource;
use daftar_domain::subject::SubjectReference;
use daftar_domain::value::Reference;
use daftar_sandbox::EligibilityEngine;
use daftar_store::{Operation, StoreError, Write};

/// Enrols a beneficiary, or writes down that it applied, left, or was refused.
///
/// # Errors
/// [`AppError::FieldNotGranted`], [`AppError::Invalid`] with every field that is not right, references that do not resolve among
/// them; [`AppError::Conflict`] for a second open membership and for a program that is over; [`AppError::NotEligible`].
pub async fn create(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    draft: MembershipDraft,
) -> Result<MembershipView, AppError> {
    let targets = targets_of(&draft);
    written::check_new(ctx, Resource::ProgramMembership, &fields_of(&draft))?;
    let attempt = || write(ctx, registry, engine, None, draft.clone());
    let outcome = records::retried(&VersionCondition::Any, attempt).await;
    answer(ctx, registry, AuditAction::Create, targets, outcome).await
}

/// Writes a refusal down, or shows what was written.
pub(super) async fn answer(
    ctx: &OpContext,
    registry: &Registry,
    action: AuditAction,
    targets: Vec<String>,
    outcome: Result<Arc<ProgramMembership>, AppError>,
) -> Result<MembershipView, AppError> {
    match outcome {
        Ok(membership) => {
            let fields = visibility::of_written_membership(ctx, registry, &membership.details).await?;
            view(registry, membership, fields).await
        }
        Err(error) => {
            let mut entry = audit::entry(ctx, action, AuditOutcome::Refused, targets);
            if let AppError::NotEligible { outcome, .. } = &error {
                entry.note = Some(format!("the program's expression says {outcome}"));
            }
            registry.audit.record(ctx, entry).await?;
            Err(error)
        }
    }
}

/// Checks a draft against what is there, and writes it.
///
/// # Errors
/// [`AppError::Overtaken`] when what was found changed before it was written.
pub(super) async fn write(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    present: Option<Present<'_>>,
    draft: MembershipDraft,
) -> Result<Arc<ProgramMembership>, AppError> {
    let today = utc_day(ctx.now);
    // Before anything is looked at.
    let since = registry.index.sequence().await?;
    let before = present.as_ref().map(|present| present.before);
    let kept = |field: &str| present.as_ref().filter(|present| !present.written.allows(field));
    // Fields that never change are not compared for a client that may not read them: a rejection would reveal their values.
    let unseen = |field: &str| present.as_ref().filter(|present| !present.seen.allows(field));
    let given = named_in(&draft)?;
    let mut targets = targets_of(&draft);
    // What was written is named in the audit log, not what a client that does not see it took it for.
    let named = [unseen("program").map(|one| one.program), unseen("beneficiary").map(|one| one.beneficiary)];
    for (target, named) in targets.iter_mut().zip(named) {
        *target = named.map_or_else(|| std::mem::take(target), str::to_owned);
    }
    let mut problems = Vec::new();
    let known = before.map(|before| before.details.identifiers.as_slice()).unwrap_or_default();
    let (generation, kind) = (registry.vocabularies.current(), RecordKind::ProgramMembership);
    identifiers::check((&generation, today), kind, known, &draft.identifiers, &mut problems);
    let program = match kept("program") {
        Some(present) => Some(records::by_id(&*registry.store, present.before.details.program()).await?),
        None => match present.as_ref().filter(|present| present.is_program(&given.0)) {
            Some(present) => Some(records::by_id(&*registry.store, present.before.details.program()).await?),
            None => resolve_program(registry, &given.0, &mut problems).await?,
        },
    };
    let beneficiary = match kept("beneficiary") {
        Some(present) => Some(present.before.details.beneficiary()),
        None => match present.as_ref().filter(|present| present.is_beneficiary(&given.1)) {
            Some(present) => Some(present.before.details.beneficiary()),
            None => resolve_beneficiary(ctx, registry, &given.1, &mut problems).await?,
        },
    };
    let (Some(program), Some(beneficiary)) = (program, beneficiary) else { return Err(AppError::Invalid(problems)) };
    let program = match unseen("program") {
        Some(present) => records::by_id(&*registry.store, present.before.details.program()).await?,
        None => program,
    };
    let beneficiary = unseen("beneficiary").map_or(beneficiary, |present| present.before.details.beneficiary());
    check_target(&program, &beneficiary, &mut problems);
    if let Some(before) = before {
        let (was, is) = (before.details.slot(), (program.id, beneficiary));
        for (field, is_same) in [("program", was.program == is.0), ("beneficiary", was.beneficiary == is.1)] {
            if !is_same {
                problems.push(problem(field, "immutable", "it never changes: end this membership and create another"));
            }
        }
        identifiers::check_kept(&before.details.identifiers, &draft.identifiers, &mut problems);
    }
    let details = draft.translate(&mut To(|_: RecordKind| program.id)).with(BENEFICIARY, Reference::from(beneficiary));
    let details = match &present {
        Some(present) => written::keep(&present.before.details, details, &present.written),
        None => details,
    };
    let status = details.status();
    let mut details = details.with(STATUS, status);
    check_dates(&mut details, present.as_ref(), today, &mut problems);
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let mut note = format!("status {}", status.name());
    let mut rests_on = Vec::new();
    if check_transition(present.as_ref(), status)? == Entry::Enrolled {
        check_open(&program, today)?;
        // A reason that was given for something else, and that the client may not see, is none.
        let is_overridden = details.has(OVERRIDE) && kept("override").is_none();
        let word = ask(ctx, registry, engine, &program, (&details, is_overridden)).await?;
        let decides = word.is_some() && !is_overridden;
        rests_on.push(rests_on::of_entry(registry, since, program.id, decides.then_some(beneficiary)).await?);
        if let Some(word) = word {
            note = format!("{note}; the program's expression says {word}");
            if word != Verdict::Eligible.name() {
                note.push_str("; overridden");
            }
        }
    }
    targets.extend(records::references(RecordKind::ProgramMembership, &details.identifiers));
    let fields = changed::of_membership(before.map(|before| &before.details), &details);
    let (action, operation) = match before {
        None => (AuditAction::Create, Operation::create(details)),
        Some(before) => (AuditAction::Update, Operation::update(before.id, before.meta.version, details)),
    };
    let entry = audit::entry(ctx, action, AuditOutcome::Allowed, targets).with_note(note);
    let entry = match before {
        None => entry.with_fields(fields),
        Some(_) => audit::with_changes(ctx, entry, fields),
    };
    let write = Write { rests_on, ..records::write(ctx, vec![operation], entry) };
    match registry.store.commit(write).await {
        Ok(committed) => records::written(committed),
        Err(error @ StoreError::MembershipOpen) => {
            Err(AppError::conflict(ErrorCode::MembershipOpen, format!("{error}; change that one, or end it first")))
        }
        Err(error) => Err(error.into()),
    }
}

/// What the expression of a program that enforces it says of whoever enters; nothing, where it is not enforced.
async fn ask(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    program: &Arc<Program>,
    (details, is_overridden): (&ProgramMembershipDetails, bool),
) -> Result<Option<&'static str>, AppError> {
    let expression = program.details.get(ELIGIBILITY).filter(|_| program.details.enforces_eligibility());
    let Some(expression) = expression else { return Ok(None) };
    let answer = ask_program(ctx, registry, engine, expression, details.beneficiary()).await;
    match answer {
        Ok(outcome) if outcome.verdict == Verdict::Eligible || is_overridden => Ok(Some(outcome.verdict.name())),
        Ok(outcome) => {
            let kind = details.beneficiary().kind;
            // What is missing may be missing of somebody whom a client that needs consents does not see.
            let is_told = |fact: &String| ctx.consent.is_none() && may_be_told(ctx, kind, fact);
            let missing = outcome.missing.into_iter().filter(is_told).collect();
            Err(AppError::NotEligible { outcome: outcome.verdict.name(), missing })
        }
        // Who overrides the word of an expression need not wait until it can be had.
        Err(_) if is_overridden => Ok(Some("nothing, as it could not be evaluated")),
        Err(AppError::Expression(refused)) => Err(AppError::conflict(
            ErrorCode::ProgramRuleFailed,
            format!(
                "the program's eligibility expression cannot be evaluated any more ({refused}): the administrator mends it with `daftar program update`, or enrol with `override {{reason}}`"
            ),
        )),
        Err(other) => Err(other),
    }
}

fn check_open(program: &Program, today: jiff::civil::Date) -> Result<(), AppError> {
    if program.details.is_active() && program.details.phase(today) != ProgramPhase::Ended {
        return Ok(());
    }
    Err(AppError::conflict(ErrorCode::ProgramClosed, "nobody is enrolled in a program that has ended or is not active"))
}

fn check_target(program: &Program, beneficiary: &SubjectReference, problems: &mut Vec<FieldProblem>) {
    let target = program.details.target_type();
    if beneficiary.kind != target {
        let message = format!(
            "the program enrols beneficiaries of type `{}`: write `{}/<system>|<value>`",
            target.name(),
            target.record_kind()
        );
        problems.push(problem("beneficiary", "wrong_target_type", &message));
    }
}

async fn resolve_beneficiary(
    ctx: &OpContext,
    registry: &Registry,
    given: &SubjectReference<IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Result<Option<SubjectReference>, AppError> {
    match visibility::beneficiary(ctx, registry, given.kind, &given.id).await {
        Ok(beneficiary) => Ok(Some(beneficiary)),
        Err(error) => subjects::unresolved("beneficiary", error, problems).map(|()| None),
    }
}

async fn resolve_program(
    registry: &Registry,
    key: &IdentifierKey,
    problems: &mut Vec<FieldProblem>,
) -> Result<Option<Arc<Program>>, AppError> {
    match records::find::<ProgramDetails>(&*registry.store, key).await {
        Ok(program) => Ok(Some(program)),
        Err(error) => {
            let error = identifiers::explained(registry, key, error);
            subjects::unresolved("program", error, problems).map(|()| None)
        }
    }
}

/// A problem of one field.
pub(super) fn problem(field: &str, code: &'static str, message: &str) -> FieldProblem {
    FieldProblem { field: field.to_owned(), code, message: message.to_owned() }
}

/// The fields that a new membership would have; one that does not say where it stands is a draft.
fn fields_of(draft: &MembershipDraft) -> FieldSet {
    if draft.status() != MembershipStatus::Draft {
        return written::present(draft);
    }
    let mut unsaid = draft.clone();
    unsaid.set(STATUS, None);
    written::present(&unsaid)
}

fn targets_of(draft: &MembershipDraft) -> Vec<String> {
    let named = draft.references().into_iter();
    named.map(|reference| records::reference(reference.kind, &reference.id)).collect()
}

//! Enrolment and replacement of a membership, and the checks of every write of one: the statuses and days that are
//! compatible, and the permitted transitions.

use std::sync::Arc;

use jiff::civil::Date;

use super::{MembershipAddress, MembershipDraft, MembershipView, absent, find, name_of, named_in, view};
use crate::edit::To;
use crate::eligibility::engine_of_program;
use crate::eligibility::evaluate::ask_program;
use crate::eligibility::schema::may_be_reported;
use crate::registry::Registry;
use crate::written::{self, UpdateMode};
use crate::{audit, identifiers, records, subjects, visibility};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::change::Sequence;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::Verdict;
use daftar_domain::error::{AppError, FieldProblem, FieldUse};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::field::FieldSet;
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program::{ELIGIBILITY, Program, ProgramDetails, ProgramPhase};
use daftar_domain::program_membership::{
    BENEFICIARY, ENROLLMENT_DATE, EXIT_DATE, EXIT_REASON, MembershipStatus, OVERRIDE, ProgramMembership,
    ProgramMembershipDetails, STATUS,
};
use daftar_domain::record::{RecordId, RecordKind, VersionCondition};
use daftar_domain::scope::Resource;
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::value::{Key, Reference};
use daftar_sandbox::EligibilityEngine;
use daftar_store::{Operation, ReadSet, StoreError, Write};

/// Enrols a beneficiary, or records its application, exit or rejection.
///
/// # Errors
/// [`AppError::FieldNotGranted`], [`AppError::Invalid`] with every invalid field, including references that do not
/// resolve;
/// [`AppError::Conflict`] for a second open membership and for a program that has ended; [`AppError::NotEligible`].
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
    audited(ctx, registry, AuditAction::Create, targets, outcome).await
}

/// Writes a denial into the audit log, or returns the written membership.
pub(super) async fn audited(
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

/// Checks a draft against the store and the indexes, and writes it.
///
/// # Errors
/// [`AppError::Overtaken`] when the data read changed before the write.
pub(super) async fn write(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    present: Option<Present<'_>>,
    draft: MembershipDraft,
) -> Result<Arc<ProgramMembership>, AppError> {
    let today = utc_day(ctx.now);
    // Runs before all checks.
    let since = registry.index.current().await.sequence().await?;
    let before = present.as_ref().map(|present| present.before);
    let stored = |field: &str| present.as_ref().filter(|present| !present.written.allows(field));
    // Fields that never change are not compared for a client that may not read them: a rejection would reveal their
    // values.
    let unseen = |field: &str| present.as_ref().filter(|present| !present.seen.allows(field));
    let given = named_in(&draft)?;
    let mut targets = targets_of(&draft);
    // The audit log names the written records, not the records that a client without access to them assumed.
    let named = [unseen("program").map(|one| one.program), unseen("beneficiary").map(|one| one.beneficiary)];
    for (target, named) in targets.iter_mut().zip(named) {
        *target = named.map_or_else(|| std::mem::take(target), str::to_owned);
    }
    let mut problems = Vec::new();
    let known = before.map(|before| before.details.identifiers.as_slice()).unwrap_or_default();
    let (generation, kind) = (registry.vocabularies.current(), RecordKind::ProgramMembership);
    identifiers::check((&generation, today), kind, known, &draft.identifiers, &mut problems);
    let shown = present.as_ref();
    let program = stored("program").or_else(|| shown.filter(|present| present.is_program(&given.0)));
    let program = match program {
        Some(present) => Some(records::by_id(&*registry.store, present.before.details.program()).await?),
        None => {
            let found = records::find::<ProgramDetails>(&*registry.store, &given.0).await;
            let found = found.map_err(|error| identifiers::explained(registry, &given.0, error));
            subjects::noted("program", found, &mut problems)?
        }
    };
    let beneficiary = stored("beneficiary").or_else(|| shown.filter(|present| present.is_beneficiary(&given.1)));
    let beneficiary = match beneficiary {
        Some(present) => Some(present.before.details.beneficiary()),
        None => {
            let found = visibility::beneficiary(ctx, registry, given.1.kind, &given.1.id).await;
            subjects::noted("beneficiary", found, &mut problems)?
        }
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
                problems.push(FieldProblem::new(
                    field,
                    "immutable",
                    "it never changes: end this membership and create another",
                ));
            }
        }
        identifiers::check_retained(&before.details.identifiers, &draft.identifiers, &mut problems);
    }
    let details = draft.translate(&mut To(|_: RecordKind| program.id)).with(BENEFICIARY, Reference::from(beneficiary));
    let details = match &present {
        Some(present) => written::keep(&present.before.details, details, &present.written),
        None => details,
    };
    let status = details.status();
    let mut details = details.with(STATUS, status);
    check_dates(&mut details, present.as_ref(), today, &mut problems);
    AppError::check(&mut problems)?;
    let mut note = format!("status {}", status.name());
    let mut read_set = Vec::new();
    if check_transition(present.as_ref(), status)? == Entry::Enrolled {
        check_open(&program, today)?;
        // A stored override does not count if this change does not write it: its reason concerns another decision, and
        // may be hidden from the client.
        let is_overridden = details.has(OVERRIDE) && stored("override").is_none();
        let word = ask(ctx, registry, engine, &program, (&details, is_overridden)).await?;
        let decides = word.is_some() && !is_overridden;
        read_set.push(of_entry(registry, since, program.id, decides.then_some(beneficiary)).await?);
        if let Some(word) = word {
            note = format!("{note}; the program's expression says {word}");
            if word != Verdict::Eligible.name() {
                note.push_str("; overridden");
            }
        }
    }
    targets.extend(records::references(RecordKind::ProgramMembership, &details.identifiers));
    let fields = written::changed_of_membership(before.map(|before| &before.details), &details);
    let (action, operation) = match before {
        None => (AuditAction::Create, Operation::create(details)),
        Some(before) => (AuditAction::Update, Operation::update(before.id, before.meta.version, details)),
    };
    let entry = audit::entry(ctx, action, AuditOutcome::Allowed, targets).with_note(note);
    let entry = match before {
        None => entry.with_fields(fields),
        Some(_) => audit::with_changes(ctx, entry, fields),
    };
    let write = Write { read_set, ..records::write(ctx, vec![operation], entry) };
    match registry.store.commit(write).await {
        Ok(committed) => records::written(committed),
        Err(error @ StoreError::MembershipOpen) => {
            Err(AppError::conflict(ErrorCode::MembershipOpen, format!("{error}; change that one, or end it first")))
        }
        Err(error) => Err(error.into()),
    }
}

/// The result of the expression of a program that enforces it, for a beneficiary that is enrolled; none if it is not
/// enforced.
async fn ask(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    program: &Arc<Program>,
    (details, is_overridden): (&ProgramMembershipDetails, bool),
) -> Result<Option<&'static str>, AppError> {
    let expression = program.details.get(ELIGIBILITY).filter(|_| program.details.enforces_eligibility());
    let Some(expression) = expression else { return Ok(None) };
    let answer = match engine_of_program(engine, &program.details) {
        Ok(engine) => ask_program(ctx, registry, &engine, expression, details.beneficiary()).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(outcome) if outcome.verdict == Verdict::Eligible || is_overridden => Ok(Some(outcome.verdict.name())),
        Ok(outcome) => {
            let kind = details.beneficiary().kind;
            // Data may be missing because it concerns an individual hidden from a client that requires consents.
            let is_reported = |fact: &String| ctx.consent.is_none() && may_be_reported(ctx, kind, fact);
            let missing = outcome.missing.into_iter().filter(is_reported).collect();
            Err(AppError::NotEligible { outcome: outcome.verdict.name(), missing })
        }
        // A client that overrides the result of an expression does not wait for it.
        Err(_) if is_overridden => Ok(Some("nothing, as it could not be evaluated")),
        Err(AppError::Expression(refused)) => Err(AppError::conflict(
            ErrorCode::ProgramRuleFailed,
            format!(
                "the program's eligibility expression cannot be evaluated any more ({refused}): the administrator fixes it with `daftar program update`, or enrol with `override {{reason}}`"
            ),
        )),
        Err(other) => Err(other),
    }
}

fn check_open(program: &Program, today: jiff::civil::Date) -> Result<(), AppError> {
    if program.details.is_active() && program.details.phase(today) != ProgramPhase::Ended {
        return Ok(());
    }
    Err(AppError::conflict(ErrorCode::ProgramClosed, "a program that has ended or is not active accepts no enrolments"))
}

fn check_target(program: &Program, beneficiary: &SubjectReference, problems: &mut Vec<FieldProblem>) {
    let target = program.details.target_type();
    if beneficiary.kind != target {
        let message = format!(
            "the program enrols beneficiaries of type `{}`: write `{}/<system>|<value>`",
            target.name(),
            target.record_kind()
        );
        problems.push(FieldProblem::new("beneficiary", "wrong_target_type", message));
    }
}

/// The fields that a new membership would have; one without a status is a draft.
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

/// The data that an enrolment depends on besides the membership: the open program, and the data that its expression
/// reads, if it decides. It is unchanged when the membership is written, or the enrolment is decided again; so two
/// programs that exclude each other never both accept an individual whom two clients enrol concurrently.
///
/// # Errors
/// If the store fails.
pub(super) async fn of_entry(
    registry: &Registry,
    since: Sequence,
    program: RecordId,
    asked_about: Option<SubjectReference>,
) -> Result<ReadSet, AppError> {
    let mut records = vec![(RecordKind::Program, program)];
    if let Some(beneficiary) = asked_about {
        records.push((beneficiary.kind.record_kind(), beneficiary.id));
        let groups = match beneficiary.kind {
            Subject::Individual => subjects::groups_of(registry, beneficiary.id).await?,
            Subject::Group => vec![beneficiary.id],
        };
        for id in groups {
            records.push((RecordKind::Group, id));
            let Some(group) = registry.store.find::<GroupDetails>(id).await? else { continue };
            let members = group.details.members();
            records.extend(members.map(|member| (RecordKind::Individual, member.individual)));
        }
    }
    // No other operation can change a record that the same transaction creates.
    records.retain(|(_, id)| id.pending_number().is_none());
    Ok(ReadSet { since, records })
}

/// Computes the new membership from the current one and the written fields.
pub type MakeMembership<'a> =
    dyn Fn(&MembershipView, &FieldSet) -> Result<MembershipDraft, AppError> + Send + Sync + 'a;

/// Replaces a membership: `make` computes the new one from the current one and the fields that the client may write.
/// The other fields stay unchanged.
///
/// # Errors
/// As [`create`]; [`AppError::NotFound`], [`AppError::Ambiguous`], [`AppError::Conflict`] if the address matches
/// several; and [`AppError::VersionMismatch`] if the condition is not met.
pub async fn replace(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    address: &MembershipAddress,
    (condition, spoken): (&VersionCondition, &UpdateMode),
    make: &MakeMembership<'_>,
) -> Result<MembershipView, AppError> {
    let targets = vec![records::reference(RecordKind::ProgramMembership, &address.key)];
    let attempt = || replace_once(ctx, registry, engine, address, (condition, spoken), make);
    let outcome = records::retried(condition, attempt).await;
    audited(ctx, registry, AuditAction::Update, targets, outcome).await
}

async fn replace_once(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    address: &MembershipAddress,
    (condition, spoken): (&VersionCondition, &UpdateMode),
    make: &MakeMembership<'_>,
) -> Result<Arc<ProgramMembership>, AppError> {
    let before = find(ctx, registry, address).await?;
    let seen = visibility::of_found(ctx, registry, RecordKind::ProgramMembership, before.id).await?;
    let seen = seen.ok_or_else(|| absent(registry, address))?;
    let written = written::of_change(ctx, Resource::ProgramMembership, &seen, spoken)?;
    let written = without_status(written, spoken)?;
    records::check_version(condition, before.meta.version)?;
    let present = view(registry, Arc::clone(&before), FieldSet::All).await?;
    let draft = make(&present, &written)?;
    // The date is restored or removed, depending on the status.
    if !written.allows("status") && written.allows(name_of(ENROLLMENT_DATE.tag())) && !draft.has(ENROLLMENT_DATE) {
        return Err(status_not_granted());
    }
    let known = &before.details.identifiers;
    written::check_identifiers(ctx, Resource::ProgramMembership, known, &draft.identifiers)?;
    let (program, beneficiary) = (present.program.as_str(), present.beneficiary.as_str());
    write(ctx, registry, engine, Some(Present { before: &before, seen, written, program, beneficiary }), draft).await
}

/// The permitted days of a membership depend on its status. A client that may not write the status writes only the
/// fields it names, and not the exit date and reason, and does not remove the enrolment date; otherwise the filled-in
/// or rejected days would reveal the status.
fn without_status(written: FieldSet, spoken: &UpdateMode) -> Result<FieldSet, AppError> {
    if written.allows("status") {
        return Ok(written);
    }
    let (UpdateMode::Replace(named) | UpdateMode::Merge(named)) = spoken;
    if [EXIT_DATE.tag(), EXIT_REASON.tag()].into_iter().any(|field| named.names(name_of(field))) {
        return Err(status_not_granted());
    }
    Ok(written.intersection(named))
}

fn status_not_granted() -> AppError {
    let (resource, field) = (Resource::ProgramMembership, "status".to_owned());
    AppError::FieldNotGranted { resource, field, usage: FieldUse::Write }
}

/// A membership that is being replaced.
pub(super) struct Present<'a> {
    /// Its current state.
    pub before: &'a ProgramMembership,
    /// Its fields that the client may see.
    pub seen: FieldSet,
    /// Its fields that are written.
    pub written: FieldSet,
    /// Reference of its program: `Program/<system>|<value>`.
    pub program: &'a str,
    /// Reference of its beneficiary.
    pub beneficiary: &'a str,
}

/// A client may send a received reference back: a reference equal to the displayed one means the record that the
/// membership contains, even if the identifiers of that record have all ended and another record has adopted one. A
/// client that may not read the reference has received none.
impl Present<'_> {
    /// True if the reference of the program is the displayed one.
    pub(super) fn is_program(&self, key: &IdentifierKey) -> bool {
        self.seen.allows("program") && self.program == records::reference(RecordKind::Program, key)
    }

    /// True if the reference of the beneficiary is the displayed one.
    pub(super) fn is_beneficiary(&self, given: &SubjectReference<IdentifierKey>) -> bool {
        self.seen.allows("beneficiary") && self.beneficiary == records::reference(given.kind.record_kind(), &given.id)
    }
}

/// Effect of a change of status on the beneficiary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// It enters `enrolled`, as a new membership or from another status.
    Enrolled,
    /// Any other change.
    Other,
}

/// Checks that the transition from the current status is permitted.
///
/// # Errors
/// [`AppError::Conflict`] with the permitted statuses, if the client may read the current one.
pub(super) fn check_transition(present: Option<&Present<'_>>, to: MembershipStatus) -> Result<Entry, AppError> {
    let entry = entry(present.map(|present| present.before.details.status()), to);
    if entry.is_err() && present.is_some_and(|present| !present.seen.allows("status")) {
        let message = format!("a membership cannot become `{}` from its present status", to.name());
        return Err(AppError::Conflict(ErrorCode::TransitionNotAllowed, message));
    }
    entry
}

fn entry(from: Option<MembershipStatus>, to: MembershipStatus) -> Result<Entry, AppError> {
    if from != Some(to)
        && let Some(from) = from
        && !from.successors().contains(&to)
    {
        let successors: Vec<String> = from.successors().iter().map(|next| format!("`{}`", next.name())).collect();
        let what_may = match successors.as_slice() {
            [] => "it stays as it is; to enrol again, create a new membership".to_owned(),
            some => format!("it may become {}", some.join(", ")),
        };
        let message = format!("a membership that is `{}` cannot become `{}`: {what_may}", from.name(), to.name());
        return Err(AppError::Conflict(ErrorCode::TransitionNotAllowed, message));
    }
    let enters = to == MembershipStatus::Enrolled && from != Some(to);
    Ok(if enters { Entry::Enrolled } else { Entry::Other })
}

/// Fills in the days that a status implies, and checks that days, reason and status are compatible.
///
/// The default for a missing start day of a participating beneficiary is the stored day, or else today; likewise for
/// the exit day. A day that the client neither sends nor reads is not compared with a day that it sends.
pub(super) fn check_dates(
    details: &mut ProgramMembershipDetails,
    present: Option<&Present<'_>>,
    today: Date,
    problems: &mut Vec<FieldProblem>,
) {
    let status = details.status();
    let is_reported = |day: Key<Date>, details: &ProgramMembershipDetails| {
        let field = name_of(day.tag());
        present.is_none_or(|one| one.seen.allows(field) || (one.written.allows(field) && details.has(day)))
    };
    let are_reported = is_reported(ENROLLMENT_DATE, details) && is_reported(EXIT_DATE, details);
    let before = present.map(|present| &present.before.details);
    let known = |day: Key<Date>, details: &ProgramMembershipDetails| {
        details.get(day).or_else(|| before.and_then(|before| before.get(day)))
    };
    match status {
        MembershipStatus::Enrolled | MembershipStatus::Paused => {
            let since = known(ENROLLMENT_DATE, details).unwrap_or(today);
            details.set(ENROLLMENT_DATE, Some(since));
        }
        MembershipStatus::Exited => {
            let (since, until) = (known(ENROLLMENT_DATE, details), known(EXIT_DATE, details));
            details.set(ENROLLMENT_DATE, since);
            details.set(EXIT_DATE, Some(until.unwrap_or(today)));
        }
        MembershipStatus::Draft | MembershipStatus::NotEligible | MembershipStatus::Duplicated => {}
    }
    if status != MembershipStatus::Exited {
        let of_exit = [EXIT_DATE.tag(), EXIT_REASON.tag()];
        for field in of_exit.into_iter().filter(|field| details.value(*field).is_some()) {
            let message = format!("it goes with the status `exited`, not with `{}`", status.name());
            problems.push(FieldProblem::new(name_of(field), "contradiction", message));
        }
    }
    if let (Some(since), Some(until)) = (details.get(ENROLLMENT_DATE), details.get(EXIT_DATE))
        && until < since
        && are_reported
    {
        let message = "the day of leaving is before the day of enrolment";
        problems.push(FieldProblem::new(name_of(EXIT_DATE.tag()), "invalid_date", message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::field::FieldSet;
    use daftar_domain::program_membership::{BENEFICIARY, PROGRAM, ProgramMembership, STATUS};
    use daftar_domain::record::{RecordId, RecordKind, RecordMeta, VersionId};
    use daftar_domain::value::Reference;

    const TODAY: Date = Date::constant(2026, 3, 1);

    fn membership(status: MembershipStatus) -> ProgramMembershipDetails {
        let beneficiary = Reference { kind: RecordKind::Individual, id: RecordId(1) };
        let program = Reference { kind: RecordKind::Program, id: RecordId(1) };
        ProgramMembershipDetails::default().with(PROGRAM, program).with(BENEFICIARY, beneficiary).with(STATUS, status)
    }

    fn stored(details: ProgramMembershipDetails) -> ProgramMembership {
        let meta = RecordMeta { version: VersionId::FIRST, last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
        ProgramMembership { id: RecordId(1), meta, details }
    }

    fn present(before: &ProgramMembership, seen: FieldSet) -> Present<'_> {
        Present { before, seen, written: FieldSet::All, program: "", beneficiary: "" }
    }

    #[test]
    fn a_day_that_is_hidden_is_not_held_against_one_that_is_given() {
        let enrolled = Some(Date::constant(2026, 2, 1));
        let stored = stored(membership(MembershipStatus::Enrolled).with(ENROLLMENT_DATE, enrolled));
        let left = |seen: FieldSet, given: Option<Date>| {
            let exited = membership(MembershipStatus::Exited).with(EXIT_DATE, Date::constant(2026, 1, 1));
            let mut exited = exited.with(ENROLLMENT_DATE, given);
            let present = present(&stored, seen);
            let mut problems = Vec::new();
            check_dates(&mut exited, Some(&present), TODAY, &mut problems);
            problems.len()
        };
        assert_eq!(left(FieldSet::All, None), 1);
        assert_eq!(left(FieldSet::none(), None), 0);
        assert_eq!(left(FieldSet::none(), enrolled), 1, "it is given");
    }

    fn fields(details: &mut ProgramMembershipDetails) -> Vec<String> {
        let mut problems = Vec::new();
        check_dates(details, None, TODAY, &mut problems);
        problems.into_iter().map(|problem| problem.field).collect()
    }

    #[test]
    fn only_entering_enrolled_asks_the_expression() {
        use MembershipStatus::{Draft, Enrolled, Exited, Paused};
        for (from, to, entry) in [
            (None, Enrolled, Entry::Enrolled),
            (None, Exited, Entry::Other),
            (Some(Draft), Enrolled, Entry::Enrolled),
            (Some(Paused), Enrolled, Entry::Enrolled),
            (Some(Enrolled), Enrolled, Entry::Other),
            (Some(Exited), Exited, Entry::Other),
        ] {
            assert_eq!(super::entry(from, to).unwrap(), entry, "{from:?} {to:?}");
        }
        let error = entry(Some(Exited), Enrolled).unwrap_err().to_string();
        assert!(error.starts_with("a membership that is `exited` cannot become `enrolled`: it stays"), "{error}");
        let error = entry(Some(Enrolled), Draft).unwrap_err().to_string();
        assert!(error.ends_with("it may become `paused`, `exited`, `not_eligible`, `duplicated`"), "{error}");
    }

    #[test]
    fn dates_default_to_known_ones_or_today() {
        let mut enrolled = membership(MembershipStatus::Enrolled);
        assert!(fields(&mut enrolled).is_empty());
        assert_eq!(enrolled.get(ENROLLMENT_DATE), Some(TODAY));
        let earlier = enrolled.with(ENROLLMENT_DATE, Date::constant(2025, 1, 1));
        let mut exited = membership(MembershipStatus::Exited);
        let stored = stored(earlier.clone());
        let present = present(&stored, FieldSet::All);
        check_dates(&mut exited, Some(&present), TODAY, &mut Vec::new());
        let days = (exited.get(ENROLLMENT_DATE), exited.get(EXIT_DATE));
        assert_eq!(days, (earlier.get(ENROLLMENT_DATE), Some(TODAY)));
        let mut draft = membership(MembershipStatus::Draft);
        assert!(fields(&mut draft).is_empty());
        assert_eq!(draft.get(ENROLLMENT_DATE), None);
    }

    #[test]
    fn a_way_out_needs_an_exit_and_follows_the_way_in() {
        let out = Date::constant(2026, 1, 31);
        let paused = membership(MembershipStatus::Paused).with(EXIT_DATE, out);
        let mut paused = paused.with(EXIT_REASON, "moved".to_owned());
        assert_eq!(fields(&mut paused), ["exit_date", "exit_reason", "exit_date"]);
        let exited = membership(MembershipStatus::Exited).with(EXIT_DATE, out);
        let since = |day: Date| exited.clone().with(ENROLLMENT_DATE, day);
        assert!(fields(&mut since(Date::constant(2026, 1, 31))).is_empty());
        assert_eq!(fields(&mut since(Date::constant(2026, 2, 1))), ["exit_date"]);
    }
}

//! Which statuses and days of a membership go together, and what may follow on what.

use jiff::civil::Date;

use super::name_of;
use super::replace::Present;
use super::write::problem;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::program_membership::{
    ENROLLMENT_DATE, EXIT_DATE, EXIT_REASON, MembershipStatus, ProgramMembershipDetails,
};
use daftar_domain::value::Key;

/// What a change of status means for the beneficiary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// It enters `enrolled`, from nowhere or from another status.
    Enrolled,
    /// Anything else.
    Other,
}

/// Checks that a status may follow on the present one.
///
/// # Errors
/// [`AppError::Conflict`] naming what may follow, to whoever may see where the membership stands.
pub(super) fn check_transition(present: Option<&Present<'_>>, to: MembershipStatus) -> Result<Entry, AppError> {
    let entry = entry(present.map(|present| present.before.details.status()), to);
    if entry.is_err() && present.is_some_and(|present| !present.seen.allows("status")) {
        let message = format!("a membership cannot become `{}` from where it stands", to.name());
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
            [] => "it stays as it is; whoever comes back gets a new membership".to_owned(),
            some => format!("it may become {}", some.join(", ")),
        };
        let message = format!("a membership that is `{}` cannot become `{}`: {what_may}", from.name(), to.name());
        return Err(AppError::Conflict(ErrorCode::TransitionNotAllowed, message));
    }
    let enters = to == MembershipStatus::Enrolled && from != Some(to);
    Ok(if enters { Entry::Enrolled } else { Entry::Other })
}

/// Fills in the days that a status implies, and checks that days, reason and status go together.
///
/// A beneficiary that takes part without a given day does so since the day known already, or else since today; likewise for
/// one that left. A day that the client neither gives nor sees is not held against one that it gives.
pub(super) fn check_dates(
    details: &mut ProgramMembershipDetails,
    present: Option<&Present<'_>>,
    today: Date,
    problems: &mut Vec<FieldProblem>,
) {
    let status = details.status();
    let is_told = |day: Key<Date>, details: &ProgramMembershipDetails| {
        let field = name_of(day.tag());
        present.is_none_or(|one| one.seen.allows(field) || (one.written.allows(field) && details.has(day)))
    };
    let are_told = is_told(ENROLLMENT_DATE, details) && is_told(EXIT_DATE, details);
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
            problems.push(problem(name_of(field), "contradiction", &message));
        }
    }
    if let (Some(since), Some(until)) = (details.get(ENROLLMENT_DATE), details.get(EXIT_DATE))
        && until < since
        && are_told
    {
        let message = "the day of leaving lies before the day of enrolment";
        problems.push(problem(name_of(EXIT_DATE.tag()), "invalid_date", message));
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
        let someone = Reference { kind: RecordKind::Individual, id: RecordId(1) };
        let program = Reference { kind: RecordKind::Program, id: RecordId(1) };
        ProgramMembershipDetails::default().with(PROGRAM, program).with(BENEFICIARY, someone).with(STATUS, status)
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
    fn days_are_filled_in_from_what_is_known_or_from_today() {
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

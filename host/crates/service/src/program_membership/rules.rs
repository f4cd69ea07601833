//! Which statuses and days of a membership go together, and what may follow on what.

use jiff::civil::Date;

use super::replace::Present;
use super::write::problem;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::program_membership::{MembershipStatus, ProgramMembershipDetails};

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
    let entry = entry(present.map(|present| present.before.details.status), to);
    if entry.is_err() && present.is_some_and(|present| !present.seen.allows("status")) {
        let message = format!("a membership cannot become `{}` from where it stands", to.name());
        return Err(AppError::Conflict(message));
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
        return Err(AppError::Conflict(message));
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
    let status = details.status;
    let is_told = |field: &str, day: Option<Date>| {
        present.is_none_or(|one| one.seen.allows(field) || (one.written.allows(field) && day.is_some()))
    };
    let are_told = is_told("enrollment_date", details.enrollment_date) && is_told("exit_date", details.exit_date);
    let before = present.map(|present| &present.before.details);
    let known = |day: fn(&ProgramMembershipDetails) -> Option<Date>| before.and_then(day);
    match status {
        MembershipStatus::Enrolled | MembershipStatus::Paused => {
            let since = details.enrollment_date.or_else(|| known(|before| before.enrollment_date));
            details.enrollment_date = Some(since.unwrap_or(today));
        }
        MembershipStatus::Exited => {
            details.enrollment_date = details.enrollment_date.or_else(|| known(|before| before.enrollment_date));
            let since = details.exit_date.or_else(|| known(|before| before.exit_date));
            details.exit_date = Some(since.unwrap_or(today));
        }
        MembershipStatus::Draft | MembershipStatus::NotEligible | MembershipStatus::Duplicated => {}
    }
    if status != MembershipStatus::Exited {
        let given = [("exit_date", details.exit_date.is_some()), ("exit_reason", details.exit_reason.is_some())];
        for (field, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            let message = format!("it goes with the status `exited`, not with `{}`", status.name());
            problems.push(problem(field, "contradiction", &message));
        }
    }
    if let (Some(since), Some(until)) = (details.enrollment_date, details.exit_date)
        && until < since
        && are_told
    {
        problems.push(problem("exit_date", "invalid_date", "the day of leaving lies before the day of enrolment"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::field::FieldSet;
    use daftar_domain::program_membership::ProgramMembership;
    use daftar_domain::record::{RecordId, RecordMeta, VersionId};
    use daftar_domain::subject::{Subject, SubjectReference};

    const TODAY: Date = Date::constant(2026, 3, 1);

    fn membership(status: MembershipStatus) -> ProgramMembershipDetails {
        ProgramMembershipDetails {
            identifiers: Vec::new(),
            has_no_identifier: false,
            program: RecordId(1),
            beneficiary: SubjectReference { kind: Subject::Individual, id: RecordId(1) },
            status,
            enrollment_date: None,
            exit_date: None,
            exit_reason: None,
            override_reason: None,
        }
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
        let stored =
            stored(ProgramMembershipDetails { enrollment_date: enrolled, ..membership(MembershipStatus::Enrolled) });
        let left = |seen: FieldSet, given: Option<Date>| {
            let exit_date = Some(Date::constant(2026, 1, 1));
            let exited = membership(MembershipStatus::Exited);
            let mut exited = ProgramMembershipDetails { exit_date, enrollment_date: given, ..exited };
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
        assert_eq!(enrolled.enrollment_date, Some(TODAY));
        let earlier = ProgramMembershipDetails { enrollment_date: Some(Date::constant(2025, 1, 1)), ..enrolled };
        let mut exited = membership(MembershipStatus::Exited);
        let stored = stored(earlier.clone());
        let present = present(&stored, FieldSet::All);
        check_dates(&mut exited, Some(&present), TODAY, &mut Vec::new());
        assert_eq!((exited.enrollment_date, exited.exit_date), (earlier.enrollment_date, Some(TODAY)));
        let mut draft = membership(MembershipStatus::Draft);
        assert!(fields(&mut draft).is_empty());
        assert_eq!(draft.enrollment_date, None);
    }

    #[test]
    fn a_way_out_needs_an_exit_and_follows_the_way_in() {
        let (out, reason) = (Some(Date::constant(2026, 1, 31)), Some("moved".to_owned()));
        let mut paused =
            ProgramMembershipDetails { exit_date: out, exit_reason: reason, ..membership(MembershipStatus::Paused) };
        assert_eq!(fields(&mut paused), ["exit_date", "exit_reason", "exit_date"]);
        let since = |day| ProgramMembershipDetails {
            enrollment_date: Some(day),
            exit_date: out,
            ..membership(MembershipStatus::Exited)
        };
        assert!(fields(&mut since(Date::constant(2026, 1, 31))).is_empty());
        assert_eq!(fields(&mut since(Date::constant(2026, 2, 1))), ["exit_date"]);
    }
}

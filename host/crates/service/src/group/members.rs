//! Changes of one member of a group: add, change, remove.

use std::fmt;

use jiff::civil::Date;

use super::{GroupView, Includes, check_members, is_head, reference, view};
use crate::codes::{Held, resolve};
use crate::edit::{self, Editable, Hidden};
use crate::registry::Registry;
use crate::visibility::{self, Seen};
use crate::written::{self, UpdateMode};
use crate::{audit, records, subjects};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::{Period, utc_day};
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem, FieldUse};
use daftar_domain::field::FieldSet;
use daftar_domain::group::{GroupDetails, GroupRecord, GroupSummary, MEMBER, MEMBERS_MAX, Member};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordId, RecordKind, VersionCondition};
use daftar_domain::scope::Resource;
use daftar_domain::search::Page;
use daftar_domain::value::Reference;
use daftar_domain::vocabulary::CodedField;
use daftar_vocabulary::{Generation, LanguagePreference};

/// The change of one member.
#[derive(Debug, Clone)]
pub enum MemberChange {
    /// An individual joins: from today on, if no period is given.
    Add(Member<CodeUri, IdentifierKey>),
    /// An individual leaves; the membership stays in the record.
    Remove {
        /// The individual.
        individual: IdentifierKey,
        /// The last day; today if absent.
        last_day: Option<Date>,
    },
    /// An existing membership is changed.
    Change {
        /// The individual.
        individual: IdentifierKey,
        /// The new role; `Some(None)` removes it.
        role: Option<Option<CodeUri>>,
        /// The days of the period that change.
        period: PeriodChange,
        /// True if the membership is suspended.
        is_inactive: Option<bool>,
    },
}

/// The change of a period: of each day its new value, `Some(None)` removes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct PeriodChange {
    /// The first day.
    pub start: Option<Option<Date>>,
    /// The last day.
    pub end: Option<Option<Date>>,
}

impl PeriodChange {
    /// The period after the change, if it has a day.
    fn of(self, before: Option<Period>, problems: &mut Vec<FieldProblem>) -> Option<Period> {
        let before = before.unwrap_or(Period { start: None, end: None });
        let after = Period { start: self.start.unwrap_or(before.start), end: self.end.unwrap_or(before.end) };
        if after.start.zip(after.end).is_some_and(|(start, end)| end < start) {
            let message = "the end must not be before the start";
            problems.push(FieldProblem::new("period.end", "invalid_period", message));
        }
        (after != Period { start: None, end: None }).then_some(after)
    }
}

impl MemberChange {
    fn individual(&self) -> &IdentifierKey {
        match self {
            Self::Add(member) => &member.individual,
            Self::Remove { individual, .. } | Self::Change { individual, .. } => individual,
        }
    }

    fn note(&self) -> &'static str {
        match self {
            Self::Add(_) => "member added",
            Self::Remove { .. } => "member removed",
            Self::Change { .. } => "member changed",
        }
    }
}

/// Changes one member of a group.
///
/// # Errors
/// [`AppError::FieldNotGranted`] if the client may not change members, [`AppError::Invalid`] with the invalid fields,
/// [`AppError::NotThere`] if the individual is not a member,
/// [`AppError::NotFound`], [`AppError::Ambiguous`], and [`AppError::VersionMismatch`] when the condition is not met.
pub async fn change_member(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    change: &MemberChange,
) -> Result<GroupView, AppError> {
    let attempt = || change_member_once(ctx, registry, languages.clone(), (key, condition), change);
    let refusal = || {
        let entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Refused, targets(key, change));
        entry.with_note(change.note())
    };
    records::changed(ctx, registry, condition, refusal, attempt).await
}

fn targets(key: &IdentifierKey, change: &MemberChange) -> Vec<String> {
    vec![reference(key), records::reference(RecordKind::Individual, change.individual())]
}

async fn change_member_once(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    change: &MemberChange,
) -> Result<GroupView, AppError> {
    if !matches!(change, MemberChange::Add(_)) {
        // The success of a change reveals whether the individual is a member.
        visibility::check_read(ctx, Resource::Group, "member", FieldUse::Write)?;
    }
    let seen = visibility::find_record::<GroupDetails>(ctx, registry, key).await?;
    let Seen { record: before, fields } = seen.clone();
    let spoken = UpdateMode::Merge(written::named(Resource::Group, ["member"]));
    written::of_change(ctx, Resource::Group, &fields, &spoken)?;
    records::check_version(condition, before.meta.version)?;
    let present = match change {
        MemberChange::Add(_) => None,
        MemberChange::Remove { .. } | MemberChange::Change { .. } => {
            let wanted = Includes { members: true, ..Includes::NOTHING };
            let present = view(ctx, registry, languages.clone(), seen, wanted).await?;
            let person = Reference { kind: RecordKind::Individual, id: change.individual().clone() };
            GroupRecord::shown(&present, &fields).find(&person)
        }
    };
    let today = utc_day(ctx.now);
    let is_present = |individual: RecordId| {
        let mut members = before.details.members();
        members.any(|member| member.individual == individual && member.still_active(today).is_some())
    };
    let find = || visibility::find(ctx, registry, RecordKind::Individual, change.individual());
    let found = match present {
        None => find().await.map(|(individual, _)| individual),
        // A present member may have the identifier now, and be shown by another one.
        Some(former) if matches!(change, MemberChange::Remove { .. }) && !is_present(former) => match find().await {
            Ok((holder, _)) if is_present(holder) => Ok(holder),
            Ok(_) | Err(AppError::NotFound(_) | AppError::NotThere(_) | AppError::Ambiguous) => Ok(former),
            Err(error) => Err(error),
        },
        Some(member) => Ok(member),
    };
    let individual = match found {
        Ok(individual) => individual,
        Err(AppError::NotFound(_)) if matches!(change, MemberChange::Change { .. }) => return Err(no_such_member()),
        Err(unknown @ AppError::NotThere(_)) if matches!(change, MemberChange::Change { .. }) => return Err(unknown),
        Err(error) => return Err(subjects::invalid("entity.reference", error)),
    };
    let generation = registry.vocabularies.current();
    let hidden = Hidden::of(ctx, registry, &before.details).await?;
    let held = Held::of::<GroupRecord>(&hidden.without(&before.details)).seen(&fields);
    let mut problems = Vec::new();
    let mut members: Vec<Member> = before.details.members().collect();
    let at = apply((&generation, &held, &fields), today, &mut members, individual, change, &mut problems)?;
    let details = before.details.clone().with(MEMBER, members);
    let details = written::keep(&before.details, details, &FieldSet::All);
    let hidden = Hidden::of(ctx, registry, &details).await?;
    check_members(ctx, &generation, &details, &hidden, &mut problems);
    if !problems.is_empty() {
        let at = at.map(|at| hidden.shown_place(&details, MEMBER.tag(), at));
        let reported = problems.into_iter().map(|problem| of_the_member(at, visible_problem(&fields, problem)));
        return Err(AppError::Invalid(reported.collect()));
    }
    let mut entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Allowed, targets(key, change));
    entry.note = Some(change.note().to_owned());
    let written = edit::write::<GroupRecord>(ctx, registry, (&before, details, fields), (None, None), entry).await?;
    GroupRecord::written_view(ctx, registry, languages, written).await
}

/// Changes the member list for a client that reads these fields of the group, and returns the changed membership.
fn apply(
    (generation, held, seen): (&Generation, &Held, &FieldSet),
    today: Date,
    members: &mut Vec<Member>,
    individual: RecordId,
    change: &MemberChange,
    problems: &mut Vec<FieldProblem>,
) -> Result<Option<usize>, AppError> {
    let mut role_of = |code: &CodeUri| {
        let held = held.find(generation, CodedField::MemberRole.path(), code);
        held.or_else(|| resolve(generation, CodedField::MemberRole, "role", code, problems))
    };
    match change {
        MemberChange::Add(new) => {
            let role = new.role.as_ref().and_then(&mut role_of);
            if members.len() >= MEMBERS_MAX {
                let message = format!("a group has at most {MEMBERS_MAX} members, those that left included");
                problems.push(FieldProblem::new("entity", "too_many", message));
                return Ok(None);
            }
            let period = new.period.or(Some(Period { start: Some(today), end: None }));
            let new = Member { individual, role, period, is_inactive: new.is_inactive };
            let is_same = |member: &Member| {
                let periods = member.still_active(today).zip(new.still_active(today));
                member.individual == individual && periods.is_some_and(|(one, other)| one.overlaps(&other))
            };
            if !seen.allows("member") {
                let is_still_head = |member: &Member| {
                    member.still_active(today).is_some() && member.role.is_some_and(|role| is_head(generation, role))
                };
                // Rejected for every individual alike, including the present head: otherwise the response reveals who
                // the head is.
                if is_still_head(&new) && members.iter().any(is_still_head) {
                    problems.push(FieldProblem::new("role", "second_head", "a group has at most one active head"));
                    return Ok(None);
                }
                if let Some(at) = members.iter().position(is_same) {
                    // A duplicate would be rejected, which reveals the members of the group: the membership stays, with
                    // the new role.
                    if let Some(member) = members.get_mut(at).filter(|_| role.is_some()) {
                        member.role = role;
                    }
                    return Ok(Some(at));
                }
            }
            members.push(new);
            Ok(members.len().checked_sub(1))
        }
        MemberChange::Remove { last_day, .. } => {
            let at = place_of(members, individual, today);
            let still = |member: &&mut Member| member.still_active(today).is_some();
            let Some(member) = at.and_then(|at| members.get_mut(at)).filter(still) else {
                let message = "that person is no active member of the group";
                problems.push(FieldProblem::new("entity.reference", "not_a_member", message));
                return Ok(None);
            };
            let start = member.period.and_then(|period| period.start);
            let Some(last_day) = last_day.or((start <= Some(today)).then_some(today)) else {
                // A membership that has not begun has no last day; it never becomes active.
                member.is_inactive = true;
                return Ok(None);
            };
            if start.is_some_and(|start| last_day < start) {
                let message = "the last day is before the day of joining";
                problems.push(FieldProblem::new("period.end", "invalid_date", message));
            }
            member.period = Some(Period { start, end: Some(last_day) });
            // The last day is part of a period: an individual that leaves today is not counted today.
            member.is_inactive = last_day <= today;
            Ok(None)
        }
        MemberChange::Change { role, period, is_inactive, .. } => {
            let role = role.as_ref().map(|role| role.as_ref().and_then(&mut role_of));
            let at = place_of(members, individual, today).ok_or_else(no_such_member)?;
            let Some(member) = members.get_mut(at) else { return Err(no_such_member()) };
            member.role = role.unwrap_or(member.role);
            member.period = period.of(member.period, problems);
            member.is_inactive = is_inactive.unwrap_or(member.is_inactive);
            Ok(Some(at))
        }
    }
}

/// Chooses the membership of an individual: the active one, or else the first future one, or else the last one.
fn place_of(members: &[Member], individual: RecordId, today: Date) -> Option<usize> {
    let is_place = |member: &Member| member.individual == individual;
    let active = members.iter().position(|member| is_place(member) && member.is_active(today));
    let to_come = || {
        let periods = members.iter().enumerate().filter(|(_, member)| is_place(member));
        let to_come = periods.filter_map(|(at, member)| Some((member.still_active(today)?.start, at)));
        to_come.min().map(|(_, at)| at)
    };
    active.or_else(to_come).or_else(|| members.iter().rposition(is_place))
}

fn no_such_member() -> AppError {
    AppError::NotThere(FieldProblem::new("member", "not_a_member", "no such member of the group"))
}

/// A problem without the memberships that the client may not see.
fn visible_problem(seen: &FieldSet, problem: FieldProblem) -> FieldProblem {
    let message = match problem.code {
        "second_head" => "a group has at most one active head, and there is one already",
        "duplicate" => "the same person is an active member already",
        _ => return problem,
    };
    if seen.allows("member") { problem } else { FieldProblem { message: message.to_owned(), ..problem } }
}

/// A problem of the changed member, with the field names of the request, which contains that member alone.
fn of_the_member(at: Option<usize>, problem: FieldProblem) -> FieldProblem {
    let prefix = at.map(|at| format!("member[{at}]."));
    match prefix.and_then(|prefix| problem.field.strip_prefix(&prefix).map(str::to_owned)) {
        Some(field) => FieldProblem { field, ..problem },
        None => problem,
    }
}

/// A group as the record of a member shows it to the client.
#[derive(Clone)]
pub struct ShownGroup {
    /// Its key.
    pub id: RecordId,
    /// `Group/<system>|<value>`; a group without identifiers is impossible.
    pub reference: Option<String>,
    /// The name, if the client may see it.
    pub name: Option<String>,
}

impl fmt::Debug for ShownGroup {
    /// Keeps the content of records out of logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ShownGroup").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The membership of an individual in one group.
#[derive(Debug, Clone)]
pub struct GroupPlace {
    /// The group.
    pub group: ShownGroup,
    /// The membership.
    pub member: Member,
}

/// A page of the current and former memberships of an individual in groups, by group.
///
/// # Errors
/// [`AppError::MissingScope`] without `group:read`, [`AppError::FieldNotGranted`], [`AppError::NotFound`] and
/// [`AppError::Ambiguous`].
pub async fn places_of(
    ctx: &OpContext,
    registry: &Registry,
    key: &IdentifierKey,
    page: Page,
) -> Result<PlacesPage, AppError> {
    let found = match visibility::check_membership(ctx, FieldUse::Read) {
        Ok(()) => visibility::find(ctx, registry, RecordKind::Individual, key).await,
        Err(error) => Err(error),
    };
    let targets = vec![records::reference(RecordKind::Individual, key)];
    registry.audit.record_read(ctx, &found, targets, Some("groups")).await?;
    let (individual, fields) = found?;
    if !fields.allows("group_membership") {
        return Ok(PlacesPage::default());
    }
    places_in_groups(ctx, registry, individual, (page, Until::AllAreCounted)).await
}

/// A page of the memberships of an individual in groups.
#[derive(Debug, Clone, Default)]
pub struct PlacesPage {
    /// Total number, as far as it was counted.
    pub total: u64,
    /// The memberships of the page.
    pub places: Vec<GroupPlace>,
}

/// Extent to which the memberships of an individual are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// To the end.
    AllAreCounted,
    /// Until the page is full.
    PageIsFull,
}

/// Number of groups read before the task yields to others.
const GROUPS_PER_TURN: usize = 32;

/// The memberships of a page that an individual has or had in groups visible to the client, by group. Only these are
/// in memory at once.
///
/// # Errors
/// If the store fails.
pub async fn places_in_groups(
    ctx: &OpContext,
    registry: &Registry,
    individual: RecordId,
    (page, until): (Page, Until),
) -> Result<PlacesPage, AppError> {
    let mut found = PlacesPage::default();
    for (at, id) in subjects::groups_of(registry, individual).await?.into_iter().enumerate() {
        if until == Until::PageIsFull && found.places.len() >= page.count as usize {
            break;
        }
        if at % GROUPS_PER_TURN == GROUPS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
        let fields =
            visibility::of(ctx, registry, RecordKind::Group, id).await?.filter(|fields| fields.allows("member"));
        let Some(fields) = fields else { continue };
        let Some(GroupSummary { called, name, members }) = summary_of(registry, individual, id).await? else {
            continue;
        };
        let reference = called.as_ref().map(reference);
        let group = ShownGroup { id, reference, name: name.filter(|_| fields.allows("name")) };
        for member in members {
            let is_in_page = found.total >= page.offset && found.places.len() < page.count as usize;
            found.total = found.total.saturating_add(1);
            if is_in_page {
                ctx.trail.names(group.reference.clone());
                found.places.push(GroupPlace { group: group.clone(), member });
            }
        }
    }
    Ok(found)
}

/// A group with the memberships of an individual: of the index in memory, or of the record.
async fn summary_of(
    registry: &Registry,
    individual: RecordId,
    group: RecordId,
) -> Result<Option<GroupSummary>, AppError> {
    // No index has the writes of a transaction.
    let in_memory = || registry.index.always_current()?.group_of(individual, group);
    if let Some(summary) = registry.store.pending_writes().is_none().then(in_memory).flatten() {
        return Ok(Some(summary));
    }
    let record = registry.store.find::<GroupDetails>(group).await?;
    Ok(record.map(|record| {
        let mut summary = GroupSummary::of(&record.details);
        summary.members.retain(|member| member.individual == individual);
        summary
    }))
}

//! What is done with groups: create, read, change.

pub mod history;
pub mod members;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::civil::Date;

use super::codes::{CodeView, Held, resolve_group, with_undeclared};
use super::identifiers;
use super::open;
use super::registry::Registry;
use super::{audit, records};
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use crate::domain::calendar::utc_day;
use crate::domain::code::{CodeUri, CodedValue};
use crate::domain::group::{Group, GroupDetails, Member};
use crate::domain::identifier::IdentifierKey;
use crate::domain::individual::Individual;
use crate::domain::record::{RecordId, RecordKind, VersionCondition};
use crate::domain::scope::{Action, Resource, Scope};
use crate::error::{AppError, FieldProblem};
use crate::store::{Operation, Write, Written};
use crate::vocab::{Generation, LanguagePreference};

/// The concept group whose codes make a member the head.
const HEAD_GROUP: &str = "head_of_household";

/// A group as a request gives it: codes by URI, members by identifier.
pub type GroupDraft = GroupDetails<CodeUri, IdentifierKey>;

/// A group with its members as this client may see them.
pub struct GroupView {
    /// The group.
    pub group: Arc<Group>,
    /// Its members.
    pub members: HashMap<RecordId, Arc<Individual>>,
    /// The day on which it is looked at: who is a member depends on it.
    pub today: Date,
    /// Whether the client may see the members' names.
    pub shows_names: bool,
    /// How its codes are shown.
    pub codes: CodeView,
}

/// Registers a group.
///
/// # Errors
/// [`AppError::Invalid`] with every field that is not right, members that do not resolve among them;
/// [`AppError::IdentifierInUse`].
pub async fn create(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    draft: GroupDetails<CodeUri, IdentifierKey>,
) -> Result<GroupView, AppError> {
    let consulted = open::consult(registry, registry.vocabularies.current(), || codes_of(&draft)).await?;
    let generation = consulted.generation.clone();
    let mut problems = Vec::new();
    identifiers::check(&generation, RecordKind::Group, &[], &draft.identifiers, &mut problems);
    let coded = resolve_group(&generation, &Held::default(), draft, &mut problems);
    let details = resolve_members(registry, coded, &mut problems).await?;
    check_members(ctx, &generation, &details, &mut problems);
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let details = if consulted.has_asked() { with_lasting(details, &consulted.keep(registry).await?) } else { details };
    let targets = details.identifiers.iter().map(|identifier| reference(&identifier.key)).collect();
    let write = Write {
        at: ctx.now,
        source: ctx.client().cloned(),
        operations: vec![Operation::CreateGroup(details)],
        audit: vec![audit::entry(ctx, AuditAction::Create, AuditOutcome::Allowed, targets)],
    };
    let committed = registry.store.commit(write).await?;
    match committed.written.into_iter().next() {
        Some(Written::Group(group)) => view(ctx, registry, languages, group).await,
        Some(Written::Individual(_) | Written::Client(_) | Written::Record(_) | Written::Setting(_)) | None => {
            Err(AppError::internal("the store answered the creation of a group with something else"))
        }
    }
}

/// Every code of a draft.
pub(super) fn codes_of<I>(draft: &GroupDetails<CodeUri, I>) -> Vec<CodeUri> {
    let roles = draft.members.iter().flatten().filter_map(|member| member.role.as_ref());
    let mut codes: Vec<CodeUri> = roles.chain(&draft.group_type).chain(&draft.housing_type).cloned().collect();
    draft.extension.clone().map_codes(|_, _, code| codes.push(code));
    codes
}

fn with_lasting(mut details: GroupDetails, kept: &open::Kept) -> GroupDetails {
    let codes = [&mut details.group_type, &mut details.housing_type].into_iter();
    let roles = details.members.iter_mut().flatten().map(|member| &mut member.role);
    for code in codes.chain(roles).flatten() {
        *code = kept.lasting(*code);
    }
    details.extension = details.extension.map_codes(|_, _, code| kept.lasting(code));
    details
}

/// Changes what is said of a group: `make` says what it is to be, given what it is.
///
/// # Errors
/// Those of `make` and of [`create`], [`AppError::NotFound`], [`AppError::Ambiguous`], and [`AppError::VersionMismatch`] when
/// the condition is not met.
pub async fn change(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    make: &(dyn Fn(&GroupView) -> Result<GroupDraft, AppError> + Send + Sync),
) -> Result<GroupView, AppError> {
    let attempt = || change_once(ctx, registry, languages.clone(), (key, condition), make);
    let outcome = records::retried(condition, attempt).await;
    if outcome.is_err() {
        let entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Refused, vec![reference(key)]);
        registry.audit.record(entry).await?;
    }
    outcome
}

async fn change_once(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    make: &(dyn Fn(&GroupView) -> Result<GroupDraft, AppError> + Send + Sync),
) -> Result<GroupView, AppError> {
    let before = find(registry, key).await?;
    records::check_version(condition, before.meta.version)?;
    let draft = make(&view(ctx, registry, languages.clone(), Arc::clone(&before)).await?)?;
    let consulted = open::consult(registry, registry.vocabularies.current(), || codes_of(&draft)).await?;
    let generation = consulted.generation.clone();
    let mut problems = Vec::new();
    let known = &before.details.identifiers;
    identifiers::check(&generation, RecordKind::Group, known, &draft.identifiers, &mut problems);
    identifiers::check_kept(known, &draft.identifiers, &mut problems);
    let coded = resolve_group(&generation, &Held::of_group(&before.details), draft, &mut problems);
    let details = resolve_members(registry, coded, &mut problems).await?;
    check_members(ctx, &generation, &details, &mut problems);
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let extension = with_undeclared(&generation, &before.details.extension, details.extension);
    let details = GroupDetails { extension, ..details };
    let details = if consulted.has_asked() { with_lasting(details, &consulted.keep(registry).await?) } else { details };
    let targets = records::references(RecordKind::Group, &details.identifiers);
    let entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Allowed, targets);
    write_change(ctx, registry, languages, (&before, details), entry).await
}

/// Writes what is to be said of a group now, if it is still as it was before.
async fn write_change(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (before, details): (&Group, GroupDetails),
    entry: AuditEntry,
) -> Result<GroupView, AppError> {
    let write = Write {
        at: ctx.now,
        source: ctx.client().cloned(),
        operations: vec![Operation::UpdateGroup(before.id, before.meta.version, details)],
        audit: vec![entry],
    };
    let committed = registry.store.commit(write).await?;
    match committed.written.into_iter().next() {
        Some(Written::Group(group)) => view(ctx, registry, languages, group).await,
        Some(Written::Individual(_) | Written::Client(_) | Written::Record(_) | Written::Setting(_)) | None => {
            Err(AppError::internal("the store answered the change of a group with something else"))
        }
    }
}

async fn resolve_members(
    registry: &Registry,
    draft: GroupDetails<CodedValue, IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Result<GroupDetails, AppError> {
    let mut members = draft.members.as_ref().map(|members| Vec::with_capacity(members.len()));
    for (at, member) in draft.members.into_iter().flatten().enumerate() {
        match identifiers::find(&*registry.store, RecordKind::Individual, &member.individual).await {
            Ok(individual) => members.get_or_insert_default().push(Member {
                individual,
                role: member.role,
                period: member.period,
                is_inactive: member.is_inactive,
            }),
            Err(error @ (AppError::NotFound(_) | AppError::Ambiguous)) => problems.push(FieldProblem {
                field: format!("member[{at}].entity.reference"),
                code: "unresolved_reference",
                message: error.to_string(),
            }),
            Err(other) => return Err(other),
        }
    }
    Ok(GroupDetails {
        identifiers: draft.identifiers,
        active: draft.active,
        name: draft.name,
        group_type: draft.group_type,
        housing_type: draft.housing_type,
        members,
        extension: draft.extension,
    })
}

/// Nobody twice, and at most one head.
fn check_members(ctx: &OpContext, generation: &Generation, details: &GroupDetails, problems: &mut Vec<FieldProblem>) {
    let today = utc_day(ctx.now);
    let mut seen = HashMap::new();
    let mut head = None;
    for (at, member) in details.members.iter().flatten().enumerate().filter(|(_, member)| member.is_active(today)) {
        if let Some(earlier) = seen.insert(member.individual, at) {
            problems.push(FieldProblem {
                field: format!("member[{at}].entity"),
                code: "duplicate",
                message: format!("the same person is member[{earlier}] already"),
            });
        }
        if member.role.is_some_and(|role| is_head(generation, role)) {
            if let Some(earlier) = head {
                problems.push(FieldProblem {
                    field: format!("member[{at}].role"),
                    code: "second_head",
                    message: format!("a group has at most one active head, and member[{earlier}] is one already"),
                });
            }
            head = head.or(Some(at));
        }
    }
}

fn is_head(generation: &Generation, role: CodedValue) -> bool {
    generation.concept_group(HEAD_GROUP).is_some_and(|heads| heads.members().any(|number| number == role.number))
}

/// Reads a group by identifier.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`].
pub async fn read(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    key: &IdentifierKey,
) -> Result<GroupView, AppError> {
    let found = find(registry, key).await;
    let outcome = if found.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
    registry.audit.record(audit::entry(ctx, AuditAction::Read, outcome, vec![reference(key)])).await?;
    view(ctx, registry, languages, found?).await
}

/// The group that an identifier addresses.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`].
pub async fn find(registry: &Registry, key: &IdentifierKey) -> Result<Arc<Group>, AppError> {
    let id = identifiers::find(&*registry.store, RecordKind::Group, key).await?;
    let group = registry.store.group(id).await?;
    group.ok_or_else(|| AppError::internal("an identifier leads to a record that is not there"))
}

/// Writes `Group/<system>|<value>`.
#[must_use]
pub fn reference(key: &IdentifierKey) -> String {
    format!("{}/{}", RecordKind::Group, key.reveal())
}

async fn view(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    group: Arc<Group>,
) -> Result<GroupView, AppError> {
    let ids: Vec<RecordId> = group.details.members.iter().flatten().map(|member| member.individual).collect();
    let members = registry.store.individuals(&ids).await?;
    let members = members.into_iter().map(|individual| (individual.id, individual)).collect();
    let shows_names = ctx.scopes.covers(Scope::new(Resource::Individual, Action::Read));
    let codes = CodeView::new(registry.vocabularies.current(), languages);
    Ok(GroupView { group, members, today: utc_day(ctx.now), shows_names, codes })
}

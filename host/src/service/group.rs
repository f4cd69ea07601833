//! What is done with groups: create, change, read, their members and history; a file each.

mod change;
mod check;
mod create;
mod hidden;
pub mod history;
pub mod members;
mod search;
mod shown;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::civil::Date;

pub use change::change;
pub use create::create;
pub use search::{GroupSearchRequest, check_search, search};

use change::write_change;

use super::codes::CodeView;
use super::registry::Registry;
use super::visibility::{self, Seen};
use super::{audit, open, records};
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::calendar::utc_day;
use crate::domain::code::CodeUri;
use crate::domain::field::FieldSet;
use crate::domain::group::{Group, GroupDetails, Member, Relationship};
use crate::domain::identifier::IdentifierKey;
use crate::domain::individual::IndividualDetails;
use crate::domain::record::{RecordId, RecordKind};
use crate::domain::scope::Resource;
use crate::error::AppError;
use crate::vocab::LanguagePreference;

/// A group as a request gives it: codes by URI, members by identifier.
pub type GroupDraft = GroupDetails<CodeUri, IdentifierKey>;

/// A group with its members as this client may see them.
pub struct GroupView {
    /// The group.
    pub group: Arc<Group>,
    /// What of it may be shown.
    pub fields: FieldSet,
    /// Its members, as far as they are there for the client, with what of each may be shown.
    pub members: HashMap<RecordId, Seen<IndividualDetails>>,
    /// The groups that it has a relationship to, as far as they are there for the client.
    pub related: HashMap<RecordId, Seen<GroupDetails>>,
    /// The day on which it is looked at: who is a member depends on it.
    pub today: Date,
    /// How its codes are shown.
    pub codes: CodeView,
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
    let found = find(ctx, registry, key).await;
    let outcome = if found.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
    registry.audit.record(ctx, audit::entry(ctx, AuditAction::Read, outcome, vec![reference(key)])).await?;
    let (group, fields) = found?;
    answer(ctx, registry, languages, (group, fields)).await
}

/// The group that an identifier addresses.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`].
async fn find(ctx: &OpContext, registry: &Registry, key: &IdentifierKey) -> Result<(Arc<Group>, FieldSet), AppError> {
    let (id, fields) = visibility::find(ctx, registry, RecordKind::Group, key).await?;
    let group = registry.store.group(id).await?;
    let group = group.ok_or_else(|| AppError::internal("an identifier leads to a record that is not there"))?;
    Ok((group, fields))
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
    (group, fields): (Arc<Group>, FieldSet),
) -> Result<GroupView, AppError> {
    let members = seen_members(ctx, registry, group.details.members.iter().flatten()).await?;
    let related = seen_groups(ctx, registry, group.details.relationships.iter().flatten()).await?;
    let codes = CodeView::new(registry.vocabularies.current(), languages);
    Ok(GroupView { group, fields, members, related, today: utc_day(ctx.now), codes })
}

/// What a client is told of a group: not whether it names anybody whom the client does not see.
pub(super) async fn answer(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    seen: (Arc<Group>, FieldSet),
) -> Result<GroupView, AppError> {
    let mut view = view(ctx, registry, languages, seen).await?;
    if ctx.consent.is_some() && view.members.is_empty() {
        view.fields = visibility::without(Resource::Group, &view.fields, &["member", "quantity"]);
    }
    if ctx.consent.is_some() && view.related.is_empty() {
        view.fields = visibility::without(Resource::Group, &view.fields, &["relationship"]);
    }
    Ok(view)
}

/// The people of some places in groups, as far as they are there for the client.
async fn seen_members(
    ctx: &OpContext,
    registry: &Registry,
    places: impl Iterator<Item = &Member>,
) -> Result<HashMap<RecordId, Seen<IndividualDetails>>, AppError> {
    let seen = places.filter_map(|member| {
        let fields = visibility::of(ctx, registry, RecordKind::Individual, member.individual)?;
        Some((member.individual, fields))
    });
    let mut seen: HashMap<RecordId, FieldSet> = seen.collect();
    let ids: Vec<RecordId> = seen.keys().copied().collect();
    let people = registry.store.individuals(&ids).await?.into_iter();
    let people: HashMap<_, _> =
        people.filter_map(|record| Some((record.id, Seen { fields: seen.remove(&record.id)?, record }))).collect();
    let called = people.values().filter_map(|person| records::called(&person.record.details.identifiers));
    ctx.trail.names(called.map(|key| records::reference(RecordKind::Individual, key)));
    Ok(people)
}

/// The other groups of some relationships, as far as they are there for the client.
async fn seen_groups(
    ctx: &OpContext,
    registry: &Registry,
    relationships: impl Iterator<Item = &Relationship>,
) -> Result<HashMap<RecordId, Seen<GroupDetails>>, AppError> {
    let mut seen = HashMap::new();
    for Relationship { target, .. } in relationships {
        let Some(fields) = visibility::of(ctx, registry, RecordKind::Group, *target) else { continue };
        let Some(record) = registry.store.group(*target).await? else { continue };
        let called = records::called(&record.details.identifiers);
        ctx.trail.names(called.map(|key| records::reference(RecordKind::Group, key)));
        seen.insert(*target, Seen { record, fields });
    }
    Ok(seen)
}

/// Every code of a draft.
pub(super) fn codes_of<I: Clone>(draft: &GroupDetails<CodeUri, I>) -> Vec<CodeUri> {
    let mut codes = Vec::new();
    draft.clone().map_codes(|_, _, code| codes.push(code));
    codes
}

fn with_lasting(details: GroupDetails, kept: &open::Kept) -> GroupDetails {
    details.map_codes(|_, _, code| kept.lasting(code))
}

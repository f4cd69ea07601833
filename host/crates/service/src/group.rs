//! What is done with groups: create, change, read, their members and history; a file each.

mod change;
mod check;
mod create;
mod hidden;
pub mod history;
pub mod members;
mod search;
mod shown;

use daftar_store::TypedReads;
use std::collections::HashMap;
use std::sync::Arc;

pub use change::change;
pub use create::create;
pub(super) use create::{must_ask, prepare};
pub use search::{GroupSearchRequest, asked, check_search, search};

use change::write_change;

use super::codes::CodeView;
use super::registry::Registry;
use super::visibility::{self, Seen};
use super::{audit, records};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::group::{Group, GroupDetails, Member, Relationship};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_vocabulary::LanguagePreference;

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
    /// How many of its members of today are there for the client; absent where that is not wanted, or nobody wrote down who they are.
    pub quantity: Option<usize>,
    /// How its codes are shown.
    pub codes: CodeView,
}

/// What of others is wanted beside the record of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The places of its members.
    pub members: bool,
    /// Who they are.
    pub names_members: bool,
    /// How many they are today.
    pub quantity: bool,
    /// The relationships that it has to other groups.
    pub related: bool,
    /// Which these are.
    pub names_related: bool,
}

impl Wanted {
    /// All of it.
    pub const ALL: Self =
        Self { members: true, names_members: true, quantity: true, related: true, names_related: true };

    /// Nothing.
    const NOTHING: Self =
        Self { members: false, names_members: false, quantity: false, related: false, names_related: false };

    /// What of it these fields show.
    fn of(self, fields: &FieldSet) -> Self {
        let (members, related) = (fields.allows("member"), fields.allows("relationship"));
        Self {
            members: self.members && members,
            names_members: self.names_members && members,
            quantity: self.quantity && fields.allows("quantity"),
            related: self.related && related,
            names_related: self.names_related && related,
        }
    }
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
    wanted: Wanted,
) -> Result<GroupView, AppError> {
    let found = find(ctx, registry, key).await;
    let outcome = if found.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
    registry.audit.record(ctx, audit::entry(ctx, AuditAction::Read, outcome, vec![reference(key)])).await?;
    let (group, fields) = found?;
    answer(ctx, registry, languages, (group, fields), wanted).await
}

/// The group that an identifier addresses.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`].
async fn find(ctx: &OpContext, registry: &Registry, key: &IdentifierKey) -> Result<(Arc<Group>, FieldSet), AppError> {
    let (id, fields) = visibility::find(ctx, registry, RecordKind::Group, key).await?;
    let group = registry.store.find::<GroupDetails>(id).await?;
    let group = group.ok_or_else(|| AppError::internal("an identifier leads to a record that is not there"))?;
    Ok((group, fields))
}

/// Writes `Group/<system>|<value>`.
#[must_use]
pub fn reference(key: &IdentifierKey) -> String {
    format!("{}/{}", RecordKind::Group, key.reveal())
}

/// A group with what is wanted beside it.
async fn view(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (group, fields): (Arc<Group>, FieldSet),
    wanted: Wanted,
) -> Result<GroupView, AppError> {
    let details = &group.details;
    let members = seen_members(ctx, registry, details.members.iter().flatten().filter(|_| wanted.members)).await?;
    let related = details.relationships.iter().flatten().filter(|_| wanted.related);
    let related = seen_groups(ctx, registry, related).await?;
    let quantity = match details.members.as_ref().filter(|_| wanted.quantity) {
        Some(_) => {
            let active = details.active_members(utc_day(ctx.now)).map(|member| member.individual);
            let active: Vec<RecordId> = active.collect();
            let there = visibility::of_each(ctx, registry, RecordKind::Individual, &active).await?;
            Some(there.into_iter().flatten().count())
        }
        None => None,
    };
    let codes = CodeView::new(registry.vocabularies.current(), languages);
    Ok(GroupView { group, fields, members, related, quantity, codes })
}

/// What a client is told of a group: not whether it names anybody whom the client does not see. Whom it shows is named in the
/// audit log.
pub(super) async fn answer(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (group, fields): (Arc<Group>, FieldSet),
    wanted: Wanted,
) -> Result<GroupView, AppError> {
    let fields = hide_who_is_hidden(ctx, registry, &group, fields).await?;
    let wanted = wanted.of(&fields);
    let view = view(ctx, registry, languages, (group, fields), wanted).await?;
    if wanted.names_members {
        name_members(ctx, &view.members);
    }
    let related = view.related.values().filter(|_| wanted.names_related);
    let related = related.filter_map(|group| records::called(&group.record.details.identifiers));
    ctx.trail.names(related.map(|key| records::reference(RecordKind::Group, key)));
    Ok(view)
}

/// Of a group of which a client that needs consents sees no member, or no other group, it is not told whether there are any.
///
/// # Errors
/// When the store fails.
async fn hide_who_is_hidden(
    ctx: &OpContext,
    registry: &Registry,
    group: &Group,
    mut fields: FieldSet,
) -> Result<FieldSet, AppError> {
    if ctx.consent.is_none() {
        return Ok(fields);
    }
    let members = group.details.members.iter().flatten().map(|member| member.individual);
    let members: Vec<RecordId> = members.collect();
    if !visibility::any_is_there(ctx, registry, RecordKind::Individual, &members).await? {
        fields = visibility::without(Resource::Group, &fields, &["member", "quantity"]);
    }
    let related = group.details.relationships.iter().flatten().map(|relationship| relationship.target);
    let related: Vec<RecordId> = related.collect();
    if !visibility::any_is_there(ctx, registry, RecordKind::Group, &related).await? {
        fields = visibility::without(Resource::Group, &fields, &["relationship"]);
    }
    Ok(fields)
}

/// Names people whom the answer shows as members.
fn name_members(ctx: &OpContext, members: &HashMap<RecordId, Seen<IndividualDetails>>) {
    let called = members.values().filter_map(|person| records::called(&person.record.details.identifiers));
    ctx.trail.names(called.map(|key| records::reference(RecordKind::Individual, key)));
}

/// The people of some places in groups, as far as they are there for the client.
async fn seen_members(
    ctx: &OpContext,
    registry: &Registry,
    places: impl Iterator<Item = &Member>,
) -> Result<HashMap<RecordId, Seen<IndividualDetails>>, AppError> {
    let named: Vec<RecordId> = places.map(|member| member.individual).collect();
    let fields = visibility::of_each(ctx, registry, RecordKind::Individual, &named).await?;
    let seen = named.into_iter().zip(fields).filter_map(|(id, fields)| Some((id, fields?)));
    let mut seen: HashMap<RecordId, FieldSet> = seen.collect();
    let ids: Vec<RecordId> = seen.keys().copied().collect();
    let people = registry.store.find_all::<IndividualDetails>(&ids).await?.into_iter();
    Ok(people.filter_map(|record| Some((record.id, Seen { fields: seen.remove(&record.id)?, record }))).collect())
}

/// The other groups of some relationships, as far as they are there for the client.
async fn seen_groups(
    ctx: &OpContext,
    registry: &Registry,
    relationships: impl Iterator<Item = &Relationship>,
) -> Result<HashMap<RecordId, Seen<GroupDetails>>, AppError> {
    let mut seen = HashMap::new();
    for Relationship { target, .. } in relationships {
        let Some(fields) = visibility::of(ctx, registry, RecordKind::Group, *target).await? else { continue };
        let Some(record) = registry.store.find::<GroupDetails>(*target).await? else { continue };
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

//! What is done with groups: create, change, read, their members and history; a file each.

mod change;
mod check;
mod create;
pub mod history;
pub mod members;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::civil::Date;

pub use change::change;
pub use create::create;

use change::write_change;
use check::check_members;

use super::codes::CodeView;
use super::registry::Registry;
use super::{audit, identifiers, open};
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::calendar::utc_day;
use crate::domain::code::CodeUri;
use crate::domain::group::{Group, GroupDetails};
use crate::domain::identifier::IdentifierKey;
use crate::domain::individual::Individual;
use crate::domain::record::{RecordId, RecordKind};
use crate::domain::scope::{Action, Resource, Scope};
use crate::error::AppError;
use crate::vocab::LanguagePreference;

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

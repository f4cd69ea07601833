//! What a client may see of which record, and what it may look for and write: the one place that says it.
//!
//! **Invariant:** what a client may not see it cannot infer. A record that it may not see is absent for it; a field that it may
//! not see is left out of every answer, and a request that filters, sorts, writes or decides by it is refused naming the field,
//! whatever the field says.
//!
//! **Invariant:** a refusal depends on the request and the client's grants alone, never on what a record says.
//!
//! **Invariant:** to a client whose legal basis is consent only those records and fields are there that consents open
//! (`visibility/consented.rs`), whatever it was granted.

mod consented;

use std::collections::HashSet;
use std::sync::Arc;

pub use consented::{beneficiaries, beneficiary, limits, sees, without};

use super::registry::Registry;
use super::{identifiers, records};
use daftar_domain::change::Details;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::field::{FieldSet, field_of_path};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::ProgramMembershipDetails;
use daftar_domain::record::{Record, RecordId, RecordKind};
use daftar_domain::scope::{Action, Resource, Scope};

/// A record with the fields of it that the client may see.
#[derive(Debug, Clone)]
pub struct Seen<D> {
    /// The record.
    pub record: Arc<Record<D>>,
    /// What of it may be shown.
    pub fields: FieldSet,
}

/// What the client may see of a record; nothing, where the record does not exist for it. Decided before the record is fetched,
/// so that a hidden one takes no longer than an absent one.
///
/// # Errors
/// When the store fails.
pub async fn of(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    id: RecordId,
) -> Result<Option<FieldSet>, AppError> {
    let consented = consented::fields(ctx, registry, kind, id).await?;
    Ok(consented.map(|consented| consented.intersection(&ctx.fields(kind.resource(), Action::Read))))
}

/// What the client may see of each of some records of a kind, in the order asked, as [`of`].
///
/// # Errors
/// When the store fails.
pub async fn of_each(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: &[RecordId],
) -> Result<Vec<Option<FieldSet>>, AppError> {
    let granted = ctx.fields(kind.resource(), Action::Read);
    let consented = consented::fields_of_each(ctx, registry, kind, ids).await?;
    Ok(consented.into_iter().map(|fields| Some(fields?.intersection(&granted))).collect())
}

/// Which of some records of a kind exist for the client.
///
/// # Errors
/// When the store fails.
pub async fn there(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: &[RecordId],
) -> Result<HashSet<RecordId>, AppError> {
    let consented = consented::fields_of_each(ctx, registry, kind, ids).await?;
    Ok(ids.iter().zip(consented).filter(|(_, fields)| fields.is_some()).map(|(id, _)| *id).collect())
}

/// What the client may see of a record that it has just written: nothing but what always stays, where it is not there for it.
///
/// # Errors
/// When the store fails.
pub async fn of_written(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    id: RecordId,
) -> Result<FieldSet, AppError> {
    Ok(of(ctx, registry, kind, id).await?.unwrap_or_else(FieldSet::none))
}

/// The same of a membership, whose beneficiary decides whether it is there: one that is just written is in no index yet.
///
/// # Errors
/// When the store fails.
pub async fn of_written_membership(
    ctx: &OpContext,
    registry: &Registry,
    details: &ProgramMembershipDetails,
) -> Result<FieldSet, AppError> {
    let resource = Resource::ProgramMembership;
    let consented = consented::fields_about(ctx, registry, resource, details.beneficiary()).await?;
    let consented = consented.unwrap_or_else(FieldSet::none);
    Ok(consented.intersection(&ctx.fields(resource, Action::Read)))
}

/// What a rule of the client may read of the fields of a record that it sees. To a client that needs consents the relationships of a person
/// are missing: some of the other people may not be there for it.
#[must_use]
pub fn of_rules(ctx: &OpContext, kind: RecordKind, fields: FieldSet) -> FieldSet {
    match (kind, &ctx.consent) {
        (RecordKind::Individual, Some(_)) => consented::without(Resource::Individual, &fields, &["relationship"]),
        _ => fields,
    }
}

/// What a search may show of a record: as [`of`], and what the scope to search opens where it is enough to search.
///
/// # Errors
/// When the store fails.
pub async fn of_found(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    id: RecordId,
) -> Result<Option<FieldSet>, AppError> {
    Ok(of_each_found(ctx, registry, kind, &[id]).await?.pop().flatten())
}

/// What a search may show of each of some records of a kind, in the order asked, as [`of_found`].
///
/// # Errors
/// When the store fails.
pub async fn of_each_found(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: &[RecordId],
) -> Result<Vec<Option<FieldSet>>, AppError> {
    let granted = searchable(ctx, kind.resource());
    let consented = consented::fields_of_each(ctx, registry, kind, ids).await?;
    Ok(consented.into_iter().map(|fields| Some(fields?.intersection(&granted))).collect())
}

/// Whether one at least of some records of a kind exists for the client; what opens the first of them is noted.
///
/// # Errors
/// When the store fails.
pub async fn any_is_there(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: &[RecordId],
) -> Result<bool, AppError> {
    consented::any_is_there(ctx, registry, kind, ids).await
}

/// What the scope to search a resource opens by itself: of people and groups nothing.
fn by_searching(ctx: &OpContext, resource: Resource) -> FieldSet {
    match resource {
        Resource::Program | Resource::ProgramMembership => ctx.fields(resource, Action::Search),
        Resource::Individual
        | Resource::Group
        | Resource::Consent
        | Resource::Vocabulary
        | Resource::Eligibility
        | Resource::Identifier => FieldSet::none(),
    }
}

/// The record that an identifier addresses, with what the client may see of it.
///
/// # Errors
/// [`AppError::NotFound`] when there is none for this client, [`AppError::NotThere`] when the system is not known besides,
/// [`AppError::Ambiguous`].
pub async fn find(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    key: &IdentifierKey,
) -> Result<(RecordId, FieldSet), AppError> {
    let found = match identifiers::choose(kind, &consented::owners(ctx, registry, kind, key).await?) {
        Ok(id) => of(ctx, registry, kind, id).await?.map(|fields| (id, fields)).ok_or(AppError::NotFound(kind)),
        Err(error) => Err(error),
    };
    found.map_err(|error| identifiers::explained(registry, key, error))
}

/// Checks the systems of identifiers by which a search chooses records of a kind, as [`identifiers::check_filter`].
///
/// # Errors
/// [`AppError::Invalid`].
pub async fn check_systems<'k>(
    ctx: &OpContext,
    registry: &Registry,
    (filter, kind): (&str, RecordKind),
    keys: impl IntoIterator<Item = &'k IdentifierKey>,
) -> Result<(), AppError> {
    for key in keys {
        // Records are looked for only where the system is not known.
        let is_known = registry.vocabularies.current().knows_system(&key.system);
        let is_carried = is_known || !consented::owners(ctx, registry, kind, key).await?.is_empty();
        identifiers::check_filter(registry, filter, key, is_carried)?;
    }
    Ok(())
}

/// The record itself that an identifier addresses, with what the client may see of it.
///
/// # Errors
/// As [`find`].
pub async fn find_record<D: Details>(
    ctx: &OpContext,
    registry: &Registry,
    key: &IdentifierKey,
) -> Result<Seen<D>, AppError> {
    let (id, fields) = find(ctx, registry, D::KIND, key).await?;
    Ok(Seen { record: records::by_id(&*registry.store, id).await?, fields })
}

/// The fields that searches of a resource may look at.
fn searchable(ctx: &OpContext, resource: Resource) -> FieldSet {
    ctx.fields(resource, Action::Read).union(&by_searching(ctx, resource))
}

/// Whether the client sees records of a resource at all, be it in answers to searches.
fn is_seen(ctx: &OpContext, resource: Resource) -> bool {
    let searches = matches!(resource, Resource::Program | Resource::ProgramMembership);
    ctx.holds(resource, Action::Read) || (searches && ctx.holds(resource, Action::Search))
}

/// Whether a search may have a condition on a field, given by its path in the API.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check_filter(ctx: &OpContext, resource: Resource, path: &str) -> Result<(), AppError> {
    check(&searchable(ctx, resource), resource, path, FieldUse::Filter)
}

/// Whether a search may be sorted by a field, given by its path in the API.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check_sort(ctx: &OpContext, resource: Resource, path: &str) -> Result<(), AppError> {
    check(&searchable(ctx, resource), resource, path, FieldUse::Sort)
}

/// Whether the client may read a field, where that is all that a call is about.
///
/// # Errors
/// [`AppError::MissingScope`] without the scope to read, [`AppError::FieldNotGranted`].
pub fn check_read(ctx: &OpContext, resource: Resource, path: &str, usage: FieldUse) -> Result<(), AppError> {
    if !ctx.holds(resource, Action::Read) {
        let required = Scope::new(resource, Action::Read).to_string();
        return Err(AppError::MissingScope { required, granted: ctx.scopes.clone() });
    }
    check(&ctx.fields(resource, Action::Read), resource, path, usage)
}

/// Whether the client may reach from people to the groups that they belong to, and back.
///
/// # Errors
/// As [`check_read`].
pub fn check_membership(ctx: &OpContext, usage: FieldUse) -> Result<(), AppError> {
    check_read(ctx, Resource::Group, "member", usage)?;
    check_read(ctx, Resource::Individual, "group_membership", usage)
}

/// The fields by which the client may address records of a resource: those that it may see. Who may read no such record at all
/// writes blindly, by whatever it was told elsewhere.
#[must_use]
pub fn known(ctx: &OpContext, resource: Resource) -> FieldSet {
    if is_seen(ctx, resource) { searchable(ctx, resource) } else { FieldSet::All }
}

/// The fields that the client may change of a record of which it sees some: those that its grants to update open and that it
/// sees. Who may read no such record at all writes blindly whatever its grants to update open, unless it needs consents.
#[must_use]
pub fn changeable(ctx: &OpContext, resource: Resource, seen: &FieldSet) -> FieldSet {
    let granted = ctx.fields(resource, Action::Update);
    if is_seen(ctx, resource) || ctx.consent.is_some() { granted.intersection(seen) } else { granted }
}

/// Whether a field, given by its path in the API, is among some.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check(fields: &FieldSet, resource: Resource, path: &str, usage: FieldUse) -> Result<(), AppError> {
    if fields.allows(path) {
        return Ok(());
    }
    Err(AppError::FieldNotGranted { resource, field: field_of_path(path).to_owned(), usage })
}

//! Access of a client to records and fields, for reading, searching and writing: decided in this module only.
//!
//! Consents of a client whose legal basis is consent are evaluated here too; all other clients need none.
//!
//! **Invariant:** a client cannot infer data that it may not see. A record that it may not see is absent for it; a
//! field that it may not see is left out of every response, and a request that filters, sorts, writes or decides by it
//! is denied naming the field, for any value of the field.
//!
//! **Invariant:** a denial depends on the request and the client's grants alone, never on the content of a record.
//!
//! **Invariant:** a client whose legal basis is consent sees only the records and fields that consents grant access to,
//! regardless of its grants.
//!
//! **Invariant:** the visibility of a record is decided in memory, before the store is queried for it: a hidden record
//! takes no longer than a missing one.
//!
//! **Invariant:** each consent that grants access is noted in the audit context of the call, and so named in the audit
//! log.
//!
//! **Invariant:** an identifier is resolved among the visible records only, so that a hidden record neither replaces a
//! visible one nor makes it ambiguous.
//!
//! **Invariant:** the index in memory only proposes the record that an identifier addresses. The record decides, as it
//! is in the store: if it has the identifier now, it is the owner, since no two records of a kind have the same
//! identifier at a time. In every other case the store is queried for all owners. So a read sees every acknowledged
//! write, and returns no other record for a collision of hashes, an ended or reused identifier, or an index that lags.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::sync::Arc;

use crate::registry::Registry;
use crate::{identifiers, records, subjects};
use daftar_domain::calendar::utc_day;
use daftar_domain::change::Details;
use daftar_domain::consent::Opened;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::field::{FieldName, FieldSet, field_of_path, fields_of};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::ProgramMembershipDetails;
use daftar_domain::record::{Record, RecordId, RecordKind};
use daftar_domain::scope::{Action, Resource, Scope};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_index::{RowLimits, Snapshot};
use daftar_store::index::Sees;
use daftar_store::{IDENTIFIER_OWNERS_MAX, IdentifierOwner};

/// A record with its fields that the client may see.
#[derive(Debug, Clone)]
pub struct Seen<D> {
    /// The record.
    pub record: Arc<Record<D>>,
    /// Its fields that the client may see.
    pub fields: FieldSet,
}

/// The fields of a record that the client may see; none if the record does not exist for it. Decided before the record
/// is fetched, so that a hidden record takes no longer than an absent one.
///
/// # Errors
/// If the store fails.
pub async fn of(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    id: RecordId,
) -> Result<Option<FieldSet>, AppError> {
    let consented = fields(ctx, registry, kind, id).await?;
    Ok(consented.map(|consented| consented.intersection(&ctx.fields(kind.resource(), Action::Read))))
}

/// The fields of some records of a kind that the client may see, in the given order, as [`of`].
///
/// # Errors
/// If the store fails.
pub async fn of_each(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: &[RecordId],
) -> Result<Vec<Option<FieldSet>>, AppError> {
    let granted = ctx.fields(kind.resource(), Action::Read);
    let consented = fields_of_each(ctx, registry, kind, ids).await?;
    Ok(consented.into_iter().map(|fields| Some(fields?.intersection(&granted))).collect())
}

/// The records, of some of a kind, that exist for the client.
///
/// # Errors
/// If the store fails.
pub async fn there(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: &[RecordId],
) -> Result<HashSet<RecordId>, AppError> {
    let consented = fields_of_each(ctx, registry, kind, ids).await?;
    Ok(ids.iter().zip(consented).filter(|(_, fields)| fields.is_some()).map(|(id, _)| *id).collect())
}

/// The visible ones of some records, with the visible fields of each.
///
/// # Errors
/// If the store fails.
pub async fn seen<D: Details>(
    ctx: &OpContext,
    registry: &Registry,
    named: Vec<RecordId>,
) -> Result<HashMap<RecordId, Seen<D>>, AppError> {
    if named.is_empty() {
        return Ok(HashMap::new());
    }
    let fields = of_each(ctx, registry, D::KIND, &named).await?;
    let mut seen: HashMap<RecordId, FieldSet> =
        named.into_iter().zip(fields).filter_map(|(id, fields)| Some((id, fields?))).collect();
    let ids: Vec<RecordId> = seen.keys().copied().collect();
    let records = registry.store.find_all::<D>(&ids).await?.into_iter();
    Ok(records.filter_map(|record| Some((record.id, Seen { fields: seen.remove(&record.id)?, record }))).collect())
}

/// The fields that the client may see of a membership that it has just written, which is in no index yet: its
/// beneficiary decides its visibility. Only the permanent fields, if it is hidden from the client.
///
/// # Errors
/// If the store fails.
pub async fn of_written_membership(
    ctx: &OpContext,
    registry: &Registry,
    details: &ProgramMembershipDetails,
) -> Result<FieldSet, AppError> {
    let resource = Resource::ProgramMembership;
    let consented = fields_about(ctx, registry, resource, details.beneficiary()).await?;
    let consented = consented.unwrap_or_else(FieldSet::none);
    Ok(consented.intersection(&ctx.fields(resource, Action::Read)))
}

/// The fields of a visible record that a rule of the client may read. For a client that requires consents, the
/// relationships of an individual are left out: some of the related individuals may be hidden from it.
#[must_use]
pub fn of_rules(ctx: &OpContext, kind: RecordKind, fields: FieldSet) -> FieldSet {
    match (kind, &ctx.consent) {
        (RecordKind::Individual, Some(_)) => without(Resource::Individual, &fields, &["relationship"]),
        _ => fields,
    }
}

/// The fields of a record that a search may show: as [`of`], and those that the scope to search grants access to by
/// itself.
///
/// # Errors
/// If the store fails.
pub async fn of_found(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    id: RecordId,
) -> Result<Option<FieldSet>, AppError> {
    Ok(of_each_found(ctx, registry, kind, &[id]).await?.pop().flatten())
}

/// The fields of some records of a kind that a search may show, in the given order, as [`of_found`].
///
/// # Errors
/// If the store fails.
pub async fn of_each_found(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: &[RecordId],
) -> Result<Vec<Option<FieldSet>>, AppError> {
    let granted = searchable(ctx, kind.resource());
    let consented = fields_of_each(ctx, registry, kind, ids).await?;
    Ok(consented.into_iter().map(|fields| Some(fields?.intersection(&granted))).collect())
}

/// The fields that the scope to search a resource grants access to without a read scope: none of individuals and
/// groups.
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

/// The record that an identifier addresses, with its fields that the client may see.
///
/// # Errors
/// [`AppError::NotFound`] if it does not exist for this client, [`AppError::NotThere`] if in addition the system is
/// unknown, [`AppError::Ambiguous`].
pub async fn find(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    key: &IdentifierKey,
) -> Result<(RecordId, FieldSet), AppError> {
    let found = match identifiers::choose(kind, &owners(ctx, registry, kind, key).await?) {
        Ok(id) => of(ctx, registry, kind, id).await?.map(|fields| (id, fields)).ok_or(AppError::NotFound(kind)),
        Err(error) => Err(error),
    };
    found.map_err(|error| identifiers::explained(registry, key, error))
}

/// Checks the systems of identifiers by which a search selects records of a kind, as [`identifiers::check_filter`].
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
        // Records are searched only if the system is unknown.
        let is_known = registry.vocabularies.current().knows_system(&key.system);
        let is_carried = is_known || !owners(ctx, registry, kind, key).await?.is_empty();
        identifiers::check_filter(registry, filter, key, is_carried)?;
    }
    Ok(())
}

/// The full record that an identifier addresses, with its fields that the client may see.
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

/// The full record that an identifier addresses, as [`find_record`], for an operation that only reads. If the index in
/// memory proposes the right record, the store is queried for that record alone. For a client that requires consents
/// visibility is decided before any record is read.
///
/// # Errors
/// As [`find`].
pub async fn read_record<D: Details>(
    ctx: &OpContext,
    registry: &Registry,
    key: &IdentifierKey,
) -> Result<Seen<D>, AppError> {
    if ctx.consent.is_none()
        && let Some(record) = proposed::<D>(registry, key).await?
    {
        return Ok(Seen { record, fields: ctx.fields(D::KIND.resource(), Action::Read) });
    }
    find_record(ctx, registry, key).await
}

/// The record that the index proposes for an identifier, if the record has the identifier now.
async fn proposed<D: Details>(registry: &Registry, key: &IdentifierKey) -> Result<Option<Arc<Record<D>>>, AppError> {
    let candidate = registry.index.always_current().and_then(|index| index.candidate(D::KIND, key));
    let Some(id) = candidate else { return Ok(None) };
    let record = registry.store.find::<D>(id).await?;
    let is_owner =
        |record: &Arc<Record<D>>| record.details.identifiers().iter().any(|one| one.is_open() && one.key == *key);
    Ok(record.filter(is_owner))
}

/// The fields that searches of a resource may use.
#[must_use]
pub fn searchable(ctx: &OpContext, resource: Resource) -> FieldSet {
    ctx.fields(resource, Action::Read).union(&by_searching(ctx, resource))
}

/// True if records of a resource are visible to the client at all, at least in search results.
fn is_seen(ctx: &OpContext, resource: Resource) -> bool {
    let searches = matches!(resource, Resource::Program | Resource::ProgramMembership);
    ctx.holds(resource, Action::Read) || (searches && ctx.holds(resource, Action::Search))
}

/// Checks that the client may read a field, if the call concerns that field only.
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

/// Checks that the client may navigate from individuals to their groups, and back.
///
/// # Errors
/// As [`check_read`].
pub fn check_membership(ctx: &OpContext, usage: FieldUse) -> Result<(), AppError> {
    check_read(ctx, Resource::Group, "member", usage)?;
    check_read(ctx, Resource::Individual, "group_membership", usage)
}

/// The fields by which the client may address records of a resource: the visible ones. A client that may not read such
/// records may address them by every field.
#[must_use]
pub fn known(ctx: &OpContext, resource: Resource) -> FieldSet {
    if is_seen(ctx, resource) { searchable(ctx, resource) } else { FieldSet::All }
}

/// The fields of a partly visible record that the client may change: the visible fields that its grants to update
/// include. A client that may not read such records may write all fields that its grants to update include, unless it
/// requires consents.
#[must_use]
pub fn changeable(ctx: &OpContext, resource: Resource, seen: &FieldSet) -> FieldSet {
    let granted = ctx.fields(resource, Action::Update);
    if is_seen(ctx, resource) || ctx.consent.is_some() { granted.intersection(seen) } else { granted }
}

/// Checks that a field, given by its path in the API, is in a set.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check(fields: &FieldSet, resource: Resource, path: &str, usage: FieldUse) -> Result<(), AppError> {
    if fields.allows(path) {
        return Ok(());
    }
    Err(AppError::FieldNotGranted { resource, field: field_of_path(path).to_owned(), usage })
}

/// The fields of some records of a kind that consents grant access to, in the given order; none for a hidden record.
///
/// # Errors
/// If the store fails.
async fn fields_of_each(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: &[RecordId],
) -> Result<Vec<Option<FieldSet>>, AppError> {
    let opened = opened_of_each(ctx, registry, kind, ids).await?;
    let Some(opened) = opened else { return Ok(vec![Some(FieldSet::All); ids.len()]) };
    Ok(opened.into_iter().map(|opened| noted(ctx, opened)).collect())
}

/// The fields of a record that consents grant access to; none if it is hidden from the client.
///
/// # Errors
/// If the store fails.
async fn fields(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    id: RecordId,
) -> Result<Option<FieldSet>, AppError> {
    if ctx.consent.is_none() {
        return Ok(Some(FieldSet::All));
    }
    Ok(fields_of_each(ctx, registry, kind, &[id]).await?.pop().flatten())
}

/// True if at least one of some records of a kind is visible to the client; the consent for the first of them is noted.
///
/// # Errors
/// If the store fails.
pub async fn any_is_there(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: &[RecordId],
) -> Result<bool, AppError> {
    let opened = opened_of_each(ctx, registry, kind, ids).await?;
    let Some(opened) = opened else { return Ok(!ids.is_empty()) };
    Ok(noted(ctx, opened.into_iter().flatten().next()).is_some())
}

/// The fields of a record about a subject that consents grant access to.
///
/// # Errors
/// If the store fails.
async fn fields_about(
    ctx: &OpContext,
    registry: &Registry,
    resource: Resource,
    subject: SubjectReference,
) -> Result<Option<FieldSet>, AppError> {
    let Some(sees) = sees(ctx) else { return Ok(Some(FieldSet::All)) };
    let opened = registry.index.current().await.opened(resource, &[subject], sees).await?;
    Ok(noted(ctx, opened.into_iter().next().flatten()))
}

/// The consent filter of a client; absent if the complete register is visible to it.
#[must_use]
pub fn sees(ctx: &OpContext) -> Option<Sees<'_>> {
    ctx.consent.as_ref().map(|filter| Sees { filter, day: utc_day(ctx.now) })
}

/// The consents for each of some records; absent if the client requires no consents, or if records of the kind have no
/// subject.
async fn opened_of_each(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: &[RecordId],
) -> Result<Option<Vec<Option<Opened>>>, AppError> {
    let Some(sees) = sees(ctx) else { return Ok(None) };
    let about = |kind| move |id: &RecordId| Some(SubjectReference { kind, id: *id });
    let subjects: Vec<Option<SubjectReference>> = match kind {
        RecordKind::Individual => ids.iter().map(about(Subject::Individual)).collect(),
        RecordKind::Group => ids.iter().map(about(Subject::Group)).collect(),
        RecordKind::ProgramMembership => {
            let known = registry.index.current().await.beneficiaries(ids).await?;
            let staged = |id: &RecordId| registry.store.pending_writes()?.beneficiary_of(*id);
            known.into_iter().zip(ids).map(|(known, id)| known.or_else(|| staged(id))).collect()
        }
        // Such records have no subject, or their visibility depends on the organization of the client.
        RecordKind::Program | RecordKind::Consent => return Ok(None),
    };
    let requested: Vec<SubjectReference> = subjects.iter().copied().flatten().collect();
    let mut opened = registry.index.current().await.opened(kind.resource(), &requested, sees).await?.into_iter();
    Ok(Some(subjects.into_iter().map(|subject| subject.and_then(|_| opened.next().flatten())).collect()))
}

/// The fields that consents grant access to; the consents are noted.
fn noted(ctx: &OpContext, opened: Option<Opened>) -> Option<FieldSet> {
    let opened = opened?;
    ctx.trail.relies_on(&opened.consents);
    Some(opened.fields)
}

/// The limits of a search of a kind of record; absent if the client requires no consents.
#[must_use]
pub fn limits(ctx: &OpContext, snapshot: &Snapshot, kind: RecordKind) -> Option<Arc<RowLimits>> {
    let filter = ctx.consent.as_ref()?;
    Some(snapshot.consented(kind.resource(), filter, utc_day(ctx.now)))
}

/// The visible current and former owners of an identifier.
async fn owners(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    key: &IdentifierKey,
) -> Result<Vec<IdentifierOwner>, AppError> {
    let limit = if ctx.consent.is_some() { IDENTIFIER_OWNERS_MAX } else { identifiers::OWNERS_MAX };
    let mut owners = registry.store.identifier_owners(kind, key, limit).await?;
    if owners.is_empty() {
        // The same lookup as for a hidden record.
        black_box(fields(ctx, registry, kind, RecordId(0)).await?);
        return Ok(owners);
    }
    if ctx.consent.is_some() {
        let ids: Vec<RecordId> = owners.iter().map(|owner| owner.id).collect();
        let mut seen = fields_of_each(ctx, registry, kind, &ids).await?.into_iter();
        owners.retain(|_| seen.next().flatten().is_some());
    }
    Ok(owners)
}

/// All beneficiaries of these kinds that an identifier addresses: its present and former owners; for a client that
/// requires consents only those with visible memberships, by the reference in a membership if they are hidden
/// themselves.
///
/// # Errors
/// If the store fails.
pub async fn beneficiaries(
    ctx: &OpContext,
    registry: &Registry,
    kinds: &[Subject],
    key: &IdentifierKey,
) -> Result<Vec<SubjectReference>, AppError> {
    let mut found = Vec::new();
    for kind in kinds {
        let owners = beneficiary_owners(ctx, registry, *kind, key).await?;
        found.extend(owners.into_iter().map(|owner| SubjectReference { kind: *kind, id: owner.id }));
    }
    Ok(found)
}

/// The beneficiaries that an address means: of each kind the present owner of the identifier, or else its former ones.
///
/// # Errors
/// If the store fails.
pub async fn addressed_beneficiaries(
    ctx: &OpContext,
    registry: &Registry,
    key: &IdentifierKey,
) -> Result<Vec<SubjectReference>, AppError> {
    let mut found = Vec::new();
    for kind in Subject::ALL {
        let mut owners = beneficiary_owners(ctx, registry, kind, key).await?;
        if owners.iter().any(|owner| owner.is_open) {
            owners.retain(|owner| owner.is_open);
        }
        found.extend(owners.into_iter().map(|owner| SubjectReference { kind, id: owner.id }));
    }
    Ok(found)
}

/// The beneficiary that an identifier addresses.
///
/// # Errors
/// As [`find`].
pub async fn beneficiary(
    ctx: &OpContext,
    registry: &Registry,
    kind: Subject,
    key: &IdentifierKey,
) -> Result<SubjectReference, AppError> {
    let owners = beneficiary_owners(ctx, registry, kind, key).await?;
    match identifiers::choose(kind.record_kind(), &owners) {
        Ok(id) => Ok(SubjectReference { kind, id }),
        Err(error) => Err(identifiers::explained(registry, key, error)),
    }
}

async fn beneficiary_owners(
    ctx: &OpContext,
    registry: &Registry,
    kind: Subject,
    key: &IdentifierKey,
) -> Result<Vec<IdentifierOwner>, AppError> {
    let owners = registry.store.identifier_owners(kind.record_kind(), key, IDENTIFIER_OWNERS_MAX).await?;
    let Some(sees) = sees(ctx) else { return Ok(owners) };
    let subjects: Vec<SubjectReference> = owners.iter().map(|owner| SubjectReference { kind, id: owner.id }).collect();
    let memberships = registry.index.current().await.opened(Resource::ProgramMembership, &subjects, sees).await?;
    let own = registry.index.current().await.opened(kind.record_kind().resource(), &subjects, sees).await?;
    let mut found = Vec::with_capacity(owners.len());
    for (((owner, subject), memberships), own) in owners.into_iter().zip(subjects).zip(memberships).zip(own) {
        let Some(opened) = memberships else { continue };
        ctx.trail.relies_on(&opened.consents);
        let is_meant = own.is_some() || {
            let called = subjects::called(&*registry.store, subject).await?;
            called == records::reference(kind.record_kind(), key)
        };
        if is_meant {
            found.push(owner);
        }
    }
    Ok(found)
}

/// A set of a resource's fields without some of them.
#[must_use]
pub fn without(resource: Resource, fields: &FieldSet, others: &[&str]) -> FieldSet {
    let unshared = fields_of(resource).iter().filter(|name| !others.contains(name));
    fields.intersection(&FieldSet::only(unshared.filter_map(|name| FieldName::parse(resource, name).ok())))
}

//! What a client may see of which record, and what it may look for and write: the one place that says it.
//!
//! What consents open to a client whose legal basis is consent is decided here too; to all others they open everything.
//!
//! **Invariant:** what a client may not see it cannot infer. A record that it may not see is absent for it; a field that it may
//! not see is left out of every answer, and a request that filters, sorts, writes or decides by it is refused naming the field,
//! whatever the field says.
//!
//! **Invariant:** a refusal depends on the request and the client's grants alone, never on what a record says.
//!
//! **Invariant:** to a client whose legal basis is consent only those records and fields are there that consents open,
//! whatever it was granted.
//!
//! **Invariant:** whether a record is there is decided in memory, before the store is asked for it: one that is hidden takes no longer
//! than one that does not exist.
//!
//! **Invariant:** each consent that opens something is noted in the trail of the call, and so named in the audit log.
//!
//! **Invariant:** which record an identifier means is decided among the records that are there, so that a hidden one neither takes a
//! visible one's place nor makes it ambiguous.

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::sync::Arc;

use crate::registry::Registry;
use crate::{identifiers, records, subjects};
use daftar_domain::calendar::utc_day;
use daftar_domain::change::Details;
use daftar_domain::consent_filter::Opened;
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

/// What the client may see of each of some records of a kind, in the order asked, as [`of`].
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

/// Which of some records of a kind exist for the client.
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

/// Some records, as far as they are there for the client, with what of each may be shown.
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

/// What the client may see of a membership that it has just written, which is in no index yet: its beneficiary decides whether it is there.
/// Nothing but what always stays, where it is not there for the client.
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

/// What a rule of the client may read of the fields of a record that it sees. To a client that needs consents the relationships of a person
/// are missing: some of the other people may not be there for it.
#[must_use]
pub fn of_rules(ctx: &OpContext, kind: RecordKind, fields: FieldSet) -> FieldSet {
    match (kind, &ctx.consent) {
        (RecordKind::Individual, Some(_)) => without(Resource::Individual, &fields, &["relationship"]),
        _ => fields,
    }
}

/// What a search may show of a record: as [`of`], and what the scope to search opens where it is enough to search.
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

/// What a search may show of each of some records of a kind, in the order asked, as [`of_found`].
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
    let found = match identifiers::choose(kind, &owners(ctx, registry, kind, key).await?) {
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
        let is_carried = is_known || !owners(ctx, registry, kind, key).await?.is_empty();
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
#[must_use]
pub fn searchable(ctx: &OpContext, resource: Resource) -> FieldSet {
    ctx.fields(resource, Action::Read).union(&by_searching(ctx, resource))
}

/// True if the client sees records of a resource at all, be it in answers to searches.
fn is_seen(ctx: &OpContext, resource: Resource) -> bool {
    let searches = matches!(resource, Resource::Program | Resource::ProgramMembership);
    ctx.holds(resource, Action::Read) || (searches && ctx.holds(resource, Action::Search))
}

/// True if the client may read a field, where that is all that a call is about.
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

/// True if the client may reach from people to the groups that they belong to, and back.
///
/// # Errors
/// As [`check_read`].
pub fn check_membership(ctx: &OpContext, usage: FieldUse) -> Result<(), AppError> {
    check_read(ctx, Resource::Group, "member", usage)?;
    check_read(ctx, Resource::Individual, "group_membership", usage)
}

/// The fields by which the client may address records of a resource: those that it may see. A client that may read no such
/// record may address records by every field.
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

/// True if a field, given by its path in the API, is among some.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check(fields: &FieldSet, resource: Resource, path: &str, usage: FieldUse) -> Result<(), AppError> {
    if fields.allows(path) {
        return Ok(());
    }
    Err(AppError::FieldNotGranted { resource, field: field_of_path(path).to_owned(), usage })
}

/// What consents open of each of some records of a kind, in the order asked; nothing of one that is not there for the client.
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

/// What consents open of a record; nothing, where it is not there for the client.
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

/// True if one at least of some records of a kind is there for the client; what opens the first of them is noted.
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

/// What consents open of a record of a resource that is about somebody.
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
    let opened = registry.index.opened(resource, &[subject], sees).await?;
    Ok(noted(ctx, opened.into_iter().next().flatten()))
}

/// What a client sees of the register; all of it, where absent.
#[must_use]
pub fn sees(ctx: &OpContext) -> Option<Sees<'_>> {
    ctx.consent.as_ref().map(|filter| Sees { filter, day: utc_day(ctx.now) })
}

/// What opens each of some records; absent where the client needs no consents, or where nothing of the kind is about anybody.
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
            let known = registry.index.beneficiaries(ids).await?;
            let staged = |id: &RecordId| registry.store.pending_writes()?.beneficiary_of(*id);
            known.into_iter().zip(ids).map(|(known, id)| known.or_else(|| staged(id))).collect()
        }
        // About nobody, or told by its organization who sees it.
        RecordKind::Program | RecordKind::Consent => return Ok(None),
    };
    let asked: Vec<SubjectReference> = subjects.iter().copied().flatten().collect();
    let mut opened = registry.index.opened(kind.resource(), &asked, sees).await?.into_iter();
    Ok(Some(subjects.into_iter().map(|subject| subject.and_then(|_| opened.next().flatten())).collect()))
}

/// The fields that consents open, which are noted.
fn noted(ctx: &OpContext, opened: Option<Opened>) -> Option<FieldSet> {
    let opened = opened?;
    ctx.trail.relies_on(&opened.consents);
    Some(opened.fields)
}

/// The limits of a search of a kind of record; absent where the client needs no consents.
#[must_use]
pub fn limits(ctx: &OpContext, snapshot: &Snapshot, kind: RecordKind) -> Option<Arc<RowLimits>> {
    let filter = ctx.consent.as_ref()?;
    Some(snapshot.consented(kind.resource(), filter, utc_day(ctx.now)))
}

/// Who carries or carried an identifier, as far as they are there for the client.
async fn owners(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    key: &IdentifierKey,
) -> Result<Vec<IdentifierOwner>, AppError> {
    let limit = if ctx.consent.is_some() { IDENTIFIER_OWNERS_MAX } else { identifiers::OWNERS_MAX };
    let mut owners = registry.store.identifier_owners(kind, key, limit).await?;
    if owners.is_empty() {
        // The same look-up as for one who is not seen.
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

/// Everybody of these kinds who is meant by an identifier as a beneficiary: who carries or carried it; to a client that needs
/// consents those alone whose memberships are opened, by what a membership calls them where they themselves are not there.
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

/// The one that is meant by an identifier as a beneficiary.
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
    let memberships = registry.index.opened(Resource::ProgramMembership, &subjects, sees).await?;
    let own = registry.index.opened(kind.record_kind().resource(), &subjects, sees).await?;
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
    let kept = fields_of(resource).iter().filter(|name| !others.contains(name));
    fields.intersection(&FieldSet::only(kept.filter_map(|name| FieldName::parse(resource, name).ok())))
}

//! What consents open to a client whose legal basis is consent; to all others they open everything.
//!
//! **Invariant:** whether a record is there is decided in memory, before the store is asked for it: one that is hidden takes no longer
//! than one that does not exist.
//!
//! **Invariant:** each consent that opens something is noted in the trail of the call, and so named in the audit log.
//!
//! **Invariant:** which record an identifier means is decided among the records that are there, so that a hidden one neither takes a
//! visible one's place nor makes it ambiguous.

use std::hint::black_box;
use std::sync::Arc;

use crate::registry::Registry;
use crate::{identifiers, records, subjects};
use daftar_domain::calendar::utc_day;
use daftar_domain::consent_filter::Opened;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::field::{FieldName, FieldSet, fields_of};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_index::{RowLimits, Snapshot};
use daftar_store::index::Sees;
use daftar_store::{IDENTIFIER_OWNERS_MAX, IdentifierOwner};

/// What consents open of each of some records of a kind, in the order asked; nothing of one that is not there for the client.
///
/// # Errors
/// When the store fails.
pub(super) async fn fields_of_each(
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
/// When the store fails.
pub(super) async fn fields(
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

/// Whether one at least of some records is there for the client; what opens the first of them is noted.
///
/// # Errors
/// When the store fails.
pub(super) async fn any_is_there(
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
/// When the store fails.
pub(super) async fn fields_about(
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
            let staged = |id: &RecordId| registry.store.kept_back()?.beneficiary_of(*id);
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
pub(super) async fn owners(
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
/// When the store fails.
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
/// As [`super::find`].
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

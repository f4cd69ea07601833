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

use crate::columns::{RowLimits, Snapshot};
use crate::context::OpContext;
use crate::domain::calendar::utc_day;
use crate::domain::field::{FieldName, FieldSet, fields_of};
use crate::domain::identifier::IdentifierKey;
use crate::domain::record::{RecordId, RecordKind};
use crate::domain::scope::Resource;
use crate::domain::subject::{Subject, SubjectReference};
use crate::error::AppError;
use crate::service::registry::Registry;
use crate::service::{identifiers, records, subjects};
use crate::store::{IDENTIFIER_OWNERS_MAX, IdentifierOwner};

/// What consents open of a record; nothing, where it is not there for the client.
pub(super) fn fields(ctx: &OpContext, registry: &Registry, kind: RecordKind, id: RecordId) -> Option<FieldSet> {
    if ctx.consent.is_none() {
        return Some(FieldSet::All);
    }
    let snapshot = registry.columns.snapshot();
    let subject = match kind {
        RecordKind::Individual => SubjectReference { kind: Subject::Individual, id },
        RecordKind::Group => SubjectReference { kind: Subject::Group, id },
        RecordKind::ProgramMembership => {
            let staged = || registry.store.kept_back()?.beneficiary_of(id);
            snapshot.beneficiary(id).or_else(staged)?
        }
        // About nobody, or told by its organization who sees it.
        RecordKind::Program | RecordKind::Consent => return Some(FieldSet::All),
    };
    opened(ctx, &snapshot, kind.resource(), subject)
}

/// What consents open of a record of a resource that is about somebody.
pub(super) fn fields_about(
    ctx: &OpContext,
    registry: &Registry,
    resource: Resource,
    subject: SubjectReference,
) -> Option<FieldSet> {
    opened(ctx, &registry.columns.snapshot(), resource, subject)
}

fn opened(ctx: &OpContext, snapshot: &Snapshot, resource: Resource, subject: SubjectReference) -> Option<FieldSet> {
    let Some(filter) = &ctx.consent else { return Some(FieldSet::All) };
    let opened = snapshot.opened(resource, subject, filter, utc_day(ctx.now))?;
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
        black_box(fields(ctx, registry, kind, RecordId(0)));
    }
    owners.retain(|owner| fields(ctx, registry, kind, owner.id).is_some());
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
/// [`AppError::NotFound`] when there is none for this client, [`AppError::Ambiguous`].
pub async fn beneficiary(
    ctx: &OpContext,
    registry: &Registry,
    kind: Subject,
    key: &IdentifierKey,
) -> Result<SubjectReference, AppError> {
    let owners = beneficiary_owners(ctx, registry, kind, key).await?;
    Ok(SubjectReference { kind, id: identifiers::choose(kind.record_kind(), &owners)? })
}

async fn beneficiary_owners(
    ctx: &OpContext,
    registry: &Registry,
    kind: Subject,
    key: &IdentifierKey,
) -> Result<Vec<IdentifierOwner>, AppError> {
    let owners = registry.store.identifier_owners(kind.record_kind(), key, IDENTIFIER_OWNERS_MAX).await?;
    let mut found = Vec::with_capacity(owners.len());
    for owner in owners {
        if is_beneficiary(ctx, registry, SubjectReference { kind, id: owner.id }, key).await? {
            found.push(owner);
        }
    }
    Ok(found)
}

async fn is_beneficiary(
    ctx: &OpContext,
    registry: &Registry,
    subject: SubjectReference,
    key: &IdentifierKey,
) -> Result<bool, AppError> {
    let Some(filter) = &ctx.consent else { return Ok(true) };
    let (snapshot, day) = (registry.columns.snapshot(), utc_day(ctx.now));
    let Some(opened) = snapshot.opened(Resource::ProgramMembership, subject, filter, day) else { return Ok(false) };
    ctx.trail.relies_on(&opened.consents);
    if snapshot.opened(subject.kind.record_kind().resource(), subject, filter, day).is_some() {
        return Ok(true);
    }
    let called = subjects::called(&*registry.store, subject).await?;
    Ok(called == records::reference(subject.kind.record_kind(), key))
}

/// A set of a resource's fields without some of them.
#[must_use]
pub fn without(resource: Resource, fields: &FieldSet, others: &[&str]) -> FieldSet {
    let kept = fields_of(resource).iter().filter(|name| !others.contains(name));
    fields.intersection(&FieldSet::only(kept.filter_map(|name| FieldName::parse(resource, name).ok())))
}

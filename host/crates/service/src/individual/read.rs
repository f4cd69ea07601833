//! Reading one person.

use std::sync::Arc;

use super::{IndividualView, Wanted, reference, shown_photo, view};
use crate::bodies::{BodyKey, SentBody};
use crate::registry::Registry;
use crate::{audit, records, visibility};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::RecordKind;
use daftar_vocabulary::LanguagePreference;

/// Reads a person by identifier, with what is `wanted` of what lies beside the record, as the body that `write` makes. Large photos
/// take turns until then: the body is what takes memory, and it is counted from when it is finished.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`], and those of `write`.
pub async fn read<T, E: From<AppError>>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, wanted): (&IdentifierKey, Wanted),
    write: impl FnOnce(&IndividualView) -> Result<T, E>,
) -> Result<T, E> {
    let found = visibility::find_record::<IndividualDetails>(ctx, registry, key).await;
    let outcome = if found.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
    registry.audit.record(ctx, audit::entry(ctx, AuditAction::Read, outcome, vec![reference(key)])).await?;
    let seen = found?;
    let _permit = match shown_photo(&seen.record, &seen.fields, wanted) {
        Some(photo) => registry.photo_reads.begin(photo).await?,
        None => None,
    };
    write(&view(ctx, registry, languages, seen, wanted).await?)
}

/// Reads a person by identifier as a whole body: one that is kept, if nothing changed since it was made, or one that `write` makes.
///
/// # Errors
/// As [`read`], and those of `write`.
pub async fn read_body<E: From<AppError>>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    key: &IdentifierKey,
    write: impl FnOnce(&IndividualView) -> Result<SentBody, E>,
) -> Result<SentBody, E> {
    let kept_under = BodyKey::of(ctx, registry, &languages, key);
    if let Some(body) = kept_under.as_ref().and_then(|key| registry.bodies.find(key)) {
        ctx.trail.names(body.named.iter().cloned());
        let entry = audit::entry(ctx, AuditAction::Read, AuditOutcome::Allowed, vec![reference(key)]);
        registry.audit.record(ctx, entry).await?;
        return Ok(body);
    }
    let making = registry.bodies.begin(kept_under);
    let make = |view: &IndividualView| -> Result<SentBody, E> {
        let body = SentBody { named: named(view), ..write(view)? };
        registry.bodies.keep(making, view, &body);
        Ok(body)
    };
    read(ctx, registry, languages, (key, Wanted::ALL), make).await
}

/// The groups and the other people that the body of a person names, as the audit log tells of them.
fn named(view: &IndividualView) -> Arc<[String]> {
    let places = view.beside.places.iter().flatten();
    let groups = places.filter_map(|place| records::called(&place.group.record.details.identifiers));
    let groups = groups.map(|key| records::reference(RecordKind::Group, key));
    let related = view.beside.related.values();
    let related = related.filter_map(|person| records::called(&person.record.details.identifiers));
    groups.chain(related.map(reference)).collect()
}

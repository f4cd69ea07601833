//! Changing what is said of a person.

use std::sync::Arc;

use super::{Beside, IndividualDraft, IndividualView, Wanted, beside, codes_of, find, reference};
use crate::codes::{CodeView, Held, resolve_individual, with_undeclared};
use crate::registry::Registry;
use crate::written::{self, Spoken};
use crate::{audit, changed, identifiers, open, records};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{RecordKind, VersionCondition};
use daftar_domain::scope::Resource;
use daftar_store::Operation;
use daftar_vocabulary::LanguagePreference;

/// Changes what is said of a person: `make` says what it is to be, given what the client knows of it and what it writes. What
/// the client may not write stays as it is.
///
/// # Errors
/// [`AppError::FieldNotGranted`], those of `make` and of [`super::create()`], [`AppError::NotFound`], [`AppError::Ambiguous`], and [`AppError::VersionMismatch`] when
/// the condition is not met.
pub async fn change(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    spoken: &Spoken,
    make: &(dyn Fn(&IndividualView) -> Result<IndividualDraft, AppError> + Send + Sync),
) -> Result<IndividualView, AppError> {
    let attempt = || change_once(ctx, registry, languages.clone(), (key, condition), spoken, make);
    let refusal = || audit::entry(ctx, AuditAction::Update, AuditOutcome::Refused, vec![reference(key)]);
    records::changed(ctx, registry, condition, refusal, attempt).await
}

async fn change_once(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    spoken: &Spoken,
    make: &(dyn Fn(&IndividualView) -> Result<IndividualDraft, AppError> + Send + Sync),
) -> Result<IndividualView, AppError> {
    let (individual, fields) = find(ctx, registry, key).await?;
    let before = Arc::clone(&individual);
    let written = written::of_change(ctx, Resource::Individual, &fields, spoken)?;
    records::check_version(condition, before.meta.version)?;
    let generation = registry.vocabularies.current();
    let codes = CodeView::new(Arc::clone(&generation), languages.clone());
    let present = IndividualView { individual, fields: fields.union(&written), beside: Beside::default(), codes };
    let IndividualDraft { details: draft, photo } = make(&present)?;
    let consulted = open::consult(registry, Arc::clone(&generation), || codes_of(&draft)).await?;
    let generation = consulted.generation.clone();
    let mut problems = Vec::new();
    let known = &before.details.identifiers;
    written::check_identifiers(ctx, Resource::Individual, known, &draft.identifiers)?;
    identifiers::check(
        (&generation, utc_day(ctx.now)),
        RecordKind::Individual,
        known,
        &draft.identifiers,
        &mut problems,
    );
    identifiers::check_kept(known, &draft.identifiers, &mut problems);
    let held = || Held::of_individual(&before.details);
    if present.fields != fields {
        // A patch is merged with fields that the client may not read: its codes are validated without them.
        let seen = IndividualView {
            individual: Arc::clone(&before),
            fields: fields.clone(),
            beside: Beside::default(),
            codes: present.codes.clone(),
        };
        resolve_individual(&generation, &held().seen(&fields), make(&seen)?.details, &mut problems);
    }
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let details = resolve_individual(&generation, &held(), draft, &mut problems);
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    // Before what the record holds is joined to it, in which a number that was good for the request only may be another code's.
    let (details, kept) = consulted.finalise(ctx, registry, details).await?;
    let codes = match &kept {
        Some(kept) => CodeView::new(Arc::clone(&kept.generation), languages),
        None => present.codes,
    };
    let details = written::keep_individual(&before.details, details, &written);
    let extension = with_undeclared(&generation, &before.details.extension, details.extension);
    let details = IndividualDetails { extension, ..details };
    let new_photo = photo.filter(|photo| {
        let reference = Some(photo.reference());
        details.photo == reference && before.details.photo != reference
    });
    let targets = records::references(RecordKind::Individual, &details.identifiers);
    let entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Allowed, targets);
    let entry = audit::with_changes(ctx, entry, changed::of_individual(&before.details, &details));
    let operations = std::iter::once(Operation::update(before.id, before.meta.version, details))
        .chain(new_photo.map(Operation::PutPhoto))
        .chain(kept.as_ref().and_then(open::Kept::operation));
    let individual = records::commit(registry, records::write(ctx, operations.collect(), entry)).await?;
    drop(kept);
    let beside = beside(ctx, registry, (&individual, &fields), Wanted::ALL).await?;
    Ok(IndividualView { individual, fields, beside, codes })
}

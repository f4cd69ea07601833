//! Changing what is said of a group.

use std::sync::Arc;

use super::check::{check_members, check_relationships, resolve_references};
use super::hidden::Hidden;
use super::shown::Shown;
use super::{GroupDraft, GroupView, Wanted, answer, codes_of, find, reference, view};
use crate::codes::{Held, resolve_group, with_undeclared};
use crate::registry::Registry;
use crate::written::{self, Spoken};
use crate::{audit, changed, identifiers, open, records};
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::group::{Group, GroupDetails};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordKind, VersionCondition};
use daftar_domain::scope::Resource;
use daftar_store::Operation;
use daftar_vocabulary::LanguagePreference;

/// Changes what is said of a group: `make` says what it is to be, given what the client knows of it and what it writes. What
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
    make: &(dyn Fn(&GroupView) -> Result<GroupDraft, AppError> + Send + Sync),
) -> Result<GroupView, AppError> {
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
    make: &(dyn Fn(&GroupView) -> Result<GroupDraft, AppError> + Send + Sync),
) -> Result<GroupView, AppError> {
    let (before, fields) = find(ctx, registry, key).await?;
    let written = written::of_change(ctx, Resource::Group, &fields, spoken)?;
    records::check_version(condition, before.meta.version)?;
    let present = (Arc::clone(&before), fields.union(&written));
    // Whom it names is compared with what is sent back, and shown to nobody.
    let (members, related) = (written.allows("member"), written.allows("relationship"));
    let wanted = Wanted { members, related, ..Wanted::NOTHING };
    let present = view(ctx, registry, languages.clone(), present, wanted).await?;
    let mut draft = make(&present)?;
    // Members and relationships that stay need not be found again.
    draft.members = draft.members.filter(|_| written.allows("member"));
    draft.relationships = draft.relationships.filter(|_| written.allows("relationship"));
    let consulted = open::consult(registry, registry.vocabularies.current(), || codes_of(&draft)).await?;
    let generation = consulted.generation.clone();
    let mut problems = Vec::new();
    let known = &before.details.identifiers;
    written::check_identifiers(ctx, Resource::Group, known, &draft.identifiers)?;
    identifiers::check((&generation, utc_day(ctx.now)), RecordKind::Group, known, &draft.identifiers, &mut problems);
    identifiers::check_kept(known, &draft.identifiers, &mut problems);
    let hidden = Hidden::of(ctx, registry, &before.details).await?;
    let held = || Held::of_group(&hidden.without(&before.details));
    if present.fields != fields {
        // A patch is merged with fields that the client may not read: its codes are validated without them.
        let seen = view(ctx, registry, languages.clone(), (Arc::clone(&before), fields.clone()), wanted).await?;
        drop(resolve_group(&generation, &held().seen(&fields), make(&seen)?, &mut problems));
    }
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let coded = resolve_group(&generation, &held(), draft, &mut problems);
    let own = (Some(before.id), &Shown::in_view(&present, &fields));
    let details = resolve_references(ctx, registry, own, coded, &mut problems).await?;
    check_relationships(&details, &mut problems);
    let details = hidden.kept(&before.details, details, &mut problems);
    if written.allows("member") {
        check_members(ctx, &generation, &details, &hidden, &mut problems);
    }
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let (details, kept) = consulted.finalise(ctx, registry, details).await?;
    let details = written::keep_group(&before.details, details, &written);
    let extension = with_undeclared(&generation, &before.details.extension, details.extension);
    let details = GroupDetails { extension, ..details };
    let targets = records::references(RecordKind::Group, &details.identifiers);
    let entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Allowed, targets);
    write_change(ctx, registry, languages, (&before, details, fields), kept, entry).await
}

/// Writes what is to be said of a group now, if it is still as it was before, with the numbers that its codes get, and shows those fields of it.
pub(super) async fn write_change(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (before, details, fields): (&Group, GroupDetails, FieldSet),
    kept: Option<open::Kept>,
    entry: AuditEntry,
) -> Result<GroupView, AppError> {
    let entry = audit::with_changes(ctx, entry, changed::of_group(&before.details, &details));
    let operations = std::iter::once(Operation::update(before.id, before.meta.version, details))
        .chain(kept.as_ref().and_then(open::Kept::operation));
    let group = records::commit(registry, records::write(ctx, operations.collect(), entry)).await?;
    drop(kept);
    answer(ctx, registry, languages, (group, fields), Wanted::ALL).await
}

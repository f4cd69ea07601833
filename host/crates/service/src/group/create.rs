//! Registering a group.

use super::check::{check_members, check_relationships, resolve_references};
use super::hidden::Hidden;
use super::shown::Shown;
use super::{GroupView, Wanted, answer, codes_of, reference};
use crate::codes::{Held, resolve_group};
use crate::registry::Registry;
use crate::{audit, changed, identifiers, open, records, visibility, written};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordKind, VersionCondition};
use daftar_domain::scope::Resource;
use daftar_store::{Operation, Write};
use daftar_vocabulary::LanguagePreference;

/// Registers a group.
///
/// # Errors
/// [`AppError::FieldNotGranted`], [`AppError::Invalid`] with every field that is not right, members that do not resolve among them;
/// [`AppError::IdentifierInUse`].
pub async fn create(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    draft: GroupDetails<CodeUri, IdentifierKey>,
) -> Result<GroupView, AppError> {
    // Others may give the numbers that its codes were to get.
    let attempt = async || {
        let (write, kept) = prepare(ctx, registry, draft.clone()).await?;
        let group = records::commit::<GroupDetails>(registry, write).await?;
        drop(kept);
        Ok(group)
    };
    let group = records::retried(&VersionCondition::Any, attempt).await?;
    let fields = visibility::of_written(ctx, registry, RecordKind::Group, group.id).await?;
    answer(ctx, registry, languages, (group, fields), Wanted::ALL).await
}

/// Whether packs must be asked about codes of a group: those get numbers when it is written.
pub(crate) fn must_ask(registry: &Registry, draft: &GroupDetails<CodeUri, IdentifierKey>) -> bool {
    let generation = registry.vocabularies.current();
    generation.has_open_vocabularies() && codes_of(draft).iter().any(|uri| generation.must_ask(uri))
}

/// Checks a new group, and says what is to be written, with the numbers of codes that are given with it: no other use case gives any while
/// these are there. Whether an identifier is free is found out by writing.
///
/// # Errors
/// As [`create`], but [`AppError::IdentifierInUse`].
pub(crate) async fn prepare(
    ctx: &OpContext,
    registry: &Registry,
    draft: GroupDetails<CodeUri, IdentifierKey>,
) -> Result<(Write, Option<open::Kept>), AppError> {
    ctx.trail.about(records::references(RecordKind::Group, &draft.identifiers));
    let named = written::of_group(&draft);
    written::check_new(ctx, Resource::Group, &named)?;
    let consulted = open::consult(registry, registry.vocabularies.current(), || codes_of(&draft)).await?;
    let generation = consulted.generation.clone();
    let mut problems = Vec::new();
    identifiers::check((&generation, utc_day(ctx.now)), RecordKind::Group, &[], &draft.identifiers, &mut problems);
    let coded = resolve_group(&generation, &Held::default(), draft, &mut problems);
    let details = resolve_references(ctx, registry, (None, &Shown::default()), coded, &mut problems).await?;
    check_relationships(&details, &mut problems);
    check_members(ctx, &generation, &details, &Hidden::default(), &mut problems);
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let (details, kept) = consulted.finalise(ctx, registry, details).await?;
    let targets = details.identifiers.iter().map(|identifier| reference(&identifier.key)).collect();
    let operations = std::iter::once(Operation::create(details)).chain(kept.as_ref().and_then(open::Kept::operation));
    let entry = audit::entry(ctx, AuditAction::Create, AuditOutcome::Allowed, targets);
    Ok((records::write(ctx, operations.collect(), entry.with_fields(changed::of_new(&named))), kept))
}

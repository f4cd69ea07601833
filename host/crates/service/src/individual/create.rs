//! Registering a person.

use std::sync::Arc;

use super::{IndividualDraft, IndividualView, Wanted, beside, codes_of, reference};
use crate::codes::{CodeView, Held, resolve_individual};
use crate::registry::Registry;
use crate::{audit, changed, identifiers, open, records, visibility, written};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::record::{RecordKind, VersionCondition};
use daftar_domain::scope::Resource;
use daftar_store::{Operation, Write};
use daftar_vocabulary::{Generation, LanguagePreference};

/// Registers a person.
///
/// # Errors
/// [`AppError::FieldNotGranted`], [`AppError::Invalid`] with every field that is not right, [`AppError::IdentifierInUse`].
pub async fn create(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    draft: IndividualDraft,
) -> Result<IndividualView, AppError> {
    // Others may give the numbers that its codes were to get.
    let attempt = async || {
        let Prepared { write, generation, kept } = prepare(ctx, registry, draft.clone()).await?;
        let individual = records::commit(registry, write).await?;
        drop(kept);
        Ok((individual, generation))
    };
    let (individual, generation) = records::retried(&VersionCondition::Any, attempt).await?;
    let fields = visibility::of_written(ctx, registry, RecordKind::Individual, individual.id).await?;
    let beside = beside(ctx, registry, (&individual, &fields), Wanted::ALL).await?;
    Ok(IndividualView { individual, fields, beside, codes: CodeView::new(generation, languages) })
}

/// Whether packs must be asked about codes of a person: those get numbers when it is written, one record after the other.
pub(crate) fn must_ask(registry: &Registry, draft: &IndividualDraft) -> bool {
    let generation = registry.vocabularies.current();
    generation.has_open_vocabularies() && codes_of(&draft.details).iter().any(|uri| generation.must_ask(uri))
}

/// A new person that was checked.
pub(crate) struct Prepared {
    /// What is to be written.
    pub write: Write,
    /// The vocabularies that its codes were checked by.
    pub generation: Arc<Generation>,
    /// Numbers of codes that are given with the write; no other use case gives any while it is there.
    pub kept: Option<open::Kept>,
}

/// Checks a new person, and says what is to be written. Looks at no record: whether an identifier is free is found out by writing.
///
/// # Errors
/// As [`create`], but [`AppError::IdentifierInUse`].
pub(crate) async fn prepare(
    ctx: &OpContext,
    registry: &Registry,
    IndividualDraft { details: draft, photo }: IndividualDraft,
) -> Result<Prepared, AppError> {
    ctx.trail.about(records::references(RecordKind::Individual, &draft.identifiers));
    let named = written::of_individual(&draft);
    written::check_new(ctx, Resource::Individual, &named)?;
    let consulted = open::consult(registry, registry.vocabularies.current(), || codes_of(&draft)).await?;
    let generation = consulted.generation.clone();
    let mut problems = Vec::new();
    identifiers::check((&generation, utc_day(ctx.now)), RecordKind::Individual, &[], &draft.identifiers, &mut problems);
    let details = resolve_individual(&generation, &Held::default(), draft, &mut problems);
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let (details, kept) = consulted.finalise(ctx, registry, details).await?;
    let generation = kept.as_ref().map_or(generation, |kept| Arc::clone(&kept.generation));
    let targets = details.identifiers.iter().map(|identifier| reference(&identifier.key)).collect();
    let operations = std::iter::once(Operation::create(details))
        .chain(photo.map(Operation::PutPhoto))
        .chain(kept.as_ref().and_then(open::Kept::operation));
    let entry = audit::entry(ctx, AuditAction::Create, AuditOutcome::Allowed, targets);
    let write = records::write(ctx, operations.collect(), entry.with_fields(changed::of_new(&named)));
    Ok(Prepared { write, generation, kept })
}

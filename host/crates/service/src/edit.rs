//! Registering and changing records that clients write: people and groups, in one and the same way.
//!
//! **Invariant:** a field that the client may not write stays as it is, and what it may not see does not decide whether its change is
//! accepted.

pub(crate) mod hidden;
pub(crate) mod references;
pub(crate) mod relationship;

use std::sync::Arc;

use self::hidden::Hidden;
use self::references::{Found, Shown, resolve};
use super::codes::{self, Held, with_undeclared};
use super::registry::Registry;
use super::visibility::{self, Seen};
use super::written::{self, Spoken};
use super::{audit, changed, identifiers, open, records};
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::change::Details;
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::{Photo, PhotoReference};
use daftar_domain::record::{Fields, Record, RecordType, VersionCondition};
use daftar_domain::value::Value;
use daftar_store::{Operation, RecordDetails, Write};
use daftar_vocabulary::{Generation, LanguagePreference};

/// A record as a request gives it: codes by URI, other records by identifier, and a photo where it brings a new one.
#[derive(Debug, Clone)]
pub struct Draft<T> {
    /// What the record is to say; it holds which photo is meant, new or not.
    pub details: Fields<T, CodeUri, IdentifierKey>,
    /// The photo that is to be stored.
    pub photo: Option<Photo>,
}

impl<T> From<Fields<T, CodeUri, IdentifierKey>> for Draft<T> {
    /// Brings no new photo.
    fn from(details: Fields<T, CodeUri, IdentifierKey>) -> Self {
        Self { details, photo: None }
    }
}

/// A type of record that clients register and change, with what is particular to it.
pub(crate) trait Editable: RecordType + Clone {
    /// A record as it is shown to a client.
    type View: Send + Sync;

    /// A record with those fields, as a change starts from it that writes these; nothing of it is shown to a client.
    fn present(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        record: Seen<Fields<Self>>,
        written: &FieldSet,
    ) -> impl Future<Output = Result<Self::View, AppError>> + Send;

    /// The records that a view refers to, in the fields that the client sees.
    fn shown(view: &Self::View, seen: &FieldSet) -> Shown;

    /// Checks what the schema does not say. Problems name items as the client sees them, without the hidden ones.
    fn check(
        ctx: &OpContext,
        generation: &Generation,
        details: &Fields<Self>,
        hidden: &Hidden,
        problems: &mut Vec<FieldProblem>,
    );

    /// The answer to a write.
    fn answer(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        written: Seen<Fields<Self>>,
    ) -> impl Future<Output = Result<Self::View, AppError>> + Send;
}

/// Says what a record is to be, given what the client knows of it and what it writes.
pub(crate) type Make<'m, T> = dyn Fn(&<T as Editable>::View) -> Result<Draft<T>, AppError> + Send + Sync + 'm;

/// Registers a record.
///
/// # Errors
/// [`AppError::FieldNotGranted`], [`AppError::Invalid`] with every field that is not right, references that lead nowhere among them;
/// [`AppError::IdentifierInUse`].
pub(crate) async fn create<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    draft: Draft<T>,
) -> Result<T::View, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let record = register(ctx, registry, draft).await?;
    let fields = visibility::of_written(ctx, registry, T::KIND, record.id).await?;
    T::answer(ctx, registry, languages, Seen { record, fields }).await
}

/// Registers a record, and shows nothing of it.
///
/// # Errors
/// As [`create`].
pub(crate) async fn register<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    draft: Draft<T>,
) -> Result<Arc<Record<Fields<T>>>, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    // Others may give the numbers that its codes were to get.
    let attempt = async || {
        let Prepared { write, kept } = prepare(ctx, registry, draft.clone()).await?;
        let record = records::commit(registry, write).await?;
        drop(kept);
        Ok(record)
    };
    records::retried(&VersionCondition::Any, attempt).await
}

/// Whether packs must be asked about codes of a draft: those get numbers when it is written, one record after the other.
pub(crate) fn must_ask<T: RecordType>(registry: &Registry, draft: &Draft<T>) -> bool {
    let generation = registry.vocabularies.current();
    generation.has_open_vocabularies() && codes::of_draft(&draft.details).iter().any(|uri| generation.must_ask(uri))
}

/// A new record that was checked.
pub(crate) struct Prepared {
    /// What is to be written.
    pub write: Write,
    /// Numbers of codes that are given with the write; no other use case gives any while it is there.
    pub kept: Option<open::Kept>,
}

/// Checks a new record, and says what is to be written. Looks at no records but those that it refers to: whether an identifier is free is
/// found out by writing.
///
/// # Errors
/// As [`create`], but [`AppError::IdentifierInUse`].
pub(crate) async fn prepare<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    Draft { details: draft, photo }: Draft<T>,
) -> Result<Prepared, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    ctx.trail.about(records::references(T::KIND, &draft.identifiers));
    let named = written::present(&draft);
    written::check_new(ctx, T::KIND.resource(), &named)?;
    let consulted = open::consult(registry, registry.vocabularies.current(), || codes::of_draft(&draft)).await?;
    let generation = Arc::clone(&consulted.generation);
    let mut problems = Vec::new();
    identifiers::check((&generation, utc_day(ctx.now)), T::KIND, &[], &draft.identifiers, &mut problems);
    let found = Found::of(ctx, registry, &Shown::default(), &draft).await?;
    let details = resolve(&generation, &Held::default(), Some((&found, None)), draft, &mut problems);
    T::check(ctx, &generation, &details, &Hidden::default(), &mut problems);
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let (details, kept) = consulted.finalise(ctx, registry, details).await?;
    let targets = records::references(T::KIND, &details.identifiers);
    let operations = std::iter::once(Operation::create(details))
        .chain(photo.map(Operation::PutPhoto))
        .chain(kept.as_ref().and_then(open::Kept::operation));
    let entry = audit::entry(ctx, AuditAction::Create, AuditOutcome::Allowed, targets);
    let write = records::write(ctx, operations.collect(), entry.with_fields(changed::of_new(&named)));
    Ok(Prepared { write, kept })
}

/// Changes a record: `make` says what it is to be. What the client may not write stays as it is.
///
/// # Errors
/// [`AppError::FieldNotGranted`], those of `make` and of [`create`], [`AppError::NotFound`], [`AppError::Ambiguous`], and
/// [`AppError::VersionMismatch`] when the condition is not met.
pub(crate) async fn change<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    spoken: &Spoken,
    make: &Make<'_, T>,
) -> Result<T::View, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let attempt = || change_once::<T>(ctx, registry, languages.clone(), (key, condition), spoken, make);
    let refusal =
        || audit::entry(ctx, AuditAction::Update, AuditOutcome::Refused, vec![records::reference(T::KIND, key)]);
    records::changed(ctx, registry, condition, refusal, attempt).await
}

async fn change_once<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    spoken: &Spoken,
    make: &Make<'_, T>,
) -> Result<T::View, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let Seen { record: before, fields } = visibility::find_record::<Fields<T>>(ctx, registry, key).await?;
    let written = written::of_change(ctx, T::KIND.resource(), &fields, spoken)?;
    records::check_version(condition, before.meta.version)?;
    let known = fields.union(&written);
    let present = Seen { record: Arc::clone(&before), fields: known.clone() };
    let present = T::present(ctx, registry, languages.clone(), present, &written).await?;
    let Draft { details: draft, photo } = make(&present)?;
    let draft = written::only(draft, &written);
    let consulted = open::consult(registry, registry.vocabularies.current(), || codes::of_draft(&draft)).await?;
    let generation = Arc::clone(&consulted.generation);
    let mut problems = Vec::new();
    check_identifiers(ctx, &generation, &before.details, &draft, &mut problems)?;
    let hidden = Hidden::of(ctx, registry, &before.details).await?;
    let held = Held::of::<T>(&hidden.without(&before.details));
    if known != fields {
        // A patch is merged with fields that the client may not read: its codes are validated without them.
        let seen = Seen { record: Arc::clone(&before), fields: fields.clone() };
        let seen = T::present(ctx, registry, languages.clone(), seen, &written).await?;
        drop(resolve(&generation, &held.seen(&fields), None, make(&seen)?.details, &mut problems));
    }
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    let found = Found::of(ctx, registry, &T::shown(&present, &fields), &draft).await?;
    let details = resolve(&generation, &held, Some((&found, Some(before.id))), draft, &mut problems);
    if hidden.is_empty() {
        T::check(ctx, &generation, &details, &hidden, &mut problems);
    } else {
        let whole = hidden.kept(&before.details, details.clone(), &mut problems);
        T::check(ctx, &generation, &whole, &hidden, &mut problems);
    }
    if !problems.is_empty() {
        return Err(AppError::Invalid(problems));
    }
    // Before what the record holds is joined to it, in which a number that was good for the request only may be another code's.
    let (details, kept) = consulted.finalise(ctx, registry, details).await?;
    let details = hidden.kept(&before.details, details, &mut problems);
    let mut details = written::keep(&before.details, details, &written);
    details.extension = with_undeclared(&generation, &before.details.extension, details.extension);
    let photo = photo.filter(|photo| {
        let has = |details: &Fields<T>| has_photo(details, photo.reference());
        has(&details) && !has(&before.details)
    });
    let targets = records::references(T::KIND, &details.identifiers);
    let entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Allowed, targets);
    write::<T>(ctx, registry, languages, (&before, details, fields), (photo, kept), entry).await
}

/// Writes what a record is to say now, if it is still as it was before, with a new photo and the numbers that its codes get, and shows those
/// fields of it.
pub(crate) async fn write<T: Editable>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (before, details, fields): (&Record<Fields<T>>, Fields<T>, FieldSet),
    (photo, kept): (Option<Photo>, Option<open::Kept>),
    entry: AuditEntry,
) -> Result<T::View, AppError>
where
    Fields<T>: Details + Into<RecordDetails>,
{
    let entry = audit::with_changes(ctx, entry, changed::fields(Some(&before.details), &details));
    let operations = std::iter::once(Operation::update(before.id, before.meta.version, details))
        .chain(photo.map(Operation::PutPhoto))
        .chain(kept.as_ref().and_then(open::Kept::operation));
    let record = records::commit(registry, records::write(ctx, operations.collect(), entry)).await?;
    drop(kept);
    T::answer(ctx, registry, languages, Seen { record, fields }).await
}

fn check_identifiers<T: RecordType>(
    ctx: &OpContext,
    generation: &Generation,
    before: &Fields<T>,
    draft: &Fields<T, CodeUri, IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Result<(), AppError> {
    let (before, now) = (&before.identifiers, &draft.identifiers);
    written::check_identifiers(ctx, T::KIND.resource(), before, now)?;
    identifiers::check((generation, utc_day(ctx.now)), T::KIND, before, now, problems);
    identifiers::check_kept(before, now, problems);
    Ok(())
}

fn has_photo<T>(details: &Fields<T>, reference: PhotoReference) -> bool {
    details.iter().any(|(_, value)| matches!(value, Value::Photo(photo) if **photo == reference))
}

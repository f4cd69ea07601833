//! What is done with people: create, read, search.

use std::sync::Arc;

use super::codes::{CodeView, Held, resolve_individual, with_undeclared};
use super::open;
use super::registry::Registry;
use super::{audit, identifiers, records};
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::code::CodeUri;
use crate::domain::identifier::IdentifierKey;
use crate::domain::individual::{Individual, IndividualDetails};
use crate::domain::record::{RecordKind, VersionCondition};
use crate::domain::search::{CodeCondition, DateCondition, IndividualQuery, Page};
use crate::domain::vocabulary::CodedField;
use crate::error::AppError;
use crate::store::{Operation, Write, Written};
use crate::vocab::LanguagePreference;

/// A person with the way its codes are shown.
pub struct IndividualView {
    /// The person.
    pub individual: Arc<Individual>,
    /// How its codes are shown.
    pub codes: CodeView,
}

/// Registers a person.
///
/// # Errors
/// [`AppError::Invalid`] with every field that is not right, [`AppError::IdentifierInUse`].
pub async fn create(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    draft: IndividualDetails<CodeUri>,
) -> Result<IndividualView, AppError> {
    let consulted = open::consult(registry, registry.vocabularies.current(), || codes_of(&draft)).await?;
    let generation = consulted.generation.clone();
    let mut problems = Vec::new();
    identifiers::check(&generation, RecordKind::Individual, &[], &draft.identifiers, &mut problems);
    let details = match resolve_individual(&generation, &Held::default(), draft) {
        Ok(details) if problems.is_empty() => details,
        Ok(_) => return Err(AppError::Invalid(problems)),
        Err(AppError::Invalid(found)) => {
            problems.extend(found);
            return Err(AppError::Invalid(problems));
        }
        Err(other) => return Err(other),
    };
    let (details, generation) = if consulted.has_asked() {
        let kept = consulted.keep(registry).await?;
        (details.map_codes(|_, _, value| kept.lasting(value)), kept.generation)
    } else {
        (details, generation)
    };
    let targets = details.identifiers.iter().map(|identifier| reference(&identifier.key)).collect();
    let write = Write {
        at: ctx.now,
        source: ctx.client().cloned(),
        operations: vec![Operation::CreateIndividual(details)],
        audit: vec![audit::entry(ctx, AuditAction::Create, AuditOutcome::Allowed, targets)],
    };
    let committed = registry.store.commit(write).await?;
    match committed.written.into_iter().next() {
        Some(Written::Individual(individual)) => {
            Ok(IndividualView { individual, codes: CodeView::new(generation, languages) })
        }
        Some(Written::Group(_) | Written::Client(_) | Written::Record(_) | Written::Setting(_)) | None => {
            Err(AppError::internal("the store answered the creation of an individual with something else"))
        }
    }
}

/// Every code of a draft.
pub(super) fn codes_of(draft: &IndividualDetails<CodeUri>) -> Vec<CodeUri> {
    let mut codes = Vec::new();
    draft.clone().map_codes(|_, _, code| codes.push(code));
    codes
}

/// Changes what is said of a person: `make` says what it is to be, given what it is.
///
/// # Errors
/// Those of `make` and of [`create`], [`AppError::NotFound`], [`AppError::Ambiguous`], and [`AppError::VersionMismatch`] when
/// the condition is not met.
pub async fn change(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    make: &(dyn Fn(&IndividualView) -> Result<IndividualDetails<CodeUri>, AppError> + Send + Sync),
) -> Result<IndividualView, AppError> {
    let attempt = || change_once(ctx, registry, languages.clone(), (key, condition), make);
    let outcome = records::retried(condition, attempt).await;
    if outcome.is_err() {
        let entry = audit::entry(ctx, AuditAction::Update, AuditOutcome::Refused, vec![reference(key)]);
        registry.audit.record(entry).await?;
    }
    outcome
}

async fn change_once(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, condition): (&IdentifierKey, &VersionCondition),
    make: &(dyn Fn(&IndividualView) -> Result<IndividualDetails<CodeUri>, AppError> + Send + Sync),
) -> Result<IndividualView, AppError> {
    let individual = find(registry, key).await?;
    let before = Arc::clone(&individual);
    records::check_version(condition, before.meta.version)?;
    let generation = registry.vocabularies.current();
    let codes = CodeView::new(Arc::clone(&generation), languages.clone());
    let present = IndividualView { individual, codes };
    let draft = make(&present)?;
    let consulted = open::consult(registry, Arc::clone(&generation), || codes_of(&draft)).await?;
    let generation = consulted.generation.clone();
    let mut problems = Vec::new();
    let known = &before.details.identifiers;
    identifiers::check(&generation, RecordKind::Individual, known, &draft.identifiers, &mut problems);
    identifiers::check_kept(known, &draft.identifiers, &mut problems);
    let details = match resolve_individual(&generation, &Held::of_individual(&before.details), draft) {
        Ok(details) if problems.is_empty() => details,
        Ok(_) => return Err(AppError::Invalid(problems)),
        Err(AppError::Invalid(found)) => {
            problems.extend(found);
            return Err(AppError::Invalid(problems));
        }
        Err(other) => return Err(other),
    };
    let extension = with_undeclared(&generation, &before.details.extension, details.extension);
    let details = IndividualDetails { extension, ..details };
    let (details, codes) = if consulted.has_asked() {
        let kept = consulted.keep(registry).await?;
        let codes = CodeView::new(Arc::clone(&kept.generation), languages);
        (details.map_codes(|_, _, value| kept.lasting(value)), codes)
    } else {
        (details, present.codes)
    };
    let targets = records::references(RecordKind::Individual, &details.identifiers);
    let write = Write {
        at: ctx.now,
        source: ctx.client().cloned(),
        operations: vec![Operation::UpdateIndividual(before.id, before.meta.version, details)],
        audit: vec![audit::entry(ctx, AuditAction::Update, AuditOutcome::Allowed, targets)],
    };
    let committed = registry.store.commit(write).await?;
    match committed.written.into_iter().next() {
        Some(Written::Individual(individual)) => Ok(IndividualView { individual, codes }),
        Some(Written::Group(_) | Written::Client(_) | Written::Record(_) | Written::Setting(_)) | None => {
            Err(AppError::internal("the store answered the change of an individual with something else"))
        }
    }
}

/// Reads a person by identifier.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`].
pub async fn read(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    key: &IdentifierKey,
) -> Result<IndividualView, AppError> {
    let found = find(registry, key).await;
    let outcome = if found.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
    registry.audit.record(audit::entry(ctx, AuditAction::Read, outcome, vec![reference(key)])).await?;
    Ok(IndividualView { individual: found?, codes: CodeView::new(registry.vocabularies.current(), languages) })
}

async fn find(registry: &Registry, key: &IdentifierKey) -> Result<Arc<Individual>, AppError> {
    let id = identifiers::find(&*registry.store, RecordKind::Individual, key).await?;
    let individual = registry.store.individual(id).await?;
    individual.ok_or_else(|| AppError::internal("an identifier leads to a record that is not there"))
}

/// Writes `Individual/<system>|<value>`.
#[must_use]
pub fn reference(key: &IdentifierKey) -> String {
    format!("{}/{}", RecordKind::Individual, key.reveal())
}

/// Conditions of a search as a client names them.
#[derive(Debug, Default)]
pub struct SearchRequest {
    /// Has that identifier.
    pub identifiers: Vec<IdentifierKey>,
    /// Words of the name.
    pub name_words: Vec<String>,
    /// Conditions on the day of birth.
    pub birth_date: Vec<DateCondition>,
    /// Holds that code.
    pub codes: Vec<(CodedField, CodeUri)>,
    /// Whether the record is in use.
    pub active: Option<bool>,
}

/// What a search found.
pub struct SearchPage {
    /// How many there are in all.
    pub total: u64,
    /// Those of the page, in order.
    pub individuals: Vec<Arc<Individual>>,
    /// How their codes are shown.
    pub codes: CodeView,
}

/// Searches people.
///
/// # Errors
/// [`AppError::Malformed`] when a code is of the wrong vocabulary for its field.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    request: SearchRequest,
    page: Page,
) -> Result<SearchPage, AppError> {
    let codes = || request.codes.iter().map(|(_, code)| code.clone()).collect();
    let generation = open::consult(registry, registry.vocabularies.current(), codes).await?.generation;
    let mut conditions = Vec::with_capacity(request.codes.len());
    for (field, code) in &request.codes {
        let number = generation.resolve_filter(*field, code);
        let number = number.map_err(|problem| AppError::Malformed(format!("`{}`: {problem}", field.path())))?;
        conditions.push(CodeCondition { field: *field, any_of: number.into_iter().collect() });
    }
    let query = IndividualQuery {
        identifiers: request.identifiers,
        name_words: request.name_words,
        birth_date: request.birth_date,
        codes: conditions,
        active: request.active,
    };
    let found = registry.columns.snapshot().search(&query, page);
    let individuals = registry.store.individuals(&found.ids).await?;
    let targets = individuals.iter().filter_map(|individual| individual.details.identifiers.first());
    let targets = targets.map(|identifier| reference(&identifier.key)).collect();
    let mut entry = audit::entry(ctx, AuditAction::Search, AuditOutcome::Allowed, targets);
    entry.note = Some(searched_fields(&query));
    registry.audit.record(entry).await?;
    // Taken after the records, so that a code published meanwhile has its name.
    Ok(SearchPage { total: found.total, individuals, codes: CodeView::new(registry.vocabularies.current(), languages) })
}

/// Which fields a search looked at, never for what.
fn searched_fields(query: &IndividualQuery) -> String {
    let mut fields: Vec<&str> = Vec::new();
    let named = [
        ("identifier", query.identifiers.is_empty()),
        ("name", query.name_words.is_empty()),
        ("birth_date", query.birth_date.is_empty()),
        ("active", query.active.is_none()),
    ];
    fields.extend(named.iter().filter(|(_, is_unused)| !is_unused).map(|(name, _)| *name));
    fields.extend(query.codes.iter().map(|condition| condition.field.path()));
    format!("searched by {}", if fields.is_empty() { "nothing".to_owned() } else { fields.join(", ") })
}

//! Searching people.

use super::reference;
use crate::columns::{SearchLimits, Sorting};
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::code::CodeUri;
use crate::domain::identifier::IdentifierKey;
use crate::domain::individual::IndividualDetails;
use crate::domain::record::RecordKind;
use crate::domain::scope::Resource;
use crate::domain::search::{CodeCondition, CodedPlace, DateCondition, IndividualQuery, Page};
use crate::domain::vocabulary::CodedField;
use crate::error::AppError;
use crate::service::codes::CodeView;
use crate::service::registry::Registry;
use crate::service::visibility::{self, Seen};
use crate::service::{audit, open};
use crate::vocab::LanguagePreference;

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

impl SearchRequest {
    /// The fields that it has conditions on.
    fn fields(&self) -> impl Iterator<Item = &'static str> + '_ {
        let conditions = [
            ("name", !self.name_words.is_empty()),
            ("birth_date", !self.birth_date.is_empty()),
            ("active", self.active.is_some()),
        ];
        let used = conditions.into_iter().filter(|(_, is_used)| *is_used).map(|(field, _)| field);
        used.chain(self.codes.iter().map(|(field, _)| field.path()))
    }
}

/// What a search found.
pub struct SearchPage {
    /// How many there are in all.
    pub total: u64,
    /// Those of the page, in order.
    pub individuals: Vec<Seen<IndividualDetails>>,
    /// How their codes are shown.
    pub codes: CodeView,
}

/// Searches people.
///
/// # Errors
/// [`AppError::FieldNotGranted`], [`AppError::Malformed`] when a code is of the wrong vocabulary for its field.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    request: SearchRequest,
    page: Page,
) -> Result<SearchPage, AppError> {
    visibility::check_filters(ctx, Resource::Individual, request.fields())?;
    let codes = || request.codes.iter().map(|(_, code)| code.clone()).collect();
    let generation = open::consult(registry, registry.vocabularies.current(), codes).await?.generation;
    let mut conditions = Vec::with_capacity(request.codes.len());
    for (field, code) in &request.codes {
        let number = generation.resolve_filter(*field, code);
        let number = number.map_err(|problem| AppError::Malformed(format!("`{}`: {problem}", field.path())))?;
        conditions.push(CodeCondition { field: CodedPlace::Field(*field), any_of: number.into_iter().collect() });
    }
    let query = IndividualQuery {
        identifiers: request.identifiers,
        name_words: request.name_words,
        birth_date: request.birth_date,
        codes: conditions,
        active: request.active,
        ..IndividualQuery::default()
    };
    let snapshot = registry.columns.snapshot();
    let limits = visibility::limits(ctx, &snapshot, RecordKind::Individual);
    let limits = SearchLimits { records: limits.as_deref(), groups: None };
    let found = snapshot.search(&query, limits, Sorting::REGISTERED, &page.into());
    let individuals = registry.store.individuals(&found.ids).await?;
    let targets = individuals.iter().filter_map(|individual| individual.details.identifiers.first());
    let targets = targets.map(|identifier| reference(&identifier.key)).collect();
    let mut entry = audit::entry(ctx, AuditAction::Search, AuditOutcome::Allowed, targets);
    entry.note = Some(searched_fields(&query));
    registry.audit.record(ctx, entry).await?;
    let seen = individuals.into_iter().filter_map(|record| {
        let fields = visibility::of_found(ctx, registry, RecordKind::Individual, record.id)?;
        Some(Seen { record, fields })
    });
    let individuals = seen.collect();
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
    let coded: Vec<_> = query.codes.iter().map(|condition| condition.field.field()).collect();
    fields.extend(coded.iter().map(AsRef::as_ref));
    format!("searched by {}", if fields.is_empty() { "nothing".to_owned() } else { fields.join(", ") })
}

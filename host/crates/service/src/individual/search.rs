//! Searching people.

use super::{People, reference, related};
use crate::codes::CodeView;
use crate::registry::Registry;
use crate::search::{self, CodeFilter, FoundPage, Paging, Reach};
use crate::visibility::{self, Seen};
use crate::{audit, open, records};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::{days_since_epoch, utc_day};
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_domain::search::found::Sorting;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::{CodedPlace, DateConditions, IndividualQuery, Page, PlaceCondition, TextConditions};
use daftar_domain::vocabulary::CodedField;
use daftar_store::IDENTIFIER_OWNERS_MAX;
use daftar_vocabulary::{Generation, LanguagePreference};

/// Which groups a person is asked to belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupFilter {
    /// To none at all.
    None,
    /// To the one that has or had that identifier.
    Identifier(IdentifierKey),
}

impl GroupFilter {
    fn identifier(&self) -> Option<&IdentifierKey> {
        match self {
            Self::None => None,
            Self::Identifier(key) => Some(key),
        }
    }
}

/// Conditions of a search as a client names them, all of which must hold.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// Has that identifier.
    pub identifiers: Vec<IdentifierKey>,
    /// Conditions on names and addresses.
    pub texts: TextConditions,
    /// Conditions on days.
    pub dates: DateConditions,
    /// Holds that code.
    pub codes: Vec<CodeFilter>,
    /// Whether the record is in use.
    pub active: Option<bool>,
    /// Belongs to that group, or to none.
    pub groups: Vec<GroupFilter>,
    /// Belongs to a group in that role; to those named, where any are.
    pub roles: Vec<(CodeUri, Reach)>,
    /// When the record was last written.
    pub last_updated: Vec<InstantCondition>,
}

/// What a search found.
pub struct FoundPeople {
    /// A page of them.
    pub page: FoundPage<Seen<IndividualDetails>>,
    /// The other people that these have relationships to, where they are wanted.
    pub related: People,
    /// How codes are shown.
    pub codes: CodeView,
}

/// Checks that the client may look at every field that a search filters or sorts by. `filtered` are fields of the API.
///
/// # Errors
/// [`AppError::FieldNotGranted`], and [`AppError::MissingScope`] where groups are looked at without the scope to read them.
pub fn check_search(ctx: &OpContext, filtered: &[String], by_groups: bool, paging: &Paging) -> Result<(), AppError> {
    if by_groups {
        visibility::check_membership(ctx, FieldUse::Filter)?;
    }
    search::check_fields(ctx, Resource::Individual, filtered, &paging.sort)
}

/// Searches people; `are_related_wanted` says whether their relationships are wanted, and who the other people are. What it looks at was
/// checked by [`check_search`].
///
/// # Errors
/// [`AppError::FieldNotGranted`], [`AppError::Malformed`] when a code is of the wrong vocabulary for its field, [`AppError::Invalid`] when the
/// system of an identifier is not known.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    request: SearchRequest,
    (paging, are_related_wanted): (&Paging, (bool, bool)),
) -> Result<FoundPeople, AppError> {
    let roles = request.roles.iter().map(|(code, _)| code);
    let codes = || request.codes.iter().map(|filter| &filter.code).chain(roles).cloned().collect();
    let generation = open::consult(registry, registry.vocabularies.current(), codes).await?.generation;
    let query = resolve(ctx, registry, &generation, request).await?;
    let ranks = search::code_ranks(&generation, &paging.sort);
    let sorting = search::sorting(paging, &ranks);
    let found = registry.index.search_individuals(&query, visibility::sees(ctx), sorting, &paging.window).await?;
    let individuals = registry.store.find_all::<IndividualDetails>(&found.ids).await?;
    let targets = individuals.iter().filter_map(|individual| records::called(&individual.details.identifiers));
    let targets = targets.map(reference).collect();
    let entry = audit::entry(ctx, AuditAction::Search, AuditOutcome::Allowed, targets);
    let note = search::note(searched_fields(&query), &paging.sort);
    registry.audit.record(ctx, entry.with_note(note)).await?;
    let ids: Vec<RecordId> = individuals.iter().map(|record| record.id).collect();
    let fields = visibility::of_each_found(ctx, registry, RecordKind::Individual, &ids).await?;
    let seen = individuals.into_iter().zip(fields);
    let seen = seen.filter_map(|(record, fields)| Some(Seen { record, fields: fields? }));
    let mut records: Vec<Seen<IndividualDetails>> = seen.collect();
    let related = related(ctx, registry, &mut records, are_related_wanted).await?;
    let page = FoundPage { total: found.total, records, next: found.next };
    // Taken after the records, so that a code published meanwhile has its name.
    Ok(FoundPeople { page, related, codes: CodeView::new(registry.vocabularies.current(), languages) })
}

/// Everybody whom a search finds, by their keys, for the administrator.
///
/// # Errors
/// As [`search()`].
pub async fn find_all(ctx: &OpContext, registry: &Registry, request: SearchRequest) -> Result<Vec<RecordId>, AppError> {
    let roles = request.roles.iter().map(|(code, _)| code);
    let codes = || request.codes.iter().map(|filter| &filter.code).chain(roles).cloned().collect();
    let generation = open::consult(registry, registry.vocabularies.current(), codes).await?.generation;
    let query = resolve(ctx, registry, &generation, request).await?;
    let all = Page { offset: 0, count: u32::MAX }.into();
    let found = registry.index.search_individuals(&query, visibility::sees(ctx), Sorting::REGISTERED, &all).await?;
    let mut ids = found.ids;
    ids.sort_unstable();
    Ok(ids)
}

/// What a search asks for in terms of the register, and the fields that it looks at.
///
/// # Errors
/// As [`search()`].
pub async fn asked(
    ctx: &OpContext,
    registry: &Registry,
    request: SearchRequest,
) -> Result<(IndividualQuery, Vec<String>), AppError> {
    let roles = request.roles.iter().map(|(code, _)| code);
    let codes = || request.codes.iter().map(|filter| &filter.code).chain(roles).cloned().collect();
    let generation = open::consult(registry, registry.vocabularies.current(), codes).await?.generation;
    let query = resolve(ctx, registry, &generation, request).await?;
    let fields = searched_fields(&query);
    Ok((query, fields))
}

/// What a client asks for in terms of the register.
async fn resolve(
    ctx: &OpContext,
    registry: &Registry,
    generation: &Generation,
    request: SearchRequest,
) -> Result<IndividualQuery, AppError> {
    visibility::check_systems(ctx, registry, ("identifier", RecordKind::Individual), &request.identifiers).await?;
    let groups = request.groups.iter().filter_map(GroupFilter::identifier);
    visibility::check_systems(ctx, registry, ("group", RecordKind::Group), groups).await?;
    let codes: Result<Vec<_>, _> = request.codes.iter().map(|filter| filter.resolve(generation)).collect();
    let mut roles = Vec::with_capacity(request.roles.len());
    for (code, reach) in request.roles {
        let place = CodedPlace::Field(CodedField::MemberRole);
        roles.push(CodeFilter { place, code, reach }.resolve(generation)?.any_of);
    }
    let mut place = PlaceCondition { day: days_since_epoch(utc_day(ctx.now)), roles, ..PlaceCondition::default() };
    let is_by_place = !request.groups.is_empty() || !place.roles.is_empty();
    for filter in request.groups {
        match filter {
            GroupFilter::None => place.is_none = true,
            GroupFilter::Identifier(key) => place.groups.push(carriers(registry, RecordKind::Group, &key).await?),
        }
    }
    Ok(IndividualQuery {
        identifiers: request.identifiers,
        texts: request.texts,
        dates: request.dates,
        codes: codes?,
        active: request.active,
        place: is_by_place.then_some(place),
        last_updated: request.last_updated,
    })
}

/// Every record that has or had an identifier: what a search by it means.
pub(crate) async fn carriers(
    registry: &Registry,
    kind: RecordKind,
    key: &IdentifierKey,
) -> Result<Vec<RecordId>, AppError> {
    let owners = registry.store.identifier_owners(kind, key, IDENTIFIER_OWNERS_MAX).await?;
    Ok(owners.into_iter().map(|owner| owner.id).collect())
}

/// Which fields a search looked at, never for what.
fn searched_fields(query: &IndividualQuery) -> Vec<String> {
    let named = [
        ("identifier", query.identifiers.is_empty()),
        ("active", query.active.is_none()),
        ("group_membership", query.place.is_none()),
        ("_last_updated", query.last_updated.is_empty()),
    ];
    let named = named.iter().filter(|(_, is_unused)| !is_unused).map(|(name, _)| (*name).to_owned());
    let named = named.chain(query.texts.fields().into_iter().chain(query.dates.keys().copied()).map(str::to_owned));
    named.chain(query.codes.iter().map(|condition| condition.field.field().into_owned())).collect()
}

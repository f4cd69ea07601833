//! Searching groups.

use daftar_domain::group::GroupDetails;
use std::sync::Arc;

use super::{GroupView, Wanted, answer, reference};
use crate::individual::carriers;
use crate::registry::Registry;
use crate::search::{self, CodeFilter, FoundPage, Paging};
use crate::visibility::{self, Seen};
use crate::{audit, identifiers, open, records};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::{days_since_epoch, utc_day};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::RecordKind;
use daftar_domain::scope::Resource;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::{DateConditions, GroupQuery, TextConditions};
use daftar_vocabulary::{Generation, LanguagePreference};

/// Conditions of a search as a client names them, all of which must hold.
#[derive(Debug, Clone, Default)]
pub struct GroupSearchRequest {
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
    /// Whoever has or had that identifier belongs to it today.
    pub members: Vec<IdentifierKey>,
    /// When the record was last written.
    pub last_updated: Vec<InstantCondition>,
}

/// Checks that the client may look at every field that a search filters or sorts by. `filtered` are fields of the API.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check_search(ctx: &OpContext, filtered: &[String], paging: &Paging) -> Result<(), AppError> {
    search::check_fields(ctx, Resource::Group, filtered, &paging.sort)
}

/// Searches groups. What it looks at was checked by [`check_search`].
///
/// # Errors
/// [`AppError::Malformed`] when a code is of the wrong vocabulary for its field.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    request: GroupSearchRequest,
    (paging, wanted): (&Paging, Wanted),
) -> Result<FoundPage<GroupView>, AppError> {
    let fields = searched_fields(&request);
    let (query, generation) = resolve(ctx, registry, request).await?;
    let ranks = search::code_ranks(&generation, &paging.sort);
    let sorting = search::sorting(paging, &ranks);
    let found = registry.index.search_groups(&query, visibility::sees(ctx), sorting, &paging.window).await?;
    let seen = visibility::of_each_found(ctx, registry, RecordKind::Group, &found.ids).await?;
    let mut views = Vec::with_capacity(found.ids.len());
    for (id, fields) in found.ids.into_iter().zip(seen) {
        let Some(fields) = fields else { continue };
        let record = registry.store.find::<GroupDetails>(id).await?;
        let record = record.ok_or_else(|| AppError::internal("a search found a group that is not there"))?;
        views.push(answer(ctx, registry, languages.clone(), Seen { record, fields }, wanted).await?);
    }
    let targets = views.iter().filter_map(|view| records::called(&view.group.details.identifiers));
    let targets = targets.map(reference).collect();
    let entry = audit::entry(ctx, AuditAction::Search, AuditOutcome::Allowed, targets);
    registry.audit.record(ctx, entry.with_note(search::note(fields, &paging.sort))).await?;
    Ok(FoundPage { total: found.total, records: views, next: found.next })
}

/// What a search asks for in terms of the register, and the fields that it looks at.
///
/// # Errors
/// As [`search()`].
pub async fn asked(
    ctx: &OpContext,
    registry: &Registry,
    request: GroupSearchRequest,
) -> Result<(GroupQuery, Vec<String>), AppError> {
    let fields = searched_fields(&request);
    let (query, _) = resolve(ctx, registry, request).await?;
    Ok((query, fields))
}

/// What a client asks for in terms of the register.
async fn resolve(
    ctx: &OpContext,
    registry: &Registry,
    request: GroupSearchRequest,
) -> Result<(GroupQuery, Arc<Generation>), AppError> {
    let codes = || request.codes.iter().map(|filter| filter.code.clone()).collect();
    let generation = open::consult(registry, registry.vocabularies.current(), codes).await?.generation;
    let codes: Result<Vec<_>, _> = request.codes.iter().map(|filter| filter.resolve(&generation)).collect();
    visibility::check_systems(ctx, registry, ("identifier", RecordKind::Group), &request.identifiers).await?;
    let mut members = Vec::with_capacity(request.members.len());
    for key in &request.members {
        let mut people = carriers(registry, RecordKind::Individual, key).await?;
        let there = visibility::there(ctx, registry, RecordKind::Individual, &people).await?;
        people.retain(|person| there.contains(person));
        identifiers::check_filter(registry, "member", key, !people.is_empty())?;
        members.push(people);
    }
    let query = GroupQuery {
        identifiers: request.identifiers,
        texts: request.texts,
        dates: request.dates,
        codes: codes?,
        active: request.active,
        members,
        day: days_since_epoch(utc_day(ctx.now)),
        last_updated: request.last_updated,
    };
    Ok((query, generation))
}

/// Which fields a search looks at, never for what.
fn searched_fields(request: &GroupSearchRequest) -> Vec<String> {
    let named = [
        ("identifier", request.identifiers.is_empty()),
        ("active", request.active.is_none()),
        ("member", request.members.is_empty()),
        ("_last_updated", request.last_updated.is_empty()),
    ];
    let named = named.iter().filter(|(_, is_unused)| !is_unused).map(|(name, _)| (*name).to_owned());
    let named = named.chain(request.texts.fields().into_iter().chain(request.dates.keys().copied()).map(str::to_owned));
    named.chain(request.codes.iter().map(|filter| filter.place.field().into_owned())).collect()
}

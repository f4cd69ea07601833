//! Operations on individuals: create, change, read, search.

use std::collections::HashMap;
use std::sync::Arc;

use crate::codes::CodeView;
use crate::edit::{self, Draft, Editable, Hidden, Shown};
pub use crate::edit::{change, create};
use crate::group::members::{GroupPlace, Until, places_in_groups};
use crate::photo::ReadPhoto;
use crate::registry::Registry;
use crate::response_cache::{BodyKey, SentBody};
use crate::search::{self, CodeFilter, CommonConditions, FoundPage, Paging, Reach};
use crate::visibility::{self, Seen};
use crate::{audit, identifiers, open_vocabulary, photo, records};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::{days_since_epoch, utc_day};
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem, FieldUse};
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::{Individual, IndividualDetails, IndividualRecord, PHOTO, RELATIONSHIP};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_domain::search::{CodedPlace, KindCondition, Page, PlaceCondition, Sorting, SubjectQuery};
use daftar_domain::value::{Key, List, Part, Reference};
use daftar_domain::vocabulary::CodedField;
use daftar_vocabulary::{Generation, LanguagePreference};

/// An individual as a request contains it.
pub type IndividualDraft = Draft<IndividualRecord>;

/// Individuals that other records refer to and that the client may see, with the visible fields of each.
pub type People = HashMap<RecordId, Seen<IndividualDetails>>;

/// Data related to an individual, as far as requested and visible to the client.
#[derive(Debug, Default)]
pub struct RelatedRecords {
    /// The other individuals to which the individual has a relationship.
    pub related: People,
    /// The photo.
    pub photo: Option<ReadPhoto>,
    /// The memberships of the individual in groups, the first [`PLACES_MAX`].
    pub places: Option<Vec<GroupPlace>>,
}

/// The related data that is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Includes {
    /// The photo.
    pub photo: bool,
    /// The memberships in groups.
    pub places: bool,
    /// The relationships to other individuals.
    pub related: bool,
    /// The related individuals.
    pub names_related: bool,
}

impl Includes {
    /// All of it.
    pub const ALL: Self = Self { photo: true, places: true, related: true, names_related: true };
}

/// Maximum number of memberships in groups in the body of an individual; `/groups` of the individual returns all.
pub const PLACES_MAX: u32 = 100;

/// An individual with the display of its codes.
pub struct IndividualView {
    /// The individual.
    pub individual: Arc<Individual>,
    /// Its fields that the client may see.
    pub fields: FieldSet,
    /// The related data.
    pub beside: RelatedRecords,
    /// Display form of its codes.
    pub codes: CodeView,
}

/// Writes `Individual/<system>|<value>`.
#[must_use]
pub fn reference(key: &IdentifierKey) -> String {
    records::reference(RecordKind::Individual, key)
}

impl Editable for IndividualRecord {
    type View = IndividualView;

    const RELATIONSHIP: Key<List<Part>> = RELATIONSHIP;

    async fn present(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        Seen { record: individual, fields }: Seen<IndividualDetails>,
        written: &FieldSet,
    ) -> Result<IndividualView, AppError> {
        // The related individuals are compared with the ones sent back.
        let is_written = written.allows("relationship");
        let named = if is_written { edit::relationship_targets(&individual.details, RELATIONSHIP) } else { Vec::new() };
        let beside =
            RelatedRecords { related: visibility::seen(ctx, registry, named).await?, ..RelatedRecords::default() };
        let codes = CodeView::new(registry.vocabularies.current(), languages);
        Ok(IndividualView { individual, fields, beside, codes })
    }

    fn shown(view: &IndividualView, seen: &FieldSet) -> Shown {
        let people = view.beside.related.iter().filter(|_| seen.allows("relationship"));
        Shown::of(people.map(|(id, seen)| {
            (Reference { kind: RecordKind::Individual, id: *id }, seen.record.details.identifiers.as_slice())
        }))
    }

    fn check(
        _: &OpContext,
        _: &Generation,
        details: &IndividualDetails,
        hidden: &Hidden,
        problems: &mut Vec<FieldProblem>,
    ) {
        edit::check_relationships(details, (RecordKind::Individual, RELATIONSHIP), hidden, problems);
    }

    async fn written_view(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        written: Seen<IndividualDetails>,
    ) -> Result<IndividualView, AppError> {
        view(ctx, registry, languages, written, Includes::ALL).await
    }

    async fn created_view(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        created: Seen<IndividualDetails>,
    ) -> Result<IndividualView, AppError> {
        // A group refers to individuals that exist, so none has a new one as a member: the index is not queried.
        let wanted = Includes { places: false, ..Includes::ALL };
        let mut view = view(ctx, registry, languages, created, wanted).await?;
        view.beside.places = shows_places(ctx, &view.fields).then(Vec::new);
        Ok(view)
    }
}

/// An individual with the requested related data.
pub(super) async fn view(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    mut seen: Seen<IndividualDetails>,
    wanted: Includes,
) -> Result<IndividualView, AppError> {
    let related =
        related(ctx, registry, std::slice::from_mut(&mut seen), (wanted.related, wanted.names_related)).await?;
    let Seen { record: individual, fields } = seen;
    let beside = RelatedRecords { related, ..fetch_related(ctx, registry, (&individual, &fields), wanted).await? };
    // Read after the record, so that a code published concurrently has its name.
    let codes = CodeView::new(registry.vocabularies.current(), languages);
    Ok(IndividualView { individual, fields, beside, codes })
}

/// The related individuals of some individuals, if requested and visible. The individuals that the response names are
/// written into the audit log. For a client that requires consents and reads no relation of an individual, the
/// existence of relations is hidden.
async fn related(
    ctx: &OpContext,
    registry: &Registry,
    shown: &mut [Seen<IndividualDetails>],
    (are_wanted, are_named): (bool, bool),
) -> Result<People, AppError> {
    if !are_wanted && ctx.consent.is_none() {
        return Ok(People::new());
    }
    let are_seen = shown.iter().filter(|person| person.fields.allows("relationship"));
    let mut named: Vec<RecordId> =
        are_seen.flat_map(|person| edit::relationship_targets(&person.record.details, RELATIONSHIP)).collect();
    named.sort_unstable();
    named.dedup();
    let people: People = visibility::seen(ctx, registry, named).await?;
    if ctx.consent.is_some() {
        for Seen { record, fields } in shown {
            if !edit::relationship_targets(&record.details, RELATIONSHIP)
                .iter()
                .any(|target| people.contains_key(target))
            {
                *fields = visibility::without(Resource::Individual, fields, &["relationship"]);
            }
        }
    }
    if are_named {
        ctx.trail.names(people.values().filter_map(|person| records::name_of(&person.record)));
    }
    Ok(people)
}

/// Fetches the related data of a record.
async fn fetch_related(
    ctx: &OpContext,
    registry: &Registry,
    (individual, fields): (&Individual, &FieldSet),
    wanted: Includes,
) -> Result<RelatedRecords, AppError> {
    let photo = match individual.details.get(PHOTO).filter(|_| wanted.photo && fields.allows("photo")) {
        Some(reference) => Some(photo::read(registry, reference).await?),
        None => None,
    };
    let first = (Page { offset: 0, count: PLACES_MAX }, Until::PageIsFull);
    let places = if wanted.places && shows_places(ctx, fields) {
        Some(places_in_groups(ctx, registry, individual.id, first).await?.places)
    } else {
        None
    };
    Ok(RelatedRecords { photo, places, ..RelatedRecords::default() })
}

/// True if the client may see the memberships in groups of an individual with these visible fields.
fn shows_places(ctx: &OpContext, fields: &FieldSet) -> bool {
    fields.allows("group_membership") && visibility::check_membership(ctx, FieldUse::Read).is_ok()
}

/// Reads an individual by identifier, with the `wanted` related data, as the body that `write` creates. Concurrent
/// large photos are limited until the body is complete; from then on, the memory of the body is counted.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`], and those of `write`.
pub async fn read<T, E: From<AppError>>(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (key, wanted): (&IdentifierKey, Includes),
    write: impl FnOnce(&IndividualView) -> Result<T, E>,
) -> Result<T, E> {
    let found = visibility::read_record::<IndividualDetails>(ctx, registry, key).await;
    registry.audit.record_read(ctx, &found, vec![reference(key)], None).await?;
    let seen = found?;
    write(&view(ctx, registry, languages, seen, wanted).await?)
}

/// Reads an individual by identifier as a complete body: a cached body, if its data is unchanged, or a body that
/// `write` creates.
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
    let stored_under = BodyKey::of(ctx, registry, &languages, key);
    if let Some(body) = stored_under.as_ref().and_then(|key| registry.bodies.find(key)) {
        ctx.trail.names(body.named.iter().cloned());
        let entry = audit::entry(ctx, AuditAction::Read, AuditOutcome::Allowed, vec![reference(key)]);
        registry.audit.record(ctx, entry).await?;
        return Ok(body);
    }
    let making = registry.bodies.begin(stored_under);
    let make = |view: &IndividualView| -> Result<SentBody, E> {
        let body = SentBody { named: named(view), ..write(view)? };
        registry.bodies.keep(making, view, &body);
        Ok(body)
    };
    read(ctx, registry, languages, (key, Includes::ALL), make).await
}

/// The groups and other individuals that the body of an individual names, as the audit log records them.
fn named(view: &IndividualView) -> Arc<[String]> {
    let places = view.beside.places.iter().flatten();
    let groups = places.filter_map(|place| place.group.reference.clone());
    let related = view.beside.related.values().filter_map(|person| records::name_of(&person.record));
    groups.chain(related).collect()
}

/// The membership in groups that a search requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupFilter {
    /// In no group.
    None,
    /// In the group that has or had that identifier.
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

/// Conditions of a search of individuals as a client names them, all of which must hold.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// Conditions of every kind of subject.
    pub common: CommonConditions,
    /// Belongs to that group, or to none.
    pub groups: Vec<GroupFilter>,
    /// Is a member in that role: of the named groups, if any are named, or else of any group.
    pub roles: Vec<(CodeUri, Reach)>,
}

/// The result of a search.
pub struct FoundPeople {
    /// A page of them.
    pub page: FoundPage<Seen<IndividualDetails>>,
    /// The related individuals of these, if requested.
    pub related: People,
    /// Display form of codes.
    pub codes: CodeView,
}

/// Checks that the client may use every field that a search filters or sorts by. `filtered` are fields of the API.
///
/// # Errors
/// [`AppError::FieldNotGranted`], and [`AppError::MissingScope`] if groups are checked without the scope to read them.
pub fn check_search(ctx: &OpContext, filtered: &[String], by_groups: bool, paging: &Paging) -> Result<(), AppError> {
    if by_groups {
        visibility::check_membership(ctx, FieldUse::Filter)?;
    }
    search::check_fields(ctx, Resource::Individual, filtered, &paging.sort)
}

/// Searches individuals; `are_related_wanted` requests their relationships and the related individuals. The caller must
/// have called [`check_search`].
///
/// # Errors
/// [`AppError::FieldNotGranted`], [`AppError::Malformed`] if a code is not of a vocabulary of its field,
/// [`AppError::Invalid`] if the system of an identifier is unknown.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    request: SearchRequest,
    (paging, are_related_wanted): (&Paging, (bool, bool)),
) -> Result<FoundPeople, AppError> {
    let (query, generation) = resolve(ctx, registry, request).await?;
    let ranks = search::code_ranks(&generation, &paging.sort);
    let sorting = search::sorting(paging, &ranks);
    let found =
        registry.index.current().await.search_subjects(&query, visibility::sees(ctx), sorting, &paging.window).await?;
    let individuals = registry.store.find_all::<IndividualDetails>(&found.ids).await?;
    let targets = individuals.iter().filter_map(|individual| records::name_of(individual)).collect();
    let note = search::note(search::searched_fields(&query), &paging.sort);
    registry.audit.record_search(ctx, targets, note).await?;
    let ids: Vec<RecordId> = individuals.iter().map(|record| record.id).collect();
    let fields = visibility::of_each_found(ctx, registry, RecordKind::Individual, &ids).await?;
    let seen = individuals.into_iter().zip(fields);
    let seen = seen.filter_map(|(record, fields)| Some(Seen { record, fields: fields? }));
    let mut records: Vec<Seen<IndividualDetails>> = seen.collect();
    let related = related(ctx, registry, &mut records, are_related_wanted).await?;
    let page = FoundPage { total: found.total, records, next: found.next };
    // Read after the records, so that a code published concurrently has its name.
    Ok(FoundPeople { page, related, codes: CodeView::new(registry.vocabularies.current(), languages) })
}

/// The keys of all individuals that a search finds, for the administrator.
///
/// # Errors
/// As [`search()`].
pub async fn find_all(ctx: &OpContext, registry: &Registry, request: SearchRequest) -> Result<Vec<RecordId>, AppError> {
    let (query, _) = resolve(ctx, registry, request).await?;
    let all = Page { offset: 0, count: u32::MAX }.into();
    let index = registry.index.current().await;
    let found = index.search_subjects(&query, visibility::sees(ctx), Sorting::REGISTERED, &all).await?;
    let mut ids = found.ids;
    ids.sort_unstable();
    Ok(ids)
}

/// Translates the conditions of a client into terms of the register, by the returned vocabularies.
///
/// # Errors
/// As [`search()`].
pub(crate) async fn resolve(
    ctx: &OpContext,
    registry: &Registry,
    request: SearchRequest,
) -> Result<(SubjectQuery, Arc<Generation>), AppError> {
    let roles = request.roles.iter().map(|(code, _)| code);
    let codes = || request.common.codes.iter().map(|filter| &filter.code).chain(roles).cloned().collect();
    let generation = open_vocabulary::resolve(registry, registry.vocabularies.current(), codes).await?.generation;
    visibility::check_systems(ctx, registry, ("identifier", RecordKind::Individual), &request.common.identifiers)
        .await?;
    let groups = request.groups.iter().filter_map(GroupFilter::identifier);
    visibility::check_systems(ctx, registry, ("group", RecordKind::Group), groups).await?;
    let mut roles = Vec::with_capacity(request.roles.len());
    for (code, reach) in request.roles {
        let place = CodedPlace::Field(CodedField::MemberRole);
        roles.push(CodeFilter { place, code, reach }.resolve(&generation)?.any_of);
    }
    let mut place = PlaceCondition { day: days_since_epoch(utc_day(ctx.now)), roles, ..PlaceCondition::default() };
    let is_by_place = !request.groups.is_empty() || !place.roles.is_empty();
    for filter in request.groups {
        match filter {
            GroupFilter::None => place.is_none = true,
            GroupFilter::Identifier(key) => {
                place.groups.push(identifiers::carriers(registry, RecordKind::Group, &key).await?)
            }
        }
    }
    let of_kind = KindCondition::Individuals(is_by_place.then_some(place));
    Ok((request.common.resolve(of_kind, &generation)?, generation))
}

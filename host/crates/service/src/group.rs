//! Operations on groups: create, change, read, search. Members and history have separate modules.

pub mod history;
pub mod members;

use std::collections::HashMap;
use std::sync::Arc;

use crate::codes::CodeView;
use crate::edit::{self, Draft, Editable, Hidden, Shown, UNRESOLVED};
pub use crate::edit::{change, create};
use crate::registry::Registry;
use crate::search::{self, CommonConditions, FoundPage, Paging};
use crate::visibility::{self, Seen};
use crate::{identifiers, open_vocabulary, records};
use daftar_domain::calendar::{Period, days_since_epoch, utc_day};
use daftar_domain::code::CodedValue;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::field::FieldSet;
use daftar_domain::group::{Group, GroupDetails, GroupRecord, MEMBER, RELATIONSHIP};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_domain::search::{KindCondition, MemberCondition, SubjectQuery};
use daftar_domain::value::{Key, List, Part, Reference};
use daftar_vocabulary::{Generation, LanguagePreference};

/// A group as a request contains it.
pub type GroupDraft = Draft<GroupRecord>;

/// A group with its members that are visible to the client.
pub struct GroupView {
    /// The group.
    pub group: Arc<Group>,
    /// Its fields that the client may see.
    pub fields: FieldSet,
    /// Its members that the client may see, with the visible fields of each.
    pub members: HashMap<RecordId, Seen<IndividualDetails>>,
    /// The groups that it has a relationship to and that the client may see.
    pub related: HashMap<RecordId, Seen<GroupDetails>>,
    /// Number of its active members that are visible to the client; absent if not requested, or if the members are not
    /// recorded.
    pub quantity: Option<usize>,
    /// Display form of its codes.
    pub codes: CodeView,
}

/// Related data requested with the record of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Includes {
    /// The memberships of its members.
    pub members: bool,
    /// The individuals that are members.
    pub names_members: bool,
    /// The number of its active members.
    pub quantity: bool,
    /// The relationships that it has to other groups.
    pub related: bool,
    /// The related groups.
    pub names_related: bool,
}

impl Includes {
    /// All of it.
    pub const ALL: Self =
        Self { members: true, names_members: true, quantity: true, related: true, names_related: true };

    /// Nothing.
    const NOTHING: Self =
        Self { members: false, names_members: false, quantity: false, related: false, names_related: false };

    /// Related data that these fields display.
    fn of(self, fields: &FieldSet) -> Self {
        let (members, related) = (fields.allows("member"), fields.allows("relationship"));
        Self {
            members: self.members && members,
            names_members: self.names_members && members,
            quantity: self.quantity && fields.allows("quantity"),
            related: self.related && related,
            names_related: self.names_related && related,
        }
    }
}

/// Reads a group by identifier.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`].
pub async fn read(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    key: &IdentifierKey,
    wanted: Includes,
) -> Result<GroupView, AppError> {
    let found = visibility::read_record(ctx, registry, key).await;
    registry.audit.record_read(ctx, &found, vec![reference(key)], None).await?;
    written_view(ctx, registry, languages, found?, wanted).await
}

impl Editable for GroupRecord {
    type View = GroupView;

    const RELATIONSHIP: Key<List<Part>> = RELATIONSHIP;

    async fn present(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        present: Seen<GroupDetails>,
        written: &FieldSet,
    ) -> Result<GroupView, AppError> {
        // The members and related groups are compared with the ones sent back.
        let (members, related) = (written.allows("member"), written.allows("relationship"));
        view(ctx, registry, languages, present, Includes { members, related, ..Includes::NOTHING }).await
    }

    fn shown(view: &GroupView, seen: &FieldSet) -> Shown {
        let members = view.members.iter().filter(|_| seen.allows("member"));
        let members = members.map(|(id, seen)| {
            (Reference { kind: RecordKind::Individual, id: *id }, seen.record.details.identifiers.as_slice())
        });
        let groups = view.related.iter().filter(|_| seen.allows("relationship"));
        let groups = groups.map(|(id, seen)| {
            (Reference { kind: RecordKind::Group, id: *id }, seen.record.details.identifiers.as_slice())
        });
        Shown::of(members.chain(groups))
    }

    fn check(
        ctx: &OpContext,
        generation: &Generation,
        details: &GroupDetails,
        hidden: &Hidden,
        problems: &mut Vec<FieldProblem>,
    ) {
        edit::check_relationships(details, (RecordKind::Group, RELATIONSHIP), hidden, problems);
        check_members(ctx, generation, details, hidden, problems);
    }

    async fn written_view(
        ctx: &OpContext,
        registry: &Registry,
        languages: LanguagePreference,
        written: Seen<GroupDetails>,
    ) -> Result<GroupView, AppError> {
        written_view(ctx, registry, languages, written, Includes::ALL).await
    }
}

/// Writes `Group/<system>|<value>`.
#[must_use]
pub fn reference(key: &IdentifierKey) -> String {
    records::reference(RecordKind::Group, key)
}

/// A group with the requested related data.
async fn view(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    Seen { record: group, fields }: Seen<GroupDetails>,
    wanted: Includes,
) -> Result<GroupView, AppError> {
    let details = &group.details;
    let members = if wanted.members { members_of(details) } else { Vec::new() };
    let members = visibility::seen(ctx, registry, members).await?;
    let related = if wanted.related { edit::relationship_targets(details, RELATIONSHIP) } else { Vec::new() };
    let related = visibility::seen(ctx, registry, related).await?;
    let quantity = if wanted.quantity && details.has(MEMBER) {
        let active = details.active_members(utc_day(ctx.now)).map(|member| member.individual);
        let active: Vec<RecordId> = active.collect();
        let there = visibility::of_each(ctx, registry, RecordKind::Individual, &active).await?;
        Some(there.into_iter().flatten().count())
    } else {
        None
    };
    let codes = CodeView::new(registry.vocabularies.current(), languages);
    Ok(GroupView { group, fields, members, related, quantity, codes })
}

/// The group with its data visible to the client, without hidden members. The members in the response are named in the
/// audit log.
pub(super) async fn written_view(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    Seen { record, fields }: Seen<GroupDetails>,
    wanted: Includes,
) -> Result<GroupView, AppError> {
    let fields = hide_who_is_hidden(ctx, registry, &record, fields).await?;
    let wanted = wanted.of(&fields);
    let view = view(ctx, registry, languages, Seen { record, fields }, wanted).await?;
    if wanted.names_members {
        name_members(ctx, &view.members);
    }
    let related = view.related.values().filter(|_| wanted.names_related);
    ctx.trail.names(related.filter_map(|group| records::name_of(&group.record)));
    Ok(view)
}

/// For a client that requires consents and reads no member, or no related group, the existence of any is hidden.
///
/// # Errors
/// If the store fails.
async fn hide_who_is_hidden(
    ctx: &OpContext,
    registry: &Registry,
    group: &Group,
    mut fields: FieldSet,
) -> Result<FieldSet, AppError> {
    if ctx.consent.is_none() {
        return Ok(fields);
    }
    let members = members_of(&group.details);
    if !visibility::any_is_there(ctx, registry, RecordKind::Individual, &members).await? {
        fields = visibility::without(Resource::Group, &fields, &["member", "quantity"]);
    }
    let related = edit::relationship_targets(&group.details, RELATIONSHIP);
    if !visibility::any_is_there(ctx, registry, RecordKind::Group, &related).await? {
        fields = visibility::without(Resource::Group, &fields, &["relationship"]);
    }
    Ok(fields)
}

/// Names the individuals that the response contains as members.
fn name_members(ctx: &OpContext, members: &HashMap<RecordId, Seen<IndividualDetails>>) {
    ctx.trail.names(members.values().filter_map(|person| records::name_of(&person.record)));
}

/// The current and former members of a group.
fn members_of(details: &GroupDetails) -> Vec<RecordId> {
    details.members().map(|member| member.individual).collect()
}

/// The concept group whose codes make a member the head.
const HEAD_GROUP: &str = "head_of_household";

/// Rejects duplicate members and more than one head, today and on every later day: a group that is valid today stays
/// valid without a change. Problems name the memberships visible to the client, and no hidden individual.
fn check_members(
    ctx: &OpContext,
    generation: &Generation,
    details: &GroupDetails,
    hidden: &Hidden,
    problems: &mut Vec<FieldProblem>,
) {
    let today = utc_day(ctx.now);
    let mut places: HashMap<RecordId, Vec<(usize, Period)>> = HashMap::new();
    let mut heads = Vec::new();
    let mut hidden_heads = Vec::new();
    let mut next_place = 0;
    for member in details.members() {
        let still = member.still_active(today).filter(|_| member.individual != UNRESOLVED);
        let as_head = still.filter(|_| member.role.is_some_and(|role| is_head(generation, role)));
        if hidden.holds(RecordKind::Individual, member.individual) {
            hidden_heads.extend(as_head);
            continue;
        }
        let at = next_place;
        next_place += 1;
        heads.extend(as_head.map(|period| (at, period)));
        let Some(period) = still else { continue };
        let earlier = places.entry(member.individual).or_default();
        if let Some(earlier) = at_the_same_time(earlier, &period) {
            problems.push(FieldProblem::new(
                format!("member[{at}].entity"),
                "duplicate",
                format!("the same person is member[{earlier}] already"),
            ));
        }
        earlier.push((at, period));
    }
    for (before, (at, period)) in heads.iter().enumerate() {
        let is_beside_hidden = hidden_heads.iter().any(|hidden| hidden.overlaps(period));
        let earlier = at_the_same_time(heads.get(..before).unwrap_or_default(), period);
        let who = match earlier {
            None if !is_beside_hidden => continue,
            Some(earlier) if !is_beside_hidden => format!(", and member[{earlier}] is one already"),
            None | Some(_) => String::new(),
        };
        problems.push(FieldProblem::new(
            format!("member[{at}].role"),
            "second_head",
            format!("a group has at most one active head{who}"),
        ));
    }
}

/// The first of those memberships whose period overlaps the given one.
fn at_the_same_time(places: &[(usize, Period)], period: &Period) -> Option<usize> {
    places.iter().find(|(_, earlier)| earlier.overlaps(period)).map(|(at, _)| *at)
}

fn is_head(generation: &Generation, role: CodedValue) -> bool {
    generation.concept_group(HEAD_GROUP).is_some_and(|heads| heads.members().any(|number| number == role.number))
}

/// Conditions of a search of groups as a client names them, all of which must hold.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// Conditions of every kind of subject.
    pub common: CommonConditions,
    /// The individual that has or had that identifier is a member today.
    pub members: Vec<IdentifierKey>,
}

/// Searches groups. The caller must have called [`search::check_fields`].
///
/// # Errors
/// [`AppError::Malformed`] if a code is not of a vocabulary of its field.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    request: SearchRequest,
    (paging, wanted): (&Paging, Includes),
) -> Result<FoundPage<GroupView>, AppError> {
    let (query, generation) = resolve(ctx, registry, request).await?;
    let ranks = search::code_ranks(&generation, &paging.sort);
    let sorting = search::sorting(paging, &ranks);
    let found =
        registry.index.current().await.search_subjects(&query, visibility::sees(ctx), sorting, &paging.window).await?;
    let seen = visibility::of_each_found(ctx, registry, RecordKind::Group, &found.ids).await?;
    let mut views = Vec::with_capacity(found.ids.len());
    for (id, fields) in found.ids.into_iter().zip(seen) {
        let Some(fields) = fields else { continue };
        let record = registry.store.find::<GroupDetails>(id).await?;
        let record = record.ok_or_else(|| AppError::internal("a search found a group that is not there"))?;
        views.push(written_view(ctx, registry, languages.clone(), Seen { record, fields }, wanted).await?);
    }
    let targets = views.iter().filter_map(|view| records::name_of(&view.group)).collect();
    registry.audit.record_search(ctx, targets, search::note(search::searched_fields(&query), &paging.sort)).await?;
    Ok(FoundPage { total: found.total, records: views, next: found.next })
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
    let SearchRequest { common, members } = request;
    let codes = || common.codes.iter().map(|filter| filter.code.clone()).collect();
    let generation = open_vocabulary::resolve(registry, registry.vocabularies.current(), codes).await?.generation;
    visibility::check_systems(ctx, registry, ("identifier", RecordKind::Group), &common.identifiers).await?;
    let mut condition = MemberCondition { day: days_since_epoch(utc_day(ctx.now)), people: Vec::new() };
    for key in &members {
        let mut people = identifiers::carriers(registry, RecordKind::Individual, key).await?;
        let there = visibility::there(ctx, registry, RecordKind::Individual, &people).await?;
        people.retain(|person| there.contains(person));
        identifiers::check_filter(registry, "member", key, !people.is_empty())?;
        condition.people.push(people);
    }
    let of_kind = KindCondition::Groups((!members.is_empty()).then_some(condition));
    Ok((common.resolve(of_kind, &generation)?, generation))
}

//! Searching people and groups.

use tokio_postgres::Client;

use super::PostgresIndex;
use super::filter::Filter;
use super::order::{Order, Ranks, SortColumn};
use super::page::Search;
use super::row::unreadable;
use super::sees::Sight;
use super::sql::Parameters;
use super::tally::{self, Kind};
use super::term;
use crate::failure::Failure;
use daftar_domain::record::RecordId;
use daftar_domain::scope::Resource;
use daftar_domain::search::found::{Found, Sorting};
use daftar_domain::search::order::{SortField, SortKey, Start, Window};
use daftar_domain::search::{CodeCondition, CodedPlace, GroupQuery, IndividualQuery, SubjectQuery, TextConditions};
use daftar_domain::vocabulary::CodedField;
use daftar_store::StoreError;
use daftar_store::index::Sees;

const INDIVIDUALS: &str = "search_individual";
const GROUPS: &str = "search_group";

/// The people that match, counted, and those of the page.
pub(super) async fn search_individuals(
    index: &PostgresIndex,
    query: &IndividualQuery,
    sees: Option<Sees<'_>>,
    sorting: Sorting<'_>,
    window: &Window,
) -> Result<Found, StoreError> {
    let mut parameters = Parameters::default();
    let Some(sight) = sight(sees, &mut parameters) else { return Ok(Found::default()) };
    let sight = sight.as_ref();
    let Some(conditions) = on_individuals(query, sight, &mut parameters) else { return Ok(Found::default()) };
    let IndividualQuery { identifiers, texts, birth_date, codes, active, place, last_updated } = query;
    let is_plain = identifiers.is_empty() && birth_date.is_empty() && place.is_none() && last_updated.is_empty();
    let is_tallied = sight.is_none() && is_plain && *texts == TextConditions::default();
    let total = if is_tallied { tallied(Kind::Individual, codes, *active, &mut parameters) } else { None };
    let order = Subjects { index, kind: Kind::Individual, column: person_column, resource: Resource::Individual };
    let order = order.order(sight, sorting, window, &mut parameters).await?;
    Search { table: INDIVIDUALS, conditions, total, order, window }.run(index, parameters).await
}

/// The groups that match, counted, and those of the page.
pub(super) async fn search_groups(
    index: &PostgresIndex,
    query: &GroupQuery,
    sees: Option<Sees<'_>>,
    sorting: Sorting<'_>,
    window: &Window,
) -> Result<Found, StoreError> {
    let mut parameters = Parameters::default();
    let Some(sight) = sight(sees, &mut parameters) else { return Ok(Found::default()) };
    let sight = sight.as_ref();
    let Some(conditions) = on_groups(query, sight, &mut parameters) else { return Ok(Found::default()) };
    let GroupQuery { identifiers, texts, codes, active, members, day: _, last_updated } = query;
    let is_plain = identifiers.is_empty() && members.is_empty() && last_updated.is_empty();
    let is_tallied = sight.is_none() && is_plain && *texts == TextConditions::default();
    let total = if is_tallied { tallied(Kind::Group, codes, *active, &mut parameters) } else { None };
    let order = Subjects { index, kind: Kind::Group, column: group_column, resource: Resource::Group };
    let order = order.order(sight, sorting, window, &mut parameters).await?;
    Search { table: GROUPS, conditions, total, order, window }.run(index, parameters).await
}

/// Every person or group that matches, in the order of their keys, asked on a connection of the caller's.
pub(super) async fn matching(
    client: &Client,
    query: &SubjectQuery,
    sees: Option<Sees<'_>>,
) -> Result<Vec<RecordId>, StoreError> {
    let mut parameters = Parameters::default();
    let Some(sight) = sight(sees, &mut parameters) else { return Ok(Vec::new()) };
    let (table, conditions) = match query {
        SubjectQuery::Individuals(query) => (INDIVIDUALS, on_individuals(query, sight.as_ref(), &mut parameters)),
        SubjectQuery::Groups(query) => (GROUPS, on_groups(query, sight.as_ref(), &mut parameters)),
    };
    let Some(conditions) = conditions else { return Ok(Vec::new()) };
    let filtered = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    // One row with all keys takes far less memory than one for each.
    let statement = format!("SELECT array_agg(p.id ORDER BY p.id) FROM daftar.{table} AS p WHERE {filtered}");
    let row = client.query_one(&statement, &parameters.values()).await.map_err(Failure::from)?;
    let keys: Option<Vec<i64>> = row.try_get(0).map_err(|error| unreadable("answer of the index", &error))?;
    Ok(keys.unwrap_or_default().into_iter().map(|key| RecordId(key.unsigned_abs())).collect())
}

/// What holds of the people who match; none, where nobody can.
fn on_individuals(query: &IndividualQuery, sight: Option<&Sight>, parameters: &mut Parameters) -> Option<Vec<String>> {
    let mut filter = Filter::new(Resource::Individual, parameters);
    filter.codes(&query.codes);
    filter.texts(&query.texts);
    filter.active(query.active);
    filter.birth_date(&query.birth_date);
    if let Some(place) = &query.place {
        filter.place(place, sight);
    }
    filter.identifiers(&query.identifiers);
    filter.last_updated(&query.last_updated);
    filter.finish("p.id", sight)
}

/// What holds of the groups that match; none, where none can.
fn on_groups(query: &GroupQuery, sight: Option<&Sight>, parameters: &mut Parameters) -> Option<Vec<String>> {
    let mut filter = Filter::new(Resource::Group, parameters);
    filter.codes(&query.codes);
    filter.texts(&query.texts);
    filter.active(query.active);
    for people in &query.members {
        filter.member(people, query.day);
    }
    filter.identifiers(&query.identifiers);
    filter.last_updated(&query.last_updated);
    filter.finish("p.id", sight)
}

/// What the client sees, where that is not everything; none at all, where it sees nothing.
pub(super) fn sight(sees: Option<Sees<'_>>, parameters: &mut Parameters) -> Option<Option<Sight>> {
    match sees {
        None => Some(None),
        Some(sees) => Sight::new(sees, parameters).map(Some),
    }
}

/// The total where tallies tell it: of everybody, of who is in use, of codes of one field that no record holds two of.
fn tallied(kind: Kind, codes: &[CodeCondition], active: Option<bool>, parameters: &mut Parameters) -> Option<String> {
    match (codes, active) {
        ([], None) => Some(tally::total(kind, vec![term::EVERY.to_owned()], parameters)),
        ([], Some(false)) => Some(tally::total(kind, vec![term::INACTIVE.to_owned()], parameters)),
        ([], Some(true)) => Some(tally::active_total(kind)),
        ([only], None) => {
            let mut terms: Vec<String> =
                only.any_of.iter().map(|number| term::of_code_at(&only.field, *number)).collect();
            terms.sort_unstable();
            terms.dedup();
            (terms.len() == 1 || holds_one(&only.field)).then(|| tally::total(kind, terms, parameters))
        }
        _ => None,
    }
}

/// Whether no record holds two codes in a field.
fn holds_one(place: &CodedPlace) -> bool {
    let CodedPlace::Field(field) = place else { return false };
    match field {
        CodedField::Languages
        | CodedField::DisabilityCodes
        | CodedField::HealthConditions
        | CodedField::AddressCountry
        | CodedField::MemberRole
        | CodedField::RelationshipType => false,
        CodedField::Gender
        | CodedField::MaritalStatus
        | CodedField::Country
        | CodedField::Religion
        | CodedField::EthnoculturalStatus
        | CodedField::Education
        | CodedField::Occupation
        | CodedField::EconomicActivity
        | CodedField::PregnancyStatus
        | CodedField::IncomeCurrency
        | CodedField::GroupType
        | CodedField::HousingType => true,
    }
}

/// How people or groups are put in order.
struct Subjects<'a> {
    index: &'a PostgresIndex,
    kind: Kind,
    resource: Resource,
    column: fn(SortField) -> SortColumn,
}

impl Subjects<'_> {
    async fn order(
        &self,
        sight: Option<&Sight>,
        sorting: Sorting<'_>,
        window: &Window,
        parameters: &mut Parameters,
    ) -> Result<Order, StoreError> {
        let mut keys: Vec<(SortKey, SortColumn, Ranks)> = Vec::with_capacity(sorting.keys.len());
        for sort in sorting.keys {
            let column = (self.column)(sort.field);
            let ranks = match column {
                SortColumn::Code(_, field) => {
                    Ranks::new(tally::codes_held(self.index, self.kind, field).await?, sorting.code_ranks)
                }
                _ => Ranks::default(),
            };
            keys.push((*sort, column, ranks));
        }
        let mut order = Order::new(keys, (self.resource, "p.id", sight), parameters);
        if let Start::After(position) = &window.start {
            order.begin_after(position, sorting.code_ranks, parameters);
        }
        Ok(order)
    }
}

fn person_column(field: SortField) -> SortColumn {
    match field {
        SortField::Name => SortColumn::Text("name"),
        SortField::BirthDate => SortColumn::Day("birth_date"),
        SortField::DeceasedDate => SortColumn::Day("deceased_date"),
        SortField::LastUpdated => SortColumn::Instant,
        SortField::Code(field @ CodedField::Gender) => SortColumn::Code("gender", field),
        SortField::Code(field @ CodedField::MaritalStatus) => SortColumn::Code("marital_status", field),
        SortField::Code(field @ CodedField::Country) => SortColumn::Code("country", field),
        SortField::Code(field @ CodedField::Religion) => SortColumn::Code("religion", field),
        SortField::Code(field @ CodedField::EthnoculturalStatus) => SortColumn::Code("ethnocultural_status", field),
        SortField::Code(field @ CodedField::Education) => SortColumn::Code("education", field),
        SortField::Code(field @ CodedField::Occupation) => SortColumn::Code("occupation", field),
        SortField::Code(field @ CodedField::EconomicActivity) => SortColumn::Code("economic_activity", field),
        SortField::Code(field @ CodedField::PregnancyStatus) => SortColumn::Code("pregnancy_status", field),
        SortField::Code(field @ CodedField::IncomeCurrency) => SortColumn::Code("income_currency", field),
        SortField::Code(_) | SortField::Status | SortField::EnrollmentDate | SortField::ExitDate => SortColumn::Nothing,
    }
}

fn group_column(field: SortField) -> SortColumn {
    match field {
        SortField::Name => SortColumn::Text("name"),
        SortField::LastUpdated => SortColumn::Instant,
        SortField::Code(field @ CodedField::GroupType) => SortColumn::Code("group_type", field),
        SortField::Code(field @ CodedField::HousingType) => SortColumn::Code("housing_type", field),
        SortField::Code(_)
        | SortField::BirthDate
        | SortField::DeceasedDate
        | SortField::Status
        | SortField::EnrollmentDate
        | SortField::ExitDate => SortColumn::Nothing,
    }
}

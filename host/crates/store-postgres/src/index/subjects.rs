//! Searching people and groups.

use tokio_postgres::Client;

use super::PostgresIndex;
use super::columns::{Columns, GROUPS, INDIVIDUALS};
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
use daftar_store::StoreError;
use daftar_store::index::Sees;

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
    let IndividualQuery { identifiers, texts, dates, codes, active, place, last_updated } = query;
    let is_plain = identifiers.is_empty() && dates.is_empty() && place.is_none() && last_updated.is_empty();
    let is_tallied = sight.is_none() && is_plain && *texts == TextConditions::default();
    let total = if is_tallied { tallied(Kind::Individual, codes, *active, &mut parameters) } else { None };
    let order = Subjects { index, kind: Kind::Individual, columns: &INDIVIDUALS, resource: Resource::Individual };
    let order = order.order(sight, sorting, window, &mut parameters).await?;
    Search { table: INDIVIDUALS.table, conditions, total, order, window }.run(index, parameters).await
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
    let GroupQuery { identifiers, texts, dates, codes, active, members, day: _, last_updated } = query;
    let is_plain = identifiers.is_empty() && dates.is_empty() && members.is_empty() && last_updated.is_empty();
    let is_tallied = sight.is_none() && is_plain && *texts == TextConditions::default();
    let total = if is_tallied { tallied(Kind::Group, codes, *active, &mut parameters) } else { None };
    let order = Subjects { index, kind: Kind::Group, columns: &GROUPS, resource: Resource::Group };
    let order = order.order(sight, sorting, window, &mut parameters).await?;
    Search { table: GROUPS.table, conditions, total, order, window }.run(index, parameters).await
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
        SubjectQuery::Individuals(query) => (INDIVIDUALS.table, on_individuals(query, sight.as_ref(), &mut parameters)),
        SubjectQuery::Groups(query) => (GROUPS.table, on_groups(query, sight.as_ref(), &mut parameters)),
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
    filter.dates(&query.dates);
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
    filter.dates(&query.dates);
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
    INDIVIDUALS.has_code(*field) || GROUPS.has_code(*field)
}

/// How people or groups are put in order.
struct Subjects<'a> {
    index: &'a PostgresIndex,
    kind: Kind,
    resource: Resource,
    columns: &'static Columns,
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
            let column = match sort.field {
                SortField::Name => SortColumn::Text("name"),
                other => self.columns.sorted(other),
            };
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

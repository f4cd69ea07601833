//! Searching individuals and groups.

use std::borrow::Cow;
use std::collections::BTreeSet;

use tokio_postgres::{Client, Row};

use super::columns::{Columns, GROUPS, INDIVIDUALS};
use super::counters::Kind;
use super::filter::{Filter, Parameters};
use super::order::{Led, Order, Ranks, SortColumn};
use super::sees::Sight;
use super::{PostgresIndex, counters, term};
use crate::failure::Failure;
use crate::rows::{column, number};
use daftar_domain::record::RecordId;
use daftar_domain::search::order::{Position, SortField, SortKey, Start, Window};
use daftar_domain::search::{CodeCondition, CodedPlace, Found, KindCondition, Sorting, SubjectQuery, TextConditions};
use daftar_domain::subject::Subject;
use daftar_store::StoreError;
use daftar_store::index::Sees;

/// Above this number of codes in a condition, only those that records have are searched: PostgreSQL accepts a `tsquery`
/// of 1 MiB.
const CODES_MAX: usize = 1_000;

/// The individuals or groups that match, counted, and those of the page.
pub(super) async fn search(
    index: &PostgresIndex,
    query: &SubjectQuery,
    sees: Option<Sees<'_>>,
    sorting: Sorting<'_>,
    window: &Window,
) -> Result<Found, StoreError> {
    let mut parameters = Parameters::default();
    let Some(sight) = sight(sees, &mut parameters) else { return Ok(Found::default()) };
    let sight = sight.as_ref();
    let query = match stored_codes(query) {
        Some((statement, terms)) => Cow::Owned(without_others(query, &index.search(&statement, &terms).await?)?),
        None => Cow::Borrowed(query),
    };
    let query = &*query;
    let Some(conditions) = conditions(query, sight, &mut parameters) else { return Ok(Found::default()) };
    let total = if sight.is_none() { tallied(query, &mut parameters) } else { None };
    let order = order(index, (query.kind(), sight), sorting, window, &mut parameters).await?;
    Search { table: columns(query.kind()).table, conditions, total, order, window }.run(index, parameters).await
}

/// Returns every individual or group that matches, in the order of their keys, on a connection of the caller.
///
/// # Errors
/// If the database fails.
pub async fn matching(
    client: &Client,
    query: &SubjectQuery,
    sees: Option<Sees<'_>>,
) -> Result<Vec<RecordId>, StoreError> {
    let mut parameters = Parameters::default();
    let Some(sight) = sight(sees, &mut parameters) else { return Ok(Vec::new()) };
    let query = match stored_codes(query) {
        Some((statement, terms)) => {
            let rows = client.query(&statement, &terms.values()).await.map_err(Failure::from)?;
            Cow::Owned(without_others(query, &rows)?)
        }
        None => Cow::Borrowed(query),
    };
    let query = &*query;
    let Some(conditions) = conditions(query, sight.as_ref(), &mut parameters) else { return Ok(Vec::new()) };
    let filtered = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    let table = columns(query.kind()).table;
    // One row with all keys takes far less memory than one for each.
    let statement = format!("SELECT array_agg(p.id ORDER BY p.id) FROM daftar.{table} AS p WHERE {filtered}");
    let row = client.query_one(&statement, &parameters.values()).await.map_err(Failure::from)?;
    let keys: Option<Vec<i64>> = column(&row, 0)?;
    Ok(keys.unwrap_or_default().into_iter().map(|key| RecordId(key.unsigned_abs())).collect())
}

fn columns(subject: Subject) -> &'static Columns {
    match subject {
        Subject::Individual => &INDIVIDUALS,
        Subject::Group => &GROUPS,
    }
}

fn counted(subject: Subject) -> Kind {
    match subject {
        Subject::Individual => Kind::Individual,
        Subject::Group => Kind::Group,
    }
}

/// The terms of the codes of a condition.
fn terms(condition: &CodeCondition) -> impl Iterator<Item = String> {
    condition.any_of.iter().map(move |number| term::of_code_at(&condition.field, *number))
}

fn has_many(condition: &CodeCondition) -> bool {
    condition.any_of.len() > CODES_MAX
}

/// The statement that returns which codes of conditions with many codes any record has; `None` without such conditions.
fn stored_codes(query: &SubjectQuery) -> Option<(String, Parameters)> {
    let many = query.codes.iter().filter(|condition| has_many(condition));
    let terms: Vec<String> = many.flat_map(terms).collect();
    let mut parameters = Parameters::default();
    let statement = (!terms.is_empty()).then(|| counters::held(counted(query.kind()), terms, &mut parameters))?;
    Some((statement, parameters))
}

/// The query without the other codes in those conditions.
fn without_others(query: &SubjectQuery, rows: &[Row]) -> Result<SubjectQuery, StoreError> {
    let held: BTreeSet<&str> = rows.iter().map(|row| column(row, 0)).collect::<Result<_, StoreError>>()?;
    let mut query = query.clone();
    for CodeCondition { field, any_of } in query.codes.iter_mut().filter(|condition| has_many(condition)) {
        any_of.retain(|number| held.contains(term::of_code_at(field, *number).as_str()));
    }
    Ok(query)
}

/// Conditions of the records that match; `None` if none can.
fn conditions(query: &SubjectQuery, sight: Option<&Sight>, parameters: &mut Parameters) -> Option<Vec<String>> {
    let mut filter = Filter::new(query.kind().record_kind().resource(), parameters);
    filter.common(&query.codes, &query.texts, query.active, &query.dates);
    match &query.of_kind {
        KindCondition::Individuals(place) => place.iter().for_each(|place| filter.place(place, sight)),
        KindCondition::Groups(members) => {
            let lists =
                members.iter().flat_map(|members| members.people.iter().map(move |people| (people, members.day)));
            lists.for_each(|(people, day)| filter.member(people, day));
        }
    }
    filter.identifiers(&query.identifiers);
    filter.last_updated(&query.last_updated);
    filter.finish(sight)
}

/// The total, if counters have it: of all records, of active ones, of codes of a field of which no record has two.
fn tallied(query: &SubjectQuery, parameters: &mut Parameters) -> Option<String> {
    let SubjectQuery { of_kind, identifiers, texts, dates, codes, active, last_updated } = query;
    let is_by_members = !matches!(of_kind, KindCondition::Individuals(None) | KindCondition::Groups(None));
    let is_by_others = !identifiers.is_empty() || !dates.is_empty() || !last_updated.is_empty();
    if is_by_members || is_by_others || *texts != TextConditions::default() {
        return None;
    }
    let kind = counted(query.kind());
    match (codes.as_slice(), active) {
        ([], None) => Some(counters::total(kind, vec![term::EVERY.to_owned()], parameters)),
        ([], Some(false)) => Some(counters::total(kind, vec![term::INACTIVE.to_owned()], parameters)),
        ([], Some(true)) => Some(counters::active_total(kind)),
        ([only], None) => {
            let mut terms: Vec<String> = terms(only).collect();
            terms.sort_unstable();
            terms.dedup();
            (terms.len() == 1 || holds_one(&only.field)).then(|| counters::total(kind, terms, parameters))
        }
        _ => None,
    }
}

async fn order(
    index: &PostgresIndex,
    (subject, sight): (Subject, Option<&Sight>),
    sorting: Sorting<'_>,
    window: &Window,
    parameters: &mut Parameters,
) -> Result<Order, StoreError> {
    let mut keys: Vec<(SortKey, SortColumn, Ranks)> = Vec::with_capacity(sorting.keys.len());
    for sort in sorting.keys {
        let column = match sort.field {
            SortField::Name => SortColumn::Text("name"),
            other => columns(subject).sorted(other),
        };
        let ranks = match column {
            SortColumn::Code(_, field) => {
                Ranks::new(counters::codes_held(index, counted(subject), field).await?, sorting.code_ranks)
            }
            _ => Ranks::default(),
        };
        keys.push((*sort, column, ranks));
    }
    let resource = subject.record_kind().resource();
    Ok(Order::new(keys, (resource, sight), (window, sorting.code_ranks), parameters))
}

/// Access of the client: `Some(None)` if it is unlimited, `None` if it sees nothing.
pub(super) fn sight(sees: Option<Sees<'_>>, parameters: &mut Parameters) -> Option<Option<Sight>> {
    match sees {
        None => Some(None),
        Some(sees) => Sight::new(sees, parameters).map(Some),
    }
}

/// True if no record has two codes in a field.
fn holds_one(place: &CodedPlace) -> bool {
    let CodedPlace::Field(field) = place else { return false };
    INDIVIDUALS.has_code(*field) || GROUPS.has_code(*field)
}

/// A search of one table.
pub(super) struct Search<'w> {
    /// The table.
    pub(super) table: &'static str,
    /// Conditions of its rows `p`. If empty, all of them match.
    pub(super) conditions: Vec<String>,
    /// An expression for the total, where it need not be counted.
    pub(super) total: Option<String>,
    /// Sort order.
    pub(super) order: Order,
    /// Page.
    pub(super) window: &'w Window,
}

impl Search<'_> {
    /// Runs the search. A position has been added to the order before.
    pub(super) async fn run(self, index: &PostgresIndex, mut parameters: Parameters) -> Result<Found, StoreError> {
        let statement = self.statement(index.few_max, &mut parameters);
        let rows = index.search(&statement, &parameters).await?;
        let mut found = Found::default();
        let count = self.window.count as usize;
        for (place, row) in rows.iter().enumerate() {
            found.total = number(row, 0)?;
            let Some(id) = column::<Option<i64>>(row, 1)? else { continue };
            if place >= count {
                break;
            }
            let record = RecordId(id.unsigned_abs());
            found.ids.push(record);
            // One row more than wanted shows that there is a next page.
            if place + 1 == count && rows.len() > count {
                let values = self.order.values(row, 2)?;
                found.next =
                    Some(Position { values, record, passed: self.window.passed().saturating_add(count as u64) });
            }
        }
        Ok(found)
    }

    fn statement(&self, few_max: u32, parameters: &mut Parameters) -> String {
        let Self { table, conditions, total, order, window } = self;
        let (selected, joins) = (order.selected(), order.joins());
        let filtered = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
        let total = match total {
            Some(total) => format!("SELECT ({total})::bigint AS records"),
            None => format!("SELECT count(*) AS records FROM daftar.{table} AS p WHERE {filtered}"),
        };
        let skipped = if let Start::Offset(offset) = window.start { offset } else { 0 };
        let skipped = i64::try_from(skipped).unwrap_or(i64::MAX);
        let count = i64::from(window.count).saturating_add(1);
        let least = parameters.bind(skipped.saturating_add(count), "bigint");
        let (skipped, count) = (parameters.bind(skipped, "bigint"), parameters.bind(count, "bigint"));
        let after = order.after().map_or_else(String::new, |after| format!(" AND {after}"));
        let by = order.by(false);
        let rows = format!("(SELECT {selected} FROM daftar.{table} AS p {joins} WHERE {filtered}) AS row");
        let (mut parts, mut gathered) = (Vec::new(), String::new());
        let led = if conditions.is_empty() { order.led(table, few_max, &least, parameters) } else { None };
        if let Some(Led { statement, missing, missing_by }) = led {
            gathered = format!(", led AS MATERIALIZED ({statement})");
            parts.push("SELECT * FROM led".to_owned());
            parts.push(format!(
                "(SELECT * FROM (SELECT {selected} FROM daftar.{table} AS p {joins} WHERE {missing}) AS row \
                 WHERE (SELECT count(*) FROM led) < {least} ORDER BY {missing_by} LIMIT {least})"
            ));
        } else {
            let is_many = if conditions.is_empty() {
                "true".to_owned()
            } else {
                gathered = format!(", few AS MATERIALIZED (SELECT * FROM {rows})");
                parts.push(format!(
                    "(SELECT * FROM few WHERE (SELECT records FROM total) <= {few_max}{after} \
                     ORDER BY {by} LIMIT {least})"
                ));
                format!("(SELECT records FROM total) > {few_max}")
            };
            // In each range the first value is present in all rows, or in none.
            parts.extend(order.stretches().into_iter().map(|(stretch, by)| {
                format!("(SELECT * FROM {rows} WHERE {is_many} AND {stretch} ORDER BY {by} LIMIT {least})")
            }));
        }
        format!(
            "WITH total AS MATERIALIZED ({total}){gathered} \
             SELECT total.records, page.* FROM total LEFT JOIN (\
             SELECT * FROM ({}) AS found ORDER BY {by} LIMIT {count} OFFSET {skipped}) AS page ON true ORDER BY {by}",
            parts.join(" UNION ALL ")
        )
    }
}

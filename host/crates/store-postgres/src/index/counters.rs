//! Counters of records by term: stored with the rows, so that the commonest totals are read and not counted.

use std::collections::BTreeMap;

use super::filter::Parameters;
use super::row::Terms;
use super::{PostgresIndex, term};
use crate::rows::{column, number};
use daftar_domain::code::CodeNumber;
use daftar_domain::record::RecordId;
use daftar_domain::vocabulary::CodedField;
use daftar_store::StoreError;

/// Increments of the counters of terms.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Gained {
    /// The terms, each once.
    pub(super) terms: Vec<String>,
    /// Number of records with each.
    pub(super) records: Vec<i64>,
}

impl Gained {
    /// Increments by individuals or groups with these terms.
    pub(super) fn of_all<'t>(all: impl Iterator<Item = &'t Terms>) -> Self {
        Self::of(all.flat_map(|terms| terms.counted.iter().map(String::as_str)))
    }

    /// Increment by so many records of the counter of all records alone.
    pub(super) fn of_records(records: usize) -> Self {
        Self { terms: vec![term::EVERY.to_owned()], records: vec![i64::try_from(records).unwrap_or(i64::MAX)] }
    }

    /// Increments by records with these terms, in which each term of a record occurs once.
    pub(super) fn of<'t>(terms: impl Iterator<Item = &'t str>) -> Self {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for term in terms {
            let count = counts.entry(term).or_default();
            *count = count.saturating_add(1);
        }
        Self { terms: counts.keys().map(|term| (*term).to_owned()).collect(), records: counts.into_values().collect() }
    }
}

/// The kinds of records whose terms are counted, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Individual = 1,
    Group = 2,
    Membership = 4,
    Consent = 5,
}

/// Number of records of a kind that have any of these terms, of which no record has two.
pub(super) fn total(kind: Kind, terms: Vec<String>, parameters: &mut Parameters) -> String {
    let terms = parameters.bind(terms, "text[]");
    format!(
        "SELECT coalesce(sum(records), 0) FROM daftar.search_tally WHERE kind = {} AND term = ANY({terms})",
        kind as i16
    )
}

/// Number of active records of a kind.
pub(super) fn active_total(kind: Kind) -> String {
    format!(
        "SELECT coalesce(sum(CASE term WHEN '' THEN records ELSE -records END), 0) \
         FROM daftar.search_tally WHERE kind = {} AND term IN ('', 'x')",
        kind as i16
    )
}

/// The codes that records of a kind have in a field, and the number of records with each.
pub(super) async fn codes_held(
    index: &PostgresIndex,
    kind: Kind,
    field: CodedField,
) -> Result<Vec<(i64, i64)>, StoreError> {
    let mut parameters = Parameters::default();
    let first = parameters.bind(term::of_field(field), "text");
    let statement = format!(
        "SELECT code, records FROM daftar.search_tally WHERE kind = {} AND records > 0 \
         AND term >= {first} AND term < rtrim({first}, '#') || '$' AND code IS NOT NULL ORDER BY code",
        kind as i16
    );
    let rows = index.query(&statement, &parameters).await?;
    rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect()
}

fn every(numbers: &[CodeNumber]) -> Vec<i64> {
    numbers.iter().map(|number| i64::from(number.0)).collect()
}

/// Condition of the rows `p` of a kind that have one of the codes: counters know in which fields there are any.
fn holds(kind: Kind, numbers: &str) -> String {
    // Such a term has no character that would have to be escaped from an operator.
    format!(
        "p.terms @@ (SELECT string_agg('''' || term || '''', ' | ') FROM daftar.search_tally \
         WHERE code = ANY({numbers}) AND kind = {} AND records > 0)::tsquery",
        kind as i16
    )
}

/// Number of individuals and groups that have at least one of the codes.
pub(super) async fn records_using(index: &PostgresIndex, numbers: &[CodeNumber]) -> Result<u64, StoreError> {
    let mut parameters = Parameters::default();
    if let [only] = numbers {
        return Ok(records_by_code(index, numbers).await?.get(only).copied().unwrap_or_default());
    }
    let numbers = parameters.bind(every(numbers), "bigint[]");
    let statement = format!(
        "SELECT (SELECT count(*) FROM daftar.search_individual AS p WHERE {}) \
         + (SELECT count(*) FROM daftar.search_group AS p WHERE {})",
        holds(Kind::Individual, &numbers),
        holds(Kind::Group, &numbers)
    );
    let rows = index.search(&statement, &parameters).await?;
    rows.first().map_or(Ok(0), |row| number(row, 0))
}

/// Number of individuals and groups that have each of the codes in use.
pub(super) async fn records_by_code(
    index: &PostgresIndex,
    numbers: &[CodeNumber],
) -> Result<BTreeMap<CodeNumber, u64>, StoreError> {
    let mut parameters = Parameters::default();
    let numbers = parameters.bind(every(numbers), "bigint[]");
    let statement = format!(
        "SELECT asked.code, sum(tally.records)::bigint \
         FROM (SELECT DISTINCT code FROM unnest({numbers}) AS number(code)) AS asked \
         JOIN daftar.search_tally AS tally ON tally.term = 'k' || asked.code AND tally.kind IN ({}, {}) \
         AND tally.records > 0 GROUP BY asked.code",
        Kind::Individual as i16,
        Kind::Group as i16
    );
    let rows = index.search(&statement, &parameters).await?;
    let mut counts = BTreeMap::new();
    for row in &rows {
        let (code, count) = (number(row, 0)?, number(row, 1)?);
        counts.extend(u32::try_from(code).ok().map(|code| (CodeNumber(code), count)));
    }
    Ok(counts)
}

/// The individuals and groups that have at least one of the codes, at most `limit` in all.
pub(super) async fn holders_of(
    index: &PostgresIndex,
    numbers: &[CodeNumber],
    limit: usize,
) -> Result<(Vec<RecordId>, Vec<RecordId>), StoreError> {
    let mut parameters = Parameters::default();
    let numbers = parameters.bind(every(numbers), "bigint[]");
    let limit = parameters.bind(i64::try_from(limit).unwrap_or(i64::MAX), "bigint");
    // All of them are gathered before they are sorted: if there are few, no index leads to the first of them sooner.
    let statement = format!(
        "WITH person AS MATERIALIZED (SELECT p.id FROM daftar.search_individual AS p WHERE {}), \
         in_group AS MATERIALIZED (SELECT p.id FROM daftar.search_group AS p WHERE {}) \
         SELECT is_group, id FROM (SELECT false AS is_group, id FROM person UNION ALL SELECT true, id FROM in_group) AS held \
         ORDER BY is_group, id LIMIT {limit}",
        holds(Kind::Individual, &numbers),
        holds(Kind::Group, &numbers)
    );
    let rows = index.search(&statement, &parameters).await?;
    let (mut individuals, mut groups) = (Vec::new(), Vec::new());
    for row in &rows {
        let held = if column(row, 0)? { &mut groups } else { &mut individuals };
        held.push(RecordId(number(row, 1)?));
    }
    Ok((individuals, groups))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_of_many_records_are_counted_together() {
        let gained = Gained::of(["", "c1#2", "", "x", "c1#2", ""].into_iter());
        assert_eq!(gained, Gained { terms: vec!["".into(), "c1#2".into(), "x".into()], records: vec![3, 2, 1] });
    }
}

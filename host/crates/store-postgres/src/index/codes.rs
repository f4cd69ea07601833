//! Which records hold codes, in whatever field.

use std::collections::BTreeMap;

use super::PostgresIndex;
use super::row::unreadable;
use super::sql::Parameters;
use super::tally::Kind;
use daftar_domain::code::CodeNumber;
use daftar_domain::record::RecordId;
use daftar_store::StoreError;

fn told(error: tokio_postgres::Error) -> StoreError {
    unreadable("answer of the index", &error)
}

fn every(numbers: &[CodeNumber]) -> Vec<i64> {
    numbers.iter().map(|number| i64::from(number.0)).collect()
}

/// What holds of the rows `p` of a kind that hold one of the codes: tallies know in which fields there are any.
fn holds(kind: Kind, numbers: &str) -> String {
    // Such a term holds no character that would have to be told from an operator.
    format!(
        "p.terms @@ (SELECT string_agg('''' || term || '''', ' | ') FROM daftar.search_tally \
         WHERE code = ANY({numbers}) AND kind = {} AND records > 0)::tsquery",
        kind as i16
    )
}

/// How many people and groups hold at least one of the codes.
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
    let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(told)?;
    Ok(count.unsigned_abs())
}

/// How many people and groups hold each of the codes that any holds.
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
        let (code, count): (i64, i64) = (row.try_get(0).map_err(told)?, row.try_get(1).map_err(told)?);
        counts.extend(u32::try_from(code).ok().map(|code| (CodeNumber(code), count.unsigned_abs())));
    }
    Ok(counts)
}

/// Which people and groups hold at least one of the codes, at most `limit` in all.
pub(super) async fn holders_of(
    index: &PostgresIndex,
    numbers: &[CodeNumber],
    limit: usize,
) -> Result<(Vec<RecordId>, Vec<RecordId>), StoreError> {
    let mut parameters = Parameters::default();
    let numbers = parameters.bind(every(numbers), "bigint[]");
    let limit = parameters.bind(i64::try_from(limit).unwrap_or(i64::MAX), "bigint");
    // All of them are gathered before any is put in order: where there are few, no index leads to the first of them sooner.
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
        let (is_group, id): (bool, i64) = (row.try_get(0).map_err(told)?, row.try_get(1).map_err(told)?);
        let held = if is_group { &mut groups } else { &mut individuals };
        held.push(RecordId(id.unsigned_abs()));
    }
    Ok((individuals, groups))
}

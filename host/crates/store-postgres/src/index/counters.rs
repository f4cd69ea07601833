//! Counters of records by term: stored with the rows, so that the commonest totals are read and not counted.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;

use super::filter::Parameters;
use super::row::Terms;
use super::{PostgresIndex, term};
use crate::database::execute;
use crate::failure::Failure;
use crate::rows::column;
use daftar_domain::code::CodeNumber;
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

/// Increments of the counters of all kinds, to be written together. In one transaction each update of a row leaves a
/// version of it that all later updates read: a transaction of many statements writes its increments once.
#[derive(Debug, Default)]
pub(crate) struct Increments(BTreeMap<(i16, String), i64>);

impl Increments {
    /// Adds increments of the counters of a kind.
    pub(super) fn add(&mut self, kind: Kind, gained: Gained) {
        for (term, records) in gained.terms.into_iter().zip(gained.records) {
            let sum = self.0.entry((kind as i16, term)).or_default();
            *sum = sum.saturating_add(records);
        }
    }

    /// Writes them.
    pub(crate) async fn write(self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let rows = self.0.into_iter().map(|((kind, term), records)| (kind, term, records));
        let (kinds, terms, records): (Vec<i16>, Vec<String>, Vec<i64>) = rows.collect();
        execute(transaction, GAIN, &[&kinds, &terms, &records]).await?;
        Ok(())
    }
}

/// The terms whose counters change, with their kinds, and by how much.
const GAIN: &str = "\
INSERT INTO daftar.search_tally (kind, term, code, records)
SELECT kind, term, CASE WHEN left(term, 1) IN ('c', 'e') THEN split_part(term, '#', 2)::bigint END, records
FROM unnest($1::smallint[], $2::text[], $3::bigint[]) AS gained(kind, term, records) ORDER BY kind, term
ON CONFLICT (kind, term) DO UPDATE SET records = daftar.search_tally.records + excluded.records";

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

/// The statement that returns those of the terms that records of a kind have.
pub(super) fn held(kind: Kind, terms: Vec<String>, parameters: &mut Parameters) -> String {
    let terms = parameters.bind(terms, "text[]");
    // Joined: PostgreSQL estimates each value of `ANY`, which takes long for many.
    format!(
        "SELECT term FROM daftar.search_tally WHERE kind = {} AND records > 0 AND term IN (SELECT unnest({terms}))",
        kind as i16
    )
}

pub(super) fn code_numbers(numbers: &[CodeNumber]) -> Vec<i64> {
    numbers.iter().map(|number| i64::from(number.0)).collect()
}

/// Condition of the rows `p` of a kind that have one of the codes: counters know in which fields there are any.
pub(super) fn holds(kind: Kind, numbers: &str) -> String {
    // Such a term has no character that would have to be escaped from an operator.
    format!(
        "p.terms @@ (SELECT string_agg('''' || term || '''', ' | ') FROM daftar.search_tally \
         WHERE code = ANY({numbers}) AND kind = {} AND records > 0)::tsquery",
        kind as i16
    )
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

//! How many records hold what: tallies that are kept with the rows, so that the commonest totals are read and not counted.

use std::collections::BTreeMap;

use super::PostgresIndex;
use super::row::{Terms, unreadable};
use super::sql::Parameters;
use super::term;
use daftar_domain::vocabulary::CodedField;
use daftar_store::StoreError;

/// By how many records the tallies of terms grow.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Gained {
    /// The terms, each once.
    pub(super) terms: Vec<String>,
    /// How many records hold each.
    pub(super) records: Vec<i64>,
}

impl Gained {
    /// What people or groups gain that hold these terms.
    pub(super) fn of_all<'t>(all: impl Iterator<Item = &'t Terms>) -> Self {
        Self::of(all.flat_map(|terms| terms.counted.iter().map(String::as_str)))
    }

    /// What so many records gain that are counted, and nothing of them.
    pub(super) fn of_records(records: usize) -> Self {
        Self { terms: vec![term::EVERY.to_owned()], records: vec![i64::try_from(records).unwrap_or(i64::MAX)] }
    }

    /// What records gain that hold these terms, each record's each once.
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

/// How many records of a kind hold any of these terms, where no record holds two of them.
pub(super) fn total(kind: Kind, terms: Vec<String>, parameters: &mut Parameters) -> String {
    let terms = parameters.bind(terms, "text[]");
    format!(
        "SELECT coalesce(sum(records), 0) FROM daftar.search_tally WHERE kind = {} AND term = ANY({terms})",
        kind as i16
    )
}

/// How many records of a kind are in use.
pub(super) fn active_total(kind: Kind) -> String {
    format!(
        "SELECT coalesce(sum(CASE term WHEN '' THEN records ELSE -records END), 0) \
         FROM daftar.search_tally WHERE kind = {} AND term IN ('', 'x')",
        kind as i16
    )
}

/// The codes that records of a kind hold in a field, and how many hold each.
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
    let read = |row: &tokio_postgres::Row| {
        let told = |error: tokio_postgres::Error| unreadable("tally of the index", &error);
        Ok((row.try_get(0).map_err(told)?, row.try_get(1).map_err(told)?))
    };
    rows.iter().map(read).collect()
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

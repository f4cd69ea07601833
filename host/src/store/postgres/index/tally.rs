//! How many records hold what: tallies that are kept with the rows, so that the commonest totals are read and not counted.

use std::collections::BTreeMap;

/// By how many records the tallies of terms grow.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Gained {
    /// The terms, each once.
    pub(super) terms: Vec<String>,
    /// How many records hold each.
    pub(super) records: Vec<i64>,
}

impl Gained {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_of_many_records_are_counted_together() {
        let gained = Gained::of(["", "c1#2", "", "x", "c1#2", ""].into_iter());
        assert_eq!(gained, Gained { terms: vec!["".into(), "c1#2".into(), "x".into()], records: vec![3, 2, 1] });
    }
}

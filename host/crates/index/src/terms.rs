//! Records of one kind by term: the rows that have a term, and pages of those that have several.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bitmaps::{Posting, RowSet};
use super::blobs::Blobs;
use super::checkpoint::{CheckpointWriter, Loading, Stored};
use super::codes::{Edits, apply_edits, note_edits, sorted_once};
use super::rows::Rows;
use super::search;
use super::search::filter::{Condition, Filter, Rows as MatchingRows, Test};
use super::stored::{self, Corrupt};
use super::tree::SharedTree;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::{Found, Page};

/// Records by term, cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct TermIndex<K> {
    /// The record of each row.
    pub(super) rows: Rows,
    /// Rows by term.
    pub(super) postings: SharedTree<K, Posting>,
}

impl<K: Ord + Clone> Default for TermIndex<K> {
    fn default() -> Self {
        Self { rows: Rows::default(), postings: SharedTree::default() }
    }
}

/// Returns the terms of a row at its last write; the default if it was never written.
pub(super) fn of_row<T: DeserializeOwned + Default>(terms: &Blobs, row: u32) -> T {
    let mut bytes = terms.get(row);
    if bytes.is_empty() {
        return T::default();
    }
    stored::take(&mut bytes).unwrap_or_else(|error| {
        // The bytes were written by this process, or read from a checkpoint with valid checksums.
        tracing::error!(error = %error, "failed to decode the terms of a record; searches may use its previous values");
        T::default()
    })
}

/// Stores the terms of a row.
pub(super) fn set_row<T: Serialize>(terms: &mut Blobs, row: u32, of_row: &T) {
    terms.set(row, &stored::bytes_of(of_row));
}

/// A decomposed record: its key and its terms.
pub(super) type Prepared<K> = (RecordId, Vec<K>);

impl<K: Ord + Clone + Serialize + DeserializeOwned> Stored for TermIndex<K> {
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        self.rows.store(checkpoint)?;
        self.postings.store(checkpoint)
    }

    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt> {
        Ok(Self { rows: Rows::load(checkpoint)?, postings: SharedTree::load(checkpoint)? })
    }
}

impl<K: Ord + Clone + Serialize + DeserializeOwned> TermIndex<K> {
    /// Writes records of this kind, each into its row or a new one.
    pub(super) fn write(&mut self, kind: RecordKind, all_terms: &mut Blobs, records: Vec<Prepared<K>>) {
        let mut edits = Edits::new();
        for (id, terms) in records {
            let Some(row) = self.rows.place(kind, id) else { continue };
            let before: Vec<K> = of_row(all_terms, row);
            let terms = sorted_once(terms);
            note_edits(&mut edits, row, &before, &terms, K::clone);
            set_row(all_terms, row, &terms);
        }
        apply_edits(&mut self.postings, edits);
    }

    /// Returns the rows that have a term, ascending.
    pub(super) fn rows_with(&self, term: &K) -> Vec<u32> {
        RowSet::union(self.postings.get(term)).rows().collect()
    }

    /// Returns the rows with a term of each list; `None` if nothing can match: an empty list matches no row.
    pub(super) fn rows_matching(&self, conditions: &[Vec<K>]) -> Option<Vec<MatchingRows<'_>>> {
        let postings = |any: &Vec<K>| any.iter().filter_map(|term| self.postings.get(term)).collect();
        let lists: Vec<Vec<&Posting>> = conditions.iter().map(postings).collect();
        let is_possible = lists.iter().all(|postings| !postings.is_empty());
        is_possible.then(|| lists.into_iter().map(MatchingRows::any_of).collect())
    }

    /// Returns the records that have one term of each list: their number, and those of the page, in the order of their
    /// keys. Without a list, every record matches.
    pub(super) fn search(&self, conditions: &[Vec<K>], page: Page) -> Found {
        let filter = self.rows_matching(conditions).map(|lists| {
            let all = |rows| Condition { test: Test::Among(rows), inspected: None };
            Filter::new(self.rows.count(), None, lists.into_iter().map(all).collect())
        });
        search::run(&self.rows, filter, None, &page.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(found: &Found) -> Vec<u64> {
        found.ids.iter().map(|id| id.0).collect()
    }

    #[test]
    fn finds_those_that_hold_one_term_of_each_list() {
        let (mut index, mut terms) = (TermIndex::default(), Blobs::default());
        let records =
            (1..=200_000_u64).map(|id| (RecordId(id), vec![format!("by {}", id % 3), format!("no {}", id % 5)]));
        index.write(RecordKind::Consent, &mut terms, records.collect());
        let every = Page { offset: 0, count: 3 };
        let list = |terms: &[&str]| terms.iter().map(|term| (*term).to_owned()).collect::<Vec<_>>();
        assert_eq!(index.search(&[], every).total, 200_000);
        let both = [list(&["by 0"]), list(&["no 0"])];
        let found = index.search(&both, every);
        assert_eq!((found.total, ids(&found)), (13_333, vec![15, 30, 45]));
        let late = index.search(&both, Page { offset: 13_331, count: 3 });
        assert_eq!((late.total, ids(&late)), (13_333, vec![199_980, 199_995]));
        assert_eq!(index.search(&[list(&["by 0", "by 1", "by 2"])], every).total, 200_000);
        assert_eq!(index.search(&[list(&["by 9"])], every).total, 0);
        assert_eq!(index.search(&[list(&["by 0"]), Vec::new()], every).total, 0);

        index.write(RecordKind::Consent, &mut terms, vec![(RecordId(15), list(&["by 1", "no 0", "no 0"]))]);
        let found = index.search(&both, every);
        assert_eq!((found.total, ids(&found)), (13_332, vec![30, 45, 60]));
    }
}

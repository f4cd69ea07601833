//! Records of one kind by what they say: which rows hold a term, and the pages of those that hold several.

use std::borrow::Cow;
use std::cmp::Ordering;

use roaring::RoaringBitmap;

use super::bitmaps::{self, Posting, SEGMENT_ROWS};
use super::codes::{Edits, apply_edits, note_edits, sorted_once};
use super::rows::{Place, Rows};
use super::search::Found;
use super::tree::SharedTree;
use crate::domain::record::RecordId;
use crate::domain::search::Page;

/// Records by term, cheap to copy.
#[derive(Debug, Clone)]
pub(super) struct TermIndex<K> {
    rows: Rows,
    postings: SharedTree<K, Posting>,
}

impl<K: Ord + Clone> Default for TermIndex<K> {
    fn default() -> Self {
        Self { rows: Rows::default(), postings: SharedTree::default() }
    }
}

/// The terms of each row, to be cleared when the row is written again.
pub(super) type AllTerms<K> = Vec<Box<[K]>>;

/// A record taken apart: its key and its terms.
pub(super) type Prepared<K> = (RecordId, Vec<K>);

impl<K: Ord + Clone> TermIndex<K> {
    /// Writes records, each into a new row or the row that it has.
    pub(super) fn write(&mut self, all_terms: &mut AllTerms<K>, records: Vec<Prepared<K>>) {
        let mut edits = Edits::new();
        for (id, terms) in records {
            let row = match self.rows.place(id) {
                Place::Known(row) => row,
                Place::New(row) => {
                    all_terms.push(Box::default());
                    row
                }
                Place::Refused => {
                    tracing::error!(
                        record.id = id.0,
                        "a record came out of the order of creation; searches do not find it until the next start"
                    );
                    continue;
                }
            };
            let Some(before) = all_terms.get_mut(row as usize) else { continue };
            let terms: Box<[K]> = sorted_once(terms).into();
            note_edits(&mut edits, row, before, &terms, K::clone);
            *before = terms;
        }
        apply_edits(&mut self.postings, edits);
    }

    /// The records that hold one term of each list: how many, and those of the page, in the order of their keys. An empty
    /// list is held by nobody; no list at all by everybody.
    pub(super) fn search(&self, conditions: &[Vec<K>], page: Page) -> Found {
        let mut found = Found::default();
        let Some(last_row) = self.rows.count().checked_sub(1) else { return found };
        let postings: Vec<Vec<&Posting>> =
            conditions.iter().map(|any| any.iter().filter_map(|term| self.postings.get(term)).collect()).collect();
        if postings.iter().any(Vec::is_empty) {
            return found;
        }
        for segment in 0..=bitmaps::split(last_row).0 {
            let rows = self.segment(&postings, segment);
            let skipped = page.offset.saturating_sub(found.total);
            found.total = found.total.saturating_add(rows.len());
            let wanted = (page.count as usize).saturating_sub(found.ids.len());
            if wanted == 0 || skipped.cmp(&rows.len()) != Ordering::Less {
                continue;
            }
            let Some(first) = u32::try_from(skipped).ok().and_then(|skipped| rows.select(skipped)) else { continue };
            let rows = rows.range(first..).take(wanted).map(|low| bitmaps::join(segment, low));
            found.ids.extend(rows.filter_map(|row| self.rows.id(row)));
        }
        found
    }

    /// The rows of a segment that meet every condition.
    fn segment(&self, conditions: &[Vec<&Posting>], segment: u16) -> RoaringBitmap {
        let mut rows: Option<RoaringBitmap> = None;
        for any_of in conditions {
            let mut these = RoaringBitmap::new();
            for part in any_of.iter().filter_map(|posting| posting.segment(segment)) {
                match part {
                    Cow::Borrowed(part) => these |= part,
                    Cow::Owned(part) => these |= part,
                }
            }
            match &mut rows {
                Some(rows) => *rows &= these,
                None => rows = Some(these),
            }
        }
        rows.unwrap_or_else(|| {
            let count = self.rows.count().saturating_sub(bitmaps::join(segment, 0)).min(SEGMENT_ROWS);
            let mut every = RoaringBitmap::new();
            every.insert_range(0..count);
            every
        })
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
        let (mut index, mut terms) = (TermIndex::default(), AllTerms::default());
        let records =
            (1..=200_000_u64).map(|id| (RecordId(id), vec![format!("by {}", id % 3), format!("no {}", id % 5)]));
        index.write(&mut terms, records.collect());
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

        index.write(&mut terms, vec![(RecordId(15), list(&["by 1", "no 0", "no 0"]))]);
        let found = index.search(&both, every);
        assert_eq!((found.total, ids(&found)), (13_332, vec![30, 45, 60]));
    }
}

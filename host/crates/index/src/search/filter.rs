//! Conditions on the rows of one kind of record, combined by AND and evaluated segment by segment.

use std::borrow::Cow;

use roaring::RoaringBitmap;

use crate::bitmaps::{self, Posting, RowSet, SEGMENT_ROWS};

/// If more rows than this remain in a segment, the whole column is compared at once instead of row by row.
const SINGLE_LOOKUPS_MAX: u64 = 4_096;

/// Rows that meet a condition.
pub(crate) enum Rows<'a> {
    /// A single posting of an index.
    Posting(&'a Posting),
    /// A set computed for this search.
    Set(RowSet),
}

impl<'a> Rows<'a> {
    /// Returns the rows in any of the postings.
    pub(crate) fn any_of(postings: Vec<&'a Posting>) -> Self {
        match postings.as_slice() {
            [only] => Self::Posting(only),
            _ => Self::Set(RowSet::union(postings)),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Posting(posting) => posting.len(),
            Self::Set(set) => set.len(),
        }
    }

    fn segment(&self, segment: u16) -> Option<Cow<'_, RoaringBitmap>> {
        match self {
            Self::Posting(posting) => posting.segment(segment),
            Self::Set(set) => set.segment(segment).map(Cow::Borrowed),
        }
    }
}

/// A condition that is evaluated on columns.
pub(crate) trait Scan {
    /// Returns true if a row meets the condition.
    fn holds(&self, row: u32) -> bool;
    /// Returns the rows of a segment that meet the condition.
    fn mark(&self, segment: u16) -> RoaringBitmap;
}

/// The test of a condition.
pub(crate) enum Test<'a> {
    /// The row is in this set.
    Among(Rows<'a>),
    /// The row is not in this posting.
    NotAmong(&'a Posting),
    /// The row's columns meet a condition.
    Scanned(Box<dyn Scan + 'a>),
}

/// A condition and the rows on which its field is visible; `None`: on all.
pub(crate) struct Condition<'a> {
    pub(crate) test: Test<'a>,
    pub(crate) inspected: Option<&'a Posting>,
}

/// A query in terms of rows.
pub(crate) struct Filter<'a> {
    row_count: u32,
    /// The visible rows; `None`: all.
    visible: Option<&'a Posting>,
    /// The sets that must contain the row, the smallest first.
    among: Vec<(Rows<'a>, Option<&'a Posting>)>,
    not_among: Vec<(&'a Posting, Option<&'a Posting>)>,
    scans: Vec<(Box<dyn Scan + 'a>, Option<&'a Posting>)>,
}

impl<'a> Filter<'a> {
    pub(crate) fn new(row_count: u32, visible: Option<&'a Posting>, conditions: Vec<Condition<'a>>) -> Self {
        let mut filter = Self { row_count, visible, among: Vec::new(), not_among: Vec::new(), scans: Vec::new() };
        for Condition { test, inspected } in conditions {
            match test {
                Test::Among(rows) => filter.among.push((rows, inspected)),
                Test::NotAmong(rows) => filter.not_among.push((rows, inspected)),
                Test::Scanned(scan) => filter.scans.push((scan, inspected)),
            }
        }
        filter.among.sort_by_cached_key(|(rows, _)| rows.len());
        filter
    }

    /// Returns the segments that contain rows.
    pub(crate) fn segments(&self) -> impl Iterator<Item = u16> + use<> {
        let last = self.row_count.checked_sub(1).map(|row| bitmaps::split(row).0);
        last.into_iter().flat_map(|last| 0..=last)
    }

    /// Returns the rows of a segment that meet every condition.
    pub(crate) fn segment(&self, segment: u16) -> RoaringBitmap {
        let mut rows: Option<Cow<'_, RoaringBitmap>> = None;
        let allowed = |inspected: &Option<&'a Posting>| inspected.map(|posting| posting.segment(segment));
        for (among, inspected) in &self.among {
            for these in [Some(among.segment(segment)), allowed(inspected)].into_iter().flatten() {
                let Some(these) = these else { return RoaringBitmap::new() };
                let both = match rows {
                    None => these,
                    Some(rows) => Cow::Owned(rows.as_ref() & these.as_ref()),
                };
                if both.is_empty() {
                    return RoaringBitmap::new();
                }
                rows = Some(both);
            }
        }
        let masks = self.not_among.iter().map(|(_, inspected)| inspected).chain(self.scans.iter().map(|(_, at)| at));
        for mask in masks.chain([&self.visible]).filter_map(allowed) {
            let Some(mask) = mask else { return RoaringBitmap::new() };
            rows = Some(match rows {
                None => mask,
                Some(rows) => Cow::Owned(rows.as_ref() & mask.as_ref()),
            });
        }
        for (not_among, _) in &self.not_among {
            let Some(these) = not_among.segment(segment) else { continue };
            let of = rows.unwrap_or_else(|| Cow::Owned(every_row(self.row_count, segment)));
            rows = Some(Cow::Owned(of.as_ref() - these.as_ref()));
        }
        for (scan, _) in &self.scans {
            rows = Some(Cow::Owned(match rows {
                None => scan.mark(segment),
                Some(rows) if rows.is_empty() => return RoaringBitmap::new(),
                Some(rows) if rows.len() > SINGLE_LOOKUPS_MAX => scan.mark(segment) & rows.as_ref(),
                Some(rows) => rows.iter().filter(|low| scan.holds(bitmaps::join(segment, *low))).collect(),
            }));
        }
        rows.map_or_else(|| every_row(self.row_count, segment), Cow::into_owned)
    }
}

fn every_row(row_count: u32, segment: u16) -> RoaringBitmap {
    let count = row_count.saturating_sub(bitmaps::join(segment, 0)).min(SEGMENT_ROWS);
    let mut rows = RoaringBitmap::new();
    rows.insert_range(0..count);
    rows
}

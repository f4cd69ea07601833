//! Selects a page from matching rows without sorting all of them.
//!
//! One pass over the matches retains the best candidates: as many as the page and the rows before it. Most rows are
//! dropped by their rank, which is read from the column for a whole chunk at a time.

use roaring::RoaringBitmap;

use super::order::{After, Candidate, Order};
use super::scans::SEGMENT_CHUNKS;
use crate::bitmaps;
use crate::chunk::CHUNK_ROWS;
use daftar_domain::search::order::Position;

/// The minimum number of candidates at which the worse half is dropped.
const CANDIDATES_MIN: usize = 1_024;
/// With fewer matches than this in a chunk, each rank is read individually.
const WHOLE_CHUNK_MIN: u64 = 256;

/// Collects matches and retains those of a page.
pub(crate) struct Best<'o, 'a, 'p> {
    order: &'o Order<'a>,
    after: Option<After<'p>>,
    /// The number of candidates to retain.
    needed: usize,
    candidates: Vec<Candidate>,
    /// The worst retained candidate.
    worst: Option<Candidate>,
    remaining: u64,
}

impl<'o, 'a, 'p> Best<'o, 'a, 'p> {
    /// Retains the first `needed` matches after the position; its row is as returned by `place_of`.
    pub(crate) fn new(order: &'o Order<'a>, position: Option<(&'p Position, (u32, bool))>, needed: usize) -> Self {
        let after = position.and_then(|(position, place)| order.after(position, place));
        Self { order, after, needed, candidates: Vec::new(), worst: None, remaining: 0 }
    }

    /// Adds the matches of a segment.
    pub(crate) fn add(&mut self, segment: u16, matches: &RoaringBitmap) {
        let mut ranks = [0; CHUNK_ROWS];
        let last = SEGMENT_CHUNKS - 1;
        for place in 0..SEGMENT_CHUNKS {
            let place = if self.order.begins_with_late_rows() { last - place } else { place };
            let first = (place * CHUNK_ROWS) as u32;
            let lows = first..first + CHUNK_ROWS as u32;
            let count = matches.range_cardinality(lows.clone());
            if count == 0 {
                continue;
            }
            let rows = matches.range(lows.clone()).map(|low| bitmaps::join(segment, low));
            if count < WHOLE_CHUNK_MIN {
                rows.for_each(|row| self.take((self.order.first_rank(row), row)));
                continue;
            }
            self.order.first_ranks(usize::from(segment) * SEGMENT_CHUNKS + place, &mut ranks);
            if self.after.is_none() {
                // Nothing is counted, so only the few rows that may precede the worst candidate are looked up.
                for (low, rank) in lows.zip(ranks) {
                    if rank <= self.worst.map_or(u64::MAX, |worst| worst.0) && matches.contains(low) {
                        self.take((rank, bitmaps::join(segment, low)));
                    }
                }
                continue;
            }
            for row in rows {
                let rank = ranks.get(row as usize % CHUNK_ROWS).copied().unwrap_or(u64::MAX);
                self.take((rank, row));
            }
        }
    }

    fn take(&mut self, candidate: Candidate) {
        if let Some(after) = &self.after {
            if self.order.is_passed(candidate, after) {
                return;
            }
            self.remaining += 1;
        }
        if let Some(worst) = self.worst
            && (candidate.0 > worst.0 || self.order.compare(candidate, worst).is_gt())
        {
            return;
        }
        self.candidates.push(candidate);
        if self.candidates.len() >= (2 * self.needed).max(CANDIDATES_MIN) {
            self.drop_worse();
        }
    }

    fn drop_worse(&mut self) {
        let Some(last) = self.needed.checked_sub(1) else { return self.candidates.clear() };
        let order = self.order;
        if last < self.candidates.len() {
            let (_, worst, _) = self.candidates.select_nth_unstable_by(last, |one, other| order.compare(*one, *other));
            self.worst = Some(*worst);
            self.candidates.truncate(self.needed);
        }
    }

    /// Returns the rows of the page, which begins after `skipped` matches, and the number of matches after the
    /// position, if there is one.
    pub(crate) fn page(mut self, skipped: usize) -> (Vec<u32>, Option<u64>) {
        let order = self.order;
        if skipped >= self.candidates.len() {
            return (Vec::new(), self.after.map(|_| self.remaining));
        }
        let compare = |one: &Candidate, other: &Candidate| order.compare(*one, *other);
        if skipped > 0 {
            self.candidates.select_nth_unstable_by(skipped, compare);
        }
        let page = self.candidates.get_mut(skipped..).unwrap_or_default();
        let count = self.needed.saturating_sub(skipped).min(page.len());
        if count < page.len() && count > 0 {
            page.select_nth_unstable_by(count - 1, compare);
        }
        let page = page.get_mut(..count).unwrap_or_default();
        page.sort_unstable_by(compare);
        (page.iter().map(|(_, row)| *row).collect(), self.after.map(|_| self.remaining))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;
    use crate::search::order::{OrderKey, SortColumn};
    use daftar_domain::search::order::Direction;

    #[test]
    fn a_page_is_that_of_the_whole_list_in_order() {
        let mut instants = Column::default();
        let rows = 3 * CHUNK_ROWS as u32;
        for row in 0..rows {
            instants.set(row, (row % 11 > 0).then(|| i64::from(row.wrapping_mul(2_654_435_761) >> 22)));
        }
        // All of one chunk, many of another, few of the third.
        let is_match = |row: &u32| match row / CHUNK_ROWS as u32 {
            0 => true,
            1 => row % 13 == 1,
            _ => row % 31 == 1,
        };
        let matches: RoaringBitmap = (0..rows).filter(is_match).collect();
        for direction in [Direction::Ascending, Direction::Descending] {
            let key = OrderKey { column: SortColumn::Instants(&instants), direction, inspected: None };
            let order = Order::new(vec![key]).unwrap();
            let mut all: Vec<Candidate> = matches.iter().map(|row| (order.first_rank(row), row)).collect();
            all.sort();
            for (skipped, count) in [(0, 1), (0, 100), (37, 100), (4_000, 100), (all.len() - 3, 100), (all.len(), 10)] {
                let mut best = Best::new(&order, None, skipped + count);
                best.add(0, &matches);
                let expected: Vec<u32> = all.iter().skip(skipped).take(count).map(|(_, row)| *row).collect();
                assert_eq!(best.page(skipped), (expected, None), "{direction:?}, {count} after {skipped}");
            }
        }
    }
}

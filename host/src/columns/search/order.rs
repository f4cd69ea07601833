//! Puts matching rows in order and cuts a page out, without sorting all of them.
//!
//! One pass over the matches keeps the best so far: as many as the page and what lies before it need. Each row is compared by
//! one number first, so that nearly all fall out at once; texts are compared where these numbers are equal.

use std::cmp::Ordering;

use crate::columns::bitmaps::{self, Posting};
use crate::columns::chunk::{Cells, Chunk, split};
use crate::columns::column::{Column, TextColumn, head};
use crate::domain::record::RecordId;
use crate::domain::search::order::{Direction, Position, SortValue};

/// The fewest candidates that are kept before the worse half is dropped.
const CANDIDATES_MIN: usize = 1_024;

/// Where a key reads its values.
pub(in crate::columns) enum SortColumn<'a> {
    /// Texts.
    Texts(&'a TextColumn),
    /// Milliseconds.
    Instants(&'a Column<i64>),
    /// Days, in a column of their own.
    Days(&'a Column<i32>),
    /// Days of individuals.
    ChunkDays(&'a [std::sync::Arc<Chunk>], fn(&Chunk) -> &Cells<i32>),
    /// Codes of individuals, by their place among all codes.
    ChunkCodes(&'a [std::sync::Arc<Chunk>], usize, &'a [u32]),
    /// Codes in a column of their own.
    Codes(&'a Column<u32>, &'a [u32]),
    /// Small numbers that sort by themselves.
    Words(&'a Column<u8>),
    /// Records of this kind have no such value.
    Nothing,
}

/// A number that sorts as the day does; never the least or the greatest.
fn of_day(day: i32) -> u64 {
    u64::from(day.cast_unsigned() ^ (1 << 31)) + 1
}

/// A number that sorts as the instant does; never the least or the greatest, for instants of the calendar.
fn of_instant(at_ms: i64) -> u64 {
    at_ms.cast_unsigned() ^ (1 << 63)
}

/// A number that sorts as the codes do: those without a place come last, by their number.
fn of_code(number: u32, ranks: &[u32]) -> u64 {
    match ranks.get(number as usize) {
        Some(rank) => u64::from(*rank) + 1,
        None => u64::from(number) + (1 << 32),
    }
}

impl SortColumn<'_> {
    /// A number that sorts as the value does, or as its beginning for texts; absent where there is no value.
    fn number(&self, row: u32) -> Option<u64> {
        match self {
            Self::Texts(column) => column.head(row),
            Self::Instants(column) => column.get(row).map(of_instant),
            Self::Days(column) => column.get(row).map(of_day),
            Self::ChunkDays(chunks, cells) => {
                let (at, slot) = split(row);
                cells(chunks.get(at)?).get(slot).map(of_day)
            }
            Self::ChunkCodes(chunks, column, ranks) => {
                let (at, slot) = split(row);
                chunks.get(at)?.code_column(*column).get(slot).map(|number| of_code(number, ranks))
            }
            Self::Codes(column, ranks) => column.get(row).map(|number| of_code(number, ranks)),
            Self::Words(column) => column.get(row).map(|word| u64::from(word) + 1),
            Self::Nothing => None,
        }
    }

    fn text(&self, row: u32) -> &[u8] {
        match self {
            Self::Texts(column) => column.get(row).unwrap_or_default(),
            _ => &[],
        }
    }

    /// What a row has to show, in a form that lasts: codes by their number.
    fn value(&self, row: u32) -> SortValue {
        let value = match self {
            Self::Texts(column) => column.get(row).map(|text| SortValue::Text(String::from_utf8_lossy(text).into())),
            Self::ChunkCodes(chunks, column, _) => {
                let (at, slot) = split(row);
                let number = chunks.get(at).and_then(|chunk| chunk.code_column(*column).get(slot));
                number.map(|number| SortValue::Number(u64::from(number)))
            }
            Self::Codes(column, _) => column.get(row).map(|number| SortValue::Number(u64::from(number))),
            _ => self.number(row).map(SortValue::Number),
        };
        value.unwrap_or(SortValue::Missing)
    }

    /// The number and the text of a lasting value.
    fn read<'v>(&self, value: &'v SortValue) -> (Option<u64>, &'v [u8]) {
        match (value, self) {
            (SortValue::Missing, _) => (None, &[]),
            (SortValue::Text(text), _) => (Some(head(text)), text.as_bytes()),
            (SortValue::Number(number), Self::ChunkCodes(_, _, ranks) | Self::Codes(_, ranks)) => {
                (Some(u32::try_from(*number).map_or(*number, |number| of_code(number, ranks))), &[])
            }
            (SortValue::Number(number), _) => (Some(*number), &[]),
        }
    }
}

/// One key of an order.
pub(in crate::columns) struct OrderKey<'a> {
    pub(in crate::columns) column: SortColumn<'a>,
    pub(in crate::columns) direction: Direction,
    /// The rows on which the key may be looked at; the others have no value. Absent where that is all.
    pub(in crate::columns) looked_at: Option<&'a Posting>,
}

impl OrderKey<'_> {
    /// Ascending in the wanted direction; a row without a value comes last.
    fn rank(&self, number: Option<u64>) -> u64 {
        match (number, self.direction) {
            (None, _) => u64::MAX,
            (Some(number), Direction::Ascending) => number,
            (Some(number), Direction::Descending) => !number,
        }
    }

    fn is_hidden(&self, row: u32) -> bool {
        self.looked_at.is_some_and(|rows| !rows.contains(row))
    }

    fn rank_of(&self, row: u32) -> u64 {
        if self.is_hidden(row) { u64::MAX } else { self.rank(self.column.number(row)) }
    }

    fn compare_texts(&self, one: &[u8], other: &[u8]) -> Ordering {
        match self.direction {
            Direction::Ascending => one.cmp(other),
            Direction::Descending => other.cmp(one),
        }
    }

    fn compare_ranked(&self, one: (u64, u32), other: (u64, u32)) -> Ordering {
        let by_rank = one.0.cmp(&other.0);
        if by_rank.is_ne() || one.0 == u64::MAX {
            return by_rank;
        }
        self.compare_texts(self.column.text(one.1), self.column.text(other.1))
    }
}

/// A row with its rank by the first key.
type Candidate = (u64, u32);

/// An order of the rows of one kind of record; at least one key.
pub(in crate::columns) struct Order<'a> {
    first: OrderKey<'a>,
    others: Vec<OrderKey<'a>>,
}

/// Where a walk stands, in terms of an order.
struct After<'p> {
    keys: Vec<(u64, &'p [u8])>,
    /// The row of the record that was given last, or where it would be.
    row: u32,
    /// Whether that row itself was given.
    is_passed: bool,
}

impl<'a> Order<'a> {
    /// None, where there are no keys.
    pub(in crate::columns) fn new(keys: Vec<OrderKey<'a>>) -> Option<Self> {
        let mut keys = keys.into_iter();
        Some(Self { first: keys.next()?, others: keys.collect() })
    }

    fn compare(&self, one: Candidate, other: Candidate) -> Ordering {
        let mut order = self.first.compare_ranked(one, other);
        for key in &self.others {
            if order.is_ne() {
                return order;
            }
            order = key.compare_ranked((key.rank_of(one.1), one.1), (key.rank_of(other.1), other.1));
        }
        order.then_with(|| one.1.cmp(&other.1))
    }

    fn keys(&self) -> impl Iterator<Item = &OrderKey<'a>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Where a position lies; none, where it is of another order.
    fn after<'p>(&self, position: &'p Position, (row, is_passed): (u32, bool)) -> Option<After<'p>> {
        let mut keys = Vec::with_capacity(position.values.len());
        for (key, value) in self.keys().zip(&position.values) {
            let (number, text) = key.column.read(value);
            keys.push((key.rank(number), text));
        }
        (keys.len() == self.keys().count()).then_some(After { keys, row, is_passed })
    }

    /// Whether a row was given before the position.
    fn is_passed(&self, candidate: Candidate, after: &After<'_>) -> bool {
        for (key, (rank, text)) in self.keys().zip(&after.keys) {
            let own = if std::ptr::eq(key, &self.first) { candidate.0 } else { key.rank_of(candidate.1) };
            let mut order = own.cmp(rank);
            if order.is_eq() && own != u64::MAX {
                order = key.compare_texts(key.column.text(candidate.1), text);
            }
            if order.is_ne() {
                return order.is_lt();
            }
        }
        candidate.1 < after.row || (candidate.1 == after.row && after.is_passed)
    }

    /// What a record has to show, key by key.
    pub(in crate::columns) fn values(&self, row: u32) -> Vec<SortValue> {
        let value = |key: &OrderKey<'_>| if key.is_hidden(row) { SortValue::Missing } else { key.column.value(row) };
        self.keys().map(value).collect()
    }
}

/// Collects matches and keeps those of a page.
pub(in crate::columns) struct Best<'o, 'a, 'p> {
    order: &'o Order<'a>,
    after: Option<After<'p>>,
    /// How many of the best are needed.
    needed: usize,
    candidates: Vec<Candidate>,
    /// The worst that is still good enough.
    worst: Option<Candidate>,
    remaining: u64,
}

impl<'o, 'a, 'p> Best<'o, 'a, 'p> {
    /// Keeps the first `needed` matches of those that lie after the position, whose record has, or would have, that row.
    pub(in crate::columns) fn new(
        order: &'o Order<'a>,
        position: Option<(&'p Position, (u32, bool))>,
        needed: usize,
    ) -> Self {
        let after = position.and_then(|(position, place)| order.after(position, place));
        Self { order, after, needed, candidates: Vec::new(), worst: None, remaining: 0 }
    }

    /// Takes a segment's matches.
    pub(in crate::columns) fn add(&mut self, segment: u16, lows: impl Iterator<Item = u32>) {
        let room = (2 * self.needed).max(CANDIDATES_MIN);
        for low in lows {
            let row = bitmaps::join(segment, low);
            let candidate = (self.order.first.rank_of(row), row);
            if let Some(after) = &self.after {
                if self.order.is_passed(candidate, after) {
                    continue;
                }
                self.remaining += 1;
            }
            if let Some(worst) = self.worst
                && (candidate.0 > worst.0 || self.order.compare(candidate, worst).is_gt())
            {
                continue;
            }
            self.candidates.push(candidate);
            if self.candidates.len() >= room {
                self.drop_worse();
            }
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

    /// The rows of the page, which begins after `skipped` of the best; and how many matches lie after the position, where one
    /// was given.
    pub(in crate::columns) fn page(mut self, skipped: usize) -> (Vec<u32>, Option<u64>) {
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

/// The row that a record has, and whether it has one; else the row of the first record after it.
pub(in crate::columns) fn place_of(rows: &crate::columns::rows::Rows, record: RecordId) -> (u32, bool) {
    match rows.find(record) {
        Some(row) => (row, true),
        None => (rows.first_after(record), false),
    }
}

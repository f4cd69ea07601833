//! Sort orders of rows. Each key is compared by a number first; texts with equal numbers are compared in full.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::bitmaps::Posting;
use crate::chunk::{CHUNK_ROWS, Cell, Chunk, split};
use crate::column::{Column, TextColumn, head};
use crate::field_columns::{CellKind, FieldColumns};
use crate::limits::SearchLimits;
use daftar_domain::record::{RecordId, RecordType};
use daftar_domain::search::Sorting;
use daftar_domain::search::order::{
    Direction, Position, SortField, SortKey, SortValue, number_of_code, number_of_day, number_of_instant,
};

/// The column of a sort key.
pub(crate) enum SortColumn<'a> {
    /// Texts.
    Texts(&'a TextColumn),
    /// Milliseconds.
    Instants(&'a Column<i64>),
    /// Days, in the column at this index.
    Days(&'a [Arc<Chunk>], usize),
    /// Codes in the column at this index, by their rank among all codes.
    Codes(&'a [Arc<Chunk>], usize, &'a [u32]),
    /// Small numbers that sort by value, in the column at this index.
    Words(&'a [Arc<Chunk>], usize),
    /// Records of this kind have no such value.
    Nothing,
}

/// The columns by which records of one kind are sorted.
pub(crate) struct SortColumns<'a, R> {
    /// Names, if the records have any.
    pub(crate) names: Option<&'a TextColumn>,
    /// Times of the last update.
    pub(crate) last_updated: &'a Column<i64>,
    /// The field columns.
    pub(crate) fields: &'a FieldColumns<R>,
}

impl<'a, R: RecordType> SortColumns<'a, R> {
    /// Returns the order that a search requests; `None` if it requests none.
    pub(crate) fn order(&self, sorting: Sorting<'a>, limits: SearchLimits<'a>) -> Option<Order<'a>> {
        let key = |key: &SortKey| OrderKey {
            column: self.column(key.field, sorting.code_ranks),
            direction: key.direction,
            inspected: key.field.field().and_then(|field| limits.field(field)),
        };
        Order::new(sorting.keys.iter().map(key).collect())
    }

    fn column(&self, field: SortField, code_ranks: &'a [u32]) -> SortColumn<'a> {
        let chunks = self.fields.chunks();
        match field {
            SortField::Name => self.names.map_or(SortColumn::Nothing, SortColumn::Texts),
            SortField::LastUpdated => SortColumn::Instants(self.last_updated),
            SortField::Date(_) | SortField::Word(_) | SortField::Code(_) => {
                match FieldColumns::<R>::find(field.name()) {
                    Some((column, CellKind::Day)) => SortColumn::Days(chunks, column),
                    Some((column, CellKind::Code(_))) => SortColumn::Codes(chunks, column, code_ranks),
                    Some((column, CellKind::Word(_))) => SortColumn::Words(chunks, column),
                    Some((_, CellKind::Boolean | CellKind::Number)) | None => SortColumn::Nothing,
                }
            }
        }
    }
}

/// Writes the numbers of cells, and the maximum for missing cells and those past the end.
fn put<T: Cell>(to: &mut [u64], cells: &[T], number: impl Fn(T) -> u64) {
    for (to, cell) in to.iter_mut().zip(cells) {
        *to = if cell.is_missing() { u64::MAX } else { number(*cell) };
    }
    to.iter_mut().skip(cells.len()).for_each(|to| *to = u64::MAX);
}

impl SortColumn<'_> {
    /// Returns a number that sorts like the value, or like the beginning of a text; `None` without a value.
    fn number(&self, row: u32) -> Option<u64> {
        let (at, slot) = split(row);
        match self {
            Self::Texts(column) => column.head(row),
            Self::Instants(column) => column.get(row).map(number_of_instant),
            Self::Days(chunks, column) => chunks.get(at)?.days(*column).cells().get(slot).map(number_of_day),
            Self::Codes(chunks, column, ranks) => {
                chunks.get(at)?.codes(*column).get(slot).map(|number| number_of_code(number, ranks))
            }
            Self::Words(chunks, column) => chunks.get(at)?.small(*column).get(slot).map(|word| u64::from(word) + 1),
            Self::Nothing => None,
        }
    }

    /// Writes the numbers of a chunk's rows, the maximum for rows without a value.
    fn numbers(&self, chunk: usize, to: &mut [u64]) {
        match self {
            Self::Texts(column) => put(to, column.heads(chunk), |head| head),
            Self::Instants(column) => put(to, column.chunk(chunk), number_of_instant),
            Self::Days(chunks, column) => {
                let days = chunks.get(chunk).map_or(&[][..], |chunk| chunk.days(*column).cells().as_slice());
                put(to, days, number_of_day);
            }
            Self::Codes(chunks, column, ranks) => {
                let codes = chunks.get(chunk).map_or(&[][..], |chunk| chunk.codes(*column).as_slice());
                put(to, codes, |number| number_of_code(number, ranks));
            }
            Self::Words(chunks, column) => {
                let words = chunks.get(chunk).map_or(&[][..], |chunk| chunk.small(*column).as_slice());
                put(to, words, |word| u64::from(word) + 1);
            }
            Self::Nothing => put(to, &[], |head: u64| head),
        }
    }

    fn text(&self, row: u32) -> &[u8] {
        match self {
            Self::Texts(column) => column.get(row).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Returns a row's value in a persistent form: codes by their number.
    fn value(&self, row: u32) -> SortValue {
        let value = match self {
            Self::Texts(column) => column.get(row).map(|text| SortValue::Text(String::from_utf8_lossy(text).into())),
            Self::Codes(chunks, column, _) => {
                let (at, slot) = split(row);
                let number = chunks.get(at).and_then(|chunk| chunk.codes(*column).get(slot));
                number.map(|number| SortValue::Number(u64::from(number)))
            }
            _ => self.number(row).map(SortValue::Number),
        };
        value.unwrap_or(SortValue::Missing)
    }

    /// Returns the number and the text of a persistent value.
    fn read<'v>(&self, value: &'v SortValue) -> (Option<u64>, &'v [u8]) {
        match (value, self) {
            (SortValue::Missing, _) => (None, &[]),
            (SortValue::Text(text), _) => (Some(head(text)), text.as_bytes()),
            (SortValue::Number(number), Self::Codes(_, _, ranks)) => {
                (Some(u32::try_from(*number).map_or(*number, |number| number_of_code(number, ranks))), &[])
            }
            (SortValue::Number(number), _) => (Some(*number), &[]),
        }
    }
}

/// One key of an order.
pub(crate) struct OrderKey<'a> {
    pub(crate) column: SortColumn<'a>,
    pub(crate) direction: Direction,
    /// The rows on which the key is visible; the others have no value. `None`: visible on all.
    pub(crate) inspected: Option<&'a Posting>,
}

impl OrderKey<'_> {
    /// Returns a number that is ascending in the requested direction; a row without a value comes last.
    fn rank(&self, number: Option<u64>) -> u64 {
        match (number, self.direction) {
            (None, _) => u64::MAX,
            (Some(number), Direction::Ascending) => number,
            (Some(number), Direction::Descending) => !number,
        }
    }

    fn is_hidden(&self, row: u32) -> bool {
        self.inspected.is_some_and(|rows| !rows.contains(row))
    }

    fn rank_of(&self, row: u32) -> u64 {
        if self.is_hidden(row) { u64::MAX } else { self.rank(self.column.number(row)) }
    }

    /// Writes the ranks of a chunk's rows.
    pub(super) fn ranks(&self, chunk: usize, to: &mut [u64]) {
        self.column.numbers(chunk, to);
        if self.direction == Direction::Descending {
            to.iter_mut().filter(|rank| **rank != u64::MAX).for_each(|rank| *rank = !*rank);
        }
        if let Some(rows) = self.inspected {
            let first = chunk.saturating_mul(CHUNK_ROWS);
            let hidden = (first..).zip(to).filter(|(row, _)| !u32::try_from(*row).is_ok_and(|row| rows.contains(row)));
            hidden.for_each(|(_, rank)| *rank = u64::MAX);
        }
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
pub(super) type Candidate = (u64, u32);

/// An order of the rows of one kind of record, with at least one key.
pub(crate) struct Order<'a> {
    first: OrderKey<'a>,
    others: Vec<OrderKey<'a>>,
}

/// The position after which a page begins, as ranks of an order.
pub(super) struct After<'p> {
    keys: Vec<(u64, &'p [u8])>,
    /// The rank by the first key, which decides for most rows.
    first_rank: u64,
    /// The row of the last returned record, or the row that it would have.
    row: u32,
    /// True if the row itself was returned.
    is_passed: bool,
}

impl<'a> Order<'a> {
    /// Creates an order; `None` without keys.
    pub(crate) fn new(keys: Vec<OrderKey<'a>>) -> Option<Self> {
        let mut keys = keys.into_iter();
        Some(Self { first: keys.next()?, others: keys.collect() })
    }

    /// Compares two rows.
    pub(super) fn compare(&self, one: Candidate, other: Candidate) -> Ordering {
        let mut order = self.first.compare_ranked(one, other);
        for key in &self.others {
            if order.is_ne() {
                return order;
            }
            order = key.compare_ranked((key.rank_of(one.1), one.1), (key.rank_of(other.1), other.1));
        }
        order.then_with(|| one.1.cmp(&other.1))
    }

    /// Returns the rank of a row by the first key.
    pub(super) fn first_rank(&self, row: u32) -> u64 {
        self.first.rank_of(row)
    }

    /// Writes the ranks of a chunk's rows by the first key.
    pub(super) fn first_ranks(&self, chunk: usize, to: &mut [u64]) {
        self.first.ranks(chunk, to);
    }

    /// Returns true if recently created rows probably come first: they are then checked first, and few other candidates
    /// must be retained.
    pub(super) fn begins_with_late_rows(&self) -> bool {
        matches!(self.first.column, SortColumn::Instants(_)) && self.first.direction == Direction::Descending
    }

    fn keys(&self) -> impl Iterator<Item = &OrderKey<'a>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Converts a position; `None` if it belongs to another order.
    pub(super) fn after<'p>(&self, position: &'p Position, (row, is_passed): (u32, bool)) -> Option<After<'p>> {
        let mut keys = Vec::with_capacity(position.values.len());
        for (key, value) in self.keys().zip(&position.values) {
            let (number, text) = key.column.read(value);
            keys.push((key.rank(number), text));
        }
        let first_rank = keys.first().map(|(rank, _)| *rank)?;
        (keys.len() == self.keys().count()).then_some(After { keys, first_rank, row, is_passed })
    }

    /// Returns true if a row precedes the position.
    pub(super) fn is_passed(&self, candidate: Candidate, after: &After<'_>) -> bool {
        if candidate.0 != after.first_rank {
            return candidate.0 < after.first_rank;
        }
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

    /// Returns the values of a row, key by key.
    pub(crate) fn values(&self, row: u32) -> Vec<SortValue> {
        let value = |key: &OrderKey<'_>| if key.is_hidden(row) { SortValue::Missing } else { key.column.value(row) };
        self.keys().map(value).collect()
    }
}

/// Returns the row of a record and true, or the row of the first record after it and false.
pub(crate) fn place_of(rows: &crate::rows::Rows, record: RecordId) -> (u32, bool) {
    match rows.find(record) {
        Some(row) => (row, true),
        None => (rows.first_after(record), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{CellValue, Cells, ChunkColumn, Days};

    #[test]
    fn the_ranks_of_a_chunk_are_those_of_its_rows() {
        let (mut texts, mut instants, mut shown) = (TextColumn::default(), Column::default(), Posting::default());
        let days_codes_and_words = || {
            let (days, codes) = (ChunkColumn::Days(Days::default()), ChunkColumn::Codes(Cells::default()));
            Chunk::new(Box::new([days, codes, ChunkColumn::Small(Cells::default())]))
        };
        let mut chunks = [days_codes_and_words(), days_codes_and_words(), days_codes_and_words()];
        // The last chunk ends before its last row.
        let rows = 2 * CHUNK_ROWS as u32 + 100;
        for row in 0..rows {
            let dice = row.wrapping_mul(2_654_435_761) >> 20;
            let is_there = dice % 5 > 0;
            texts.set(row, is_there.then(|| format!("name {dice}")).as_deref());
            instants.set(row, is_there.then(|| i64::from(dice) - 2_000));
            let (day, code) = (CellValue::Day(dice.cast_signed() - 2_000), CellValue::Code(dice % 7));
            let values = [day, code, CellValue::Small((dice % 2) as u8)].map(|value| is_there.then_some(value));
            let (at, slot) = split(row);
            chunks[at].set(slot, &values);
            if dice % 3 > 0 {
                shown.insert(row);
            }
        }
        let chunks = chunks.map(Arc::new);
        let code_ranks = [4, 2, 0, 1, 3];
        let columns = || {
            [
                SortColumn::Texts(&texts),
                SortColumn::Instants(&instants),
                SortColumn::Days(&chunks, 0),
                SortColumn::Codes(&chunks, 1, &code_ranks),
                SortColumn::Words(&chunks, 2),
                SortColumn::Nothing,
            ]
        };
        let mut ranks = vec![0; CHUNK_ROWS];
        for direction in [Direction::Ascending, Direction::Descending] {
            for inspected in [None, Some(&shown)] {
                for (number, column) in columns().into_iter().enumerate() {
                    let key = OrderKey { column, direction, inspected };
                    for chunk in 0..4 {
                        key.ranks(chunk, &mut ranks);
                        let first = (chunk * CHUNK_ROWS) as u32;
                        let each: Vec<u64> = (first..).take(CHUNK_ROWS).map(|row| key.rank_of(row)).collect();
                        assert_eq!(ranks, each, "column {number}, {direction:?}, chunk {chunk}");
                    }
                }
            }
        }
    }
}

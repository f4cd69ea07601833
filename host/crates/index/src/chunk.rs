//! The values of 4,096 neighbouring records of one kind, one column per field.
//!
//! **Invariant:** each column of a chunk has its own reference count; a change copies only the columns whose value
//! changes, and a column without values takes no memory.

use std::mem;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::stored::{Number, put_numbers, take_numbers};

/// The rows of one chunk.
pub(super) const CHUNK_ROWS: usize = 4_096;

/// Returns the chunk of a row and its offset in the chunk.
#[inline]
pub(super) fn split(row: u32) -> (usize, usize) {
    (row as usize / CHUNK_ROWS, row as usize % CHUNK_ROWS)
}

/// A value type of a column.
pub(super) trait Cell: Number {
    /// The value that represents a missing one.
    const MISSING: Self;
    /// Returns true if the value is missing.
    fn is_missing(self) -> bool;
    /// Returns true if two cells are equal.
    fn is_same(self, other: Self) -> bool;
}

macro_rules! cells {
    ($($cell:ty: $missing:expr;)+) => {$(
        impl Cell for $cell {
            const MISSING: Self = $missing;
            #[inline]
            fn is_missing(self) -> bool {
                self == Self::MISSING
            }
            #[inline]
            fn is_same(self, other: Self) -> bool {
                self == other
            }
        }
    )+};
}

cells! {
    // Truth values: 0, 1, and 2 for a missing one. Words: their index from 3 on.
    u8: 2;
    u32: Self::MAX;
    u64: Self::MAX;
    i32: Self::MIN;
    i64: Self::MIN;
}

impl Cell for f64 {
    const MISSING: Self = Self::NAN;
    #[inline]
    fn is_missing(self) -> bool {
        self.is_nan()
    }
    fn is_same(self, other: Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

/// One column of a chunk. Rows beyond its end have no value.
#[derive(Debug, Clone)]
pub(super) struct Cells<T>(Option<Arc<Vec<T>>>);

impl<T> Default for Cells<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Cell> Cells<T> {
    /// Returns the cells, without those beyond the end.
    pub(super) fn as_slice(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |cells| cells.as_slice())
    }

    /// Returns the value at an offset, if there is one.
    pub(super) fn get(&self, slot: usize) -> Option<T> {
        self.as_slice().get(slot).copied().filter(|cell| !cell.is_missing())
    }

    /// Sets or clears the value at an offset of the chunk.
    pub(super) fn set(&mut self, slot: usize, value: Option<T>) {
        let cell = value.unwrap_or(T::MISSING);
        if self.as_slice().get(slot).copied().unwrap_or(T::MISSING).is_same(cell) || slot >= CHUNK_ROWS {
            return;
        }
        let cells = Arc::make_mut(self.0.get_or_insert_default());
        if cells.len() <= slot {
            cells.resize(slot + 1, T::MISSING);
        }
        if let Some(old) = cells.get_mut(slot) {
            *old = cell;
        }
    }

    /// Creates a column of these values.
    pub(super) fn of(values: &[Option<T>]) -> Self {
        let used = values.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let cells = values.iter().take(used).map(|value| value.unwrap_or(T::MISSING));
        Self::from(cells.collect::<Vec<T>>())
    }
}

impl<T> From<Vec<T>> for Cells<T> {
    fn from(cells: Vec<T>) -> Self {
        Self((!cells.is_empty()).then(|| Arc::new(cells)))
    }
}

impl<T: Cell> Serialize for Cells<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        put_numbers(self.as_slice(), to)
    }
}

impl<'de, T: Cell> Deserialize<'de> for Cells<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let cells = take_numbers::<T, Vec<T>, D>(from)?;
        if cells.len() > CHUNK_ROWS {
            return Err(D::Error::custom("a column of a chunk has too many rows"));
        }
        Ok(Self::from(cells))
    }
}

/// The days of one chunk with bounds, so that a scan can skip the chunk.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Cells<i32>", into = "Cells<i32>")]
pub(super) struct Days {
    cells: Cells<i32>,
    /// The earliest and the latest day that ever occurred; never narrowed by a change.
    bounds: Option<(i32, i32)>,
}

impl Days {
    /// Returns the days, missing ones as [`Cell::MISSING`].
    pub(super) fn cells(&self) -> &Cells<i32> {
        &self.cells
    }

    /// Returns true if a day between these two, inclusive, may occur.
    pub(super) fn may_meet(&self, least: i32, most: i32) -> bool {
        self.bounds.is_some_and(|(earliest, latest)| earliest <= most && least <= latest)
    }

    fn set(&mut self, slot: usize, day: Option<i32>) {
        self.cells.set(slot, day);
        if let Some(day) = day {
            let (earliest, latest) = self.bounds.unwrap_or((day, day));
            self.bounds = Some((earliest.min(day), latest.max(day)));
        }
    }
}

impl From<Cells<i32>> for Days {
    fn from(cells: Cells<i32>) -> Self {
        let days = || cells.as_slice().iter().copied().filter(|day| !day.is_missing());
        let bounds = days().min().zip(days().max());
        Self { cells, bounds }
    }
}

impl From<Days> for Cells<i32> {
    fn from(days: Days) -> Self {
        days.cells
    }
}

/// A value of a column.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) enum CellValue {
    /// The number of a code.
    Code(u32),
    /// A day, in days since 1970-01-01.
    Day(i32),
    /// A truth value, or the index of a word; never [`Cell::MISSING`].
    Small(u8),
    /// A number.
    Number(f64),
}

/// The cells of one record, in the order of the columns.
pub(super) type RowValues = Vec<Option<CellValue>>;

/// One column of a chunk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum ChunkColumn {
    /// Numbers of codes.
    Codes(Cells<u32>),
    /// Days.
    Days(Days),
    /// Truth values, or indexes of words.
    Small(Cells<u8>),
    /// Numbers.
    Numbers(Cells<f64>),
}

impl ChunkColumn {
    fn set(&mut self, slot: usize, value: Option<CellValue>) {
        match (self, value) {
            (Self::Codes(cells), Some(CellValue::Code(number))) => cells.set(slot, Some(number)),
            (Self::Codes(cells), _) => cells.set(slot, None),
            (Self::Days(days), Some(CellValue::Day(day))) => days.set(slot, Some(day)),
            (Self::Days(days), _) => days.set(slot, None),
            (Self::Small(cells), Some(CellValue::Small(cell))) => cells.set(slot, Some(cell)),
            (Self::Small(cells), _) => cells.set(slot, None),
            (Self::Numbers(cells), Some(CellValue::Number(number))) => cells.set(slot, Some(number)),
            (Self::Numbers(cells), _) => cells.set(slot, None),
        }
    }

    fn get(&self, slot: usize) -> Option<CellValue> {
        match self {
            Self::Codes(cells) => cells.get(slot).map(CellValue::Code),
            Self::Days(days) => days.cells.get(slot).map(CellValue::Day),
            Self::Small(cells) => cells.get(slot).map(CellValue::Small),
            Self::Numbers(cells) => cells.get(slot).map(CellValue::Number),
        }
    }
}

/// The columns of up to [`CHUNK_ROWS`] records, in the order of [`super::field_columns`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Chunk(Box<[ChunkColumn]>);

impl Chunk {
    /// Creates columns without values.
    pub(super) fn new(columns: Box<[ChunkColumn]>) -> Self {
        Self(columns)
    }

    /// Returns true if it has columns of the same kinds as another chunk.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.0.iter().map(mem::discriminant).eq(other.0.iter().map(mem::discriminant))
    }

    /// Writes the values of one row.
    pub(super) fn set(&mut self, slot: usize, values: &[Option<CellValue>]) {
        for (column, value) in self.0.iter_mut().zip(values) {
            column.set(slot, *value);
        }
    }

    /// Returns the values of one row.
    pub(super) fn get(&self, slot: usize) -> RowValues {
        self.0.iter().map(|column| column.get(slot)).collect()
    }

    /// Returns the codes of a column; empty if it has another kind.
    pub(super) fn codes(&self, column: usize) -> &Cells<u32> {
        static EMPTY: Cells<u32> = Cells(None);
        if let Some(ChunkColumn::Codes(cells)) = self.0.get(column) { cells } else { &EMPTY }
    }

    /// Returns the days of a column; empty if it has another kind.
    pub(super) fn days(&self, column: usize) -> &Days {
        static EMPTY: Days = Days { cells: Cells(None), bounds: None };
        if let Some(ChunkColumn::Days(days)) = self.0.get(column) { days } else { &EMPTY }
    }

    /// Returns the truth values or words of a column; empty if it has another kind.
    pub(super) fn small(&self, column: usize) -> &Cells<u8> {
        static EMPTY: Cells<u8> = Cells(None);
        if let Some(ChunkColumn::Small(cells)) = self.0.get(column) { cells } else { &EMPTY }
    }

    /// Returns the numbers of a column; empty if it has another kind.
    pub(super) fn numbers(&self, column: usize) -> &Cells<f64> {
        static EMPTY: Cells<f64> = Cells(None);
        if let Some(ChunkColumn::Numbers(cells)) = self.0.get(column) { cells } else { &EMPTY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::{bytes_of, take};

    #[test]
    fn a_column_is_read_as_written_and_has_no_more_rows_than_a_chunk() {
        let cells = Cells::of(&[Some(7), None, Some(-9)]);
        let read: Cells<i32> = take(&mut bytes_of(&cells).as_slice()).unwrap();
        assert_eq!(read.as_slice(), [7, i32::MISSING, -9]);
        let of_rows = |count| take::<Cells<u32>>(&mut bytes_of(&Cells::from(vec![7_u32; count])).as_slice());
        assert_eq!(of_rows(CHUNK_ROWS).unwrap().as_slice().len(), CHUNK_ROWS);
        assert!(of_rows(CHUNK_ROWS + 1).is_err());
        assert!(take::<Cells<u32>>(&mut [3_u8, 1, 2, 3].as_slice()).is_err(), "a cell is truncated");
    }

    #[test]
    fn a_column_without_values_takes_no_memory() {
        let mut cells = Cells::<u32>::default();
        cells.set(4_095, None);
        assert!(cells.as_slice().is_empty());
        cells.set(2, Some(7));
        assert_eq!((cells.get(0), cells.get(2), cells.get(3)), (None, Some(7), None));
        cells.set(CHUNK_ROWS, Some(7));
        assert_eq!(cells.as_slice().len(), 3);
    }

    #[test]
    fn a_copy_shares_the_columns_that_do_not_change() {
        let columns = [ChunkColumn::Days(Days::default()), ChunkColumn::Numbers(Cells::default())];
        let mut chunk = Chunk::new(Box::new(columns));
        chunk.set(0, &[Some(CellValue::Day(5)), Some(CellValue::Number(1.5))]);
        let before = chunk.clone();
        chunk.set(0, &[Some(CellValue::Day(6)), Some(CellValue::Number(1.5))]);
        assert_eq!(before.days(0).cells().get(0), Some(5));
        assert_eq!(chunk.days(0).cells().get(0), Some(6));
        assert!(std::ptr::eq(before.numbers(1).as_slice(), chunk.numbers(1).as_slice()));
        assert_eq!(chunk.get(0), [Some(CellValue::Day(6)), Some(CellValue::Number(1.5))]);
    }

    #[test]
    fn a_column_of_another_kind_has_no_values() {
        let mut chunk = Chunk::new(Box::new([ChunkColumn::Codes(Cells::default())]));
        chunk.set(0, &[Some(CellValue::Day(5))]);
        assert_eq!(chunk.get(0), [None]);
        assert!(chunk.days(0).cells().as_slice().is_empty() && chunk.codes(1).as_slice().is_empty());
    }

    #[test]
    fn bounds_of_days_include_every_day() {
        let mut days = Days::default();
        assert!(!days.may_meet(i32::MIN, i32::MAX));
        days.set(0, Some(10));
        days.set(1, Some(20));
        days.set(2, None);
        assert!(days.may_meet(20, 30) && days.may_meet(0, 10) && days.may_meet(12, 13));
        assert!(!days.may_meet(21, 30) && !days.may_meet(0, 9));
    }
}

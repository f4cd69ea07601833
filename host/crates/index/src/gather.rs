//! The values of chosen records, in the layout of the eligibility engine.

use super::chunk::{self, Cell};
use super::field_columns::{CellKind, FieldColumns};
use daftar_domain::eligibility::ColumnValues;
use daftar_domain::record::RecordType;

/// The validity bitmap of the gathered rows, lowest bit first (empty: all have a value), and the values.
pub type Gathered = (Vec<u8>, ColumnValues);

/// Returns the values of one field for these rows, in their order; `None` if there is no column for the path.
pub(super) fn gather<R: RecordType>(columns: &FieldColumns<R>, path: &str, rows: &[u32]) -> Option<Gathered> {
    let (column, kind) = FieldColumns::<R>::find(path)?;
    let chunks = columns.chunks();
    Some(match kind {
        CellKind::Code(_) => {
            let codes = |at: usize| chunks.get(at).map_or(&[][..], |chunk| chunk.codes(column).as_slice());
            let (valid, codes) = cells_of(rows, 0, codes);
            (valid, ColumnValues::Codes(codes))
        }
        CellKind::Day => {
            let days = |at: usize| chunks.get(at).map_or(&[][..], |chunk| chunk.days(column).cells().as_slice());
            let (valid, days) = cells_of(rows, 0, days);
            (valid, ColumnValues::Days(days))
        }
        CellKind::Boolean => {
            let booleans = |at: usize| chunks.get(at).map_or(&[][..], |chunk| chunk.small(column).as_slice());
            let (valid, booleans) = cells_of(rows, 0, booleans);
            (valid, ColumnValues::Booleans(booleans))
        }
        CellKind::Number => {
            let numbers = |at: usize| chunks.get(at).map_or(&[][..], |chunk| chunk.numbers(column).as_slice());
            let (valid, numbers) = cells_of(rows, 0.0, numbers);
            (valid, ColumnValues::Numbers(numbers))
        }
        // Rules read words as texts, and a column has their indexes.
        CellKind::Word(_) => return None,
    })
}

/// Returns the cells of the chunks returned by `column`, with `blank` for missing values, and the validity bitmap.
fn cells_of<'c, T: Cell + 'c>(rows: &[u32], blank: T, column: impl Fn(usize) -> &'c [T]) -> (Vec<u8>, Vec<T>) {
    let mut found = Vec::with_capacity(rows.len());
    for rows in rows.chunk_by(|one, next| chunk::split(*one).0 == chunk::split(*next).0) {
        let Some(first) = rows.first() else { continue };
        let (at, slot) = chunk::split(*first);
        let cells = column(at);
        if (*first..).zip(rows).all(|(next, row)| next == *row) {
            // Contiguous rows, as in a scan of the whole register, are copied as a slice.
            let cells = cells.get(slot..).unwrap_or_default();
            found.extend_from_slice(cells.get(..rows.len()).unwrap_or(cells));
            let missing = rows.len().saturating_sub(cells.len());
            found.extend(std::iter::repeat_n(T::MISSING, missing));
        } else {
            found.extend(rows.iter().map(|row| cells.get(chunk::split(*row).1).copied().unwrap_or(T::MISSING)));
        }
    }
    let is_complete = found.iter().all(|cell| !cell.is_missing());
    let valid = if is_complete { Vec::new() } else { found.chunks(8).map(present).collect() };
    for cell in found.iter_mut().filter(|cell| cell.is_missing()) {
        *cell = blank;
    }
    (valid, found)
}

/// Returns the validity bits of up to eight cells, the first one in the lowest bit.
fn present<T: Cell>(cells: &[T]) -> u8 {
    cells.iter().rev().fold(0, |bits, cell| bits << 1 | u8::from(!cell.is_missing()))
}

#[cfg(test)]
mod tests {
    use super::super::chunk::CHUNK_ROWS;
    use super::*;

    #[test]
    fn gathers_the_same_from_contiguous_and_from_any_rows() {
        let whole: Vec<u32> =
            (0..CHUNK_ROWS as u32).map(|at| if at % 5 == 3 { u32::MISSING } else { at * 10 }).collect();
        let chunks = [whole.as_slice(), &whole[..7], &[]];
        let column = |at: usize| chunks.get(at).copied().unwrap_or_default();
        let end = CHUNK_ROWS as u32;
        let orders: [Vec<u32>; 7] = [
            (0..end).collect(),
            (end - 9..end + 12).collect(),
            vec![1, 3, 2, 4],
            vec![2, 2, 3, 3],
            vec![end + 1, 0, end, 1, 3 * end],
            (0..40).rev().collect(),
            vec![],
        ];
        for rows in orders {
            let cell = |row: &u32| column(chunk::split(*row).0).get(chunk::split(*row).1).copied();
            let expected: Vec<Option<u32>> =
                rows.iter().map(|row| cell(row).filter(|cell| !cell.is_missing())).collect();
            let (valid, values) = cells_of(&rows, 0, column);
            let there = |at: usize| valid.is_empty() || valid[at / 8] >> (at % 8) & 1 == 1;
            let found: Vec<Option<u32>> = (0..rows.len()).map(|at| there(at).then(|| values[at])).collect();
            assert_eq!(found, expected, "{rows:?}");
            assert!(
                values.iter().enumerate().all(|(at, value)| there(at) || *value == 0),
                "blank where there is no value"
            );
            assert_eq!(valid.is_empty(), expected.iter().all(Option::is_some));
            assert!(valid.is_empty() || valid.len() == rows.len().div_ceil(8));
        }
    }
}

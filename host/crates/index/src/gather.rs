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
    let mut left = rows;
    while let Some(first) = left.first() {
        let (at, slot) = chunk::split(*first);
        let cells = column(at);
        let (run, later) = left.split_at_checked(chunk::CHUNK_ROWS - slot).unwrap_or((left, &[]));
        // The last row distinguishes most lists of scattered rows from contiguous ones.
        let may_be_run = run.last().is_some_and(|last| last.wrapping_sub(*first) as usize + 1 == run.len());
        if may_be_run && (*first..).zip(run).fold(true, |all, (next, row)| all & (next == *row)) {
            // Contiguous rows, as in a scan of the whole register, are copied as a slice.
            let cells = cells.get(slot..).unwrap_or_default();
            found.extend_from_slice(cells.get(..run.len()).unwrap_or(cells));
            let missing = run.len().saturating_sub(cells.len());
            found.extend(std::iter::repeat_n(T::MISSING, missing));
            left = later;
        } else {
            let in_chunk = left.iter().take_while(|row| chunk::split(**row).0 == at);
            let before = found.len();
            found.extend(in_chunk.map(|row| cells.get(chunk::split(*row).1).copied().unwrap_or(T::MISSING)));
            left = left.get(found.len() - before..).unwrap_or_default();
        }
    }
    // No early exit and no branch in these loops, so that they compile to SIMD instructions.
    let is_complete = !found.iter().fold(false, |any, cell| any | cell.is_missing());
    if is_complete {
        return (Vec::new(), found);
    }
    let present: Vec<u8> = found.iter().map(|cell| u8::from(!cell.is_missing())).collect();
    for cell in &mut found {
        *cell = if cell.is_missing() { blank } else { *cell };
    }
    (bits_of(&present), found)
}

/// Packs bytes of 0 and 1 into bits, the first one in the lowest bit.
fn bits_of(flags: &[u8]) -> Vec<u8> {
    let mut bits = vec![0; flags.len().div_ceil(8)];
    add_bits(&mut bits, flags, 0);
    bits
}

/// Sets the bits of the flags that have this bit, the first one in the lowest bit of the first byte.
pub(super) fn add_bits(bits: &mut [u8], flags: &[u8], bit: u8) {
    let (eights, rest) = flags.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    for (to, eight) in bits.iter_mut().zip(eights.iter().chain([&last])) {
        *to |= packed(*eight, bit);
    }
}

/// Packs one bit of each of eight bytes: the product has the bit of the byte `i` at `56 + i`, and no other bit above 55.
#[inline]
fn packed(flags: [u8; 8], bit: u8) -> u8 {
    const LOWEST: u64 = u64::from_le_bytes([1; 8]);
    const SHIFTS: u64 = 0x0102_0408_1020_4080;
    let flags = u64::from_le_bytes(flags) >> (bit % 8) & LOWEST;
    flags.wrapping_mul(SHIFTS).to_be_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::super::chunk::CHUNK_ROWS;
    use super::*;

    #[test]
    fn packs_flags_into_bits() {
        for length in 0..20 {
            for seed in 0..256_usize {
                let flags: Vec<u8> = (0..length).map(|at| (seed >> (at % 8) & 1) as u8 ^ (at / 8 % 2) as u8).collect();
                let bits = bits_of(&flags);
                assert_eq!(bits.len(), flags.len().div_ceil(8));
                let found: Vec<u8> = (0..bits.len() * 8).map(|at| bits[at / 8] >> (at % 8) & 1).collect();
                assert_eq!(found[..length], flags, "{seed}");
                assert!(found[length..].iter().all(|bit| *bit == 0));
            }
        }
    }

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

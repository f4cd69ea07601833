//! Reads conditions off whole columns: one byte a row first, which compilers turn into a few instructions for many rows, and then
//! bits.

use roaring::RoaringBitmap;

use crate::bitmaps::SEGMENT_ROWS;
use crate::chunk::{CHUNK_ROWS, Cell};

/// The chunks of one segment of a bitmap.
pub(crate) const SEGMENT_CHUNKS: usize = SEGMENT_ROWS as usize / CHUNK_ROWS;

/// One byte for each row of a chunk: 1 where the row meets a condition, else 0.
pub(crate) type Flags = [u8; CHUNK_ROWS];

/// The rows of a segment that meet a condition: `fill` raises their flags, chunk by chunk; all are down before.
pub(crate) fn mark(segment: u16, mut fill: impl FnMut(usize, &mut Flags)) -> RoaringBitmap {
    let mut bits = vec![0_u8; SEGMENT_ROWS as usize / 8];
    let mut flags = [0; CHUNK_ROWS];
    let first = usize::from(segment) * SEGMENT_CHUNKS;
    for (chunk, bits) in (first..).zip(bits.chunks_mut(CHUNK_ROWS / 8)) {
        flags.fill(0);
        fill(chunk, &mut flags);
        let (eights, _) = flags.as_chunks();
        for (byte, eight) in bits.iter_mut().zip(eights) {
            *byte = packed(*eight);
        }
    }
    RoaringBitmap::from_lsb0_bytes(0, &bits)
}

/// The rows of a segment whose cell holds: `cells` gives those of a chunk, or nothing where none can hold.
pub(crate) fn mark_cells<'c, T: Cell + 'c>(
    segment: u16,
    cells: impl Fn(usize) -> &'c [T],
    holds: impl Fn(T) -> bool,
) -> RoaringBitmap {
    mark(segment, |chunk, flags| {
        for (flag, cell) in flags.iter_mut().zip(cells(chunk)) {
            *flag = u8::from(holds(*cell));
        }
    })
}

/// Eight flags as the bits of a byte, the first as the lowest. Each bit of the factor brings one flag, and only that, to its
/// place among the highest eight bits of the product.
fn packed(flags: [u8; 8]) -> u8 {
    let [.., highest] = u64::from_le_bytes(flags).wrapping_mul(0x0102_0408_1020_4080).to_le_bytes();
    highest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_flags_becomes_its_byte() {
        for byte in 0..=u8::MAX {
            let flags = std::array::from_fn(|bit| byte >> bit & 1);
            assert_eq!(packed(flags), byte);
        }
    }

    #[test]
    fn a_cell_marks_the_row_that_it_stands_for() {
        let cells: Vec<i32> = (0..CHUNK_ROWS as i32).collect();
        let of_chunk = |chunk: usize| if chunk == SEGMENT_CHUNKS + 2 { cells.as_slice() } else { &[] };
        let marked = mark_cells(1, of_chunk, |cell| cell % 1_000 == 7);
        let first = 2 * CHUNK_ROWS as u32;
        assert_eq!(marked.iter().collect::<Vec<_>>(), [7, 1_007, 2_007, 3_007, 4_007].map(|low| first + low));
    }
}

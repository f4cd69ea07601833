//! A column over all rows of a kind, in chunks that copies share; the same for texts.
//!
//! **Invariant:** a change copies the cells of one chunk and a list with one reference a chunk, however long the column is.

use std::sync::Arc;

use super::chunk::{CHUNK_ROWS, Cell, Cells, split};
use crate::domain::search::order::SORT_TEXT_BYTES_MAX;

/// One value a row, or none.
#[derive(Debug, Clone)]
pub(super) struct Column<T>(Arc<Vec<Cells<T>>>);

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Cell> Column<T> {
    /// The cells of a chunk, missing ones as [`Cell::MISSING`], those past the end left out.
    pub(super) fn chunk(&self, chunk: usize) -> &[T] {
        self.0.get(chunk).map_or(&[], Cells::as_slice)
    }

    /// The value of a row, if one is recorded.
    pub(super) fn get(&self, row: u32) -> Option<T> {
        let (chunk, slot) = split(row);
        self.chunk(chunk).get(slot).copied().filter(|cell| !cell.is_missing())
    }

    /// Sets or clears the value of a row.
    pub(super) fn set(&mut self, row: u32, value: Option<T>) {
        let (chunk, slot) = split(row);
        if value.is_none() && self.0.len() <= chunk {
            return;
        }
        let cells = Arc::make_mut(&mut self.0);
        if cells.len() <= chunk {
            cells.resize_with(chunk + 1, Cells::default);
        }
        if let Some(cells) = cells.get_mut(chunk) {
            cells.set(slot, value);
        }
    }
}

/// The texts by which rows are put in order, each cut to [`SORT_TEXT_BYTES_MAX`].
#[derive(Debug, Clone, Default)]
pub(super) struct TextColumn {
    /// The first eight bytes of each, which settle most comparisons.
    heads: Column<u64>,
    chunks: Arc<Vec<Arc<TextChunk>>>,
}

/// The texts of one chunk, one after the other.
#[derive(Debug, Clone, Default)]
struct TextChunk {
    /// Where the text of each row begins, and how long it is.
    spans: Vec<(u32, u16)>,
    bytes: Vec<u8>,
    /// How many of the bytes belong to no row any more.
    dead: usize,
}

/// The beginning of a text as a number that sorts as the text does; never the least or the greatest number of all.
pub(super) fn head(text: &str) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    // No text begins with the byte 255, and an empty one is no value.
    u64::from_be_bytes(bytes)
}

/// The part of a text that counts in an order; none, where the text is empty.
pub(super) fn sortable(text: &str) -> Option<&str> {
    let mut end = text.len().min(SORT_TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).filter(|text| !text.is_empty() && !text.starts_with('\0'))
}

impl TextColumn {
    /// The beginning of a row's text as [`head`] gives it.
    pub(super) fn head(&self, row: u32) -> Option<u64> {
        self.heads.get(row)
    }

    /// The beginnings of a chunk's texts as [`head`] gives them.
    pub(super) fn heads(&self, chunk: usize) -> &[u64] {
        self.heads.chunk(chunk)
    }

    /// The text of a row, if it has one.
    pub(super) fn get(&self, row: u32) -> Option<&[u8]> {
        let (chunk, slot) = split(row);
        let bytes = self.chunks.get(chunk)?.get(slot);
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Sets or clears the text of a row, which is [`sortable`].
    pub(super) fn set(&mut self, row: u32, text: Option<&str>) {
        let bytes = text.unwrap_or_default().as_bytes();
        if self.get(row).unwrap_or_default() == bytes {
            return;
        }
        self.heads.set(row, text.map(head));
        let (chunk, slot) = split(row);
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.len() <= chunk {
            chunks.resize_with(chunk + 1, Arc::default);
        }
        if let Some(chunk) = chunks.get_mut(chunk) {
            Arc::make_mut(chunk).set(slot, bytes);
        }
    }
}

impl TextChunk {
    fn get(&self, slot: usize) -> &[u8] {
        let (start, length) = self.spans.get(slot).copied().unwrap_or_default();
        let start = start as usize;
        self.bytes.get(start..start + usize::from(length)).unwrap_or_default()
    }

    fn set(&mut self, slot: usize, text: &[u8]) {
        let Ok(length) = u16::try_from(text.len()) else { return };
        if slot >= CHUNK_ROWS {
            return;
        }
        if self.spans.len() <= slot {
            self.spans.resize(slot + 1, (0, 0));
        }
        self.dead += self.get(slot).len();
        if self.dead > self.bytes.len() / 2 && self.dead > SORT_TEXT_BYTES_MAX {
            self.compact(slot);
        }
        // A chunk holds at most 4,096 texts and as much again of dead ones, far below what 32 bits count.
        let start = u32::try_from(self.bytes.len()).unwrap_or_default();
        self.bytes.extend_from_slice(text);
        if let Some(span) = self.spans.get_mut(slot) {
            *span = (start, length);
        }
    }

    /// Drops what belongs to no row, the text of `leaving` among it.
    fn compact(&mut self, leaving: usize) {
        let mut bytes = Vec::with_capacity(self.bytes.len() - self.dead + SORT_TEXT_BYTES_MAX);
        for slot in 0..self.spans.len() {
            let text = if slot == leaving { &[] } else { self.get(slot) };
            let span = (u32::try_from(bytes.len()).unwrap_or_default(), u16::try_from(text.len()).unwrap_or_default());
            bytes.extend_from_slice(text);
            if let Some(place) = self.spans.get_mut(slot) {
                *place = span;
            }
        }
        self.bytes = bytes;
        self.dead = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn texts_are_kept_through_changes_and_dead_ones_are_dropped() {
        let mut column = TextColumn::default();
        let mut expected = BTreeMap::new();
        for step in 0..40_000_u32 {
            let row = step.wrapping_mul(2_654_435_761) % 5_000;
            let text = (step % 7 != 0).then(|| format!("name {} of {row}", step % 1_000));
            column.set(row, text.as_deref());
            expected.insert(row, text);
        }
        for (row, text) in &expected {
            assert_eq!(column.get(*row), text.as_deref().map(str::as_bytes), "{row}");
            assert_eq!(column.head(*row), text.as_deref().map(head), "{row}");
        }
        let before = column.clone();
        column.set(3, Some("changed"));
        assert_eq!(before.get(3), expected[&3].as_deref().map(str::as_bytes));
        let alive: usize = expected.values().flatten().map(String::len).sum();
        let held: usize = column.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        assert!(held <= 2 * alive + 2 * SORT_TEXT_BYTES_MAX + 64, "{held} of {alive}");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(sortable(""), None);
        let long = "é".repeat(SORT_TEXT_BYTES_MAX);
        assert_eq!(sortable(&long).map(str::len), Some(SORT_TEXT_BYTES_MAX));
        let odd = format!("a{long}");
        assert_eq!(sortable(&odd).map(str::len), Some(SORT_TEXT_BYTES_MAX - 1));
        assert!(head("ab") < head("abc") && head("abc") < head("b"));
    }

    #[test]
    fn a_column_without_values_takes_no_memory() {
        let mut column = Column::<i64>::default();
        column.set(10_000, None);
        assert!(column.chunk(2).is_empty());
        column.set(10_000, Some(7));
        assert_eq!((column.get(10_000), column.get(9_999), column.get(20_000)), (Some(7), None, None));
    }
}

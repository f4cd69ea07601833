//! A column over all rows of a kind, in chunks that clones share; the same for texts.
//!
//! **Invariant:** a change copies the cells of one chunk and a list with one reference per chunk, however long the
//! column is.

use std::io;
use std::sync::Arc;

use super::blobs::Blobs;
use super::checkpoint::{CheckpointWriter, Loading, Stored};
use super::chunk::{CHUNK_ROWS, Cell, Cells, split};
use super::stored::Corrupt;

/// One value per row, or none.
#[derive(Debug, Clone)]
pub(super) struct Column<T>(Arc<Vec<Cells<T>>>);

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Cell> Stored for Column<T> {
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        checkpoint.values(self.0.iter())
    }

    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt> {
        checkpoint.all().map(|chunks| Self(Arc::new(chunks)))
    }
}

impl<T: Cell> Column<T> {
    /// Returns the cells of a chunk, missing ones as [`Cell::MISSING`], without those beyond the end.
    pub(super) fn chunk(&self, chunk: usize) -> &[T] {
        self.0.get(chunk).map_or(&[], Cells::as_slice)
    }

    /// Returns the value of a row, if there is one.
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

/// The sort keys of rows, each truncated to [`daftar_domain::search::order::SORT_TEXT_BYTES_MAX`].
#[derive(Debug, Clone, Default)]
pub(super) struct TextColumn {
    /// The first eight bytes of each, which decide most comparisons.
    heads: Column<u64>,
    texts: Blobs,
}

/// Returns the first bytes of a text as a number with the same order; never the smallest or the largest number.
pub(super) fn head(text: &str) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    // No text starts with the byte 255, and an empty one is no value.
    u64::from_be_bytes(bytes)
}

impl TextColumn {
    /// Returns the [`head`] of a row's text.
    pub(super) fn head(&self, row: u32) -> Option<u64> {
        self.heads.get(row)
    }

    /// Returns the [`head`]s of a chunk's texts.
    pub(super) fn heads(&self, chunk: usize) -> &[u64] {
        self.heads.chunk(chunk)
    }

    /// Returns the text of a row, if it has one.
    pub(super) fn get(&self, row: u32) -> Option<&[u8]> {
        let bytes = self.texts.get(row);
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Sets or clears the text of a row, which is [`daftar_domain::search::order::sortable`].
    pub(super) fn set(&mut self, row: u32, text: Option<&str>) {
        let bytes = text.unwrap_or_default().as_bytes();
        if self.get(row).unwrap_or_default() == bytes {
            return;
        }
        self.heads.set(row, text.map(head));
        self.texts.set(row, bytes);
    }

    /// Writes it to a checkpoint.
    pub(super) fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        self.texts.store(checkpoint)
    }

    /// Reads it from a checkpoint. The heads are derived from the texts.
    pub(super) fn load(checkpoint: &mut Loading<'_>, rows: u32) -> Result<Self, Corrupt> {
        let texts = Blobs::load(checkpoint)?;
        let mut heads = Vec::new();
        for first in (0..rows).step_by(CHUNK_ROWS) {
            let last = first.saturating_add(CHUNK_ROWS as u32).min(rows);
            let of_row = |row| match texts.get(row) {
                [] => Ok(None),
                bytes => str::from_utf8(bytes).map(|text| Some(head(text))),
            };
            let cells: Result<Vec<Option<u64>>, _> = (first..last).map(of_row).collect();
            heads.push(Cells::of(&cells.map_err(|_| Corrupt("a text is not UTF-8"))?));
        }
        Ok(Self { heads: Column(Arc::new(heads)), texts })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn texts_survive_changes() {
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
    }

    #[test]
    fn a_head_sorts_like_its_text() {
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

//! The rows of records.
//!
//! **Invariant:** rows are numbered from 0 without a gap in the order of the keys; the row of a record never changes.

use std::io;
use std::sync::Arc;

use super::checkpoint::{CheckpointWriter, Loading, Stored};
use super::chunk::{CHUNK_ROWS, Cells};
use super::stored::Corrupt;
use daftar_domain::record::{RecordId, RecordKind};

/// The keys of the records of one kind, by row; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    chunks: Arc<Vec<Arc<Vec<RecordId>>>>,
    count: u32,
}

impl Rows {
    /// Returns the number of rows.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the record of a row.
    pub(super) fn id(&self, row: u32) -> Option<RecordId> {
        let row = row as usize;
        self.chunks.get(row / CHUNK_ROWS)?.get(row % CHUNK_ROWS).copied()
    }

    /// Returns the row of a record.
    pub(super) fn find(&self, id: RecordId) -> Option<u32> {
        // If no key was skipped, the row follows from the key.
        let expected = u32::try_from(id.0.checked_sub(1)?).ok();
        if let Some(row) = expected.filter(|row| self.id(*row) == Some(id)) {
            return Some(row);
        }
        let chunk = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| *last < id));
        let slot = self.chunks.get(chunk)?.binary_search(&id).ok()?;
        u32::try_from(chunk * CHUNK_ROWS + slot).ok()
    }

    /// Returns the number of rows with a smaller key.
    pub(super) fn first_after(&self, id: RecordId) -> u32 {
        let chunk = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| *last < id));
        let slot = self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(|at| *at < id));
        u32::try_from(chunk * CHUNK_ROWS + slot).unwrap_or(u32::MAX).min(self.count)
    }

    /// Returns the row of a record, assigning one if it has none. `None`, which is logged, if its key is smaller than a
    /// known one, or if the rows are used up.
    pub(super) fn place(&mut self, kind: RecordKind, id: RecordId) -> Option<u32> {
        let last = self.count.checked_sub(1).and_then(|row| self.id(row));
        let known = if last.is_some_and(|last| last >= id) { self.find(id) } else { self.add(id) };
        if known.is_none() {
            tracing::error!(
                record.kind = %kind,
                record.id = id.0,
                "record with a key out of order; searches do not find it until the next start"
            );
        }
        known
    }

    /// Assigns the next row to a record.
    fn add(&mut self, id: RecordId) -> Option<u32> {
        let row = Some(self.count).filter(|count| *count < u32::MAX)?;
        let chunks = Arc::make_mut(&mut self.chunks);
        match chunks.last_mut().filter(|chunk| chunk.len() < CHUNK_ROWS) {
            Some(chunk) => Arc::make_mut(chunk).push(id),
            None => chunks.push(Arc::new(vec![id])),
        }
        self.count += 1;
        Some(row)
    }
}

impl Stored for Rows {
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        let keys = |chunk: &Arc<Vec<RecordId>>| chunk.iter().map(|id| id.0).collect::<Vec<u64>>();
        checkpoint.values(self.chunks.iter().map(|chunk| Cells::from(keys(chunk))))
    }

    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt> {
        let mut chunks: Vec<Arc<Vec<RecordId>>> = Vec::new();
        let mut count = 0_usize;
        for keys in checkpoint.all::<Cells<u64>>()? {
            let chunk: Vec<RecordId> = keys.as_slice().iter().copied().map(RecordId).collect();
            let last = chunks.last().and_then(|chunk| chunk.last());
            let is_sound = chunk.is_sorted_by(|one, other| one < other)
                && chunk.first().is_some_and(|first| last.is_none_or(|last| last < first))
                && count.is_multiple_of(CHUNK_ROWS);
            if !is_sound {
                return Err(Corrupt("the keys of records do not ascend"));
            }
            count += chunk.len();
            chunks.push(Arc::new(chunk));
        }
        let count = u32::try_from(count).map_err(|_| Corrupt("there are too many rows"))?;
        Ok(Self { chunks: Arc::new(chunks), count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_rows_with_and_without_gaps_between_keys() {
        for step in [1, 3] {
            let mut rows = Rows::default();
            for index in 0..10_000_u32 {
                assert_eq!(rows.place(RecordKind::Individual, RecordId(u64::from(index) * step + 1)), Some(index));
            }
            for index in [0, 1, 4_095, 4_096, 9_999] {
                let id = RecordId(u64::from(index) * step + 1);
                assert_eq!(rows.find(id), Some(index));
                assert_eq!(rows.place(RecordKind::Individual, id), Some(index));
                assert_eq!(rows.id(index), Some(id));
            }
            assert_eq!(rows.find(RecordId(0)), None);
            assert_eq!(rows.find(RecordId(10_000 * step + 1)), None);
            assert_eq!(rows.id(10_000), None);
            assert_eq!(rows.first_after(RecordId(0)), 0);
            assert_eq!(rows.first_after(RecordId(4_096 * step + 1)), 4_096);
            assert_eq!(rows.first_after(RecordId(10_000 * step + 1)), 10_000);
            assert_eq!(rows.count(), 10_000);
        }
    }

    #[test]
    fn refuses_a_key_out_of_order() {
        let mut rows = Rows::default();
        rows.place(RecordKind::Individual, RecordId(5));
        assert_eq!(rows.place(RecordKind::Individual, RecordId(4)), None);
        assert_eq!(rows.count(), 1);
    }

    #[test]
    fn a_copy_does_not_see_later_rows() {
        let mut rows = Rows::default();
        rows.place(RecordKind::Individual, RecordId(1));
        let before = rows.clone();
        rows.place(RecordKind::Individual, RecordId(2));
        assert_eq!((before.count(), before.find(RecordId(2)), before.id(1)), (1, None, None));
    }
}

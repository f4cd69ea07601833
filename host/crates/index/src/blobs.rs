//! A byte string for each row, in chunks that clones share.
//!
//! **Invariant:** a change copies the bytes of one chunk and a list with one reference per chunk, however many rows
//! there are; dead bytes are never more than half of a chunk's bytes, apart from [`DEAD_BYTES_MIN`].

use std::io;
use std::sync::Arc;

use super::checkpoint::{CheckpointWriter, Loading, Stored};
use super::chunk::{CHUNK_ROWS, Cells, split};
use super::stored::{self, Corrupt};

/// Up to this many dead bytes a chunk is not compacted.
const DEAD_BYTES_MIN: usize = 1_024;

/// The bytes of each row; empty if not set.
#[derive(Debug, Clone, Default)]
pub(super) struct Blobs {
    chunks: Arc<Vec<Arc<Chunk>>>,
}

/// The bytes of the rows of one chunk, concatenated.
#[derive(Debug, Clone, Default)]
struct Chunk {
    /// The start and length of each row's bytes.
    spans: Vec<(u32, u32)>,
    bytes: Vec<u8>,
    /// The number of bytes that no longer belong to a row.
    dead: usize,
}

impl Blobs {
    /// Returns the bytes of a row.
    pub(super) fn get(&self, row: u32) -> &[u8] {
        let (chunk, slot) = split(row);
        self.chunks.get(chunk).map_or(&[], |chunk| chunk.get(slot))
    }

    /// Sets the bytes of a row.
    pub(super) fn set(&mut self, row: u32, bytes: &[u8]) {
        let (at, slot) = split(row);
        let chunks = Arc::make_mut(&mut self.chunks);
        while chunks.len() <= at {
            chunks.push(Arc::default());
        }
        if let Some(chunk) = chunks.get_mut(at) {
            Arc::make_mut(chunk).set(slot, bytes);
        }
    }
}

impl Stored for Blobs {
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        let part = checkpoint.part()?;
        self.chunks.iter().try_for_each(|chunk| part.add_with(|to| chunk.put(to)))
    }

    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt> {
        let chunks = checkpoint.each(|from| Chunk::take(from).map(Arc::new))?;
        Ok(Self { chunks: Arc::new(chunks) })
    }
}

impl Chunk {
    fn get(&self, slot: usize) -> &[u8] {
        let (start, length) = self.spans.get(slot).copied().unwrap_or_default();
        let (start, length) = (start as usize, length as usize);
        self.bytes.get(start..start.saturating_add(length)).unwrap_or_default()
    }

    fn set(&mut self, slot: usize, bytes: &[u8]) {
        if slot >= CHUNK_ROWS || (self.get(slot) == bytes && slot < self.spans.len()) {
            return;
        }
        let is_last = slot + 1 == CHUNK_ROWS && self.spans.len() < CHUNK_ROWS;
        if self.spans.len() <= slot {
            self.spans.resize(slot + 1, (0, 0));
        }
        self.dead += self.get(slot).len();
        if self.dead > self.bytes.len() / 2 && self.dead > DEAD_BYTES_MIN {
            self.compact(slot);
        }
        // The records of a chunk are at most 4,096 MiB, and the bytes stored of them are fewer.
        let (Ok(start), Ok(length)) = (u32::try_from(self.bytes.len()), u32::try_from(bytes.len())) else { return };
        if self.bytes.capacity() - self.bytes.len() < bytes.len() {
            // Doubling would leave half of all chunks empty.
            self.bytes.reserve_exact(bytes.len().max(self.bytes.len() / 4));
        }
        self.bytes.extend_from_slice(bytes);
        if let Some(span) = self.spans.get_mut(slot) {
            *span = (start, length);
        }
        if is_last {
            self.bytes.shrink_to_fit();
        }
    }

    /// Removes dead bytes, including those of `leaving`.
    fn compact(&mut self, leaving: usize) {
        let mut bytes = Vec::with_capacity(self.bytes.len() - self.dead.min(self.bytes.len()));
        for slot in 0..self.spans.len() {
            let stored = if slot == leaving { &[] } else { self.get(slot) };
            let span = (bytes.len() as u32, stored.len() as u32);
            bytes.extend_from_slice(stored);
            if let Some(place) = self.spans.get_mut(slot) {
                *place = span;
            }
        }
        self.bytes = bytes;
        self.dead = 0;
    }

    /// Writes the length of each row's bytes, then the bytes, without an intermediate copy.
    fn put(&self, to: &mut Vec<u8>) {
        let lengths: Vec<u32> = self.spans.iter().map(|(_, length)| *length).collect();
        stored::put(to, &Cells::from(lengths));
        (0..self.spans.len()).for_each(|slot| to.extend_from_slice(self.get(slot)));
    }

    fn take(from: &mut &[u8]) -> Result<Self, Corrupt> {
        let lengths: Cells<u32> = stored::take(from)?;
        let mut end = 0_u32;
        let mut spans = Vec::with_capacity(lengths.as_slice().len());
        for length in lengths.as_slice() {
            spans.push((end, *length));
            end = end.checked_add(*length).ok_or(Corrupt("a chunk has too many bytes"))?;
        }
        let (bytes, rest) = from.split_at_checked(end as usize).ok_or(Corrupt("it is truncated"))?;
        *from = rest;
        Ok(Self { spans, bytes: bytes.to_vec(), dead: 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn bytes_survive_changes_and_dead_bytes_are_removed() {
        let mut blobs = Blobs::default();
        let mut expected = BTreeMap::new();
        for step in 0..40_000_u32 {
            let row = step.wrapping_mul(2_654_435_761) % 5_000;
            let text = if step % 7 == 0 { String::new() } else { format!("name {} of {row}", step % 1_000) };
            blobs.set(row, text.as_bytes());
            expected.insert(row, text);
        }
        for (row, text) in &expected {
            assert_eq!(blobs.get(*row), text.as_bytes(), "{row}");
        }
        let before = blobs.clone();
        blobs.set(3, b"changed");
        assert_eq!((before.get(3), blobs.get(3)), (expected[&3].as_bytes(), &b"changed"[..]));
        let alive: usize = expected.values().map(String::len).sum();
        let held: usize = blobs.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        assert!(held <= 2 * alive + 2 * DEAD_BYTES_MIN + 64, "{held} of {alive}");
    }

    #[test]
    fn a_row_that_was_never_set_has_no_bytes() {
        let mut blobs = Blobs::default();
        assert!(blobs.get(0).is_empty());
        blobs.set(9_000, b"x");
        assert!(blobs.get(8_999).is_empty() && blobs.get(0).is_empty() && blobs.get(20_000).is_empty());
        assert_eq!(blobs.get(9_000), b"x");
    }
}

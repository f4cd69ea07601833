//! Writes a backup, block by block.
//!
//! **Invariant:** a packed block is unpacked again and compared before it is sent: a compression error never surfaces
//! at the restore.

use std::collections::BTreeMap;

use ruzstd::decoding::FrameDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::BackupProblem;
use super::format::{BLOCK_BYTES, BLOCK_BYTES_MAX, BlockHead, BlockKind, Chain, End, Head, Packing};
use super::item::Item;

/// A smaller block is not packed.
const PACKED_FROM_BYTES: usize = 256;

/// The end of a backup.
pub struct Finished {
    /// The last blocks.
    pub blocks: Vec<Vec<u8>>,
    /// Written amount, by kind.
    pub counts: BTreeMap<String, u64>,
}

/// Creates the bytes of a backup.
pub struct BackupWriter {
    chain: Chain,
    items: Vec<u8>,
    item_count: u32,
    end: End,
}

impl BackupWriter {
    /// Begins a backup; returns its header line.
    ///
    /// # Errors
    /// Never in practice: the header can be encoded.
    pub fn new(head: &Head) -> Result<(Self, Vec<u8>), BackupProblem> {
        let line = head.line()?;
        let writer = Self { chain: Chain::of_line(&line), items: Vec::new(), item_count: 0, end: End::default() };
        Ok((writer, line))
    }

    /// Adds items; returns the full blocks.
    ///
    /// # Errors
    /// If an item is larger than the maximum block size.
    pub fn add(&mut self, items: impl IntoIterator<Item = Item>) -> Result<Vec<Vec<u8>>, BackupProblem> {
        let mut blocks = Vec::new();
        for item in items {
            *self.end.counts.entry(item.counted().to_owned()).or_default() += 1;
            let before = self.items.len();
            let written = item.write(std::mem::take(&mut self.items));
            self.items = written.map_err(|error| self.refused(error.to_string()))?;
            self.item_count = self.item_count.saturating_add(1);
            if self.items.len() > BLOCK_BYTES_MAX {
                let bytes = self.items.len().saturating_sub(before);
                return Err(self.refused(format!("one of its {} takes {bytes} bytes", item.counted())));
            }
            if self.items.len() >= BLOCK_BYTES {
                blocks.extend(self.close_block());
            }
        }
        Ok(blocks)
    }

    /// Ends the backup.
    ///
    /// # Errors
    /// Never in practice: the trailer can be encoded.
    pub fn finish(mut self) -> Result<Finished, BackupProblem> {
        let mut blocks: Vec<Vec<u8>> = self.close_block().into_iter().collect();
        let end = serde_json::to_vec(&self.end).map_err(|error| self.refused(error.to_string()))?;
        blocks.push(self.block(BlockKind::End, 0, end));
        Ok(Finished { blocks, counts: self.end.counts })
    }

    fn refused(&self, reason: String) -> BackupProblem {
        BackupProblem::Content { block: self.end.blocks.saturating_add(1), reason }
    }

    fn close_block(&mut self) -> Option<Vec<u8>> {
        if self.items.is_empty() {
            return None;
        }
        let (items, count) = (std::mem::take(&mut self.items), std::mem::take(&mut self.item_count));
        self.end.blocks = self.end.blocks.saturating_add(1);
        self.end.bytes = self.end.bytes.saturating_add(u64::try_from(items.len()).unwrap_or(u64::MAX));
        Some(self.block(BlockKind::Items, count, items))
    }

    fn block(&mut self, kind: BlockKind, items: u32, bytes: Vec<u8>) -> Vec<u8> {
        // Both are below the maximum block size.
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let unpacked = length(&bytes);
        let (packing, payload) = match packed(&bytes) {
            Some(packed) if kind == BlockKind::Items => (Packing::Zstandard, packed),
            Some(_) | None => (Packing::Plain, bytes),
        };
        let head = BlockHead { kind, packing, items, unpacked, packed: length(&payload) }.bytes();
        self.chain = self.chain.with(&head, &payload);
        let mut block = Vec::with_capacity(head.len() + payload.len() + self.chain.bytes().len());
        block.extend_from_slice(&head);
        block.extend_from_slice(&payload);
        block.extend_from_slice(self.chain.bytes());
        block
    }
}

/// Packs the bytes; returns them if they are smaller and unpack to the original.
fn packed(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < PACKED_FROM_BYTES {
        return None;
    }
    let packed = compress_to_vec(bytes, CompressionLevel::Fastest);
    if packed.len() >= bytes.len() {
        return None;
    }
    if unpacked(&packed, bytes.len()).is_ok_and(|back| back == bytes) {
        return Some(packed);
    }
    tracing::warn!("a block of a backup could not be packed soundly and was written as it is");
    None
}

/// Unpacks the bytes; the result must have exactly the given size.
pub(super) fn unpacked(packed: &[u8], length: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; length];
    let written = FrameDecoder::new().decode_all(packed, &mut bytes).map_err(|error| error.to_string())?;
    if written == length { Ok(bytes) } else { Err(format!("it unpacks to {written} bytes, not {length}")) }
}

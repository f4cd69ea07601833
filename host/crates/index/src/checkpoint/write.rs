//! Writing of a checkpoint, part by part, with a few MiB of memory.

use std::io::{self, Write};

use serde::Serialize;

use super::{END, FORMAT, Frame, FrameTable, HEADER_BYTES, Head, MAGIC};
use crate::image::Image;
use crate::stored::{self, bytes_of};

/// The bytes of a part that are written together; more if a single value is larger.
const FRAME_BYTES: usize = 1 << 20;

/// A checkpoint being written: part by part, the values of a part in order.
pub(crate) struct CheckpointWriter<'w> {
    out: &'w mut dyn Write,
    written: u64,
    buffer: Vec<u8>,
    table: FrameTable,
}

/// Writes a checkpoint of the image, and returns its length.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(image: &Image, head: &Head, out: &mut dyn Write) -> io::Result<u64> {
    let mut writer = CheckpointWriter {
        out,
        written: 0,
        buffer: Vec::with_capacity(FRAME_BYTES + FRAME_BYTES / 4),
        table: FrameTable::default(),
    };
    writer.put(&header(head))?;
    image.store(&mut writer)?;
    writer.flush_frame()?;
    writer.finish()
}

fn header(head: &Head) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&FORMAT.to_le_bytes());
    header.extend_from_slice(&head.layout);
    header.extend_from_slice(&head.sequence.0.to_le_bytes());
    header.extend_from_slice(&head.mark);
    let checksum = crc32fast::hash(&header);
    header.extend_from_slice(&checksum.to_le_bytes());
    debug_assert_eq!(header.len(), HEADER_BYTES);
    header
}

impl CheckpointWriter<'_> {
    /// Starts the next part.
    pub(crate) fn part(&mut self) -> io::Result<&mut Self> {
        self.flush_frame()?;
        let number = self.table.sections.last().map_or(0, |last| last.saturating_add(1));
        self.table.sections.push(number);
        Ok(self)
    }

    /// Writes a part with these values.
    pub(crate) fn values<T: Serialize>(&mut self, values: impl IntoIterator<Item = T>) -> io::Result<()> {
        let part = self.part()?;
        values.into_iter().try_for_each(|value| part.add_with(|to| stored::put(to, &value)))
    }

    /// Writes a part with a single value.
    pub(crate) fn one<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        self.values([value])
    }

    /// Adds a value that appends its own bytes to the part.
    pub(crate) fn add_with(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        put(&mut self.buffer);
        if self.buffer.len() >= FRAME_BYTES { self.flush_frame() } else { Ok(()) }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn flush_frame(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let frame = Frame {
            section: self.table.sections.last().copied().unwrap_or_default(),
            offset: self.written,
            length: self.buffer.len() as u64,
            checksum: crc32fast::hash(&self.buffer),
        };
        let buffer = std::mem::take(&mut self.buffer);
        self.put(&buffer)?;
        self.table.frames.push(frame);
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<u64> {
        let table = bytes_of(&self.table);
        let mut end = [self.written.to_le_bytes(), (table.len() as u64).to_le_bytes()].concat();
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&table);
        checksum.update(&end);
        end.extend_from_slice(&checksum.finalize().to_le_bytes());
        end.extend_from_slice(END);
        self.put(&table)?;
        self.put(&end)?;
        self.out.flush()?;
        Ok(self.written)
    }
}

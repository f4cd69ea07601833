//! Writing a checkpoint, part by part, with a few MiB of memory.

use std::io::{self, Write};

use super::section::Section;
use super::{END, FORMAT, Frame, FrameTable, HEADER_BYTES, Head, MAGIC};
use crate::image::{Image, bytes_of};
use crate::stored::Stored;

/// How many bytes of a part are written at once, or one thing of it where that is larger.
const FRAME_BYTES: usize = 1 << 20;

/// Where the parts of a checkpoint are put.
pub(crate) trait Sections {
    /// Begins a part. Each is begun once.
    fn section(&mut self, section: Section) -> io::Result<&mut dyn Frames>;
}

/// Where the things that a part is made of are put, one after the other.
pub(crate) trait Frames {
    /// Adds one of them.
    fn add(&mut self, put: &dyn Fn(&mut Vec<u8>)) -> io::Result<()>;
}

/// A checkpoint that is being written.
struct Writer<W> {
    out: W,
    written: u64,
    section: Section,
    buffer: Vec<u8>,
    table: FrameTable,
}

/// Writes a checkpoint of that image, and says how long it is.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write(image: &Image, head: &Head, out: impl Write) -> io::Result<u64> {
    let mut writer = Writer {
        out,
        written: 0,
        section: Section::Secret,
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
    FORMAT.put(&mut header);
    header.extend_from_slice(&head.layout);
    head.sequence.0.put(&mut header);
    header.extend_from_slice(&head.mark);
    crc32fast::hash(&header).put(&mut header);
    debug_assert_eq!(header.len(), HEADER_BYTES);
    header
}

impl<W: Write> Writer<W> {
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
            section: self.section.number(),
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
        let mut end = Vec::new();
        self.written.put(&mut end);
        (table.len() as u64).put(&mut end);
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&table);
        checksum.update(&end);
        checksum.finalize().put(&mut end);
        end.extend_from_slice(END);
        self.put(&table)?;
        self.put(&end)?;
        self.out.flush()?;
        Ok(self.written)
    }
}

impl<W: Write> Sections for Writer<W> {
    fn section(&mut self, section: Section) -> io::Result<&mut dyn Frames> {
        self.flush_frame()?;
        self.section = section;
        self.table.sections.push(section.number());
        Ok(self)
    }
}

impl<W: Write> Frames for Writer<W> {
    fn add(&mut self, put: &dyn Fn(&mut Vec<u8>)) -> io::Result<()> {
        put(&mut self.buffer);
        if self.buffer.len() >= FRAME_BYTES { self.flush_frame() } else { Ok(()) }
    }
}

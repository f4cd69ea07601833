//! Reading of a checkpoint: its parts in several threads, every byte under a checksum.
//!
//! **Invariant:** nothing of a checkpoint is used before all of it has been read and validated.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;

use super::{END, END_BYTES, FORMAT, Frame, FrameTable, HEADER_BYTES, Head, MAGIC, layout_digest};
use crate::stored::{self, Corrupt};
use daftar_domain::change::Sequence;

/// The largest table of a checkpoint, in bytes: enough for frames of more than a TiB.
const TABLE_BYTES_MAX: u64 = 64 << 20;

const OTHER_FORMAT: Corrupt = Corrupt("it has another format");
const OTHER_VERSION: Corrupt = Corrupt("it was written by another version of daftar");
const UNREADABLE: Corrupt = Corrupt("its file cannot be read");
const MISSING: Corrupt = Corrupt("a part is missing");
const DAMAGED: Corrupt = Corrupt("a checksum does not match");

/// A checkpoint with a valid header and table, read part by part.
pub(crate) struct Loading<'f> {
    file: &'f File,
    frames: Arc<[Frame]>,
    /// The number of parts, and the next one to read.
    parts: u8,
    next: u8,
}

/// Returns true if the reason is only that another version of daftar wrote the checkpoint.
#[must_use]
pub fn is_of_another_version(reason: Corrupt) -> bool {
    reason == OTHER_FORMAT || reason == OTHER_VERSION
}

/// Reads the header of a checkpoint.
pub(super) fn head(file: &File) -> Result<Head, Corrupt> {
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0).map_err(|_| Corrupt("it is too short"))?;
    let mut from = bytes.as_slice();
    if array(&mut from)? != *MAGIC {
        return Err(Corrupt("it is not a checkpoint"));
    }
    if u32::from_le_bytes(array(&mut from)?) != FORMAT {
        return Err(OTHER_FORMAT);
    }
    let layout = array(&mut from)?;
    let sequence = Sequence(u64::from_le_bytes(array(&mut from)?));
    let head = Head { layout, sequence, mark: array(&mut from)? };
    let checked = bytes.get(..HEADER_BYTES - size_of::<u32>()).unwrap_or_default();
    if u32::from_le_bytes(array(&mut from)?) != crc32fast::hash(checked) {
        return Err(DAMAGED);
    }
    if head.layout != layout_digest() {
        return Err(OTHER_VERSION);
    }
    Ok(head)
}

/// Returns the next bytes of the header or the footer.
fn array<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], Corrupt> {
    let (array, rest) = from.split_first_chunk::<N>().ok_or(Corrupt("it is too short"))?;
    *from = rest;
    Ok(*array)
}

impl<'f> Loading<'f> {
    /// Reads the table of the frames.
    pub(super) fn begin(file: &'f File) -> Result<Self, Corrupt> {
        let length = file.metadata().map_err(|_| UNREADABLE)?.len();
        let end_at = length.checked_sub(END_BYTES as u64).ok_or(Corrupt("it is too short"))?;
        let mut end = [0; END_BYTES];
        file.read_exact_at(&mut end, end_at).map_err(|_| UNREADABLE)?;
        let mut from = end.as_slice();
        let (table_at, table_length) = (u64::from_le_bytes(array(&mut from)?), u64::from_le_bytes(array(&mut from)?));
        let checksum = u32::from_le_bytes(array(&mut from)?);
        if array(&mut from)? != *END {
            return Err(Corrupt("it is truncated"));
        }
        if table_at.checked_add(table_length) != Some(end_at) || table_length > TABLE_BYTES_MAX {
            return Err(DAMAGED);
        }
        let mut table = vec![0; usize::try_from(table_length).map_err(|_| DAMAGED)?];
        file.read_exact_at(&mut table, table_at).map_err(|_| UNREADABLE)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&table);
        hasher.update(end.get(..2 * size_of::<u64>()).unwrap_or_default());
        if hasher.finalize() != checksum {
            return Err(DAMAGED);
        }
        let mut from = table.as_slice();
        let FrameTable { sections, frames } = stored::take(&mut from)?;
        let parts = u8::try_from(sections.len()).map_err(|_| MISSING)?;
        if !sections.into_iter().eq(0..parts) || !from.is_empty() {
            return Err(MISSING);
        }
        // The frames are contiguous from the header to the table.
        let mut at = HEADER_BYTES as u64;
        for frame in &frames {
            if frame.offset != at {
                return Err(MISSING);
            }
            at = at.saturating_add(frame.length);
        }
        if at != table_at || !frames.is_sorted_by_key(|frame| frame.section) {
            return Err(MISSING);
        }
        Ok(Self { file, frames: frames.into(), parts, next: 0 })
    }

    /// Assigns the next `parts` to another reader.
    pub(crate) fn fork(&mut self, parts: u8) -> Self {
        let next = self.next;
        self.next = next.saturating_add(parts);
        Self { file: self.file, frames: Arc::clone(&self.frames), parts: self.next, next }
    }

    /// Checks that all parts of this reader were read: a checkpoint has no others.
    pub(crate) fn end(&self) -> Result<(), Corrupt> {
        if self.next == self.parts { Ok(()) } else { Err(MISSING) }
    }

    /// Reads the values of the next part in order with `take`.
    pub(crate) fn each<T>(
        &mut self,
        mut take: impl FnMut(&mut &[u8]) -> Result<T, Corrupt>,
    ) -> Result<Vec<T>, Corrupt> {
        let first = self.frames.partition_point(|frame| frame.section < self.next);
        let end = self.frames.partition_point(|frame| frame.section <= self.next);
        self.next = self.next.saturating_add(1);
        let (mut values, mut buffer) = (Vec::new(), Vec::new());
        for frame in self.frames.get(first..end).unwrap_or_default() {
            buffer.resize(usize::try_from(frame.length).map_err(|_| DAMAGED)?, 0);
            self.file.read_exact_at(&mut buffer, frame.offset).map_err(|_| UNREADABLE)?;
            if crc32fast::hash(&buffer) != frame.checksum {
                return Err(DAMAGED);
            }
            let mut from = buffer.as_slice();
            while !from.is_empty() {
                let before = from.len();
                values.push(take(&mut from)?);
                if from.len() == before {
                    return Err(DAMAGED);
                }
            }
        }
        Ok(values)
    }

    /// Reads the values of the next part in order.
    pub(crate) fn all<T: DeserializeOwned>(&mut self) -> Result<Vec<T>, Corrupt> {
        self.each(|from| stored::take(from))
    }

    /// Reads the only value of the next part.
    pub(crate) fn one<T: DeserializeOwned>(&mut self) -> Result<T, Corrupt> {
        let mut values = self.all()?;
        match (values.pop(), values.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => Err(Corrupt("a part occurs twice")),
            (None, _) => Err(MISSING),
        }
    }
}

/// Reads two parts, concurrently if a thread is available.
pub(crate) fn join<A: Send, B>(
    first: impl FnOnce() -> Result<A, Corrupt> + Send,
    second: impl FnOnce() -> Result<B, Corrupt>,
) -> Result<(A, B), Corrupt> {
    let first = Mutex::new(Some(first));
    let do_first = || {
        let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.map(|first| first())
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("checkpoint".to_owned());
        let thread = builder.spawn_scoped(scope, do_first).ok();
        let second = second()?;
        let first = thread.and_then(|thread| thread.join().ok().flatten());
        // If there was no thread, it is read now.
        let first = first.or_else(do_first).unwrap_or(Err(UNREADABLE))?;
        Ok((first, second))
    })
}

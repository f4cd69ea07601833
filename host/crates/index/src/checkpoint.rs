//! Checkpoints: the register in memory as a file, so that a start need not read every record.
//!
//! A checkpoint shows everything up to one write. Whoever loads it takes up what was written after that. It is a head, the frames
//! of each part one after the other, a table of the frames, and an end that says where the table is:
//!
//! ```text
//! magic 8 · format u32 · layout 32 · sequence u64 · history mark 32 · CRC-32 u32
//! frames
//! table: parts, frames (part · offset · length · CRC-32)
//! table's offset u64 · its length u64 · CRC-32 of table and these u32 · magic 8
//! ```
//!
//! Numbers of the head and of the end are little-endian; frames and table are postcard. It holds personal data, as the store does, and the secret key of the identifiers in it: the folder and the
//! files are their owner's alone.
//!
//! **Invariant:** a checkpoint is used whole or not at all. One that is of another format, layout, version or history, that breaks off or
//! has a wrong checksum is set aside; what it would have saved is read from the records.

mod folder;
mod layout;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use folder::{CheckpointFile, CheckpointFolder};
pub use read::is_of_another_version;
pub(super) use read::{Loading, join};
pub(super) use write::CheckpointWriter;

use std::io;

use serde::{Deserialize, Serialize};

use crate::stored::Unsound;
use daftar_domain::change::Sequence;

const MAGIC: &[u8; 8] = b"daftarCP";
const END: &[u8; 8] = b"CPend\r\n\0";
/// The format of the file around the parts. What the parts hold is told by the layout.
const FORMAT: u32 = 1;
/// The length of the head, in bytes.
const HEADER_BYTES: usize = 8 + 4 + 32 + 8 + 32 + 4;
/// The length of the end, in bytes.
const END_BYTES: usize = 8 + 8 + 4 + 8;

/// What stands for a history up to one write, as the store tells it.
pub type Mark = [u8; 32];

/// What the head of a checkpoint says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    layout: [u8; 32],
    sequence: Sequence,
    mark: Mark,
}

/// Some bytes of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Frame {
    section: u8,
    offset: u64,
    length: u64,
    checksum: u32,
}

/// Where everything is.
#[derive(Debug, Default, Serialize, Deserialize)]
struct FrameTable {
    sections: Vec<u8>,
    frames: Vec<Frame>,
}

/// Something of the register in memory that takes one part of a checkpoint, or several. The parts have no names: they are read in the order in
/// which they are written, so that a change of it raises `LAYOUT`.
pub(super) trait Stored: Sized {
    /// Writes its parts to a checkpoint.
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()>;

    /// Reads its parts from a checkpoint.
    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Unsound>;
}

/// Stores a structure as its fields in that order; what is named behind the semicolon is not stored, and is empty when it is loaded.
macro_rules! stored_fields {
    ($of:ty { $($field:ident),+ $(; $empty:ident)? }) => {
        impl $crate::checkpoint::Stored for $of {
            fn store(&self, checkpoint: &mut $crate::checkpoint::CheckpointWriter<'_>) -> std::io::Result<()> {
                let Self { $($field),+ $(, $empty: _)? } = self;
                $($crate::checkpoint::Stored::store($field, checkpoint)?;)+
                Ok(())
            }

            fn load(checkpoint: &mut $crate::checkpoint::Loading<'_>) -> Result<Self, $crate::stored::Unsound> {
                $(let $field = $crate::checkpoint::Stored::load(checkpoint)?;)+
                Ok(Self { $($field),+ $(, $empty: Default::default())? })
            }
        }
    };
}

pub(super) use stored_fields;

//! Checkpoints: the in-memory register as a file, so that a start need not read every record.
//!
//! A checkpoint contains everything up to one transaction; later transactions are replayed after it is loaded. It
//! consists of a header, the frames of all parts in order, a table of the frames, and a footer with the offset of the
//! table:
//!
//! ```text
//! magic 8 · format u32 · layout 32 · sequence u64 · timeline marker 32 · CRC-32 u32
//! frames
//! table: parts, frames (part · offset · length · CRC-32)
//! table's offset u64 · its length u64 · CRC-32 of table and these u32 · magic 8
//! ```
//!
//! Numbers of the header and the footer are little-endian; frames and table are postcard. A checkpoint contains
//! personal data, like the store, and the secret key of its identifier hashes: only the owner may read the folder and
//! the files.
//!
//! **Invariant:** a checkpoint is used completely or not at all. One with another format, layout, version or timeline,
//! a truncated one, or one with a wrong checksum is quarantined; its content is read from the records instead.

mod folder;
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
use sha2::{Digest, Sha256};

use crate::chunk::CHUNK_ROWS;
use crate::field_columns::column_fields;
use crate::stored::Corrupt;
use daftar_domain::change::Sequence;
use daftar_domain::program_membership::MembershipStatus;
use daftar_domain::record::RecordKind;
use daftar_domain::schema::REVISION;
use daftar_domain::search::order::SORT_TEXT_BYTES_MAX;
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::vocabulary::CodedField;

const MAGIC: &[u8; 8] = b"daftarCP";
const END: &[u8; 8] = b"CPend\r\n\0";
/// The format of the file around the parts. The content of the parts is identified by the layout.
const FORMAT: u32 = 1;
/// The length of the header, in bytes.
const HEADER_BYTES: usize = 8 + 4 + 32 + 8 + 32 + 4;
/// The length of the footer, in bytes.
const END_BYTES: usize = 8 + 8 + 4 + 8;

/// A marker of the timeline up to one transaction, as provided by the store.
pub type Mark = [u8; 32];

/// The header of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    layout: [u8; 32],
    sequence: Sequence,
    mark: Mark,
}

/// A range of bytes of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Frame {
    section: u8,
    offset: u64,
    length: u64,
    checksum: u32,
}

/// The parts and frames of a checkpoint.
#[derive(Debug, Default, Serialize, Deserialize)]
struct FrameTable {
    sections: Vec<u8>,
    frames: Vec<Frame>,
}

/// A component of the in-memory register that is stored in one or more parts of a checkpoint. The parts have no names:
/// they are read in the order in which they are written, so a change of the order raises `LAYOUT`.
pub(super) trait Stored: Sized {
    /// Writes its parts to a checkpoint.
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()>;

    /// Reads its parts from a checkpoint.
    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt>;
}

/// Stores a structure as its fields in this order; fields after the semicolon are not stored, and are empty after
/// loading.
macro_rules! stored_fields {
    ($of:ty { $($field:ident),+ $(; $empty:ident)? }) => {
        impl $crate::checkpoint::Stored for $of {
            fn store(&self, checkpoint: &mut $crate::checkpoint::CheckpointWriter<'_>) -> std::io::Result<()> {
                let Self { $($field),+ $(, $empty: _)? } = self;
                $($crate::checkpoint::Stored::store($field, checkpoint)?;)+
                Ok(())
            }

            fn load(checkpoint: &mut $crate::checkpoint::Loading<'_>) -> Result<Self, $crate::stored::Corrupt> {
                $(let $field = $crate::checkpoint::Stored::load(checkpoint)?;)+
                Ok(Self { $($field),+ $(, $empty: Default::default())? })
            }
        }
    };
}

pub(super) use stored_fields;

/// The version of the column layout. Raise it with every change of the in-memory form of a record (its words, its
/// order) or of the serialisation of a part; a test checks this. The layout also includes the version of daftar, the
/// revision of the schema, its fields that have columns or are searched as whole texts, and the Unicode tables for
/// splitting and sorting words.
const LAYOUT: u32 = 6;

/// Returns the digest of the layout: a program that builds other columns from the same records cannot use a checkpoint.
fn layout_digest() -> [u8; 32] {
    let mut digest = Sha256::new();
    let mut add = |text: &str| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    };
    add(&format!("{LAYOUT} {REVISION} {CHUNK_ROWS} {SORT_TEXT_BYTES_MAX}"));
    add(env!("CARGO_PKG_VERSION"));
    add(&format!("{:?} {:?}", char::UNICODE_VERSION, unicode_normalization::UNICODE_VERSION));
    // A coded field, and the status of a membership, is written as its index.
    CodedField::ALL.iter().for_each(|field| add(field.path()));
    RecordKind::ALL.iter().flat_map(|kind| column_fields(*kind)).for_each(|field| add(&field.layout()));
    RecordKind::ALL.iter().flat_map(|kind| PhraseField::all(*kind)).for_each(|field| add(&field.term(field.field)));
    MembershipStatus::ALL.iter().for_each(|status| add(status.name()));
    digest.finalize().into()
}

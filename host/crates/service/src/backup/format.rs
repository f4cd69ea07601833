//! The format of a backup: one readable header line, blocks, and a last block with the counts of the written items.
//! `host/docs/BACKUP.md` is its public specification.
//!
//! ```text
//! daftar-backup-file 1 {"daftar": …, "sequence": …}\n
//! block: kind, packing, 0, 0, items (u32), bytes unpacked (u32), bytes packed (u32), payload, checksum (32)
//! daftar-backup-signature 1 <key id> <base64>\n      where it is signed
//! ```
//!
//! Numbers are little-endian. A checksum is the SHA-256 of the previous checksum, the header of the block and its
//! payload. For the first block, the previous checksum is that of the header line. The last checksum therefore covers
//! the complete backup.
//!
//! **Invariant:** a released format never changes; a changed format gets a new number. Golden files in
//! `tests/data/backup` contain the bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::BackupProblem;
use daftar_domain::hexadecimal;

/// The format that this daftar writes, and the only format that it reads.
pub const FORMAT: u64 = 1;
/// Prefix of the header line.
pub(super) const MAGIC: &str = "daftar-backup-file ";
/// Header line of backups from before the first release.
pub(super) const MAGIC_BEFORE_FIRST_RELEASE: &str = "daftar-backup ";
/// Maximum length of the header line, in bytes.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Size of a block header, in bytes.
pub(super) const BLOCK_HEAD_BYTES: usize = 16;
/// Size of a checksum, in bytes.
pub(super) const CHECKSUM_BYTES: usize = 32;
/// Approximate size of a block, in bytes. A longer item has a block of its own.
pub(super) const BLOCK_BYTES: usize = 1024 * 1024;
/// Maximum size of a block, packed or unpacked: more than the longest item.
pub(super) const BLOCK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Header of a backup: its first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The version of the daftar that created it.
    pub daftar: String,
    /// The id of the register.
    pub register: String,
    /// The revision of the content.
    pub sequence: u64,
    /// Start time of the backup: RFC 3339.
    pub at: String,
    /// True if it contains the keys, without which no client secret and no token is valid.
    pub keys: bool,
    /// Number of records, by kind.
    pub records: BTreeMap<String, u64>,
}

/// Trailer of a backup: its last block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Number of items of each kind.
    pub counts: BTreeMap<String, u64>,
    /// Number of blocks, except this one.
    pub blocks: u64,
    /// Their unpacked size, in bytes.
    pub bytes: u64,
}

impl Head {
    /// Writes the header line.
    pub(super) fn line(&self) -> Result<Vec<u8>, BackupProblem> {
        let text = serde_json::to_string(self).map_err(|error| BackupProblem::Head(error.to_string()))?;
        Ok(format!("{MAGIC}{FORMAT} {text}\n").into_bytes())
    }

    /// Parses the header line, without its line end.
    pub(super) fn parse(line: &[u8]) -> Result<Self, BackupProblem> {
        let rest = line.strip_prefix(MAGIC.as_bytes()).ok_or(BackupProblem::Foreign)?;
        let damaged = |reason: &str| BackupProblem::Head(reason.to_owned());
        let text = str::from_utf8(rest).map_err(|_| damaged("it is no text"))?;
        let (format, text) = text.split_once(' ').ok_or_else(|| damaged("it is too short"))?;
        let found: u64 = format.parse().map_err(|_| damaged("its format is no number"))?;
        if found > FORMAT {
            return Err(BackupProblem::Newer { found });
        }
        if found != FORMAT {
            return Err(damaged("there is no such format"));
        }
        serde_json::from_str(text).map_err(|error| BackupProblem::Head(error.to_string()))
    }

    /// Approximate number of items in the backup, for progress reports.
    #[must_use]
    pub fn about(&self) -> u64 {
        self.records.values().fold(self.sequence, |sum, count| sum.saturating_add(*count))
    }
}

/// Kind of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// The last one; its payload is an [`End`] as JSON.
    End = 0,
    /// Items, sequentially.
    Items = 1,
}

/// Compression of a block's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// Uncompressed.
    Plain = 0,
    /// One frame of Zstandard (RFC 8878).
    Zstandard = 1,
}

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHead {
    pub kind: BlockKind,
    pub packing: Packing,
    pub items: u32,
    pub unpacked: u32,
    pub packed: u32,
}

impl BlockHead {
    /// Encodes the header.
    pub(super) fn bytes(self) -> [u8; BLOCK_HEAD_BYTES] {
        let numbers = [self.items, self.unpacked, self.packed].map(u32::to_le_bytes);
        let bytes = [self.kind as u8, self.packing as u8, 0, 0].into_iter().chain(numbers.into_iter().flatten());
        let mut head = [0; BLOCK_HEAD_BYTES];
        head.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        head
    }

    /// Decodes the header; returns the problem of invalid bytes.
    pub(super) fn parse(bytes: &[u8; BLOCK_HEAD_BYTES]) -> Result<Self, &'static str> {
        let [kind, packing, zero, other_zero, numbers @ ..] = bytes;
        if (*zero, *other_zero) != (0, 0) {
            return Err("its head has bytes that mean nothing");
        }
        let kind = match kind {
            0 => BlockKind::End,
            1 => BlockKind::Items,
            _ => return Err("there is no such kind of block"),
        };
        let packing = match packing {
            0 => Packing::Plain,
            1 => Packing::Zstandard,
            _ => return Err("there is no such way of packing"),
        };
        let mut numbers = numbers
            .chunks_exact(4)
            .map(|bytes| bytes.iter().rev().fold(0_u32, |number, byte| (number << 8) | u32::from(*byte)));
        let mut next = || numbers.next().unwrap_or_default();
        let head = Self { kind, packing, items: next(), unpacked: next(), packed: next() };
        let is_bounded = |bytes: u32| usize::try_from(bytes).is_ok_and(|bytes| bytes <= BLOCK_BYTES_MAX);
        if !is_bounded(head.unpacked) || !is_bounded(head.packed) {
            return Err("it says that it is larger than a block may be");
        }
        Ok(head)
    }
}

/// The checksum of all data so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain([u8; CHECKSUM_BYTES]);

impl Chain {
    /// Checksum of the first line, including its end.
    pub(super) fn of_line(line: &[u8]) -> Self {
        Self(Sha256::digest(line).into())
    }

    /// Checksum of a block, chained with the previous ones.
    #[must_use]
    pub(super) fn with(self, head: &[u8], payload: &[u8]) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(head).chain_update(payload).finalize().into())
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8; CHECKSUM_BYTES] {
        &self.0
    }

    /// As hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        hexadecimal::encode(&self.0)
    }
}

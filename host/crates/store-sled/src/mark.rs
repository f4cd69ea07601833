//! A marker of the last acknowledged write, by which a start detects truncated or older database files.
//!
//! The database takes a log whose end is missing for one that was never written, and continues from the rest. The
//! marker is written after each sync, but synced only at each start: it may lag behind after a power cut, and is never
//! ahead of the disk. So if it is ahead of the database, an acknowledged write is lost.
//!
//! **Invariant:** an unreadable marker is ignored: a marker only ever causes a rejection.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The file, in the folder of the database.
pub(super) const MARK_FILE: &str = "acknowledged";
/// The magic bytes and the version of the marker.
const HEAD: &[u8; 8] = b"daftar\0\x01";

/// The last acknowledged numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Acknowledged {
    /// The last write of records.
    pub(super) sequence: u64,
    /// The last value of the audit log.
    pub(super) audit: u64,
    /// The number of parts of the table of codes.
    pub(super) code_table_parts: u64,
}

impl Acknowledged {
    /// Returns true if a database with these last numbers contains everything acknowledged.
    pub(super) fn is_held_by(&self, held: &Self) -> bool {
        self.sequence <= held.sequence && self.audit <= held.audit && self.code_table_parts <= held.code_table_parts
    }

    /// Length of its bytes.
    pub(super) const BYTES: usize = HEAD.len() + 4 * size_of::<u64>();

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        for number in [self.sequence, self.audit, self.code_table_parts] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&sum(&bytes).to_be_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (body, reported) = bytes.split_last_chunk::<8>()?;
        let rest = body.strip_prefix(HEAD).filter(|_| sum(body) == u64::from_be_bytes(*reported))?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (audit, parts) = rest.split_first_chunk::<8>()?;
        Some(Self {
            sequence: u64::from_be_bytes(*sequence),
            audit: u64::from_be_bytes(*audit),
            code_table_parts: u64::from_be_bytes(parts.try_into().ok()?),
        })
    }
}

impl fmt::Display for Acknowledged {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequence, audit, code_table_parts } = self;
        write!(formatter, "write {sequence} (audit log {audit}, table of codes {code_table_parts})")
    }
}

/// FNV-1a of 64 bits: detects a partially written marker.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Reads the marker of a folder; `None` if it is missing or unreadable.
pub(super) fn read(folder: &Path) -> Option<Acknowledged> {
    Acknowledged::from_bytes(&std::fs::read(folder.join(MARK_FILE)).ok()?)
}

/// Writes the marker.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    written: Option<Acknowledged>,
}

impl Mark {
    /// Opens the marker of a folder; creates it if it is missing.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(folder.join(MARK_FILE))?;
        Ok(Self { file, written: None })
    }

    /// Writes the marker after a sync.
    pub(super) fn write(&mut self, acknowledged: Acknowledged) -> io::Result<()> {
        if self.written == Some(acknowledged) {
            return Ok(());
        }
        self.file.write_all_at(&acknowledged.to_bytes(), 0)?;
        self.written = Some(acknowledged);
        Ok(())
    }

    /// Writes the marker after a sync, and returns when it is on disk as well.
    pub(super) fn write_durably(&mut self, acknowledged: Acknowledged) -> io::Result<()> {
        self.write(acknowledged)?;
        Ok(rustix::fs::fdatasync(&self.file)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_back_and_a_corrupt_one_is_ignored() {
        let folder = tempfile::TempDir::new().unwrap();
        assert_eq!(read(folder.path()), None);
        let note = Acknowledged { sequence: 7, audit: 300, code_table_parts: 2 };
        let mut mark = Mark::open(folder.path()).unwrap();
        mark.write(Acknowledged { sequence: u64::MAX, ..note }).unwrap();
        mark.write(note).unwrap();
        assert_eq!(read(folder.path()), Some(note));
        let whole = note.to_bytes();
        for cut in 0..whole.len() {
            assert_eq!(Acknowledged::from_bytes(&whole[..cut]), None, "{cut}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert_eq!(Acknowledged::from_bytes(&changed), None, "{at}");
        }
    }
}

//! A note beside the database of what was acknowledged last: how a start notices that the database's files were cut or put back.
//!
//! The database takes a log whose end is missing for one that was never written, and continues from what is left. The note is written
//! after each sync. It is synced at each start and no more: it may lag behind after a power cut, and is never ahead of the disk. So where
//! it says more than the database holds, something that was acknowledged is gone.
//!
//! **Invariant:** a note that cannot be read says nothing: it only ever adds a refusal.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The file, in the folder of the database.
pub(super) const MARK_FILE: &str = "acknowledged";
/// How the note begins: what it is, and its version.
const HEAD: &[u8; 8] = b"daftar\0\x01";

/// The last numbers that were given durably.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Acknowledged {
    /// The last write of records.
    pub(super) sequence: u64,
    /// The last value of the audit log.
    pub(super) audit: u64,
    /// How many parts the table of codes has.
    pub(super) code_table_parts: u64,
}

impl Acknowledged {
    /// True if all of it is there where these are the last numbers.
    pub(super) fn is_held_by(&self, held: &Self) -> bool {
        self.sequence <= held.sequence && self.audit <= held.audit && self.code_table_parts <= held.code_table_parts
    }

    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        for number in [self.sequence, self.audit, self.code_table_parts] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&sum(&bytes).to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (body, told) = bytes.split_last_chunk::<8>()?;
        let rest = body.strip_prefix(HEAD).filter(|_| sum(body) == u64::from_be_bytes(*told))?;
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

/// FNV-1a of 64 bits: reports a note that was half written.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The note of a folder; none where there is none that can be read.
pub(super) fn read(folder: &Path) -> Option<Acknowledged> {
    Acknowledged::from_bytes(&std::fs::read(folder.join(MARK_FILE)).ok()?)
}

/// Writes the note.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    written: Option<Acknowledged>,
}

impl Mark {
    /// Opens the note of a folder; makes it where there is none.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(folder.join(MARK_FILE))?;
        Ok(Self { file, written: None })
    }

    /// Notes what is on disk.
    pub(super) fn write(&mut self, acknowledged: Acknowledged) -> io::Result<()> {
        if self.written == Some(acknowledged) {
            return Ok(());
        }
        self.file.write_all_at(&acknowledged.to_bytes(), 0)?;
        self.written = Some(acknowledged);
        Ok(())
    }

    /// Notes what is on disk, and returns when the note is there as well.
    pub(super) fn write_durably(&mut self, acknowledged: Acknowledged) -> io::Result<()> {
        self.write(acknowledged)?;
        Ok(rustix::fs::fdatasync(&self.file)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_and_a_broken_one_says_nothing() {
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

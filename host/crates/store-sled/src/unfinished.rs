//! The write during which the database failed, saved beside it and repeated when the folder is opened.
//!
//! The database recovers a batch completely or not at all, except if it fails in the middle of one while it still
//! accepts writes: it then omits the marker of the batch, and recovers parts of it. The test takes away the folder of
//! large pages for that, which the store does not write otherwise (`database`). So when a batch fails, its whole group
//! is saved here, in preallocated space, and the next start repeats it: either all of it is written, or the folder is
//! not opened. A part of a batch may reach the disk before that, and the power may fail right then. This is likely only
//! for a long batch: a group with one is saved before it is applied, and forgotten before the next one is.
//!
//! **Invariant:** a saved group of another register or of another state of it is ignored.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::FallocateFlags;
use sha2::{Digest, Sha256};

use daftar_store::StoreError;

use super::group::Operation;
use super::keys;
use super::mark::Acknowledged;
use super::reader::Reader;

/// The file, in the folder of the database.
pub(super) const UNFINISHED_FILE: &str = "unfinished";
/// The magic bytes and the version of a saved group.
const HEAD: &[u8; 8] = b"daftar\x01\x02";
/// The preallocated space: more than a photo of the largest size and everything usually written with it.
const ROOM_BYTES: u64 = 8 * 1024 * 1024;
const SUM_BYTES: usize = 32;
const LENGTH_BYTES: usize = 8;

/// The register of a group, and its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The id of the register.
    pub(super) register: [u8; 16],
    /// The last numbers before the group.
    pub(super) after: Acknowledged,
    /// The last numbers of the group.
    pub(super) last: Acknowledged,
}

impl Place {
    const BYTES: usize = 16 + 2 * Acknowledged::BYTES;

    fn to_bytes(self) -> Vec<u8> {
        let Self { register, after, last } = self;
        [&register[..], &after.to_bytes(), &last.to_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (register, rest) = bytes.split_first_chunk::<16>()?;
        let (after, last) = rest.split_at_checked(Acknowledged::BYTES)?;
        let (after, last) = (Acknowledged::from_bytes(after)?, Acknowledged::from_bytes(last)?);
        Some(Self { register: *register, after, last })
    }
}

/// The file, with preallocated space.
#[derive(Debug)]
pub(super) struct Unfinished {
    file: File,
    is_saved: bool,
}

impl Unfinished {
    /// Opens the file of a folder and preallocates space. If the disk has none, the file exists without it. A group that
    /// is saved there stays until [`Self::forget`]: the folder may still be refused.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let is_saved = read(folder)?.is_some();
        let file = File::options()
            .create(true)
            .truncate(!is_saved)
            .write(true)
            .mode(0o600)
            .open(folder.join(UNFINISHED_FILE))?;
        if let Err(error) = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, ROOM_BYTES) {
            tracing::warn!(%error, "failed to preallocate space for interrupted writes");
        }
        file.sync_all()?;
        Ok(Self { file, is_saved })
    }

    /// Returns true if a group is saved and not forgotten.
    pub(super) fn is_saved(&self) -> bool {
        self.is_saved
    }

    /// Saves operations, in order.
    pub(super) fn keep<'o>(&mut self, place: Place, operations: impl Iterator<Item = &'o Operation>) -> io::Result<()> {
        let mut body = place.to_bytes();
        for Operation { key, value } in operations {
            put(&mut body, key);
            body.push(u8::from(value.is_some()));
            put(&mut body, value.as_deref().unwrap_or_default());
        }
        let mut bytes = HEAD.to_vec();
        bytes.extend_from_slice(&(body.len() as u64).to_be_bytes());
        bytes.extend_from_slice(&Sha256::digest(&body));
        bytes.extend_from_slice(&body);
        self.is_saved = true;
        self.file.write_all_at(&bytes, 0)?;
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    /// Forgets the saved group, which is on disk.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.file.write_all_at(&[0; HEAD.len()], 0)?;
        rustix::fs::fdatasync(&self.file)?;
        self.is_saved = false;
        Ok(())
    }
}

fn put(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    body.extend_from_slice(bytes);
}

/// Reads the saved group of a folder; `None` without one, or if it is incomplete.
pub(super) fn read(folder: &Path) -> io::Result<Option<(Place, Vec<Operation>)>> {
    match std::fs::read(folder.join(UNFINISHED_FILE)) {
        Ok(bytes) => Ok(parse(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(bytes: &[u8]) -> Option<(Place, Vec<Operation>)> {
    let (length, rest) = bytes.strip_prefix(HEAD)?.split_first_chunk::<LENGTH_BYTES>()?;
    let (sum, rest) = rest.split_first_chunk::<SUM_BYTES>()?;
    let body = rest.get(..usize::try_from(u64::from_be_bytes(*length)).ok()?)?;
    if Sha256::digest(body).as_slice() != sum {
        return None;
    }
    let (place, mut rest) = body.split_at_checked(Place::BYTES)?;
    let mut operations = Vec::new();
    while !rest.is_empty() {
        let key = take(&mut rest)?.to_vec();
        let (has_value, after) = rest.split_first()?;
        rest = after;
        let value = take(&mut rest)?.to_vec();
        operations.push(Operation { key, value: (*has_value == 1).then_some(value) });
    }
    Some((Place::from_bytes(place)?, operations))
}

fn take<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, after) = rest.split_first_chunk::<LENGTH_BYTES>()?;
    let (bytes, after) = after.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)?;
    *rest = after;
    Some(bytes)
}

/// Repeats the saved group of a folder if it belongs to this register and follows its state. Neither is it brought to
/// disk, nor is the file changed: it is forgotten before the next group is applied, when everything is on disk.
///
/// # Errors
/// If it cannot be read, or the database fails again.
pub(super) fn finish(folder: &Path, reader: &Reader, register: [u8; 16]) -> Result<(), StoreError> {
    let failed = |error: &dyn std::fmt::Display| StoreError::Failed(error.to_string().into());
    let Some((place, operations)) = read(folder).map_err(|error| failed(&error))? else { return Ok(()) };
    let mut held = reader.last_numbers()?;
    let last_audit = keys::by_number(keys::AUDIT, place.after.audit);
    if operations.iter().any(|Operation { key, value }| *key == last_audit && value.is_none()) {
        // A part of the group may have removed the last entries of the audit log.
        held.audit = held.audit.max(place.after.audit);
    }
    let is_of_this_state = place.after.is_held_by(&held) && held.is_held_by(&place.last);
    if place.register != register || !is_of_this_state {
        tracing::warn!("ignoring an interrupted write of another state of the register");
        return Ok(());
    }
    reader.database.apply(operations.iter()).map_err(|error| failed(&error))?;
    tracing::info!(keys = operations.len(), "repeated the last write, which may have been interrupted");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::database::Database;

    fn numbers(sequence: u64, audit: u64, code_table_parts: u64) -> Acknowledged {
        Acknowledged { sequence, audit, code_table_parts }
    }

    fn operation(key: &str, value: Option<&str>) -> Operation {
        Operation { key: key.as_bytes().to_vec(), value: value.map(|value| value.as_bytes().to_vec()) }
    }

    #[test]
    fn a_saved_group_is_read_back_and_a_part_of_it_is_ignored() {
        let folder = tempfile::TempDir::new().unwrap();
        assert!(read(folder.path()).unwrap().is_none());
        let mut file = Unfinished::open(folder.path()).unwrap();
        assert!(read(folder.path()).unwrap().is_none(), "preallocated space is no operation");
        let stored = (
            Place { register: [7; 16], after: numbers(3, 8, 1), last: numbers(5, 9, 2) },
            vec![operation("one", Some("1")), operation("gone", None), operation("empty", Some(""))],
        );
        file.keep(stored.0, stored.1.iter()).unwrap();
        assert_eq!(read(folder.path()).unwrap(), Some(stored.clone()));
        let whole = std::fs::read(folder.path().join(UNFINISHED_FILE)).unwrap();
        assert_eq!(whole.len() as u64, ROOM_BYTES, "it fits in the preallocated space");
        let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for at in 0..end {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert_eq!(parse(&changed), None, "{at}");
            assert_eq!(parse(&whole[..at]), None, "{at}");
        }
        file.forget().unwrap();
        assert!(read(folder.path()).unwrap().is_none(), "forgotten");
        file.keep(stored.0, stored.1.iter()).unwrap();
        let mut opened = Unfinished::open(folder.path()).unwrap();
        assert_eq!(read(folder.path()).unwrap(), Some(stored), "the folder may be refused yet");
        assert!(opened.is_saved());
        opened.forget().unwrap();
        assert!(read(folder.path()).unwrap().is_none() && !opened.is_saved());
    }

    #[test]
    fn it_is_finished_where_it_belongs_and_nowhere_else() {
        let folder = tempfile::TempDir::new().unwrap();
        let database = Database::open(&::sled::Config::new().temporary(true)).unwrap();
        let reader = Reader { database: database.clone(), health: Arc::default() };
        let hold = |Acknowledged { sequence, audit, code_table_parts }| {
            for (table, number) in [(keys::CHANGE, sequence), (keys::AUDIT, audit)] {
                database.tree().scan_prefix([table]).keys().for_each(|key| drop(database.tree().remove(key.unwrap())));
                database.insert(keys::by_number(table, number), Vec::new()).unwrap();
            }
            (0..9).for_each(|part| database.remove(&keys::by_number(keys::CODE_TABLE, part)).unwrap());
            for part in 0..code_table_parts {
                database.insert(keys::by_number(keys::CODE_TABLE, part), Vec::new()).unwrap();
            }
        };
        let place = Place { register: [7; 16], after: numbers(3, 8, 1), last: numbers(5, 9, 2) };
        database.insert(b"gone".to_vec(), b"old".to_vec()).unwrap();
        let mut file = Unfinished::open(folder.path()).unwrap();
        file.keep(place, [operation("one", Some("1")), operation("gone", None)].iter()).unwrap();
        let others = [(2, 8, 1), (6, 9, 2), (3, 7, 1), (5, 10, 2), (3, 8, 0), (5, 9, 3)];
        let others = others.map(|(sequence, audit, parts)| ([7; 16], numbers(sequence, audit, parts)));
        for (register, held) in others.into_iter().chain([([8; 16], place.after)]) {
            hold(held);
            finish(folder.path(), &reader, register).unwrap();
            assert_eq!(database.get(b"one").unwrap(), None, "{held:?}");
        }
        for held in [place.after, numbers(4, 8, 2), place.last] {
            hold(held);
            finish(folder.path(), &reader, [7; 16]).unwrap();
            assert_eq!(database.get(b"one").unwrap().unwrap(), "1");
            assert_eq!(database.get(b"gone").unwrap(), None);
        }
        // A removal of the whole audit log, of which a part was written.
        let removed = Operation { key: keys::by_number(keys::AUDIT, 8), value: None };
        file.keep(place, [removed, operation("one", Some("2"))].iter()).unwrap();
        hold(numbers(3, 2, 1));
        finish(folder.path(), &reader, [7; 16]).unwrap();
        assert_eq!(database.get(b"one").unwrap().unwrap(), "2");
    }
}

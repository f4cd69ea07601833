//! The tree of the database, with values of any length.
//!
//! The database writes a page of more than about half a mebibyte to a file of its own, which it does not sync with its
//! log: a power failure may leave a batch without it, or the tree without a half of a page that was split. A page has up
//! to sixteen neighbouring values, and up to ten changes of them. So a long value is stored in parts, and no page is
//! that large.
//!
//! **Invariant:** a value and its parts are written and removed in one batch.
//!
//! **Invariant:** a read sees a long value completely or not at all: its head has the digest of all parts.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::mem::ManuallyDrop;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ::sled::{Batch, Config, Db, IVec, Result};
use sha2::{Digest, Sha256};

use daftar_domain::error::contain;

use super::disk::{CLOSED_FILE, DATABASE_FILE};
use super::group::Operation;
use super::keys;
use super::sync;

/// Maximum length of a value that is stored in one piece, in bytes.
const WHOLE_BYTES_MAX: usize = 18 * 1024;
/// Length of a part of a longer value, in bytes.
const PART_BYTES: usize = 16 * 1024;
/// The first byte of the head of a long value, which no stored form begins with. The digest of the value follows.
const HEAD: u8 = 0xFF;

/// The pause and the number of attempts while a database of this process is closing: two seconds in total.
const LOCK_WAIT: Duration = Duration::from_millis(20);
const LOCK_WAITS_MAX: u32 = 100;

/// A key with its value.
pub(super) type KeyAndValue = (IVec, IVec);

/// An open database.
#[derive(Clone)]
pub(super) struct Database {
    tree: ManuallyDrop<Db>,
    /// The file of the database, opened for this struct alone.
    log: Arc<File>,
    folder: Arc<Path>,
    /// The keys of long values, each with its number of parts. Only the writer changes it.
    long: Arc<Mutex<HashMap<Vec<u8>, u32>>>,
}

impl Database {
    /// Opens the database. The caller has the lock of the folder, so if the database's lock is taken, a database of this
    /// process is still closing: the function waits for it, with a limit.
    pub(super) fn open(config: &Config) -> Result<Self> {
        let mut waits = 0;
        let tree = loop {
            match config.open() {
                Err(::sled::Error::Io(error))
                    if waits < LOCK_WAITS_MAX && error.to_string().contains("acquire lock") =>
                {
                    waits += 1;
                    thread::sleep(LOCK_WAIT);
                }
                opened => break opened?,
            }
        };
        let mut long = HashMap::new();
        let mut from = vec![keys::PART];
        while let Some((part, _)) = tree.range(from..).next().transpose()? {
            let Some((key, _)) = keys::part_of(&part) else { break };
            let prefix = keys::parts(key);
            let last = tree.scan_prefix(&prefix).next_back().transpose()?;
            let count = last.and_then(|(last, _)| Some(keys::part_of(&last)?.1.saturating_add(1)));
            long.insert(key.to_vec(), count.unwrap_or_default());
            from = [prefix, vec![u8::MAX; size_of::<u32>() + 1]].concat();
        }
        let folder = config.get_path();
        let log = Arc::new(File::open(folder.join(DATABASE_FILE))?);
        Ok(Self { tree: ManuallyDrop::new(tree), log, folder: folder.into(), long: Arc::new(Mutex::new(long)) })
    }

    /// Syncs the file of the database.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.log)?)
    }

    /// Returns the error of a write to the file of the database that failed since the last call, or since it was opened.
    pub(super) fn check_written(&self) -> io::Result<()> {
        sync::check_written(&self.log)
    }

    /// Notes that everything is on disk, and that no write has failed.
    pub(super) fn note_closed(&self) -> io::Result<()> {
        File::create(self.folder.join(CLOSED_FILE)).map(drop)
    }

    /// The tree with the parts of long values.
    pub(super) fn tree(&self) -> &Db {
        &self.tree
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<IVec>> {
        match self.tree.get(key)? {
            Some(head) if head.first() == Some(&HEAD) => self.joined(key, head),
            found => Ok(found),
        }
    }

    pub(super) fn range<K: AsRef<[u8]>>(&self, keys: impl RangeBounds<K>) -> Values<'_> {
        Values { database: self, items: self.tree.range(keys) }
    }

    pub(super) fn scan_prefix(&self, prefix: impl AsRef<[u8]>) -> Values<'_> {
        Values { database: self, items: self.tree.scan_prefix(prefix) }
    }

    /// Sets a value and returns the one before.
    pub(super) fn insert(&self, key: Vec<u8>, value: Vec<u8>) -> Result<Option<IVec>> {
        if value.len() <= WHOLE_BYTES_MAX && !self.long().contains_key(&key) {
            return self.tree.insert(key, value);
        }
        let before = self.get(&key)?;
        self.apply([&Operation { key, value: Some(value) }].into_iter())?;
        Ok(before)
    }

    /// Removes a key.
    pub(super) fn remove(&self, key: &[u8]) -> Result<()> {
        self.apply([&Operation { key: key.to_vec(), value: None }].into_iter())
    }

    /// Applies operations in order, all or none.
    pub(super) fn apply<'o>(&self, operations: impl Iterator<Item = &'o Operation>) -> Result<()> {
        let mut batch = Batch::default();
        let mut long = self.long();
        for Operation { key, value } in operations {
            let before = if long.is_empty() { 0 } else { long.remove(key).unwrap_or_default() };
            let mut count = 0;
            match value {
                None => batch.remove(key.as_slice()),
                Some(value) if value.len() <= WHOLE_BYTES_MAX => batch.insert(key.as_slice(), value.as_slice()),
                Some(value) => {
                    batch.insert(key.as_slice(), head_of(value));
                    for part in value.chunks(PART_BYTES) {
                        batch.insert(keys::part(key, count), part);
                        count += 1;
                    }
                    long.insert(key.clone(), count);
                }
            }
            (count..before).for_each(|part| batch.remove(keys::part(key, part)));
        }
        drop(long);
        self.tree.apply_batch(batch)
    }

    /// True if the key of a part belongs to a long value.
    pub(super) fn has_part(&self, part: &[u8]) -> bool {
        keys::part_of(part).is_some_and(|(key, number)| self.long().get(key).is_some_and(|count| number < *count))
    }

    /// Joins the parts of the value with that head. A damaged value is returned as its head, which cannot be decoded.
    fn joined(&self, key: &[u8], mut head: IVec) -> Result<Option<IVec>> {
        while head.first() == Some(&HEAD) {
            let mut value = Vec::new();
            for part in self.tree.scan_prefix(keys::parts(key)) {
                value.extend_from_slice(&part?.1);
            }
            if head_of(&value) == *head {
                return Ok(Some(value.into()));
            }
            // It may have been written or removed since.
            match self.tree.get(key)? {
                Some(now) if now == head => break,
                Some(now) => head = now,
                None => return Ok(None),
            }
        }
        Ok(Some(head))
    }

    fn long(&self) -> MutexGuard<'_, HashMap<Vec<u8>, u32>> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Database {
    /// The last handle closes the database, which syncs its file again and panics if that fails.
    #[expect(unsafe_code, reason = "a panic can be contained only where the database is dropped by hand")]
    fn drop(&mut self) {
        // SAFETY: nothing uses the handle afterwards.
        let closed = contain(|| unsafe { ManuallyDrop::drop(&mut self.tree) });
        if closed.is_err() {
            // Without the file there is nothing to take back.
            let _ = fs::remove_file(self.folder.join(CLOSED_FILE));
            tracing::error!("the disk failed while the database was being closed; check it before the next start");
        }
    }
}

fn head_of(value: &[u8]) -> Vec<u8> {
    [&[HEAD], Sha256::digest(value).as_slice()].concat()
}

/// Keys with their values, in order.
pub(super) struct Values<'d> {
    database: &'d Database,
    items: ::sled::Iter,
}

impl Values<'_> {
    /// The value of an item; none if it was removed since.
    fn whole(&self, item: Result<KeyAndValue>) -> Option<Result<KeyAndValue>> {
        match item {
            Ok((key, head)) if head.first() == Some(&HEAD) && key.first() != Some(&keys::PART) => {
                self.database.joined(&key, head).map(|value| Some((key, value?))).transpose()
            }
            item => Some(item),
        }
    }
}

impl Iterator for Values<'_> {
    type Item = Result<KeyAndValue>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let item = self.items.next()?;
            if let Some(item) = self.whole(item) {
                return Some(item);
            }
        }
    }
}

impl DoubleEndedIterator for Values<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let item = self.items.next_back()?;
            if let Some(item) = self.whole(item) {
                return Some(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    fn operation(key: &str, length: Option<usize>) -> Operation {
        Operation { key: key.as_bytes().to_vec(), value: length.map(|length| vec![HEAD - 1; length]) }
    }

    fn lengths(database: &Database) -> Vec<(Vec<u8>, usize)> {
        let items = database.range::<Vec<u8>>(..).map(|item| item.unwrap());
        let whole = items.filter(|(key, _)| key[0] != keys::PART);
        whole.map(|(key, value)| (key.to_vec(), value.len())).collect()
    }

    fn parts(database: &Database) -> Vec<IVec> {
        database.tree().scan_prefix([keys::PART]).keys().map(|key| key.unwrap()).collect()
    }

    #[test]
    fn a_long_value_is_stored_in_parts_and_read_as_one() {
        let folder = tempfile::TempDir::new().unwrap();
        let config = Config::new().path(folder.path());
        let database = Database::open(&config).unwrap();
        let (most, long) = (WHOLE_BYTES_MAX, 5 * PART_BYTES + 7);
        let written = [("a", most), ("b", most + 1), ("ba", long), ("c", 600_000)];
        database.apply(written.map(|(key, length)| operation(key, Some(length))).iter()).unwrap();
        let expected: Vec<_> = written.iter().map(|(key, length)| (key.as_bytes().to_vec(), *length)).collect();
        assert_eq!(lengths(&database), expected);
        assert!(database.scan_prefix("b").rev().map(|item| item.unwrap().1.len()).eq([long, most + 1]));
        assert_eq!(database.get(b"c").unwrap().map(|value| value.len()), Some(600_000));
        assert_eq!(parts(&database).len(), 2 + 6 + 37);
        let longest = database.tree().iter().values().map(|value| value.unwrap().len()).max();
        assert_eq!(longest, Some(most), "no page is large");
        database.tree().flush().unwrap();
        drop(database);

        // Known after the next start: shorter values leave no parts.
        let database = Database::open(&config).unwrap();
        assert!(parts(&database).iter().all(|part| database.has_part(part)));
        let before = database.insert(b"ba".to_vec(), vec![1; 3 * PART_BYTES]).unwrap();
        assert_eq!(before.map(|before| before.len()), Some(long));
        assert_eq!(database.insert(b"ba".to_vec(), vec![1; 3 * PART_BYTES]).unwrap().unwrap().len(), 3 * PART_BYTES);
        database.apply([operation("b", None), operation("c", Some(600_000)), operation("c", Some(1))].iter()).unwrap();
        assert_eq!(parts(&database).len(), 3);
        let now = [("a", most), ("ba", 3 * PART_BYTES), ("c", 1)];
        assert_eq!(lengths(&database), now.map(|(key, length)| (key.as_bytes().to_vec(), length)));
        assert!(!database.has_part(&keys::part(b"b", 0)) && !database.has_part(&keys::part(b"ba", 3)));
    }

    #[test]
    #[expect(unsafe_code, reason = "the file of the database is exchanged for one that cannot be synced")]
    fn a_disk_that_fails_while_the_database_is_closed_is_no_panic() {
        let folder = tempfile::TempDir::new().unwrap();
        let database = Database::open(&Config::new().path(folder.path()).flush_every_ms(None)).unwrap();
        database.insert(b"a".to_vec(), b"1".to_vec()).unwrap();
        database.tree().flush().unwrap();
        database.note_closed().unwrap();
        let (_reader, pipe) = io::pipe().unwrap();
        let path = folder.path().canonicalize().unwrap().join(DATABASE_FILE);
        let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap());
        let open: Vec<_> = open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|file| file == path)).collect();
        assert_eq!(open.len(), 2, "of the database, and of the store");
        for entry in open {
            let number = entry.file_name().to_str().unwrap().parse().unwrap();
            // SAFETY: both are open, and the database uses the number only to sync and to unlock its file.
            assert_eq!(unsafe { libc::dup2(pipe.as_raw_fd(), number) }, number);
        }
        drop(database);
        assert!(!folder.path().join(CLOSED_FILE).exists());
    }

    #[test]
    fn a_value_without_one_of_its_parts_cannot_be_read() {
        let database = Database::open(&Config::new().temporary(true)).unwrap();
        database.apply([operation("a", Some(50_000))].iter()).unwrap();
        database.tree().remove(keys::part(b"a", 1)).unwrap();
        let found = database.get(b"a").unwrap().unwrap();
        assert_eq!((found.len(), found[0]), (33, HEAD));
    }
}

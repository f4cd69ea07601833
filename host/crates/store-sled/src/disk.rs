//! Makes the database's writes survive a power cut.
//!
//! The database counts its log as durable when `sync` has brought it to disk. It does not sync the file with its
//! configuration, nor files of pages that are too large for its log: the store writes none of those (`database`).
//!
//! **Invariant:** only the committer thread waits for the database's `flush` itself: after a failed write it may block
//! forever.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rustix::fs::Advice;

use super::database::Database;
use super::sync;

/// The file of the database.
pub(super) const DATABASE_FILE: &str = "db";
/// The file with the database's configuration, which it writes on creation and requires at every start.
pub(super) const CONFIGURATION_FILE: &str = "conf";
/// Exists while the folder is closed, if no write to it has failed. Its content is ignored.
pub(super) const CLOSED_FILE: &str = "closed";
/// The folder of values that are too large for the database's log.
pub(super) const LARGE_VALUES_FOLDER: &str = "blobs";
/// The prefix of the names of the database's snapshots, and the suffix of unfinished ones.
pub(super) const SNAPSHOT_PREFIX: &str = "snap.";
/// The footer of a snapshot: its length in eight bytes and its checksum in four.
const SNAPSHOT_END_BYTES: usize = 12;
/// The time limit for the database to bring its buffers to disk, while no file is being synced. After a failed write it
/// may block forever.
pub(super) const FLUSH_LIMIT: Duration = Duration::from_secs(20);

/// Brings the buffers of a database to disk.
///
/// # Errors
/// If the database or an earlier write to its file failed, or the flush takes longer than 20 seconds.
pub(super) fn flush(database: &Database) -> ::sled::Result<()> {
    flush_within(database.tree(), FLUSH_LIMIT)?;
    Ok(database.check_written()?)
}

/// As [`flush`], with the caller's time limit, and as far as the database knows of failures.
pub(super) fn flush_within(database: &::sled::Db, limit: Duration) -> ::sled::Result<()> {
    wait_for(database.flush_async(), limit).unwrap_or_else(|| Err(::sled::Error::Io(late(limit)))).map(|_| ())
}

/// Returns the error of a flush that takes too long.
pub(super) fn late(limit: Duration) -> io::Error {
    let late = format!("the database could not write within {} seconds", limit.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, late)
}

/// Wakes the waiting thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the result of a future; `None` if it takes longer and no file is being synced.
fn wait_for<T>(future: impl Future<Output = T>, limit: Duration) -> Option<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut began, mut progress) = (Instant::now(), sync::progress());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        match limit.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => std::thread::park_timeout(left),
            None if sync::is_slow(&mut progress) => began = Instant::now(),
            None => return None,
        }
    }
}

/// Syncs the files that the database writes on creation and does not sync.
pub(super) fn sync_made(folder: &Path) -> io::Result<()> {
    File::open(folder.join(CONFIGURATION_FILE))?.sync_all()
}

/// Prepares the files of an existing database for opening.
///
/// Brings to disk what a killed process left in memory: the database syncs a snapshot when it is opened, but not the
/// file that the snapshot points into. If a write may have failed, the file is read from the disk: the system counts
/// what it could not write as written, and keeps it in memory. Removes unfinished snapshots.
pub(super) fn prepare(folder: &Path) -> io::Result<()> {
    let log = File::open(folder.join(DATABASE_FILE))?;
    let synced = rustix::fs::fdatasync(&log);
    if fs::remove_file(folder.join(CLOSED_FILE)).is_err() {
        // Without success on a system that does not offer it.
        let _ = rustix::fs::fadvise(&log, 0, None, Advice::DontNeed);
    }
    synced?;
    remove_unfinished_snapshots(folder)
}

/// Removes snapshots of the database that a power cut left unfinished. It reads the last one by name, finished or not,
/// and does not open if that is unreadable; it recovers from an earlier one, and without any.
fn remove_unfinished_snapshots(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_snapshot = entry.file_name().to_str().is_some_and(|name| name.starts_with(SNAPSHOT_PREFIX));
        if is_snapshot && !is_whole_snapshot(&fs::read(entry.path())?) {
            tracing::warn!(file = %entry.path().display(), "removing an unfinished snapshot of the database");
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_whole_snapshot(bytes: &[u8]) -> bool {
    let Some((content, end)) = bytes.split_last_chunk::<SNAPSHOT_END_BYTES>() else { return false };
    let (length, checksum) = end.split_at(size_of::<u64>());
    !content.is_empty()
        && length == (content.len() as u64).to_le_bytes()
        && checksum == crc32fast::hash(content).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_that_never_ends_is_not_waited_for() {
        assert_eq!(wait_for(std::future::ready(7), Duration::ZERO), Some(7));
        assert_eq!(wait_for(std::future::pending::<()>(), Duration::from_millis(1)), None);
    }

    #[test]
    fn unfinished_snapshots_are_removed_and_whole_ones_stay() {
        let folder = tempfile::TempDir::new().unwrap();
        let content = b"pages and where they are".as_slice();
        let end = [&(content.len() as u64).to_le_bytes()[..], &crc32fast::hash(content).to_le_bytes()].concat();
        let whole = [content, &end].concat();
        for length in 0..whole.len() {
            assert!(!is_whole_snapshot(&whole[..length]), "{length}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(!is_whole_snapshot(&changed), "{at}");
        }
        for (name, bytes) in
            [("snap.01", &whole[..]), ("snap.02.generating", &whole), ("snap.03.generating", content), ("db", b"")]
        {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        remove_unfinished_snapshots(folder.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["db", "snap.01", "snap.02.generating"]);
    }

    #[test]
    fn a_snapshot_that_the_database_wrote_stays() {
        let folder = tempfile::TempDir::new().unwrap();
        for number in 0..3_u8 {
            let config = ::sled::Config::new().path(folder.path()).flush_every_ms(None);
            let database = Database::open(&config).unwrap();
            database.insert(vec![number], vec![number; 10]).unwrap();
            flush(&database).unwrap();
        }
        let count = || fs::read_dir(folder.path()).unwrap().count();
        let before = count();
        assert!(
            fs::read_dir(folder.path())
                .unwrap()
                .any(|entry| { entry.unwrap().file_name().to_str().unwrap().starts_with(SNAPSHOT_PREFIX) })
        );
        remove_unfinished_snapshots(folder.path()).unwrap();
        assert_eq!(count(), before);
    }
}

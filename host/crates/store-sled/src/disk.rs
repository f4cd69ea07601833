//! Makes the database's writes survive a power cut.
//!
//! The database counts its log as durable when `sync` has brought it to disk. It does not sync the file with its
//! configuration, nor files of pages that are too large for its log: the store writes none of those (`database`).
//!
//! **Invariant:** only the committer thread waits for the database's `flush` itself: after a failed write it may block
//! forever.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rustix::fs::Advice;

use super::database::Database;
use super::open::SEGMENT_BYTES;
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
/// Length of the header of a segment of the log.
const HEADER_BYTES: usize = 20;
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
/// what it could not write as written, and keeps it in memory. Removes unfinished snapshots. Fails if the database could
/// not be read.
pub(super) fn prepare(folder: &Path) -> io::Result<()> {
    let log = File::open(folder.join(DATABASE_FILE))?;
    let synced = rustix::fs::fdatasync(&log);
    let removed = fs::remove_file(folder.join(CLOSED_FILE));
    if removed.is_err() {
        // Without success on a system that does not offer it.
        let _ = rustix::fs::fadvise(&log, 0, None, Advice::DontNeed);
    }
    synced?;
    // If the file remained, the next start would take a failure of this one for a clean stop.
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    let replayed_from = remove_unfinished_snapshots(folder)?;
    read_segments(&log, log.metadata()?.len(), replayed_from)
}

/// Reads what the database reads when it is opened: the header of each segment of its log, and completely those that it
/// replays. It takes a segment that it cannot read for an unused one, and overwrites it.
fn read_segments(log: &impl FileExt, length: u64, replayed_from: i64) -> io::Result<()> {
    let mut segment = vec![0; SEGMENT_BYTES];
    for at in (0..length).step_by(SEGMENT_BYTES) {
        let (header, rest) = segment.split_at_mut(HEADER_BYTES);
        read_up_to(log, header, at)?;
        let is_replayed = |begin: i64| begin.saturating_add(SEGMENT_BYTES as i64) > replayed_from;
        if begin_of(header).is_some_and(is_replayed) {
            read_up_to(log, rest, at + HEADER_BYTES as u64)?;
        }
    }
    Ok(())
}

/// Returns the position in the log at which a segment begins; none of an unused one.
fn begin_of(header: &[u8]) -> Option<i64> {
    let (checksum, rest) = header.split_first_chunk()?;
    let begin = i64::from_le_bytes(*rest.first_chunk()?) ^ i64::MAX;
    (crc32fast::hash(rest) == !u32::from_le_bytes(*checksum)).then_some(begin)
}

/// Reads until a buffer is full or the file ends.
fn read_up_to(log: &impl FileExt, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match log.read_at(buffer, at) {
            Ok(0) => break,
            Ok(count) => {
                at += count as u64;
                buffer = buffer.get_mut(count..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes snapshots of the database that a power cut left unfinished. It reads the last one by name, finished or not,
/// and does not open if that is unreadable; it recovers from an earlier one, and without any. Returns the position in
/// the log from which the database replays it.
fn remove_unfinished_snapshots(folder: &Path) -> io::Result<i64> {
    let mut replayed_from = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(position) = name.to_str().and_then(|name| name.strip_prefix(SNAPSHOT_PREFIX)) else { continue };
        if is_whole_snapshot(&fs::read(entry.path())?) {
            // Without a number: the database has not finished it, and reads another one.
            replayed_from = i64::from_str_radix(position, 16).unwrap_or_default().max(replayed_from);
        } else {
            tracing::warn!(file = %entry.path().display(), "removing an unfinished snapshot of the database");
            fs::remove_file(entry.path())?;
        }
    }
    Ok(replayed_from)
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

    /// A log of three segments, of which a byte cannot be read.
    struct Unreadable(u64);

    impl FileExt for Unreadable {
        fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
            let (segment, within) = (at / SEGMENT_BYTES as u64, at % SEGMENT_BYTES as u64);
            let count = buffer.len().min(700_000).min((SEGMENT_BYTES as u64 - within) as usize);
            if (at..at + count as u64).contains(&self.0) {
                return Err(io::Error::other("unreadable"));
            }
            if within == 0 {
                let begin = segment as i64 * SEGMENT_BYTES as i64;
                buffer[4..12].copy_from_slice(&(begin ^ i64::MAX).to_le_bytes());
                let checksum = !crc32fast::hash(&buffer[4..HEADER_BYTES]);
                buffer[..4].copy_from_slice(&checksum.to_le_bytes());
            }
            Ok(count)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::Error::other("it is not written"))
        }
    }

    #[test]
    fn a_log_is_read_as_far_as_the_database_reads_it() {
        let (segment, length) = (SEGMENT_BYTES as u64, 3 * SEGMENT_BYTES as u64);
        let is_read = |byte, from| read_segments(&Unreadable(byte), length, from).is_err();
        for byte in [0, 19, segment, 2 * segment + 4, 2 * segment + 20, length - 1] {
            assert!(is_read(byte, 2 * segment as i64 + 300), "{byte}");
        }
        for byte in [20, segment - 1, segment + 20, 2 * segment - 1] {
            assert!(!is_read(byte, 2 * segment as i64 + 300), "{byte} is before the snapshot");
            assert!(is_read(byte, 0), "{byte}");
        }
        assert!(!is_read(length, 0));
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
        let header = fs::read(folder.path().join(DATABASE_FILE)).unwrap();
        assert_eq!((begin_of(&header[..HEADER_BYTES]), begin_of(&[0; HEADER_BYTES])), (Some(0), None));
        let count = || fs::read_dir(folder.path()).unwrap().count();
        let before = count();
        assert!(
            fs::read_dir(folder.path())
                .unwrap()
                .any(|entry| { entry.unwrap().file_name().to_str().unwrap().starts_with(SNAPSHOT_PREFIX) })
        );
        assert!(remove_unfinished_snapshots(folder.path()).unwrap() > 0, "a snapshot has its position");
        assert_eq!(count(), before);
    }
}

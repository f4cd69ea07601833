//! The sync of the database's log.
//!
//! After a write to its log the database calls `sync_file_range` of the C library, and counts the write as durable; it
//! reuses the space of older pages then. That function writes neither the length of the file nor the drive's cache. This
//! module defines the function of that name, by `fdatasync`: the program is linked statically, so that one definition of
//! the name exists and the database calls it.
//!
//! The database writes several buffers at a time, from several threads. Those that wait for the same file share a sync.
//!
//! **Invariant:** a call succeeds only if a sync succeeded that began after it, and none failed that ended after it: the
//! system reports the failure of a write once for each time that the file was opened.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The syncs of each file, by its descriptor. Later files with the same number have later syncs.
static FILES: Mutex<BTreeMap<c_int, Arc<File>>> = Mutex::new(BTreeMap::new());
/// The number of syncs that began, and of those that ended, of all files.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct File {
    syncs: Mutex<Syncs>,
    ended: Condvar,
}

/// The syncs of a file, which are numbered.
#[derive(Default)]
struct Syncs {
    begun: u64,
    ended: u64,
    /// The last one that failed, and its error.
    failed: Option<(u64, c_int)>,
}

/// Brings a file to disk. Replaces the function of the C library.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a function of the C library is replaced, and the number of its error is set")]
#[unsafe(no_mangle)]
extern "C" fn sync_file_range(file: c_int, _offset: i64, _length: i64, _flags: c_uint) -> c_int {
    match sync(file, || bring_to_disk(file)) {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: the function returns the place of the number of this thread.
            unsafe { *libc::__errno_location() = error };
            -1
        }
    }
}

/// Returns the number of the error if it fails.
#[expect(unsafe_code, reason = "the database hands over the number of its file, not the file")]
fn bring_to_disk(file: c_int) -> Result<(), c_int> {
    loop {
        // SAFETY: the call rejects a number that is not an open file.
        if unsafe { libc::fdatasync(file) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error.raw_os_error().unwrap_or(libc::EIO));
        }
    }
}

/// Returns the error of a write to a file that failed since it was opened, or since the last call with it. Waits for
/// writes that the system has begun, and begins none.
///
/// A success of [`sync_file_range`] may lack such an error: the database also syncs the file after it has shortened it,
/// and ignores the result until the file grows again.
pub(super) fn check_written(file: &impl AsFd) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "the call of the system, of which this module replaces the function")]
    // SAFETY: the call rejects a number that is not an open file.
    let checked = unsafe {
        let (file, wait) = (file.as_fd().as_raw_fd(), libc::SYNC_FILE_RANGE_WAIT_BEFORE);
        libc::syscall(libc::SYS_sync_file_range, file, 0_i64, 0_i64, wait)
    };
    match io::Error::last_os_error() {
        _ if checked == 0 => Ok(()),
        // The system does not offer the call, or forbids it.
        error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM | libc::EINVAL | libc::EOPNOTSUPP)) => {
            Ok(rustix::fs::fdatasync(file)?)
        }
        error => Err(error),
    }
}

/// Waits for a sync that begins from now on: that of another thread, or one by this function.
fn sync(file: c_int, sync: impl FnOnce() -> Result<(), c_int>) -> Result<(), c_int> {
    let mut files = locked(&FILES);
    let file = Arc::clone(files.entry(file).or_default());
    let mut syncs = locked(&file.syncs);
    drop(files);
    let required = syncs.begun.saturating_add(1);
    // The failure of a sync that runs may be that of this caller's write.
    let first = syncs.ended.saturating_add(1);
    while syncs.ended < required && syncs.begun > syncs.ended {
        syncs = file.ended.wait(syncs).unwrap_or_else(PoisonError::into_inner);
    }
    if syncs.ended < required {
        syncs.begun = required;
        drop(syncs);
        BEGUN.fetch_add(1, Ordering::Relaxed);
        let synced = sync();
        ENDED.fetch_add(1, Ordering::Relaxed);
        syncs = locked(&file.syncs);
        syncs.ended = required;
        syncs.failed = synced.err().map(|error| (required, error)).or(syncs.failed);
        file.ended.notify_all();
    }
    match syncs.failed {
        Some((number, error)) if number >= first => Err(error),
        Some(_) | None => Ok(()),
    }
}

/// The syncs of this process that began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    begun: u64,
    ended: u64,
}

/// Returns the syncs until now.
pub(super) fn progress() -> Progress {
    Progress { begun: BEGUN.load(Ordering::Relaxed), ended: ENDED.load(Ordering::Relaxed) }
}

/// Returns true if a file is being synced, or was since `before`, which becomes the progress of now: a flush that takes
/// long is slow, and not stopped.
pub(super) fn is_slow(before: &mut Progress) -> bool {
    let now = progress();
    let is_slow = now != *before || now.begun > now.ended;
    *before = now;
    is_slow
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use super::*;

    /// Descriptors that no file of this process has.
    const FIRST: c_int = 1_000_001;

    /// Waits until that many threads are in `sync` with a file.
    fn until_present(file: c_int, threads: usize) {
        let begun = Instant::now();
        // Each has a reference to the file, and the list of all files has one. A thread that has it locks the syncs
        // before the list is unlocked.
        while Arc::strong_count(&locked(&FILES)[&file]) <= threads {
            assert!(begun.elapsed() < Duration::from_secs(30), "not all of {threads} threads began");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_database_syncs_by_the_function_of_this_module() {
        let folder = tempfile::tempdir().unwrap();
        let database = ::sled::Config::new().path(folder.path()).open().unwrap();
        let syncs = || locked(&FILES).values().map(|file| locked(&file.syncs).ended).sum::<u64>();
        let before = syncs();
        database.insert(b"key", b"value").unwrap();
        database.flush().unwrap();
        assert!(syncs() > before);
    }

    #[test]
    fn the_function_returns_what_the_system_reports() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(sync_file_range(file.as_raw_fd(), 0, 0, 0), 0);
        assert_eq!(sync_file_range(-1, 0, 0, 0), -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn those_that_wait_share_a_sync_that_begins_after_they_came() {
        let (count, (release, released)) = (AtomicUsize::new(0), channel::<()>());
        let (begun, has_begun) = channel();
        std::thread::scope(|threads| {
            let first = threads.spawn(move || {
                sync(FIRST, || {
                    begun.send(()).unwrap();
                    released.recv().unwrap();
                    Ok(())
                })
            });
            has_begun.recv().unwrap();
            let waiting: Vec<_> = (0..8)
                .map(|_| {
                    threads.spawn(|| {
                        sync(FIRST, || {
                            count.fetch_add(1, Ordering::SeqCst);
                            Ok(())
                        })
                    })
                })
                .collect();
            until_present(FIRST, 9);
            assert_eq!(count.load(Ordering::SeqCst), 0, "the first one began before they came");
            assert!(is_slow(&mut progress()));
            release.send(()).unwrap();
            first.join().unwrap().unwrap();
            for thread in waiting {
                thread.join().unwrap().unwrap();
            }
        });
        assert!((1..8).contains(&count.load(Ordering::SeqCst)));
    }

    #[test]
    fn a_failure_is_reported_to_all_that_came_before_the_end_of_the_sync_and_not_to_later_ones() {
        let failure = Err(libc::EIO);
        for (file, first_result, second_result) in [(FIRST + 1, Ok(()), failure), (FIRST + 2, failure, Ok(()))] {
            let ((release, released), (begun, has_begun)) = (channel::<()>(), channel());
            std::thread::scope(|threads| {
                let first = threads.spawn(move || {
                    sync(file, || {
                        begun.send(()).unwrap();
                        released.recv().unwrap();
                        first_result
                    })
                });
                has_begun.recv().unwrap();
                let waiting: Vec<_> = (0..4).map(|_| threads.spawn(move || sync(file, || second_result))).collect();
                until_present(file, 5);
                release.send(()).unwrap();
                assert_eq!(first.join().unwrap(), first_result);
                for thread in waiting {
                    assert_eq!(thread.join().unwrap(), failure);
                }
            });
            assert_eq!(sync(file, || Ok(())), Ok(()));
        }
    }

    #[test]
    fn a_file_without_failed_writes_is_reported_as_such() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"written, and not synced", 0).unwrap();
        check_written(&file).unwrap();
        let (_reader, pipe) = io::pipe().unwrap();
        assert_eq!(check_written(&pipe).unwrap_err().raw_os_error(), Some(libc::ESPIPE), "the system was called");
    }
}

//! Metrics of writes.
//!
//! **Invariant:** metrics have no effect: no response waits for them, and a store counts without recorders too.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::StoreError;
use super::audit_log::{AuditBuffer, WAITING_MAX};

/// Recorders of the durations of a store's work.
pub struct StoreRecorders {
    /// Time from the request of a write to its response, in seconds.
    pub commit: metrics::Histogram,
    /// Time to write a group of writes to disk, in seconds.
    pub sync: metrics::Histogram,
    /// Number of jobs in such a group.
    pub group_jobs: metrics::Histogram,
    /// In a database: time that a group waited for the lock that orders the writes of all processes, in seconds.
    pub lock_wait: metrics::Histogram,
    /// In a database: time that a group owned that lock, in seconds.
    pub lock_held: metrics::Histogram,
}

daftar_domain::named_enum! {
    /// Outcome of a write.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum WriteOutcome {
        /// It is on disk.
        Committed = "committed",
        /// It was rejected: a conflict, a limit, a missing record.
        Rejected = "rejected",
        /// Too many writes were waiting.
        Overloaded = "overloaded",
        /// The store failed.
        Failed = "failed",
    }
}

impl WriteOutcome {
    fn of<T>(answer: &Result<T, StoreError>) -> Self {
        match answer {
            Ok(_) => Self::Committed,
            Err(StoreError::Overloaded) => Self::Overloaded,
            Err(
                StoreError::NotReady | StoreError::SinkAttached | StoreError::Corrupt { .. } | StoreError::Failed(_),
            ) => Self::Failed,
            Err(_) => Self::Rejected,
        }
    }
}

/// Metrics of a store.
#[derive(Debug, Clone, Copy)]
pub struct StoreUsage {
    /// True if the store works: there was no failure, or the database responded to the last statement.
    pub is_sound: bool,
    /// Writes by outcome.
    pub writes: [(&'static str, u64); WriteOutcome::ALL.len()],
    /// The last write that this process knows of.
    pub sequence: u64,
    /// Jobs that are waiting or being written.
    pub waiting: usize,
    /// Maximum number of jobs that may wait.
    pub waiting_max: usize,
    /// Audit entries that wait to be written.
    pub audit_lines: usize,
    /// Their approximate size in memory, in bytes.
    pub audit_bytes: usize,
    /// Maximum number of audit entries that may wait.
    pub audit_lines_max: usize,
    /// Size of the store's files on disk; `None` if unknown, or in a database.
    pub disk_bytes: Option<u64>,
}

/// The counters.
#[derive(Default)]
pub struct Meters {
    recorders: OnceLock<StoreRecorders>,
    writes: [AtomicU64; WriteOutcome::ALL.len()],
    waiting: AtomicUsize,
}

impl Meters {
    /// Sets the recorders of durations; the first call counts.
    pub fn record_with(&self, recorders: StoreRecorders) {
        let _is_first = self.recorders.set(recorders).is_ok();
    }

    /// Counts a finished write.
    pub fn note_write<T>(&self, answer: &Result<T, StoreError>, time: Duration) {
        if let Some(count) = self.writes.get(WriteOutcome::of(answer) as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if let (Ok(_), Some(recorders)) = (answer, self.recorders.get()) {
            recorders.commit.record(time.as_secs_f64());
        }
    }

    /// Counts a group that is on disk.
    pub fn note_group(&self, jobs: usize, time: Duration) {
        if let Some(recorders) = self.recorders.get() {
            recorders.sync.record(time.as_secs_f64());
            recorders.group_jobs.record(u32::try_from(jobs).unwrap_or(u32::MAX));
        }
    }

    /// Records the time that a group waited for the lock that orders writes.
    pub fn note_lock_wait(&self, time: Duration) {
        if let Some(recorders) = self.recorders.get() {
            recorders.lock_wait.record(time.as_secs_f64());
        }
    }

    /// Records the time that a group owned that lock.
    pub fn note_lock_held(&self, time: Duration) {
        if let Some(recorders) = self.recorders.get() {
            recorders.lock_held.record(time.as_secs_f64());
        }
    }

    /// Counts a job as waiting for the lifetime of the guard.
    pub fn wait(&self) -> JobWaits<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        JobWaits(self)
    }

    /// Metrics of a sound store with these audit entries, last write and limit of jobs, without files on disk.
    pub fn usage(&self, audit: &AuditBuffer, sequence: &AtomicU64, waiting_max: usize) -> StoreUsage {
        let mut writes = WriteOutcome::ALL.map(|outcome| (outcome.name(), 0));
        for ((_, to), count) in writes.iter_mut().zip(&self.writes) {
            *to = count.load(Ordering::Relaxed);
        }
        let (audit_lines, audit_bytes) = audit.waiting();
        StoreUsage {
            is_sound: true,
            writes,
            sequence: sequence.load(Ordering::Acquire),
            waiting: self.waiting.load(Ordering::Relaxed),
            waiting_max,
            audit_lines,
            audit_bytes,
            audit_lines_max: WAITING_MAX,
            disk_bytes: None,
        }
    }
}

/// A job that waits for its result.
pub struct JobWaits<'m>(&'m Meters);

impl Drop for JobWaits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

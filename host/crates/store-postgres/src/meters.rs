//! Measurements of the database by the store, and whether it is unavailable: one log entry when an outage begins, and
//! one when it ends.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use daftar_store::meters::{StoreRecorders, StoreUsage};

use super::PostgresStore;
use super::failure::{Failure, Meaning};

/// Counters of connections and of retries.
#[derive(Debug, Default)]
pub(super) struct Outages {
    connections: AtomicU64,
    retries: AtomicU64,
    unknown_commits: AtomicU64,
    groups: AtomicU64,
}

impl Outages {
    pub(super) fn note_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_unknown_commit(&self) {
        self.unknown_commits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_group(&self) {
        self.groups.fetch_add(1, Ordering::Relaxed);
    }
}

/// Time without a failed write after which a database whose reads succeed is taken to be writable again; after a full
/// disk also the time after which writes that succeed show that it has space.
const WRITABLE_AFTER: Duration = Duration::from_secs(5);

/// Time after the start of an outage in which a success does not end it: a server that shuts down closes its
/// connections one by one.
const SETTLED_AFTER: Duration = Duration::from_millis(250);

const NONE: u8 = 0;
const UNAVAILABLE: u8 = 1;
/// Only reads succeed.
const READ_ONLY: u8 = 2;
/// Reads succeed, and so do writes that need no more space.
const DISK_FULL: u8 = 3;

/// State of an outage.
#[derive(Default)]
pub(super) struct Outage {
    state: AtomicU8,
    since: Mutex<Since>,
    /// Requests that failed since it began.
    requests: AtomicU64,
}

#[derive(Default)]
struct Since {
    begun: Option<Instant>,
    /// End of the last one.
    ended: Option<Instant>,
    /// Time of the last write that failed because the database was not writable.
    not_written: Option<Instant>,
}

impl Outage {
    /// True during an outage.
    pub(super) fn is_on(&self) -> bool {
        self.state.load(Ordering::Acquire) != NONE
    }

    /// Notes that a request failed because of it.
    pub(super) fn note_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the outcome of a read that started then.
    pub(super) fn note_read<T>(&self, started: Instant, outcome: &Result<T, Failure>) {
        match outcome {
            Ok(_) => match self.state.load(Ordering::Acquire) {
                NONE => {}
                READ_ONLY | DISK_FULL if !self.is_writable() => {}
                _ => self.end(started),
            },
            Err(failure) => self.fail(started, failure),
        }
    }

    /// Notes the outcome of a write that started then.
    pub(super) fn note_write<T>(&self, started: Instant, outcome: &Result<T, Failure>) {
        match outcome {
            Ok(_) => match self.state.load(Ordering::Acquire) {
                NONE => {}
                // It may have needed no more space.
                DISK_FULL if !self.is_writable() => {}
                _ => self.end(started),
            },
            Err(failure) => self.fail(started, failure),
        }
    }

    fn is_writable(&self) -> bool {
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.not_written.is_none_or(|at| at.elapsed() >= WRITABLE_AFTER)
    }

    /// Begins an outage, unless the failed attempt started before the last one ended: it predates the recovery.
    fn fail(&self, started: Instant, failure: &Failure) {
        if !failure.is_outage() {
            return;
        }
        let state = match failure.meaning {
            Meaning::ReadOnly => READ_ONLY,
            Meaning::DiskFull => DISK_FULL,
            _ => UNAVAILABLE,
        };
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.ended.is_some_and(|ended| started < ended) {
            return;
        }
        if state != UNAVAILABLE {
            since.not_written = Some(Instant::now());
        }
        if self.state.swap(state, Ordering::AcqRel) == NONE {
            self.requests.store(0, Ordering::Relaxed);
            since.begun = Some(Instant::now());
            tracing::warn!(error = %failure, "database outage: requests that need the database fail until it ends");
        }
    }

    /// Ends an outage, unless the attempt that succeeded started before it or right at its start.
    fn end(&self, started: Instant) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.begun.is_some_and(|begun| started < begun + SETTLED_AFTER) {
            return;
        }
        if self.state.swap(NONE, Ordering::AcqRel) == NONE {
            return;
        }
        since.ended = Some(Instant::now());
        let duration = since.begun.take().map(|begun| begun.elapsed()).unwrap_or_default();
        tracing::info!(
            duration_ms = duration.as_secs_f64() * 1_000.0,
            outage.requests_failed = self.requests.load(Ordering::Relaxed),
            "database outage ended"
        );
    }
}

/// Use of a database.
#[derive(Debug, Clone, Copy)]
pub struct PostgresUsage {
    /// Groups of writes that were committed.
    pub groups: u64,
    /// Open connections for reads.
    pub connections: usize,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Idle connections.
    pub connections_idle: usize,
    /// Callers that wait for a connection.
    pub connections_waited_for: usize,
    /// Connections opened since the start, including those opened again after a loss.
    pub connections_made: u64,
    /// Reads and groups of writes that were tried again.
    pub retries: u64,
    /// Commits that got no response and had to be resolved.
    pub unknown_commits: u64,
}

impl PostgresStore {
    /// Sets the recorders of its durations from now on.
    pub fn record_with(&self, recorders: StoreRecorders) {
        self.meters.record_with(recorders);
    }

    /// Notes that a request failed because of an outage of the database.
    pub fn note_request_failed(&self) {
        self.database.outage.note_request();
    }

    /// Returns its pending work and its writes. Does not query the database.
    #[must_use]
    pub fn usage(&self) -> StoreUsage {
        let is_sound = !self.database.is_unavailable() && self.check_tasks().is_ok();
        StoreUsage { is_sound, ..self.meters.usage(&self.audit, &self.last_sequence, self.queue_writes_max) }
    }

    /// Returns the use of its connections, and counters of outages. Does not query the database.
    #[must_use]
    pub fn database_usage(&self) -> PostgresUsage {
        let (status, outages) = (self.database.status(), &self.database.outages);
        PostgresUsage {
            groups: outages.groups.load(Ordering::Relaxed),
            connections: status.size,
            connections_max: status.max_size,
            connections_idle: status.available,
            connections_waited_for: status.waiting,
            connections_made: outages.connections.load(Ordering::Relaxed),
            retries: outages.retries.load(Ordering::Relaxed),
            unknown_commits: outages.unknown_commits.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(meaning: Meaning) -> Result<(), Failure> {
        Err(Failure::new(meaning, "for a test"))
    }

    /// The outage as if it had begun some time ago.
    fn settle(outage: &Outage) {
        outage.since.lock().unwrap().begun = Instant::now().checked_sub(SETTLED_AFTER);
    }

    #[test]
    fn an_outage_is_over_with_the_next_success_and_one_of_writes_with_the_next_write() {
        let outage = Outage::default();
        for meaning in [Meaning::Interrupted, Meaning::Locked, Meaning::Exhausted, Meaning::Conflict, Meaning::Refused]
        {
            outage.note_read(Instant::now(), &failed(meaning));
            assert!(!outage.is_on(), "{meaning:?}");
        }
        for meaning in [Meaning::Unreachable, Meaning::Slow] {
            let before = Instant::now();
            outage.note_read(before, &failed(meaning));
            outage.note_read(before, &Ok(()));
            assert!(outage.is_on(), "{meaning:?}: another connection was not closed yet");
            settle(&outage);
            outage.note_read(Instant::now(), &Ok(()));
            assert!(!outage.is_on(), "{meaning:?}");
        }
        outage.note_write(Instant::now(), &failed(Meaning::ReadOnly));
        settle(&outage);
        outage.note_read(Instant::now(), &Ok(()));
        assert!(outage.is_on(), "reads succeed all the while");
        outage.note_write(Instant::now(), &Ok(()));
        assert!(!outage.is_on());
        outage.note_write(Instant::now(), &failed(Meaning::ReadOnly));
        settle(&outage);
        outage.since.lock().unwrap().not_written = Instant::now().checked_sub(WRITABLE_AFTER);
        outage.note_read(Instant::now(), &Ok(()));
        assert!(!outage.is_on(), "nothing is written, and no write failed");
    }

    #[test]
    fn a_full_disk_is_one_outage_although_small_writes_succeed_in_between() {
        let outage = Outage::default();
        let begun = || outage.since.lock().unwrap().begun;
        outage.note_write(Instant::now(), &failed(Meaning::DiskFull));
        settle(&outage);
        let first = begun();
        for _ in 0..3 {
            outage.note_write(Instant::now(), &Ok(()));
            outage.note_read(Instant::now(), &Ok(()));
            outage.note_write(Instant::now(), &failed(Meaning::DiskFull));
            assert!(outage.is_on() && begun() == first, "the same outage");
        }
        outage.since.lock().unwrap().not_written = Instant::now().checked_sub(WRITABLE_AFTER);
        outage.note_write(Instant::now(), &Ok(()));
        assert!(!outage.is_on());
    }

    #[test]
    fn attempts_that_overlap_the_end_or_the_beginning_of_an_outage_neither_begin_nor_end_one() {
        let outage = Outage::default();
        let before = Instant::now();
        outage.note_read(Instant::now(), &failed(Meaning::Unreachable));
        outage.note_read(before, &Ok(()));
        assert!(outage.is_on(), "the read that succeeded had started before");
        let during = Instant::now();
        settle(&outage);
        outage.note_write(Instant::now(), &Ok(()));
        assert!(!outage.is_on());
        outage.note_read(during, &failed(Meaning::Unreachable));
        assert!(!outage.is_on(), "the read that failed had started before the outage was over");
        outage.note_read(Instant::now(), &failed(Meaning::Unreachable));
        assert!(outage.is_on());
    }
}

//! Whether the database is unavailable: one entry in the log when that begins, and one when it is over.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{Failure, Meaning};

/// A database whose reads succeed is taken for one that takes writes again when none has failed for this long.
const WRITABLE_AFTER: Duration = Duration::from_secs(5);

const NONE: u8 = 0;
const UNAVAILABLE: u8 = 1;
/// Only reads succeed.
const READ_ONLY: u8 = 2;

/// What is known of an outage.
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
    /// When the last one ended.
    ended: Option<Instant>,
    /// When a write failed last for want of a database that takes writes.
    not_written: Option<Instant>,
}

impl Outage {
    /// Whether there is one.
    pub(super) fn is_on(&self) -> bool {
        self.state.load(Ordering::Acquire) != NONE
    }

    /// Notes that a request failed by it.
    pub(super) fn note_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the outcome of a read that started then.
    pub(super) fn note_read<T>(&self, started: Instant, outcome: &Result<T, Failure>) {
        match outcome {
            Ok(_) => match self.state.load(Ordering::Acquire) {
                NONE => {}
                READ_ONLY if !self.is_writable() => {}
                _ => self.end(started),
            },
            Err(failure) => self.fail(started, failure),
        }
    }

    /// Notes the outcome of a write that started then.
    pub(super) fn note_write<T>(&self, started: Instant, outcome: &Result<T, Failure>) {
        match outcome {
            Ok(_) if self.is_on() => self.end(started),
            Ok(_) => {}
            Err(failure) => self.fail(started, failure),
        }
    }

    fn is_writable(&self) -> bool {
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.not_written.is_none_or(|at| at.elapsed() >= WRITABLE_AFTER)
    }

    /// Begins an outage, unless the attempt that failed started before the last one ended: it tells nothing of the time since.
    fn fail(&self, started: Instant, failure: &Failure) {
        if !failure.is_outage() {
            return;
        }
        let state = if failure.meaning == Meaning::ReadOnly { READ_ONLY } else { UNAVAILABLE };
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.ended.is_some_and(|ended| started < ended) {
            return;
        }
        if state == READ_ONLY {
            since.not_written = Some(Instant::now());
        }
        if self.state.swap(state, Ordering::AcqRel) == NONE {
            self.requests.store(0, Ordering::Relaxed);
            since.begun = Some(Instant::now());
            tracing::warn!(error = %failure, "database outage: requests that need the database fail until it is over");
        }
    }

    /// Ends an outage, unless the attempt that succeeded started before it began.
    fn end(&self, started: Instant) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.begun.is_some_and(|begun| started < begun) {
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
            "database outage is over"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(meaning: Meaning) -> Result<(), Failure> {
        Err(Failure::new(meaning, "for a test"))
    }

    #[test]
    fn an_outage_is_over_with_the_next_success_and_one_of_writes_with_the_next_write() {
        let outage = Outage::default();
        for meaning in [Meaning::BrokenOff, Meaning::Locked, Meaning::Exhausted, Meaning::Conflict, Meaning::Refused] {
            outage.note_read(Instant::now(), &failed(meaning));
            assert!(!outage.is_on(), "{meaning:?}");
        }
        for meaning in [Meaning::Unreachable, Meaning::Slow] {
            outage.note_read(Instant::now(), &failed(meaning));
            assert!(outage.is_on(), "{meaning:?}");
            outage.note_read(Instant::now(), &Ok(()));
            assert!(!outage.is_on(), "{meaning:?}");
        }
        outage.note_write(Instant::now(), &failed(Meaning::ReadOnly));
        outage.note_read(Instant::now(), &Ok(()));
        assert!(outage.is_on(), "reads succeed all the while");
        outage.note_write(Instant::now(), &Ok(()));
        assert!(!outage.is_on());
        outage.note_write(Instant::now(), &failed(Meaning::ReadOnly));
        outage.since.lock().unwrap().not_written = Instant::now().checked_sub(WRITABLE_AFTER);
        outage.note_read(Instant::now(), &Ok(()));
        assert!(!outage.is_on(), "nothing is written, and nothing says that it could not be");
    }

    #[test]
    fn attempts_that_overlap_the_end_or_the_beginning_of_an_outage_neither_begin_nor_end_one() {
        let outage = Outage::default();
        let before = Instant::now();
        outage.note_read(Instant::now(), &failed(Meaning::Unreachable));
        outage.note_read(before, &Ok(()));
        assert!(outage.is_on(), "the read that succeeded had started before");
        let during = Instant::now();
        outage.note_write(Instant::now(), &Ok(()));
        assert!(!outage.is_on());
        outage.note_read(during, &failed(Meaning::Unreachable));
        assert!(!outage.is_on(), "the read that failed had started before the outage was over");
        outage.note_read(Instant::now(), &failed(Meaning::Unreachable));
        assert!(outage.is_on());
    }
}

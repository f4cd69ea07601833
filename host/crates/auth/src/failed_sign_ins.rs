//! Slows down whoever guesses at the secret of a client, from however many addresses, and locks nobody out.
//!
//! Failures are counted by the client id that was claimed, whether there is such a client or not: answers and their times tell nothing of
//! that. After a few free failures the next failing answers are held back, each twice as long as the one before, up to some seconds. A
//! right secret is let through at once, from any address, whatever was counted: it is looked at before anything here is.
//!
//! That is the price: a failing answer is known to be one by the time it takes. What stands against guessing is the 256 bits of a secret
//! and the limit of requests from one address; this makes guessing from many addresses slow, and visible to the operator (a log line, a
//! line of the audit log and figures).
//!
//! The counts lie in a table of fixed size, two cells for each id, of which the lower counts, found by hashes that nobody can foresee. A
//! map of ids could be filled by whoever claims many ids, until it has to forget the one that is being guessed at, or grows. Here ids
//! that share both cells share their count: a failing answer comes later than it would, and nothing else. Success forgives nothing,
//! or whoever guesses would be forgiven each time the client itself gets a token.
//!
//! **Invariant:** memory is what it was at the start; no id that was claimed is kept.
//!
//! **Invariant:** failures are forgotten a quarter of an hour after the last one, by a clock that never goes back.
//!
//! **Invariant:** no more answers are held back at a time than leave room for those who know their secret; beyond that failing ones are
//! turned away at once.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many failures are answered at once: a secret that was pasted wrong, a job that was not told of a rotation.
pub const FREE_FAILURES: u16 = 10;
/// For how long the first answer beyond these is held back; each further one for twice as long.
const DELAY_FIRST: Duration = Duration::from_millis(500);
/// The longest that an answer is held back; shorter where a request may not take that long.
const DELAY_MAX: Duration = Duration::from_secs(8);
/// After that time without a failure all are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);
/// The most answers that are held back at a time: each is a connection that waits, and keeps its place among the requests under way. Few
/// enough that those who know their secret find room.
const HELD_MAX: usize = 64;
/// Which part of the requests that are worked on at once may be held back: half of those that may be for tokens.
const HELD_PART: usize = 8;
/// Cells of each of the two rows.
const CELLS: usize = 1 << 15;

/// How often an id was claimed with a wrong secret.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    failures: u16,
    /// When the last one was, in whole seconds since the clock's beginning.
    last_s: u32,
}

/// Failed requests for tokens, by the client id that they claimed.
pub struct FailedSignIns {
    rows: Mutex<[Vec<Cell>; 2]>,
    hashes: [RandomState; 2],
    delay_max: Duration,
    held_max: usize,
    held: AtomicUsize,
    failures: AtomicU64,
    slowed: AtomicU64,
    turned_away: AtomicU64,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// How often the id failed, this time among them, since it was last forgotten.
    pub failures: u16,
    /// How long its answer is to be held back.
    pub delay: Duration,
    /// Whether it is the first whose answer is.
    pub is_first_slow: bool,
}

/// An answer that is held back. Gives its place back when it is dropped.
#[derive(Debug)]
pub struct Held<'a>(&'a AtomicUsize);

/// What was counted since the start, and what is held back now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailedSignInUsage {
    /// Failures.
    pub failures: u64,
    /// How often answers for an id began to be held back.
    pub slowed: u64,
    /// Failing answers that came at once because too many were held back.
    pub turned_away: u64,
    /// Answers that are held back now.
    pub held: usize,
}

impl FailedSignIns {
    /// Nothing counted yet. No answer is held back for more than half of what a request may take, and no more of them at a time than an
    /// eighth of the requests that may be worked on.
    #[must_use]
    pub fn new(request_timeout: Duration, requests_max: usize) -> Self {
        Self {
            rows: Mutex::new([vec![Cell::default(); CELLS], vec![Cell::default(); CELLS]]),
            hashes: [RandomState::new(), RandomState::new()],
            delay_max: DELAY_MAX.min(request_timeout / 2),
            held_max: HELD_MAX.min(requests_max / HELD_PART),
            held: AtomicUsize::new(0),
            failures: AtomicU64::new(0),
            slowed: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
        }
    }

    /// Counts a failure of that client id, at that reading of a clock that never goes back.
    pub fn count(&self, claimed_id: &str, elapsed: Duration) -> Failure {
        let now_s = u32::try_from(elapsed.as_secs()).unwrap_or(u32::MAX);
        let (mut before, mut after) = (u16::MAX, u16::MAX);
        let mut rows = self.rows();
        for (row, hash) in rows.iter_mut().zip(&self.hashes) {
            let Some(cell) = row.get_mut(place(hash, claimed_id)) else { continue };
            let is_forgotten = u64::from(now_s.saturating_sub(cell.last_s)) >= FORGOTTEN_AFTER.as_secs();
            let failures = if is_forgotten { 0 } else { cell.failures };
            *cell = Cell { failures: failures.saturating_add(1), last_s: now_s };
            before = before.min(failures);
            after = after.min(cell.failures);
        }
        drop(rows);
        self.failures.fetch_add(1, Ordering::Relaxed);
        let is_first_slow = before <= FREE_FAILURES && after > FREE_FAILURES;
        if is_first_slow {
            self.slowed.fetch_add(1, Ordering::Relaxed);
        }
        Failure { failures: after, delay: self.delay(after), is_first_slow }
    }

    /// Takes a place among the answers that are held back; none where all are taken, and then the answer is turned away.
    #[must_use]
    pub fn hold(&self) -> Option<Held<'_>> {
        let taken = self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, |held| {
            (held < self.held_max).then_some(held.saturating_add(1))
        });
        if taken.is_err() {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Held(&self.held))
    }

    /// What was counted, and what is held back.
    #[must_use]
    pub fn usage(&self) -> FailedSignInUsage {
        FailedSignInUsage {
            failures: self.failures.load(Ordering::Relaxed),
            slowed: self.slowed.load(Ordering::Relaxed),
            turned_away: self.turned_away.load(Ordering::Relaxed),
            held: self.held.load(Ordering::Acquire),
        }
    }

    fn delay(&self, failures: u16) -> Duration {
        let Some(beyond) = failures.checked_sub(FREE_FAILURES + 1) else { return Duration::ZERO };
        let doubled = 1_u32.checked_shl(u32::from(beyond)).unwrap_or(u32::MAX);
        DELAY_FIRST.saturating_mul(doubled).min(self.delay_max)
    }

    fn rows(&self) -> MutexGuard<'_, [Vec<Cell>; 2]> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(hash: &RandomState, claimed_id: &str) -> usize {
    usize::try_from(hash.hash_one(claimed_id) % CELLS as u64).unwrap_or_default()
}

impl fmt::Debug for FailedSignIns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FailedSignIns").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);
    const REQUESTS_MAX: usize = 1_024;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn fail(counts: &FailedSignIns, id: &str, times: u16, at: Duration) -> Failure {
        for _ in 1..times {
            counts.count(id, at);
        }
        counts.count(id, at)
    }

    #[test]
    fn a_few_failures_are_free_and_each_further_one_takes_twice_as_long() {
        let counts = FailedSignIns::new(TIMEOUT, REQUESTS_MAX);
        for failures in 1..=FREE_FAILURES {
            let failure = counts.count("c", s(1));
            assert_eq!(failure, Failure { failures, delay: Duration::ZERO, is_first_slow: false });
        }
        let delays_ms: Vec<u128> = (0..7).map(|_| counts.count("c", s(1)).delay.as_millis()).collect();
        assert_eq!(delays_ms, [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
        assert_eq!(counts.usage().slowed, 1);
        assert_eq!(fail(&counts, "c", u16::MAX, s(1)).delay, DELAY_MAX, "however many they are");
        assert_eq!(counts.count("c", s(1)).failures, u16::MAX);
        assert_eq!(counts.usage().slowed, 1, "told once");
    }

    #[test]
    fn no_answer_is_held_for_more_than_half_of_what_a_request_may_take() {
        for (timeout_ms, delay_ms) in [(100, 50), (1_000, 500), (15_999, 7_999), (16_000, 8_000), (600_000, 8_000)] {
            let counts = FailedSignIns::new(Duration::from_millis(timeout_ms), REQUESTS_MAX);
            assert_eq!(fail(&counts, "c", 100, s(1)).delay.as_millis(), delay_ms, "{timeout_ms}");
        }
    }

    #[test]
    fn ids_do_not_share_their_failures() {
        let counts = FailedSignIns::new(TIMEOUT, REQUESTS_MAX);
        fail(&counts, "guessed-at", 1_000, s(1));
        for id in ["", "another", "guessed-at ", "Guessed-at"] {
            assert_eq!(counts.count(id, s(1)).failures, 1, "{id}");
        }
    }

    #[test]
    fn failures_are_forgotten_together_after_a_quarter_of_an_hour_without_one() {
        let counts = FailedSignIns::new(TIMEOUT, REQUESTS_MAX);
        assert!(fail(&counts, "c", 11, s(10)).is_first_slow);
        assert_eq!(counts.count("c", s(10 + 899)).failures, 12, "and each puts that off");
        assert_eq!(counts.count("c", s(10 + 899 + 899)).failures, 13);
        let forgotten = counts.count("c", s(10 + 899 + 899 + 900));
        assert_eq!(forgotten, Failure { failures: 1, delay: Duration::ZERO, is_first_slow: false });
        assert!(fail(&counts, "c", 10, s(3_000)).is_first_slow, "another attack is told again");
        assert_eq!(counts.usage().slowed, 2);
    }

    #[test]
    fn whoever_claims_a_million_ids_neither_fills_memory_nor_covers_one_up() {
        let counts = FailedSignIns::new(TIMEOUT, REQUESTS_MAX);
        fail(&counts, "guessed-at", 20, s(1));
        for number in 0..1_000_000 {
            counts.count(&format!("id-{number}"), s(1));
        }
        assert_eq!(counts.count("guessed-at", s(2)).delay, DELAY_MAX);
        let rows = counts.rows();
        assert_eq!(rows.iter().map(Vec::len).sum::<usize>() * size_of::<Cell>(), 2 * CELLS * 8);
    }

    #[test]
    fn only_so_many_answers_are_held_at_a_time() {
        let counts = FailedSignIns::new(TIMEOUT, REQUESTS_MAX);
        let mut held: Vec<Held<'_>> = (1..HELD_MAX).map(|_| counts.hold().unwrap()).collect();
        held.push(counts.hold().unwrap());
        assert!(counts.hold().is_none());
        assert_eq!((counts.usage().held, counts.usage().turned_away), (HELD_MAX, 1));
        drop(held.pop());
        held.push(counts.hold().unwrap());
        held.clear();
        assert_eq!((counts.usage().held, counts.usage().turned_away), (0, 1));
    }

    #[test]
    fn a_small_server_holds_few_and_the_smallest_none() {
        for (requests_max, held_max) in [(1, 0), (7, 0), (8, 1), (100, 12), (512, 64), (100_000, 64)] {
            let counts = FailedSignIns::new(TIMEOUT, requests_max);
            let held: Vec<_> = (0..=HELD_MAX).map_while(|_| counts.hold()).collect();
            assert_eq!(held.len(), held_max, "{requests_max}");
        }
    }
}

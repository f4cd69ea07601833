//! Throttles brute-force attempts on client secrets from any number of addresses, without locking out clients.
//!
//! Failures are counted by the claimed client id, whether such a client exists or not, so that responses and their
//! times do not reveal it. After a few free failures the next failing responses are delayed, each twice as long as the
//! one before, up to some seconds. A valid secret is never delayed, from any address: it is checked before the counters
//! here.
//!
//! The trade-off: a delayed response reveals that the secret was wrong. The protection against brute force is the 256
//! bits of a secret and the rate limit of each address; the throttling makes attempts from many addresses slow and
//! visible to the operator (a log message, an audit entry and metrics).
//!
//! The counters are in a table of fixed size, two cells for each id, of which the lower counts (a count-min sketch),
//! found by keyed hashes that a client cannot predict. A map of ids could be filled by claiming many ids, until it
//! grows or evicts the attacked id. In the table, ids that share both cells share their count: a failing response is
//! delayed longer than it would be, and nothing else. Success resets nothing: otherwise an attacker's count would be
//! reset each time the client itself gets a token.
//!
//! **Invariant:** memory use is constant; no claimed id is stored.
//!
//! **Invariant:** failures are forgotten a quarter of an hour after the last one, by a monotonic clock.
//!
//! **Invariant:** the number of delayed responses is limited so that clients with a valid secret find free capacity;
//! beyond the limit failing requests are rejected immediately.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of failures that are answered without delay: a mistyped secret, a job that was not updated after a
/// rotation.
pub const FREE_FAILURES: u16 = 10;
/// The delay of the first response beyond these; it doubles with each further failure.
const DELAY_FIRST: Duration = Duration::from_millis(500);
/// The longest delay of a response; shorter if the request timeout is shorter.
const DELAY_MAX: Duration = Duration::from_secs(8);
/// The time without a failure after which all failures of an id are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);
/// The most responses that are delayed at a time: each occupies a connection and a slot of concurrent requests. Low
/// enough that clients with a valid secret find free capacity.
const HELD_MAX: usize = 64;
/// The divisor of the concurrent-request limit that gives the limit of delayed responses: half of those that may be
/// token requests.
const HELD_PART: usize = 8;
/// The number of cells of each of the two rows.
const CELLS: usize = 1 << 15;

/// The failure counter of one hash cell.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    failures: u16,
    /// The time of the last failure, in whole seconds since the start of the clock.
    last_s: u32,
}

/// Failed token requests, by claimed client id.
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

/// The consequences of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The number of failures of the id, including this one, since they were last forgotten.
    pub failures: u16,
    /// The delay of the response.
    pub delay: Duration,
    /// True if this is the first delayed response of the id.
    pub is_first_slow: bool,
}

/// A slot for a delayed response, released on drop.
#[derive(Debug)]
pub struct Held<'a>(&'a AtomicUsize);

/// Counters since the start, and the responses delayed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailedSignInUsage {
    /// Failures.
    pub failures: u64,
    /// The number of times that throttling of an id began.
    pub slowed: u64,
    /// Failing requests rejected immediately because too many responses were delayed.
    pub turned_away: u64,
    /// Responses delayed now.
    pub held: usize,
}

impl FailedSignIns {
    /// Creates empty counters. No response is delayed for more than half of `request_timeout`, and at most an eighth of
    /// `requests_max` at a time.
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

    /// Counts a failure of this client id at this reading of a monotonic clock.
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

    /// Reserves a slot for a delayed response; `None` if all are used: the request is then rejected immediately.
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

    /// Returns the counters.
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
    fn no_response_is_delayed_for_more_than_half_of_the_request_timeout() {
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
        assert_eq!(counts.count("c", s(10 + 899)).failures, 12, "each failure restarts the period");
        assert_eq!(counts.count("c", s(10 + 899 + 899)).failures, 13);
        let forgotten = counts.count("c", s(10 + 899 + 899 + 900));
        assert_eq!(forgotten, Failure { failures: 1, delay: Duration::ZERO, is_first_slow: false });
        assert!(fail(&counts, "c", 10, s(3_000)).is_first_slow, "another attack is reported again");
        assert_eq!(counts.usage().slowed, 2);
    }

    #[test]
    fn a_million_claimed_ids_neither_fill_memory_nor_hide_one() {
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
    fn the_number_of_delayed_responses_is_limited() {
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
    fn a_small_server_delays_few_responses_and_the_smallest_none() {
        for (requests_max, held_max) in [(1, 0), (7, 0), (8, 1), (100, 12), (512, 64), (100_000, 64)] {
            let counts = FailedSignIns::new(TIMEOUT, requests_max);
            let held: Vec<_> = (0..=HELD_MAX).map_while(|_| counts.hold()).collect();
            assert_eq!(held.len(), held_max, "{requests_max}");
        }
    }
}

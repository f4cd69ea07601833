//! A time that never runs backwards, made from the clock on the wall.
//!
//! **Invariant:** a reading is never smaller than one before it; when the clock is set back, readings go on from where
//! they were instead of standing still until the clock has caught up: nobody is locked out by a clock that was
//! corrected.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// Steps back up to this are waited out; greater ones are taken for a clock that was set.
const STEP_NS: i64 = 1_000_000_000;

/// Nanoseconds since this was made.
#[derive(Debug)]
pub(super) struct SteadyTime {
    /// Wall clock at reading 0, moved when the clock is set back.
    origin_ns: AtomicI64,
    /// The greatest reading so far.
    latest_ns: AtomicI64,
}

impl SteadyTime {
    /// Time that is 0 at that instant.
    pub(super) fn starting_at(now: Timestamp) -> Self {
        Self { origin_ns: AtomicI64::new(wall_ns(now)), latest_ns: AtomicI64::new(0) }
    }

    /// The reading that goes with an instant of the wall clock.
    pub(super) fn reading(&self, now: Timestamp) -> u64 {
        let wall = wall_ns(now);
        let origin = self.origin_ns.load(Ordering::Relaxed);
        let reading = wall.saturating_sub(origin);
        let latest = self.latest_ns.fetch_max(reading, Ordering::Relaxed);
        if reading < latest.saturating_sub(STEP_NS) {
            // Of several threads that see the step one moves the origin.
            let moved = wall.saturating_sub(latest);
            let _ = self.origin_ns.compare_exchange(origin, moved, Ordering::Relaxed, Ordering::Relaxed);
        }
        u64::try_from(reading.max(latest)).unwrap_or(0)
    }
}

/// Nanoseconds since 1970, as far as 64 bits go: to the year 2262.
fn wall_ns(now: Timestamp) -> i64 {
    let nanoseconds = now.as_nanosecond();
    i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn goes_with_the_clock_and_never_back() {
        let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let at = |milliseconds| start + SignedDuration::from_millis(milliseconds);
        let time = SteadyTime::starting_at(start);
        let reading = |milliseconds| time.reading(at(milliseconds)) / 1_000_000;
        assert_eq!(reading(0), 0);
        assert_eq!(reading(5_000), 5_000);
        assert_eq!(reading(4_500), 5_000, "a small step back is waited out");
        assert_eq!(reading(5_001), 5_001);
        assert_eq!(reading(-3_600_000), 5_001, "a great one is the end of the old origin");
        assert_eq!(reading(-3_600_000 + 10), 5_011, "and time goes on from there");
        assert_eq!(reading(0), 5_001 + 3_600_000);
    }

    #[test]
    fn survives_instants_at_both_ends_of_the_calendar() {
        let time = SteadyTime::starting_at(Timestamp::MIN);
        assert!(time.reading(Timestamp::MAX) >= time.reading(Timestamp::MIN));
        assert!(time.reading(Timestamp::UNIX_EPOCH) > 0);
    }
}

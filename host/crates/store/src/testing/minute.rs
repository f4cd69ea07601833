//! The refill of a minute of calls, as the shared state of servers counts them.

use std::time::Duration;

use daftar_domain::call_counts::{self, OfMinute, Wanted};

/// Stored state of a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Minute {
    /// Time from which it is full again.
    pub full_at_ns: u64,
    /// Its limit at the last request; 0 before the first.
    pub per_minute: u32,
}

/// Reserves calls of a minute; returns them and the new state. After a change of the limit used calls stay used; those
/// beyond a lower limit are forgotten.
#[must_use]
pub fn lease(minute: Minute, now_ns: u64, wanted: Wanted, per_minute: u32) -> (OfMinute, Minute) {
    let cell_ns = call_counts::cell_ns(per_minute);
    let until_full_ns = match minute.per_minute {
        0 => 0,
        before if before == per_minute => minute.full_at_ns.saturating_sub(now_ns),
        before => {
            minute.full_at_ns.saturating_sub(now_ns).div_ceil(call_counts::cell_ns(before)).saturating_mul(cell_ns)
        }
    };
    let until_full_ns = until_full_ns.min(cell_ns.saturating_mul(per_minute.into()));
    let used = u32::try_from(until_full_ns.div_ceil(cell_ns)).unwrap_or(u32::MAX);
    let left = per_minute.saturating_sub(used);
    let taken = if left < wanted.least { 0 } else { left.min(wanted.most) };
    let until_full_ns = until_full_ns.saturating_add(cell_ns.saturating_mul(taken.into()));
    let leased = OfMinute { taken, until_full: Duration::from_nanos(until_full_ns) };
    (leased, Minute { full_at_ns: now_ns.saturating_add(until_full_ns), per_minute })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_minute_is_given_once_and_comes_back_call_by_call() {
        let lease = |minute, at, least, most| lease(minute, at * SECOND, Wanted { least, most }, 60);
        let (first, minute) = lease(Minute::default(), 5, 1, 50);
        assert_eq!((first.taken, first.until_full), (50, Duration::from_secs(50)));
        let (second, minute) = lease(minute, 5, 1, 50);
        assert_eq!((second.taken, second.until_full), (10, Duration::from_secs(60)));
        let (third, same) = lease(minute, 5, 1, 1);
        assert_eq!((third.taken, same), (0, minute));
        let (fourth, _) = lease(minute, 7, 3, 9);
        assert_eq!((fourth.taken, fourth.until_full), (0, Duration::from_secs(58)), "all or nothing");
        let (fifth, _) = lease(minute, 7, 2, 9);
        assert_eq!(fifth.taken, 2);
    }

    #[test]
    fn a_change_of_the_limit_preserves_used_calls() {
        let all = Wanted { least: 1, most: u32::MAX };
        for (before, used, after, left) in [(60, 10, 120, 110), (60, 60, 600, 540), (60, 50, 30, 0), (60, 10, 30, 20)] {
            let (_, minute) = lease(Minute::default(), 0, Wanted { least: used, most: used }, before);
            assert_eq!(lease(minute, 0, all, after).0.taken, left, "{before} → {after} after {used}");
        }
        let ahead = Minute { full_at_ns: u64::MAX, per_minute: 60 };
        let (given, _) = lease(ahead, 60 * SECOND, all, 60);
        assert_eq!((given.taken, given.until_full), (0, Duration::from_secs(60)), "a clock that was far ahead");
    }
}

//! The remaining calls of one key's minute: refilled evenly, or each a minute after it was made.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::RateLimiter;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};

use super::{Quota, Refill};
use daftar_domain::call_counts::{WINDOW, cell_ns};

/// The remaining calls of one key's minute.
pub(super) enum Allowance {
    /// The allowance of a quota with [`Refill::Even`].
    Even(Minute),
    /// The allowance of a quota with [`Refill::Window`].
    Window(Window),
}

impl Allowance {
    /// Creates a full allowance.
    pub(super) fn full(quota: Quota) -> Self {
        match quota.refill {
            Refill::Even => Self::Even(Minute::full(quota.per_minute)),
            Refill::Window => Self::Window(Window::default()),
        }
    }

    /// Changes the limit to the quota's; used calls stay used.
    pub(super) fn set_limit(&mut self, quota: Quota, now_ns: u64) {
        match self {
            Self::Even(minute) => minute.set_limit(quota.per_minute, now_ns),
            // A window gets its limit with each call.
            Self::Window(_) => {}
        }
    }

    /// Counts `calls` if all of them are within the limit.
    pub(super) fn charge(&mut self, quota: Quota, calls: u32, now_ns: u64) -> MinuteOutcome {
        match self {
            Self::Even(minute) => minute.charge(calls, now_ns),
            Self::Window(window) => window.charge(quota.per_minute, calls, now_ns),
        }
    }

    /// Returns the time until `calls` are allowed, if no other call comes first.
    pub(super) fn until_room(&self, quota: Quota, calls: u32, now_ns: u64) -> Duration {
        match self {
            Self::Even(minute) => minute.until_room(calls, now_ns),
            Self::Window(window) => window.until_room(quota.per_minute, calls, now_ns),
        }
    }

    /// Returns the time until the allowance is full.
    pub(super) fn until_full(&self, now_ns: u64) -> Duration {
        match self {
            Self::Even(minute) => minute.until_full(now_ns),
            Self::Window(window) => window.until_full(now_ns),
        }
    }

    /// Returns the number of calls that are allowed immediately.
    pub(super) fn left(&self, quota: Quota, now_ns: u64) -> u32 {
        match self {
            Self::Even(minute) => minute.left(now_ns),
            Self::Window(window) => window.left(quota.per_minute, now_ns),
        }
    }
}

/// A sliding window: the calls of the last 60 seconds.
///
/// A token bucket of N calls a minute allows up to 2N - 1 in its first minute: N immediately and the others by refill.
/// A sliding window never allows more than N in any 60 seconds. It stores one number for each call, so it is for small
/// limits.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    /// The times at which the calls leave the window, in ascending order.
    leaves_at_ns: Vec<u64>,
}

impl Window {
    /// Creates a window whose calls leave after these times; none of them is longer than the window.
    pub(super) fn leaving_after(until_left: &[Duration], now_ns: u64) -> Self {
        let leaves_at = |after: &Duration| now_ns.saturating_add(nanoseconds((*after).min(WINDOW)));
        let mut leaves_at_ns: Vec<u64> = until_left.iter().map(leaves_at).collect();
        leaves_at_ns.sort_unstable();
        Self { leaves_at_ns }
    }

    /// Counts `calls` if all of them are within the limit.
    pub(super) fn charge(&mut self, limit: u32, calls: u32, now_ns: u64) -> MinuteOutcome {
        self.leaves_at_ns.retain(|leaves_at_ns| *leaves_at_ns > now_ns);
        if calls > self.left(limit, now_ns) {
            return MinuteOutcome::Refused;
        }
        let leaves_at_ns = now_ns.saturating_add(nanoseconds(WINDOW));
        self.leaves_at_ns.extend((0..calls).map(|_| leaves_at_ns));
        MinuteOutcome::Allowed
    }

    /// Returns the number of calls that are allowed immediately.
    pub(super) fn left(&self, limit: u32, now_ns: u64) -> u32 {
        limit.saturating_sub(u32::try_from(self.present(now_ns).len()).unwrap_or(u32::MAX))
    }

    /// Returns the time until `calls` are allowed; for more than the limit, until the window is empty.
    pub(super) fn until_room(&self, limit: u32, calls: u32, now_ns: u64) -> Duration {
        let present = self.present(now_ns);
        let stay = usize::try_from(limit.saturating_sub(calls)).unwrap_or(usize::MAX);
        let last_to_leave = present.len().checked_sub(stay).and_then(|leave| present.get(leave.checked_sub(1)?));
        last_to_leave.map_or(Duration::ZERO, |leaves_at_ns| Duration::from_nanos(leaves_at_ns.saturating_sub(now_ns)))
    }

    /// Returns the time until the window is empty.
    pub(super) fn until_full(&self, now_ns: u64) -> Duration {
        let last = self.leaves_at_ns.last().copied().unwrap_or(0);
        Duration::from_nanos(last.saturating_sub(now_ns))
    }

    /// Returns the calls that are still in the window.
    fn present(&self, now_ns: u64) -> &[u64] {
        let left = self.leaves_at_ns.partition_point(|leaves_at_ns| *leaves_at_ns <= now_ns);
        self.leaves_at_ns.get(left..).unwrap_or_default()
    }
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A clock that returns the time of the call that is being counted.
#[derive(Debug, Default)]
struct Reading(Cell<u64>);

impl Clock for Reading {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.get().into()
    }
}

/// A token bucket: the remaining calls of one key's minute.
pub(super) struct Minute {
    limiter: RateLimiter<NotKeyed, InMemoryState, Reading, NoOpMiddleware<Nanos>>,
    limit: NonZeroU32,
    /// The time at which the bucket is full again. The limiter stores the same value privately.
    full_at_ns: u64,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MinuteOutcome {
    /// The call is counted.
    Allowed,
    /// The call is not counted; [`Minute::until_room`] returns the waiting time.
    Refused,
}

impl Minute {
    /// Creates a full bucket of `limit` calls.
    pub(super) fn full(limit: u32) -> Self {
        let limit = NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN);
        let limiter = RateLimiter::direct_with_clock(governor::Quota::per_minute(limit), Reading::default());
        Self { limiter, limit, full_at_ns: 0 }
    }

    /// Changes the limit. Used calls stay used, so that a change does not give a full minute; calls beyond a lower
    /// limit are forgotten.
    pub(super) fn set_limit(&mut self, limit: u32, now_ns: u64) {
        if self.limit.get() == limit {
            return;
        }
        let used = self.used(now_ns);
        *self = Self::full(limit);
        if let Some(used) = NonZeroU32::new(used.min(self.limit.get())) {
            self.limiter.clock().0.set(now_ns);
            // Never rejected: a full limiter allows as many as its limit.
            let _ = self.limiter.check_n(used);
            self.note(used, now_ns);
        }
    }

    /// Counts `calls` if all of them are within the limit. More than the limit are never allowed; zero calls are a
    /// query.
    pub(super) fn charge(&mut self, calls: u32, now_ns: u64) -> MinuteOutcome {
        self.limiter.clock().0.set(now_ns);
        let Some(calls) = NonZeroU32::new(calls) else {
            return MinuteOutcome::Allowed;
        };
        match self.limiter.check_n(calls) {
            Ok(Ok(_)) => {
                self.note(calls, now_ns);
                MinuteOutcome::Allowed
            }
            Ok(Err(_)) | Err(_) => MinuteOutcome::Refused,
        }
    }

    /// Returns the time until `calls` are allowed, if no other call comes first; for more than the limit, until the
    /// bucket is full.
    pub(super) fn until_room(&self, calls: u32, now_ns: u64) -> Duration {
        let missing = self.limit.get().saturating_sub(calls);
        let room_at_ns = self.full_at_ns.saturating_sub(self.cell_ns().saturating_mul(missing.into()));
        Duration::from_nanos(room_at_ns.saturating_sub(now_ns))
    }

    /// Records calls that the limiter has allowed.
    fn note(&mut self, calls: NonZeroU32, now_ns: u64) {
        let time_of_calls = self.cell_ns().saturating_mul(u64::from(calls.get()));
        self.full_at_ns = self.full_at_ns.max(now_ns).saturating_add(time_of_calls);
    }

    /// Returns the time until the bucket is full again.
    pub(super) fn until_full(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.full_at_ns.saturating_sub(now_ns))
    }

    /// Returns the limit.
    #[cfg(test)]
    pub(super) fn limit(&self) -> u32 {
        self.limit.get()
    }

    /// Returns the number of calls that are allowed immediately.
    pub(super) fn left(&self, now_ns: u64) -> u32 {
        self.limit.get().saturating_sub(self.used(now_ns))
    }

    fn used(&self, now_ns: u64) -> u32 {
        let used = self.full_at_ns.saturating_sub(now_ns).div_ceil(self.cell_ns());
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    /// Returns the refill time of one call; at least a nanosecond.
    fn cell_ns(&self) -> u64 {
        cell_ns(self.limit.get())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_call_comes_back_a_minute_after_it_was_made() {
        let mut window = Window::default();
        for (at_s, outcome, left) in [
            (0, MinuteOutcome::Allowed, 1),
            (30, MinuteOutcome::Allowed, 0),
            (59, MinuteOutcome::Refused, 0),
            (60, MinuteOutcome::Allowed, 0),
            (89, MinuteOutcome::Refused, 0),
            (90, MinuteOutcome::Allowed, 0),
        ] {
            assert_eq!(
                (window.charge(2, 1, at_s * SECOND), window.left(2, at_s * SECOND)),
                (outcome, left),
                "{at_s} s"
            );
        }
        assert_eq!(window.until_room(2, 1, 100 * SECOND), Duration::from_secs(20));
        assert_eq!(window.until_room(2, 2, 100 * SECOND), Duration::from_secs(50));
        assert_eq!(window.until_room(2, 3, 100 * SECOND), window.until_full(100 * SECOND));
    }

    proptest! {
        /// No 60 seconds have more calls than the limit, for any pauses, and a rejected call is allowed after the
        /// returned waiting time and not a nanosecond earlier.
        #[test]
        fn no_minute_has_more_calls_than_the_limit(
            limit in 1_u32..8,
            pauses_ns in proptest::collection::vec(0_u64..40_000_000_000, 1..60),
        ) {
            let (mut window, mut now_ns, mut allowed) = (Window::default(), 0, Vec::new());
            for pause_ns in pauses_ns {
                now_ns += pause_ns;
                let wait_ns = nanoseconds(window.until_room(limit, 1, now_ns));
                if wait_ns > 0 {
                    prop_assert_eq!(window.charge(limit, 1, now_ns), MinuteOutcome::Refused);
                    prop_assert_eq!(window.charge(limit, 1, now_ns + wait_ns - 1), MinuteOutcome::Refused);
                    now_ns += wait_ns;
                }
                prop_assert_eq!(window.charge(limit, 1, now_ns), MinuteOutcome::Allowed);
                allowed.push(now_ns);
                let in_window = allowed.iter().filter(|at_ns| now_ns - **at_ns < 60 * SECOND).count();
                prop_assert!(in_window <= limit as usize, "{in_window} of {limit}");
            }
        }
    }
}

#[cfg(test)]
mod minute_tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn charge_many(minute: &mut Minute, now_ns: u64, tries: u32) -> u32 {
        let outcomes = (0..tries).map(|_| minute.charge(1, now_ns));
        outcomes.filter(|outcome| matches!(outcome, MinuteOutcome::Allowed)).count() as u32
    }

    #[test]
    fn allows_a_burst_of_the_limit_and_then_one_by_one() {
        let mut minute = Minute::full(60);
        for left in (0..60).rev() {
            assert_eq!((minute.charge(1, 0), minute.left(0)), (MinuteOutcome::Allowed, left));
        }
        assert_eq!(minute.until_full(0), Duration::from_secs(60));
        assert_eq!((minute.charge(1, 0), minute.until_room(1, 0)), (MinuteOutcome::Refused, Duration::from_secs(1)));
        assert_eq!(minute.charge(1, SECOND - 1), MinuteOutcome::Refused);
        assert_eq!(minute.until_room(1, SECOND - 1), Duration::from_nanos(1));
        assert_eq!((minute.charge(1, SECOND), minute.left(SECOND)), (MinuteOutcome::Allowed, 0));
        assert_eq!(charge_many(&mut minute, 61 * SECOND, 100), 60);
    }

    #[test]
    fn a_change_of_the_limit_keeps_used_calls() {
        for (before, used, after, left) in [
            (60, 10, 120, 110),
            (60, 60, 600, 540),
            (60, 10, 30, 20),
            (60, 50, 30, 0),
            (60, 0, 5, 5),
            (60, 60, 60, 0),
            (7, 3, 11, 8),
        ] {
            let mut minute = Minute::full(before);
            assert_eq!(charge_many(&mut minute, SECOND, used), used);
            minute.set_limit(after, SECOND);
            assert_eq!(charge_many(&mut minute, SECOND, 1000), left, "{before} → {after} after {used}");
        }
    }

    #[test]
    fn a_raised_limit_adds_only_the_difference() {
        let mut minute = Minute::full(60);
        assert_eq!(charge_many(&mut minute, 0, 100), 60);
        for (limit, given) in [(61, 1), (61, 0), (60, 0), (70, 10), (70, 0), (30, 0), (30, 0)] {
            minute.set_limit(limit, 0);
            assert_eq!(charge_many(&mut minute, 0, 100), given, "{limit}");
        }
    }

    #[test]
    fn refilled_calls_are_no_longer_used() {
        let mut minute = Minute::full(60);
        assert_eq!(charge_many(&mut minute, 0, 60), 60);
        minute.set_limit(600, 30 * SECOND);
        assert_eq!(charge_many(&mut minute, 30 * SECOND, 1000), 570);
    }

    #[test]
    fn is_full_again_at_the_returned_time() {
        let mut minute = Minute::full(7);
        assert_eq!(charge_many(&mut minute, 3, 5), 5);
        let full_at = 3 + minute.until_full(3).as_nanos() as u64;
        assert_eq!(charge_many(&mut minute, full_at, 10), 7);
    }

    #[test]
    fn every_limit_that_a_client_can_have_works() {
        for limit in [1, 2, 59, 61, 1_000_003, daftar_domain::client::RATE_LIMIT_MAX] {
            let mut minute = Minute::full(limit);
            assert_eq!((minute.charge(1, 0), minute.left(0)), (MinuteOutcome::Allowed, limit - 1));
            assert!(minute.until_full(0) <= Duration::from_secs(60));
        }
    }

    proptest! {
        /// The limiter and the value stored beside it always agree: exactly the remaining calls are allowed, and a
        /// rejected call is allowed at the returned time and not a nanosecond before.
        #[test]
        fn reports_exactly_when_calls_are_available(
            limit in 1_u32..2_000,
            calls in proptest::collection::vec((0_u64..90_000_000_000, 0_u32..2_000, 1_u32..2_000), 1..30),
        ) {
            let mut minute = Minute::full(limit);
            let mut now_ns = 0;
            for (pause_ns, wanted, other_limit) in calls {
                now_ns += pause_ns;
                if other_limit % 8 == 0 {
                    minute.set_limit(other_limit, now_ns);
                }
                let wanted = wanted.min(minute.limit());
                let left = minute.left(now_ns);
                let wait_ns = minute.until_room(wanted, now_ns).as_nanos() as u64;
                prop_assert_eq!(wait_ns == 0, wanted <= left);
                if wait_ns > 0 {
                    prop_assert_eq!(minute.charge(wanted, now_ns), MinuteOutcome::Refused);
                    prop_assert_eq!(minute.charge(wanted, now_ns + wait_ns - 1), MinuteOutcome::Refused);
                    now_ns += wait_ns;
                }
                let remaining = minute.left(now_ns) - wanted;
                prop_assert_eq!(minute.charge(wanted, now_ns), MinuteOutcome::Allowed);
                prop_assert_eq!(minute.left(now_ns), remaining);
            }
        }
    }
}

//! What is left of one key's minute: calls that come back evenly, or each a minute after it was made.

use std::time::Duration;

use super::minute::{Minute, MinuteOutcome};
use super::{Quota, Refill};

/// The length of a sliding window.
const WINDOW: Duration = Duration::from_secs(60);

/// What is left of one key's minute.
pub(super) enum Allowance {
    /// Of a quota with [`Refill::Even`].
    Even(Minute),
    /// Of a quota with [`Refill::Window`].
    Window(Window),
}

impl Allowance {
    /// A minute with all its calls.
    pub(super) fn full(quota: Quota) -> Self {
        match quota.refill {
            Refill::Even => Self::Even(Minute::full(quota.per_minute)),
            Refill::Window => Self::Window(Window::default()),
        }
    }

    /// Changes the limit to the quota's; calls that were used stay used.
    pub(super) fn set_limit(&mut self, quota: Quota, now_ns: u64) {
        match self {
            Self::Even(minute) => minute.set_limit(quota.per_minute, now_ns),
            // It is asked with the limit each time.
            Self::Window(_) => {}
        }
    }

    /// Counts calls, if there is room for all of them.
    pub(super) fn charge(&mut self, quota: Quota, calls: u32, now_ns: u64) -> MinuteOutcome {
        match self {
            Self::Even(minute) => minute.charge(calls, now_ns),
            Self::Window(window) => window.charge(quota.per_minute, calls, now_ns),
        }
    }

    /// How long until there is room for so many calls, if no other call comes first.
    pub(super) fn until_room(&self, quota: Quota, calls: u32, now_ns: u64) -> Duration {
        match self {
            Self::Even(minute) => minute.until_room(calls, now_ns),
            Self::Window(window) => window.until_room(quota.per_minute, calls, now_ns),
        }
    }

    /// How long until it has all its calls again.
    pub(super) fn until_full(&self, now_ns: u64) -> Duration {
        match self {
            Self::Even(minute) => minute.until_full(now_ns),
            Self::Window(window) => window.until_full(now_ns),
        }
    }

    /// How many calls could follow immediately.
    pub(super) fn left(&self, quota: Quota, now_ns: u64) -> u32 {
        match self {
            Self::Even(minute) => minute.left(now_ns),
            Self::Window(window) => window.left(quota.per_minute, now_ns),
        }
    }
}

/// A sliding window: the calls of the last 60 seconds.
///
/// A token bucket of N calls a minute lets through up to 2N - 1 in its first minute: N immediately and the others as they come back. A
/// sliding window never lets through more than N in any 60 seconds. It keeps one number for each call, so it is for small limits.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    /// When each call leaves the window, in ascending order.
    leaves_at_ns: Vec<u64>,
}

impl Window {
    /// A window with calls that leave it after these times; none of them is longer than the window.
    pub(super) fn leaving_after(until_left: &[Duration], now_ns: u64) -> Self {
        let leaves_at = |after: &Duration| now_ns.saturating_add(nanoseconds((*after).min(WINDOW)));
        let mut leaves_at_ns: Vec<u64> = until_left.iter().map(leaves_at).collect();
        leaves_at_ns.sort_unstable();
        Self { leaves_at_ns }
    }

    /// Counts calls, if there is room for all of them.
    pub(super) fn charge(&mut self, limit: u32, calls: u32, now_ns: u64) -> MinuteOutcome {
        self.leaves_at_ns.retain(|leaves_at_ns| *leaves_at_ns > now_ns);
        if calls > self.left(limit, now_ns) {
            return MinuteOutcome::Refused;
        }
        let leaves_at_ns = now_ns.saturating_add(nanoseconds(WINDOW));
        self.leaves_at_ns.extend((0..calls).map(|_| leaves_at_ns));
        MinuteOutcome::Allowed
    }

    /// How many calls could follow immediately.
    pub(super) fn left(&self, limit: u32, now_ns: u64) -> u32 {
        limit.saturating_sub(u32::try_from(self.present(now_ns).len()).unwrap_or(u32::MAX))
    }

    /// How long until there is room for so many calls; for more than the limit, until it is empty.
    pub(super) fn until_room(&self, limit: u32, calls: u32, now_ns: u64) -> Duration {
        let present = self.present(now_ns);
        let stay = usize::try_from(limit.saturating_sub(calls)).unwrap_or(usize::MAX);
        let last_to_leave = present.len().checked_sub(stay).and_then(|leave| present.get(leave.checked_sub(1)?));
        last_to_leave.map_or(Duration::ZERO, |leaves_at_ns| Duration::from_nanos(leaves_at_ns.saturating_sub(now_ns)))
    }

    /// How long until it is empty.
    pub(super) fn until_full(&self, now_ns: u64) -> Duration {
        let last = self.leaves_at_ns.last().copied().unwrap_or(0);
        Duration::from_nanos(last.saturating_sub(now_ns))
    }

    /// Those that have not left it yet.
    fn present(&self, now_ns: u64) -> &[u64] {
        let left = self.leaves_at_ns.partition_point(|leaves_at_ns| *leaves_at_ns <= now_ns);
        self.leaves_at_ns.get(left..).unwrap_or_default()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
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
        /// Whatever the pauses, no 60 seconds have more calls than the limit, and a refused call has room after the time that is
        /// said, and not a nanosecond earlier.
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

//! Counts of calls that several processes share.

use std::time::Duration;

use crate::store::StoreError;

/// What is asked of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Take {
    /// So many, or nothing is taken.
    pub least: u64,
    /// At most so many.
    pub most: u64,
    /// The count never goes beyond that.
    pub limit: u64,
}

/// What was given of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// So many.
    pub taken: u64,
    /// The count now, with what was taken.
    pub count: u64,
}

/// What is asked of a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// How many calls a minute has.
    pub per_minute: u32,
    /// So many, or none are given.
    pub least: u32,
    /// At most so many.
    pub most: u32,
}

/// What was given of a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leased {
    /// So many calls.
    pub calls: u32,
    /// How many more could be given at once.
    pub left: u32,
    /// How long until the minute is full again.
    pub until_full: Duration,
}

/// Counts of a day, exact, and of a minute, which goes by the store's own clock.
///
/// A minute is a bucket of so many calls that fills evenly (GCRA): all of them at once, then one every minute divided by them.
#[async_trait::async_trait]
pub trait SharedLimits: Send + Sync + 'static {
    /// Raises a named counter of the store by what is asked, as far as its limit allows, durably. It is one of the store's counters: an absent
    /// one is 0.
    ///
    /// # Errors
    /// When the store fails.
    async fn take(&self, name: &str, take: Take) -> Result<Taken, StoreError>;

    /// Lowers a named counter by what was taken of it and not used, not below 0.
    ///
    /// # Errors
    /// When the store fails.
    async fn give_back(&self, name: &str, count: u64) -> Result<(), StoreError>;

    /// Takes calls out of the minute of a name. Need not outlive a crash of the store: a minute then begins full.
    ///
    /// # Errors
    /// When the store fails.
    async fn lease(&self, name: &str, lease: Lease) -> Result<Leased, StoreError>;

    /// Forgets minutes that are full again, and says how many these were.
    ///
    /// # Errors
    /// When the store fails.
    async fn forget_full_minutes(&self) -> Result<u64, StoreError>;
}

/// The time in which one call comes back; at least a nanosecond.
#[must_use]
pub fn cell_ns(per_minute: u32) -> u64 {
    (60_000_000_000 / u64::from(per_minute.max(1))).max(1)
}

/// Takes calls out of a minute that is full again at `full_at_ns`; says what was given and when it is full then.
#[must_use]
pub fn lease(full_at_ns: u64, now_ns: u64, lease: Lease) -> (Leased, u64) {
    let Lease { per_minute, least, most } = lease;
    let cell_ns = cell_ns(per_minute);
    // What a higher limit used is forgotten beyond a lower one.
    let full_at_ns = full_at_ns.max(now_ns).min(now_ns.saturating_add(cell_ns.saturating_mul(per_minute.into())));
    let used = u32::try_from((full_at_ns - now_ns).div_ceil(cell_ns)).unwrap_or(u32::MAX);
    let left = per_minute.saturating_sub(used);
    let calls = if left < least { 0 } else { left.min(most) };
    let full_at_ns = full_at_ns.saturating_add(cell_ns.saturating_mul(calls.into()));
    let leased = Leased { calls, left: left - calls, until_full: Duration::from_nanos(full_at_ns - now_ns) };
    (leased, full_at_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_minute_is_given_once_and_comes_back_call_by_call() {
        let ask = |least, most| Lease { per_minute: 60, least, most };
        let (first, full_at) = lease(0, 5 * SECOND, ask(1, 50));
        assert_eq!((first.calls, first.left, first.until_full), (50, 10, Duration::from_secs(50)));
        let (second, full_at) = lease(full_at, 5 * SECOND, ask(1, 50));
        assert_eq!((second.calls, second.left), (10, 0));
        let (third, same) = lease(full_at, 5 * SECOND, ask(1, 1));
        assert_eq!((third.calls, same), (0, full_at));
        let (fourth, _) = lease(full_at, 7 * SECOND, ask(3, 9));
        assert_eq!((fourth.calls, fourth.left), (0, 2), "all or nothing");
        let (fifth, _) = lease(full_at, 7 * SECOND, ask(2, 9));
        assert_eq!(fifth.calls, 2);
    }

    #[test]
    fn what_a_higher_limit_used_does_not_lock_out_under_a_lower_one_for_longer_than_a_minute() {
        let (_, full_at) = lease(0, 0, Lease { per_minute: 1, least: 1, most: 1 });
        let (refused, _) = lease(full_at, 0, Lease { per_minute: 1_000, least: 1, most: 1 });
        assert_eq!(refused.calls, 0);
        let (given, _) = lease(u64::MAX, 60 * SECOND, Lease { per_minute: 60, least: 1, most: 1 });
        assert_eq!((given.calls, given.until_full), (0, Duration::from_secs(60)), "a clock that was far ahead");
    }
}

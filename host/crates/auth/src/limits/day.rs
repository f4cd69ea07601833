//! The day: an exact count per UTC day, on disk before a call is allowed.
//!
//! A disk write for each call would be too expensive, so calls are reserved in blocks: the count on disk is ahead of
//! the calls by up to a block. After a restart the count on disk is taken as used, so it is too high by the unused
//! reservation: at most 15 calls, or one in ten thousand of the limit if that is more; none if the limit is below 20.
//! It is one more if the call for which the block was reserved is rejected by the minute.
//!
//! **Invariant:** calls allowed ≤ count on disk, always.

use jiff::civil::Date;

use daftar_domain::error::Cause;

/// The largest block of an ordinary limit.
const BLOCK_MAX: u32 = 16;
/// The divisor of the limit that gives its block, so that a crash does not cost a small limit much.
const BLOCK_PART: u32 = 10;
/// The divisor for limits beyond 160,000: they belong to clients whose calls would otherwise wait for the disk.
const BLOCK_PART_EXTRAORDINARY: u32 = 10_000;

/// A store of day counts on disk.
#[async_trait::async_trait]
pub trait DayCounts: Send + Sync + 'static {
    /// Returns the count of exactly this day and name; 0 if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    async fn load(&self, day: Date, name: &str) -> Result<u64, Cause>;

    /// Raises the count of this day and name to at least `up_to`; durable on return.
    ///
    /// # Errors
    /// If it cannot be written.
    async fn reserve(&self, day: Date, name: &str, up_to: u64) -> Result<(), Cause>;

    /// Removes the counts of all earlier days.
    ///
    /// # Errors
    /// If they cannot be removed.
    async fn forget_before(&self, day: Date) -> Result<(), Cause>;
}

/// Returns the number of calls in a block, for a limit.
pub(super) fn block(limit: u32) -> u32 {
    (limit / BLOCK_PART).clamp(1, BLOCK_MAX).max(limit / BLOCK_PART_EXTRAORDINARY)
}

/// One key's count of today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DayCount {
    day: Date,
    used: u32,
    /// The count on disk, as last read or written.
    reserved: u32,
    is_loaded: bool,
}

/// The I/O that is required before a call can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayPlan {
    /// None: there is a reserved call, or the day is used up.
    Nothing,
    /// The count on disk must be read.
    Load,
    /// The count on disk must be raised to this value.
    Reserve(u32),
}

impl DayCount {
    /// Creates a count that has not been read yet.
    pub(super) fn unknown(day: Date) -> Self {
        Self { day, used: 0, reserved: 0, is_loaded: false }
    }

    /// Starts a new day if the day has changed. A later day starts at zero. On an earlier day the clock was set back:
    /// the count continues, so that no client gets a second day or is limited by a future one.
    pub(super) fn roll(&mut self, today: Date) {
        if today > self.day {
            *self = Self::unknown(today);
        } else if today < self.day {
            *self = Self { day: today, reserved: 0, is_loaded: false, ..*self };
        }
    }

    /// Returns the I/O required before `calls` more calls of today can be counted or rejected.
    pub(super) fn plan(&self, limit: u32, calls: u32) -> DayPlan {
        let then_used = self.used.saturating_add(calls);
        if !self.is_loaded {
            DayPlan::Load
        } else if then_used > limit || then_used <= self.reserved {
            DayPlan::Nothing
        } else {
            DayPlan::Reserve(self.used.saturating_add(block(limit).max(calls)).min(limit))
        }
    }

    /// Returns the reservation that should be made now so that later calls need not wait: `Nothing` while at most three
    /// quarters of a block are used. Small limits with small blocks do not reserve ahead: their calls come one at a
    /// time, and a reservation ahead would wait for the disk as long as the next call does, and more often.
    pub(super) fn plan_ahead(&self, limit: u32) -> DayPlan {
        let block = block(limit);
        let ahead = self.reserved.saturating_sub(self.used);
        let up_to = self.used.saturating_add(block.saturating_sub(1)).min(limit);
        if !self.is_loaded || ahead > block / 4 || block < BLOCK_MAX || up_to <= self.reserved {
            DayPlan::Nothing
        } else {
            DayPlan::Reserve(up_to)
        }
    }

    /// Records the count found on disk for `day`.
    pub(super) fn loaded(&mut self, day: Date, stored: u64) {
        if day == self.day && !self.is_loaded {
            self.used = self.used.max(u32::try_from(stored).unwrap_or(u32::MAX));
            self.reserved = self.used;
            self.is_loaded = true;
        }
    }

    /// Records the count now on disk for `day`.
    pub(super) fn reserved(&mut self, day: Date, up_to: u32) {
        if day == self.day && self.is_loaded {
            self.reserved = self.reserved.max(up_to);
        }
    }

    /// Counts calls. Requires that [`Self::plan`] returned `Nothing` and that so many are left.
    pub(super) fn count(&mut self, calls: u32) {
        self.used = self.used.saturating_add(calls);
        debug_assert!(self.used <= self.reserved);
    }

    /// Returns the calls left of the limit.
    pub(super) fn remaining(&self, limit: u32) -> u32 {
        limit.saturating_sub(self.used)
    }

    /// Returns true if the count can be dropped and read back from disk without a change.
    pub(super) fn is_exact_on_disk(&self, today: Date) -> bool {
        self.day != today || self.used == self.reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn a_block_is_a_tenth_of_a_small_limit_and_a_ten_thousandth_of_a_huge_one() {
        for (limit, expected) in [
            (1, 1),
            (19, 1),
            (20, 2),
            (50, 5),
            (160, 16),
            (5_000, 16),
            (10_000, 16),
            (160_000, 16),
            (1_000_000, 100),
            (10_000_000, 1_000),
        ] {
            assert_eq!(block(limit), expected, "{limit}");
        }
    }

    #[test]
    fn reserves_blocks_never_beyond_the_limit() {
        let today = day("2026-03-01");
        let mut count = DayCount::unknown(today);
        assert_eq!(count.plan(20, 1), DayPlan::Load);
        count.loaded(today, 17);
        assert_eq!(count.plan(20, 1), DayPlan::Reserve(19));
        count.reserved(today, 19);
        count.count(1);
        count.count(1);
        assert_eq!((count.plan(20, 1), count.remaining(20)), (DayPlan::Reserve(20), 1));
        count.reserved(today, 20);
        count.count(1);
        assert_eq!((count.plan(20, 1), count.remaining(20)), (DayPlan::Nothing, 0));
        assert_eq!(count.plan(21, 1), DayPlan::Reserve(21), "a raised limit applies immediately");
        assert_eq!(count.remaining(5), 0, "a lowered limit applies immediately");
    }

    #[test]
    fn plans_ahead_when_a_quarter_of_the_block_is_left() {
        let today = day("2026-03-01");
        let mut count = DayCount::unknown(today);
        assert_eq!(count.plan_ahead(10_000), DayPlan::Nothing);
        count.loaded(today, 0);
        count.reserved(today, 16);
        for _ in 0..11 {
            count.count(1);
            assert_eq!(count.plan_ahead(10_000), DayPlan::Nothing);
        }
        count.count(1);
        assert_eq!(count.plan_ahead(10_000), DayPlan::Reserve(27));
        count.count(1);
        assert_eq!(count.plan_ahead(159), DayPlan::Nothing, "limits with small blocks do not plan ahead");
        for (reserved, used, limit, expected) in [
            (160, 157, 160, DayPlan::Nothing),
            (160, 157, 161, DayPlan::Reserve(161)),
            (1_000, 749, 10_000_000, DayPlan::Nothing),
            (1_000, 750, 10_000_000, DayPlan::Reserve(1_749)),
        ] {
            let mut count = DayCount::unknown(today);
            count.loaded(today, 0);
            count.reserved(today, reserved);
            count.count(used);
            assert_eq!(count.plan_ahead(limit), expected, "{used} of {reserved}, limit {limit}");
        }
    }

    #[test]
    fn a_count_is_dropped_when_the_disk_has_it_or_its_day_is_over() {
        let today = day("2026-03-01");
        let mut count = DayCount::unknown(today);
        count.loaded(today, 4);
        assert!(count.is_exact_on_disk(today));
        count.reserved(today, 16);
        assert!(!count.is_exact_on_disk(today) && count.is_exact_on_disk(day("2026-03-02")));
    }

    #[test]
    fn a_new_day_starts_at_zero_and_an_earlier_day_continues() {
        let (first, second) = (day("2026-03-01"), day("2026-03-02"));
        let mut count = DayCount::unknown(first);
        count.loaded(first, 40);
        count.roll(first);
        assert_eq!(count.remaining(50), 10);
        count.roll(second);
        assert_eq!((count.plan(50, 1), count.remaining(50)), (DayPlan::Load, 50));
        count.loaded(second, 3);
        count.reserved(first, 40);
        assert_eq!(count.plan(50, 1), DayPlan::Reserve(8), "a reservation of another day is ignored");
        count.roll(first);
        assert_eq!((count.plan(50, 1), count.remaining(50)), (DayPlan::Load, 47));
        assert!(!count.is_exact_on_disk(first), "the calls of the later day are on disk there only");
        count.loaded(second, 9);
        assert_eq!(count.plan(50, 1), DayPlan::Load, "values of another day are ignored");
        count.loaded(first, 40);
        assert_eq!(count.remaining(50), 10);
    }
}

//! The day: an exact count per UTC day, on disk before a call is let through.
//!
//! Writing each call would cost a disk write each, so calls are reserved in blocks: the count on disk runs ahead of the
//! calls by up to a block. After a restart the count on disk is taken for used, so it is too high by what was reserved
//! and not used: at most 15 calls, or one in ten thousand of the limit where that is more; nothing where the limit is
//! below 20.
//!
//! **Invariant:** calls let through ≤ count on disk, always.

use jiff::civil::Date;

use daftar_domain::error::Cause;

/// The greatest block of a limit that is not extraordinary.
const BLOCK_MAX: u32 = 16;
/// A block is no more than this part of the limit, so that a crash does not cost a small limit much.
const BLOCK_PART: u32 = 10;
/// Of limits beyond 160,000 a block is this part: they belong to clients whose calls would else wait for the disk.
const BLOCK_PART_EXTRAORDINARY: u32 = 10_000;

/// Keeps the counts of days on disk.
#[async_trait::async_trait]
pub trait DayCounts: Send + Sync + 'static {
    /// The count of exactly that day and name; 0 when there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn load(&self, day: Date, name: &str) -> Result<u64, Cause>;

    /// Raises the count of that day and name to at least `up_to`; on disk when it returns.
    ///
    /// # Errors
    /// When it cannot be written.
    async fn reserve(&self, day: Date, name: &str, up_to: u64) -> Result<(), Cause>;

    /// Removes the counts of all days before that one.
    ///
    /// # Errors
    /// When they cannot be removed.
    async fn forget_before(&self, day: Date) -> Result<(), Cause>;
}

/// How many calls are reserved at once under a limit.
pub(super) fn block(limit: u32) -> u32 {
    (limit / BLOCK_PART).clamp(1, BLOCK_MAX).max(limit / BLOCK_PART_EXTRAORDINARY)
}

/// One key's count of today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DayCount {
    day: Date,
    used: u32,
    /// The count on disk, as far as known here.
    reserved: u32,
    is_loaded: bool,
}

/// What must be done before a call can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DayPlan {
    /// Nothing: there is a reserved call, or the day is used up.
    Nothing,
    /// The count on disk must be read.
    Load,
    /// The count on disk must be raised to that.
    Reserve(u32),
}

impl DayCount {
    /// A count of which nothing is known yet.
    pub(super) fn unknown(day: Date) -> Self {
        Self { day, used: 0, reserved: 0, is_loaded: false }
    }

    /// Begins another day, if it is another. A day that comes later starts anew. On one that comes earlier the clock
    /// was set back: the count goes on, so that nobody gets a second day, and nobody is held to a day that has not
    /// come.
    pub(super) fn roll(&mut self, today: Date) {
        if today > self.day {
            *self = Self::unknown(today);
        } else if today < self.day {
            *self = Self { day: today, reserved: 0, is_loaded: false, ..*self };
        }
    }

    /// What must be done before so many more calls of today can be counted, or refused.
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

    /// What should be reserved now so that the calls to come need not wait: `Nothing` while three quarters of a block
    /// or less are used. Under a limit so small that its blocks are smaller than most, calls come one at a time: whoever reserved ahead
    /// would wait for the disk as long as the next one does, and more often.
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

    /// Notes the count found on disk for that day.
    pub(super) fn loaded(&mut self, day: Date, stored: u64) {
        if day == self.day && !self.is_loaded {
            self.used = self.used.max(u32::try_from(stored).unwrap_or(u32::MAX));
            self.reserved = self.used;
            self.is_loaded = true;
        }
    }

    /// Notes what is on disk now for that day.
    pub(super) fn reserved(&mut self, day: Date, up_to: u32) {
        if day == self.day && self.is_loaded {
            self.reserved = self.reserved.max(up_to);
        }
    }

    /// Counts calls. Only where [`Self::plan`] says that nothing must be done first and so many are left.
    pub(super) fn count(&mut self, calls: u32) {
        self.used = self.used.saturating_add(calls);
        debug_assert!(self.used <= self.reserved);
    }

    /// How many calls are left of the limit.
    pub(super) fn remaining(&self, limit: u32) -> u32 {
        limit.saturating_sub(self.used)
    }

    /// Whether it can be dropped and read back from disk without a change.
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
    fn reserves_a_block_counts_it_down_and_never_beyond_the_limit() {
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
        assert_eq!(count.plan(21, 1), DayPlan::Reserve(21), "a raised limit acts at once");
        assert_eq!(count.remaining(5), 0, "and so does a lowered one");
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
        assert_eq!(count.plan_ahead(16), DayPlan::Nothing, "all that the limit allows is reserved");
        assert_eq!(count.plan_ahead(159), DayPlan::Nothing, "whose blocks are small comes seldom");
    }

    #[test]
    fn a_new_day_starts_anew_and_a_day_that_comes_back_goes_on() {
        let (first, second) = (day("2026-03-01"), day("2026-03-02"));
        let mut count = DayCount::unknown(first);
        count.loaded(first, 40);
        count.roll(first);
        assert_eq!(count.remaining(50), 10);
        count.roll(second);
        assert_eq!((count.plan(50, 1), count.remaining(50)), (DayPlan::Load, 50));
        count.loaded(second, 3);
        count.roll(first);
        assert_eq!((count.plan(50, 1), count.remaining(50)), (DayPlan::Load, 47));
        count.loaded(second, 9);
        assert_eq!(count.plan(50, 1), DayPlan::Load, "what is told of another day does not count");
        count.loaded(first, 40);
        assert_eq!(count.remaining(50), 10);
    }
}

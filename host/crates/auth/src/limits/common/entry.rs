//! The calls of a client that a process has reserved, and the decisions that need no store query.

use std::time::Duration;

use jiff::civil::Date;

use crate::limits::allowance::{Window, nanoseconds};
use crate::limits::bucket::{Calls, TimeReading, until_tomorrow};
use crate::limits::day::block;
use crate::limits::shards::KeyEntry;
use crate::limits::{Decision, Quota, RateHeaders, Refill, Refusal};
use daftar_domain::call_counts::{OfWindow, Wanted, cell_ns};

/// The divisor of a minute that gives the largest chunk.
const CHUNK_PART: u32 = 20;
/// The time without a call after which a client is idle.
const IDLE_NS: u64 = 60_000_000_000;
/// The time for which a rejection is repeated without a query.
const REFUSED_NS: u64 = 1_000_000_000;

/// The reserved calls of a key in this process, and the result of the last store query.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) day: Date,
    /// Reserved calls of the day, not used.
    pub(super) day_held: u32,
    /// The day's count, of all processes.
    pub(super) day_count: u64,
    /// Reserved calls of the minute, not used; valid until the lease ends.
    pub(super) minute_held: u32,
    pub(super) lease_ends_ns: u64,
    pub(super) leased_at_ns: u64,
    /// The number of calls of a minute that are reserved together.
    pub(super) chunk: u32,
    /// The time at which the minute is full again.
    pub(super) full_at_ns: u64,
    /// The calls of all processes in a sliding window, if the quota has one.
    pub(super) window: Window,
    pub(super) refused: Option<Refused>,
    pub(super) called_at_ns: u64,
}

/// A cached rejection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    refusal: Refusal,
    quota: Quota,
    calls: u32,
    until_ns: u64,
}

/// The store query that is required before a call can be decided.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask {
    Day(Wanted),
    Minute(Wanted),
    /// All calls of the request, of a sliding window.
    Window,
}

impl Entry {
    pub(super) fn new(moment: TimeReading) -> Self {
        Self { day: moment.today, chunk: 1, called_at_ns: moment.steady_ns, ..Self::default() }
    }

    /// Starts a new day if the day has changed, without the rejection of the last one, and drops an expired lease.
    pub(super) fn roll(&mut self, moment: TimeReading) {
        self.called_at_ns = moment.steady_ns;
        if self.day != moment.today {
            (self.day, self.day_held, self.day_count, self.refused) = (moment.today, 0, 0, None);
        }
        if self.lease_ends_ns <= moment.steady_ns {
            self.minute_held = 0;
        }
    }

    pub(super) fn day_left(&self, quota: Quota) -> u32 {
        let used = self.day_count.saturating_sub(self.day_held.into());
        u32::try_from(u64::from(quota.per_day).saturating_sub(used)).unwrap_or(u32::MAX)
    }

    /// Decides as far as possible without a query: the day first, then the minute; a call rejected by one counts in
    /// neither.
    pub(super) fn attempt(&mut self, quota: Quota, calls: Calls, moment: TimeReading) -> Result<Decision, Ask> {
        self.roll(moment);
        let count = calls.count();
        let is_reported_again = self
            .refused
            .filter(|refused| refused.quota == quota && refused.calls <= count && moment.steady_ns < refused.until_ns);
        if let Some(Refused { refusal, .. }) = is_reported_again {
            return Ok(self.refusal(refusal, quota, calls, moment));
        }
        // More calls than the whole limit: no query is required.
        if quota.per_day < count {
            return Ok(self.refusal(Refusal::Day, quota, calls, moment));
        }
        if self.day_left(quota) < count {
            // Other processes may have returned some.
            return Err(Ask::Day(Wanted { least: count, most: count }));
        }
        if self.day_held < count {
            let missing = count - self.day_held;
            return Err(Ask::Day(Wanted { least: missing, most: missing.max(block(quota.per_day)) }));
        }
        if quota.per_minute < count {
            return Ok(self.refusal(Refusal::Minute, quota, calls, moment));
        }
        if quota.refill == Refill::Window {
            // Calls leave a window only by time, so a window that is full here is full everywhere.
            let is_full = !self.until_room(quota, count, moment).is_zero();
            return if is_full { Ok(self.refusal(Refusal::Minute, quota, calls, moment)) } else { Err(Ask::Window) };
        }
        if self.minute_held < count {
            let missing = count - self.minute_held;
            return Err(Ask::Minute(Wanted { least: missing, most: missing.max(self.next_chunk(quota, moment)) }));
        }
        self.day_held -= count;
        self.minute_held -= count;
        self.refused = None;
        Ok(Decision::Allowed { headers: self.headers(quota, moment) })
    }

    /// Records the state of a sliding window in the store, and decides by it; `None` if the day must be queried again.
    pub(super) fn windowed(
        &mut self,
        given: &OfWindow,
        quota: Quota,
        calls: Calls,
        moment: TimeReading,
    ) -> Option<Decision> {
        self.window = Window::leaving_after(&given.until_left, moment.steady_ns);
        if !given.is_taken {
            return Some(self.refusal(Refusal::Minute, quota, calls, moment));
        }
        self.day_held = self.day_held.checked_sub(calls.count())?;
        Some(Decision::Allowed { headers: self.headers(quota, moment) })
    }

    /// Returns about the number of calls in the last second.
    pub(super) fn next_chunk(&self, quota: Quota, moment: TimeReading) -> u32 {
        let most = (quota.per_minute / CHUNK_PART).max(1);
        let since_ns = moment.steady_ns.saturating_sub(self.leased_at_ns);
        let next = match since_ns {
            0..1_000_000_000 => self.chunk.saturating_mul(2),
            1_000_000_000..5_000_000_000 => self.chunk,
            5_000_000_000.. => 1,
        };
        next.clamp(1, most)
    }

    pub(super) fn refuse(&mut self, refusal: Refusal, quota: Quota, calls: Calls, moment: TimeReading) -> Decision {
        let decision = self.refusal(refusal, quota, calls, moment);
        let room_ns = match refusal {
            Refusal::Minute => nanoseconds(self.until_room(quota, calls.count(), moment)),
            Refusal::Day | Refusal::AtCapacity => REFUSED_NS,
        };
        let until_ns = moment.steady_ns.saturating_add(room_ns.min(REFUSED_NS));
        self.refused = Some(Refused { refusal, quota, calls: calls.count(), until_ns });
        decision
    }

    pub(super) fn refusal(&self, refusal: Refusal, quota: Quota, calls: Calls, moment: TimeReading) -> Decision {
        // A retry must be allowed by both: a new day does not refill the minute.
        let until_minute = self.until_room(quota, calls.again(), moment);
        let is_day_full = refusal == Refusal::Day || self.day_left(quota) < calls.again();
        let until_day = if is_day_full { until_tomorrow(moment) } else { Duration::ZERO };
        Decision::refused(refusal, quota, self.headers(quota, moment), until_minute.max(until_day))
    }

    /// Returns the time until the minute allows `calls`, if no other call comes first.
    pub(super) fn until_room(&self, quota: Quota, calls: u32, moment: TimeReading) -> Duration {
        if quota.refill == Refill::Window {
            return self.window.until_room(quota.per_minute, calls, moment.steady_ns);
        }
        let missing = quota.per_minute.saturating_sub(calls);
        let room_at_ns = self.full_at_ns.saturating_sub(cell_ns(quota.per_minute).saturating_mul(missing.into()));
        Duration::from_nanos(room_at_ns.saturating_sub(moment.steady_ns))
    }

    pub(super) fn minute_left(&self, quota: Quota, moment: TimeReading) -> u32 {
        if quota.refill == Refill::Window {
            return self.window.left(quota.per_minute, moment.steady_ns);
        }
        let used = self.full_at_ns.saturating_sub(moment.steady_ns).div_ceil(cell_ns(quota.per_minute));
        let left = quota.per_minute.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX));
        left.saturating_add(self.minute_held).min(quota.per_minute)
    }

    /// Returns the headers of the window with fewer calls left, as far as known here: calls that other processes
    /// allowed since the last query are not included.
    pub(super) fn headers(&self, quota: Quota, moment: TimeReading) -> RateHeaders {
        let left = (self.day_left(quota), self.minute_left(quota, moment));
        RateHeaders::of(quota, left, moment, || match quota.refill {
            Refill::Even => Duration::from_nanos(self.full_at_ns.saturating_sub(moment.steady_ns)),
            Refill::Window => self.window.until_full(moment.steady_ns),
        })
    }
}

impl KeyEntry for Entry {
    fn is_idle(&self, moment: TimeReading) -> bool {
        moment.steady_ns.saturating_sub(self.called_at_ns) >= IDLE_NS
    }
}

//! One bucket: the calls that each key (client or address) has used of its minute and its day.
//!
//! Memory contains the calling keys; the disk contains the counts. An idle key, whose minute is full again, is dropped
//! within a minute if its count on disk is exact, and else at the end of the day. When the bucket is at its limit of
//! keys, idle keys are evicted with their reservations: their counts may then be one block too high, as after a crash.
//! If there are no idle keys, so many addresses called within one minute that only an attack explains it, and new
//! addresses are rejected: present keys continue, and filling the bucket gains an attacker nothing.
//!
//! **Invariant:** reserved calls are recorded here even if the requesting client has disconnected: otherwise they would
//! count as used when the key is dropped and read back.

use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use tokio::sync::OwnedMutexGuard;
use tracing::Instrument as _;

use super::allowance::{Allowance, MinuteOutcome};
use super::day::{DayCount, DayCounts, DayPlan};
use super::shards::{KeyEntry, Shard, Shards};
use super::{Decision, Quota, RateHeaders, Refusal};
use daftar_domain::error::{AppError, Cause};

/// The number of times that a call may lose its reservation to concurrent calls before the server reports that it is
/// busy.
const ATTEMPTS_MAX: usize = 32;
/// The time at which a call is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeReading {
    /// The wall-clock time.
    pub now: Timestamp,
    /// The UTC day of `now`.
    pub today: Date,
    /// The monotonic time, in nanoseconds.
    pub steady_ns: u64,
}

/// The cost of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calls {
    /// The calls counted now.
    count: u32,
    /// The calls that must be available when the client retries.
    again: u32,
}

impl Calls {
    /// The cost of an ordinary call.
    pub(super) const ONE: Self = Self { count: 1, again: 1 };

    /// Returns the calls counted now.
    pub(super) fn count(self) -> u32 {
        self.count
    }

    /// Returns the calls that must be available when the client retries.
    pub(super) fn again(self) -> u32 {
        self.again
    }

    /// Returns the rest of `calls` after the first was counted.
    pub(super) fn rest_of(calls: u32) -> Self {
        Self { count: calls.saturating_sub(1), again: calls }
    }
}

/// The used calls of each key.
pub(super) struct Bucket<K> {
    shards: Shards<K, Entry>,
    counts: Arc<dyn DayCounts>,
}

struct Entry {
    minute: Allowance,
    day: DayCount,
}

impl KeyEntry for Entry {
    fn is_idle(&self, moment: TimeReading) -> bool {
        self.minute.until_full(moment.steady_ns).is_zero()
    }
}

/// The outcome of counting a call without I/O.
enum Attempt {
    /// The call is decided. `is_block_low`: the next block should be reserved now.
    Decided { decision: Decision, is_block_low: bool },
    /// The count on disk must be read or raised first.
    NeedsDisk,
}

impl<K: Clone + Eq + Hash + Display + Send + 'static> Bucket<K> {
    /// Creates an empty bucket; the name is part of the names of its counts on disk.
    pub(super) fn new(name: &'static str, keys_max: usize, counts: Arc<dyn DayCounts>) -> Self {
        Self { shards: Shards::new(name, keys_max), counts }
    }

    /// Counts calls of a key, if its minute and its day allow all of them. Waits for the disk only when a block of
    /// reserved calls is used up, and for one call in each block to reserve the next.
    pub(super) async fn charge(
        &self,
        key: &K,
        quota: Quota,
        calls: Calls,
        moment: impl Fn() -> TimeReading,
    ) -> Result<Decision, AppError> {
        let shard = self.shards.of(key);
        for _ in 0..ATTEMPTS_MAX {
            let now = moment();
            match self.attempt(shard, key, quota, calls, now) {
                Attempt::Decided { decision, is_block_low } => {
                    // This call is on disk already, so a concurrent or failed reservation does not matter: the call
                    // that uses up the block waits for the next one and gets the error.
                    if is_block_low && let Ok(turn) = Arc::clone(&shard.turn).try_lock_owned() {
                        let plan = move |day: &DayCount| day.plan_ahead(quota.per_day);
                        let _ = self.reserve(turn, shard, key, now, plan).await;
                    }
                    return Ok(decision);
                }
                Attempt::NeedsDisk => {
                    let turn = Arc::clone(&shard.turn).lock_owned().await;
                    let plan = move |day: &DayCount| day.plan(quota.per_day, calls.count);
                    self.reserve(turn, shard, key, now, plan).await?;
                }
            }
        }
        Err(AppError::Busy)
    }

    /// Drops idle keys that need not be stored.
    pub(super) fn prune(&self, moment: TimeReading) {
        self.shards.retain(|_, entry| !(entry.is_idle(moment) && entry.day.is_exact_on_disk(moment.today)));
    }

    /// Decides on a call as far as possible without I/O.
    fn attempt(&self, shard: &Shard<K, Entry>, key: &K, quota: Quota, calls: Calls, moment: TimeReading) -> Attempt {
        let new = || Entry { minute: Allowance::full(quota), day: DayCount::unknown(moment.today) };
        let attempt = |entry: &mut Entry| entry.attempt(quota, calls, moment);
        let attempted = self.shards.admit(shard, key, (quota, moment), new, attempt);
        attempted.unwrap_or_else(|decision| Attempt::Decided { decision, is_block_low: false })
    }

    /// Reads or raises the count on disk as planned. Runs in a task of its own, which holds the lock, so that the
    /// reservation is recorded even if the client has disconnected.
    async fn reserve(
        &self,
        turn: OwnedMutexGuard<()>,
        shard: &Arc<Shard<K, Entry>>,
        key: &K,
        moment: TimeReading,
        plan: impl Fn(&DayCount) -> DayPlan + Send + 'static,
    ) -> Result<(), AppError> {
        let (counts, shard, key) = (Arc::clone(&self.counts), Arc::clone(shard), key.clone());
        let (name, today) = (self.shards.name_of(&key), moment.today);
        let reserving = async move {
            let mut next = planned(&shard, &key, |_| {}, &plan);
            if next == DayPlan::Load {
                let stored = counts.load(today, &name).await?;
                next = planned(&shard, &key, |day| day.loaded(today, stored), &plan);
            }
            if let DayPlan::Reserve(up_to) = next {
                counts.reserve(today, &name, up_to.into()).await?;
                planned(&shard, &key, |day| day.reserved(today, up_to), &plan);
            }
            drop(turn);
            Ok::<_, Cause>(())
        };
        let reserved = tokio::spawn(reserving.in_current_span()).await;
        reserved.map_err(AppError::of_task)?.map_err(AppError::Unavailable)
    }

    /// Returns the number of keys in memory.
    pub(super) fn len(&self) -> usize {
        self.shards.len()
    }
}

/// Records a change of a key's count, and returns the I/O that is required next. Another call may have done it, the day
/// may have changed, the key may have been dropped: it is planned again after each I/O.
fn planned<K: Clone + Eq + Hash>(
    shard: &Shard<K, Entry>,
    key: &K,
    record: impl FnOnce(&mut DayCount),
    plan: &impl Fn(&DayCount) -> DayPlan,
) -> DayPlan {
    let planned = shard.find(key, |entry| {
        record(&mut entry.day);
        plan(&entry.day)
    });
    planned.unwrap_or(DayPlan::Nothing)
}

impl Entry {
    /// Checks the day first, then the minute; a call rejected by one counts in neither.
    fn attempt(&mut self, quota: Quota, calls: Calls, moment: TimeReading) -> Attempt {
        self.day.roll(moment.today);
        match self.day.plan(quota.per_day, calls.count) {
            DayPlan::Load | DayPlan::Reserve(_) => return Attempt::NeedsDisk,
            DayPlan::Nothing => {}
        }
        self.minute.set_limit(quota, moment.steady_ns);
        let day_left = self.day.remaining(quota.per_day);
        let refusal = if day_left < calls.count {
            Some(Refusal::Day)
        } else {
            match self.minute.charge(quota, calls.count, moment.steady_ns) {
                MinuteOutcome::Allowed => None,
                MinuteOutcome::Refused => Some(Refusal::Minute),
            }
        };
        if let Some(refusal) = refusal {
            // A retry must be allowed by both: a new day does not refill the minute.
            let until_minute = self.minute.until_room(quota, calls.again, moment.steady_ns);
            let until_day = if day_left < calls.again { until_tomorrow(moment) } else { Duration::ZERO };
            let headers = self.headers(quota, moment);
            let decision = Decision::refused(refusal, quota, headers, until_minute.max(until_day));
            return Attempt::Decided { decision, is_block_low: false };
        }
        self.day.count(calls.count);
        let decision = Decision::Allowed { headers: self.headers(quota, moment) };
        Attempt::Decided { decision, is_block_low: self.day.plan_ahead(quota.per_day) != DayPlan::Nothing }
    }

    /// Returns the headers of the window with fewer calls left, of the day on a tie.
    fn headers(&self, quota: Quota, moment: TimeReading) -> RateHeaders {
        let (day_left, minute_left) = (self.day.remaining(quota.per_day), self.minute.left(quota, moment.steady_ns));
        RateHeaders::of(quota, (day_left, minute_left), moment, || self.minute.until_full(moment.steady_ns))
    }
}

/// Returns the remaining time of the UTC day.
pub(super) fn until_tomorrow(moment: TimeReading) -> Duration {
    const DAY_NS: i128 = 86_400_000_000_000;
    let left = DAY_NS - moment.now.as_nanosecond().rem_euclid(DAY_NS);
    Duration::from_nanos(u64::try_from(left).unwrap_or(0))
}

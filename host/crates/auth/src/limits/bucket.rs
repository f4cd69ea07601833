//! One bucket: what each key, a client or an address, has used of its minute and its day.
//!
//! Memory holds the keys that call; the disk holds the counts. A key that is idle, its minute full again, is dropped
//! each minute if its count on disk is exact, and else when its day is over. When a bucket has as many keys as it may,
//! idle ones are dropped with what they had reserved: their counts may then be one block too high, as after a crash.
//! When not even that makes room, so many addresses called within one minute that only an attack explains it, and a new
//! address is refused: keys that are there go on, and no one gains anything by filling the bucket.
//!
//! **Invariant:** whatever is decided about a key is decided under the lock of its shard; no lock is held while waiting
//! for the disk, but for the turn to write.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;

use super::Quota;
use super::allowance::Allowance;
use super::allowance::MinuteOutcome;
use super::day::{DayCount, DayCounts, DayPlan};
use super::{Decision, RateHeaders, Refusal, seconds_up};
use daftar_domain::error::AppError;

/// Independent parts of the map, so that calls of different keys seldom wait for each other.
pub(super) const SHARDS: usize = 80;
/// A full shard is searched for idle keys at most this often.
const EVICTION_PAUSE_NS: u64 = 1_000_000_000;
/// How often a call may find that others used up what it had reserved before it is told that the server is busy.
const ATTEMPTS_MAX: usize = 32;
/// How long a new address waits when a bucket is full of busy ones.
const CROWDED_RETRY_S: u64 = 60;

/// When a call is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// By the clock on the wall.
    pub now: Timestamp,
    /// The UTC day of that.
    pub today: Date,
    /// By the time that goes on evenly whatever the wall clock is set to, in nanoseconds.
    pub steady_ns: u64,
}

/// How many calls are counted at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calls {
    /// So many now.
    count: u32,
    /// So many would have to be let through when the caller tries again.
    again: u32,
}

impl Calls {
    /// A call like nearly all.
    pub(super) const ONE: Self = Self { count: 1, again: 1 };

    /// How many are counted now.
    pub(super) fn count(self) -> u32 {
        self.count
    }

    /// How many would have to be let through when the caller tries again.
    pub(super) fn again(self) -> u32 {
        self.again
    }

    /// What is left of `calls` when the first of them has been counted.
    pub(super) fn rest_of(calls: u32) -> Self {
        Self { count: calls.saturating_sub(1), again: calls }
    }
}

/// What each key has used.
pub(super) struct Bucket<K> {
    name: &'static str,
    hasher: RandomState,
    shards: Box<[Shard<K>]>,
    keys_max: usize,
    counts: Arc<dyn DayCounts>,
}

struct Shard<K> {
    keys: Mutex<Keys<K>>,
    /// Whose turn it is to write counts of this shard's keys: one call reserves for all that wait.
    turn: tokio::sync::Mutex<()>,
}

struct Keys<K> {
    entries: HashMap<K, Entry>,
    /// When to look for idle keys again.
    evict_at_ns: u64,
}

struct Entry {
    minute: Allowance,
    day: DayCount,
}

impl Entry {
    fn is_idle(&self, moment: Moment) -> bool {
        self.minute.until_full(moment.steady_ns).is_zero()
    }
}

/// How far a call came without waiting.
enum Attempt {
    /// All the way. Whether the next block should be reserved now.
    Decided { decision: Decision, is_block_low: bool },
    /// The count on disk must be read or raised first.
    NeedsDisk,
}

impl<K: Clone + Eq + Hash + Display> Bucket<K> {
    /// An empty bucket; the name is part of the names of its counts on disk.
    pub(super) fn new(name: &'static str, keys_max: usize, counts: Arc<dyn DayCounts>) -> Self {
        let shard = |_| Shard {
            keys: Mutex::new(Keys { entries: HashMap::new(), evict_at_ns: 0 }),
            turn: tokio::sync::Mutex::new(()),
        };
        Self { name, hasher: RandomState::new(), shards: (0..SHARDS).map(shard).collect(), keys_max, counts }
    }

    /// Counts calls of a key, if its minute and its day have room for all of them. Waits for the disk only when a block of reserved
    /// calls is used up, and for one call in each block to reserve the next.
    pub(super) async fn charge(
        &self,
        key: &K,
        quota: Quota,
        calls: Calls,
        moment: impl Fn() -> Moment,
    ) -> Result<Decision, AppError> {
        let shard = self.shard(key);
        for _ in 0..ATTEMPTS_MAX {
            let now = moment();
            match self.attempt(shard, key, quota, calls, now) {
                Attempt::Decided { decision, is_block_low } => {
                    // This call is on disk already, so it does not matter if another is reserving or if that fails:
                    // whoever finds the block used up waits for it and hears of it.
                    if is_block_low && let Ok(_turn) = shard.turn.try_lock() {
                        let _ = self.reserve(shard, key, now, |day| day.plan_ahead(quota.per_day)).await;
                    }
                    return Ok(decision);
                }
                Attempt::NeedsDisk => {
                    let _turn = shard.turn.lock().await;
                    self.reserve(shard, key, now, |day| day.plan(quota.per_day, calls.count)).await?;
                }
            }
        }
        Err(AppError::Busy)
    }

    /// Drops keys that are idle and need not be remembered.
    pub(super) fn prune(&self, moment: Moment) {
        for shard in &self.shards {
            // A key whose first calls are just being reserved looks unused: dropped now, it would come back with them used.
            let Ok(_turn) = shard.turn.try_lock() else { continue };
            let entries = &mut lock(shard).entries;
            entries.retain(|_, entry| !(entry.is_idle(moment) && entry.day.is_exact_on_disk(moment.today)));
            if entries.capacity() / 4 > entries.len() {
                entries.shrink_to_fit();
            }
        }
    }

    /// Decides as far as that goes without the disk.
    fn attempt(&self, shard: &Shard<K>, key: &K, quota: Quota, calls: Calls, moment: Moment) -> Attempt {
        let mut keys = lock(shard);
        if !keys.entries.contains_key(key) {
            if !keys.make_room(self.keys_max / SHARDS, moment) {
                let headers = RateHeaders { limit: quota.per_minute, remaining: 0, reset_s: CROWDED_RETRY_S };
                let (refusal, limit) = (Refusal::Crowded, quota.per_minute);
                let decision = Decision::Refused { refusal, limit, headers, retry_after_s: CROWDED_RETRY_S };
                return Attempt::Decided { decision, is_block_low: false };
            }
            let entry = Entry { minute: Allowance::full(quota), day: DayCount::unknown(moment.today) };
            keys.entries.insert(key.clone(), entry);
        }
        match keys.entries.get_mut(key) {
            Some(entry) => entry.attempt(quota, calls, moment),
            None => Attempt::NeedsDisk,
        }
    }

    /// Reads or raises the count on disk as planned. The caller has the turn.
    async fn reserve(
        &self,
        shard: &Shard<K>,
        key: &K,
        moment: Moment,
        plan: impl Fn(&DayCount) -> DayPlan,
    ) -> Result<(), AppError> {
        let name = format!("{}/{key}", self.name);
        // Another call may have done it, the day may have changed, the key may have been dropped: look again each time.
        let look = |note: &dyn Fn(&mut DayCount)| {
            let mut keys = lock(shard);
            keys.entries.get_mut(key).map_or(DayPlan::Nothing, |entry| {
                note(&mut entry.day);
                plan(&entry.day)
            })
        };
        let mut next = look(&|_| {});
        if next == DayPlan::Load {
            let stored = self.counts.load(moment.today, &name).await.map_err(AppError::Unavailable)?;
            next = look(&|day| day.loaded(moment.today, stored));
        }
        if let DayPlan::Reserve(up_to) = next {
            self.counts.reserve(moment.today, &name, up_to.into()).await.map_err(AppError::Unavailable)?;
            look(&|day| day.reserved(moment.today, up_to));
        }
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder by the number of shards is the index of one")]
    fn shard(&self, key: &K) -> &Shard<K> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// How many keys are kept now.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }
}

impl<K: Eq + Hash> Keys<K> {
    /// Whether there is room for one more key, after idle ones were dropped if need be.
    fn make_room(&mut self, keys_max: usize, moment: Moment) -> bool {
        if self.entries.len() >= keys_max && moment.steady_ns >= self.evict_at_ns {
            self.entries.retain(|_, entry| !entry.is_idle(moment));
            self.evict_at_ns = moment.steady_ns.saturating_add(EVICTION_PAUSE_NS);
        }
        self.entries.len() < keys_max
    }
}

impl Entry {
    /// The day first, then the minute; what one refuses counts in neither.
    fn attempt(&mut self, quota: Quota, calls: Calls, moment: Moment) -> Attempt {
        self.day.roll(moment.today);
        match self.day.plan(quota.per_day, calls.count) {
            DayPlan::Load | DayPlan::Reserve(_) => return Attempt::NeedsDisk,
            DayPlan::Nothing => {}
        }
        self.minute.set_limit(quota, moment.steady_ns);
        let day_left = self.day.remaining(quota.per_day);
        let refusal = if day_left < calls.count {
            Some((Refusal::Day, quota.per_day))
        } else {
            match self.minute.charge(quota, calls.count, moment.steady_ns) {
                MinuteOutcome::Allowed => None,
                MinuteOutcome::Refused => Some((Refusal::Minute, quota.per_minute)),
            }
        };
        if let Some((refusal, limit)) = refusal {
            // What is tried again must have room in both: a day that begins gives no new minute.
            let until_minute = self.minute.until_room(quota, calls.again, moment.steady_ns);
            let until_day = if day_left < calls.again { until_tomorrow(moment) } else { Duration::ZERO };
            let retry_after_s = seconds_up(until_minute.max(until_day)).max(1);
            let headers = self.headers(quota, moment);
            let decision = Decision::Refused { refusal, limit, headers, retry_after_s };
            return Attempt::Decided { decision, is_block_low: false };
        }
        self.day.count(calls.count);
        let decision = Decision::Allowed { headers: self.headers(quota, moment) };
        Attempt::Decided { decision, is_block_low: self.day.plan_ahead(quota.per_day) != DayPlan::Nothing }
    }

    /// What is told of the window that has fewer calls left, of the day where both have the same.
    fn headers(&self, quota: Quota, moment: Moment) -> RateHeaders {
        let (day_left, minute_left) = (self.day.remaining(quota.per_day), self.minute.left(quota, moment.steady_ns));
        if day_left <= minute_left {
            let reset_s = seconds_up(until_tomorrow(moment)).max(1);
            RateHeaders { limit: quota.per_day, remaining: day_left, reset_s }
        } else {
            let reset_s = seconds_up(self.minute.until_full(moment.steady_ns));
            RateHeaders { limit: quota.per_minute, remaining: minute_left, reset_s }
        }
    }
}

/// How long the UTC day still lasts.
pub(super) fn until_tomorrow(moment: Moment) -> Duration {
    const DAY_NS: i128 = 86_400_000_000_000;
    let left = DAY_NS - moment.now.as_nanosecond().rem_euclid(DAY_NS);
    Duration::from_nanos(u64::try_from(left).unwrap_or(0))
}

fn lock<K>(shard: &Shard<K>) -> MutexGuard<'_, Keys<K>> {
    shard.keys.lock().unwrap_or_else(PoisonError::into_inner)
}

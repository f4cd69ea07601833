//! A bucket that several processes share: what a caller may do is counted in the store, and each process holds a small share of it.
//!
//! Asking the store for each call would cost a question each, so calls are taken in chunks: of the day as many as are reserved at once on
//! a disk of one's own ([`day`](super::day)), of the minute as many as this process used in the last second, a twentieth at most. What of a day
//! was taken and not used is given back when its caller is idle for a minute and when the server stops; what of a minute was taken is
//! used within `LEASE_NS` or is over.
//!
//! **Invariant:** over all processes no more calls of a day are let through than its limit: a call is let through when it is counted in the
//! store, never before. A process that is killed leaves the day's count too high by what it held: a block at most.
//!
//! **Invariant:** over all processes no more calls are let through than a minute's bucket gives, and for each process a chunk that it took
//! before: a twentieth of the limit.
//!
//! **Invariant:** where the store does not answer, what is held is used up, and then nothing is let through.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use jiff::civil::Date;

use super::Quota;
use super::bucket::{Calls, Moment, SHARDS, until_tomorrow};
use super::day::block;
use super::decision::{Decision, RateHeaders, Refusal, seconds_up};
use crate::error::{AppError, Cause};

/// How long what was taken of a minute may be used.
pub(super) const LEASE_NS: u64 = 10_000_000_000;
/// At most this part of a minute is taken at once.
const CHUNK_PART: u32 = 20;
/// A caller is idle that did not call for so long.
const IDLE_NS: u64 = 60_000_000_000;
/// A refusal is told again without asking for so long.
const REFUSED_NS: u64 = 1_000_000_000;
/// How often a call may find that others used what it had taken before it is told that the server is busy.
const ATTEMPTS_MAX: usize = 32;
/// How many counts are given back at once.
const GIVEN_BACK_AT_ONCE: usize = 8;
/// How long a new address waits when the bucket is full of busy ones.
const CROWDED_RETRY_S: u64 = 60;
/// A full shard is searched for idle keys at most this often.
const EVICTION_PAUSE_NS: u64 = 1_000_000_000;

/// So many calls, or none, and at most so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Fewer are of no use.
    pub least: u32,
    /// More are not wanted.
    pub most: u32,
}

/// What was given of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfDay {
    /// So many calls.
    pub taken: u32,
    /// The count of all processes now.
    pub count: u64,
}

/// What was given of a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfMinute {
    /// So many calls.
    pub taken: u32,
    /// How long until the minute has all its calls again.
    pub until_full: Duration,
}

/// Counts of calls that several processes share. Each answer is as if nobody else asked at the same time.
#[async_trait::async_trait]
pub trait CommonCounts: Send + Sync + 'static {
    /// Takes calls of a day, as far as the limit allows, durably.
    ///
    /// # Errors
    /// When the store fails.
    async fn take_of_day(&self, day: Date, name: &str, wanted: Wanted, limit: u32) -> Result<OfDay, Cause>;

    /// Gives back what was taken of a day and not used.
    ///
    /// # Errors
    /// When the store fails.
    async fn give_back(&self, day: Date, name: &str, calls: u32) -> Result<(), Cause>;

    /// Takes calls of a minute: a bucket of `limit` calls that fills evenly.
    ///
    /// # Errors
    /// When the store fails.
    async fn take_of_minute(&self, name: &str, wanted: Wanted, limit: u32) -> Result<OfMinute, Cause>;

    /// Removes the counts of all days before that one, and minutes that are full again.
    ///
    /// # Errors
    /// When the store fails.
    async fn forget_before(&self, day: Date) -> Result<(), Cause>;
}

/// What each key holds here.
pub(super) struct CommonBucket<K> {
    name: &'static str,
    hasher: RandomState,
    shards: Box<[Shard<K>]>,
    keys_max: usize,
    counts: Arc<dyn CommonCounts>,
}

struct Shard<K> {
    keys: Mutex<Keys<K>>,
    /// Whose turn it is to ask for this shard's keys: one call asks for all that wait.
    turn: tokio::sync::Mutex<()>,
}

struct Keys<K> {
    entries: HashMap<K, Entry>,
    /// When to look for idle keys again.
    evict_at_ns: u64,
}

/// What a key holds here, and what was told of it when the store was last asked.
#[derive(Debug, Clone, Copy)]
struct Entry {
    day: Date,
    /// Taken of the day and not used.
    day_held: u32,
    /// The day's count, of all processes.
    day_count: u64,
    /// Taken of the minute and not used; good until the lease ends.
    minute_held: u32,
    lease_ends_ns: u64,
    leased_at_ns: u64,
    /// How many calls of a minute are taken at once.
    chunk: u32,
    /// From then on the minute is full again.
    full_at_ns: u64,
    refused: Option<Refused>,
    called_at_ns: u64,
}

/// A refusal that is told again.
#[derive(Debug, Clone, Copy)]
struct Refused {
    refusal: Refusal,
    quota: Quota,
    calls: u32,
    until_ns: u64,
}

/// What has to be asked before a call can be decided.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Day(Wanted),
    Minute(Wanted),
}

impl Entry {
    fn new(moment: Moment) -> Self {
        Self {
            day: moment.today,
            day_held: 0,
            day_count: 0,
            minute_held: 0,
            lease_ends_ns: 0,
            leased_at_ns: 0,
            chunk: 1,
            full_at_ns: 0,
            refused: None,
            called_at_ns: moment.steady_ns,
        }
    }

    /// Begins another day, if it is another, and drops a lease that is over.
    fn roll(&mut self, moment: Moment) {
        self.called_at_ns = moment.steady_ns;
        if self.day != moment.today {
            (self.day, self.day_held, self.day_count) = (moment.today, 0, 0);
        }
        if self.lease_ends_ns <= moment.steady_ns {
            self.minute_held = 0;
        }
    }

    fn day_left(&self, quota: Quota) -> u32 {
        let used = self.day_count.saturating_sub(self.day_held.into());
        u32::try_from(u64::from(quota.per_day).saturating_sub(used)).unwrap_or(u32::MAX)
    }

    /// Decides as far as that goes without asking: the day first, then the minute; what one refuses counts in neither.
    fn attempt(&mut self, quota: Quota, calls: Calls, moment: Moment) -> Result<Decision, Ask> {
        self.roll(moment);
        let count = calls.count();
        let is_told_again = self
            .refused
            .filter(|refused| refused.quota == quota && refused.calls <= count && moment.steady_ns < refused.until_ns);
        if let Some(Refused { refusal, .. }) = is_told_again {
            return Ok(self.refusal(refusal, quota, calls, moment));
        }
        // More at once than there ever are: nothing to ask.
        if quota.per_day < count {
            return Ok(self.refusal(Refusal::Day, quota, calls, moment));
        }
        if self.day_left(quota) < count {
            // Others may have given some back.
            return Err(Ask::Day(Wanted { least: count, most: count }));
        }
        if self.day_held < count {
            let missing = count - self.day_held;
            return Err(Ask::Day(Wanted { least: missing, most: missing.max(block(quota.per_day)) }));
        }
        if quota.per_minute < count {
            return Ok(self.refusal(Refusal::Minute, quota, calls, moment));
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

    /// About as many calls as came in the last second.
    fn next_chunk(&self, quota: Quota, moment: Moment) -> u32 {
        let most = (quota.per_minute / CHUNK_PART).max(1);
        let since_ns = moment.steady_ns.saturating_sub(self.leased_at_ns);
        let next = match since_ns {
            0..1_000_000_000 => self.chunk.saturating_mul(2),
            1_000_000_000..5_000_000_000 => self.chunk,
            5_000_000_000.. => 1,
        };
        next.clamp(1, most)
    }

    fn refuse(&mut self, refusal: Refusal, quota: Quota, calls: Calls, moment: Moment) -> Decision {
        let decision = self.refusal(refusal, quota, calls, moment);
        let room_ns = match refusal {
            Refusal::Minute => nanoseconds(self.until_room(quota, calls.count(), moment)),
            Refusal::Day | Refusal::Crowded => REFUSED_NS,
        };
        let until_ns = moment.steady_ns.saturating_add(room_ns.min(REFUSED_NS));
        self.refused = Some(Refused { refusal, quota, calls: calls.count(), until_ns });
        decision
    }

    fn refusal(&self, refusal: Refusal, quota: Quota, calls: Calls, moment: Moment) -> Decision {
        // What is tried again must have room in both: a day that begins gives no new minute.
        let until_minute = self.until_room(quota, calls.again(), moment);
        let is_day_full = refusal == Refusal::Day || self.day_left(quota) < calls.again();
        let until_day = if is_day_full { until_tomorrow(moment) } else { Duration::ZERO };
        let limit = if refusal == Refusal::Day { quota.per_day } else { quota.per_minute };
        let retry_after_s = seconds_up(until_minute.max(until_day)).max(1);
        Decision::Refused { refusal, limit, headers: self.headers(quota, moment), retry_after_s }
    }

    /// How long until the minute has room for so many calls, if nobody else calls meanwhile.
    fn until_room(&self, quota: Quota, calls: u32, moment: Moment) -> Duration {
        let missing = quota.per_minute.saturating_sub(calls);
        let room_at_ns = self.full_at_ns.saturating_sub(cell_ns(quota).saturating_mul(missing.into()));
        Duration::from_nanos(room_at_ns.saturating_sub(moment.steady_ns))
    }

    fn minute_left(&self, quota: Quota, moment: Moment) -> u32 {
        let used = self.full_at_ns.saturating_sub(moment.steady_ns).div_ceil(cell_ns(quota));
        let left = quota.per_minute.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX));
        left.saturating_add(self.minute_held).min(quota.per_minute)
    }

    /// What is told of the window that has fewer calls left, as far as known here: what other processes let through since the store was
    /// asked last is not counted.
    fn headers(&self, quota: Quota, moment: Moment) -> RateHeaders {
        let (day_left, minute_left) = (self.day_left(quota), self.minute_left(quota, moment));
        if day_left <= minute_left {
            let reset_s = seconds_up(until_tomorrow(moment)).max(1);
            RateHeaders { limit: quota.per_day, remaining: day_left, reset_s }
        } else {
            let until_full = Duration::from_nanos(self.full_at_ns.saturating_sub(moment.steady_ns));
            RateHeaders { limit: quota.per_minute, remaining: minute_left, reset_s: seconds_up(until_full) }
        }
    }

    fn is_idle(&self, moment: Moment) -> bool {
        moment.steady_ns.saturating_sub(self.called_at_ns) >= IDLE_NS
    }
}

impl<K: Clone + Eq + Hash + Display> CommonBucket<K> {
    /// Nothing held yet; the name is part of the names of its counts.
    pub(super) fn new(name: &'static str, keys_max: usize, counts: Arc<dyn CommonCounts>) -> Self {
        let shard = |_| Shard {
            keys: Mutex::new(Keys { entries: HashMap::new(), evict_at_ns: 0 }),
            turn: tokio::sync::Mutex::new(()),
        };
        Self { name, hasher: RandomState::new(), shards: (0..SHARDS).map(shard).collect(), keys_max, counts }
    }

    /// Counts calls of a key, if its minute and its day have room for all of them.
    pub(super) async fn charge(
        &self,
        key: &K,
        quota: Quota,
        calls: Calls,
        moment: impl Fn() -> Moment,
    ) -> Result<Decision, AppError> {
        let shard = self.shard(key);
        if let Ok(decision) = self.attempt(shard, key, quota, calls, moment()) {
            return Ok(decision);
        }
        let _turn = shard.turn.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            // Whoever had the turn before may have taken enough for this call too.
            let ask = match self.attempt(shard, key, quota, calls, moment()) {
                Ok(decision) => return Ok(decision),
                Err(ask) => ask,
            };
            if let Some(refused) = self.ask(shard, key, (quota, calls), ask, &moment).await? {
                return Ok(refused);
            }
        }
        Err(AppError::Busy)
    }

    /// Asks the store, and notes what it gives; a refusal where it gives nothing.
    async fn ask(
        &self,
        shard: &Shard<K>,
        key: &K,
        (quota, calls): (Quota, Calls),
        ask: Ask,
        moment: &impl Fn() -> Moment,
    ) -> Result<Option<Decision>, AppError> {
        let name = self.name_of(key);
        match ask {
            Ask::Day(wanted) => {
                let day = moment().today;
                let given = self.counts.take_of_day(day, &name, wanted, quota.per_day).await;
                let given = given.map_err(AppError::Unavailable)?;
                let now = moment();
                Ok(self.with_entry(shard, key, now, |entry| {
                    if entry.day != day {
                        return None;
                    }
                    entry.day_count = given.count;
                    entry.day_held = entry.day_held.saturating_add(given.taken);
                    (given.taken == 0).then(|| entry.refuse(Refusal::Day, quota, calls, now))
                }))
            }
            Ask::Minute(wanted) => {
                let given = self.counts.take_of_minute(&name, wanted, quota.per_minute).await;
                let given = given.map_err(AppError::Unavailable)?;
                let now = moment();
                Ok(self.with_entry(shard, key, now, |entry| {
                    entry.full_at_ns = now.steady_ns.saturating_add(nanoseconds(given.until_full));
                    if given.taken == 0 {
                        return Some(entry.refuse(Refusal::Minute, quota, calls, now));
                    }
                    entry.minute_held = entry.minute_held.saturating_add(given.taken);
                    entry.lease_ends_ns = now.steady_ns.saturating_add(LEASE_NS);
                    entry.leased_at_ns = now.steady_ns;
                    entry.chunk = wanted.most;
                    None
                }))
            }
        }
    }

    fn attempt(&self, shard: &Shard<K>, key: &K, quota: Quota, calls: Calls, moment: Moment) -> Result<Decision, Ask> {
        let mut keys = lock(shard);
        if !keys.entries.contains_key(key) {
            if !keys.make_room(self.keys_max / SHARDS, moment) {
                let headers = RateHeaders { limit: quota.per_minute, remaining: 0, reset_s: CROWDED_RETRY_S };
                let (refusal, limit) = (Refusal::Crowded, quota.per_minute);
                return Ok(Decision::Refused { refusal, limit, headers, retry_after_s: CROWDED_RETRY_S });
            }
            keys.entries.insert(key.clone(), Entry::new(moment));
        }
        let entry = keys.entries.entry(key.clone()).or_insert_with(|| Entry::new(moment));
        entry.attempt(quota, calls, moment)
    }

    fn with_entry<T>(&self, shard: &Shard<K>, key: &K, moment: Moment, note: impl FnOnce(&mut Entry) -> T) -> T {
        note(lock(shard).entries.entry(key.clone()).or_insert_with(|| Entry::new(moment)))
    }

    /// Drops keys that are idle, and gives back what of their day they hold.
    pub(super) async fn prune(&self, moment: Moment) -> Result<(), AppError> {
        self.give_back_of(moment, |entry| entry.is_idle(moment)).await
    }

    /// Gives back what every key holds: the server stops.
    pub(super) async fn give_back(&self, moment: Moment) -> Result<(), AppError> {
        self.give_back_of(moment, |_| true).await
    }

    async fn give_back_of(&self, moment: Moment, is_over: impl Fn(&Entry) -> bool) -> Result<(), AppError> {
        let mut held = Vec::new();
        for shard in &self.shards {
            // What is just being taken for a key belongs to a call that waits.
            let Ok(_turn) = shard.turn.try_lock() else { continue };
            let entries = &mut lock(shard).entries;
            entries.retain(|key, entry| {
                let is_over = is_over(entry);
                if is_over && entry.day == moment.today && entry.day_held > 0 {
                    held.push((self.name_of(key), entry.day_held));
                }
                !is_over
            });
            if entries.capacity() / 4 > entries.len() {
                entries.shrink_to_fit();
            }
        }
        let given = stream::iter(held)
            .map(|(name, calls)| async move { self.counts.give_back(moment.today, &name, calls).await })
            .buffer_unordered(GIVEN_BACK_AT_ONCE);
        let mut failed = None;
        let mut given = std::pin::pin!(given);
        while let Some(outcome) = given.next().await {
            failed = failed.or(outcome.err());
        }
        failed.map_or(Ok(()), |cause| Err(AppError::Unavailable(cause)))
    }

    fn name_of(&self, key: &K) -> String {
        format!("{}/{key}", self.name)
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
    /// Whether there is room for one more key, after idle ones were dropped if need be; the counts of these stay too high by what they held.
    fn make_room(&mut self, keys_max: usize, moment: Moment) -> bool {
        if self.entries.len() >= keys_max && moment.steady_ns >= self.evict_at_ns {
            self.entries.retain(|_, entry| !entry.is_idle(moment));
            self.evict_at_ns = moment.steady_ns.saturating_add(EVICTION_PAUSE_NS);
        }
        self.entries.len() < keys_max
    }
}

/// The time in which one call comes back; at least a nanosecond.
fn cell_ns(quota: Quota) -> u64 {
    (60_000_000_000 / u64::from(quota.per_minute.max(1))).max(1)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn lock<K>(shard: &Shard<K>) -> MutexGuard<'_, Keys<K>> {
    shard.keys.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A bucket shared by several processes: the calls of a client are counted in the store, and each process reserves a
//! small share of them.
//!
//! A query of the store for each call would be too expensive, so calls are reserved in chunks: of the day as many as a
//! block on an own disk ([`day`](super::day)), of the minute as many as this process used in the last second, at most a
//! twentieth. Unused calls of a day are returned when the client is idle for a minute and when the server stops;
//! reserved calls of a minute expire after `LEASE_NS`.
//!
//! **Invariant:** over all processes no more calls of a day are allowed than its limit: a call is counted in the store
//! before it is allowed. A killed process leaves the day's count too high by its reservation: at most a block.
//!
//! **Invariant:** over all processes no more calls of a minute are allowed than its bucket gives, plus a chunk reserved
//! before by each process: a twentieth of the limit.
//!
//! **Invariant:** a sliding window is never reserved in advance: the store counts each of its calls before it is
//! allowed, so that over all processes no 60 seconds have more calls than the limit.
//!
//! **Invariant:** reserved calls of a day are recorded here even if the requesting client has disconnected: otherwise
//! clients that time out and retry, as they do when the store is slow, would use up a day without a call.
//!
//! **Invariant:** if the store does not respond, reserved calls are used up, and then every call fails.

mod entry;

use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use jiff::civil::Date;
use tokio::sync::OwnedMutexGuard;
use tracing::Instrument as _;

use self::entry::{Ask, Entry};
use super::allowance::nanoseconds;
use super::bucket::{Calls, TimeReading};
use super::shards::{KeyEntry as _, Shard, Shards};
use super::{Decision, Quota, Refusal};
use daftar_domain::call_counts::{OfDay, OfMinute, OfWindow, Wanted};
use daftar_domain::error::{AppError, Cause};

/// The time for which reserved calls of a minute may be used.
pub(super) const LEASE_NS: u64 = 10_000_000_000;
/// The number of times that a call may lose its reservation to concurrent calls before the server reports that it is
/// busy.
const ATTEMPTS_MAX: usize = 32;
/// The number of counts that are returned concurrently.
const GIVEN_BACK_AT_ONCE: usize = 8;

/// Counts of calls shared by several processes. Each operation is atomic.
#[async_trait::async_trait]
pub trait CommonCounts: Send + Sync + 'static {
    /// Reserves calls of a day durably, within the limit.
    ///
    /// # Errors
    /// If the store fails.
    async fn take_of_day(&self, day: Date, name: &str, wanted: Wanted, limit: u32) -> Result<OfDay, Cause>;

    /// Returns unused calls of a day.
    ///
    /// # Errors
    /// If the store fails.
    async fn give_back(&self, day: Date, name: &str, calls: u32) -> Result<(), Cause>;

    /// Reserves calls of a minute, a token bucket of `limit` calls.
    ///
    /// # Errors
    /// If the store fails.
    async fn take_of_minute(&self, name: &str, wanted: Wanted, limit: u32) -> Result<OfMinute, Cause>;

    /// Counts calls in a sliding window of 60 seconds, if all of them are within the limit over all processes.
    ///
    /// # Errors
    /// If the store fails.
    async fn take_of_window(&self, name: &str, calls: u32, limit: u32) -> Result<OfWindow, Cause>;

    /// Removes the counts of all earlier days, and minutes that are full again.
    ///
    /// # Errors
    /// If the store fails.
    async fn forget_before(&self, day: Date) -> Result<(), Cause>;
}

/// The reserved calls of each key in this process.
pub(super) struct CommonBucket<K> {
    shards: Shards<K, Entry>,
    counts: Arc<dyn CommonCounts>,
}

impl<K: Clone + Eq + Hash + Display + Send + 'static> CommonBucket<K> {
    /// Creates a bucket without reservations; the name is part of the names of its counts.
    pub(super) fn new(name: &'static str, keys_max: usize, counts: Arc<dyn CommonCounts>) -> Self {
        Self { shards: Shards::new(name, keys_max), counts }
    }

    /// Counts calls of a key, if its minute and its day allow all of them.
    pub(super) async fn charge(
        &self,
        key: &K,
        quota: Quota,
        calls: Calls,
        moment: impl Fn() -> TimeReading,
    ) -> Result<Decision, AppError> {
        let shard = self.shards.of(key);
        if let Ok(decision) = self.attempt(shard, key, quota, calls, moment()) {
            return Ok(decision);
        }
        let mut turn = Arc::clone(&shard.turn).lock_owned().await;
        for _ in 0..ATTEMPTS_MAX {
            // The previous holder of the lock may have reserved enough for this call too.
            let ask = match self.attempt(shard, key, quota, calls, moment()) {
                Ok(decision) => return Ok(decision),
                Err(ask) => ask,
            };
            let decided;
            (turn, decided) = match ask {
                Ask::Day(wanted) => self.ask_of_day(turn, shard, key, (quota, calls), wanted, &moment).await?,
                Ask::Window => (turn, self.ask_of_window(shard, key, (quota, calls), &moment).await?),
                Ask::Minute(wanted) => (turn, self.ask_of_minute(shard, key, (quota, calls), wanted, &moment).await?),
            };
            if let Some(decision) = decided {
                return Ok(decision);
            }
        }
        Err(AppError::Busy)
    }

    /// Reserves calls of the day in the store and records them; rejects the call if there are none. Runs in a task of
    /// its own, which holds the lock, so that the reservation is recorded even if the client has disconnected.
    async fn ask_of_day(
        &self,
        turn: OwnedMutexGuard<()>,
        shard: &Arc<Shard<K, Entry>>,
        key: &K,
        (quota, calls): (Quota, Calls),
        wanted: Wanted,
        moment: &impl Fn() -> TimeReading,
    ) -> Result<(OwnedMutexGuard<()>, Option<Decision>), AppError> {
        let requested_at = moment();
        let day = requested_at.today;
        let taking = {
            let (counts, shard, key) = (Arc::clone(&self.counts), Arc::clone(shard), key.clone());
            let name = self.shards.name_of(&key);
            async move {
                let given = counts.take_of_day(day, &name, wanted, quota.per_day).await?;
                shard.with(
                    &key,
                    || Entry::new(requested_at),
                    |entry| {
                        if entry.day == day {
                            entry.day_count = given.count;
                            entry.day_held = entry.day_held.saturating_add(given.taken);
                        }
                    },
                );
                Ok::<_, Cause>((turn, given))
            }
        };
        let taken = tokio::spawn(taking.in_current_span()).await.map_err(AppError::of_task)?;
        let (turn, given) = taken.map_err(AppError::Unavailable)?;
        let now = moment();
        let refused = shard.with(
            key,
            || Entry::new(now),
            |entry| {
                // After midnight the calls of the new day are requested.
                let is_refused = given.taken == 0 && entry.day == day && now.today == day;
                is_refused.then(|| entry.refuse(Refusal::Day, quota, calls, now))
            },
        );
        Ok((turn, refused))
    }

    /// Reserves calls of the minute in the store, as [`Self::ask_of_day`]. A reservation whose client has disconnected
    /// is lost: a minute refills soon.
    async fn ask_of_minute(
        &self,
        shard: &Shard<K, Entry>,
        key: &K,
        (quota, calls): (Quota, Calls),
        wanted: Wanted,
        moment: &impl Fn() -> TimeReading,
    ) -> Result<Option<Decision>, AppError> {
        let given = self.counts.take_of_minute(&self.shards.name_of(key), wanted, quota.per_minute).await;
        let given = given.map_err(AppError::Unavailable)?;
        let now = moment();
        Ok(shard.with(
            key,
            || Entry::new(now),
            |entry| {
                entry.full_at_ns = now.steady_ns.saturating_add(nanoseconds(given.until_full));
                if given.taken == 0 {
                    return Some(entry.refuse(Refusal::Minute, quota, calls, now));
                }
                entry.minute_held = entry.minute_held.saturating_add(given.taken);
                entry.lease_ends_ns = now.steady_ns.saturating_add(LEASE_NS);
                entry.leased_at_ns = now.steady_ns;
                entry.chunk = wanted.most;
                None
            },
        ))
    }

    /// Counts calls in a sliding window in the store, and decides by the outcome. A call whose client has disconnected
    /// is counted too.
    async fn ask_of_window(
        &self,
        shard: &Shard<K, Entry>,
        key: &K,
        (quota, calls): (Quota, Calls),
        moment: &impl Fn() -> TimeReading,
    ) -> Result<Option<Decision>, AppError> {
        let given = self.counts.take_of_window(&self.shards.name_of(key), calls.count(), quota.per_minute).await;
        let given = given.map_err(AppError::Unavailable)?;
        let now = moment();
        Ok(shard.with(key, || Entry::new(now), |entry| entry.windowed(&given, quota, calls, now)))
    }

    fn attempt(
        &self,
        shard: &Shard<K, Entry>,
        key: &K,
        quota: Quota,
        calls: Calls,
        moment: TimeReading,
    ) -> Result<Decision, Ask> {
        let attempt = |entry: &mut Entry| entry.attempt(quota, calls, moment);
        self.shards.admit(shard, key, (quota, moment), || Entry::new(moment), attempt).unwrap_or_else(Ok)
    }

    /// Drops idle keys, and returns their reserved calls of the day.
    pub(super) async fn prune(&self, moment: TimeReading) -> Result<(), AppError> {
        self.give_back_of(moment, |entry| entry.is_idle(moment)).await
    }

    /// Returns the reserved calls of every key, at shutdown.
    pub(super) async fn give_back(&self, moment: TimeReading) -> Result<(), AppError> {
        self.give_back_of(moment, |_| true).await?;
        // Waits for reservations in progress whose client has disconnected.
        for shard in self.shards.iter() {
            drop(shard.turn.lock().await);
        }
        self.give_back_of(moment, |_| true).await
    }

    async fn give_back_of(&self, moment: TimeReading, is_over: impl Fn(&Entry) -> bool) -> Result<(), AppError> {
        let mut held = Vec::new();
        self.shards.retain(|key, entry| {
            let is_over = is_over(entry);
            if is_over && entry.day == moment.today && entry.day_held > 0 {
                held.push((self.shards.name_of(key), entry.day_held));
            }
            !is_over
        });
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

    /// Returns the number of keys in memory.
    pub(super) fn len(&self) -> usize {
        self.shards.len()
    }
}

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
//! **Invariant:** a sliding window is never held in part: the store counts each of its calls before it is let through, so that over all
//! processes no 60 seconds have more calls than the limit.
//!
//! **Invariant:** what was taken of a day is noted here whether or not whoever asked still waits for it: else clients that give up and come again,
//! as they do when the store is slow, would use a day up without a call.
//!
//! **Invariant:** where the store does not answer, what is held is used up, and then nothing is let through.

mod entry;

use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use jiff::civil::Date;
use tokio::sync::OwnedMutexGuard;
use tracing::Instrument as _;

use self::entry::{Ask, Entry};
use super::allowance::nanoseconds;
use super::bucket::{Calls, TimeReading};
use super::shards::{KeyEntry as _, Shard, Shards};
use super::{Decision, Quota, Refusal};
use daftar_domain::error::{AppError, Cause};

/// How long what was taken of a minute may be used.
pub(super) const LEASE_NS: u64 = 10_000_000_000;
/// How often a call may find that others used what it had taken before it is told that the server is busy.
const ATTEMPTS_MAX: usize = 32;
/// How many counts are given back at once.
const GIVEN_BACK_AT_ONCE: usize = 8;
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

/// What was given of a sliding window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfWindow {
    /// Whether the calls were counted.
    pub is_taken: bool,
    /// How long each call of all processes stays in the window, those that were counted now included.
    pub until_left: Vec<Duration>,
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

    /// Counts calls in a sliding window of 60 seconds, if it has room for all of them beside those of all processes.
    ///
    /// # Errors
    /// When the store fails.
    async fn take_of_window(&self, name: &str, calls: u32, limit: u32) -> Result<OfWindow, Cause>;

    /// Removes the counts of all days before that one, and minutes that are full again.
    ///
    /// # Errors
    /// When the store fails.
    async fn forget_before(&self, day: Date) -> Result<(), Cause>;
}

/// What each key holds here.
pub(super) struct CommonBucket<K> {
    shards: Shards<K, Entry>,
    counts: Arc<dyn CommonCounts>,
}

impl<K: Clone + Eq + Hash + Display + Send + 'static> CommonBucket<K> {
    /// Nothing held yet; the name is part of the names of its counts.
    pub(super) fn new(name: &'static str, keys_max: usize, counts: Arc<dyn CommonCounts>) -> Self {
        Self { shards: Shards::new(name, keys_max), counts }
    }

    /// Counts calls of a key, if its minute and its day have room for all of them.
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
            // Whoever had the turn before may have taken enough for this call too.
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

    /// Asks the store for calls of the day, and notes what it gives; a refusal where it gives nothing. It is asked in a task of its own, which
    /// has the turn meanwhile: what it gives is noted also when nobody waits for it any more.
    async fn ask_of_day(
        &self,
        turn: OwnedMutexGuard<()>,
        shard: &Arc<Shard<K, Entry>>,
        key: &K,
        (quota, calls): (Quota, Calls),
        wanted: Wanted,
        moment: &impl Fn() -> TimeReading,
    ) -> Result<(OwnedMutexGuard<()>, Option<Decision>), AppError> {
        let asked_at = moment();
        let day = asked_at.today;
        let taking = {
            let (counts, shard, key) = (Arc::clone(&self.counts), Arc::clone(shard), key.clone());
            let name = self.shards.name_of(&key);
            async move {
                let given = counts.take_of_day(day, &name, wanted, quota.per_day).await?;
                shard.with(
                    &key,
                    || Entry::new(asked_at),
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
        let taken = tokio::spawn(taking.in_current_span()).await.map_err(|error| AppError::Internal(error.into()))?;
        let (turn, given) = taken.map_err(AppError::Unavailable)?;
        let now = moment();
        let refused = shard.with(
            key,
            || Entry::new(now),
            |entry| {
                let is_refused = given.taken == 0 && entry.day == day;
                is_refused.then(|| entry.refuse(Refusal::Day, quota, calls, now))
            },
        );
        Ok((turn, refused))
    }

    /// Asks the store for calls of the minute, as [`Self::ask_of_day`]. What nobody waits for any more is lost: a minute has it back soon.
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

    /// Has the store count calls in a sliding window, and decides by its answer. A call whose client has left is counted all the same.
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

    /// Drops keys that are idle, and gives back what of their day they hold.
    pub(super) async fn prune(&self, moment: TimeReading) -> Result<(), AppError> {
        self.give_back_of(moment, |entry| entry.is_idle(moment)).await
    }

    /// Gives back what every key holds: the server stops.
    pub(super) async fn give_back(&self, moment: TimeReading) -> Result<(), AppError> {
        self.give_back_of(moment, |_| true).await?;
        // What somebody asked for who left is waited for.
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

    /// How many keys are kept now.
    pub(super) fn len(&self) -> usize {
        self.shards.len()
    }
}

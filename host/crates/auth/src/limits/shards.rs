//! Entries by key, in independent shards of bounded size.
//!
//! **Invariant:** every decision about a key is made under the lock of its shard, which is never held across an
//! `.await`. The `turn` lock of a shard may be.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::bucket::TimeReading;
use super::{Decision, Quota, RateHeaders, Refusal};

/// The number of shards, so that calls of different keys seldom wait for each other.
pub(super) const SHARDS: usize = 80;
/// The shortest time between two searches of a full shard for idle keys.
const EVICTION_PAUSE_NS: u64 = 1_000_000_000;
/// The `Retry-After` of a new address when a bucket is full of busy ones.
const FULL_RETRY_S: u64 = 60;

/// The state of a key in a bucket.
pub(super) trait KeyEntry {
    /// Returns true if the key may be evicted.
    fn is_idle(&self, moment: TimeReading) -> bool;
}

/// The entries of one bucket.
pub(super) struct Shards<K, E> {
    name: &'static str,
    hasher: RandomState,
    shards: Box<[Arc<Shard<K, E>>]>,
    keys_max: usize,
}

/// The entries of some of the keys.
pub(super) struct Shard<K, E> {
    keys: Mutex<Keys<K, E>>,
    /// The lock for reading and writing the stored counts of this shard's keys: one call does it for all that wait.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

struct Keys<K, E> {
    entries: HashMap<K, E>,
    /// The time of the next search for idle keys.
    evict_at_ns: u64,
}

impl<K: Clone + Eq + Hash + Display, E: KeyEntry> Shards<K, E> {
    /// Creates empty shards; the name is part of the names of the counts.
    pub(super) fn new(name: &'static str, keys_max: usize) -> Self {
        let shard = |_| {
            let keys = Mutex::new(Keys { entries: HashMap::new(), evict_at_ns: 0 });
            Arc::new(Shard { keys, turn: Arc::default() })
        };
        Self { name, hasher: RandomState::new(), shards: (0..SHARDS).map(shard).collect(), keys_max }
    }

    /// Returns the shard of a key.
    #[expect(clippy::indexing_slicing, reason = "a remainder by the number of shards is the index of one")]
    pub(super) fn of(&self, key: &K) -> &Arc<Shard<K, E>> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Returns all shards.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Shard<K, E>>> {
        self.shards.iter()
    }

    /// Returns the name of a key's count.
    pub(super) fn name_of(&self, key: &K) -> String {
        format!("{}/{key}", self.name)
    }

    /// Returns the number of keys in memory.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().entries.len()).sum()
    }

    /// Runs a function with the entry of a key, which is created if there is none. Returns the decision that rejects
    /// the call if the shard is full even after evicting idle keys; the stored counts of evicted keys stay too high by
    /// their reservations.
    pub(super) fn admit<T>(
        &self,
        shard: &Shard<K, E>,
        key: &K,
        (quota, moment): (Quota, TimeReading),
        new: impl FnOnce() -> E,
        run: impl FnOnce(&mut E) -> T,
    ) -> Result<T, Decision> {
        let mut keys = shard.lock();
        if let Some(entry) = keys.entries.get_mut(key) {
            return Ok(run(entry));
        }
        if !keys.make_space(self.keys_max / SHARDS, moment) {
            let headers = RateHeaders { limit: quota.per_minute, remaining: 0, reset_s: FULL_RETRY_S };
            let (refusal, limit) = (Refusal::AtCapacity, quota.per_minute);
            return Err(Decision::Refused { refusal, limit, headers, retry_after_s: FULL_RETRY_S });
        }
        Ok(run(keys.entries.entry(key.clone()).or_insert_with(new)))
    }

    /// Retains the entries for which `is_kept` returns true, of all shards whose `turn` lock is free: an entry whose
    /// count is being read or written belongs to a waiting call, and looks unused until then.
    pub(super) fn retain(&self, mut is_stored: impl FnMut(&K, &mut E) -> bool) {
        for shard in &self.shards {
            let Ok(_turn) = shard.turn.try_lock() else { continue };
            let entries = &mut shard.lock().entries;
            entries.retain(&mut is_stored);
            if entries.capacity() / 4 > entries.len() {
                entries.shrink_to_fit();
            }
        }
    }
}

impl<K: Clone + Eq + Hash, E> Shard<K, E> {
    fn lock(&self) -> MutexGuard<'_, Keys<K, E>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function with the entry of a key, if there is one.
    pub(super) fn find<T>(&self, key: &K, run: impl FnOnce(&mut E) -> T) -> Option<T> {
        self.lock().entries.get_mut(key).map(run)
    }

    /// Runs a function with the entry of a key, which is created if there is none.
    pub(super) fn with<T>(&self, key: &K, new: impl FnOnce() -> E, run: impl FnOnce(&mut E) -> T) -> T {
        run(self.lock().entries.entry(key.clone()).or_insert_with(new))
    }
}

impl<K: Eq + Hash, E: KeyEntry> Keys<K, E> {
    /// Returns true if there is capacity for one more key, after evicting idle ones if required.
    fn make_space(&mut self, keys_max: usize, moment: TimeReading) -> bool {
        if self.entries.len() >= keys_max && moment.steady_ns >= self.evict_at_ns {
            self.entries.retain(|_, entry| !entry.is_idle(moment));
            self.evict_at_ns = moment.steady_ns.saturating_add(EVICTION_PAUSE_NS);
        }
        self.entries.len() < keys_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use jiff::civil::date;

    /// An entry that is idle from this time on, in nanoseconds.
    struct IdleFrom(u64);

    impl KeyEntry for IdleFrom {
        fn is_idle(&self, moment: TimeReading) -> bool {
            moment.steady_ns >= self.0
        }
    }

    fn at(steady_ns: u64) -> TimeReading {
        TimeReading { now: Timestamp::UNIX_EPOCH, today: date(1970, 1, 1), steady_ns }
    }

    #[test]
    fn idle_keys_are_evicted_from_a_full_shard_at_most_once_a_second() {
        let mut keys = Keys { entries: HashMap::from([(1, IdleFrom(0)), (2, IdleFrom(0))]), evict_at_ns: 0 };
        assert!(keys.make_space(3, at(1)));
        assert_eq!(keys.entries.len(), 2, "the shard is not full");
        keys.entries.insert(3, IdleFrom(u64::MAX));
        assert!(keys.make_space(3, at(1)));
        assert_eq!(keys.entries.len(), 1, "the other keys were idle");
        keys.entries.extend([(1, IdleFrom(0)), (2, IdleFrom(0))]);
        assert!(!keys.make_space(3, at(EVICTION_PAUSE_NS)));
        assert!(keys.make_space(3, at(EVICTION_PAUSE_NS + 1)));
    }

    #[test]
    fn a_shard_with_few_keys_left_releases_memory() {
        let shards: Shards<usize, IdleFrom> = Shards::new("test", 0);
        let shard = shards.iter().next().unwrap();
        let capacity = || shard.lock().entries.capacity();
        for key in 0..250 {
            shard.with(&key, || IdleFrom(0), |_| ());
        }
        let before = capacity();
        shards.retain(|key, _| *key < before / 4);
        assert!(capacity() > before / 2);
        shards.retain(|key, _| *key < before / 8);
        assert!(capacity() < before / 2);
    }
}

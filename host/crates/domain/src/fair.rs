//! Fair queueing: keys that share slots are served by turns, however much one of them asks.
//!
//! **Invariant:** of the keys that wait, the one with the fewest slots is served first, and among those the one served longest ago.
//!
//! **Invariant:** a key that neither waits nor holds a slot takes no memory.

mod semaphore;

use std::collections::VecDeque;

pub use self::semaphore::{FairSemaphore, Slot, SlotUsage};

/// The requests that wait under one key.
pub trait Waiting: Default {
    /// Whether there is one.
    fn is_waiting(&self) -> bool;
}

impl<T> Waiting for VecDeque<T> {
    fn is_waiting(&self) -> bool {
        !self.is_empty()
    }
}

impl<K, W: Waiting> Waiting for FairQueue<K, W> {
    fn is_waiting(&self) -> bool {
        self.entries.iter().any(|entry| entry.waiting.is_waiting())
    }
}

/// Keys with their waiting requests and the number of slots that they hold. A queue may wait under a key of another one: round robin
/// between plugins, and within a plugin between clients.
#[derive(Debug)]
pub struct FairQueue<K, W> {
    /// The key that was served longest ago first.
    entries: VecDeque<Entry<K, W>>,
}

#[derive(Debug)]
struct Entry<K, W> {
    key: K,
    waiting: W,
    running: usize,
}

impl<K, W> Default for FairQueue<K, W> {
    fn default() -> Self {
        Self { entries: VecDeque::new() }
    }
}

impl<K, W: Waiting> Entry<K, W> {
    fn may(&self, run: impl Fn(&K, &W, usize) -> bool) -> bool {
        self.waiting.is_waiting() && run(&self.key, &self.waiting, self.running)
    }
}

impl<K: Clone + PartialEq, W: Waiting> FairQueue<K, W> {
    /// What waits under a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&W> {
        self.entries.iter().find(|entry| entry.key == *key).map(|entry| &entry.waiting)
    }

    /// Changes what waits under a key; a new key is served after those that wait already.
    pub fn update<R>(&mut self, key: &K, change: impl FnOnce(&mut W) -> R) -> R {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == *key) {
            return change(&mut entry.waiting);
        }
        let mut waiting = W::default();
        let changed = change(&mut waiting);
        self.entries.push_back(Entry { key: key.clone(), waiting, running: 0 });
        changed
    }

    /// How many slots a key holds.
    #[must_use]
    pub fn running(&self, key: &K) -> usize {
        self.entries.iter().find(|entry| entry.key == *key).map_or(0, |entry| entry.running)
    }

    /// Every key with what waits under it.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &W)> {
        self.entries.iter().map(|entry| (&entry.key, &entry.waiting))
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut W)> {
        self.entries.iter_mut().map(|entry| (&entry.key, &mut entry.waiting))
    }

    /// Whether a key waits that `may_run`, by what waits under it and the number of slots that it holds.
    #[must_use]
    pub fn has_next(&self, may_run: impl Fn(&K, &W, usize) -> bool) -> bool {
        self.entries.iter().any(|entry| entry.may(&may_run))
    }

    /// Gives a slot to the next key of those that `may_run`, with the request that `take` takes from what waits under it.
    /// [`Self::ended`] takes the slot back.
    pub fn next<T>(
        &mut self,
        may_run: impl Fn(&K, &W, usize) -> bool,
        take: impl FnOnce(&mut W) -> Option<T>,
    ) -> Option<(K, T)> {
        let candidates = self.entries.iter().enumerate().filter(|(_, entry)| entry.may(&may_run));
        let (at, _) = candidates.min_by_key(|(_, entry)| entry.running)?;
        let mut entry = self.entries.remove(at)?;
        let taken = take(&mut entry.waiting);
        entry.running = entry.running.saturating_add(usize::from(taken.is_some()));
        let key = entry.key.clone();
        self.entries.push_back(entry);
        Some((key, taken?))
    }

    /// Gives a slot to a key that did not wait.
    pub fn begin(&mut self, key: &K) {
        self.update(key, |_| ());
        self.move_to_back(key, |entry| entry.running = entry.running.saturating_add(1));
    }

    /// Takes a slot back from a key; `within` is told what waits under it.
    pub fn ended(&mut self, key: &K, within: impl FnOnce(&mut W)) {
        self.move_to_back(key, |entry| {
            entry.running = entry.running.saturating_sub(1);
            within(&mut entry.waiting);
        });
        self.forget_idle();
    }

    /// Forgets the keys that hold no slot and wait for none.
    pub fn forget_idle(&mut self) {
        self.entries.retain(|entry| entry.running > 0 || entry.waiting.is_waiting());
    }

    fn move_to_back(&mut self, key: &K, change: impl FnOnce(&mut Entry<K, W>)) {
        let Some(at) = self.entries.iter().position(|entry| entry.key == *key) else { return };
        let Some(mut entry) = self.entries.remove(at) else { return };
        change(&mut entry);
        self.entries.push_back(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Queue = FairQueue<&'static str, VecDeque<u32>>;

    fn queue(requests: &[(&'static str, u32)]) -> Queue {
        let mut queue = Queue::default();
        for (key, count) in requests {
            queue.update(key, |waiting| waiting.extend(0..*count));
        }
        queue
    }

    fn next(queue: &mut Queue) -> Option<&'static str> {
        queue.next(|_, _, _| true, VecDeque::pop_front).map(|(key, _)| key)
    }

    #[test]
    fn keys_are_served_by_turns_however_much_one_of_them_asks() {
        let mut queue = queue(&[("a", 4), ("b", 2)]);
        let order: Vec<&str> = std::iter::from_fn(|| {
            let key = next(&mut queue)?;
            queue.ended(&key, |_| ());
            Some(key)
        })
        .collect();
        assert_eq!(order, ["a", "b", "a", "b", "a", "a"]);
        assert!(queue.entries.is_empty(), "an idle key is forgotten");
    }

    #[test]
    fn two_keys_that_come_again_and_again_do_not_starve_a_third() {
        let mut queue = queue(&[("patient", 1), ("one", 1)]);
        queue.begin(&"other");
        // Each comes again while the other is served.
        queue.ended(&"other", |_| ());
        let mut served = Vec::new();
        for again in ["other", "one", "other", "one"] {
            let Some(key) = next(&mut queue) else { break };
            queue.update(&again, |waiting| waiting.push_back(0));
            queue.ended(&key, |_| ());
            served.push(key);
        }
        assert!(served[..2].contains(&"patient"), "{served:?}");
    }

    #[test]
    fn the_key_with_the_fewest_slots_comes_first() {
        let mut queue = queue(&[("slow", 3)]);
        assert_eq!([next(&mut queue), next(&mut queue)], [Some("slow"); 2]);
        queue.update(&"quick", |waiting| waiting.push_back(0));
        assert_eq!(next(&mut queue), Some("quick"));
    }

    #[test]
    fn a_key_that_may_not_run_waits_and_others_do_not_wait_for_it() {
        let mut queue = queue(&[("greedy", 5), ("modest", 1)]);
        queue.begin(&"greedy");
        let at_most_one = |queue: &mut Queue| {
            let next = queue.next(|_, _, running| running < 1, VecDeque::pop_front);
            next.map(|(key, _)| key)
        };
        assert_eq!(at_most_one(&mut queue), Some("modest"));
        assert_eq!(at_most_one(&mut queue), None);
    }
}

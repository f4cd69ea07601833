//! Fair queueing of slots between keys, independent of the number of requests of one key.
//!
//! **Invariant:** of the waiting keys, the one with the fewest slots is served first, then the least recently served.
//!
//! **Invariant:** a key that neither waits nor has a slot uses no memory.
//!
//! **Invariant:** one key has at most its maximum number of slots, even if others are free.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The requests waiting under one key.
pub trait Waiting: Default {
    /// True if a request is waiting.
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

/// Keys with their waiting requests and the number of their slots. Queues can be nested: round robin between plugins,
/// and within a plugin between clients.
#[derive(Debug)]
pub struct FairQueue<K, W> {
    /// The least recently served key first.
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
    /// Returns the requests waiting under a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&W> {
        self.entries.iter().find(|entry| entry.key == *key).map(|entry| &entry.waiting)
    }

    /// Changes the requests waiting under a key; a new key is added to the end of the queue.
    pub fn update<R>(&mut self, key: &K, change: impl FnOnce(&mut W) -> R) -> R {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == *key) {
            return change(&mut entry.waiting);
        }
        let mut waiting = W::default();
        let changed = change(&mut waiting);
        self.entries.push_back(Entry { key: key.clone(), waiting, running: 0 });
        changed
    }

    /// Returns the number of slots of a key.
    #[must_use]
    pub fn running(&self, key: &K) -> usize {
        self.entries.iter().find(|entry| entry.key == *key).map_or(0, |entry| entry.running)
    }

    /// Returns every key with its waiting requests.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &W)> {
        self.entries.iter().map(|entry| (&entry.key, &entry.waiting))
    }

    /// Returns every key with its waiting requests, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut W)> {
        self.entries.iter_mut().map(|entry| (&entry.key, &mut entry.waiting))
    }

    /// True if a waiting key satisfies `may_run`, given its waiting requests and its number of slots.
    #[must_use]
    pub fn has_next(&self, may_run: impl Fn(&K, &W, usize) -> bool) -> bool {
        self.entries.iter().any(|entry| entry.may(&may_run))
    }

    /// Assigns a slot to the next key that satisfies `may_run`, with the request that `take` removes from its waiting
    /// requests. [`Self::ended`] releases the slot.
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

    /// Assigns a slot to a key that did not wait.
    pub fn begin(&mut self, key: &K) {
        self.update(key, |_| ());
        self.move_to_back(key, |entry| entry.running = entry.running.saturating_add(1));
    }

    /// Releases a slot of a key; `within` receives its waiting requests.
    pub fn ended(&mut self, key: &K, within: impl FnOnce(&mut W)) {
        self.move_to_back(key, |entry| {
            entry.running = entry.running.saturating_sub(1);
            within(&mut entry.waiting);
        });
        self.forget_idle();
    }

    /// Removes the keys that have no slot and wait for none.
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

/// A semaphore that assigns slots fairly, by [`FairQueue`] under contention.
#[derive(Debug)]
pub struct FairSemaphore<K: Clone + PartialEq> {
    slots: usize,
    of_key_max: usize,
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K: Clone + PartialEq> {
    held: usize,
    queue: FairQueue<K, VecDeque<oneshot::Sender<Slot<K>>>>,
}

/// A slot of a key; released when dropped.
#[derive(Debug)]
pub struct Slot<K: Clone + PartialEq> {
    semaphore: Arc<FairSemaphore<K>>,
    key: K,
}

/// Numbers of used and requested slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotUsage {
    /// Slots in use.
    pub held: usize,
    /// Requests that wait for a slot.
    pub waiting: usize,
}

impl<K: Clone + PartialEq> FairSemaphore<K> {
    /// Creates a semaphore with `slots` slots, at least one, of which a key may have `of_key_max`.
    #[must_use]
    pub fn new(slots: usize, of_key_max: usize) -> Arc<Self> {
        let state = Mutex::new(State { held: 0, queue: FairQueue::default() });
        Arc::new(Self { slots: slots.max(1), of_key_max: of_key_max.max(1), state })
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the numbers of used and requested slots.
    #[must_use]
    pub fn usage(&self) -> SlotUsage {
        let mut state = self.lock();
        state.forget_abandoned();
        let waiting = state.queue.iter().map(|(_, waiting)| waiting.len()).sum();
        SlotUsage { held: state.held, waiting }
    }

    /// Acquires a slot if one is free for the key.
    #[must_use]
    pub fn try_acquire(self: &Arc<Self>, key: &K) -> Option<Slot<K>> {
        let mut state = self.lock();
        if state.held >= self.slots || state.queue.running(key) >= self.of_key_max {
            return None;
        }
        state.held = state.held.saturating_add(1);
        state.queue.begin(key);
        Some(Slot { semaphore: Arc::clone(self), key: key.clone() })
    }

    /// Waits for a slot.
    pub async fn acquire(self: &Arc<Self>, key: &K) -> Slot<K> {
        loop {
            if let Some(slot) = self.try_acquire(key) {
                return slot;
            }
            let (sender, receiver) = oneshot::channel();
            self.lock().queue.update(key, |waiting| waiting.push_back(sender));
            // The sender is not dropped without a slot: this task holds the semaphore and thereby its queue.
            if let Ok(slot) = receiver.await {
                return slot;
            }
        }
    }

    /// Releases a slot and assigns it to the next key.
    fn release(self: &Arc<Self>, key: &K) {
        let mut state = self.lock();
        state.held = state.held.saturating_sub(1);
        state.queue.ended(key, |_| ());
        state.forget_abandoned();
        let next = state.queue.next(|_, _, running| running < self.of_key_max, VecDeque::pop_front);
        let Some((next, sender)) = next else { return };
        state.held = state.held.saturating_add(1);
        drop(state);
        // If the request was abandoned, dropping the slot releases it again.
        drop(sender.send(Slot { semaphore: Arc::clone(self), key: next }));
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // Each change leaves the state valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + PartialEq> State<K> {
    /// Removes abandoned requests.
    fn forget_abandoned(&mut self) {
        for (_, waiting) in self.queue.iter_mut() {
            waiting.retain(|sender| !sender.is_closed());
        }
        self.queue.forget_idle();
    }
}

impl<K: Clone + PartialEq> Drop for Slot<K> {
    fn drop(&mut self) {
        let semaphore = Arc::clone(&self.semaphore);
        semaphore.release(&self.key);
    }
}

#[cfg(test)]
mod semaphore_tests {
    use futures_util::FutureExt;

    use super::*;

    fn now(semaphore: &Arc<FairSemaphore<&'static str>>, key: &'static str) -> Option<Slot<&'static str>> {
        semaphore.acquire(&key).now_or_never()
    }

    #[test]
    fn a_key_gets_its_share_and_all_keys_at_most_every_slot() {
        let semaphore = FairSemaphore::new(8, 2);
        let mut held: Vec<_> = (0..2).filter_map(|_| now(&semaphore, "greedy")).collect();
        assert!(now(&semaphore, "greedy").is_none(), "six slots are free, but not for this key");
        for key in ["a", "b", "c"] {
            held.extend((0..2).filter_map(|_| now(&semaphore, key)));
        }
        assert_eq!((held.len(), semaphore.usage()), (8, SlotUsage { held: 8, waiting: 0 }));
        assert!(now(&semaphore, "late").is_none());
        drop(held.remove(0));
        let late = now(&semaphore, "late");
        assert!(late.is_some() && semaphore.try_acquire(&"greedy").is_none());
        drop((held, late));
        assert_eq!(semaphore.usage(), SlotUsage { held: 0, waiting: 0 });
    }

    #[test]
    fn the_key_with_the_fewest_slots_is_next_then_the_least_recently_served() {
        let semaphore = FairSemaphore::new(2, 2);
        let (first, second) = (now(&semaphore, "busy"), now(&semaphore, "busy"));
        let mut third = Box::pin(semaphore.acquire(&"busy"));
        assert!((&mut third).now_or_never().is_none());
        let mut other = Box::pin(semaphore.acquire(&"quiet"));
        assert!((&mut other).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none(), "the key without slots is served first");
        let other = other.now_or_never();
        assert!(other.is_some());
        drop(second);
        assert!(third.now_or_never().is_some());
    }

    #[test]
    fn with_one_slot_keys_alternate_for_any_load() {
        let semaphore = FairSemaphore::new(1, 1);
        let mut held = now(&semaphore, "busy");
        let keys = ["busy", "busy", "busy", "busy", "busy", "quiet", "quiet"];
        let mut waiting: Vec<_> = keys.iter().map(|key| Box::pin(semaphore.acquire(key))).collect();
        assert!(waiting.iter_mut().all(|waits| waits.now_or_never().is_none()));
        let mut order = Vec::new();
        for _ in 0..4 {
            drop(held.take());
            let polled = waiting.iter_mut().map(FutureExt::now_or_never).enumerate();
            let (at, slot) = polled.filter_map(|(at, slot)| Some((at, slot?))).next().unwrap();
            drop(waiting.remove(at));
            order.push(slot.key);
            held = Some(slot);
        }
        assert_eq!(order, ["quiet", "busy", "quiet", "busy"]);
    }

    #[test]
    fn an_abandoned_request_releases_the_slot_to_others() {
        let semaphore = FairSemaphore::new(1, 1);
        let first = now(&semaphore, "one");
        let mut gone = Box::pin(semaphore.acquire(&"two"));
        assert!((&mut gone).now_or_never().is_none());
        let mut late = Box::pin(semaphore.acquire(&"one"));
        assert!((&mut late).now_or_never().is_none());
        drop(gone);
        drop(first);
        let late = late.now_or_never();
        assert!(late.is_some());
        // A slot that was assigned but not received is passed on as well.
        let mut next = Box::pin(semaphore.acquire(&"two"));
        assert!((&mut next).now_or_never().is_none());
        drop(late);
        drop(next);
        assert!(now(&semaphore, "one").is_some());
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
    fn keys_are_served_round_robin_at_any_load() {
        let mut queue = queue(&[("a", 4), ("b", 2)]);
        let order: Vec<&str> = std::iter::from_fn(|| {
            let key = next(&mut queue)?;
            queue.ended(&key, |_| ());
            Some(key)
        })
        .collect();
        assert_eq!(order, ["a", "b", "a", "b", "a", "a"]);
        assert!(queue.entries.is_empty(), "idle keys are removed");
    }

    #[test]
    fn two_busy_keys_do_not_starve_a_third() {
        let mut queue = queue(&[("patient", 1), ("one", 1)]);
        queue.begin(&"other");
        // Each queues again while the other is served.
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
    fn a_key_that_may_not_run_does_not_block_others() {
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

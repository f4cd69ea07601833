//! What several processes would share, for tests with several administrations of one store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Notify, OwnedMutexGuard};

use super::MemoryStore;
use crate::StoreError;
use crate::generation::{Feed, Generation, History};
use crate::shared::limits::{Minute, WINDOW, lease};
use crate::shared::{Lease, Leased, Shared, SharedLimits, SharedPlugins, StoredList, Take, Taken, Turn, Windowed};

/// What is kept beside the records.
#[derive(Default)]
pub(super) struct Common {
    pub(super) generation: Generation,
    kept_once: BTreeMap<String, Vec<u8>>,
    minutes: BTreeMap<String, Minute>,
    /// When each call of a window was made.
    windows: BTreeMap<String, Vec<Duration>>,
    list: StoredList,
    named: Vec<[u8; 32]>,
    time: Timestamp,
    files: BTreeMap<[u8; 32], Vec<u8>>,
}

/// How those hear of changes who follow them.
pub(super) struct Hearing {
    heard: Notify,
    /// How many changes were heard of.
    heard_of: AtomicU64,
    is_deaf: AtomicBool,
    is_away: AtomicBool,
    turn: Arc<tokio::sync::Mutex<()>>,
    since: Instant,
}

impl Default for Hearing {
    fn default() -> Self {
        let (heard, heard_of, turn) = (Notify::new(), AtomicU64::default(), Arc::default());
        let (is_deaf, is_away) = (AtomicBool::default(), AtomicBool::default());
        Self { heard, heard_of, is_deaf, is_away, turn, since: Instant::now() }
    }
}

impl Hearing {
    /// Tells those who wait; one that follows is told even where it does not wait now.
    pub(super) fn tell(&self, now: Generation) {
        if !self.is_deaf.load(Ordering::Acquire) {
            self.heard_of.fetch_max(now.changes(), Ordering::AcqRel);
            self.heard.notify_waiters();
            self.heard.notify_one();
        }
    }

    /// Fails while nothing answers.
    pub(super) fn answer(&self) -> Result<(), StoreError> {
        if self.is_away.load(Ordering::Acquire) { Err(StoreError::Failed("it is away".into())) } else { Ok(()) }
    }
}

struct OneTurn {
    _held: OwnedMutexGuard<()>,
}

impl Turn for OneTurn {}

impl MemoryStore {
    /// Changes are not heard of from now on, as when a listener's connection is lost; or they are again.
    pub fn set_deaf(&self, is_deaf: bool) {
        self.hearing.is_deaf.store(is_deaf, Ordering::Release);
        self.hearing.heard.notify_waiters();
        self.hearing.heard.notify_one();
    }

    /// Another store answers in the place of this one from now on, as after a copy took over; this one's state goes there.
    pub fn answer_as(&self, other: &Self) {
        let History([life, _]) = self.state().common.generation.history;
        std::mem::swap(&mut *self.state(), &mut *other.state());
        self.state().common.generation.history = History([life + 1, 0]);
    }

    /// That time it is from now on by the clock that the processes share.
    pub fn set_time(&self, time: Timestamp) {
        self.state().common.time = time;
    }

    /// What processes keep in memory cannot be read from now on, as when a database does not answer; or it can again.
    pub fn set_away(&self, is_away: bool) {
        self.hearing.is_away.store(is_away, Ordering::Release);
    }
}

#[async_trait::async_trait]
impl Feed for MemoryStore {
    async fn generation(&self) -> Result<Generation, StoreError> {
        self.hearing.answer()?;
        Ok(self.state().common.generation)
    }

    async fn heard(&self) {
        self.hearing.heard.notified().await;
    }

    fn is_listening(&self) -> bool {
        !self.hearing.is_deaf.load(Ordering::Acquire)
    }

    fn rest_on(&self, _: History, _: Option<Timestamp>) {}

    fn heard_of(&self) -> u64 {
        self.hearing.heard_of.load(Ordering::Acquire)
    }
}

#[async_trait::async_trait]
impl SharedLimits for MemoryStore {
    async fn take(&self, name: &str, take: Take) -> Result<Taken, StoreError> {
        let mut state = self.state();
        let count = state.counters.entry(name.to_owned()).or_default();
        let left = take.limit.saturating_sub(*count);
        let taken = if left < take.least { 0 } else { left.min(take.most) };
        *count += taken;
        Ok(Taken { taken, count: *count })
    }

    async fn give_back(&self, name: &str, count: u64) -> Result<(), StoreError> {
        if let Some(counter) = self.state().counters.get_mut(name) {
            *counter = counter.saturating_sub(count);
        }
        Ok(())
    }

    async fn lease(&self, name: &str, asked: Lease) -> Result<Leased, StoreError> {
        let now_ns = u64::try_from(self.hearing.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.state();
        let minute = state.common.minutes.entry(name.to_owned()).or_default();
        let (leased, then) = lease(*minute, now_ns, asked);
        *minute = then;
        Ok(leased)
    }

    async fn window(&self, name: &str, calls: u32, limit: u32) -> Result<Windowed, StoreError> {
        let now = self.hearing.since.elapsed();
        let mut state = self.state();
        let window = state.common.windows.entry(name.to_owned()).or_default();
        window.retain(|called_at| now.saturating_sub(*called_at) < WINDOW);
        let is_taken = window.len() as u64 + u64::from(calls) <= u64::from(limit);
        window.extend((0..calls).filter(|_| is_taken).map(|_| now));
        let until_left = window.iter().map(|called_at| (*called_at + WINDOW).saturating_sub(now)).collect();
        Ok(Windowed { is_taken, until_left })
    }

    async fn forget_full_minutes(&self) -> Result<u64, StoreError> {
        let now = self.hearing.since.elapsed();
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let common = &mut self.state().common;
        let before = common.minutes.len() + common.windows.len();
        common.minutes.retain(|_, minute| minute.full_at_ns > now_ns);
        common.windows.retain(|_, window| window.iter().any(|called_at| now.saturating_sub(*called_at) < WINDOW));
        Ok(before.saturating_sub(common.minutes.len() + common.windows.len()) as u64)
    }
}

#[async_trait::async_trait]
impl SharedPlugins for MemoryStore {
    async fn plugin_list(&self) -> Result<StoredList, StoreError> {
        Ok(self.state().common.list.clone())
    }

    async fn replace_plugin_list(&self, seen: u64, list: &[u8], named: &[[u8; 32]]) -> Result<u64, StoreError> {
        let (revision, now) = {
            let common = &mut self.state().common;
            if common.list.revision != seen {
                return Err(StoreError::Overtaken);
            }
            let before = std::mem::replace(&mut common.named, named.to_vec());
            common.files.retain(|digest, _| named.contains(digest) || before.contains(digest));
            common.list = StoredList { revision: seen + 1, bytes: list.to_vec() };
            common.generation.deployment += 1;
            (common.list.revision, common.generation)
        };
        self.hearing.tell(now);
        Ok(revision)
    }

    async fn plugin_file(&self, digest: [u8; 32]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state().common.files.get(&digest).cloned())
    }

    async fn put_plugin_file(&self, digest: [u8; 32], bytes: Vec<u8>) -> Result<(), StoreError> {
        self.state().common.files.entry(digest).or_insert(bytes);
        Ok(())
    }
}

#[async_trait::async_trait]
impl Shared for MemoryStore {
    async fn turn(&self) -> Result<Box<dyn Turn>, StoreError> {
        Ok(Box::new(OneTurn { _held: Arc::clone(&self.hearing.turn).lock_owned().await }))
    }

    async fn keep_once(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        Ok(self.state().common.kept_once.entry(name.to_owned()).or_insert_with(|| value.to_vec()).clone())
    }

    async fn time(&self) -> Result<Timestamp, StoreError> {
        self.hearing.answer()?;
        Ok(self.state().common.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::sharing::{Process, sharing};

    async fn two() -> (Process, Process, ()) {
        let store = Arc::new(MemoryStore::new());
        let process = Process { store: store.clone(), shared: store };
        (process.clone(), process, ())
    }

    sharing!(two);
}

//! Keeps what this process has in memory as other processes of the register left it: clients, settings, plugins, signing keys.
//!
//! **Invariant:** what another process wrote counts here a second later at most, and for every request that begins after it where this
//! process does not hear of changes: each then compares the generation before anything is decided. What it heard of and could not take
//! up of clients counts for every request that begins after it was heard: each compares clients for itself until that is done.
//!
//! **Invariant:** a process that can neither hear nor compare lets nobody in: what it knows of clients may be out of date.
//!
//! **Invariant:** where another database answers than before, as after a copy took over that had not all writes, everything is read again and
//! nothing is kept for being newer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, Notify};
use tokio::time::Instant;

use crate::plugin::PluginAdministration;
use crate::vocabulary_publisher::SyncOutcome;
use daftar_auth::{ClientDirectory, SigningKeyRings};
use daftar_domain::context::Clock;
use daftar_domain::error::AppError;
use daftar_store::Store;
use daftar_store::shared::{Generation, History, OtherReaders, Shared};

/// How often the generation is compared and the files of signing keys checked, whatever is heard.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long a plugin that could not be applied, and labels that could not be put, wait to be tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// Follows the changes of other processes.
pub struct Follower {
    shared: Arc<dyn Shared>,
    store: Arc<dyn Store>,
    directory: Arc<ClientDirectory>,
    plugins: PluginAdministration,
    rings: SigningKeyRings,
    clock: Arc<dyn Clock>,
    /// What is in memory shows at least that.
    seen: Mutex<Seen>,
    /// Of how many changes it was known, when clients were compared last, that clients in memory show those among them.
    compared_up_to: AtomicU64,
    /// Held by whoever takes clients up.
    clients: AsyncMutex<()>,
    /// Held by whoever takes settings up.
    deployment: AsyncMutex<()>,
    /// Something was heard of.
    heard: Notify,
    /// When the last look began. Whoever looks holds it.
    looked_for_key: AsyncMutex<Option<Instant>>,
    /// When the last refresh of clients for refused requests began. The task that refreshes holds it.
    clients_refreshed: AsyncMutex<Option<Instant>>,
    clocks: Mutex<Option<ClockDifference>>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    taken_up: AtomicU64,
    compared: AtomicU64,
    failed: AtomicU64,
    /// Of what the last try failed.
    is_behind: [AtomicBool; Part::ALL.len()],
}

/// How often something was changed, in the history in which that was counted.
type Count = (History, u64);

/// What was applied.
#[derive(Debug, Clone, Copy)]
struct Seen {
    clients: Count,
    deployment: Count,
}

impl From<Generation> for Seen {
    fn from(generation: Generation) -> Self {
        let Generation { clients, deployment, history } = generation;
        Self { clients: (history, clients), deployment: (history, deployment) }
    }
}

/// What is followed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Clients,
    Settings,
    Plugins,
    Labels,
}

impl Part {
    const ALL: [Self; 4] = [Self::Clients, Self::Settings, Self::Plugins, Self::Labels];

    fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Settings => "settings",
            Self::Plugins => "plugins",
            Self::Labels => "labels",
        }
    }
}

/// What the metrics page reports following.
pub struct FollowerUsage {
    /// True if changes are heard of as they are made.
    pub is_listening: bool,
    /// True if the last try to compare or to take something up failed.
    pub is_behind: bool,
    /// How often changes of others were applied.
    pub taken_up: u64,
    /// How often the generation was compared.
    pub compared: u64,
    /// How often that, or taking something up, failed.
    pub failed: u64,
}

impl FollowerUsage {
    /// Of a server that has no others to follow.
    pub const ALONE: Self = Self { is_listening: true, is_behind: false, taken_up: 0, compared: 0, failed: 0 };
}

impl Follower {
    /// Follows from a generation that was read before what is in memory was.
    pub fn new(
        shared: Arc<dyn Shared>,
        store: Arc<dyn Store>,
        directory: Arc<ClientDirectory>,
        plugins: PluginAdministration,
        (rings, clock): (SigningKeyRings, Arc<dyn Clock>),
        seen: Generation,
    ) -> Self {
        shared.rest_on(seen.history, None);
        let compared_up_to = AtomicU64::new(seen.changes());
        let (seen, clients, deployment) = (Mutex::new(seen.into()), AsyncMutex::default(), AsyncMutex::default());
        let (heard, counts) = (Notify::new(), Counts::default());
        Self {
            shared,
            store,
            directory,
            plugins,
            rings,
            clock,
            seen,
            compared_up_to,
            clients,
            deployment,
            heard,
            looked_for_key: AsyncMutex::default(),
            clients_refreshed: AsyncMutex::default(),
            clocks: Mutex::default(),
            counts,
        }
    }

    /// Works until it is dropped.
    pub async fn keep_up(&self) {
        tokio::join!(self.follow(), self.follow_deployment(), self.follow_plugins(), self.follow_clock());
    }

    /// Follows clients and keys: nothing that takes long keeps these from being applied.
    async fn follow(&self) {
        let mut was_listening = true;
        loop {
            // Too late or heard: either way it is compared.
            let _heard = tokio::time::timeout(INTERVAL, self.shared.heard()).await;
            let is_listening = self.shared.is_listening();
            if was_listening && !is_listening {
                tracing::warn!(
                    "changes by other processes are not heard of at the moment; each request asks the database for them until they are"
                );
            } else if is_listening && !was_listening {
                tracing::info!("changes by other processes are heard of again");
            }
            was_listening = is_listening;
            self.note(self.compare_clients().await, Part::Clients);
            self.heard.notify_one();
            self.apply_keys().await;
        }
    }

    async fn follow_deployment(&self) {
        let mut labels_due = Instant::now();
        loop {
            let _heard = tokio::time::timeout(INTERVAL, self.heard.notified()).await;
            let compared = self.compare_deployment().await;
            if compared.is_ok() && labels_due <= Instant::now() {
                let put = self.plugins.publisher().catch_up_labels().await;
                if put.is_err() {
                    labels_due = Instant::now() + AGAIN;
                }
                self.note(put, Part::Labels);
            }
            self.note(compared, Part::Settings);
        }
    }

    /// Follows plugins, which take as long as they are compiled; what cannot be applied is tried again.
    async fn follow_plugins(&self) {
        let mut taken_up = None;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let deployment = self.seen().deployment;
            let is_due = |(seen, at): (Count, Instant)| {
                seen != deployment
                    || self.plugins.must_load()
                    || (self.plugins.not_taken_up() > 0 && at.elapsed() >= AGAIN)
            };
            if !taken_up.is_none_or(is_due) {
                continue;
            }
            let outcome = self.plugins.apply_plugins(self.clock.now()).await;
            if outcome.is_ok() {
                taken_up = Some((deployment, Instant::now()));
            }
            self.note(outcome, Part::Plugins);
        }
    }

    fn note(&self, outcome: Result<(), AppError>, part: Part) {
        self.counts.failed.fetch_add(u64::from(outcome.is_err()), Ordering::Relaxed);
        let Some(is_behind) = self.counts.is_behind.get(part as usize) else { return };
        let was_behind = is_behind.swap(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Err(error) if !was_behind => tracing::warn!(
                error = %error,
                follow.part = part.name(),
                "what processes share cannot be followed; it is tried again"
            ),
            Ok(()) if was_behind => {
                tracing::info!(follow.part = part.name(), "changes by other processes are taken up again");
            }
            Err(_) | Ok(()) => {}
        }
    }

    /// Makes sure that what is in memory is as new as this moment, where this process does not hear of changes; and that clients are,
    /// where it heard of one that is not applied yet: somebody who was let in before may have been shut out.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn be_current(&self) -> Result<(), AppError> {
        if !self.shared.is_listening() {
            self.compare().await
        } else if self.are_clients_behind() {
            self.compare_clients().await
        } else {
            Ok(())
        }
    }

    /// True if what is in memory is as new as this moment, as far as is known: [`Self::be_current`] asks nothing then.
    pub fn is_current(&self) -> bool {
        self.shared.is_listening() && !self.are_clients_behind()
    }

    /// True if clients are known to be behind, or were when it was tried last to compare them.
    fn are_clients_behind(&self) -> bool {
        let is_behind = self.counts.is_behind.get(Part::Clients as usize);
        is_behind.is_some_and(|is_behind| is_behind.load(Ordering::Relaxed))
            || self.shared.heard_of() > self.compared_up_to.load(Ordering::Acquire)
    }

    /// Makes sure that clients and settings in memory are as new as this moment.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn compare(&self) -> Result<(), AppError> {
        self.compare_clients().await?;
        self.compare_deployment().await
    }

    async fn compare_clients(&self) -> Result<(), AppError> {
        let now = self.generation().await?;
        if Seen::from(now).clients == self.seen().clients {
            self.compared_up_to.store(now.changes(), Ordering::Release);
            return Ok(());
        }
        let _taking_up = self.clients.lock().await;
        // Before what it counts is read: what is written in the meantime is read once more.
        let now = self.shared.generation().await?;
        let (before, clients) = (self.seen().clients, Seen::from(now).clients);
        if clients != before {
            let stored = self.store.clients().await?;
            if now.history == before.0 {
                self.directory.synchronize(stored);
            } else {
                tracing::warn!(
                    "another database answers, or the same one was started again; what is known of it is read anew"
                );
                self.directory.go_back_to(stored);
            }
            self.seen().clients = clients;
            self.counts.taken_up.fetch_add(1, Ordering::Relaxed);
        }
        self.compared_up_to.store(now.changes(), Ordering::Release);
        Ok(())
    }

    async fn compare_deployment(&self) -> Result<(), AppError> {
        if Seen::from(self.generation().await?).deployment == self.seen().deployment {
            return Ok(());
        }
        let _taking_up = self.deployment.lock().await;
        let now = Seen::from(self.shared.generation().await?).deployment;
        let before = self.seen().deployment;
        if now == before {
            return Ok(());
        }
        // Changes that are not applied while this process holds the lock stay unseen, so that they are applied when it is released.
        if self.plugins.publisher().apply_settings().await? == SyncOutcome::Applied {
            self.seen().deployment = now;
            self.counts.taken_up.fetch_add(1, Ordering::Relaxed);
            if now.0 != before.0 {
                self.shared.rest_on(now.0, Some(self.clock.now()));
            }
        }
        Ok(())
    }

    async fn generation(&self) -> Result<Generation, AppError> {
        self.counts.compared.fetch_add(1, Ordering::Relaxed);
        Ok(self.shared.generation().await?)
    }

    /// How following goes.
    pub fn usage(&self) -> FollowerUsage {
        FollowerUsage {
            is_listening: self.shared.is_listening(),
            is_behind: self.counts.is_behind.iter().any(|is_behind| is_behind.load(Ordering::Relaxed)),
            taken_up: self.counts.taken_up.load(Ordering::Relaxed),
            compared: self.counts.compared.load(Ordering::Relaxed),
            failed: self.counts.failed.load(Ordering::Relaxed),
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The least time between two searches for an unknown key, or two refreshes of clients.
const LOOKS_APART: Duration = Duration::from_millis(100);

impl Follower {
    /// Looks whether another process wrote a signing key that is not known here. For tokens and decisions of unknown keys: whoever sends many of them
    /// does not make this process read its disk for each, as one look is for all that wait for it.
    pub async fn look_for_key(&self) {
        let Some(mut looked) = next_look(&self.looked_for_key).await else { return };
        *looked = Some(Instant::now());
        self.apply_keys().await;
    }

    /// Refreshes clients for requests with a valid token whose client is unknown here, or seems to be disabled. As with [`Self::look_for_key`]
    /// all requests that wait share one refresh: refused requests do not cost a query each.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn refresh_clients(&self) -> Result<(), AppError> {
        let Some(mut looked) = next_look(&self.clients_refreshed).await else { return Ok(()) };
        let began = Instant::now();
        self.compare().await?;
        *looked = Some(began);
        Ok(())
    }

    async fn apply_keys(&self) {
        let rings = self.rings.clone();
        let taken_up = match tokio::task::spawn_blocking(move || rings.reload()).await {
            Ok(taken_up) => taken_up.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match taken_up {
            Ok(true) => tracing::info!("signing keys that another process wrote are in force"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(
                    error,
                    "the signing keys cannot be read anew; those that were read before stay in force"
                );
            }
        }
    }
}

/// How often the clocks are compared.
const CLOCK_INTERVAL: Duration = Duration::from_secs(10);
/// A greater difference is reported.
const DIFFERENCE_MAX: SignedDuration = SignedDuration::from_secs(2);

/// By how much the clock of this server differs from the database's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockDifference {
    /// How far this server's clock is ahead; below zero where it is behind.
    pub ahead: SignedDuration,
    /// How far that may be off: half the time that asking took.
    pub within: SignedDuration,
}

impl ClockDifference {
    /// True if the clocks differ by more than is harmless, however long asking took.
    pub fn is_large(&self) -> bool {
        self.ahead.abs().saturating_sub(self.within) > DIFFERENCE_MAX
    }

    /// In seconds.
    pub fn seconds(&self) -> f64 {
        self.ahead.as_secs_f64()
    }
}

impl Follower {
    /// The difference when the clocks were compared last; nothing before that.
    pub fn clock_difference(&self) -> Option<ClockDifference> {
        *self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who else may read what the servers share, past this program.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn other_readers(&self) -> Result<OtherReaders, AppError> {
        Ok(self.shared.other_readers().await?)
    }

    /// Compares the clock of this server with the database's now and then. Servers whose clocks agree with that one agree with each other: tokens,
    /// `not_before` of clients and the times of writes go by the clock of the server that makes them.
    async fn follow_clock(&self) {
        loop {
            self.compare_clocks().await;
            tokio::time::sleep(CLOCK_INTERVAL).await;
        }
    }

    async fn compare_clocks(&self) {
        let (asked_at, begun) = (self.clock.now(), self.clock.elapsed());
        // An outage is logged by itself; what was found before stays.
        let Ok(there) = self.shared.time().await else { return };
        let taken = self.clock.elapsed().saturating_sub(begun);
        let within = SignedDuration::try_from(taken / 2).unwrap_or(SignedDuration::MAX);
        // The database read its clock between the request and the response.
        let ahead = asked_at.duration_since(there).saturating_add(within);
        let difference = ClockDifference { ahead, within };
        let before = self.clocks.lock().unwrap_or_else(PoisonError::into_inner).replace(difference);
        let was_large = before.is_some_and(|before| before.is_large());
        if difference.is_large() && !was_large {
            tracing::warn!(
                clock.ahead_s = difference.seconds(),
                clock.within_s = within.as_secs_f64(),
                "the clock of this server and the database's differ: tokens of other servers may be refused here, and those of this one there; set the clocks by NTP"
            );
        } else if was_large && !difference.is_large() {
            tracing::info!(
                clock.ahead_s = difference.seconds(),
                "the clock of this server and the database's agree again"
            );
        }
    }
}

/// Waits for its turn to look; nothing, where a look began after it was asked for, which is good for this request too.
async fn next_look(looks: &AsyncMutex<Option<Instant>>) -> Option<AsyncMutexGuard<'_, Option<Instant>>> {
    let asked = Instant::now();
    let last = looks.lock().await;
    if last.is_some_and(|began| began >= asked) {
        return None;
    }
    if let Some(pause) = last.and_then(|began| LOOKS_APART.checked_sub(began.elapsed())) {
        tokio::time::sleep(pause).await;
    }
    Some(last)
}

#[cfg(test)]
mod tests;

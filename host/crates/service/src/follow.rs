//! Applies the changes of other processes of the register to the memory of this process: clients, settings, plugins,
//! signing keys.
//!
//! **Invariant:** a change by another process takes effect here within one second. While this process receives no
//! change notifications, the change takes effect for every request that begins after it: each request then compares
//! the version counter before any decision. A notified change of clients that is not applied yet takes effect for
//! every request that begins after the notification: each request compares clients itself.
//!
//! **Invariant:** a process that can neither receive notifications nor compare version counters rejects every client,
//! since its client data may be out of date.
//!
//! **Invariant:** after a failover to another database, for example a replica without the last writes, all data is
//! read again and no cached data is treated as newer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, Notify, Semaphore};
use tokio::time::Instant;

use crate::plugin::PluginAdministration;
use crate::vocabulary_publisher::SyncOutcome;
use daftar_auth::{ClientDirectory, SigningKeyRings};
use daftar_domain::context::Clock;
use daftar_domain::error::{AppError, TaskEnded};
use daftar_store::Store;
use daftar_store::shared::{Generation, History, OtherReaders, ReportViews, Shared};

/// Interval between comparisons of the version counter and checks of the files of signing keys, independent of
/// notifications.
const INTERVAL: Duration = Duration::from_millis(500);
/// Delay before the next attempt to apply a failed plugin, or to store labels that could not be stored.
const AGAIN: Duration = Duration::from_secs(30);
/// Maximum number of requests that wait for a check for a new key. Their clients are not authenticated, and no rate
/// limit has counted these requests: without this limit they would occupy every request slot.
const KEY_WAITERS_MAX: usize = 32;

/// Follows the changes of other processes.
pub struct Follower {
    shared: Arc<dyn Shared>,
    store: Arc<dyn Store>,
    directory: Arc<ClientDirectory>,
    plugins: PluginAdministration,
    rings: SigningKeyRings,
    clock: Arc<dyn Clock>,
    /// Lower bound of the version of the data in memory.
    seen: Mutex<Seen>,
    /// The number of known changes at the last comparison of clients: the clients in memory include those changes.
    compared_up_to: AtomicU64,
    /// Locked while clients are applied.
    clients: AsyncMutex<()>,
    /// Locked while settings are applied.
    deployment: AsyncMutex<()>,
    /// Signals that a change notification arrived.
    heard: Notify,
    /// Start of the last check for a new key; locked during a check.
    looked_for_key: AsyncMutex<Option<Instant>>,
    /// A permit for each request that waits for that check.
    key_waiters: Semaphore,
    /// Start of the last refresh of clients for denied requests. The task that refreshes keeps it locked.
    clients_refreshed: AsyncMutex<Option<Instant>>,
    clocks: Mutex<Option<ClockDifference>>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    taken_up: AtomicU64,
    compared: AtomicU64,
    failed: AtomicU64,
    /// The cause of the last failure.
    is_behind: [AtomicBool; Part::ALL.len()],
}

/// Number of changes, and the database timeline in which they were counted.
type Count = (History, u64);

/// Changes that were applied.
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

/// The parts that are synchronized separately.
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

/// Figures of change synchronization for the metrics page.
pub struct FollowerUsage {
    /// True if change notifications are received.
    pub is_listening: bool,
    /// True if the last comparison or application of changes failed.
    pub is_behind: bool,
    /// Number of times that changes of other processes were applied.
    pub taken_up: u64,
    /// Number of comparisons of the version counter.
    pub compared: u64,
    /// Number of failed comparisons or applications of changes.
    pub failed: u64,
}

impl FollowerUsage {
    /// For a server without other processes.
    pub const ALONE: Self = Self { is_listening: true, is_behind: false, taken_up: 0, compared: 0, failed: 0 };
}

impl Follower {
    /// Starts from a version counter that was read before the data in memory was.
    pub fn new(
        shared: Arc<dyn Shared>,
        store: Arc<dyn Store>,
        directory: Arc<ClientDirectory>,
        plugins: PluginAdministration,
        (rings, clock): (SigningKeyRings, Arc<dyn Clock>),
        seen: Generation,
    ) -> Self {
        shared.rest_on(seen.history, None);
        directory.share();
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
            key_waiters: Semaphore::new(KEY_WAITERS_MAX),
            clients_refreshed: AsyncMutex::default(),
            clocks: Mutex::default(),
            counts,
        }
    }

    /// Runs until it is dropped.
    pub async fn maintain(&self) {
        tokio::join!(
            self.follow(),
            self.follow_deployment(),
            self.follow_plugins(),
            self.follow_lifetime(),
            self.follow_clock()
        );
    }

    /// Synchronizes clients and keys, in a task of its own: slow work does not delay them.
    async fn follow(&self) {
        let mut was_listening = true;
        loop {
            // A timeout or a notification: the comparison runs in both cases.
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

    /// Synchronizes plugins, which takes as long as their compilation; a failed plugin is retried.
    async fn follow_plugins(&self) {
        let mut taken_up = None;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let deployment = self.seen().deployment;
            let is_due = |(seen, at): (Count, Instant)| {
                seen != deployment
                    || self.plugins.must_load()
                    || (self.plugins.pending_changes() > 0 && at.elapsed() >= AGAIN)
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

    /// Stores the configured lifetime of tokens with a signing key that another process with a shorter lifetime
    /// generated; until then the tokens of this process have the shorter one. Delays nothing else: another process may
    /// hold the exclusive lock for minutes.
    async fn follow_lifetime(&self) {
        let mut had_failed = false;
        loop {
            tokio::time::sleep(INTERVAL).await;
            if !self.rings.tokens.must_raise_lifetime() {
                continue;
            }
            let raised = self.raise_lifetime().await;
            if let Some(error) = raised.as_ref().err().filter(|_| !had_failed) {
                tracing::warn!(error, "token lifetime of this server not stored with the signing key, retrying");
            }
            had_failed = raised.is_err();
        }
    }

    async fn raise_lifetime(&self) -> Result<(), String> {
        let _turn = self.shared.turn().await.map_err(|error| error.to_string())?;
        let ring = Arc::clone(&self.rings.tokens);
        let raised = tokio::task::spawn_blocking(move || ring.raise_lifetime()).await;
        raised.map_err(|error| TaskEnded::from(error).to_string())?.map_err(|error| error.to_string())
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
                tracing::info!(follow.part = part.name(), "changes by other processes are applied again");
            }
            Err(_) | Ok(()) => {}
        }
    }

    /// Makes sure that the data in memory is current, while this process receives no change notifications; and that
    /// clients are current, if a notified change is not applied yet: a client that had access may have been disabled.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn be_current(&self) -> Result<(), AppError> {
        if !self.shared.is_listening() {
            self.compare().await
        } else if self.are_clients_behind() {
            self.compare_clients().await
        } else {
            Ok(())
        }
    }

    /// True if the data in memory is current, as far as is known: [`Self::be_current`] sends no query then.
    pub fn is_current(&self) -> bool {
        self.shared.is_listening() && !self.are_clients_behind()
    }

    /// True if clients are known to lag, or lagged at the last attempt to compare them.
    fn are_clients_behind(&self) -> bool {
        let is_behind = self.counts.is_behind.get(Part::Clients as usize);
        is_behind.is_some_and(|is_behind| is_behind.load(Ordering::Relaxed))
            || self.shared.heard_of() > self.compared_up_to.load(Ordering::Acquire)
    }

    /// Makes sure that clients and settings in memory are current.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn compare(&self) -> Result<(), AppError> {
        self.compare_clients().await?;
        self.compare_deployment().await
    }

    /// Makes sure that clients in memory are current. Does not wait for a change of settings or plugins.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn compare_clients(&self) -> Result<(), AppError> {
        let now = self.generation().await?;
        if Seen::from(now).clients == self.seen().clients {
            self.compared_up_to.store(now.changes(), Ordering::Release);
            return Ok(());
        }
        let _taking_up = self.clients.lock().await;
        // Before the counted changes are read: a change written concurrently is read once more.
        let now = self.shared.generation().await?;
        let (before, clients) = (self.seen().clients, Seen::from(now).clients);
        if clients != before {
            let stored = self.store.clients().await?;
            if now.history == before.0 {
                self.directory.synchronize(stored);
            } else {
                tracing::warn!(
                    "failover to another database detected, or the same one was restarted; its data is read again"
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
        // Changes that are not applied while this process holds the lock stay pending, so that they are applied when it
        // is released.
        if self.plugins.publisher().apply_settings().await? == SyncOutcome::Applied {
            self.seen().deployment = now;
            self.counts.taken_up.fetch_add(1, Ordering::Relaxed);
            if now.0 != before.0 {
                self.shared.rest_on(now.0, Some(Arc::clone(&self.clock)));
            }
        }
        Ok(())
    }

    async fn generation(&self) -> Result<Generation, AppError> {
        self.counts.compared.fetch_add(1, Ordering::Relaxed);
        Ok(self.shared.generation().await?)
    }

    /// Figures of change synchronization.
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

/// The minimum interval between two searches for an unknown key, or two refreshes of clients.
const LOOKS_APART: Duration = Duration::from_millis(100);

impl Follower {
    /// Checks for a signing key of another process that is not known here, for tokens and decisions of unknown keys.
    /// One check serves all requests that wait for it, so that a client that sends many unknown keys does not cause one
    /// disk read each. Does not wait if `KEY_WAITERS_MAX` requests do: the next periodic check finds the key.
    pub async fn look_for_key(&self) {
        let Ok(_waiting) = self.key_waiters.try_acquire() else { return };
        let Some(mut looked) = next_look(&self.looked_for_key).await else { return };
        *looked = Some(Instant::now());
        self.apply_keys().await;
    }

    /// Refreshes clients for requests with a valid token whose client is unknown here, or appears disabled. As with
    /// [`Self::look_for_key`], all requests that wait share one refresh: denied requests do not cost a query each.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn refresh_clients(&self) -> Result<(), AppError> {
        let Some(mut looked) = next_look(&self.clients_refreshed).await else { return Ok(()) };
        let began = Instant::now();
        self.compare_clients().await?;
        *looked = Some(began);
        Ok(())
    }

    async fn apply_keys(&self) {
        let rings = self.rings.clone();
        let taken_up = match tokio::task::spawn_blocking(move || rings.reload()).await {
            Ok(taken_up) => taken_up.map_err(|error| error.to_string()),
            Err(error) => Err(TaskEnded::from(error).to_string()),
        };
        match taken_up {
            Ok(true) => tracing::info!("signing keys written by another process are active"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(error, "the signing keys cannot be read again; those that were read before stay active");
            }
        }
    }
}

/// Interval between comparisons of the clocks.
const CLOCK_INTERVAL: Duration = Duration::from_secs(10);
/// A greater difference is reported.
const DIFFERENCE_MAX: SignedDuration = SignedDuration::from_secs(2);

/// By how much the clock of this server differs from the database's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockDifference {
    /// Lead of this server's clock over the database's; negative if it lags.
    pub ahead: SignedDuration,
    /// Uncertainty of the difference: half the round-trip time of the query.
    pub within: SignedDuration,
}

impl ClockDifference {
    /// True if the clocks differ by more than is harmless, allowing for the uncertainty.
    pub fn is_large(&self) -> bool {
        self.ahead.abs().saturating_sub(self.within) > DIFFERENCE_MAX
    }

    /// In seconds.
    pub fn seconds(&self) -> f64 {
        self.ahead.as_secs_f64()
    }
}

impl Follower {
    /// The difference at the last comparison of the clocks; none before that.
    pub fn clock_difference(&self) -> Option<ClockDifference> {
        *self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Database roles other than the role of this program that may read the data shared by the servers.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn other_readers(&self) -> Result<OtherReaders, AppError> {
        Ok(self.shared.other_readers().await?)
    }

    /// State of the views for reports by SQL.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn report_views(&self) -> Result<ReportViews, AppError> {
        Ok(self.shared.report_views().await?)
    }

    /// Compares the clock of this server with the database's periodically. Servers whose clocks match it match each
    /// other: tokens, `not_before` of clients and the times of writes use the clock of the server that creates them.
    async fn follow_clock(&self) {
        loop {
            self.compare_clocks().await;
            tokio::time::sleep(CLOCK_INTERVAL).await;
        }
    }

    async fn compare_clocks(&self) {
        let (requested_at, begun) = (self.clock.now(), self.clock.elapsed());
        // An outage is logged elsewhere; the last result stays.
        let Ok(there) = self.shared.time().await else { return };
        let taken = self.clock.elapsed().saturating_sub(begun);
        let within = SignedDuration::try_from(taken / 2).unwrap_or(SignedDuration::MAX);
        // The database read its clock between the request and the response.
        let ahead = requested_at.duration_since(there).saturating_add(within);
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

/// Waits for the lock of the check; returns nothing if a check began after the request came, since its result serves
/// this request too.
async fn next_look(looks: &AsyncMutex<Option<Instant>>) -> Option<AsyncMutexGuard<'_, Option<Instant>>> {
    let requested = Instant::now();
    let last = looks.lock().await;
    if last.is_some_and(|began| began >= requested) {
        return None;
    }
    if let Some(pause) = last.and_then(|began| LOOKS_APART.checked_sub(began.elapsed())) {
        tokio::time::sleep(pause).await;
    }
    Some(last)
}

#[cfg(test)]
mod tests;

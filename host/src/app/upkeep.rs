//! Background tasks: checkpoints, limits, the audit log, keys and secrets.
//!
//! A checkpoint is written shortly after a start without one, after many writes since the last one, and at shutdown.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Interval, interval, interval_at};

use super::metrics::Metrics;
use super::{AppState, StateParts};
use daftar_domain::calendar;
use daftar_domain::change::Sequence;
use daftar_domain::error::TaskEnded;
use daftar_domain::tasks::restarted;
use daftar_index::checkpoint::CheckpointFolder;
use daftar_index::{Columns, Image};
use daftar_service::shared_index::{SharedIndex, Stamp};
use daftar_service::vocabulary;
use daftar_store::Store;

/// Interval of checks for a due checkpoint.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);
/// Number of writes since the last checkpoint after which the next is due. Each write takes 10 to 25 µs to apply at the
/// next start (host/docs/SCALE.md).
const WRITES_DUE: u64 = 50_000;
/// Age of the last checkpoint after which the next is due, if there are later writes.
const AGE_DUE: Duration = Duration::from_secs(3_600);
/// Delay of the next attempt after a failed checkpoint, for example after a full disk.
const AFTER_FAILURE: Duration = Duration::from_secs(600);
/// The niceness of the thread that writes a checkpoint.
const NICENESS: i32 = 10;
/// Interval at which the limits drop idle entries.
const LIMITS_INTERVAL: Duration = Duration::from_secs(60);
/// Interval at which requests of past days are deleted.
const REQUESTS_INTERVAL: Duration = Duration::from_secs(600);
/// Interval of checks for expired keys, tokens and secrets.
const ACCESS_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of clients with old secrets that the server logs by name each day; others are counted.
const NAMED_MAX: usize = 20;
/// Interval of checks of the rejection counters, and for backups that other servers made.
const COUNTS_INTERVAL: Duration = Duration::from_secs(15);
/// Interval at which old audit entries are removed, in intervals of the rejection counters: every hour.
const REMOVAL_INTERVALS: u64 = 240;

/// Starts the background tasks of a server, each as a task of its own: none delays or ends another one.
pub(super) fn start(
    app: &AppState,
    metrics: Arc<Metrics>,
    checkpoints: Option<Arc<Checkpoints>>,
) -> Arc<[AbortHandle]> {
    let registry = app.registry.clone();
    // The first search in a vocabulary would build its index while the client waits, so the indexes are built here.
    let indexing = async move {
        let indexed = tokio::task::spawn_blocking(move || vocabulary::prepare_all_searches(&registry)).await;
        if let Err(error) = indexed.map_err(TaskEnded::from) {
            tracing::warn!(error = %error, "indexes for search could not be made; the first searches make them");
        }
    };
    let mut tasks = vec![
        tokio::spawn(indexing).abort_handle(),
        maintained("metrics", app, metrics, |metrics| async move { metrics.maintain().await }),
        periodic("limits", LIMITS_INTERVAL, app, keep_limits),
        periodic("requests", REQUESTS_INTERVAL, app, forget_requests),
        periodic("access", ACCESS_INTERVAL, app, keep_access),
        periodic("audit", COUNTS_INTERVAL, app, keep_audit),
    ];
    if let Some(checkpoints) = checkpoints {
        let maintain = |checkpoints: Arc<Checkpoints>| async move { checkpoints.maintain().await };
        tasks.push(maintained("checkpoints", app, checkpoints, maintain));
    }
    if let Some(follower) = app.follower.clone() {
        tasks.push(maintained("follower", app, follower, |follower| async move { follower.maintain().await }));
    }
    if let Some(index) = app.registry.shared_index.clone() {
        tasks.push(maintained("shared_index", app, index, |index| async move { index.maintain().await }));
    }
    tasks.into()
}

/// Starts a task that runs periodically while the server exists.
fn periodic<F: Future<Output = ()> + Send + 'static>(
    name: &'static str,
    period: Duration,
    app: &AppState,
    task: impl Fn(Ticks) -> F + Send + Sync + 'static,
) -> AbortHandle {
    let (app, clock) = (app.downgrade(), Arc::clone(&app.clock));
    let task = move || task(Ticks { ticks: interval(period), app: Weak::clone(&app) });
    tokio::spawn(restarted(name, clock, task)).abort_handle()
}

/// Starts a task that maintains a value.
fn maintained<T: Send + Sync + 'static, F: Future<Output = ()> + Send + 'static>(
    name: &'static str,
    app: &AppState,
    value: Arc<T>,
    task: impl Fn(Arc<T>) -> F + Send + Sync + 'static,
) -> AbortHandle {
    tokio::spawn(restarted(name, Arc::clone(&app.clock), move || task(Arc::clone(&value)))).abort_handle()
}

/// Wakes a task periodically while the server exists.
struct Ticks {
    ticks: Interval,
    app: Weak<StateParts>,
}

impl Ticks {
    async fn next(&mut self) -> Option<Arc<StateParts>> {
        self.ticks.tick().await;
        self.app.upgrade()
    }
}

async fn keep_limits(mut ticks: Ticks) {
    while let Some(app) = ticks.next().await {
        if let Err(error) = app.limits.maintain().await {
            tracing::warn!(error = %error, "counts of past days cannot be removed");
        }
    }
}

/// Deletes idempotency keys that are older than a day.
async fn forget_requests(mut ticks: Ticks) {
    while let Some(app) = ticks.next().await {
        if let Err(error) = app.requests.forget(&*app.registry.store, app.clock.now()).await {
            tracing::warn!(error = %error, "requests of past days cannot be forgotten");
        }
    }
}

/// Maintains the audit log according to the configuration.
async fn keep_audit(mut ticks: Ticks) {
    for turn in 0_u64.. {
        let Some(app) = ticks.next().await else { return };
        if let Err(error) = app.registry.audit.record_counts(app.clock.now()).await {
            tracing::warn!(error = %error, "counts of refusals cannot be audited");
        }
        if app.follower.is_some() {
            // Another server of the same database may have made a backup. The store logs an outage, once.
            let _is_read = app.backups.recall().await.is_ok();
        }
        if turn.is_multiple_of(REMOVAL_INTERVALS) {
            remove_old_lines(&app).await;
        }
    }
}

async fn remove_old_lines(app: &StateParts) {
    let Some(retention_days) = app.config.audit.retention() else { return };
    let (now, id) = (app.clock.now(), app.ids.next_id());
    match app.audit.remove_old(now, retention_days, &id).await {
        Ok(0) => {}
        Ok(lines) => tracing::info!(
            audit.lines = lines,
            audit.retention_days = retention_days,
            "old lines of the audit log were removed"
        ),
        Err(error) => {
            tracing::warn!(error = %error, "old lines of the audit log cannot be removed, the next hour tries again")
        }
    }
}

/// Deletes expired tokens and keys, and warns of old secrets once a day. The caller has warned at the start already.
async fn keep_access(mut ticks: Ticks) {
    let mut warned_on = None;
    while let Some(app) = ticks.next().await {
        let now = app.clock.now();
        app.token_cache.prune(&app.token_keys.load(), now);
        drop_expired_keys(&app).await;
        let today = calendar::utc_day(now);
        if warned_on.replace(today).is_some_and(|day| day != today) {
            warn_of_old_secrets(&app);
        }
    }
}

/// Deletes signing keys whose last token has expired. A key that cannot be deleted is no longer accepted either.
pub(super) async fn drop_expired_keys(app: &StateParts) {
    if let Err(error) = app.signing_keys.drop_expired(&app.system_context()).await {
        tracing::warn!(error = %error, "signing keys whose tokens are over cannot be dropped; their tokens are refused all the same");
    }
}

/// Logs the names of clients with old secrets: the exposure of an unchanged secret grows each year.
pub(super) fn warn_of_old_secrets(app: &StateParts) {
    let Some(days) = app.config.token.secret_age_warning() else { return };
    let (now, clients) = (app.clock.now(), app.clients.directory.all());
    let overdue: Vec<_> = clients.iter().filter(|client| client.has_overdue_secret(now, days)).collect();
    for client in overdue.iter().take(NAMED_MAX) {
        let age_days = client.secrets.iter().map(|secret| secret.age_days(now)).max().unwrap_or_default();
        tracing::warn!(
            client.id = %client.id,
            secret.age_days = age_days,
            "a client's secret is old: give it another with `daftar client rotate-secret`"
        );
    }
    if overdue.len() > NAMED_MAX {
        let more = overdue.len() - NAMED_MAX;
        tracing::warn!(clients = more, "more clients have old secrets; `daftar client list` shows them");
    }
}

/// Maintains the checkpoints of a register.
pub(super) struct Checkpoints {
    folder: CheckpointFolder,
    columns: Arc<Columns>,
    /// Applies writes of other servers to the columns.
    shared_index: Option<Arc<SharedIndex>>,
    store: Arc<dyn Store>,
    last: Mutex<Last>,
    /// Locked while a checkpoint is written.
    writing: tokio::sync::Mutex<()>,
}

/// State on disk.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// The last write that a checkpoint contains; `None` if there is no checkpoint.
    sequence: Option<Sequence>,
    tried: Option<Instant>,
    /// Time at which the last checkpoint was written, or at which a checkpoint that existed at the start was read.
    written: Option<Instant>,
    has_failed: bool,
}

/// Checkpoint statistics for the metrics page.
pub(super) struct CheckpointUsage {
    /// Age of the last checkpoint that was written, or read at the start; absent if there is none.
    pub(super) age: Option<Duration>,
    /// Number of writes that the last checkpoint does not contain.
    pub(super) writes_behind: u64,
    /// True if the last attempt failed.
    pub(super) has_failed: bool,
}

impl Checkpoints {
    pub(super) fn new(
        folder: CheckpointFolder,
        columns: Arc<Columns>,
        store: Arc<dyn Store>,
        sequence: Option<Sequence>,
    ) -> Self {
        let tried = sequence.map(|_| Instant::now());
        let last = Mutex::new(Last { sequence, tried, written: tried, has_failed: false });
        Self { folder, columns, shared_index: None, store, last, writing: tokio::sync::Mutex::default() }
    }

    /// Checkpoints of a register in memory that applies the writes of other servers.
    pub(super) fn of(self, shared_index: Arc<SharedIndex>) -> Self {
        Self { shared_index: Some(shared_index), ..self }
    }

    /// Runs until dropped.
    pub(super) async fn maintain(&self) {
        // Delayed: the first requests after a start have priority.
        let mut ticks = interval_at(tokio::time::Instant::now() + CHECKPOINT_INTERVAL, CHECKPOINT_INTERVAL);
        loop {
            ticks.tick().await;
            let _writing = self.writing.lock().await;
            if self.is_due() {
                self.write().await;
            }
        }
    }

    /// Writes a checkpoint unless the last one is current.
    pub(super) async fn finish(&self) {
        let _writing = self.writing.lock().await;
        let is_current = self.last().sequence == Some(self.columns.sequence());
        if !is_current {
            self.write().await;
        }
    }

    /// Returns the age of the last checkpoint, the number of later writes, and true if the last attempt failed.
    pub(super) fn usage(&self) -> CheckpointUsage {
        let last = self.last();
        CheckpointUsage {
            age: last.written.map(|written| written.elapsed()),
            writes_behind: self.columns.sequence().0.saturating_sub(last.sequence.unwrap_or_default().0),
            has_failed: last.has_failed,
        }
    }

    fn last(&self) -> Last {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self) -> bool {
        let (last, now) = (self.last(), self.columns.sequence());
        let age = last.tried.map(|tried| tried.elapsed());
        if last.has_failed && age.is_some_and(|age| age < AFTER_FAILURE) {
            return false;
        }
        let Some(sequence) = last.sequence else { return now > Sequence::default() };
        let writes = now.0.saturating_sub(sequence.0);
        writes >= WRITES_DUE || (writes > 0 && age.is_none_or(|age| age >= AGE_DUE))
    }

    async fn write(&self) {
        let started = Instant::now();
        let stamp = self.shared_index.as_ref().map(|index| index.stamp());
        let image = self.columns.image();
        let sequence = image.sequence();
        let written = self.try_write(image, stamp).await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.tried = Some(Instant::now());
        last.has_failed = written.is_err();
        match written {
            Ok(bytes) => {
                last.sequence = Some(sequence);
                last.written = last.tried;
                tracing::info!(
                    checkpoint.sequence = sequence.0,
                    checkpoint.bytes = bytes,
                    duration_ms = daftar_http::spans::milliseconds(started.elapsed()),
                    "a checkpoint was written"
                );
            }
            Err(error) => tracing::warn!(
                error = %error,
                "no checkpoint could be written; nothing is lost, but the next start takes longer"
            ),
        }
    }

    async fn try_write(&self, image: Image, stamp: Option<Stamp>) -> Result<u64, String> {
        let mark = self.store.history_mark(image.sequence()).await.map_err(|error| error.to_string())?;
        let mark = mark.ok_or_else(|| "the store does not know the last write".to_owned())?;
        // The marker belongs to the currently connected database, which must be the database of the image.
        if let (Some(index), Some(stamp)) = (&self.shared_index, stamp)
            && !index.is_still(stamp).await
        {
            return Err(
                "the register in memory is not complete, or of another database than the one that answers".to_owned()
            );
        }
        let folder = self.folder.clone();
        let (response, answered) = oneshot::channel();
        // A separate thread, since its priority is lowered permanently.
        let thread = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || {
            let _stood_back = rustix::process::setpriority_process(None, NICENESS);
            let _heard = response.send(folder.write(&image, mark.0));
        });
        thread.map_err(|error| error.to_string())?;
        let written = answered.await.map_err(|_| "its thread ended early".to_owned())?;
        written.map_err(|error| error.to_string())
    }
}

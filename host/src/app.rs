//! Composition of the server: the only module that depends on all others, and connects ports to adapters.

mod adapters;
mod backend;
mod disk_space;
pub mod doctor;
pub mod metrics;
pub mod migrate;
mod open;
pub mod packs;
pub mod plugin_files;
pub mod plugin_runner;
mod recovery;
pub mod restore;
pub mod serve;
mod upkeep;
pub mod verify;

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use daftar_domain::checkup::Check;
use daftar_domain::context::{Clock, IdSource, RandomIds, SystemClock};
use daftar_domain::error::AppError;
pub use daftar_http::state::AppState;
use daftar_http::state::{Program, StateParts};
pub use daftar_sandbox::{CompileBounds, CompileIn, PinnedDigests, WorkerBounds, run_worker};
use jiff::Timestamp;
use tokio::task::AbortHandle;

use self::backend::Keeper;
use self::metrics::Metrics;
use self::upkeep::Checkpoints;
use crate::telemetry::{MetricsSnapshot, Telemetry};

/// The folder of installed plugins within the data folder.
const PLUGINS_FOLDER: &str = "plugins";

/// Time for a stopping server to return its reserved quota.
const GIVE_BACK_MAX: Duration = Duration::from_secs(5);

/// An open register: the state that requests use, and its background components.
#[derive(Clone)]
pub struct App {
    state: AppState,
    upkeep: Arc<Upkeep>,
    /// Background tasks; stopped with the server.
    maintenance: Arc<[AbortHandle]>,
}

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.state
    }
}

/// Components of an open register that no handler uses.
struct Upkeep {
    /// The backend that stores the records, for statistics that only this backend reports.
    keeper: Keeper,
    /// Histograms for the metrics page and for a collector.
    metrics: Arc<Metrics>,
    /// Export to a collector.
    telemetry: Telemetry,
    /// The plugins of the program's build.
    pinned: PinnedDigests,
    /// Time of the last commit to the program's sources, if known.
    built_from: Option<Timestamp>,
    /// Writes checkpoints of the register in memory to disk; absent if that is not possible.
    checkpoints: Option<Arc<Checkpoints>>,
}

#[async_trait]
impl Program for Upkeep {
    fn count_request(&self, method: &str, route: Option<&str>, status: u16, time: Duration) {
        self.metrics.count_request(method, route, status, time);
    }

    fn is_traced(&self) -> bool {
        self.telemetry.is_on()
    }

    fn note_outage(&self) {
        self.keeper.note_request_failed();
    }

    fn metrics_page(&self, state: &StateParts) -> String {
        metrics::page(state, self)
    }

    async fn checkup(&self, state: &StateParts) -> Result<Vec<Check>, AppError> {
        doctor::running::checkup(state, self).await
    }
}

/// Options for opening a register.
pub struct AppOptions {
    /// The folder of the register.
    pub data_dir: PathBuf,
    /// The URL by which clients reach the server; if absent, the address that it listens on.
    pub public_url: Option<String>,
    /// A folder of plugins to install if they are absent or newer than the installed ones.
    pub plugins_dir: Option<PathBuf>,
    /// Clock of the server.
    pub clock: Arc<dyn Clock>,
    /// Generates ids of requests, clients and tokens.
    pub ids: Arc<dyn IdSource>,
    /// Runner for the compilation of plugins: by default in this process, without limits.
    pub compile_in: CompileIn,
    /// Digests of plugins that require no signature.
    pub pinned: PinnedDigests,
    /// Time of the last commit to the program's sources, if known.
    pub built_from: Option<Timestamp>,
    /// Destination of spans and metrics: by default none.
    pub telemetry: Telemetry,
    /// True if engines without cached code are compiled by [`serve::serve`], after the register is open. By default
    /// false.
    pub compiles_engines_later: bool,
    /// True if every log line of plugins is logged, for plugin authors. By default false.
    pub shows_all_lines: bool,
}

impl AppOptions {
    /// Creates options for the register in that folder, with the system clock and random ids.
    #[must_use]
    pub fn new(data_dir: PathBuf) -> Self {
        Self {
            data_dir,
            public_url: None,
            plugins_dir: None,
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            compile_in: CompileIn::default(),
            pinned: PinnedDigests::default(),
            built_from: None,
            telemetry: Telemetry::default(),
            compiles_engines_later: false,
            shows_all_lines: false,
        }
    }
}

/// Reason why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder cannot be used.
    #[error("the data folder cannot be used: {0}")]
    Folder(String),
    /// Another process uses the data folder.
    #[error("{0}")]
    InUse(String),
    /// A key cannot be used.
    #[error("{0}")]
    Key(String),
    /// The store cannot be opened.
    #[error("{0}")]
    Store(String),
    /// The storage backend does not respond, or is temporarily unavailable.
    #[error("{0}")]
    Unavailable(String),
    /// The storage backend denies access, or other accounts can read a file with a secret.
    #[error("{0}")]
    Denied(String),
    /// The configuration contains a value that cannot be used.
    #[error("{0}")]
    Settings(String),
    /// A file or folder in the configuration does not exist, or is of the wrong kind.
    #[error("{0}")]
    Input(String),
    /// Plugins cannot be run on this machine.
    #[error("plugins cannot be run: {0}")]
    Plugins(String),
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}: {source}; name another address, or stop what listens there")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("{0}")]
    Certificate(String),
    /// A listener failed during operation.
    #[error("a listener failed: {0}")]
    Server(String),
}

impl App {
    /// Returns the export to a collector.
    #[must_use]
    pub fn telemetry(&self) -> &Telemetry {
        &self.upkeep.telemetry
    }

    /// Returns the current gauges and counters.
    #[must_use]
    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        metrics::snapshot(&self.state, &self.upkeep)
    }

    /// Returns a function that reads the gauges and counters while the server exists, without extending the server's
    /// lifetime.
    pub fn metrics_source(&self) -> impl Fn() -> Option<MetricsSnapshot> + Send + Sync + 'static {
        let (state, upkeep) = (self.state.downgrade(), Arc::downgrade(&self.upkeep));
        move || Some(metrics::snapshot(&*state.upgrade()?, &*upkeep.upgrade()?))
    }

    /// Returns the state that handlers share.
    #[must_use]
    pub fn state(&self) -> AppState {
        self.state.clone()
    }

    /// Writes a checkpoint, so that the next start is fast, and leaves the state shared with other processes. Must be
    /// called after the last write.
    pub async fn checkpoint(&self) {
        if let Some(checkpoints) = &self.upkeep.checkpoints {
            checkpoints.finish().await;
        }
        self.leave().await;
    }

    /// Returns reserved quota of clients without further requests, and writes pending values to the database. Does
    /// nothing if no other process shares the register.
    pub async fn leave(&self) {
        if self.follower.is_none() {
            return;
        }
        let given_back = tokio::time::timeout(GIVE_BACK_MAX, self.limits.give_back()).await;
        if !matches!(given_back, Ok(Ok(()))) {
            tracing::warn!(
                "calls that are held of clients' limits cannot be given back; their counts of today stay a little too high"
            );
        }
        // No further statement is sent to the database.
        self.stop_maintenance();
        self.upkeep.keeper.close().await;
    }

    /// Stops the background tasks. The store writes everything to disk when its last handle is dropped.
    pub fn close(&self) {
        self.plugins.stop_compiling();
        self.stop_maintenance();
    }

    fn stop_maintenance(&self) {
        self.maintenance.iter().for_each(AbortHandle::abort);
    }
}

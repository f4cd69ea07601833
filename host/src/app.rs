//! Puts the server together: the one place that knows every module, and joins ports to adapters.

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
pub use daftar_sandbox::{CompileIn, PinnedDigests, WorkerBounds, run_worker};
use jiff::Timestamp;
use tokio::task::AbortHandle;

use self::backend::Keeper;
use self::metrics::Metrics;
use self::upkeep::Checkpoints;
use crate::telemetry::{MetricsSnapshot, Telemetry};

/// The folder of installed plugins within the data folder.
const PLUGINS_FOLDER: &str = "plugins";

/// Time for a server that stops to return its reserved quota.
const GIVE_BACK_MAX: Duration = Duration::from_secs(5);

/// A register that is open: the state that requests work on, and the parts that keep it going.
#[derive(Clone)]
pub struct App {
    state: AppState,
    upkeep: Arc<Upkeep>,
    /// Background tasks; stopped with the server.
    maintenance: AbortHandle,
}

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.state
    }
}

/// The parts of an open register that no handler touches.
struct Upkeep {
    /// The backend that stores the records, for what only that backend reports.
    keeper: Keeper,
    /// Histograms for the metrics page and for a collector.
    metrics: Arc<Metrics>,
    /// Export to a collector.
    telemetry: Telemetry,
    /// The plugins that the program was built with.
    pinned: PinnedDigests,
    /// When the program's sources were committed, where that is known.
    built_from: Option<Timestamp>,
    /// Keeps the register in memory on disk as well; absent where that cannot be done.
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

/// Options to open a register.
pub struct AppOptions {
    /// The folder of the register.
    pub data_dir: PathBuf,
    /// The URL by which clients know the server; where absent, by the address that it listens on.
    pub public_url: Option<String>,
    /// A folder of plugins to install when absent or newer than what is installed.
    pub plugins_dir: Option<PathBuf>,
    /// Reports the time.
    pub clock: Arc<dyn Clock>,
    /// Names requests, clients and tokens.
    pub ids: Arc<dyn IdSource>,
    /// Place of compilation of plugins: by default in this process, without limits.
    pub compile_in: CompileIn,
    /// Digests of plugins that need no signature.
    pub pinned: PinnedDigests,
    /// When the program's sources were committed, where that is known.
    pub built_from: Option<Timestamp>,
    /// Destination of spans and metrics: by default none.
    pub telemetry: Telemetry,
    /// True if the log has every line of plugins: for their authors. By default false.
    pub shows_all_lines: bool,
}

impl AppOptions {
    /// The register in that folder, with the machine's clock and random ids.
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
            shows_all_lines: false,
        }
    }
}

/// Reason that the server does not start.
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
    /// The storage backend does not respond, or cannot be used now.
    #[error("{0}")]
    Unavailable(String),
    /// The storage backend denies access, or other accounts can read a file with a secret.
    #[error("{0}")]
    Denied(String),
    /// The settings name what cannot be used.
    #[error("{0}")]
    Settings(String),
    /// A file or folder that the settings name is not there, or is not what it should be.
    #[error("{0}")]
    Input(String),
    /// Plugins cannot be run on this machine.
    #[error("plugins cannot be run: {0}")]
    Plugins(String),
    /// An address cannot be listened on.
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
    /// A listener failed while it served.
    #[error("a listener failed: {0}")]
    Server(String),
}

impl App {
    /// Export to a collector.
    #[must_use]
    pub fn telemetry(&self) -> &Telemetry {
        &self.upkeep.telemetry
    }

    /// The gauges and counters as they are now.
    #[must_use]
    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        metrics::snapshot(&self.state, &self.upkeep)
    }

    /// Reads the gauges and counters for as long as the server is there, and keeps nothing of it.
    pub fn metrics_source(&self) -> impl Fn() -> Option<MetricsSnapshot> + Send + Sync + 'static {
        let (state, upkeep) = (self.state.downgrade(), Arc::downgrade(&self.upkeep));
        move || Some(metrics::snapshot(&*state.upgrade()?, &*upkeep.upgrade()?))
    }

    /// The state that handlers share.
    #[must_use]
    pub fn state(&self) -> AppState {
        self.state.clone()
    }

    /// Makes a checkpoint, so that the next start is quick, and leaves what other processes share. To be called when
    /// nothing is written any more.
    pub async fn checkpoint(&self) {
        if let Some(checkpoints) = &self.upkeep.checkpoints {
            checkpoints.finish().await;
        }
        self.leave().await;
    }

    /// Returns reserved quota of clients without further requests, and writes pending values to the database; where no
    /// other process shares the register there is nothing to leave.
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
        // No statement is sent to the database from here on.
        self.maintenance.abort();
        self.upkeep.keeper.close().await;
    }

    /// Stops the background tasks. The store writes everything to disk when its last handle is dropped.
    pub fn close(&self) {
        self.plugins.stop_compiling();
        self.maintenance.abort();
    }
}

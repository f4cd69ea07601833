//! Puts the server together: the one place that knows every module, and joins ports to adapters.

pub mod about;
mod access_upkeep;
mod audit_upkeep;
pub mod author;
mod backend;
mod checkpoints;
pub mod doctor;
mod follow;
mod limits;
pub mod metrics;
pub mod migrate;
mod open;
mod open_packs;
pub mod packs;
pub mod plugin_files;
mod recovery;
pub mod restore;
mod room;
pub mod running;
pub mod serve;
pub mod transport;
pub mod verify;

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use self::backend::Keeper;
use self::checkpoints::Checkpoints;
use self::follow::Follower;
use self::metrics::Metrics;
use self::transport::Transport;
use crate::api::lines::Spools;
use crate::api::openapi::served::ServedDescription;
use crate::auth::admin_token::AdminToken;
use crate::auth::cursor_seal::CursorSeal;
use crate::auth::issue::TokenDesk;
use crate::auth::{AuthFault, Authenticated, DecisionKeyRing, Door, FailedSignIns, KeyRing, TokenCache, authenticate};
use crate::config::{Config, StoreBackend};
use crate::context::trail::Trail;
use crate::context::{Clock, IdSource, OpContext, RandomIds, SystemClock};
use crate::domain::audit::Actor;
use crate::limits::Limits;
use crate::limits::response_memory::ResponseMemory;
use crate::plugin::EligibilityEngine;
pub use crate::plugin::{CompileIn, PinnedDigests, WorkerBounds, run_worker};
use crate::service::audit::keeper::AuditKeeper;
use crate::service::backup::Backups;
use crate::service::bulk::desk::ImportDesk;
use crate::service::client::ClientAdministration;
use crate::service::eligibility::preview::KeptColumns;
use crate::service::eligibility::preview::desk::PreviewDesk;
use crate::service::once::Requests;
use crate::service::plugin::PluginAdministration;
use crate::service::registry::Registry;
use crate::service::signing_key::SigningKeyAdministration;
use crate::service::verify::Verifier;
use crate::telemetry::Telemetry;

/// The folder of installed plugins within the data folder.
const PLUGINS_FOLDER: &str = "plugins";

/// How long a server that stops takes to give back what it holds of limits.
const GIVE_BACK_MAX: Duration = Duration::from_secs(5);

/// Everything that requests work on.
pub struct App {
    /// The settings.
    pub config: Config,
    /// The folder of the register.
    pub data_dir: PathBuf,
    /// The URL by which clients know the server.
    pub public_url: String,
    /// What the server says of itself.
    pub description: ServedDescription,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Names requests, clients and tokens.
    pub ids: Arc<dyn IdSource>,
    /// Records, indexes, vocabularies, audit log.
    pub registry: Registry,
    /// What keeps the records, for what it tells of its own.
    keeper: Keeper,
    /// Decides eligibility.
    pub engine: Arc<dyn EligibilityEngine>,
    /// Looks through the audit log.
    pub audit: AuditKeeper,
    /// Looks through the register for damage.
    pub verifier: Verifier,
    /// Makes backups.
    pub backups: Backups,
    /// Clients.
    pub clients: ClientAdministration,
    /// Plugins.
    pub plugins: PluginAdministration,
    /// Requests that clients named, so that they are done once.
    pub requests: Arc<Requests>,
    /// Whose turn it is to bring many records.
    pub imports: Arc<ImportDesk>,
    /// How many exports may be sent at once: each holds a page in memory for as long as its reader takes nothing.
    pub exports: Arc<Semaphore>,
    /// Whose turn it is to look through the register.
    pub previews: Arc<PreviewDesk>,
    /// Where lines of responses wait for their readers.
    pub spools: Arc<Spools>,
    /// What previews read of records, kept for those that come.
    pub rule_columns: Arc<KeptColumns>,
    /// The three buckets.
    pub limits: Arc<Limits>,
    /// What the metrics page shows.
    pub metrics: Arc<Metrics>,
    /// What is sent to a collector.
    pub telemetry: Telemetry,
    /// What the listeners count, and how many requests they let in.
    pub transport: Arc<Transport>,
    /// The memory of finished responses that wait for their clients.
    pub response_memory: Arc<ResponseMemory>,
    /// What signs tokens.
    pub token_keys: Arc<KeyRing>,
    /// What seals decisions.
    pub decision_keys: Arc<DecisionKeyRing>,
    /// The plugins that the program was built with.
    pub pinned: PinnedDigests,
    /// When the program's sources were committed, where that is known.
    pub built_from: Option<Timestamp>,
    /// Rotates what signs tokens.
    pub signing_keys: SigningKeyAdministration,
    /// Tokens that were verified before.
    pub token_cache: Arc<TokenCache>,
    /// Who guesses at secrets.
    pub failed_sign_ins: FailedSignIns,
    /// What seals the cursors of searches.
    pub cursors: CursorSeal,
    /// What opens the admin API.
    pub admin_token: AdminToken,
    /// Keeps the register in memory on disk as well; absent where that cannot be done.
    checkpoints: Option<Arc<Checkpoints>>,
    /// Follows other processes of the register; nothing where there are none.
    follower: Option<Arc<Follower>>,
    /// What runs beside the requests; stopped with the server.
    maintenance: JoinHandle<()>,
}

/// A handle to the one [`App`] of a server, with the register as one request meets it.
#[derive(Clone)]
pub struct AppState {
    app: Arc<App>,
    /// What requests work on: the server's own, or in a transaction one that shows what was done in it.
    pub registry: Arc<Registry>,
}

impl AppState {
    fn new(app: App) -> Self {
        Self { registry: Arc::new(app.registry.clone()), app: Arc::new(app) }
    }

    /// The same server with another view of the register.
    #[must_use]
    pub fn with_registry(&self, registry: Arc<Registry>) -> Self {
        Self { app: Arc::clone(&self.app), registry }
    }

    /// Gives the metrics page for as long as the server is there, and keeps nothing of it.
    pub fn metrics_source(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let app = Arc::downgrade(&self.app);
        move || app.upgrade().map(|app| app.metrics_page())
    }
}

impl Deref for AppState {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

/// How a register is opened.
pub struct AppOptions {
    data_dir: PathBuf,
    public_url: Option<String>,
    plugins_dir: Option<PathBuf>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    compile_in: CompileIn,
    pinned: PinnedDigests,
    built_from: Option<Timestamp>,
    telemetry: Telemetry,
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
        }
    }

    /// The URL by which clients know the server.
    #[must_use]
    pub fn with_public_url(mut self, url: String) -> Self {
        self.public_url = Some(url);
        self
    }

    /// A folder of plugins to install when absent or newer than what is installed.
    #[must_use]
    pub fn with_plugins_dir(mut self, folder: Option<PathBuf>) -> Self {
        self.plugins_dir = folder;
        self
    }

    /// Plugins are compiled there; in this very process, without any bound, where nothing is said.
    #[must_use]
    pub fn with_compile_in(mut self, compile_in: CompileIn) -> Self {
        self.compile_in = compile_in;
        self
    }

    /// Plugins with these digests need no signature.
    #[must_use]
    pub fn with_pinned(mut self, pinned: PinnedDigests) -> Self {
        self.pinned = pinned;
        self
    }

    /// When the program's sources were committed.
    #[must_use]
    pub fn with_built_from(mut self, built_from: Option<Timestamp>) -> Self {
        self.built_from = built_from;
        self
    }

    /// Spans and series are sent that way; nowhere, where nothing is said.
    #[must_use]
    pub fn with_telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}

/// Why the server does not start.
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
    /// What the register is kept in does not answer, or cannot be used now.
    #[error("{0}")]
    Unavailable(String),
    /// What the register is kept in does not let this process in, or a file with a secret is open to others.
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
        /// Why.
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
    /// What issues tokens.
    #[must_use]
    pub fn token_desk(&self) -> TokenDesk<'_> {
        TokenDesk {
            directory: &self.clients.directory,
            hasher: &self.clients.hasher,
            keys: Arc::clone(&self.token_keys.load()),
            config: &self.config.token,
            ids: &*self.ids,
        }
    }

    /// Finds out who calls, from the values of all `Authorization` headers of a request.
    ///
    /// # Errors
    /// As [`authenticate()`].
    pub fn authenticate<'a>(
        &self,
        authorization: impl IntoIterator<Item = &'a [u8]>,
        now: Timestamp,
    ) -> Result<Authenticated, AuthFault> {
        let keys = self.token_keys.load();
        let (directory, config) = (&self.clients.directory, &self.config.token);
        authenticate(authorization, Door { directory, keys: &keys, cache: &self.token_cache, config }, now)
    }

    /// The context of what the server does by itself.
    #[must_use]
    pub fn system_context(&self) -> OpContext {
        OpContext::unbound(Actor::System, self.ids.next_id().into(), self.clock.now(), Trail::default())
    }

    /// Whether requests can be served now; a phrase for each part of the service that is degraded. A plugin that fails, or is missing, never
    /// makes the server unready: restarting it would not help, and every call that does not need the plugin is served.
    ///
    /// # Errors
    /// One phrase that says what is missing.
    pub fn readiness(&self) -> Result<Vec<String>, String> {
        if self.registry.store.readiness().is_err() {
            return Err(match self.config.store.backend {
                StoreBackend::Sled => "the store has stopped after a failure; its log says why".to_owned(),
                StoreBackend::Postgres => "the database does not answer; its log says why".to_owned(),
            });
        }
        let mut degraded = Vec::new();
        if self.engine.engine_name().is_none() {
            degraded.push("no eligibility engine is active, so calls that evaluate an expression are 503".to_owned());
        }
        let inactive = self.plugins.unloaded().len();
        if inactive > 0 {
            degraded.push(format!("installed plugins that are not active: {inactive}"));
        }
        Ok(degraded)
    }

    /// Makes a checkpoint, so that the next start is quick, and leaves what other processes share. To be called when nothing is written any
    /// more.
    pub async fn checkpoint(&self) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.finish().await;
        }
        self.leave().await;
    }

    /// Gives back what of limits is held for requests that do not come any more, and brings to the database what waits; where no other
    /// process shares the register there is nothing to leave.
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
        // From here on nothing asks the database any more.
        self.maintenance.abort();
        self.keeper.close().await;
    }

    /// Stops what runs beside the requests. The store brings everything to disk when the last handle to it is gone.
    pub fn close(&self) {
        self.plugins.stop_compiling();
        self.maintenance.abort();
    }
}

//! Opens a register: folder, keys, store, indexes, plugins, vocabularies, in this order.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::adapters::{CommonStoredCounts, InstalledPacks, StoredDayCounts};
use super::backend::Backend;
use super::metrics::Metrics;
use super::recovery::store_error;
use super::serve::RunningServer;
use super::{App, AppOptions, AppState, PLUGINS_FOLDER, StartError, Upkeep, restore, upkeep};
use daftar_auth::admin_token::AdminToken;
use daftar_auth::cursor_seal::CursorSeal;
use daftar_auth::directory::ClientDirectory;
use daftar_auth::keys::KEY_FOLDER;
use daftar_auth::limits::Limits;
use daftar_auth::limits::response_memory::ResponseMemory;
use daftar_auth::secret::SecretHasher;
use daftar_auth::{DecisionKeyRing, FailedSignIns, KeyRing, SigningKeyRings, TokenCache};
use daftar_domain::config::{Config, PluginsConfig, StoreBackend};
use daftar_domain::error::TaskEnded;
use daftar_domain::folders;
use daftar_domain::manifest::PluginName;
use daftar_http::api::extract::body_memory::BodyMemory;
use daftar_http::api::lines::Spools;
use daftar_http::api::openapi::document::ServedDescription;
use daftar_http::api::router::route_table;
use daftar_http::spans::milliseconds;
use daftar_http::state::StateParts;
use daftar_http::transport::Transport;
use daftar_sandbox::{
    CompileBounds, EligibilityEngine, LibraryError, PinnedDigests, PluginHost, PluginHostSettings, PluginLibrary,
    TrustPolicy, UnsignedPlugins,
};
use daftar_service::audit::AuditLog;
use daftar_service::backup::Backups;
use daftar_service::bulk::ImportScheduler;
use daftar_service::bulk::export::EXPORTS_MAX;
use daftar_service::client::ClientAdministration;
use daftar_service::eligibility::preview::Previews;
use daftar_service::follow::Follower;
use daftar_service::idempotency::Requests;
use daftar_service::plugin::PluginAdministration;
use daftar_service::registry::Registry;
use daftar_service::signing_key::SigningKeyAdministration;
use daftar_service::verify::{InMemory, Verifier};
use daftar_store::shared::{Generation as StoredGeneration, Shared};
use daftar_vocabulary::{CodeTable, Generation, GenerationBuilder, Vocabularies};

/// Name of the marker of the key that hashes client secrets, in the store.
const COMMON_KEY: &str = "keys/client-secrets";
/// Bytes in a MiB.
pub(super) const MIB: u64 = 1 << 20;

impl App {
    /// Opens the register in a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// Error of opening, with its remedy. A plugin that cannot be loaded is no error: it is logged, and the rest is
    /// served.
    pub async fn open(config: Config, options: AppOptions) -> Result<Self, StartError> {
        let started = Instant::now();
        let AppOptions {
            data_dir,
            public_url,
            plugins_dir,
            clock,
            ids,
            compile_in,
            pinned,
            built_from,
            telemetry,
            compiles_engines_later,
            shows_all_lines,
        } = options;
        let public_url = public_url.unwrap_or_else(|| format!("http://{}", config.server.listen));
        let made = folders::make_all(&data_dir);
        made.map_err(|error| StartError::Folder(format!("`{}`: {error}", data_dir.display())))?;
        restore::refuse_unfinished(&data_dir)?;
        refuse_second_process(&config, &data_dir)?;
        let now = clock.now();

        let metrics = Arc::new(Metrics::new(&telemetry, now));
        let bounds = CompileBounds::new(config.plugins.compile_seconds, config.plugins.compile_memory_mib);
        let settings = PluginHostSettings {
            code_folder: Some(data_dir.join("compiled")),
            compile_in: compile_in.with_bounds(bounds),
            trust: trust(&config.plugins, pinned.clone()),
            limits: config.plugins.limits.clone(),
            clock: Some(clock.clone()),
            recorder: Some(metrics.plugin_calls()),
            compiles_engines_later,
            shows_all_lines,
            ..PluginHostSettings::default()
        };
        // Plugins are loaded by another thread while the records are read.
        let opening = open_plugins(settings, &data_dir, config.plugins.engine.clone());
        let (opened, backend) = tokio::join!(opening, Backend::open(&config, &data_dir, &metrics));
        let backend = backend?;
        let Backend { store, archive, index, columns, bodies, checkpoints, shared_index, parted, shared, keeper } =
            backend;
        // Before any counted data is read.
        let generation = match &shared {
            Some(shared) => shared.generation().await.map_err(store_error)?,
            None => StoredGeneration::default(),
        };
        let clients = store.clients().await.map_err(store_error)?;
        let keys_home = config.store.keys_home(&data_dir);
        check_secrets_key(&keys_home, clients.len())?;
        let directory = Arc::new(ClientDirectory::new(clients));
        let token_keys = KeyRing::load_or_create(&keys_home, config.token.lifetime_s, now).map_err(key_error)?;
        if shared.is_none() {
            // Several servers have a lock for this, which the follower takes.
            token_keys.raise_lifetime().map_err(key_error)?;
        }
        let decision_keys = DecisionKeyRing::load_or_create(&keys_home, now).map_err(key_error)?;
        let hasher = SecretHasher::load_or_create(&keys_home, now).map_err(key_error)?;
        if let Some(shared) = &shared {
            check_common_key(&**shared, &keys_home, &hasher).await?;
        }
        let cursors = CursorSeal::load_or_create(&keys_home, now).map_err(key_error)?;
        let admin_token = AdminToken::load_or_create(&data_dir).map_err(key_error)?;

        let (host, library) = opened?;
        let packs = Arc::new(InstalledPacks { host: host.clone(), library: library.clone() });
        let registry = Registry {
            store: store.clone(),
            index,
            columns,
            parted,
            shared_index,
            vocabularies: Arc::new(Vocabularies::asking(empty_generation()?, packs)),
            audit: AuditLog::new(store.clone()),
            exhausted: Arc::default(),
            bodies,
            photo_reads: Arc::default(),
        };
        let plugins = PluginAdministration::new(registry.clone(), host, library.clone()).with_shared(shared.clone());
        plugins.start(plugins_dir, now).await.map_err(|error| StartError::Plugins(error.to_string()))?;
        if plugins.compiling().is_empty() {
            library.forget_unused_code();
        }

        let requests = Requests::new(config.server.idempotency_keys_max);
        let requests = Arc::new(if shared.is_some() { requests.with_other_servers() } else { requests });
        let days = StoredDayCounts(store.clone());
        let limits = Arc::new(match &shared {
            Some(shared) => {
                Limits::common(clock.clone(), Arc::new(CommonStoredCounts { shared: shared.clone(), days }))
            }
            None => Limits::new(clock.clone(), Arc::new(days)),
        });
        let in_memory = match &registry.shared_index {
            Some(shared) => Some(InMemory::Shared(shared.clone())),
            None => registry.parted.is_none().then(|| InMemory::Own(registry.columns.clone())),
        };
        let verifier = Verifier::new(archive.clone(), in_memory, registry.audit.clone());
        let audit = registry.audit.clone();
        let backups = Backups::new(archive, plugins.clone(), registry.audit.clone(), keys_home);
        backups.recall().await.map_err(|error| StartError::Store(error.to_string()))?;
        let token_cache = Arc::new(TokenCache::default());
        let rings = SigningKeyRings { tokens: Arc::new(token_keys), decisions: Arc::new(decision_keys) };
        let signing_keys = SigningKeyAdministration::new(rings.clone(), registry.audit.clone(), clock.clone());
        let signing_keys = signing_keys.with_shared(shared.clone());
        let follower = shared.map(|shared| {
            let (directory, keys) = (directory.clone(), (rings.clone(), clock.clone()));
            Arc::new(Follower::new(shared, store.clone(), directory, plugins.clone(), keys, generation))
        });
        let rule_columns_bytes = config.store.preview_cache_mib.saturating_mul(MIB);
        let previews = Arc::new(Previews::new(library.background_threads(), rule_columns_bytes));
        let clients = ClientAdministration {
            store,
            directory,
            hasher: Arc::new(hasher),
            ids: ids.clone(),
            clock: clock.clone(),
            changing: Arc::default(),
        };
        let requests_max = usize::try_from(config.server.connections.requests_max).unwrap_or(usize::MAX);
        let request_timeout = Duration::from_millis(config.server.request_timeout_ms);
        let failed_sign_ins = FailedSignIns::new(request_timeout, requests_max);
        let transport = Arc::new(Transport::new(&config.server.connections));
        let response_memory = ResponseMemory::new(&config.server.connections);
        let parts = Arc::new(Upkeep { keeper, metrics, telemetry, pinned, built_from, checkpoints });
        let state = AppState::new(StateParts {
            config,
            spools: Spools::new(data_dir.clone()),
            data_dir,
            imports: Arc::new(ImportScheduler::new(clock.clone())),
            exports: Arc::new(Semaphore::new(EXPORTS_MAX)),
            previews,
            description: ServedDescription::new(public_url.clone()),
            public_url,
            routes: route_table(),
            clock,
            ids,
            registry,
            engine: library,
            audit,
            verifier,
            backups,
            clients,
            vocabulary_publisher: plugins.publisher().clone(),
            plugins,
            requests,
            limits,
            transport,
            body_memory: BodyMemory::default(),
            response_memory,
            token_keys: rings.tokens,
            decision_keys: rings.decisions,
            signing_keys,
            token_cache,
            failed_sign_ins,
            cursors,
            admin_token,
            follower,
            program: parts.clone(),
        });
        upkeep::drop_expired_keys(&state).await;
        upkeep::warn_of_old_secrets(&state);
        let maintenance = upkeep::start(&state, Arc::clone(&parts.metrics), parts.checkpoints.clone());
        tracing::info!(duration_ms = milliseconds(started.elapsed()), "the register is open");
        Ok(Self { state, upkeep: parts, maintenance })
    }
}

/// Rejects a folder that another process uses before anything in it is changed. A store in a folder has a lock of its
/// own, which is taken first; with a database the lock of the plugins is the only one, and it is taken later.
fn refuse_second_process(config: &Config, data_dir: &Path) -> Result<(), StartError> {
    let is_locked_by_store = config.store.backend == StoreBackend::Sled;
    if is_locked_by_store || !daftar_sandbox::is_in_use(&data_dir.join(PLUGINS_FOLDER)) {
        return Ok(());
    }
    Err(in_use(data_dir))
}

fn in_use(data_dir: &Path) -> StartError {
    StartError::InUse(format!(
        "the data folder `{}` is in use by another process: stop that daftar first, or use another folder",
        data_dir.display()
    ))
}

fn key_error(error: impl std::fmt::Display) -> StartError {
    StartError::Key(error.to_string())
}

/// Rejects the creation of a new key if clients have secrets under the old one: all of them would become invalid.
fn check_secrets_key(data_dir: &Path, clients: usize) -> Result<(), StartError> {
    if clients == 0 || SecretHasher::is_there(data_dir) {
        return Ok(());
    }
    Err(StartError::Key(format!(
        "the key for client secrets is gone from `{}`, and the secrets of {clients} clients are of no use without it: put `keys` back from a backup",
        data_dir.display()
    )))
}

/// Rejects keys of another register than the one in the database: every client secret would be invalid, and every token
/// would be that of an unauthenticated client.
async fn check_common_key(shared: &dyn Shared, data_dir: &Path, hasher: &SecretHasher) -> Result<(), StartError> {
    let ours = hasher.fingerprint();
    let stored = shared.keep_once(COMMON_KEY, &ours).await.map_err(store_error)?;
    if stored == ours {
        return Ok(());
    }
    Err(StartError::Key(format!(
        "the keys in `{}` are not those of the register in the database: put the folder `keys` of a process that serves it here, or one from its backup; every process of a register has the same",
        data_dir.join(KEY_FOLDER).display()
    )))
}

/// Returns the vocabulary snapshot before the packs are loaded: an empty one.
fn empty_generation() -> Result<Generation, StartError> {
    let built = GenerationBuilder::new().build(Arc::new(CodeTable::default()));
    built.map_err(|_| StartError::Plugins("a generation without any pack cannot be made".to_owned()))
}

/// Returns the trust policy of plugins.
pub(super) fn trust(config: &PluginsConfig, pinned: PinnedDigests) -> TrustPolicy {
    let unsigned = if config.allow_unsigned { UnsignedPlugins::Allowed } else { UnsignedPlugins::Refused };
    TrustPolicy::new(config.trusted_keys.iter().cloned(), pinned, unsigned)
}

async fn open_plugins(
    settings: PluginHostSettings,
    data_dir: &Path,
    engine: Option<PluginName>,
) -> Result<(Arc<PluginHost>, Arc<PluginLibrary>), StartError> {
    let data_dir = data_dir.to_owned();
    let opened = tokio::task::spawn_blocking(move || {
        let host = PluginHost::start(settings).map_err(|error| StartError::Plugins(error.to_string()))?;
        let host = Arc::new(host);
        let folder = data_dir.join(PLUGINS_FOLDER);
        let library = PluginLibrary::open(host.clone(), &folder, engine).map_err(|error| match error {
            LibraryError::InUse(_) => in_use(&data_dir),
            LibraryError::Folder(_) | LibraryError::NotInstalled(_) => StartError::Plugins(error.to_string()),
        })?;
        RunningServer::forget_killed(&data_dir);
        for refused in library.unloaded() {
            tracing::error!(error = %refused, "an installed plugin cannot be loaded, the rest is served");
        }
        Ok::<_, StartError>((host, Arc::new(library)))
    });
    opened.await.map_err(|error| StartError::Plugins(TaskEnded::from(error).to_string()))?
}

//! The backend that stores the register: the only module that distinguishes the backends. Other modules use the ports.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::StartError;
use super::metrics::Metrics;
use super::open::MIB;
use super::recovery::{self, CatchUp, Recovered, store_error};
use super::upkeep::Checkpoints;
use daftar_domain::change::Change;
use daftar_domain::config::{Config, PostgresIndexPlace, StoreBackend, UrlFileError};
use daftar_index::Columns;
use daftar_service::eligibility::preview::PartedRegister;
use daftar_service::memory_index::MemoryIndex;
use daftar_service::response_cache::ResponseCache;
use daftar_service::shared_index::{Indexes, SharedIndex};
use daftar_store::archive::Archive;
use daftar_store::index::Index;
use daftar_store::meters::StoreUsage;
use daftar_store::shared::Shared;
use daftar_store::snapshot::SnapshotSource;
use daftar_store::{ChangeSink, Store};
use daftar_store_postgres::{OpenError, PostgresOptions, PostgresShared, PostgresStore, PostgresUsage};
use daftar_store_sled::SledStore;

/// An open register.
pub(super) struct Backend {
    pub(super) store: Arc<dyn Store>,
    /// All records, for backups and verification.
    pub(super) archive: Arc<dyn Archive>,
    /// Operations beyond single records.
    pub(super) index: Indexes,
    /// The register in memory.
    pub(super) columns: Arc<Columns>,
    pub(super) bodies: Arc<ResponseCache>,
    /// Writes checkpoints of the register in memory to disk; absent if that is not possible.
    pub(super) checkpoints: Option<Arc<Checkpoints>>,
    /// Applies writes of other processes to the register in memory.
    pub(super) shared_index: Option<Arc<SharedIndex>>,
    /// The register in partitions, if it is in a database.
    pub(super) parted: Option<Arc<PartedRegister>>,
    /// State shared with other processes; `None` without other processes.
    pub(super) shared: Option<Arc<dyn Shared>>,
    pub(super) keeper: Keeper,
}

/// The backend that stores the records, for statistics that only this backend reports.
pub(super) enum Keeper {
    /// A folder that one process uses.
    Embedded(Arc<SledStore>),
    /// A database that several processes share.
    Postgres(Arc<PostgresStore>),
}

impl Backend {
    /// Opens the configured backend.
    pub(super) async fn open(config: &Config, data_dir: &Path, metrics: &Metrics) -> Result<Self, StartError> {
        match config.store.backend {
            StoreBackend::Sled => Self::embedded(config, data_dir, metrics).await,
            StoreBackend::Postgres => Self::postgres(config, data_dir, metrics).await,
        }
    }

    async fn embedded(config: &Config, data_dir: &Path, metrics: &Metrics) -> Result<Self, StartError> {
        let Recovered { store, columns, bodies, checkpoints, checkpointed } = recovery::open(config, data_dir).await?;
        store.record_with(metrics.store_recorders(StoreBackend::Sled));
        let checkpoints =
            checkpoints.map(|folder| Arc::new(Checkpoints::new(folder, columns.clone(), store.clone(), checkpointed)));
        Ok(Self {
            store: store.clone(),
            archive: store.clone(),
            index: Indexes::One(Arc::new(MemoryIndex(columns.clone()))),
            columns,
            bodies,
            checkpoints,
            shared_index: None,
            parted: None,
            shared: None,
            keeper: Keeper::Embedded(store),
        })
    }

    async fn postgres(config: &Config, data_dir: &Path, metrics: &Metrics) -> Result<Self, StartError> {
        config.store.postgres.check_shared_dir().map_err(StartError::Input)?;
        let store = Arc::new(PostgresStore::open(postgres_options(config)?).await?);
        store.record_with(metrics.store_recorders(StoreBackend::Postgres));
        let snapshots = Arc::new(store.snapshots());
        let searched: Arc<dyn Index> = Arc::new(store.index());
        let Followed { columns, shared_index, checkpoints } = match config.store.postgres.index {
            PostgresIndexPlace::Database => Followed::default(),
            PostgresIndexPlace::Memory => {
                Followed::begin(&store, snapshots.clone(), searched.clone(), data_dir).await?
            }
        };
        let attached = match &shared_index {
            Some(index) => store.attach_sink(index.clone()),
            None => store.attach_sink(Arc::new(Unheard)),
        };
        attached.map_err(store_error)?;
        let postgres = &config.store.postgres;
        let stored_bytes = postgres.partitions_mib.saturating_mul(MIB);
        let parted = PartedRegister::new(snapshots, postgres.partition_keys, stored_bytes);
        Ok(Self {
            store: store.clone(),
            archive: store.clone(),
            index: shared_index.clone().map_or(Indexes::One(searched), Indexes::Shared),
            columns,
            // Another process may have changed the individual.
            bodies: Arc::new(ResponseCache::new(0)),
            checkpoints,
            shared_index,
            parted: Some(Arc::new(parted)),
            shared: Some(Arc::new(PostgresShared::of(store.clone()))),
            keeper: Keeper::Postgres(store),
        })
    }
}

/// The register in memory of a server that shares its database with others.
#[derive(Default)]
struct Followed {
    columns: Arc<Columns>,
    shared_index: Option<Arc<SharedIndex>>,
    checkpoints: Option<Arc<Checkpoints>>,
}

impl Followed {
    /// Starts with the newest valid checkpoint, if one exists. The rest is loaded concurrently with requests.
    async fn begin(
        store: &Arc<PostgresStore>,
        snapshots: Arc<dyn SnapshotSource>,
        searched: Arc<dyn Index>,
        data_dir: &Path,
    ) -> Result<Self, StartError> {
        // Before the checkpoint is compared with the database.
        let (history, _) = snapshots.last().await.map_err(store_error)?;
        let folder = recovery::checkpoint_folder(data_dir);
        let loaded = match &folder {
            Some(folder) => recovery::from_checkpoint(store, folder, CatchUp::Later).await,
            None => None,
        };
        let checkpointed = loaded.as_ref().map(|(_, sequence)| *sequence);
        let columns = Arc::new(loaded.map(|(columns, _)| columns).unwrap_or_default());
        let shared_index = SharedIndex::new(snapshots, searched, columns.clone(), checkpointed.map(|_| history));
        let shared_index = Arc::new(shared_index);
        let checkpoints = folder.map(|folder| {
            let checkpoints = Checkpoints::new(folder, columns.clone(), store.clone(), checkpointed);
            Arc::new(checkpoints.of(shared_index.clone()))
        });
        Ok(Self { columns, shared_index: Some(shared_index), checkpoints })
    }
}

/// Returns the connection options of the configured database.
///
/// # Errors
/// If the configuration contains none, or its URL cannot be parsed.
pub(super) fn postgres_options(config: &Config) -> Result<PostgresOptions, StartError> {
    let postgres = &config.store.postgres;
    let url = postgres.read_url().map_err(|error| match error {
        UrlFileError::NotPrivate(_) => StartError::Denied(error.to_string()),
        UrlFileError::Unusable(_) => StartError::Input(error.to_string()),
    })?;
    Ok(PostgresOptions {
        ca_file: postgres.ca_file.clone(),
        connections_max: usize::try_from(postgres.pool_max).unwrap_or(usize::MAX),
        connect_timeout: Duration::from_millis(postgres.connect_timeout_ms),
        acquire_timeout: Duration::from_millis(postgres.acquire_timeout_ms),
        statement_timeout: Duration::from_millis(postgres.statement_timeout_ms),
        ..PostgresOptions::new(url)
    })
}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> Self {
        let reported = error.to_string();
        match error {
            OpenError::Unreachable { .. } | OpenError::ReadOnly { .. } | OpenError::Busy { .. } => {
                Self::Unavailable(reported)
            }
            OpenError::Denied { .. } => Self::Denied(reported),
            OpenError::Url(_) | OpenError::Tls { .. } | OpenError::NoDatabase { .. } | OpenError::Pooled { .. } => {
                Self::Settings(reported)
            }
            OpenError::Newer { .. }
            | OpenError::BeforeFirstRelease { .. }
            | OpenError::Tables { .. }
            | OpenError::NotEmpty { .. }
            | OpenError::NotFilled { .. }
            | OpenError::NotCompared { .. }
            | OpenError::WrittenSince { .. } => Self::Store(reported),
        }
    }
}

/// A sink that ignores changes.
struct Unheard;

impl ChangeSink for Unheard {
    fn apply(&self, _: &[Change]) {}
}

impl Keeper {
    /// Returns statistics of its work and memory.
    pub(super) fn usage(&self) -> StoreUsage {
        match self {
            Self::Embedded(store) => store.usage(),
            Self::Postgres(store) => store.usage(),
        }
    }

    fn postgres(&self) -> Option<&PostgresStore> {
        match self {
            Self::Embedded(_) => None,
            Self::Postgres(store) => Some(store),
        }
    }

    /// Records that a request failed because a dependency is unavailable.
    pub(super) fn note_request_failed(&self) {
        if let Some(store) = self.postgres() {
            store.note_request_failed();
        }
    }

    /// Returns the usage of the database, if the backend is one.
    pub(super) fn database(&self) -> Option<PostgresUsage> {
        self.postgres().map(PostgresStore::database_usage)
    }

    /// Writes pending values and closes the connections to a database; a store in a folder does so when dropped.
    pub(super) async fn close(&self) {
        if let Some(store) = self.postgres() {
            store.close().await;
        }
    }
}

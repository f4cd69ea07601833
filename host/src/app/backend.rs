//! What keeps the register, whichever it is: the one place that tells one backend from another.
//!
//! Everybody else asks the ports in here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::StartError;
use super::metrics::Metrics;
use super::open::MIB;
use super::recovery::{self, Recovered, store_error};
use super::upkeep::Checkpoints;
use daftar_domain::change::Change;
use daftar_domain::config::{Config, StoreBackend, UrlFileError};
use daftar_index::Columns;
use daftar_service::bodies::Bodies;
use daftar_service::eligibility::preview::PartedRegister;
use daftar_service::memory_index::MemoryIndex;
use daftar_store::archive::Archive;
use daftar_store::index::Index;
use daftar_store::shared::Shared;
use daftar_store::{ChangeSink, Store};
use daftar_store_postgres::{
    OpenError, PostgresOptions, PostgresPartitions, PostgresShared, PostgresStore, PostgresUsage,
};
use daftar_store_sled::{SledStore, StoreUsage};

/// A register that is open.
pub(super) struct Backend {
    pub(super) store: Arc<dyn Store>,
    /// The whole of it, for backups and verification.
    pub(super) archive: Arc<dyn Archive>,
    /// What is asked of it beyond single records.
    pub(super) index: Arc<dyn Index>,
    /// The register in memory.
    pub(super) columns: Arc<Columns>,
    pub(super) bodies: Arc<Bodies>,
    /// Keeps the register in memory on disk as well; absent where that cannot be done.
    pub(super) checkpoints: Option<Arc<Checkpoints>>,
    /// The register in partitions, where no process has it in memory as a whole.
    pub(super) parted: Option<Arc<PartedRegister>>,
    /// What other processes share of it; nothing where there are no others.
    pub(super) shared: Option<Arc<dyn Shared>>,
    pub(super) keeper: Keeper,
}

/// What keeps the records, for what it tells of its own.
pub(super) enum Keeper {
    /// A folder of this process.
    Embedded(Arc<SledStore>),
    /// A database that several processes share.
    Postgres(Arc<PostgresStore>),
}

impl Backend {
    /// Opens what the settings name.
    pub(super) async fn open(config: &Config, data_dir: &Path, metrics: &Metrics) -> Result<Self, StartError> {
        match config.store.backend {
            StoreBackend::Sled => Self::embedded(config, data_dir, metrics).await,
            StoreBackend::Postgres => Self::postgres(config, metrics).await,
        }
    }

    async fn embedded(config: &Config, data_dir: &Path, metrics: &Metrics) -> Result<Self, StartError> {
        let Recovered { store, columns, bodies, checkpoints, checkpointed } = recovery::open(config, data_dir).await?;
        store.record_with(metrics.store_recorders());
        let checkpoints =
            checkpoints.map(|folder| Arc::new(Checkpoints::new(folder, columns.clone(), store.clone(), checkpointed)));
        Ok(Self {
            store: store.clone(),
            archive: store.clone(),
            index: Arc::new(MemoryIndex(columns.clone())),
            columns,
            bodies,
            checkpoints,
            parted: None,
            shared: None,
            keeper: Keeper::Embedded(store),
        })
    }

    async fn postgres(config: &Config, metrics: &Metrics) -> Result<Self, StartError> {
        config.store.postgres.check_common_dir().map_err(StartError::Input)?;
        let store = Arc::new(PostgresStore::open(postgres_options(config)?).await?);
        store.record_with(metrics.store_recorders());
        let partitions = PostgresPartitions::of(&store, config.store.postgres.partition_keys);
        let (partitions, kept_bytes) = (Arc::new(partitions), config.store.postgres.partitions_mib.saturating_mul(MIB));
        // Nothing is kept in memory that would have to hear of writes.
        store.attach_sink(Arc::new(Unheard)).map_err(store_error)?;
        Ok(Self {
            store: store.clone(),
            archive: store.clone(),
            index: Arc::new(store.index()),
            columns: Arc::default(),
            // Another process may have changed the person.
            bodies: Arc::new(Bodies::new(0)),
            checkpoints: None,
            parted: Some(Arc::new(PartedRegister::new(partitions, kept_bytes))),
            shared: Some(Arc::new(PostgresShared::of(store.clone()))),
            keeper: Keeper::Postgres(store),
        })
    }
}

/// How the database that the settings name is reached.
///
/// # Errors
/// When they name none, or its URL cannot be read.
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
        let told = error.to_string();
        match error {
            OpenError::Unreachable { .. } | OpenError::ReadOnly { .. } | OpenError::Busy { .. } => {
                Self::Unavailable(told)
            }
            OpenError::Denied { .. } => Self::Denied(told),
            OpenError::Url(_) | OpenError::Tls { .. } | OpenError::NoDatabase { .. } => Self::Settings(told),
            OpenError::Newer { .. }
            | OpenError::BeforeFirstRelease { .. }
            | OpenError::Tables { .. }
            | OpenError::NotEmpty { .. }
            | OpenError::NotFilled { .. }
            | OpenError::WrittenSince { .. } => Self::Store(told),
        }
    }
}

/// Hears of writes for nobody.
struct Unheard;

impl ChangeSink for Unheard {
    fn apply(&self, _: &[Change]) {}
}

impl Keeper {
    /// What it has to do, what it did, and what it takes.
    pub(super) fn usage(&self) -> StoreUsage {
        match self {
            Self::Embedded(store) => store.usage(),
            Self::Postgres(store) => {
                let usage = store.usage();
                StoreUsage {
                    is_sound: usage.is_reachable,
                    writes: usage.writes,
                    sequence: usage.sequence,
                    waiting: usage.waiting,
                    waiting_max: usage.waiting_max,
                    audit_lines: usage.audit_lines,
                    audit_bytes: usage.audit_bytes,
                    audit_lines_max: usage.audit_lines_max,
                    disk_bytes: None,
                }
            }
        }
    }

    fn postgres(&self) -> Option<&PostgresStore> {
        match self {
            Self::Embedded(_) => None,
            Self::Postgres(store) => Some(store),
        }
    }

    /// Notes that a request failed by an outage of what it depends on.
    pub(super) fn note_request_failed(&self) {
        if let Some(store) = self.postgres() {
            store.note_request_failed();
        }
    }

    /// What it tells of its database, where it has one.
    pub(super) fn database(&self) -> Option<PostgresUsage> {
        self.postgres().map(PostgresStore::usage)
    }

    /// Writes what waits, and ends the connections to a database; a store in a folder does so by itself.
    pub(super) async fn close(&self) {
        if let Some(store) = self.postgres() {
            store.close().await;
        }
    }
}

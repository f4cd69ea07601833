//! What keeps the register, whichever it is: the one place that tells one backend from another.
//!
//! Everybody else asks the ports in here.

use std::path::Path;
use std::sync::Arc;

use super::StartError;
use super::checkpoints::Checkpoints;
use super::metrics::Metrics;
use super::recovery::{self, Recovered};
use crate::columns::Columns;
use crate::config::{Config, StoreBackend};
use crate::service::bodies::Bodies;
use crate::service::memory_index::MemoryIndex;
use crate::store::Store;
use crate::store::archive::Archive;
use crate::store::audit_archive::AuditArchive;
use crate::store::index::Index;
use crate::store::shared::Shared;
use crate::store::sled::{SledStore, StoreUsage};
use crate::store::verify::Verification;

/// A register that is open.
pub(super) struct Backend {
    pub(super) store: Arc<dyn Store>,
    /// The whole of it, for backups.
    pub(super) archive: Arc<dyn Archive>,
    pub(super) audit: Arc<dyn AuditArchive>,
    /// Looks through it for damage; nothing where a database does that by itself.
    pub(super) verification: Option<Arc<dyn Verification>>,
    /// What is asked of it beyond single records.
    pub(super) index: Arc<dyn Index>,
    /// The register in memory.
    pub(super) columns: Arc<Columns>,
    pub(super) bodies: Arc<Bodies>,
    /// Keeps the register in memory on disk as well; absent where that cannot be done.
    pub(super) checkpoints: Option<Arc<Checkpoints>>,
    /// What other processes share of it; nothing where there are no others.
    pub(super) shared: Option<Arc<dyn Shared>>,
    pub(super) keeper: Keeper,
}

/// What keeps the records, for what it tells of its own.
pub(super) enum Keeper {
    /// A folder of this process.
    Embedded(Arc<SledStore>),
}

impl Backend {
    /// Opens what the settings name.
    pub(super) async fn open(config: &Config, data_dir: &Path, metrics: &Metrics) -> Result<Self, StartError> {
        match config.store.backend {
            StoreBackend::Sled => Self::embedded(config, data_dir, metrics).await,
            StoreBackend::Postgres => Err(StartError::Store(
                "`store.backend` is `postgres`, which this daftar does not have yet: use `sled`".to_owned(),
            )),
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
            audit: store.clone(),
            verification: Some(store.clone()),
            index: Arc::new(MemoryIndex(columns.clone())),
            columns,
            bodies,
            checkpoints,
            shared: None,
            keeper: Keeper::Embedded(store),
        })
    }
}

impl Keeper {
    /// What it has to do, what it did, and what it takes.
    pub(super) fn usage(&self) -> StoreUsage {
        match self {
            Self::Embedded(store) => store.usage(),
        }
    }
}

//! Moves a register from one backend into another, and compares both. The source is a stopped server, or a backup of a
//! running server; in the second case the later writes are applied after that server is stopped.
//!
//! **Invariant:** nothing is ever written into the source backend. Nothing is written into a backend that contains a
//! register, unless it is an earlier state of the same register.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::StartError;
use super::backend::postgres_options;
use super::open::MIB;
use super::recovery::opened;
use super::restore::cause_of;
use daftar_domain::config::{Config, StoreBackend};
use daftar_service::backup::{BackupFile, BackupProblem};
use daftar_service::migrate::{CatchUpError, CaughtUp, Comparison, Counts, catch_up, compare, compare_since, copy};
use daftar_store::archive::{Archive, Held, Mark, Refill, Snapshot};
use daftar_store::{StoreError, blocking};
use daftar_store_postgres::{OpenError as DatabaseError, PostgresOptions, PostgresRefill, PostgresStore};
pub use daftar_store_postgres::{Prepared, ViewsError, ViewsOutcome};
use daftar_store_sled::{OpenError as FolderError, SledOptions, SledRefill, SledStore};

/// The operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Fills a backend without a register with everything in the other backend, or with a backup; then compares both.
    Fill {
        /// The backend that is filled.
        to: StoreBackend,
        /// Source of the fill; absent if it is the other backend.
        backup: Option<BackupFile>,
    },
    /// Applies the writes to the other backend since this one was filled, and compares both.
    CatchUp {
        /// The backend that is caught up.
        to: StoreBackend,
    },
    /// Compares the registers of both backends completely.
    Compare,
}

/// Progress of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Items are copied.
    Copying,
    /// Later writes are applied.
    CatchingUp,
    /// Both registers are read and compared.
    Comparing,
}

/// Reason why a register was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// A backend cannot be opened.
    #[error("{0}")]
    Open(#[from] StartError),
    /// The target backend cannot be filled.
    #[error("{0}")]
    Folder(#[from] FolderError),
    /// The backup is not trusted.
    #[error("`{}`: {problem}", .path.display())]
    Backup {
        /// The backup.
        path: PathBuf,
        /// The problem with it.
        problem: String,
    },
    /// The target backend contains no earlier state of the source.
    #[error("{0}")]
    NotEarlier(String),
    /// A store failed, or a stored item cannot be read or written.
    #[error("{error}{}", cause_of(.error))]
    Store {
        /// The reason.
        #[from]
        error: StoreError,
    },
}

impl From<DatabaseError> for MigrateError {
    fn from(error: DatabaseError) -> Self {
        Self::Open(error.into())
    }
}

impl From<CatchUpError> for MigrateError {
    fn from(error: CatchUpError) -> Self {
        match error {
            CatchUpError::Store(error) => Self::Store { error },
            CatchUpError::OtherRegister { .. } | CatchUpError::Ahead { .. } | CatchUpError::OtherHistory { .. } => {
                Self::NotEarlier(error.to_string())
            }
        }
    }
}

/// The action.
#[derive(Debug, Clone)]
pub struct Migrated {
    /// Sequence number of the last copied write; absent if nothing was copied.
    pub copied: Option<(Mark, Counts)>,
    /// Number of later writes that were applied; absent if they were not requested.
    pub caught_up: Option<CaughtUp>,
    /// Result of the comparison.
    pub comparison: Comparison,
}

/// Moves a register, or compares two. `heard` receives the current step, the approximate number of items, and the
/// number of items that were read.
///
/// # Errors
/// See [`MigrateError`]. Copied items remain, and no server opens them as a register.
pub async fn migrate(
    config: &Config,
    data_dir: &Path,
    action: Action,
    mut heard: impl FnMut(Step, u64, u64),
) -> Result<Migrated, MigrateError> {
    let (source, to, is_filled) = match action {
        Action::CatchUp { to } => return caught_up(config, data_dir, to, heard).await,
        Action::Fill { to, backup: Some(file) } => (Source::Backup(file), to, true),
        Action::Fill { to, backup: None } => (Source::Store(open(config, data_dir, to.other()).await?), to, true),
        Action::Compare => {
            (Source::Store(open_to_compare(config, data_dir, StoreBackend::Sled).await?), StoreBackend::Postgres, false)
        }
    };
    let wrong = |error: StoreError| source.problem(error);
    let copied = if is_filled {
        let refill = refill(config, data_dir, to).await?;
        let copying = |mark: &Mark, items| heard(Step::Copying, about(mark), items);
        Some(copy(source.snapshot().await.map_err(wrong)?, refill, copying).await.map_err(wrong)?)
    } else {
        None
    };
    let target = open_to_compare(config, data_dir, to).await?;
    let comparing = |mark: &Mark, items| heard(Step::Comparing, about(mark).saturating_mul(2), items);
    let (one, other) = (source.snapshot().await.map_err(wrong)?, target.snapshot().await?);
    let comparison = compare(one, other, comparing).await.map_err(wrong)?;
    Ok(Migrated { copied, caught_up: None, comparison })
}

/// Creates or migrates the tables and views of the configured database. Serves no requests.
///
/// # Errors
/// If the database cannot be opened, or the role may not change its tables. Views that cannot be created are no error:
/// see [`Prepared::views`].
pub async fn prepare(config: &Config) -> Result<Prepared, StartError> {
    Ok(PostgresStore::prepare(postgres_options(config)?).await?)
}

/// Applies the writes to the other backend since this one was filled from it, and compares both. Until a comparison has
/// ended without differences, the next run compares everything.
async fn caught_up(
    config: &Config,
    data_dir: &Path,
    to: StoreBackend,
    mut heard: impl FnMut(Step, u64, u64),
) -> Result<Migrated, MigrateError> {
    if to == StoreBackend::Sled {
        existing_folder(config, data_dir)?;
    }
    let source = open(config, data_dir, to.other()).await?;
    let mut target = match to {
        StoreBackend::Sled => in_folder(config, data_dir, SledRefill::catch_up).await?,
        StoreBackend::Postgres => PostgresRefill::catch_up(postgres_options(config)?).await?,
    };
    target.refill.require_comparison();
    let catching = |held: &Held, mark: &Mark, items| heard(Step::CatchingUp, since(held, mark), items);
    let caught_up = catch_up(&*source, target, catching).await?;
    let target = open_to_compare(config, data_dir, to).await?;
    let held = &caught_up.held;
    let comparing = |mark: &Mark, items| heard(Step::Comparing, since(held, mark).saturating_mul(2), items);
    let comparison = if caught_up.was_interrupted {
        let (one, other) = (source.snapshot().await?, target.snapshot().await?);
        compare(one, other, |mark, items| heard(Step::Comparing, about(mark).saturating_mul(2), items)).await?
    } else {
        compare_since(&*source, &*target, held, comparing).await?
    };
    // A folder is open once only.
    drop(target);
    if comparison.differences == 0 {
        match to {
            StoreBackend::Sled => in_folder(config, data_dir, SledRefill::note_compared).await?,
            StoreBackend::Postgres => PostgresRefill::note_compared(postgres_options(config)?).await?,
        }
    }
    Ok(Migrated { copied: None, caught_up: Some(caught_up), comparison })
}

/// Source of the copy.
enum Source {
    /// A store.
    Store(Arc<dyn Archive>),
    /// A backup.
    Backup(BackupFile),
}

impl Source {
    async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        match self {
            Self::Store(store) => store.snapshot().await,
            Self::Backup(file) => file.snapshot().await,
        }
    }

    /// Returns the reason of the failure: the problem with the backup, if the backup caused it.
    fn problem(&self, error: StoreError) -> MigrateError {
        let problem = match &error {
            StoreError::Failed(cause) => cause.downcast_ref::<BackupProblem>().map(ToString::to_string),
            _ => None,
        };
        match (problem, self) {
            (Some(problem), Self::Backup(file)) => MigrateError::Backup { path: file.path.clone(), problem },
            _ => error.into(),
        }
    }
}

/// Estimates the number of items written since: most writes change one record and add one audit entry.
fn since(held: &Held, mark: &Mark) -> u64 {
    mark.sequence.0.saturating_sub(held.sequence.0).saturating_mul(3)
}

/// Estimates the number of items: most records were created by a separate write.
fn about(mark: &Mark) -> u64 {
    let records = mark.records.iter().map(|(_, count)| *count).sum::<u64>();
    records.saturating_add(mark.sequence.0)
}

async fn open(config: &Config, data_dir: &Path, end: StoreBackend) -> Result<Arc<dyn Archive>, MigrateError> {
    match end {
        StoreBackend::Sled => Ok(Arc::new(open_folder(config, data_dir, SledOptions::default()).await?)),
        StoreBackend::Postgres => Ok(Arc::new(PostgresStore::open(postgres_options(config)?).await?)),
    }
}

/// Opens a register to compare it: also one that no server opens before that.
async fn open_to_compare(
    config: &Config,
    data_dir: &Path,
    end: StoreBackend,
) -> Result<Arc<dyn Archive>, MigrateError> {
    match end {
        StoreBackend::Sled => {
            let options = SledOptions { opens_not_compared: true, ..SledOptions::default() };
            Ok(Arc::new(open_folder(config, data_dir, options).await?))
        }
        StoreBackend::Postgres => {
            let options = PostgresOptions { opens_not_compared: true, ..postgres_options(config)? };
            Ok(Arc::new(PostgresStore::open(options).await?))
        }
    }
}

/// Returns the folder of a register, which must exist.
fn existing_folder(config: &Config, data_dir: &Path) -> Result<PathBuf, MigrateError> {
    let folder = config.store.folder(data_dir);
    if !folder.is_dir() {
        let reported = format!("there is no register in `{}`: name its data folder with --data-dir", folder.display());
        return Err(StartError::Store(reported).into());
    }
    Ok(folder)
}

async fn open_folder(config: &Config, data_dir: &Path, options: SledOptions) -> Result<SledStore, MigrateError> {
    let folder = existing_folder(config, data_dir)?;
    let options = SledOptions { cache_bytes: config.store.cache_mib.saturating_mul(MIB), ..options };
    Ok(opened(move || SledStore::open(&folder, options)).await?)
}

/// Opens a backend for filling, which must not contain a register.
async fn refill(config: &Config, data_dir: &Path, end: StoreBackend) -> Result<Box<dyn Refill>, MigrateError> {
    match end {
        StoreBackend::Sled => Ok(Box::new(in_folder(config, data_dir, SledRefill::open).await?)),
        StoreBackend::Postgres => Ok(Box::new(PostgresRefill::open(postgres_options(config)?).await?)),
    }
}

/// Opens the folder of the register for writing to it, on a thread for blocking work.
async fn in_folder<T: Send + 'static>(
    config: &Config,
    data_dir: &Path,
    open: impl FnOnce(&Path, u64) -> Result<T, FolderError> + Send + 'static,
) -> Result<T, MigrateError> {
    let (folder, cache_bytes) = (config.store.folder(data_dir), config.store.cache_mib.saturating_mul(MIB));
    Ok(blocking(move || open(&folder, cache_bytes)).await??)
}

//! Moves the register of a stopped server from one backend into another, and compares both.
//!
//! **Invariant:** nothing is ever written into the backend that is moved from, and nothing into one that holds a register.

use std::path::Path;
use std::sync::Arc;

use super::StartError;
use super::backend::postgres_options;
use super::open::MIB;
use super::recovery::open_error;
use super::restore::cause_of;
use crate::config::Config;
use crate::service::migrate::{Comparison, Counts, compare, copy};
use crate::store::StoreError;
use crate::store::archive::{Archive, Mark, Refill};
use crate::store::postgres::{OpenError as DatabaseError, PostgresRefill, PostgresStore};
use crate::store::sled::{OpenError as FolderError, SledOptions, SledRefill, SledStore};

/// One of two ends of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The data folder.
    Sled,
    /// The database of the settings `[store.postgres]`.
    Postgres,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Everything is copied, then compared.
    CopyAndCompare,
    /// Both hold a register already, which are compared.
    CompareOnly,
}

/// What is told meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Things are copied.
    Copying,
    /// Both are read and compared.
    Comparing,
}

/// Why a register was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// One end cannot be opened.
    #[error("{0}")]
    Open(#[from] StartError),
    /// The new end cannot be filled.
    #[error("{0}")]
    Folder(#[from] FolderError),
    /// The new end cannot be filled.
    #[error("{0}")]
    Database(#[from] DatabaseError),
    /// A store failed, or something that is stored cannot be read or kept.
    #[error("{error}{}", cause_of(.error))]
    Store {
        /// Why.
        #[from]
        error: StoreError,
    },
}

/// What was done.
#[derive(Debug, Clone)]
pub struct Migrated {
    /// As of which write; absent where nothing was copied.
    pub copied: Option<(Mark, Counts)>,
    /// How both compare.
    pub comparison: Comparison,
}

/// Moves a register, or compares two. `heard` hears which step it is at, about how many things there are, and how many were read.
///
/// # Errors
/// See [`MigrateError`]. What was copied so far stays, and no server opens it as a register.
pub async fn migrate(
    config: &Config,
    data_dir: &Path,
    (from, to): (End, End),
    extent: Extent,
    mut heard: impl FnMut(Step, u64, u64),
) -> Result<Migrated, MigrateError> {
    let source = open(config, data_dir, from).await?;
    let copied = match extent {
        Extent::CompareOnly => None,
        Extent::CopyAndCompare => {
            let refill = refill(config, data_dir, to).await?;
            Some(copy(&*source, refill, |mark, things| heard(Step::Copying, about(mark), things)).await?)
        }
    };
    let target = open(config, data_dir, to).await?;
    let comparing = |mark: &Mark, things| heard(Step::Comparing, about(mark).saturating_mul(2), things);
    let comparison = compare(&*source, &*target, comparing).await?;
    Ok(Migrated { copied, comparison })
}

/// About how many things there are: each record has a write of its own, mostly.
fn about(mark: &Mark) -> u64 {
    let records = mark.records.iter().map(|(_, count)| *count).sum::<u64>();
    records.saturating_add(mark.sequence.0)
}

async fn open(config: &Config, data_dir: &Path, end: End) -> Result<Arc<dyn Archive>, MigrateError> {
    match end {
        End::Sled => {
            let folder = config.store.folder(data_dir);
            let options =
                SledOptions { cache_bytes: config.store.cache_mib.saturating_mul(MIB), ..SledOptions::default() };
            let opened = tokio::task::spawn_blocking(move || SledStore::open(&folder, options)).await;
            let opened = opened.map_err(|error| StartError::Store(error.to_string()))?;
            Ok(Arc::new(opened.map_err(|error| open_error(&error))?))
        }
        End::Postgres => Ok(Arc::new(PostgresStore::open(postgres_options(config)?).await?)),
    }
}

async fn refill(config: &Config, data_dir: &Path, end: End) -> Result<Box<dyn Refill>, MigrateError> {
    match end {
        End::Sled => {
            let (folder, cache_bytes) = (config.store.folder(data_dir), config.store.cache_mib.saturating_mul(MIB));
            let opened = tokio::task::spawn_blocking(move || SledRefill::open(&folder, cache_bytes)).await;
            Ok(Box::new(opened.map_err(|error| StartError::Store(error.to_string()))??))
        }
        End::Postgres => Ok(Box::new(PostgresRefill::open(postgres_options(config)?).await?)),
    }
}

//! Verifies the register of a server that does not run.

mod checkpoints;

use std::path::Path;

use tokio::sync::mpsc::Sender;

use super::backend::postgres_options;
use super::recovery::open_error;
use super::{StartError, open::MIB};
use daftar_domain::config::{Config, StoreBackend};
use daftar_domain::verification::VerificationEvent;
use daftar_service::verify::{Pace, verify};
use daftar_store_postgres::PostgresStore;
use daftar_store_sled::StoppedStore;

/// Verifies the register in a data folder that no server uses, or in the database that the configuration names, whether servers use
/// that or not. There is nothing in memory then; the checkpoints in the folder, of which the next start would load it, are compared with
/// the records.
///
/// # Errors
/// When there is no register in the folder, another process uses it, or its database cannot be opened.
pub async fn verify_stopped(
    config: &Config,
    data_dir: &Path,
    events: Sender<VerificationEvent>,
) -> Result<(), StartError> {
    if config.store.backend == StoreBackend::Postgres {
        let store = PostgresStore::open(postgres_options(config)?).await?;
        let verified = verify(&store, None, Pace::Fast, events).await;
        store.close().await;
        return verified.map_err(|error| StartError::Store(error.to_string()));
    }
    let (folder, cache_bytes) = (config.store.folder(data_dir), config.store.cache_mib * MIB);
    let opened = tokio::task::spawn_blocking(move || StoppedStore::open(&folder, cache_bytes)).await;
    let store = match opened {
        Ok(Ok(store)) => store,
        Ok(Err(error)) => return Err(open_error(&error)),
        Err(error) => return Err(StartError::Store(error.to_string())),
    };
    let looked = verify(&store, None, Pace::Fast, events.clone()).await;
    looked.map_err(|error| StartError::Store(error.to_string()))?;
    let looked = checkpoints::verify_checkpoints(&store, data_dir, events).await;
    looked.map_err(|error| StartError::Store(error.to_string()))
}

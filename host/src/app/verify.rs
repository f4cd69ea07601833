//! Verifies the register of a stopped server.
//!
//! **Invariant:** changes nothing: an invalid checkpoint is reported, and quarantined by the next start.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::Sender;

use super::StartError;
use super::backend::postgres_options;
use super::open::MIB;
use super::recovery::{CHECKPOINTS_FOLDER, KINDS, SCAN_RECORDS, not_of_this_history, opened, pages, touched_after};
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::config::{Config, StoreBackend};
use daftar_domain::error::AppError;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::verification::{Finding, Part, Remedy, VerificationEvent};
use daftar_index::Columns;
use daftar_index::checkpoint::{CheckpointFile, CheckpointFolder, is_of_another_version};
use daftar_service::verify::{Held, Pace, hold, verify};
use daftar_store::StoreError;
use daftar_store::change_log::CHANGES_MAX;
use daftar_store::verify::{readable_records, records_at_rest};
use daftar_store_postgres::PostgresStore;
use daftar_store_sled::StoppedStore;

/// Verifies the register in a data folder that no server uses, or in the configured database, which servers may use
/// concurrently. No register is in memory then; the checkpoints in the folder, from which the next start would load it,
/// are compared with the records.
///
/// # Errors
/// If the folder contains no register, another process uses it, or its database cannot be opened.
pub async fn verify_stopped(
    config: &Config,
    data_dir: &Path,
    events: Sender<VerificationEvent>,
) -> Result<(), StartError> {
    if config.store.backend == StoreBackend::Postgres {
        let store = PostgresStore::open_existing(postgres_options(config)?).await?;
        let verified = verify(&store, None, Pace::Fast, events).await;
        store.close().await;
        return verified.map_err(|error| StartError::Store(error.to_string()));
    }
    let (folder, cache_bytes) = (config.store.folder(data_dir), config.store.cache_mib * MIB);
    let store = opened(move || StoppedStore::open(&folder, cache_bytes)).await?;
    let looked = daftar_store::verify::verify(store.raw_values(), Pace::Fast, events.clone()).await;
    looked.map_err(|error| StartError::Store(error.to_string()))?;
    let looked = verify_checkpoints(&store, data_dir, events).await;
    looked.map_err(|error| StartError::Store(error.to_string()))
}

/// Checks every checkpoint in a data folder. Ignores checkpoints of another version of daftar, which an upgrade leaves.
///
/// # Errors
/// If the store fails.
async fn verify_checkpoints(
    store: &StoppedStore,
    data_dir: &Path,
    events: Sender<VerificationEvent>,
) -> Result<(), AppError> {
    let Some(folder) = CheckpointFolder::existing(data_dir.join(CHECKPOINTS_FOLDER)) else { return Ok(()) };
    let files = match folder.newest_first() {
        Ok(files) => files,
        Err(error) => {
            let problem = format!("the folder cannot be read: {error}");
            return report(&events, CHECKPOINTS_FOLDER.to_owned(), &problem, Remedy::Restart).await;
        }
    };
    for file in files {
        match file {
            Err((_, reason)) if is_of_another_version(reason) => {}
            Err((path, reason)) => report(&events, name_of(&path), &reason.to_string(), Remedy::RemoveFile).await?,
            Ok(file) => verify_checkpoint(store, file, events.clone()).await?,
        }
    }
    Ok(())
}

async fn verify_checkpoint(
    store: &StoppedStore,
    file: CheckpointFile,
    events: Sender<VerificationEvent>,
) -> Result<(), AppError> {
    let (name, sequence) = (name_of(&file.path), file.sequence);
    if let Some(reason) = not_of_this_history(store.history_mark(sequence).await?, &file) {
        return report(&events, name, reason, Remedy::RemoveFile).await;
    }
    let loaded = tokio::task::spawn_blocking(move || file.load()).await;
    let columns = match loaded.map_err(|error| AppError::Internal(error.into()))? {
        Ok(columns) => Arc::new(columns),
        Err(reason) => return report(&events, name, &reason.to_string(), Remedy::RemoveFile).await,
    };
    match apply_changes(store, &columns, sequence).await {
        Ok(()) => {}
        Err(StoreError::Corrupt { .. }) => {
            let problem = "later writes are unknown, because the change log is damaged";
            return report(&events, name, problem, Remedy::RemoveFile).await;
        }
        Err(error) => return Err(error.into()),
    }
    let held = Held { columns, part: Part::Checkpoints, file: Some(name), remedy: Remedy::RemoveFile };
    hold(store.raw_values(), held, Pace::Fast, events).await
}

/// Applies the writes after a checkpoint, as far as they can be read.
async fn apply_changes(store: &StoppedStore, columns: &Arc<Columns>, checkpoint: Sequence) -> Result<(), StoreError> {
    let values = store.raw_values();
    let mut after = RecordId(0);
    while let (programs, Some(last)) = readable_records(&values, RecordKind::Program, after, SCAN_RECORDS).await? {
        columns.load(&programs);
        after = last;
    }
    let mut touched = touched_after(|after| store.changes_after(after, CHANGES_MAX), checkpoint).await?;
    for kind in KINDS {
        for page in pages(touched.remove(&kind)) {
            let read: Arc<Mutex<Vec<ChangedRecord>>> = Arc::default();
            let into = Arc::clone(&read);
            let look = move |records: &[ChangedRecord]| {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(records);
            };
            records_at_rest(&values, kind, page, look).await?;
            columns.load(&read.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
    Ok(())
}

fn name_of(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    format!("`{CHECKPOINTS_FOLDER}/{file}`")
}

async fn report(
    events: &Sender<VerificationEvent>,
    place: String,
    problem: &str,
    remedy: Remedy,
) -> Result<(), AppError> {
    let finding = Finding { part: Part::Checkpoints, place, problem: problem.to_owned(), remedy };
    // A receiver that has stopped is no error.
    let _is_heard = events.send(VerificationEvent::Finding(finding)).await;
    Ok(())
}

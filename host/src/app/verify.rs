//! Verifies the register of a stopped server.
//!
//! **Invariant:** changes nothing: an invalid checkpoint is reported, and quarantined by the next start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use super::StartError;
use super::backend::postgres_options;
use super::open::MIB;
use super::recovery::{CHECKPOINTS_FOLDER, not_of_this_history, opened};
use daftar_domain::change::Sequence;
use daftar_domain::config::{Config, PostgresIndexPlace, StoreBackend};
use daftar_domain::error::AppError;
use daftar_domain::verification::{Finding, Part, Remedy, VerificationEvent};
use daftar_index::Corrupt;
use daftar_index::checkpoint::{CheckpointFile, CheckpointFolder, is_of_another_version};
use daftar_service::catch_up::catch_up_readable;
use daftar_service::verify::{Held, Pace, hold};
use daftar_store::archive::Archive;
use daftar_store::change_log::HistoryMark;
use daftar_store::verify::RawValues;
use daftar_store::{Store, StoreError};
use daftar_store_postgres::PostgresStore;
use daftar_store_sled::StoppedStore;

/// A checkpoint, or the path of a file that is none with the reason.
type FoundFile = Result<CheckpointFile, (PathBuf, Corrupt)>;

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
    let failed = |error: AppError| StartError::Store(error.to_string());
    if config.store.backend == StoreBackend::Postgres {
        let store = PostgresStore::open_existing(postgres_options(config)?).await?;
        let verified = async {
            // Before the values: a server may write further checkpoints.
            let files = match config.store.postgres.index {
                PostgresIndexPlace::Memory => found_files(data_dir, &events).await?,
                PostgresIndexPlace::Database => Vec::new(),
            };
            verify_values(store.raw_values().await?, files, |at| store.history_mark(at), events).await
        };
        let verified = verified.await;
        store.close().await;
        return verified.map_err(failed);
    }
    let (folder, cache_bytes) = (config.store.folder(data_dir), config.store.cache_mib * MIB);
    let store = opened(move || StoppedStore::open(&folder, cache_bytes)).await?;
    let verified = async {
        let files = found_files(data_dir, &events).await?;
        verify_values(store.raw_values(), files, |at| store.history_mark(at), events).await
    };
    verified.await.map_err(failed)
}

/// Returns the files in the folder of checkpoints of a data folder. Reports a folder that cannot be read.
///
/// # Errors
/// As [`report`].
async fn found_files(data_dir: &Path, events: &Sender<VerificationEvent>) -> Result<Vec<FoundFile>, AppError> {
    let Some(folder) = CheckpointFolder::existing(data_dir.join(CHECKPOINTS_FOLDER)) else { return Ok(Vec::new()) };
    match folder.newest_first() {
        Ok(files) => Ok(files),
        Err(error) => {
            let problem = format!("the folder cannot be read: {error}");
            report(events, CHECKPOINTS_FOLDER.to_owned(), &problem, Remedy::Restart).await.map(|()| Vec::new())
        }
    }
}

/// Verifies values, and compares each checkpoint with them; `mark` returns the marker of their timeline at a write.
/// Ignores checkpoints of another version of daftar, which an upgrade leaves.
///
/// # Errors
/// If the store fails.
async fn verify_values<F: Future<Output = Result<Option<HistoryMark>, StoreError>>>(
    values: Arc<dyn RawValues>,
    files: Vec<FoundFile>,
    mark: impl Fn(Sequence) -> F,
    events: Sender<VerificationEvent>,
) -> Result<(), AppError> {
    daftar_store::verify::verify(values.clone(), Pace::Fast, events.clone()).await?;
    for file in files {
        match file {
            Err((_, reason)) if is_of_another_version(reason) => {}
            Err((path, reason)) => report(&events, name_of(&path), &reason.to_string(), Remedy::RemoveFile).await?,
            Ok(file) => {
                let mark = mark(file.sequence).await?;
                verify_checkpoint(&values, file, mark, events.clone()).await?;
            }
        }
    }
    Ok(())
}

async fn verify_checkpoint(
    values: &Arc<dyn RawValues>,
    file: CheckpointFile,
    mark: Option<HistoryMark>,
    events: Sender<VerificationEvent>,
) -> Result<(), AppError> {
    let (name, sequence) = (name_of(&file.path), file.sequence);
    if let Some(reason) = not_of_this_history(mark, &file) {
        return report(&events, name, reason, Remedy::RemoveFile).await;
    }
    let loaded = tokio::task::spawn_blocking(move || file.load()).await;
    let columns = match loaded.map_err(AppError::of_task)? {
        Ok(columns) => Arc::new(columns),
        Err(reason) => return report(&events, name, &reason.to_string(), Remedy::RemoveFile).await,
    };
    match catch_up_readable(values, &columns, sequence).await {
        Ok(()) => {}
        Err(StoreError::Corrupt { .. }) => {
            let problem = "later writes are unknown, because the change log is damaged";
            return report(&events, name, problem, Remedy::RemoveFile).await;
        }
        Err(error) => return Err(error.into()),
    }
    let held = Held { columns, part: Part::Checkpoints, file: Some(name), remedy: Remedy::RemoveFile };
    hold(values.clone(), held, Pace::Fast, events).await
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

//! Opens the store and loads the register into memory: from the newest valid checkpoint and later writes, or from all
//! records.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, stream};
use roaring::RoaringTreemap;
use tokio::runtime::Handle;

use super::StartError;
use super::open::MIB;
use daftar_domain::change::{Change, Sequence};
use daftar_domain::config::Config;
use daftar_domain::context::dedicate_thread;
use daftar_domain::error::{AppError, TaskEnded, causes};
use daftar_domain::folders;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_index::checkpoint::{CheckpointFile, CheckpointFolder};
use daftar_index::{Columns, PreparedRecords, Preparer};
use daftar_service::catch_up::{KINDS, RECORDS_PER_PAGE, pages, touched_after};
use daftar_service::response_cache::ResponseCache;
use daftar_store::change_log::{CHANGES_MAX, HistoryMark};
use daftar_store::{ChangeSink, Store, StoreError, blocking};
use daftar_store_sled::{OpenError, SledOptions, SledStore};

/// Number of pages that are read and decomposed concurrently, before they are applied.
const PAGES_AHEAD: usize = 3;
/// The folder of the checkpoints within the data folder.
pub(super) const CHECKPOINTS_FOLDER: &str = "checkpoints";
/// Up to this number of changed records, the changes are always applied. Of more, only as many as the checkpoint has
/// records: beyond that, reading all records is faster.
const CAUGHT_UP_MIN: u64 = 10_000;

/// A store and the register in memory that receives its changes.
pub(super) struct Recovered {
    pub(super) store: Arc<SledStore>,
    pub(super) columns: Arc<Columns>,
    pub(super) bodies: Arc<ResponseCache>,
    /// Folder of checkpoints; absent if it cannot be used.
    pub(super) checkpoints: Option<CheckpointFolder>,
    /// The last write that a checkpoint on disk contains.
    pub(super) checkpointed: Option<Sequence>,
}

/// Applies the store's changes to the indexes, and then to the response cache.
struct RegisterSink {
    columns: Arc<Columns>,
    bodies: Arc<ResponseCache>,
}

impl ChangeSink for RegisterSink {
    fn apply(&self, changes: &[Change]) {
        self.columns.apply(changes);
        self.bodies.heed(changes);
    }
}

/// Opens the store and fills the indexes before any write is possible.
pub(super) async fn open(config: &Config, data_dir: &Path) -> Result<Recovered, StartError> {
    let options = SledOptions { cache_bytes: config.store.cache_mib * MIB, ..SledOptions::default() };
    let folder = config.store.folder(data_dir);
    folders::make_all(&folder).map_err(|error| StartError::Folder(format!("`{}`: {error}", folder.display())))?;
    let store = Arc::new(opened(move || SledStore::open(&folder, options)).await?);
    let checkpoints = checkpoint_folder(data_dir);
    let recovered = match &checkpoints {
        Some(folder) => from_checkpoint(&store, folder, CatchUp::Now).await,
        None => None,
    };
    let checkpointed = recovered.as_ref().map(|(_, sequence)| *sequence);
    let columns = match recovered {
        Some((columns, _)) => columns,
        None => {
            let started = Instant::now();
            let columns = Columns::default();
            build(&store, &columns).await.map_err(store_error)?;
            tracing::info!(
                records = columns.image().record_count(),
                duration_ms = daftar_http::spans::milliseconds(started.elapsed()),
                "the register was read from its records"
            );
            columns
        }
    };
    let columns = Arc::new(columns);
    let bodies = Arc::new(ResponseCache::new(config.store.response_cache_mib.saturating_mul(MIB)));
    let sink = RegisterSink { columns: columns.clone(), bodies: bodies.clone() };
    let last = store.attach_sink(Arc::new(sink)).map_err(store_error)?;
    columns.reach(last);
    Ok(Recovered { store, columns, bodies, checkpoints, checkpointed })
}

/// Returns the folder of checkpoints; `None` if it does not exist.
pub(super) fn checkpoint_folder(data_dir: &Path) -> Option<CheckpointFolder> {
    let folder = CheckpointFolder::open(data_dir.join(CHECKPOINTS_FOLDER));
    let folder = folder.inspect_err(|error| {
        tracing::warn!(error = %error, "checkpoints cannot be written; every start reads all records");
    });
    folder.ok()
}

/// Opens the folder of a store on a thread that may block.
pub(super) async fn opened<T: Send + 'static>(
    open: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, StartError> {
    blocking(open).await.map_err(store_error)?.map_err(|error| match error {
        OpenError::Locked(_) => StartError::InUse(error.to_string()),
        OpenError::Newer { .. }
        | OpenError::BeforeFirstRelease(_)
        | OpenError::Foreign { .. }
        | OpenError::Io { .. }
        | OpenError::Incomplete(_)
        | OpenError::Lost { .. }
        | OpenError::Unfinished { .. }
        | OpenError::NotCompared(_)
        | OpenError::NotFilled(_)
        | OpenError::WrittenSince { .. }
        | OpenError::Database { .. } => StartError::Store(error.to_string()),
    })
}

pub(super) fn store_error(error: StoreError) -> StartError {
    let reported: Vec<String> = causes(&error).map(ToString::to_string).collect();
    let text = format!("the store cannot be used: {}", reported.join(": "));
    if AppError::from(error).is_outage() { StartError::Unavailable(text) } else { StartError::Store(text) }
}

/// Reads every record of a store whose records do not change concurrently. While a page is applied, the next ones are
/// read and decomposed, each by one thread: data that another thread allocates is more expensive to free.
///
/// # Errors
/// If the store fails or a record cannot be read.
pub async fn build<S: Store>(store: &Arc<S>, columns: &Columns) -> Result<(), StoreError> {
    load_programs(&**store, columns).await?;
    for kind in KINDS {
        let mut after = RecordId(0);
        // Keys count up with few gaps, so that a range of keys is a page.
        while let Some(first) = store.scan_records(kind, after, 1).await?.first().map(|record| record.place().1) {
            let pages = stream::iter((first.0..).step_by(RECORDS_PER_PAGE));
            let pages = pages.map(|first| read_page(Arc::clone(store), columns.preparer(), kind, RecordId(first)));
            let mut pages = std::pin::pin!(pages.buffered(PAGES_AHEAD));
            while let Some((last, page)) = pages.next().await.transpose()?.flatten() {
                columns.add_prepared(page);
                after = last;
            }
        }
    }
    Ok(())
}

/// Reads and decomposes the records of a page by its first key. Returns `None` if there are none, and else the last
/// key.
async fn read_page<S: Store>(
    store: Arc<S>,
    preparer: Preparer,
    kind: RecordKind,
    first: RecordId,
) -> Result<Option<(RecordId, PreparedRecords)>, StoreError> {
    let runtime = Handle::current();
    let read = blocking(move || {
        dedicate_thread();
        let ids: Vec<RecordId> = (first.0..).take(RECORDS_PER_PAGE).map(RecordId).collect();
        let records = runtime.block_on(store.records(kind, &ids))?;
        Ok(records.last().map(|last| (last.place().1, preparer.prepare(&records))))
    });
    read.await?
}

async fn load_programs(store: &dyn Store, columns: &Columns) -> Result<(), StoreError> {
    let mut after = RecordId(0);
    loop {
        let page = store.scan_records(RecordKind::Program, after, RECORDS_PER_PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.place().1;
        columns.load(&page);
    }
}

/// Time at which the writes after a checkpoint are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CatchUp {
    /// Before any further write.
    Now,
    /// Later, by the caller, which receives the concurrent writes of other servers. Programs, which no checkpoint
    /// contains, are read immediately.
    Later,
}

/// Loads the register from the newest valid checkpoint, and returns it with the last write that the checkpoint
/// contains; `None` if there is no checkpoint, or if reading all records is faster.
pub(super) async fn from_checkpoint<S: Store>(
    store: &Arc<S>,
    folder: &CheckpointFolder,
    catches_up: CatchUp,
) -> Option<(Columns, Sequence)> {
    let files = match folder.newest_first() {
        Ok(files) => files,
        Err(error) => {
            tracing::warn!(error = %error, "the folder of the checkpoints cannot be read; the register is read from its records");
            return None;
        }
    };
    for file in files {
        let started = Instant::now();
        let (path, reason) = match file {
            Err((path, reason)) => (path, reason.to_string()),
            Ok(file) => {
                let (path, sequence) = (file.path.clone(), file.sequence);
                match use_checkpoint(store, file, catches_up).await {
                    Ok(Some((columns, records))) => {
                        tracing::info!(
                            checkpoint.sequence = sequence.0,
                            records = columns.image().record_count(),
                            records.caught_up = records,
                            duration_ms = daftar_http::spans::milliseconds(started.elapsed()),
                            "the register was read from its checkpoint"
                        );
                        return Some((columns, sequence));
                    }
                    Ok(None) => {
                        tracing::info!(
                            checkpoint.sequence = sequence.0,
                            "most records were written after the checkpoint, so all of them are read"
                        );
                        return None;
                    }
                    Err(reason) => (path, reason),
                }
            }
        };
        tracing::warn!(
            checkpoint.file = %path.display(),
            reason = %reason,
            "a checkpoint cannot be used and is quarantined; nothing is lost: an older one or the records are read"
        );
        if let Err(error) = folder.quarantine(&path) {
            tracing::warn!(error = %error, checkpoint.file = %path.display(), "the checkpoint cannot be quarantined");
        }
    }
    None
}

/// Reads a checkpoint that belongs to this store's timeline, and applies all later writes. Returns the current register
/// and the number of applied records; `None` if reading all records is faster; the reason if the checkpoint cannot be
/// used. If the store itself fails, reading all records reports that error again.
async fn use_checkpoint<S: Store>(
    store: &Arc<S>,
    file: CheckpointFile,
    catches_up: CatchUp,
) -> Result<Option<(Columns, u64)>, String> {
    let sequence = file.sequence;
    let mark = store.history_mark(sequence).await.map_err(|error| error.to_string())?;
    if let Some(reason) = not_of_this_history(mark, &file) {
        return Err(reason.to_owned());
    }
    let loaded = tokio::task::spawn_blocking(move || file.load()).await;
    let loaded = loaded.map_err(|error| TaskEnded::from(error).to_string())?;
    let columns = loaded.map_err(|reason| reason.to_string())?;
    let caught_up = match catches_up {
        CatchUp::Now => catch_up(&**store, &columns, sequence).await,
        CatchUp::Later => load_programs(&**store, &columns).await.map(|()| Some(0)),
    };
    let caught_up = caught_up.map_err(|error| error.to_string())?;
    Ok(caught_up.map(|records| (columns, records)))
}

/// Applies the writes after a checkpoint, each record once and in its current state. Returns the number of records;
/// `None` if they are so many that reading all records is faster.
///
/// # Errors
/// If the store fails or a record cannot be read.
pub async fn catch_up(store: &dyn Store, columns: &Columns, checkpoint: Sequence) -> Result<Option<u64>, StoreError> {
    load_programs(store, columns).await?;
    let known = columns.image().record_count();
    let mut touched = touched_after(|after| store.changes_after(after, CHANGES_MAX), checkpoint).await?;
    let count = touched.values().map(RoaringTreemap::len).sum();
    if count > known.max(CAUGHT_UP_MIN) {
        return Ok(None);
    }
    for kind in KINDS {
        for page in pages(touched.remove(&kind)) {
            columns.load(&store.records(kind, &page).await?);
        }
    }
    Ok(Some(count))
}

/// Returns the reason why a checkpoint does not belong to the timeline with that marker at its last write; `None` if it
/// does.
pub(super) fn not_of_this_history(mark: Option<HistoryMark>, file: &CheckpointFile) -> Option<&'static str> {
    match mark {
        None => Some("it is from the future: the store has not seen its last write"),
        Some(mark) if mark.0 != file.mark => Some("it is of another register, or of a copy that continued separately"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;

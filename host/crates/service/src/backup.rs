//! Backups of the whole register: taken while it is used, checked, and put back.
//!
//! A backup holds what the store keeps as it stood after one write ([`daftar_store::archive`]), the installed plugins, and the
//! keys unless they are not wanted. `host/docs/BACKUP.md` tells the form.
//!
//! **Invariant:** memory is bounded however large the register is: a few blocks wait for whoever reads, and the store is read on
//! only when these are taken.
//!
//! **Invariant:** a backup is made for one reader at a time, and whoever stops reading ends it.

mod archive;
mod examine;
mod format;
mod item;
mod problem;
mod reader;
mod restore;
mod signature;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};

pub use self::archive::BackupFile;
pub use self::format::{Chain, FORMAT, Head};
pub use self::item::Item;
pub use self::problem::BackupProblem;
pub use self::reader::extent_of;
pub use self::restore::{Contents, Depth, ReadAhead, head_of, inspect};
pub use self::signature::{Authenticity, BackupSignature, BackupTrust};
use self::writer::{BackupWriter, Finished};
use super::audit::{self, AuditLog};
use super::plugin::PluginAdministration;
use daftar_auth::key_folder;
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::calendar::format_instant;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_sandbox::ArchivedPlugins;
use daftar_store::StoreError;
use daftar_store::archive::{Archive, Kept, Mark, Snapshot};

/// How many blocks wait for whoever reads.
const BLOCKS_WAITING: usize = 2;
/// How long a block waits before the reader is given up: it would keep others from making a backup for ever.
const READER_PATIENCE: Duration = Duration::from_secs(60);
/// The parts that plugins' files are cut into, in bytes.
const PLUGIN_PART_BYTES: usize = 256 * 1024;
/// The counter of the store that keeps when the last backup was made.
const LAST_BACKUP: &str = "backup/last";
/// What the audit log calls a backup.
pub const TARGET: &str = "backup";

/// Whether the keys go into a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// They do: whoever has the backup can make tokens, and a restored register goes on as the old one.
    Included,
    /// They do not: they have to be put beside a restored register.
    LeftOut,
}

/// Makes backups.
#[derive(Clone)]
pub struct Backups {
    archive: Arc<dyn Archive>,
    plugins: PluginAdministration,
    log: AuditLog,
    data_dir: PathBuf,
    making: Arc<Mutex<()>>,
    /// As of when the last whole backup was, in seconds since 1970; 0 where none is known.
    last_s: Arc<AtomicU64>,
}

/// A backup that is being made: its bytes, block by block, and an error instead of the rest when it cannot be finished.
pub type BackupBytes = mpsc::Receiver<Result<Vec<u8>, AppError>>;

/// What is taken, fixed at one moment.
struct Taken {
    snapshot: Snapshot,
    plugins: ArchivedPlugins,
    keys: Vec<(String, SecretString)>,
}

impl Backups {
    /// Makes backups of the register in that folder.
    #[must_use]
    pub fn new(archive: Arc<dyn Archive>, plugins: PluginAdministration, log: AuditLog, data_dir: PathBuf) -> Self {
        Self { archive, plugins, log, data_dir, making: Arc::default(), last_s: Arc::default() }
    }

    /// Recalls when the last backup was made.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn recall(&self) -> Result<(), AppError> {
        let kept = self.plugins.registry().store.counters(LAST_BACKUP).await?;
        let last_s = kept.into_iter().map(|(_, seconds)| seconds).max().unwrap_or(0);
        self.last_s.fetch_max(last_s, Ordering::Relaxed);
        Ok(())
    }

    /// As of when the last whole backup was; none, where none is known.
    #[must_use]
    pub fn last(&self) -> Option<Timestamp> {
        let last_s = i64::try_from(self.last_s.load(Ordering::Relaxed)).ok().filter(|last_s| *last_s > 0)?;
        Timestamp::from_second(last_s).ok()
    }

    /// Keeps that a whole backup as of that instant was given away.
    async fn keep_last(&self, as_of: Timestamp) {
        let last_s = u64::try_from(as_of.as_second()).unwrap_or(0);
        self.last_s.fetch_max(last_s, Ordering::Relaxed);
        if let Err(error) = self.plugins.registry().store.raise_counter(LAST_BACKUP, last_s).await {
            tracing::warn!(error = %error, "when the last backup was made could not be kept; the metrics page forgets it at the next start");
        }
    }

    /// Begins a backup of the register as it stands now. Writes and reads go on meanwhile. That it is made is written down
    /// before anything is given away.
    ///
    /// # Errors
    /// A conflict while another backup is made; when the store or the keys cannot be read.
    pub async fn begin(&self, ctx: &OpContext, keys: Keys) -> Result<BackupBytes, AppError> {
        let making = Arc::clone(&self.making).try_lock_owned().map_err(|_| {
            AppError::conflict(
                ErrorCode::OperationInProgress,
                "a backup is being made: wait until it is finished, or end the one who reads it",
            )
        })?;
        let taken = self.take(keys).await?;
        let mark = taken.snapshot.mark();
        let head = head(mark, keys, ctx.now);
        let with = match keys {
            Keys::Included => "with the keys",
            Keys::LeftOut => "without the keys",
        };
        let line = audit::entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, vec![TARGET.to_owned()]);
        let line = line.with_note(format!("a backup as of write {}, {with}", mark.sequence.0));
        let broken_off = AuditEntry { outcome: AuditOutcome::Failed, status: None, ..line.clone() };
        self.log.record_now(vec![line]).await?;
        let (sender, bytes) = mpsc::channel(BLOCKS_WAITING);
        tokio::spawn(make(self.clone(), broken_off, making, (head, ctx.now), taken, sender));
        Ok(bytes)
    }

    async fn take(&self, keys: Keys) -> Result<Taken, AppError> {
        let archive = Arc::clone(&self.archive);
        let fix = async move { Ok(archive.snapshot().await?) };
        let (plugins, snapshot) = self.plugins.archived_with(fix).await?;
        let keys = match keys {
            Keys::LeftOut => Vec::new(),
            Keys::Included => {
                let data_dir = self.data_dir.clone();
                let read = tokio::task::spawn_blocking(move || key_folder::read_all(&data_dir)).await;
                let read = read.map_err(|error| AppError::Internal(error.into()))?;
                read.map_err(|error| AppError::Internal(error.into()))?
            }
        };
        Ok(Taken { snapshot, plugins, keys })
    }
}

fn head(mark: &Mark, keys: Keys, now: Timestamp) -> Head {
    Head {
        daftar: env!("CARGO_PKG_VERSION").to_owned(),
        register: mark.register.to_string(),
        sequence: mark.sequence.0,
        at: format_instant(now),
        keys: keys == Keys::Included,
        records: mark.records.iter().map(|(kind, count)| (Kept::of_kind(*kind).name().to_owned(), *count)).collect(),
    }
}

/// Why making a backup ended early.
enum BrokenOff {
    /// Whoever read it has gone, or takes nothing any more.
    Reader(&'static str),
    /// It cannot be made.
    Failed(AppError),
}

impl From<AppError> for BrokenOff {
    fn from(error: AppError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for BrokenOff {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// Makes a backup to its end, and writes down when that was not reached.
async fn make(
    backups: Backups,
    line: AuditEntry,
    making: OwnedMutexGuard<()>,
    (head, as_of): (Head, Timestamp),
    taken: Taken,
    sender: mpsc::Sender<Result<Vec<u8>, AppError>>,
) {
    let reason = match write(head, taken, &sender).await {
        Ok(counts) => {
            let things = counts.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
            backups.keep_last(as_of).await;
            tracing::info!(things, "a backup was made");
            return;
        }
        Err(BrokenOff::Reader(reason)) => {
            tracing::warn!(reason, "a backup was broken off");
            reason.to_owned()
        }
        Err(BrokenOff::Failed(error)) => {
            tracing::error!(error = %error, cause = ?std::error::Error::source(&error), "a backup could not be finished");
            let reason = error.to_string();
            // The reader learns it by the connection that is broken off.
            let _ = sender.send(Err(error)).await;
            reason
        }
    };
    drop(making);
    if let Err(error) = backups.log.record_now(vec![line.with_reason(reason)]).await {
        tracing::error!(error = %error, "that a backup was broken off could not be audited");
    }
}

async fn write(
    head: Head,
    taken: Taken,
    sender: &mpsc::Sender<Result<Vec<u8>, AppError>>,
) -> Result<BTreeMap<String, u64>, BrokenOff> {
    let Taken { mut snapshot, plugins, keys } = taken;
    let (mut writer, line) = BackupWriter::new(&head).map_err(defect)?;
    give(sender, vec![line]).await?;
    let keys = keys.into_iter().map(|(name, text)| Item::Key { name, text }).collect();
    writer = add(writer, keys, sender).await?;
    for (digest, mut file) in plugins.files {
        for part in 0.. {
            let read = tokio::task::spawn_blocking(move || read_part(&mut file).map(|bytes| (file, bytes))).await;
            let (again, bytes) = read.map_err(|error| AppError::Internal(error.into()))?.map_err(unreadable)?;
            file = again;
            if bytes.is_empty() {
                break;
            }
            writer = add(writer, vec![Item::PluginPart { digest: *digest.as_bytes(), part, bytes }], sender).await?;
        }
    }
    writer = add(writer, vec![Item::PluginList { bytes: plugins.list }], sender).await?;
    loop {
        let entries = snapshot.next().await?;
        if entries.is_empty() {
            break;
        }
        writer = add(writer, entries.into_iter().map(Item::Kept).collect(), sender).await?;
    }
    let finished = tokio::task::spawn_blocking(move || writer.finish()).await;
    let Finished { blocks, counts } = finished.map_err(|error| AppError::Internal(error.into()))?.map_err(defect)?;
    give(sender, blocks).await?;
    Ok(counts)
}

/// Packs things, away from the threads that serve requests, and gives away the blocks that are full.
async fn add(
    mut writer: BackupWriter,
    items: Vec<Item>,
    sender: &mpsc::Sender<Result<Vec<u8>, AppError>>,
) -> Result<BackupWriter, BrokenOff> {
    let packed = tokio::task::spawn_blocking(move || writer.add(items).map(|blocks| (writer, blocks))).await;
    let (writer, blocks) = packed.map_err(|error| AppError::Internal(error.into()))?.map_err(defect)?;
    give(sender, blocks).await?;
    Ok(writer)
}

async fn give(sender: &mpsc::Sender<Result<Vec<u8>, AppError>>, blocks: Vec<Vec<u8>>) -> Result<(), BrokenOff> {
    for block in blocks {
        match tokio::time::timeout(READER_PATIENCE, sender.send(Ok(block))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(BrokenOff::Reader("whoever read the backup left before its end")),
            Err(_) => return Err(BrokenOff::Reader("whoever read the backup took nothing of it for a minute")),
        }
    }
    Ok(())
}

fn read_part(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PLUGIN_PART_BYTES);
    file.take(u64::try_from(PLUGIN_PART_BYTES).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(error: std::io::Error) -> AppError {
    AppError::Unavailable(error.into())
}

fn defect(problem: BackupProblem) -> AppError {
    AppError::Internal(problem.into())
}

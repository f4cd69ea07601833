//! Backups of the complete register: creation during operation, verification, and restore.
//!
//! A backup contains the content of the store at one revision ([`daftar_store::archive`]), the installed plugins, and
//! the keys unless they are excluded. `host/docs/BACKUP.md` specifies the format.
//!
//! **Invariant:** memory is bounded for any size of the register: a few blocks wait for the reader, and the store is
//! read further only when the reader consumes them.
//!
//! **Invariant:** a backup is created for one reader at a time, and ends if the reader stops.
//!
//! **Invariant:** the end is reported only after everything was read and is valid.

mod examine;
mod format;
mod item;
mod reader;
mod restore;
mod signature;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use jiff::Timestamp;
use secrecy::SecretString;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};

pub use self::format::{Chain, FORMAT, Head};
pub use self::item::Item;
pub use self::reader::extent_of;
pub use self::restore::{Contents, Depth, ReadAhead, head_of, inspect};
pub use self::signature::{Authenticity, BackupSignature, BackupTrust};
use self::writer::{BackupWriter, Finished};
use super::audit::{self, AuditLog};
use super::plugin::PluginAdministration;
use super::vocabulary_publisher::blocking;
use daftar_auth::key_folder;
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::calendar::format_instant;
use daftar_domain::change::Sequence;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, TaskEnded};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::plugin_key::PluginKeyId;
use daftar_domain::record::RecordKind;
use daftar_sandbox::ArchivedPlugins;
use daftar_store::archive::{Archive, Entry, ItemKind, Mark, Snapshot};
use daftar_store::change_log::RegisterId;
use daftar_store::{BEFORE_FIRST_RELEASE, StoreError};

/// Reason why a backup cannot be read or is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum BackupProblem {
    /// The data is not a backup.
    #[error("this is no backup of daftar's: its first line does not begin with `daftar-backup-file`")]
    Foreign,
    /// It was created by a daftar before the first release.
    #[error("the backup {BEFORE_FIRST_RELEASE}")]
    BeforeFirstRelease,
    /// It was created by a newer daftar.
    #[error(
        "the backup is of format {found}, and this daftar reads formats up to {FORMAT}: use the daftar that made it, or a newer one"
    )]
    Newer {
        /// Its format.
        found: u64,
    },
    /// Its header line cannot be parsed.
    #[error("the first line of the backup is damaged: {0}; use another backup")]
    Head(String),
    /// It is truncated.
    #[error(
        "the backup ends after {bytes} bytes, and its end is missing: the file was truncated, or the backup was interrupted; use another backup"
    )]
    CutOff {
        /// The amount.
        bytes: u64,
    },
    /// It was modified.
    #[error("block {block} of the backup, {at} bytes after its beginning, is damaged: {reason}; use another backup")]
    Damaged {
        /// The block number, counted from 1.
        block: u64,
        /// Its start.
        at: u64,
        /// Its display.
        reason: String,
    },
    /// It has data after the end.
    #[error("the backup continues after its end: data was appended to the file; use another backup")]
    Longer,
    /// The data after the end has the prefix of a signature but is not a signature.
    #[error("the signature of the backup cannot be read: {0}; use another backup")]
    Signature(&'static str),
    /// It has no signature, and one is required.
    #[error(
        "the backup is not signed, but a signature of a trusted key is required; `daftar backup --sign KEY` signs one"
    )]
    Unsigned,
    /// Its signature does not match the trusted key.
    #[error(
        "the signature by the key {key} is not of this backup: the file was changed after it was signed, or the signature was; use another backup"
    )]
    SignatureMismatch {
        /// The trusted key that the signature names.
        key: PluginKeyId,
    },
    /// It was signed with a key that is not trusted for backups.
    #[error(
        "the backup is signed by the key {key}, which is not trusted for backups ({trusted} are); add it to `[plugins] trusted_keys` if you trust its owner"
    )]
    UnknownKey {
        /// The key, as the signature names it.
        key: PluginKeyId,
        /// The ids of the trusted keys.
        trusted: String,
    },
    /// The file is not the verified file.
    #[error("the backup was changed while it was read: it is not the one whose signature was verified")]
    Replaced,
    /// Its content is inconsistent or cannot be read.
    #[error("block {block} of the backup holds what cannot be restored: {reason}")]
    Content {
        /// The block number, counted from 1.
        block: u64,
        /// Kind.
        reason: String,
    },
    /// Its content does not match its declared value.
    #[error("the backup declares {reported} {name} and contains {found}; use another backup")]
    Count {
        /// The name of the value.
        name: String,
        /// Its text.
        reported: u64,
        /// The existing value.
        found: u64,
    },
    /// It cannot be read.
    #[error("the backup cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl BackupProblem {
    /// Text in place of a stored value that cannot be read.
    fn content(block: u64, error: &StoreError) -> Self {
        Self::Content { block, reason: error.to_string() }
    }
}

/// A backup in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFile {
    /// The file, which is opened each time that it is read.
    pub path: PathBuf,
    /// The checksum of the contents whose signature was verified: another file is refused before its end.
    pub verified: Option<Chain>,
}

impl BackupFile {
    /// Content of the store. If the snapshot ends, everything was read and valid.
    ///
    /// # Errors
    /// If it cannot be read. The cause is a [`BackupProblem`].
    pub async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let (path, verified) = (self.path.clone(), self.verified);
        let begun = tokio::task::spawn_blocking(move || begin(path)).await;
        let begun = begun.unwrap_or_else(|error| Err(BackupProblem::Io(error.into())));
        let (mark, reading) = begun.map_err(wrong)?;
        Ok(Snapshot::new(mark, Some(reading), move |reading| async move {
            let Some(reading) = reading else { return Ok((None, Vec::new())) };
            let read = tokio::task::spawn_blocking(move || next(reading, verified)).await;
            let read = read.unwrap_or_else(|error| Err(BackupProblem::Io(error.into())));
            Ok(read.map_err(wrong)?.map_or((None, Vec::new()), |(reading, entries)| (Some(reading), entries)))
        }))
    }
}

fn begin(path: PathBuf) -> Result<(Mark, ReadAhead), BackupProblem> {
    let mut file = File::open(path)?;
    let mark = mark_of(&head_of(&mut file)?)?;
    file.rewind()?;
    Ok((mark, ReadAhead::start(BufReader::new(file), |_, _| ())?))
}

/// The write that a backup contains as its last.
///
/// # Errors
/// [`BackupProblem::Head`] if the id of the register is invalid.
pub fn mark_of(head: &Head) -> Result<Mark, BackupProblem> {
    let register = RegisterId::parse(&head.register);
    let register = register.ok_or_else(|| BackupProblem::Head("the id of its register is none".to_owned()))?;
    let count = |kind| head.records.get(ItemKind::of_kind(kind).name()).copied().unwrap_or_default();
    let records = RecordKind::ALL.map(|kind| (kind, count(kind)));
    Ok(Mark { register, sequence: Sequence(head.sequence), records })
}

/// The problem is the cause of the error.
fn wrong(problem: BackupProblem) -> StoreError {
    StoreError::Failed(problem.into())
}

/// The next items of a store; none at the end of a valid backup.
fn next(reading: ReadAhead, verified: Option<Chain>) -> Result<Option<(ReadAhead, Vec<Entry>)>, BackupProblem> {
    loop {
        let Some((items, _)) = reading.next() else {
            let contents = reading.finish()?;
            let is_other = verified.is_some_and(|verified| verified != contents.checksum);
            return if is_other { Err(BackupProblem::Replaced) } else { Ok(None) };
        };
        let mut entries = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Item::ItemKind(entry) => entries.push(entry),
                Item::Key { .. } | Item::PluginList { .. } | Item::PluginPart { .. } => {}
            }
        }
        if !entries.is_empty() {
            return Ok(Some((reading, entries)));
        }
    }
}

#[cfg(test)]
mod tests;
mod writer;

/// Maximum number of blocks that wait for the reader.
const BLOCKS_WAITING: usize = 2;
/// Timeout of a reader: without it, one reader could block further backups indefinitely.
const READER_PATIENCE: Duration = Duration::from_secs(60);
/// Size of the chunks of plugin files, in bytes.
const PLUGIN_PART_BYTES: usize = 256 * 1024;
/// The store counter with the time of the last backup.
const LAST_BACKUP: &str = "backup/last";
/// Target name of a backup in the audit log.
pub const TARGET: &str = "backup";

/// Inclusion of the keys in a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyInclusion {
    /// Included: a holder of the backup can issue tokens, and a restored register continues as the old one.
    Included,
    /// Not included: the operator has to copy them to a restored register.
    LeftOut,
}

/// Creates backups.
#[derive(Clone)]
pub struct Backups {
    archive: Arc<dyn Archive>,
    plugins: PluginAdministration,
    log: AuditLog,
    data_dir: PathBuf,
    making: Arc<Mutex<()>>,
    /// Revision time of the last complete backup, in seconds since 1970; 0 if unknown.
    last_s: Arc<AtomicU64>,
}

/// A backup in progress: its bytes, block by block, and an error in place of the rest if it fails.
pub type BackupBytes = mpsc::Receiver<Result<Vec<u8>, AppError>>;

/// The content at one snapshot.
struct Taken {
    snapshot: Snapshot,
    plugins: ArchivedPlugins,
    keys: Vec<(String, SecretString)>,
}

impl Backups {
    /// Creates backups of the register in that folder.
    #[must_use]
    pub fn new(archive: Arc<dyn Archive>, plugins: PluginAdministration, log: AuditLog, data_dir: PathBuf) -> Self {
        Self { archive, plugins, log, data_dir, making: Arc::default(), last_s: Arc::default() }
    }

    /// Loads the time of the last backup.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn recall(&self) -> Result<(), AppError> {
        let stored = self.plugins.registry().store.counters(LAST_BACKUP).await?;
        let last_s = stored.into_iter().map(|(_, seconds)| seconds).max().unwrap_or(0);
        self.last_s.fetch_max(last_s, Ordering::Relaxed);
        Ok(())
    }

    /// Revision time of the last complete backup; none if unknown.
    #[must_use]
    pub fn last(&self) -> Option<Timestamp> {
        let last_s = i64::try_from(self.last_s.load(Ordering::Relaxed)).ok().filter(|last_s| *last_s > 0)?;
        Timestamp::from_second(last_s).ok()
    }

    /// Stores that a complete backup of that time was passed to its reader.
    async fn keep_last(&self, as_of: Timestamp) {
        let last_s = u64::try_from(as_of.as_second()).unwrap_or(0);
        self.last_s.fetch_max(last_s, Ordering::Relaxed);
        if let Err(error) = self.plugins.registry().store.raise_counter(LAST_BACKUP, last_s).await {
            tracing::warn!(error = %error, "the time of the last backup was not stored; the metrics page loses it at the next start");
        }
    }

    /// Begins a backup of the current register. Writes and reads continue in the meantime. The audit log records the
    /// backup before any data is sent.
    ///
    /// # Errors
    /// A conflict while another backup is in progress; if the store or the keys cannot be read.
    pub async fn begin(&self, ctx: &OpContext, keys: KeyInclusion) -> Result<BackupBytes, AppError> {
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
            KeyInclusion::Included => "with the keys",
            KeyInclusion::LeftOut => "without the keys",
        };
        let line = audit::entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, vec![TARGET.to_owned()]);
        let line = line.with_note(format!("a backup as of write {}, {with}", mark.sequence.0));
        let broken_off = AuditEntry { outcome: AuditOutcome::Failed, status: None, ..line.clone() };
        self.log.record_now(vec![line]).await?;
        let (sender, bytes) = mpsc::channel(BLOCKS_WAITING);
        tokio::spawn(make(self.clone(), broken_off, making, (head, ctx.now), taken, sender));
        Ok(bytes)
    }

    async fn take(&self, keys: KeyInclusion) -> Result<Taken, AppError> {
        let archive = Arc::clone(&self.archive);
        let fix = async move { Ok(archive.snapshot().await?) };
        let (plugins, snapshot) = self.plugins.archived_with(fix).await?;
        let keys = match keys {
            KeyInclusion::LeftOut => Vec::new(),
            KeyInclusion::Included => {
                let data_dir = self.data_dir.clone();
                let read = blocking(move || key_folder::read_all(&data_dir)).await?;
                read.map_err(|error| AppError::Internal(error.into()))?
            }
        };
        Ok(Taken { snapshot, plugins, keys })
    }
}

fn head(mark: &Mark, keys: KeyInclusion, now: Timestamp) -> Head {
    Head {
        daftar: env!("CARGO_PKG_VERSION").to_owned(),
        register: mark.register.to_string(),
        sequence: mark.sequence.0,
        at: format_instant(now),
        keys: keys == KeyInclusion::Included,
        records: mark
            .records
            .iter()
            .map(|(kind, count)| (ItemKind::of_kind(*kind).name().to_owned(), *count))
            .collect(),
    }
}

/// Reason why the creation of a backup ended early.
enum Interrupted {
    /// The reader has disconnected, or reads no more data.
    Reader(&'static str),
    /// The backup failed.
    Failed(AppError),
}

impl From<AppError> for Interrupted {
    fn from(error: AppError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// Creates a backup to its end, and logs a failure to complete it. A panic is one: else the response would end
/// without an error, and the audit log would have no entry.
async fn make(
    backups: Backups,
    line: AuditEntry,
    making: OwnedMutexGuard<()>,
    (head, as_of): (Head, Timestamp),
    taken: Taken,
    sender: mpsc::Sender<Result<Vec<u8>, AppError>>,
) {
    let written = AssertUnwindSafe(write(head, taken, &sender)).catch_unwind().await;
    let reason = match written.unwrap_or_else(|_| Err(AppError::Internal(TaskEnded::Panicked.into()).into())) {
        Ok(counts) => {
            let things = counts.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
            backups.keep_last(as_of).await;
            tracing::info!(things, "a backup was made");
            return;
        }
        Err(Interrupted::Reader(reason)) => {
            tracing::warn!(reason, "backup interrupted");
            reason.to_owned()
        }
        Err(Interrupted::Failed(error)) => {
            tracing::error!(error = %error, cause = ?std::error::Error::source(&error), "a backup could not be finished");
            let reason = error.to_string();
            // The interrupted connection reports this to the reader.
            let _ = sender.send(Err(error)).await;
            reason
        }
    };
    drop(making);
    if let Err(error) = backups.log.record_now(vec![line.with_reason(reason)]).await {
        tracing::error!(error = %error, "interrupted backup could not be audited");
    }
}

async fn write(
    head: Head,
    taken: Taken,
    sender: &mpsc::Sender<Result<Vec<u8>, AppError>>,
) -> Result<BTreeMap<String, u64>, Interrupted> {
    let Taken { mut snapshot, plugins, keys } = taken;
    let (mut writer, line) = BackupWriter::new(&head).map_err(defect)?;
    give(sender, vec![line]).await?;
    let keys = keys.into_iter().map(|(name, text)| Item::Key { name, text }).collect();
    writer = add(writer, keys, sender).await?;
    for (digest, mut file) in plugins.files {
        for part in 0.. {
            let read = blocking(move || read_part(&mut file).map(|bytes| (file, bytes))).await?;
            let (again, bytes) = read.map_err(|error| AppError::Unavailable(error.into()))?;
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
        writer = add(writer, entries.into_iter().map(Item::ItemKind).collect(), sender).await?;
    }
    let Finished { blocks, counts } = blocking(move || writer.finish()).await?.map_err(defect)?;
    give(sender, blocks).await?;
    until_taken(sender).await?;
    Ok(counts)
}

/// Packs items outside the threads that serve requests, and returns the full blocks.
async fn add(
    mut writer: BackupWriter,
    items: Vec<Item>,
    sender: &mpsc::Sender<Result<Vec<u8>, AppError>>,
) -> Result<BackupWriter, Interrupted> {
    let packed = blocking(move || writer.add(items).map(|blocks| (writer, blocks))).await?;
    let (writer, blocks) = packed.map_err(defect)?;
    give(sender, blocks).await?;
    Ok(writer)
}

async fn give(sender: &mpsc::Sender<Result<Vec<u8>, AppError>>, blocks: Vec<Vec<u8>>) -> Result<(), Interrupted> {
    for block in blocks {
        patiently(sender.send(Ok(block))).await?;
    }
    Ok(())
}

/// Waits until the reader has taken all blocks: a backup whose last blocks still wait is not complete.
async fn until_taken(sender: &mpsc::Sender<Result<Vec<u8>, AppError>>) -> Result<(), Interrupted> {
    // One block more each time: the patience is for each block.
    for free in 1..=sender.max_capacity() {
        drop(patiently(sender.reserve_many(free)).await?);
    }
    Ok(())
}

/// Waits for the reader, which fails if it disconnects, and at most for [`READER_PATIENCE`].
async fn patiently<T, E>(waiting: impl Future<Output = Result<T, E>>) -> Result<T, Interrupted> {
    match tokio::time::timeout(READER_PATIENCE, waiting).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err(Interrupted::Reader("the reader disconnected before the end of the backup")),
        Err(_) => Err(Interrupted::Reader("the reader read nothing of the backup for a minute")),
    }
}

fn read_part(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PLUGIN_PART_BYTES);
    file.take(u64::try_from(PLUGIN_PART_BYTES).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn defect(problem: BackupProblem) -> AppError {
    AppError::Internal(problem.into())
}

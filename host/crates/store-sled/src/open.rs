//! Opens a data folder: creates it, locks it, checks its content.
//!
//! **Invariant:** one process at a time, and a folder that a newer daftar has written is left unchanged.
//!
//! **Invariant:** an interrupted first start is repeated: nothing was acknowledged before the folder has its first
//! marker ([`super::mark`]), and until then it has the file [`NEW_FILE`].

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FlockOperation;

use daftar_domain::error::{Panicked, contain};
use daftar_domain::folders;

use super::database::Database;
use super::disk::{self, CLOSED_FILE, CONFIGURATION_FILE, DATABASE_FILE, LARGE_VALUES_FOLDER, SNAPSHOT_PREFIX};
use super::keys;
use super::mark::{self, Acknowledged, MARK_FILE, Mark};
use super::not_understood;
use super::reader::Reader;
use super::unfinished::{self, UNFINISHED_FILE, Unfinished};
use daftar_store::archive::Origin;
use daftar_store::change_log::RegisterId;
use daftar_store::{BEFORE_FIRST_RELEASE, StoreError, record};

/// The layout that this daftar reads and writes.
pub const FORMAT_VERSION: u32 = 1;
/// The prefix of the layout marker, before the number in four bytes. Before the first release it had no prefix.
const LAYOUT_MARK: &[u8] = b"daftar-store";
/// Locked while the folder is in use. Its content is ignored.
const LOCK_FILE: &str = "daftar.lock";
/// The number of lock attempts and the pause between them: a program that was started while the folder was in use
/// shares our lock until it runs, and so for a short time after we release it.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Exists while the first start of a folder is not complete. Its content is ignored.
const NEW_FILE: &str = "daftar.new";
/// The database's unit of disk space, a part of the layout: the database rejects a folder with another one. A page, of
/// up to twenty-six keys with their values, takes less than a quarter of it: a larger one gets a file of its own
/// (`database`).
pub(super) const SEGMENT_BYTES: usize = 2 * 1024 * 1024;

/// Options of the embedded store.
#[derive(Debug, Clone, Copy)]
pub struct SledOptions {
    /// Memory for the database's cache, in bytes.
    pub cache_bytes: u64,
    /// The most waiting writes; one more is rejected as [`StoreError::Overloaded`].
    pub queue_writes_max: usize,
    /// True to open a folder that was caught up and not compared, for that comparison.
    pub opens_not_compared: bool,
}

impl Default for SledOptions {
    /// 64 MiB, and as many writes as take about a quarter of a second.
    fn default() -> Self {
        Self { cache_bytes: 64 * 1024 * 1024, queue_writes_max: 1024, opens_not_compared: false }
    }
}

/// The reason why a data folder cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("the data folder `{}` is in use by another process: stop that daftar first, or use another folder", .0.display())]
    Locked(PathBuf),
    /// A newer daftar has written it.
    #[error(
        "the data folder `{}` has layout {found}, and this daftar knows layouts up to {FORMAT_VERSION}: use the newer daftar that wrote it", .path.display()
    )]
    Newer {
        /// The folder.
        path: PathBuf,
        /// The layout found.
        found: u32,
    },
    /// A daftar from before the first release has written it.
    #[error("the data folder `{}` {BEFORE_FIRST_RELEASE}", .0.display())]
    BeforeFirstRelease(PathBuf),
    /// It contains something else.
    #[error("the folder `{}` contains no daftar register: {reason}", .path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The files cannot be read or written.
    #[error("the data folder `{}` cannot be used: {source}", .path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Its main file is missing, and others exist.
    #[error(
        "the data folder `{}` lacks the file `{DATABASE_FILE}`, which contains the register, but has its other files: put it back, or restore a backup; a new register requires an empty folder", .0.display()
    )]
    Incomplete(PathBuf),
    /// A register is being copied into it.
    #[error("the data folder `{}` contains a part of a register, because copying it was interrupted: {remedy}", .path.display())]
    Unfinished {
        /// The folder.
        path: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// It was caught up, and not compared with its source to the end, or differs from it.
    #[error(
        "the register in the data folder `{}` was caught up, and not compared with its source to the end, or they differ: run `daftar migrate catch-up --to sled` again", .0.display()
    )]
    NotCompared(PathBuf),
    /// It cannot be caught up: no register was copied into it.
    #[error(
        "no register was moved into the data folder `{}`: fill an empty one first, with `daftar migrate fill --to sled` or `daftar restore FILE`", .0.display()
    )]
    NotFilled(PathBuf),
    /// It cannot be caught up: a server wrote to it since it was filled.
    #[error(
        "the data folder `{}` was written to since the register was moved into it: {how}; later writes to the database can no longer be applied. Continue with the folder as it is, or continue with the database and fill an empty folder from it", .path.display()
    )]
    WrittenSince {
        /// The folder.
        path: PathBuf,
        /// Its last write, and the expected one.
        how: String,
    },
    /// An acknowledged write is missing.
    #[error(
        "the data folder `{}` ends at {held}, and {acknowledged} was acknowledged: its files were truncated, damaged or replaced by older ones; put the files back or restore the last backup; if you put older ones back on purpose, remove `{}` and start again", .path.display(), .path.join(MARK_FILE).display()
    )]
    Lost {
        /// The folder.
        path: PathBuf,
        /// The last acknowledged write.
        acknowledged: String,
        /// The last write found.
        held: String,
    },
    /// The database does not accept its files.
    #[error(
        "the data folder `{}` cannot be opened: {reason}; keep a copy of the folder before anything else is tried", .path.display()
    )]
    Database {
        /// The folder.
        path: PathBuf,
        /// The database's error.
        reason: String,
    },
}

/// An open folder. The lock is released after the database is closed: fields are dropped in this order.
pub(super) struct OpenFolder {
    pub(super) database: Database,
    pub(super) mark: Mark,
    pub(super) unfinished: Unfinished,
    /// The id of the register.
    pub(super) register: [u8; 16],
    pub(super) lock: File,
}

/// Opens the folder, creating it first if it is missing.
///
/// # Errors
/// See [`OpenError`].
pub(super) fn open(path: &Path, cache_bytes: u64) -> Result<OpenFolder, OpenError> {
    let io_error = |source| OpenError::Io { path: path.to_owned(), source };
    folders::make_all(path).map_err(io_error)?;
    let lock = lock(path)?;
    let is_new = begin(path)?;
    let database = open_database(path, cache_bytes).map_err(|error| database_error(path, &error))?;
    disk::sync_made(path).map_err(io_error)?;
    check_format(path, &database)?;
    let register = name_register(&database).map_err(|error| database_error(path, &error))?;
    finish_unfinished(path, &database, register)?;
    disk::flush(&database).map_err(|error| database_error(path, &error))?;
    let unfinished = Unfinished::open(path).map_err(io_error)?;
    let mut mark = Mark::open(path).map_err(io_error)?;
    folders::sync(path).map_err(io_error)?;
    if is_new {
        if mark::read(path).is_none() {
            mark.write_durably(Acknowledged::default()).map_err(io_error)?;
        }
        // Synced, or a start after a power cut could take the folder for a new one.
        fs::remove_file(path.join(NEW_FILE)).and_then(|()| folders::sync(path)).map_err(io_error)?;
    }
    Ok(OpenFolder { database, mark, unfinished, register, lock })
}

/// Prepares a folder for opening the database. Returns true if nothing has been acknowledged in it yet.
fn begin(path: &Path) -> Result<bool, OpenError> {
    let io_error = |source| OpenError::Io { path: path.to_owned(), source };
    let new_file = path.join(NEW_FILE);
    if new_file.exists() && mark::read(path).is_none() {
        tracing::info!("the first start in this folder was interrupted; starting again");
        remove_half_made(path).map_err(io_error)?;
        return Ok(true);
    }
    check_complete(path)?;
    if path.join(DATABASE_FILE).exists() {
        disk::prepare(path).map_err(io_error)?;
        return Ok(new_file.exists());
    }
    File::create(new_file).and_then(|_| folders::sync(path)).map_err(io_error)?;
    Ok(true)
}

/// Removes the files of an interrupted first start.
fn remove_half_made(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        match entry.file_name().to_str() {
            Some(LARGE_VALUES_FOLDER) => fs::remove_dir_all(entry.path())?,
            Some(DATABASE_FILE | CONFIGURATION_FILE | MARK_FILE | UNFINISHED_FILE | CLOSED_FILE) => {
                fs::remove_file(entry.path())?;
            }
            Some(name) if name.starts_with(SNAPSHOT_PREFIX) => fs::remove_file(entry.path())?,
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Rejects a folder into which a register was not copied completely, or which was not compared afterwards.
///
/// # Errors
/// [`OpenError::Unfinished`] and [`OpenError::NotCompared`]; [`OpenError::Database`] if the state of the copy cannot be
/// read.
pub(super) fn check_copied(path: &Path, reader: &Reader) -> Result<(), OpenError> {
    let reason = |error: StoreError| OpenError::Database { path: path.to_owned(), reason: error.to_string() };
    match reader.origin().map_err(reason)? {
        None | Some(Origin::Filled(_)) => Ok(()),
        Some(Origin::Filling) => Err(unfinished_fill(path)),
        Some(Origin::CaughtUp(_)) => Err(OpenError::NotCompared(path.to_owned())),
        Some(Origin::CatchingUp(_)) => {
            let remedy = "run `daftar migrate catch-up --to sled` again";
            Err(OpenError::Unfinished { path: path.to_owned(), remedy })
        }
    }
}

/// The error for a folder that was not filled to the end.
pub(super) fn unfinished_fill(path: &Path) -> OpenError {
    OpenError::Unfinished { path: path.to_owned(), remedy: "delete it, and copy the register again" }
}

/// Completes writes that a failure interrupted.
fn finish_unfinished(path: &Path, database: &Database, register: [u8; 16]) -> Result<(), OpenError> {
    let reader = Reader { database: database.clone(), health: Arc::default() };
    let finished = contain(|| unfinished::finish(path, &reader, register));
    let Err(error) = finished.unwrap_or_else(|Panicked| Err(not_understood())) else { return Ok(()) };
    reader.let_go_of_failed();
    let reason = format!("a write interrupted by an earlier failure cannot be completed: {error}");
    Err(OpenError::Database { path: path.to_owned(), reason })
}

/// Rejects a folder that lacks the database's file but has its other files: the database would start empty.
fn check_complete(path: &Path) -> Result<(), OpenError> {
    let has_entries = |name: &str| fs::read_dir(path.join(name)).is_ok_and(|mut entries| entries.next().is_some());
    let is_of_database = |name: &str| {
        matches!(name, CONFIGURATION_FILE | MARK_FILE | UNFINISHED_FILE | CLOSED_FILE)
            || name.starts_with(SNAPSHOT_PREFIX)
            || (name == LARGE_VALUES_FOLDER && has_entries(name))
    };
    if path.join(DATABASE_FILE).exists() {
        return Ok(());
    }
    let io_error = |source| OpenError::Io { path: path.to_owned(), source };
    for entry in fs::read_dir(path).map_err(io_error)? {
        if entry.map_err(io_error)?.file_name().to_str().is_some_and(is_of_database) {
            return Err(OpenError::Incomplete(path.to_owned()));
        }
    }
    Ok(())
}

/// Rejects a folder that lacks an acknowledged write.
///
/// # Errors
/// [`OpenError::Lost`].
pub(super) fn check_acknowledged(path: &Path, held: &Acknowledged) -> Result<(), OpenError> {
    match mark::read(path) {
        Some(noted) if !noted.is_held_by(held) => {
            Err(OpenError::Lost { path: path.to_owned(), acknowledged: noted.to_string(), held: held.to_string() })
        }
        Some(_) | None => Ok(()),
    }
}

/// Opens a folder with an existing store for verification: creates nothing.
///
/// # Errors
/// See [`OpenError`]; also if there is no store.
pub(super) fn open_existing(path: &Path, cache_bytes: u64) -> Result<(Database, File), OpenError> {
    if path.is_dir() && path.join(NEW_FILE).exists() && mark::read(path).is_none() {
        let reason = "its first start was interrupted; start a server to repeat it".to_owned();
        return Err(OpenError::Foreign { path: path.to_owned(), reason });
    }
    if path.is_dir() {
        check_complete(path)?;
    }
    if !path.join(DATABASE_FILE).is_file() {
        let reason = format!("there is no file `{DATABASE_FILE}` in it");
        return Err(OpenError::Foreign { path: path.to_owned(), reason });
    }
    let lock = lock(path)?;
    disk::prepare(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    let database = open_database(path, cache_bytes).map_err(|error| database_error(path, &error))?;
    if layout(path, &database)?.is_none() {
        return Err(unknown_layout(path));
    }
    // As at a start, so that the check sees the same data.
    if let Ok(Some(stored)) = database.get(keys::REGISTER)
        && let Ok(register) = record::register::decode(&stored)
    {
        finish_unfinished(path, &database, register)?;
    }
    // Values that cannot be read are findings of the check; a folder that was not compared may be checked.
    match check_copied(path, &Reader { database: database.clone(), health: Arc::default() }) {
        Err(unfinished @ OpenError::Unfinished { .. }) => Err(unfinished),
        Ok(()) | Err(_) => Ok((database, lock)),
    }
}

fn open_database(path: &Path, cache_bytes: u64) -> ::sled::Result<Database> {
    let config = ::sled::Config::new()
        .path(path)
        .cache_capacity(cache_bytes)
        .segment_size(SEGMENT_BYTES)
        // The writer flushes; the database's own thread would only log a failure and stop.
        .flush_every_ms(None);
    // It may panic on corrupt files.
    contain(|| Database::open(&config)).unwrap_or_else(|Panicked| Err(damaged()))
}

fn damaged() -> ::sled::Error {
    ::sled::Error::ReportableBug("its files are corrupt".to_owned())
}

fn database_error(path: &Path, error: &::sled::Error) -> OpenError {
    OpenError::Database { path: path.to_owned(), reason: reason_of(error) }
}

/// Returns the database's error without its request for a bug report.
fn reason_of(error: &::sled::Error) -> String {
    match error {
        ::sled::Error::ReportableBug(reason) => reason.clone(),
        error => error.to_string(),
    }
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let io_error = |source| OpenError::Io { path: path.to_owned(), source };
    let file = File::options().create(true).truncate(false).write(true).open(path.join(LOCK_FILE)).map_err(io_error)?;
    let mut attempts = 0;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if attempts < LOCK_ATTEMPTS => {
                attempts += 1;
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(OpenError::Locked(path.to_owned())),
            Err(error) => return Err(io_error(error.into())),
        }
    }
}

/// Returns the register's id, assigning one if it has none.
fn name_register(database: &Database) -> ::sled::Result<[u8; 16]> {
    let not_stored = |error: StoreError| ::sled::Error::Unsupported(error.to_string());
    if let Some(stored) = database.get(keys::REGISTER)? {
        return record::register::decode(&stored).map_err(not_stored);
    }
    let id = RegisterId::draw().0;
    database.insert(keys::REGISTER.to_vec(), record::register::encode(id).map_err(not_stored)?)?;
    Ok(id)
}

fn unknown_layout(path: &Path) -> OpenError {
    OpenError::Foreign { path: path.to_owned(), reason: "its database has no layout marker".to_owned() }
}

/// Returns the layout of a folder; `None` if it has no valid marker.
fn layout(path: &Path, database: &Database) -> Result<Option<u32>, OpenError> {
    let stored = database.get(keys::FORMAT).map_err(|error| database_error(path, &error))?;
    let Some(stored) = stored else { return Ok(None) };
    if stored.len() == size_of::<u32>() {
        return Err(OpenError::BeforeFirstRelease(path.to_owned()));
    }
    let number = stored.strip_prefix(LAYOUT_MARK).and_then(|number| number.try_into().ok());
    let found = number.map_or(0, u32::from_be_bytes);
    match found {
        0 => Err(unknown_layout(path)),
        1..=FORMAT_VERSION => Ok(Some(found)),
        _ => Err(OpenError::Newer { path: path.to_owned(), found }),
    }
}

/// Returns the marker of a layout.
pub(super) fn layout_mark(layout: u32) -> Vec<u8> {
    [LAYOUT_MARK, &layout.to_be_bytes()].concat()
}

fn check_format(path: &Path, database: &Database) -> Result<(), OpenError> {
    if layout(path, database)?.is_some() {
        return Ok(());
    }
    if !database.tree().is_empty() {
        return Err(unknown_layout(path));
    }
    // If a write was acknowledged, an empty database is not a new one.
    check_acknowledged(path, &Acknowledged::default())?;
    database
        .insert(keys::FORMAT.to_vec(), layout_mark(FORMAT_VERSION))
        .map_err(|error| database_error(path, &error))?;
    Ok(())
}

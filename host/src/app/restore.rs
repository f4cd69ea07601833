//! Restores a backup: into an empty data folder that no server uses, or into an empty database, with its keys and
//! plugins in the folder.
//!
//! **Invariant:** from before the first item is written until everything is on disk, a marker states that the folder
//! contains an unfinished restore. No server opens such a folder, so a partial register is never used. A database
//! receives the complete register in one transaction.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use secrecy::SecretString;
use tokio::sync::mpsc;

use super::backend::postgres_options;
use super::open::{MIB, trust as trust_in_plugins};
use super::verify::verify_stopped;
use super::{PLUGINS_FOLDER, StartError};
use crate::app::disk_space::{bytes_in, free};
use daftar_auth::key_folder;
use daftar_auth::keys::KEY_FOLDER;
use daftar_auth::secret_file::SecretFileError;
use daftar_domain::config::{Config, StoreBackend};
use daftar_domain::error::causes;
use daftar_domain::folders;
use daftar_domain::verification::VerificationResult;
pub use daftar_sandbox::RefusedPlugin;
use daftar_sandbox::{Digest, LibraryRefill, PinnedDigests, TrustPolicy};
use daftar_service::backup::{
    Authenticity, BackupProblem, BackupTrust, Chain, Contents, Head, Item, ReadAhead, extent_of, mark_of,
};
use daftar_store::StoreError;
use daftar_store::archive::Refill;
use daftar_store_postgres::PostgresRefill;
use daftar_store_sled::{OpenError, SledRefill};

/// The marker file, which states that the folder contains an unfinished restore.
const MARKER: &str = "restore.unfinished";
/// Its text for an operator.
const MARKER_TEXT: &str =
    "A backup was being restored into this folder, and that was not finished. What is here is not a whole register.\n";

/// Maximum number of queued events of the final verification.
const EVENTS_WAITING: usize = 64;

/// Reason why a backup was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The database cannot be opened, or contains a register.
    #[error("{0}")]
    Database(#[from] StartError),
    /// The backup is not trusted.
    #[error("{0}")]
    Backup(#[from] BackupProblem),
    /// The folder is not empty.
    #[error(
        "a backup is restored into an empty folder, and `{folder}` holds {}: name a new folder with --data-dir, or move away what is there", listed(.found)
    )]
    Occupied {
        /// The folder.
        folder: PathBuf,
        /// Its content.
        found: Vec<String>,
    },
    /// The folder contains an unfinished restore.
    #[error(
        "`{}` holds a restore that was not finished: delete the folder, then restore again", .0.display()
    )]
    Unfinished(PathBuf),
    /// Both the folder that servers share and the backup contain keys.
    #[error(
        "the backup holds keys, and `{}` in the folder of `[store.postgres] shared_dir` has some already: move them away (a restore that was killed may have left them), then restore again", .0.display()
    )]
    KeysThere(PathBuf),
    /// The keys cannot be written into the folder that servers share.
    #[error("the keys cannot be put into the folder of `[store.postgres] shared_dir`, and nothing was restored: {0}")]
    KeysNotPut(SecretFileError),
    /// A database did not confirm that it contains the register.
    #[error(
        "{error}{}. It may hold the register already: empty the database and delete `{}`, then restore again", cause_of(.error), .folder.display()
    )]
    Unconfirmed {
        /// The data folder.
        folder: PathBuf,
        /// Message of the database.
        error: StoreError,
    },
    /// Everything was restored, and the marker cannot be deleted.
    #[error(
        "the register was restored whole, and `{path}` cannot be removed: {source}. Remove that file: no server starts while it is there"
    )]
    StillMarked {
        /// The marker.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The folder cannot be written.
    #[error("cannot write to `{path}`: {source}")]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The disk has no free space.
    #[error(
        "the disk of `{}` is full: {} MB were put back, which is {part}, and {needed} are needed: delete the folder, then restore to a disk with so much room", .folder.display(), megabytes(*.put_back)
    )]
    NoRoom {
        /// The folder on that disk.
        folder: PathBuf,
        /// Number of bytes that were written.
        put_back: u64,
        /// The affected part of the register.
        part: String,
        /// Required space.
        needed: String,
    },
    /// The keys cannot be restored.
    #[error(transparent)]
    Keys(#[from] SecretFileError),
    /// The keys in the folder are corrupt.
    #[error("{0}")]
    KeysBeside(String),
    /// The store cannot be created.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// The restored register cannot be verified.
    #[error("the restored register cannot be verified: {0}")]
    Verification(String),
    /// The store rejects the contents of the backup.
    #[error("{error}{}", cause_of(.error))]
    Store {
        /// The reason.
        #[from]
        error: StoreError,
    },
}

fn listed(names: &[String]) -> String {
    const LISTED: usize = 5;
    let mut text: Vec<String> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    if names.len() > LISTED {
        text.push(format!("{} more", names.len().saturating_sub(LISTED)));
    }
    text.join(", ")
}

/// Returns the cause of an error of the store, to append to its message.
pub(super) fn cause_of(error: &StoreError) -> String {
    std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default()
}

/// Trust policy of backups and of the plugins in them.
#[derive(Debug, Clone, Default)]
pub struct RestoreTrust {
    /// Trusted signers of backups.
    pub backups: BackupTrust,
    /// Plugins of this program's build.
    pub pinned: PinnedDigests,
}

/// The restored content.
#[derive(Debug, Clone)]
pub struct Restored {
    /// Signer of the backup.
    pub authenticity: Authenticity,
    /// The plugins that the configuration does not accept: they are restored and are not loaded.
    pub refused_plugins: Vec<RefusedPlugin>,
    /// Content of the backup.
    pub contents: Contents,
    /// True if the folder contains keys now.
    pub has_keys: bool,
    /// Findings of the verification of the restored register, which existed when the backup was created.
    pub findings: VerificationResult,
}

/// Restores a backup into a data folder, which is created if it does not exist. If the configuration names a database,
/// records and their related data are written to the database, and the plugins to the folder. A backup without keys may
/// be restored beside the folder `keys` of the old register, which the operator copies there before. The signature is
/// verified before anything is written, and the plugins according to `[plugins]` of the configuration. `heard` receives
/// the number of items that were read. At the end the complete register is verified.
///
/// # Errors
/// See [`RestoreError`]. Written data remains in the data folder, with the marker; keys are deleted again.
pub async fn restore(
    file: File,
    data_dir: &Path,
    config: &Config,
    trust: RestoreTrust,
    heard: impl FnMut(&Head, u64) + Send + 'static,
) -> Result<Restored, RestoreError> {
    let mut peeked = file.try_clone().map_err(BackupProblem::from)?;
    let head = daftar_service::backup::head_of(&mut peeked)?;
    io::Seek::rewind(&mut peeked).map_err(BackupProblem::from)?;
    let found = found_in(data_dir)?;
    let may_stay = |name: &String| !head.keys && name == KEY_FOLDER;
    if found.iter().any(|name| name == MARKER) {
        return Err(RestoreError::Unfinished(data_dir.to_owned()));
    }
    if !found.iter().all(may_stay) {
        return Err(RestoreError::Occupied { folder: data_dir.to_owned(), found });
    }
    let keys_home = config.store.keys_home(data_dir);
    let has_keys_before = found_in(&keys_home)?.iter().any(|name| name == KEY_FOLDER);
    if has_keys_before && head.keys {
        return Err(RestoreError::KeysThere(keys_home.join(KEY_FOLDER)));
    }
    if has_keys_before {
        key_folder::check_all(&keys_home).map_err(RestoreError::KeysBeside)?;
    }
    let has_keys = head.keys || has_keys_before;
    let RestoreTrust { backups, pinned } = trust;
    let judged = tokio::task::spawn_blocking(move || backups.judge_file(&mut peeked).map(|judged| (judged, peeked)));
    let judged = judged.await.unwrap_or_else(|error| Err(BackupProblem::Io(error.into())));
    let ((authenticity, verified), mut peeked) = judged?;
    // Problems of the backup are reported when it is read.
    let unpacked = extent_of(&mut peeked).map(|extent| extent.unpacked).unwrap_or_default();
    io::Seek::rewind(&mut peeked).map_err(BackupProblem::from)?;
    let mut put_back = PutBack { unpacked, put: 0 };
    let is_authentic = matches!(authenticity, Authenticity::Signed(_));
    let source = Source { file, verified, plugins: (trust_in_plugins(&config.plugins, pinned), is_authentic) };
    let put = put_all(source, data_dir, config, heard, &mut put_back).await;
    let put = put.map_err(|error| or_no_space(error, &put_back, data_dir, &config.store.folder(data_dir)));
    let (contents, refused_plugins) = put?;
    let findings = verify_restored(config, data_dir).await?;
    Ok(Restored { authenticity, refused_plugins, contents, has_keys, findings })
}

/// A backup with a verified signature.
struct Source {
    file: File,
    /// The checksum of the verified contents, if a signature was verified.
    verified: Option<Chain>,
    /// Trust policy of plugins, and true if the backup's statements about them are authentic.
    plugins: (TrustPolicy, bool),
}

/// Restores everything, from the creation of the marker to its deletion.
async fn put_all(
    Source { file, verified, plugins: (trust, is_authentic) }: Source,
    data_dir: &Path,
    config: &Config,
    heard: impl FnMut(&Head, u64) + Send + 'static,
    so_far: &mut PutBack,
) -> Result<(Contents, Vec<RefusedPlugin>), RestoreError> {
    let database = match config.store.backend {
        StoreBackend::Sled => None,
        StoreBackend::Postgres => Some(open_database(config).await?),
    };
    mark(data_dir)?;
    let mut refill: Box<dyn Refill> = match database {
        Some(refill) => Box::new(refill),
        None => Box::new(SledRefill::open(&config.store.folder(data_dir), config.store.cache_mib.saturating_mul(MIB))?),
    };
    let (mut keys, folder) = (Vec::new(), data_dir.join(PLUGINS_FOLDER));
    let mut plugins = LibraryRefill::new(&folder).map_err(not_written(&folder))?;
    let reading = ReadAhead::start(io::BufReader::new(file), heard)?;
    let mut put_back: Result<(), RestoreError> = Ok(());
    while put_back.is_ok() {
        let Some((items, unpacked)) = reading.next() else { break };
        put_back = put(items, &mut *refill, &mut plugins, &mut keys, &folder).await;
        if put_back.is_ok() {
            so_far.put = unpacked;
        }
    }
    // The error of the backup is more specific than the fact that its items were not read.
    let contents = match (reading.finish(), put_back) {
        (_, Err(error)) => return Err(error),
        (contents, Ok(())) => contents?,
    };
    // Before the register becomes active: the file may have been replaced since its verification.
    if verified.is_some_and(|verified| verified != contents.checksum) {
        return Err(BackupProblem::Replaced.into());
    }
    let refused = plugins.finish(&trust, is_authentic).map_err(not_written(&folder))?;
    refill.put(Vec::new()).await?;
    refill.note_origin(&mark_of(&contents.head)?);
    // A database is committed last: until then only keys have to be rolled back.
    finish(refill, &keys, config, data_dir).await?;
    unmark(data_dir)?;
    Ok((contents, refused))
}

/// A key file: its name and its text.
type Key = (String, SecretString);

/// Writes the keys, then activates the register. If the activation fails, the keys are deleted again: a folder that
/// servers share remains unchanged.
async fn finish(refill: Box<dyn Refill>, keys: &[Key], config: &Config, data_dir: &Path) -> Result<(), RestoreError> {
    let home = config.store.keys_home(data_dir);
    let is_database = config.store.backend == StoreBackend::Postgres;
    let not_put = if home == data_dir { RestoreError::Keys } else { RestoreError::KeysNotPut };
    let mut new = Vec::with_capacity(keys.len());
    let put = keys.iter().try_for_each(|(name, text)| {
        if key_folder::put(&home, name, text).map_err(not_put)? {
            new.push(name);
            return Ok(());
        }
        // A server created its keys in the meantime.
        Err(RestoreError::KeysThere(home.join(KEY_FOLDER)))
    });
    let finished = match put {
        Ok(()) => refill.finish().await.map(drop).map_err(|error| match error {
            StoreError::Failed(_) if is_database => RestoreError::Unconfirmed { folder: data_dir.to_owned(), error },
            error => error.into(),
        }),
        Err(error) => Err(error),
    };
    if finished.is_err() {
        // The first error is reported; the next restore of a backup reports keys that remain.
        let folder = home.join(KEY_FOLDER);
        new.iter().for_each(|name| drop(fs::remove_file(folder.join(name))));
        // Fails if the folder contains keys of a server.
        let _is_removed = fs::remove_dir(&folder);
    }
    finished
}

/// Opens the configured database, which must not contain a register.
async fn open_database(config: &Config) -> Result<PostgresRefill, StartError> {
    config.store.postgres.check_shared_dir().map_err(StartError::Input)?;
    Ok(PostgresRefill::open(postgres_options(config)?).await?)
}

/// Verifies the restored register.
async fn verify_restored(config: &Config, data_dir: &Path) -> Result<VerificationResult, RestoreError> {
    let (events, mut reported) = mpsc::channel(EVENTS_WAITING);
    let count = async {
        let mut result = VerificationResult::default();
        while let Some(event) = reported.recv().await {
            result.count(&event);
        }
        result
    };
    let (looked, result) = tokio::join!(verify_stopped(config, data_dir, events), count);
    looked.map_err(|error| RestoreError::Verification(error.to_string()))?;
    Ok(result)
}

async fn put(
    items: Vec<Item>,
    refill: &mut dyn Refill,
    plugins: &mut LibraryRefill,
    keys: &mut Vec<Key>,
    folder: &Path,
) -> Result<(), RestoreError> {
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::ItemKind(entry) => entries.push(entry),
            Item::Key { name, text } => keys.push((name, text)),
            Item::PluginList { bytes } => plugins.put_list(bytes),
            Item::PluginPart { digest, bytes, .. } => {
                plugins.put(Digest::from_bytes(digest), &bytes).map_err(not_written(folder))?;
            }
        }
    }
    Ok(refill.put(entries).await?)
}

/// The folder that the root of a volume has.
const OF_VOLUMES: &str = "lost+found";

/// Returns the content of the folder; empty if it does not exist or is an empty volume.
fn found_in(data_dir: &Path) -> Result<Vec<String>, RestoreError> {
    let entries = match fs::read_dir(data_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(not_written(data_dir))?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<_>>>().map_err(not_written(data_dir))?;
    names.retain(|name| name != OF_VOLUMES);
    names.sort_unstable();
    Ok(names)
}

/// Creates the error for a folder or file that cannot be used.
fn not_written(path: &Path) -> impl FnOnce(io::Error) -> RestoreError {
    move |source| RestoreError::Folder { path: path.to_owned(), source }
}

/// Creates the folder with the marker of an unfinished restore.
fn mark(data_dir: &Path) -> Result<(), RestoreError> {
    let write = || {
        folders::make_all(data_dir)?;
        let mut options = fs::OpenOptions::new();
        // A second process finds the marker and does nothing.
        let mut marker = options.create_new(true).write(true).mode(0o600).open(data_dir.join(MARKER))?;
        marker.write_all(MARKER_TEXT.as_bytes())?;
        marker.sync_all()?;
        folders::sync(data_dir)
    };
    write().map_err(not_written(data_dir))
}

/// Deletes the marker: everything else is on disk.
fn unmark(data_dir: &Path) -> Result<(), RestoreError> {
    let path = data_dir.join(MARKER);
    fs::remove_file(&path).map_err(|source| RestoreError::StillMarked { path, source })?;
    folders::sync(data_dir).map_err(not_written(data_dir))
}

/// Returns true if a restore into that folder is unfinished.
#[must_use]
pub fn is_unfinished(data_dir: &Path) -> bool {
    data_dir.join(MARKER).exists()
}

/// Rejects a folder with an unfinished restore.
///
/// # Errors
/// A message with the remedy.
pub(super) fn refuse_unfinished(data_dir: &Path) -> Result<(), StartError> {
    if !is_unfinished(data_dir) {
        return Ok(());
    }
    Err(StartError::Store(format!(
        "`{}` holds a restore that was not finished, and half a register is not served: delete the folder, then restore again with `daftar restore`",
        data_dir.display()
    )))
}

/// Messages of the system for a full disk and an exhausted quota: ENOSPC and EDQUOT. A database reports them as text
/// only.
const FULL: [&str; 2] = ["os error 28)", "os error 122)"];
/// Free space below which a disk counts as full: the database allocates half of it at a time.
const FREE_MIN: u64 = 1 << 20;

/// Progress of a restore, in unpacked bytes of the backup.
#[derive(Debug, Clone, Copy)]
struct PutBack {
    /// Total; 0 if unknown.
    pub unpacked: u64,
    /// Restored part.
    pub put: u64,
}

/// Returns the error, or "no space" if that is its cause. `folders` may be on separate disks.
fn or_no_space(error: RestoreError, put_back: &PutBack, data_dir: &Path, store: &Path) -> RestoreError {
    if let RestoreError::Backup(_)
    | RestoreError::KeysThere(_)
    | RestoreError::KeysNotPut(_)
    | RestoreError::Unconfirmed { .. }
    | RestoreError::StillMarked { .. } = error
    {
        return error;
    }
    let reported: String = causes(&error).map(ToString::to_string).collect();
    let is_reported = FULL.iter().any(|full| reported.contains(full));
    let full = [store, data_dir].into_iter().find(|folder| free(folder).is_some_and(|free| free < FREE_MIN));
    let Some(folder) = full.or(is_reported.then_some(store)) else { return error };
    let written = bytes_in(data_dir).saturating_add(if store.starts_with(data_dir) { 0 } else { bytes_in(store) });
    let (part, needed) = shortage(put_back, written);
    RestoreError::NoRoom { folder: folder.to_owned(), put_back: written, part, needed }
}

/// Returns the restored part and the required space, in words.
fn shortage(put_back: &PutBack, written: u64) -> (String, String) {
    let PutBack { unpacked, put } = *put_back;
    let (all, done) = (u128::from(unpacked), u128::from(put));
    let percent = done.saturating_mul(100).checked_div(all).unwrap_or_default();
    // The last item may not have been written.
    let at_this_rate = u128::from(written).saturating_mul(all).checked_div(done).unwrap_or_default();
    let needed = u64::try_from(at_this_rate).unwrap_or(u64::MAX).max(unpacked).max(written);
    let at_least = if put == 0 { "more than" } else { "about" };
    (format!("{percent} % of the register"), format!("{at_least} {} MB", megabytes(needed)))
}

/// Returns bytes in millions, rounded up.
fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn how_much_is_needed_is_worked_out_of_how_far_it_came() {
        let million = 1_000_000;
        let at = |put: u64| PutBack { unpacked: 10 * million, put: put * million };
        assert_eq!(shortage(&at(5), 7 * million), ("50 % of the register".to_owned(), "about 14 MB".to_owned()));
        assert_eq!(shortage(&at(5), 2 * million).1, "about 10 MB", "what was put last may not have been written");
        assert_eq!(shortage(&at(10), 15 * million + 1).1, "about 16 MB");
        assert_eq!(shortage(&at(0), 12 * million), ("0 % of the register".to_owned(), "more than 12 MB".to_owned()));
        assert_eq!(shortage(&PutBack { unpacked: 0, put: 0 }, 3 * million).1, "more than 3 MB");
    }

    /// Accepts everything, and fails at the end.
    struct Failing;

    #[async_trait::async_trait]
    impl Refill for Failing {
        fn note_origin(&mut self, _: &daftar_store::archive::Mark) {}

        async fn put(&mut self, _: Vec<daftar_store::archive::Entry>) -> Result<(), StoreError> {
            Ok(())
        }

        async fn finish(self: Box<Self>) -> Result<daftar_store::archive::ApplyReport, StoreError> {
            Err(StoreError::Failed("the connection was lost".into()))
        }
    }

    #[tokio::test]
    async fn a_database_that_does_not_confirm_leaves_no_keys_in_the_common_folder() {
        let (data, common) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut config = Config::default();
        config.store.backend = StoreBackend::Postgres;
        config.store.postgres.shared_dir = Some(common.path().to_owned());
        let keys = [("token.json".to_owned(), SecretString::from("{}"))];
        let error = finish(Box::new(Failing), &keys, &config, data.path()).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("the connection was lost. It may hold the register already: empty the database"),
            "{text}"
        );
        assert!(!common.path().join(KEY_FOLDER).exists());
        let folder = data.path();
        let stored = or_no_space(error, &PutBack { unpacked: 4, put: 4 }, folder, folder);
        assert!(matches!(stored, RestoreError::Unconfirmed { .. }), "{stored}");
        let marked = unmark(folder).unwrap_err().to_string();
        assert!(marked.starts_with("the register was restored whole, and `"), "{marked}");
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let put_back = PutBack { unpacked: 4, put: 2 };
        let of = |source| RestoreError::Folder { path: path.to_owned(), source };
        let store = path.join("store");
        let denied = or_no_space(of(io::ErrorKind::PermissionDenied.into()), &put_back, path, &store);
        assert!(matches!(denied, RestoreError::Folder { .. }), "{denied}");
        let full = or_no_space(of(io::Error::from_raw_os_error(28)), &put_back, path, &store);
        assert!(matches!(&full, RestoreError::NoRoom { folder, .. } if *folder == store), "{full}");
        let quota = or_no_space(of(io::Error::from_raw_os_error(122)), &put_back, path, &store);
        assert!(quota.to_string().contains("and about 1 MB are needed: delete the folder"), "{quota}");
    }
}

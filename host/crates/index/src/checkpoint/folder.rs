//! The checkpoint folder: files are written atomically, the newest ones are retained, corrupt ones quarantined.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::read::{Loading, head};
use super::{Head, Mark, layout_digest, write};
use crate::Columns;
use crate::image::Image;
use crate::stored::Corrupt;
use daftar_domain::change::Sequence;
use daftar_domain::folders;

/// The number of retained checkpoints: the newest, and the one before it in case the newest is corrupt.
const RETAINED_MAX: usize = 2;
const SUFFIX: &str = ".checkpoint";
/// The suffix of a quarantined checkpoint. Only the last of these is retained, for analysis.
const QUARANTINE_SUFFIX: &str = ".corrupt";
const TEMPORARY: &str = ".writing";
/// The bytes written between two syncs: the store's own writes share the disk, and would wait for the whole checkpoint
/// otherwise.
const SYNC_BYTES: usize = 16 << 20;

/// The folder with the checkpoints of one register.
#[derive(Debug, Clone)]
pub struct CheckpointFolder {
    path: PathBuf,
}

/// A checkpoint with a readable header.
#[derive(Debug)]
pub struct CheckpointFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The last transaction that it contains.
    pub sequence: Sequence,
    /// The timeline marker up to that transaction.
    pub mark: Mark,
    file: File,
}

impl CheckpointFolder {
    /// Opens the folder; creates it with owner-only permissions if it is missing. Removes temporary files of a crash.
    ///
    /// # Errors
    /// If it cannot be created or read.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        folders::make_all(&path)?;
        let folder = Self { path };
        for half in folder.named(TEMPORARY)? {
            fs::remove_file(half)?;
        }
        Ok(folder)
    }

    /// Returns the folder for read-only use; `None` if it does not exist.
    #[must_use]
    pub fn existing(path: PathBuf) -> Option<Self> {
        path.is_dir().then_some(Self { path })
    }

    /// Lists the checkpoints, newest first: each with its header, or with its path and the reason why it cannot be
    /// used.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn newest_first(&self) -> io::Result<Vec<Result<CheckpointFile, (PathBuf, Corrupt)>>> {
        let mut files = self.named(SUFFIX)?;
        files.reverse();
        Ok(files.into_iter().map(|path| CheckpointFile::open(&path).map_err(|error| (path, error))).collect())
    }

    /// Writes a checkpoint, which becomes visible when all of it is on disk, and removes older ones. Returns its size
    /// in bytes.
    ///
    /// # Errors
    /// If it cannot be written; the existing checkpoints are then unchanged.
    pub fn write(&self, image: &Image, mark: Mark) -> io::Result<u64> {
        let name = format!("{:020}{SUFFIX}", image.sequence().0);
        let temporary = self.path.join(format!("{name}{TEMPORARY}"));
        let written = self.write_whole(image, mark, &temporary).and_then(|bytes| {
            fs::rename(&temporary, self.path.join(&name))?;
            folders::sync(&self.path)?;
            Ok(bytes)
        });
        if written.is_err() {
            // A partial file would occupy the disk space that may be missing.
            let _removed = fs::remove_file(&temporary);
        }
        let bytes = written?;
        self.remove_old(&name)?;
        Ok(bytes)
    }

    fn write_whole(&self, image: &Image, mark: Mark, path: &Path) -> io::Result<u64> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let head = Head { layout: layout_digest(), sequence: image.sequence(), mark };
        let mut out = BufWriter::with_capacity(1 << 18, Syncing { file, unsynced: 0 });
        let bytes = write::write(image, &head, &mut out)?;
        let Syncing { file, .. } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(bytes)
    }

    /// Removes old checkpoints, and those of a later write than the one that was just written: a database that lost its
    /// last writes does not have that write.
    fn remove_old(&self, written: &str) -> io::Result<()> {
        let is_later = |path: &PathBuf| path.file_name().is_some_and(|name| name > written);
        let (later, files): (Vec<_>, Vec<_>) = self.named(SUFFIX)?.into_iter().partition(is_later);
        let old = files.len().saturating_sub(RETAINED_MAX);
        later.into_iter().chain(files.into_iter().take(old)).try_for_each(fs::remove_file)
    }

    /// Quarantines a checkpoint, so that later starts ignore it.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn quarantine(&self, path: &Path) -> io::Result<()> {
        for before in self.named(QUARANTINE_SUFFIX)? {
            fs::remove_file(before)?;
        }
        let mut aside = path.to_owned().into_os_string();
        aside.push(QUARANTINE_SUFFIX);
        fs::rename(path, aside)
    }

    /// Lists the files with this name suffix, sorted by name.
    fn named(&self, end: &str) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(end)) {
                files.push(path);
            }
        }
        files.sort_unstable();
        Ok(files)
    }
}

impl CheckpointFile {
    /// Reads the header of a checkpoint.
    ///
    /// # Errors
    /// If it has another layout or is not a checkpoint.
    pub fn open(path: &Path) -> Result<Self, Corrupt> {
        let file = File::open(path).map_err(|_| Corrupt("its file cannot be opened"))?;
        let Head { sequence, mark, layout: _ } = head(&file)?;
        Ok(Self { path: path.to_owned(), sequence, mark, file })
    }

    /// Loads the register as of the transaction [`CheckpointFile::sequence`], without the programs, which must be read
    /// from the store.
    ///
    /// # Errors
    /// If the checkpoint is corrupt.
    pub fn load(&self) -> Result<Columns, Corrupt> {
        let mut loading = Loading::begin(&self.file)?;
        Image::load(&mut loading, self.sequence).map(Columns::from_image)
    }
}

/// A writer that syncs to disk periodically.
struct Syncing {
    file: File,
    unsynced: usize,
}

impl Write for Syncing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written;
        if self.unsynced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

//! The folder of the checkpoints: written whole or not at all, the newest ones kept, unsound ones set aside.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::read::{Loading, head};
use super::{Head, Mark, layout, write};
use crate::Columns;
use crate::fingerprint::Image;
use crate::stored::Unsound;
use daftar_domain::change::Sequence;

/// How many checkpoints are kept: the newest, and the one before it, should the newest be unsound.
const KEPT: usize = 2;
const SUFFIX: &str = ".checkpoint";
/// What is added to the name of one that is set aside. Only the last of these is kept, for whoever asks what happened.
const QUARANTINE_SUFFIX: &str = ".corrupt";
const TEMPORARY: &str = ".writing";
/// How much is written before the disk is waited for: the store's own writes share it, and would wait for all of it at once.
const SYNC_BYTES: usize = 16 << 20;

/// A folder with the checkpoints of one register.
#[derive(Debug, Clone)]
pub struct CheckpointFolder {
    path: PathBuf,
}

/// A checkpoint whose head could be read.
#[derive(Debug)]
pub struct CheckpointFile {
    /// Where it lies.
    pub path: PathBuf,
    /// The last write that it shows.
    pub sequence: Sequence,
    /// What stands for the history up to that write.
    pub mark: Mark,
    file: File,
}

impl CheckpointFolder {
    /// Opens the folder; makes it, for its owner only, where there is none. What a crash left half written is removed.
    ///
    /// # Errors
    /// When it cannot be made or read.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        if !path.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        }
        let folder = Self { path };
        for half in folder.named(TEMPORARY)? {
            fs::remove_file(half)?;
        }
        Ok(folder)
    }

    /// The folder, to be looked at and for nothing else; nothing where there is none.
    #[must_use]
    pub fn existing(path: PathBuf) -> Option<Self> {
        path.is_dir().then_some(Self { path })
    }

    /// The checkpoints, the newest first: each with what its head says, or with its file and why it cannot be used.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn newest_first(&self) -> io::Result<Vec<Result<CheckpointFile, (PathBuf, Unsound)>>> {
        let mut files = self.named(SUFFIX)?;
        files.reverse();
        Ok(files.into_iter().map(|path| CheckpointFile::open(&path).map_err(|error| (path, error))).collect())
    }

    /// Writes a checkpoint; it is there once all of it is on disk. Older ones are removed. Says how many bytes it has.
    ///
    /// # Errors
    /// When it cannot be written; what was there before is as it was.
    pub fn write(&self, image: &Image, mark: Mark) -> io::Result<u64> {
        let name = format!("{:020}{SUFFIX}", image.sequence().0);
        let temporary = self.path.join(format!("{name}{TEMPORARY}"));
        let written = self.write_whole(image, mark, &temporary).and_then(|bytes| {
            fs::rename(&temporary, self.path.join(&name))?;
            File::open(&self.path)?.sync_all()?;
            Ok(bytes)
        });
        if written.is_err() {
            // A half-written one takes the room that may be missing.
            let _removed = fs::remove_file(&temporary);
        }
        let bytes = written?;
        self.remove_old()?;
        Ok(bytes)
    }

    fn write_whole(&self, image: &Image, mark: Mark, path: &Path) -> io::Result<u64> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let head = Head { layout: layout::layout(), sequence: image.sequence(), mark };
        let mut out = BufWriter::with_capacity(1 << 18, Syncing { file, unsynced: 0 });
        let bytes = write::write(image, &head, &mut out)?;
        let Syncing { file, .. } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(bytes)
    }

    fn remove_old(&self) -> io::Result<()> {
        let files = self.named(SUFFIX)?;
        let old = files.len().saturating_sub(KEPT);
        files.into_iter().take(old).try_for_each(fs::remove_file)
    }

    /// Sets a checkpoint aside, so that no later start meets it.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn quarantine(&self, path: &Path) -> io::Result<()> {
        for before in self.named(QUARANTINE_SUFFIX)? {
            fs::remove_file(before)?;
        }
        let mut aside = path.to_owned().into_os_string();
        aside.push(QUARANTINE_SUFFIX);
        fs::rename(path, aside)
    }

    /// The files whose names end so, sorted by name.
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
    /// Reads the head of a checkpoint.
    ///
    /// # Errors
    /// When it is of another layout or no checkpoint at all.
    pub fn open(path: &Path) -> Result<Self, Unsound> {
        let file = File::open(path).map_err(|_| Unsound("its file cannot be opened"))?;
        let Head { sequence, mark, layout: _ } = head(&file)?;
        Ok(Self { path: path.to_owned(), sequence, mark, file })
    }

    /// Reads all of it: the register as it was after the write of [`CheckpointFile::sequence`], but for the programs, which are to be
    /// read from the store.
    ///
    /// # Errors
    /// When it is not sound.
    pub fn load(&self) -> Result<Columns, Unsound> {
        let mut loading = Loading::begin(&self.file)?;
        Image::load(&mut loading, self.sequence).map(Columns::from_image)
    }
}

/// Waits for the disk from time to time.
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

//! The output file of an export, under a temporary name until it is complete.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::app::packs::folder_of;
use crate::cli::{CliError, files};
use daftar_domain::folders;

/// Format version of the progress file.
const VERSION: u32 = 1;
/// Interval at which the progress of an export is saved.
const SAVED_EVERY: Duration = Duration::from_secs(1);

/// Progress of an export.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    version: u32,
    requested: String,
    /// Position to resume from, if any.
    pub cursor: Option<String>,
    bytes: u64,
    /// Number of records.
    pub records: u64,
}

/// The output file with its progress.
pub struct OutputFile {
    path: PathBuf,
    partial: PathBuf,
    progress_path: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
    /// Progress of the complete part of the export.
    pub progress: Progress,
    saved: Option<Instant>,
}

impl OutputFile {
    /// Creates a file, or resumes one.
    ///
    /// # Errors
    /// If the file exists, cannot be written, or belongs to another export.
    pub fn open(path: &Path, requested: &str, resume: bool) -> Result<Self, CliError> {
        let (partial, progress_path) =
            (files::with_suffix(path, ".partial"), files::with_suffix(path, ".progress.json"));
        let (shown, began, stored) = (path.display(), partial.display(), progress_path.display());
        if path.exists() {
            return Err(CliError::output(format!("`{shown}` is there already: name another file, or move it away")));
        }
        let begun = load(&progress_path)?;
        let progress = match (begun, resume) {
            (None, false) => {
                Progress { version: VERSION, requested: requested.to_owned(), cursor: None, bytes: 0, records: 0 }
            }
            (Some(begun), true) if begun.requested == requested => begun,
            (Some(_), true) => {
                return Err(CliError::usage(
                    "the export was started with other options: resume with the same, or write to another file",
                ));
            }
            (Some(_), false) => {
                return Err(CliError::usage(format!(
                    "an export to `{shown}` was interrupted: resume with --resume, or remove `{began}` and `{stored}`"
                )));
            }
            (None, true) => {
                return Err(CliError::usage(format!("there is nothing to resume: `{stored}` does not exist")));
            }
        };
        let failed = |error: std::io::Error| CliError::cannot_write(&partial, &error);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(!resume).mode(0o600).open(&partial).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() < progress.bytes {
            return Err(CliError::input(format!(
                "`{began}` is shorter than it was when the export was interrupted: begin another file"
            )));
        }
        file.set_len(progress.bytes).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        let out = BufWriter::with_capacity(files::BUFFER_BYTES, file);
        Ok(Self { path: path.to_owned(), partial, progress_path, out, bytes: progress.bytes, progress, saved: None })
    }

    /// True if there is an export to resume: its progress is saved, which fails on a full disk.
    pub fn has_begun(&self) -> bool {
        self.progress.cursor.is_some() && self.progress_path.exists()
    }

    /// Removes the files of an incomplete export.
    pub fn discard(self) {
        let Self { partial, progress_path, out, .. } = self;
        drop(out);
        // A new export overwrites the partial file; progress is not always saved.
        for file in [partial, progress_path] {
            let _is_gone = std::fs::remove_file(file).is_ok();
        }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        self.out.write_all(bytes).map_err(|error| self.failed(&error))
    }

    /// Marks the written part as complete: an interrupted export resumes from here.
    ///
    /// # Errors
    /// If the file or its progress cannot be written.
    pub fn advance(&mut self, cursor: Option<&str>, records: u64) -> Result<(), CliError> {
        self.progress.cursor = cursor.map(str::to_owned);
        self.progress.records = records;
        self.progress.bytes = self.bytes;
        if cursor.is_none() || self.saved.is_some_and(|saved| saved.elapsed() < SAVED_EVERY) {
            return Ok(());
        }
        self.saved = Some(Instant::now());
        self.out.flush().map_err(|error| self.failed(&error))?;
        self.out.get_ref().sync_data().map_err(|error| self.failed(&error))?;
        files::save(&self.progress_path, &self.progress).map_err(|error| self.failed(&error))
    }

    /// Renames the file to its final name and returns its SHA-256, in hexadecimal.
    ///
    /// # Errors
    /// If the file cannot be flushed to disk, read or renamed.
    pub fn finish(mut self) -> Result<String, CliError> {
        let mut finished = || -> std::io::Result<String> {
            self.out.flush()?;
            self.out.get_ref().sync_all()?;
            let digest = files::digest(File::open(&self.partial)?)?;
            std::fs::rename(&self.partial, &self.path)?;
            folders::sync_where_possible(folder_of(&self.path))?;
            if self.progress_path.exists() {
                std::fs::remove_file(&self.progress_path)?;
            }
            Ok(digest)
        };
        let result = finished();
        result.map_err(|error| CliError::cannot_write(&self.path, &error))
    }

    fn failed(&self, error: &std::io::Error) -> CliError {
        CliError::cannot_write(&self.partial, error)
    }
}

fn load(path: &Path) -> Result<Option<Progress>, CliError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        CliError::input(format!(
            "`{}` does not say how far the export came: {error}; remove it, and start the export again",
            path.display()
        ))
    };
    let Some(text) = files::read_if_there(path).map_err(|error| unreadable(&error))? else { return Ok(None) };
    let progress: Progress = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
    if progress.version == VERSION { Ok(Some(progress)) } else { Err(unreadable(&"it is of another version")) }
}

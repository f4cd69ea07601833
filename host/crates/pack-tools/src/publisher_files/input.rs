//! A published file: opened once, read as often as needed, decompressed if needed, never beyond its size limit.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use crate::publisher_files::Progress;
use crate::publisher_files::problem::ImportError;
use daftar_domain::hexadecimal;

/// The longest line of a table, in bytes. The longest of ICD-11 has 600.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The read size, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// The first bytes of a gzip file (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The first bytes of a zip file; spreadsheets are zip files too.
const ZIP_MAGIC: [u8; 4] = *b"PK\x03\x04";

/// A file to import.
pub struct Input<'a> {
    path: PathBuf,
    file: File,
    is_packed: bool,
    bytes_on_disk: u64,
    bytes_max: u64,
    progress: RefCell<&'a mut dyn Progress>,
    /// The SHA-256 of the decompressed file, after a complete pass.
    digest: RefCell<Option<String>>,
}

impl<'a> Input<'a> {
    /// Opens a file and checks its first bytes.
    ///
    /// # Errors
    /// It cannot be opened, is not a regular file, is empty, or is an archive.
    pub fn open(path: &Path, bytes_max: u64, progress: &'a mut dyn Progress) -> Result<Self, ImportError> {
        let unusable = |reason: String| ImportError::unusable(path, None, reason);
        let unreadable = |error: io::Error| unusable(format!("it cannot be read: {error}"));
        // Before it is opened, because opening a pipe blocks until a writer opens it.
        let metadata = fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(unusable("it is not a file; it is read more than once, so it cannot be a pipe".to_owned()));
        }
        let mut file = File::open(path).map_err(unreadable)?;
        let mut start = Vec::new();
        file.by_ref().take(ZIP_MAGIC.len() as u64).read_to_end(&mut start).map_err(unreadable)?;
        if start.is_empty() {
            return Err(unusable("the file is empty".to_owned()));
        }
        if start == ZIP_MAGIC {
            let reason = "it is a zip archive or a spreadsheet; unpack the archive, or save the sheet as CSV";
            return Err(unusable(reason.to_owned()));
        }
        let is_packed = start.starts_with(&GZIP_MAGIC);
        Ok(Self {
            path: path.to_owned(),
            file,
            is_packed,
            bytes_on_disk: metadata.len(),
            bytes_max,
            progress: RefCell::new(progress),
            digest: RefCell::new(None),
        })
    }

    /// The file's path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The error of the file at a line.
    pub fn unusable(&self, line: Option<u64>, reason: impl std::fmt::Display) -> ImportError {
        ImportError::unusable(&self.path, line, reason)
    }

    /// The name of the file without folders, for hints that names give.
    pub fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Starts a pass over the decompressed bytes. Reading fails beyond the size limit.
    ///
    /// # Errors
    /// The file cannot be reopened.
    pub fn pass(&self) -> Result<impl Read + '_, ImportError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))
            .map_err(|error| self.unusable(None, format_args!("it cannot be read: {error}")))?;
        self.progress.borrow_mut().begin(self.bytes_on_disk);
        let counted = Counted { file: &self.file, progress: &self.progress };
        let buffered = BufReader::with_capacity(CHUNK_BYTES, counted);
        let unpacked: Box<dyn Read + '_> =
            if self.is_packed { Box::new(MultiGzDecoder::new(buffered)) } else { Box::new(buffered) };
        let hasher = self.digest.borrow().is_none().then(Sha256::new);
        Ok(Bounded { inner: unpacked, left: self.bytes_max, bytes_max: self.bytes_max, hasher, digest: &self.digest })
    }

    /// Reads the whole decompressed file.
    ///
    /// # Errors
    /// It cannot be read, is corrupt, or exceeds its size limit.
    pub fn read_whole(&self) -> Result<Vec<u8>, ImportError> {
        let mut bytes = Vec::new();
        self.pass()?.read_to_end(&mut bytes).map_err(|error| self.broken(None, &error))?;
        Ok(bytes)
    }

    /// Reads the whole file as text.
    ///
    /// # Errors
    /// It cannot be read, or is not UTF-8.
    pub fn read_text(&self) -> Result<String, ImportError> {
        let bytes = self.read_whole()?;
        let bytes = without_mark(bytes);
        String::from_utf8(bytes).map_err(|error| {
            let before = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
            let line = before.filter(|byte| **byte == b'\n').count() as u64 + 1;
            self.unusable(Some(line), "the line is not UTF-8")
        })
    }

    /// The lines of the file.
    ///
    /// # Errors
    /// The file cannot be reopened.
    pub fn lines(&self) -> Result<Lines<impl BufRead + '_>, ImportError> {
        let reader = BufReader::with_capacity(CHUNK_BYTES, self.pass()?);
        Ok(Lines { reader, path: self.path.clone(), number: 0, bytes: Vec::new() })
    }

    /// Converts an I/O error to an error of the file.
    pub fn broken(&self, line: Option<u64>, error: &io::Error) -> ImportError {
        self.unusable(line, format_args!("reading failed: {error}"))
    }

    /// The SHA-256 of the decompressed file, in hexadecimal: the compressed and the plain file are the same source.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn digest(&self) -> Result<String, ImportError> {
        if self.digest.borrow().is_none() {
            let mut reader = self.pass()?;
            io::copy(&mut reader, &mut io::sink()).map_err(|error| self.broken(None, &error))?;
        }
        self.digest.borrow().clone().ok_or_else(|| self.unusable(None, "it was not read to its end"))
    }

    /// The edition of a list. Without a stated one, it is the digest: different contents must not have the same
    /// edition.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn edition(&self, stated: Option<String>) -> Result<String, ImportError> {
        match stated {
            Some(edition) => Ok(edition),
            None => Ok(format!("sha256-{}", self.digest()?.chars().take(12).collect::<String>())),
        }
    }
}

/// Removes a leading byte order mark.
pub fn without_mark(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    bytes
}

/// Determines the lines of byte positions in a text. Continues from the last position, because there may be very many.
pub struct LineCounter<'t> {
    text: &'t str,
    /// The position up to which line ends were counted, and their number.
    counted: Cell<(usize, u64)>,
}

impl<'t> LineCounter<'t> {
    /// A counter at the beginning.
    pub fn of(text: &'t str) -> Self {
        Self { text, counted: Cell::default() }
    }

    /// The line of a byte, from 1.
    pub fn line(&self, at: usize) -> u64 {
        let at = at.min(self.text.len());
        let (from, before) = match self.counted.get() {
            (from, _) if from > at => (0, 0),
            counted => counted,
        };
        let between = self.text.as_bytes().get(from..at).unwrap_or_default();
        let ends = before + between.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.counted.set((at, ends));
        ends + 1
    }
}

/// The lines of a file, limited in length.
pub struct Lines<R> {
    reader: R,
    path: PathBuf,
    number: u64,
    bytes: Vec<u8>,
}

/// One line.
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its text without the line end; none if it is not UTF-8.
    pub text: Option<&'a str>,
}

impl<R: BufRead> Lines<R> {
    /// Reads the next line; none at the end of the file.
    ///
    /// # Errors
    /// Reading failed, or the line is too long.
    pub fn next(&mut self) -> Result<Option<Line<'_>>, ImportError> {
        self.bytes.clear();
        self.number += 1;
        let line = Some(self.number);
        let mut bounded = self.reader.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        let read = bounded.read_until(b'\n', &mut self.bytes);
        let unusable = |reason: String| ImportError::unusable(&self.path, line, reason);
        let read = read.map_err(|error| unusable(format!("reading failed: {error}")))?;
        if read > LINE_BYTES_MAX {
            return Err(unusable(format!(
                "the line has more than {LINE_BYTES_MAX} bytes: is this a file of this format?"
            )));
        }
        if read == 0 {
            return Ok(None);
        }
        let mut bytes = self.bytes.as_slice();
        if self.number == 1 {
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        Ok(Some(Line { number: self.number, text: str::from_utf8(bytes).ok() }))
    }
}

/// Reports progress by the bytes read from disk.
struct Counted<'a, 'b> {
    file: &'a File,
    progress: &'a RefCell<&'b mut dyn Progress>,
}

impl Read for Counted<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file;
        let read = file.read(buffer)?;
        self.progress.borrow_mut().advance(read as u64);
        Ok(read)
    }
}

/// Fails beyond the size limit, because a small compressed file may have any decompressed size; computes the digest.
struct Bounded<'a> {
    inner: Box<dyn Read + 'a>,
    left: u64,
    bytes_max: u64,
    hasher: Option<Sha256>,
    digest: &'a RefCell<Option<String>>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let Some(left) = self.left.checked_sub(read as u64) else {
            let reason = format!("it has more than {} bytes, the limit for such files", self.bytes_max);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        };
        self.left = left;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(buffer.get(..read).unwrap_or_default());
        }
        if read == 0
            && !buffer.is_empty()
            && let Some(hasher) = self.hasher.take()
        {
            *self.digest.borrow_mut() = Some(hexadecimal::encode(&hasher.finalize()));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::{Input, LineCounter};
    use crate::publisher_files::NoProgress;

    #[test]
    fn lines_are_counted_on_from_the_last_place() {
        let counter = LineCounter::of("a\nb\n\nc");
        let lines = [0, 1, 2, 4, 5, 6].map(|at| (counter.line(at), counter.counted.get().0));
        assert_eq!(lines, [(1, 0), (1, 1), (2, 2), (3, 4), (4, 5), (4, 6)]);
        assert_eq!([2, 99].map(|at| counter.line(at)), [2, 4], "back, and beyond the end");
        // A counter that restarted would count these line ends again.
        counter.counted.set((5, 40));
        assert_eq!(counter.line(6), 41);
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_not_a_file_is_rejected_without_blocking() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [pipe.as_path(), folder.path()] {
            let mut progress = NoProgress;
            let refused = Input::open(path, 100, &mut progress).err().unwrap().to_string();
            let reason = "it is not a file; it is read more than once, so it cannot be a pipe";
            assert_eq!(refused, format!("{}: {reason}", path.display()));
        }
    }
}

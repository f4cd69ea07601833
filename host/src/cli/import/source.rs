//! The imported file: read in parts, ahead of the sender, never completely in memory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use serde::{Deserialize, Serialize};

use super::sheet::{self, Sheet};
use crate::cli::table::{CellProblem, Mapping, MappingText};
use crate::cli::{CliError, files};
use daftar_http::admin::import_lines::LINE_BYTES_MAX;

/// Length of the excerpt of a line that is too long.
const SHOWN_BYTES: usize = 200;

/// The input file.
pub struct Source {
    path: PathBuf,
    file: File,
    /// Length when it was opened, in bytes: data that is added later is not read.
    pub bytes: u64,
    /// Start of the next part: initially the first line or row.
    pub mark: Mark,
    table: Option<Table>,
    /// Approximate size of a part in bytes, within bounds.
    pub part_bytes: usize,
}

/// Facts about a table.
struct Table {
    mapping: Arc<Mapping>,
    /// The header as it is in the file.
    header: Vec<u8>,
    /// The digest of the mapping file.
    digest: Option<String>,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// If the path is not a regular file, or cannot be read.
    pub fn open(path: &Path, mapping: Option<&Path>) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| CliError::cannot_read(path, &error);
        // The type is checked before the file is opened: opening a pipe would block until a writer opens it.
        let about = std::fs::metadata(path).map_err(failed)?;
        if !about.is_file() {
            let what = if about.is_dir() { "it is a folder" } else { "it is no regular file" };
            return Err(CliError::input(format!(
                "cannot read `{}`: {what}; write the lines to a file first, so that an import can resume",
                path.display()
            )));
        }
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let mut source =
            Self { path: path.to_owned(), file, bytes, mark: Mark::START, table: None, part_bytes: PART_BYTES_MAX };
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_lowercase();
        match extension.as_str() {
            "csv" | "tsv" => source.open_table(mapping, extension == "tsv")?,
            _ if mapping.is_some() => {
                return Err(CliError::usage("--mapping is for tables: files whose names end with `.csv` or `.tsv`"));
            }
            "ndjson" | "jsonl" | "json" => {}
            _ => {
                return Err(CliError::usage(format!(
                    "`{}` says by its name what it holds: `.ndjson` or `.jsonl` one JSON object a line, `.csv` or `.tsv` a table",
                    path.display()
                )));
            }
        }
        Ok(source)
    }

    fn open_table(&mut self, mapping: Option<&Path>, is_tabs: bool) -> Result<(), CliError> {
        let (text, digest) = match mapping {
            Some(path) => {
                let (text, bytes) = MappingText::load(path).map_err(CliError::input)?;
                (text, Some(files::digest(bytes.as_slice()).map_err(CliError::failed)?))
            }
            None => (MappingText::default(), None),
        };
        let opened = sheet::open((&mut self.file).take(self.bytes), &text, is_tabs);
        let (mapping, header, mark) = opened.map_err(|problem| {
            CliError::input(format!("the table `{}` cannot be taken:\n  {problem}", self.path.display()))
        })?;
        self.mark = mark;
        self.table = Some(Table { mapping: Arc::new(mapping), header, digest });
        Ok(())
    }

    /// Returns the header of a table.
    pub fn header(&self) -> Option<&[u8]> {
        self.table.as_ref().map(|table| table.header.as_slice())
    }

    /// Returns the SHA-256 of the file's contents up to its length at opening, in hexadecimal.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn digest(&mut self) -> Result<String, CliError> {
        let failed = |error: std::io::Error| CliError::input(format!("cannot read the file: {error}"));
        self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let digest = files::digest((&mut self.file).take(self.bytes)).map_err(failed)?;
        // The result of a table depends on its mapping, too.
        let mapping = self.table.as_ref().and_then(|table| table.digest.as_deref());
        Ok(mapping.map_or(digest.clone(), |mapping| format!("{digest}+{mapping}")))
    }

    /// Checks that the file is unchanged: parts read after the digest may otherwise differ from it.
    ///
    /// # Errors
    /// If the file was modified or appended to.
    pub fn check_unchanged(&mut self, digest: &str) -> Result<(), CliError> {
        let now = self.file.metadata().map_err(CliError::failed)?.len();
        if now == self.bytes && self.digest()? == digest {
            return Ok(());
        }
        Err(CliError::input(format!(
            "`{}` was changed while it was read: what it held at first, up to byte {}, was taken; compare it with what is in the register",
            self.path.display(),
            self.bytes
        )))
    }

    /// Passes the parts from the current position to `take`, in order; the next part is read concurrently.
    ///
    /// # Errors
    /// Those of `take`, and when the file cannot be read.
    pub fn parts<E: From<CliError>>(&mut self, mut take: impl FnMut(Part) -> Result<(), E>) -> Result<(), E> {
        self.file.seek(SeekFrom::Start(self.mark.offset)).map_err(CliError::failed)?;
        let left = self.bytes.saturating_sub(self.mark.offset);
        let (reader, part_bytes) = ((&mut self.file).take(left), self.part_bytes.clamp(1, PART_BYTES_MAX));
        let mut next: Box<dyn FnMut() -> std::io::Result<Part> + Send + '_> = match &self.table {
            Some(table) => {
                let mut sheet = Sheet::new(reader, Arc::clone(&table.mapping), self.mark);
                Box::new(move || sheet.part(part_bytes))
            }
            None => {
                let mut lines =
                    Lines { reader: BufReader::with_capacity(files::BUFFER_BYTES, reader), mark: self.mark };
                Box::new(move || lines.part(part_bytes))
            }
        };
        std::thread::scope(|scope| {
            let (hand, taken) = sync_channel(1);
            scope.spawn(move || {
                loop {
                    let part = next();
                    let is_last = part.as_ref().map_or(true, Part::is_end);
                    // The receiver may have stopped.
                    if hand.send(part).is_err() || is_last {
                        return;
                    }
                }
            });
            for part in taken {
                let part = part.map_err(|error| CliError::input(format!("cannot read the file: {error}")))?;
                if part.is_end() {
                    return Ok(());
                }
                take(part)?;
            }
            Ok(())
        })
    }
}

/// Reads lines.
struct Lines<R> {
    reader: R,
    mark: Mark,
}

impl<R: BufRead> Lines<R> {
    /// Returns the next part; empty at the end of the file.
    fn part(&mut self, part_bytes: usize) -> std::io::Result<Part> {
        let mut part = Part::at(self.mark);
        while part.body.len() < part_bytes {
            let Some((text, bytes, is_too_long)) = self.line()? else { break };
            let number = self.mark.line;
            self.mark.offset = self.mark.offset.saturating_add(bytes as u64);
            self.mark.line = self.mark.line.saturating_add(1);
            // A line that is too long is sent empty, so that line numbers match the file.
            part.push(number, if is_too_long { b"" } else { &text });
            if is_too_long {
                let message = format!(
                    "a line has at most {LINE_BYTES_MAX} bytes; this one has {bytes}, and only its beginning is kept here"
                );
                let errors = vec![(String::new(), "line_too_long", message)];
                part.rejects.push(EarlyReject { line: number, errors, text: Some(text), is_row: false });
            }
            self.mark.unit = part.next.unit;
            part.next = self.mark;
        }
        Ok(part)
    }

    /// Returns the next line without its line ending, its length in bytes with the line ending, and true if the line
    /// exceeds the maximum length and is truncated.
    fn line(&mut self) -> std::io::Result<Option<(Vec<u8>, usize, bool)>> {
        let mut text = Vec::new();
        let mut bytes = self.reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut text)?;
        if bytes == 0 {
            return Ok(None);
        }
        let is_too_long = text.last() != Some(&b'\n') && text.len() > LINE_BYTES_MAX;
        if is_too_long {
            bytes = bytes.saturating_add(self.reader.skip_until(b'\n')?);
            text.truncate(SHOWN_BYTES);
            text.shrink_to_fit();
        } else if text.last() == Some(&b'\n') {
            text.pop();
        }
        Ok(Some((text, bytes, is_too_long)))
    }
}

/// Maximum size of a part in bytes, except for one longer line.
pub const PART_BYTES_MAX: usize = 2 << 20;

/// A position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Offset from the start of the file, in bytes.
    pub offset: u64,
    /// Number of the line that starts at the offset.
    pub line: u64,
    /// Number of the next line to send; differs from `line` for a table.
    pub unit: u64,
}

impl Mark {
    /// The start of a file.
    pub const START: Self = Self { offset: 0, line: 1, unit: 1 };
}

/// A line to send.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Its byte range in the body.
    pub range: Range<usize>,
    /// Its line number in the file.
    pub line: u64,
}

/// A line rejected before sending.
#[derive(Debug, Clone)]
pub struct EarlyReject {
    /// Its line number in the file.
    pub line: u64,
    /// The problem.
    pub errors: Vec<CellProblem>,
    /// Excerpt of its text.
    pub text: Option<Vec<u8>>,
    /// True if it is a row of a table.
    pub is_row: bool,
}

/// A part.
#[derive(Debug)]
pub struct Part {
    /// Lines of the request body.
    pub body: Vec<u8>,
    /// Number of the first line to send.
    pub first_unit: u64,
    /// The lines to send, including blank lines.
    pub units: Vec<Unit>,
    /// The lines rejected before sending.
    pub rejects: Vec<EarlyReject>,
    /// Start of the next part.
    pub next: Mark,
    begins_at: u64,
}

impl Part {
    /// Returns an empty part at a position.
    #[must_use]
    pub fn at(mark: Mark) -> Self {
        Self {
            body: Vec::new(),
            first_unit: mark.unit,
            units: Vec::new(),
            rejects: Vec::new(),
            next: mark,
            begins_at: mark.offset,
        }
    }

    /// Appends a line to send.
    pub fn push(&mut self, line: u64, text: &[u8]) {
        let start = self.body.len();
        self.body.extend_from_slice(text);
        self.units.push(Unit { range: start..self.body.len(), line });
        self.body.push(b'\n');
        self.next.unit = self.next.unit.saturating_add(1);
    }

    /// Returns the line with this number: its line number in the file and its text.
    #[must_use]
    pub fn unit(&self, number: u64) -> Option<(u64, &[u8])> {
        let at = usize::try_from(number.checked_sub(self.first_unit)?).ok()?;
        let unit = self.units.get(at)?;
        Some((unit.line, self.body.get(unit.range.clone())?))
    }

    /// True if the part is empty, at the end of the file.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.next.offset == self.begins_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_one_another_and_begin_where_the_last_one_ended() {
        let long = "x".repeat(PART_BYTES_MAX / 2 + 1);
        let text = format!("{long}\n{long}\n\n{long}\r\nlast");
        let mut lines = Lines { reader: text.as_bytes(), mark: Mark::START };
        let mut seen = Vec::new();
        loop {
            let part = lines.part(PART_BYTES_MAX).unwrap();
            if part.is_end() {
                break;
            }
            let at = usize::try_from(part.next.offset).unwrap();
            seen.push((part.first_unit, part.units.len(), part.next.line, at));
            let again = Lines { reader: &text.as_bytes()[at..], mark: part.next }.part(PART_BYTES_MAX).unwrap();
            assert_eq!(again.first_unit, part.next.unit);
        }
        let half = long.len();
        assert_eq!(seen, [(1, 2, 3, 2 * half + 2), (3, 3, 6, 3 * half + 9)]);
    }

    #[test]
    fn a_line_that_is_too_long_is_rejected_with_its_number() {
        let text = format!("a\n{}\nb\n", "y".repeat(LINE_BYTES_MAX + 1));
        let mut lines = Lines { reader: text.as_bytes(), mark: Mark::START };
        let part = lines.part(PART_BYTES_MAX).unwrap();
        assert_eq!(part.unit(3), Some((3, &b"b"[..])));
        assert_eq!(part.body, b"a\n\nb\n");
        let rejects: Vec<(u64, &str)> = part.rejects.iter().map(|reject| (reject.line, reject.errors[0].1)).collect();
        assert_eq!(rejects, [(2, "line_too_long")]);
        let fits = format!("{}\nb\n", "y".repeat(LINE_BYTES_MAX));
        let reader = std::io::BufReader::with_capacity(7, fits.as_bytes());
        let part = Lines { reader, mark: Mark::START }.part(usize::MAX).unwrap();
        assert_eq!((part.unit(2), part.next.offset), (Some((2, &b"b"[..])), LINE_BYTES_MAX as u64 + 3));
        assert!(part.rejects.is_empty());
        let fits = "y".repeat(LINE_BYTES_MAX);
        let mut lines = Lines { reader: fits.as_bytes(), mark: Mark::START };
        assert!(lines.part(PART_BYTES_MAX).unwrap().rejects.is_empty());
    }
}

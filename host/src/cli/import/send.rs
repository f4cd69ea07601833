//! Sends parts and reads the outcomes of their lines.
//!
//! **Invariant:** rejected lines are on disk before the progress file counts them.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::source::{EarlyReject, Part};
use crate::cli::CliError;
use crate::cli::admin_client::{AdminClient, Payload, with_query};
use crate::cli::files::remove;
use daftar_api_types::admin::operation::{ImportCounts, ImportLine, StoppedBody};
use daftar_domain::context::{IdSource, RandomIds};
use daftar_service::bulk;

/// Maximum number of attempts to send a part to a busy server, one second apart.
const ATTEMPTS_MAX: u32 = 45;
const PAUSE: Duration = Duration::from_secs(1);
/// HTTP status after which the client retries a request.
const UNAVAILABLE: u16 = 503;

/// Sends the parts of one import.
pub struct Sender<'s> {
    pub admin: &'s AdminClient,
    pub on_existing: &'static str,
    pub id: String,
    /// True if lines are only checked.
    pub is_dry_run: bool,
}

/// Outcome of a part.
pub struct Answer {
    pub counts: ImportCounts,
    /// The rejected lines: the number of each line in the request, and its errors.
    pub rejected: Vec<(u64, Value)>,
}

/// Reason why a part was not written or checked completely.
#[derive(Debug)]
pub enum Unsent {
    /// The import ends.
    Failed(CliError),
    /// The server stopped within a part of a dry run. Lines of the part that were checked reserve their identifiers, so
    /// that the part cannot be sent again under the same id.
    DryRunStopped(String),
}

impl From<CliError> for Unsent {
    fn from(error: CliError) -> Self {
        Self::Failed(error)
    }
}

/// Outcome of one request.
enum Attempt {
    /// Every line of the part is written, checked or rejected.
    Complete(Answer),
    /// No line was read, because another import is being written; the reason.
    Busy(String),
    /// The server stopped within the part; the reason.
    Stopped(String),
}

impl Sender<'_> {
    /// Sends a part. `resumes` is true if some of its lines may already be written.
    ///
    /// # Errors
    /// When the server is unavailable, rejects the complete part, or stops.
    pub fn send(&self, part: &Part, resumes: bool) -> Result<Answer, Unsent> {
        let mut reason = String::new();
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            match self.attempt(part, resumes || attempt > 0)? {
                Attempt::Complete(answer) => return Ok(answer),
                Attempt::Stopped(stopped) if self.is_dry_run => return Err(Unsent::DryRunStopped(stopped)),
                Attempt::Busy(later) | Attempt::Stopped(later) => reason = later,
            }
        }
        Err(CliError::unavailable(reason).into())
    }

    /// Sends a part once.
    fn attempt(&self, part: &Part, resumes: bool) -> Result<Attempt, CliError> {
        let first_line = part.first_unit.to_string();
        let parameters = [
            ("id", Some(self.id.as_str())),
            ("on_existing", Some(self.on_existing)),
            ("first_line", Some(first_line.as_str())),
            ("dry_run", self.is_dry_run.then_some("true")),
            ("resume", (resumes && !self.is_dry_run).then_some("true")),
        ];
        let path = with_query("/import", parameters);
        let answer = match self.admin.download("POST", &path, Payload::lines(part.body.clone())) {
            Ok(answer) => answer,
            Err(CliError { message, .. }) if message.starts_with(bulk::TAKEN) => return Ok(Attempt::Busy(message)),
            Err(error) => return Err(error),
        };
        let mut rejected = Vec::new();
        for line in BufReader::new(answer).lines() {
            let line = line.map_err(|error| CliError::unavailable(format!("the server went away: {error}")))?;
            let mut reported: Value = serde_json::from_str(&line).map_err(|_| CliError::none_to("an import"))?;
            match ImportLine::deserialize(&reported).map_err(|_| CliError::none_to("an import"))? {
                ImportLine::Rejected { line, .. } => {
                    let errors = reported.get_mut("errors").map(Value::take).unwrap_or_default();
                    rejected.push((line, errors));
                }
                ImportLine::Durable { .. } => {}
                ImportLine::Ended { counts, .. } => return Ok(Attempt::Complete(Answer { counts, rejected })),
                ImportLine::Stopped { stopped: StoppedBody { status: UNAVAILABLE, detail }, .. } => {
                    return Ok(Attempt::Stopped(detail));
                }
                ImportLine::Stopped { stopped, .. } => return Err(CliError::failed(stopped.detail)),
            }
        }
        Err(CliError::unavailable("the server went away before the lines were written"))
    }

    /// Reports the end of the import to the server.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn end(&self, note: &str) -> Result<(), CliError> {
        let path = with_query("/import", [("id", Some(self.id.as_str())), ("note", Some(note))]);
        self.admin.call("DELETE", &path, Payload::default()).map(|_| ())
    }

    /// Gives a dry run another id, under which no line is checked yet.
    pub fn begin_again(&mut self) {
        // A server that is unavailable now ends the former one later, after some time without a request.
        let _is_ended = self.end("the dry run starts again from the first line").is_ok();
        self.id = RandomIds.next_id();
    }
}

/// The rejected lines, and the rows of a table that could not be read, to be fixed as rows.
pub struct Rejects {
    lines: Output,
    rows: Option<Output>,
}

/// A file opened for appending.
struct Output {
    path: PathBuf,
    file: File,
    /// The header of the file, empty if it has none.
    header: Vec<u8>,
    bytes: u64,
}

impl Output {
    /// Opens a new file, or the existing file of a resumed import, truncated to its former length.
    fn open(path: &Path, header: &[u8], resumed_at: Option<u64>) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| CliError::cannot_write(path, &error);
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let opened = match resumed_at {
            None => options.create_new(true).open(path),
            Some(_) => options.create(true).truncate(false).open(path),
        };
        let mut file = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(CliError::output(format!(
                    "`{}` is there from an earlier import: move it away, or name another file with --rejects",
                    path.display()
                )));
            }
            other => other.map_err(failed)?,
        };
        let bytes = resumed_at.unwrap_or_default();
        if file.metadata().map_err(failed)?.len() < bytes {
            return Err(CliError::input(format!(
                "`{}` is shorter than it was when the import was interrupted: what it lost is not known any more",
                path.display()
            )));
        }
        file.set_len(bytes).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, header: header.to_vec(), bytes })
    }

    fn add(&mut self, text: &[u8]) -> Result<(), CliError> {
        if text.is_empty() {
            return Ok(());
        }
        let header = if self.bytes == 0 { self.header.as_slice() } else { b"".as_slice() };
        let text = [header, text].concat();
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        written.map_err(|error| CliError::cannot_write(&self.path, &error))?;
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        Ok(())
    }

    /// Removes the content.
    fn clear(&mut self) -> Result<(), CliError> {
        let cleared = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        cleared.map_err(|error| CliError::cannot_write(&self.path, &error))?;
        self.bytes = 0;
        Ok(())
    }

    fn remove_if_empty(self) -> Result<(), CliError> {
        let Self { path, file, bytes, .. } = self;
        drop(file);
        if bytes > 0 {
            return Ok(());
        }
        remove(&path)
    }
}

impl Rejects {
    /// Opens new files, or the existing files of a resumed import, truncated to their former lengths. `table` contains
    /// the path of the file of rejected rows and the header.
    ///
    /// # Errors
    /// When a file cannot be written, or a file of an earlier import exists.
    pub fn open(path: &Path, table: Option<(&Path, &[u8])>, resumed_at: Option<(u64, u64)>) -> Result<Self, CliError> {
        let lines = Output::open(path, b"", resumed_at.map(|(lines, _)| lines))?;
        let rows = table.map(|(path, header)| Output::open(path, header, resumed_at.map(|(_, rows)| rows)));
        match rows.transpose() {
            Ok(rows) => Ok(Self { lines, rows }),
            Err(error) => {
                if resumed_at.is_none() {
                    // It was created just now.
                    let _is_gone = lines.remove_if_empty().is_ok();
                }
                Err(error)
            }
        }
    }

    /// Removes the rejected lines of a dry run that starts again.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn clear(&mut self) -> Result<(), CliError> {
        self.lines.clear()?;
        self.rows.as_mut().map_or(Ok(()), Output::clear)
    }

    /// Returns the lengths of the files, in bytes.
    pub fn bytes(&self) -> (u64, u64) {
        (self.lines.bytes, self.rows.as_ref().map_or(0, |rows| rows.bytes))
    }

    /// Appends the rejected lines of a part and returns the outcome counts of its lines.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn add(&mut self, part: &Part, answer: Answer) -> Result<ImportCounts, CliError> {
        let mut lines: Vec<(u64, String)> = part.rejects.iter().map(|reject| (reject.line, early(reject))).collect();
        for (sent, errors) in &answer.rejected {
            let (line, text) = part.unit(*sent).unwrap_or((*sent, b""));
            lines.push((line, self::line(line, errors, text)));
        }
        lines.sort_by_key(|(line, _)| *line);
        let text: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
        self.lines.add(text.as_bytes())?;
        if let Some(rows) = &mut self.rows {
            let mut text = Vec::new();
            for row in part.rejects.iter().filter(|reject| reject.is_row).filter_map(|reject| reject.text.as_ref()) {
                text.extend_from_slice(row);
                if !row.ends_with(b"\n") {
                    text.push(b'\n');
                }
            }
            rows.add(&text)?;
        }
        let early = part.rejects.len() as u64;
        let ImportCounts { read, rejected, .. } = answer.counts;
        Ok(ImportCounts { read: read.saturating_add(early), rejected: rejected.saturating_add(early), ..answer.counts })
    }

    /// Removes empty files.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove_empty(self) -> Result<(), CliError> {
        self.lines.remove_if_empty()?;
        self.rows.map_or(Ok(()), Output::remove_if_empty)
    }
}

fn early(reject: &EarlyReject) -> String {
    let EarlyReject { line, errors, text, is_row } = reject;
    let errors = errors.iter().map(|(field, code, message)| json!({"field": field, "code": code, "message": message}));
    let mut members = Map::new();
    members.insert("line".to_owned(), json!(line));
    members.insert("errors".to_owned(), errors.collect());
    match text {
        Some(text) if *is_row => {
            members.insert("row".to_owned(), json!(String::from_utf8_lossy(text).trim_end_matches(['\r', '\n'])));
        }
        Some(text) => insert_text(&mut members, text),
        None => {}
    }
    Value::Object(members).to_string()
}

/// Returns a rejected line with its number, its problems and the unchanged text, to be fixed and imported again.
fn line(line: u64, errors: &Value, text: &[u8]) -> String {
    let mut members = Map::new();
    members.insert("line".to_owned(), json!(line));
    members.insert("errors".to_owned(), errors.clone());
    let parsed = serde_json::from_slice::<Value>(text).ok();
    match parsed {
        // The line is from a rejects file: its record is written, without the previous errors.
        Some(Value::Object(mut fixed)) if fixed.contains_key("errors") && !fixed.contains_key("type") => {
            for name in ["record", "text", "base64"] {
                if let Some(stored) = fixed.remove(name) {
                    members.insert(name.to_owned(), stored);
                }
            }
            Value::Object(members).to_string()
        }
        Some(Value::Object(_)) => {
            // The text is written unchanged, including duplicate members.
            let head = Value::Object(members).to_string();
            let head = head.strip_suffix('}').unwrap_or(&head);
            let text = String::from_utf8_lossy(text);
            let text = text.trim_start_matches('\u{feff}').trim();
            format!("{head},\"record\":{text}}}")
        }
        Some(_) | None => {
            insert_text(&mut members, text);
            Value::Object(members).to_string()
        }
    }
}

fn insert_text(members: &mut Map<String, Value>, text: &[u8]) {
    match std::str::from_utf8(text) {
        Ok(text) => members.insert("text".to_owned(), json!(text)),
        Err(_) => members.insert("base64".to_owned(), json!(BASE64.encode(text))),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_line_is_unchanged() {
        let errors = json!([{"field": "x", "code": "y", "message": "z"}]);
        let head = r#"{"errors":[{"code":"y","field":"x","message":"z"}],"line":3"#;
        let stored = |text: &[u8]| line(3, &errors, text).strip_prefix(head).unwrap().to_owned();
        assert_eq!(stored(br#" {"b": 1, "a":2,"b":3}"#), r#","record":{"b": 1, "a":2,"b":3}}"#);
        assert_eq!(stored(b"[1]"), r#","text":"[1]"}"#);
        assert!(line(3, &errors, b"{\xff}").starts_with(r#"{"base64":"e/99","errors""#));
        let fixed = br#"{"errors":[],"line":1,"record":{"type":"Group"}}"#;
        assert_eq!(stored(fixed), r#","record":{"type":"Group"}}"#);
    }

    #[test]
    fn a_file_of_an_earlier_import_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rejects");
        std::fs::write(&path, "12345").unwrap();
        assert!(Rejects::open(&path, None, None).is_err());
        assert!(Rejects::open(&path, None, Some((6, 0))).is_err());
        assert_eq!(Rejects::open(&path, None, Some((3, 0))).unwrap().bytes(), (3, 0));
        assert_eq!(std::fs::read(&path).unwrap(), b"123");
    }

    #[test]
    fn no_rejects_file_is_left_if_the_file_of_rows_cannot_be_created() {
        let folder = tempfile::tempdir().unwrap();
        let (lines, rows) = (folder.path().join("lines"), folder.path().join("rows"));
        std::fs::write(&rows, "12345").unwrap();
        assert!(Rejects::open(&lines, Some((rows.as_path(), b"h\n".as_slice())), None).is_err());
        assert!(!lines.exists());
        assert_eq!(std::fs::read(&rows).unwrap(), b"12345");
    }

    #[test]
    fn rejects_that_were_removed_begin_with_the_header_again() {
        let folder = tempfile::tempdir().unwrap();
        let (lines, rows) = (folder.path().join("lines"), folder.path().join("rows"));
        let mut rejects = Rejects::open(&lines, Some((rows.as_path(), b"h\n".as_slice())), None).unwrap();
        for row in ["1\n", "2\n"] {
            rejects.clear().unwrap();
            rejects.lines.add(b"{}\n").unwrap();
            rejects.rows.as_mut().unwrap().add(row.as_bytes()).unwrap();
        }
        assert_eq!(rejects.bytes(), (3, 4));
        assert_eq!(std::fs::read(&lines).unwrap(), b"{}\n");
        assert_eq!(std::fs::read(&rows).unwrap(), b"h\n2\n");
    }
}

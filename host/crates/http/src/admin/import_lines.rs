//! The lines of an import: splits a stream of bytes into batches of lines, and reads each line as the body of a create
//! with its `type`, by the readers of single calls.
//!
//! **Invariant:** a line over the limit is skipped as it arrives and never buffered; the incomplete last line of an
//! interrupted stream is ignored.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;

use crate::api::dto::field;
use crate::api::dto::reader::{Problems, known_values};
use crate::api::dto::record::{Purpose, read_consent, read_group, read_individual, read_membership, read_program};
pub use crate::api::extract::body::strict_value;
use crate::api::extract::body::{RECORD_BYTES_MAX, parse_object};
use crate::api::extract::body_memory::BodyMemory;
use daftar_domain::consent::{ConsentId, WITHDRAWN};
use daftar_domain::context::IdSource;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::record::{RecordKind, VersionCondition, VersionId};
use daftar_service::bulk::{BulkLine, BulkRecord, OnExisting};
use daftar_service::consent::new_id;

/// Maximum length of a line, in bytes without its end: the body limit of the largest create.
pub const LINE_BYTES_MAX: usize = RECORD_BYTES_MAX;
/// Maximum number of lines in a batch.
const BATCH_LINES_MAX: usize = 128;
/// Maximum number of bytes in a batch, except for a single longer line.
const BATCH_BYTES_MAX: usize = 256 << 10;
/// Maximum time without any bytes.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One line with its number.
#[derive(Debug, PartialEq, Eq)]
pub struct RawLine {
    /// Its number, counted by line ends.
    pub line: u64,
    /// Its bytes; `None` if the line exceeds a limit.
    pub text: Option<Vec<u8>>,
}

/// Splits incoming bytes into lines.
struct Splitter {
    line: u64,
    open: Vec<u8>,
    is_too_long: bool,
    complete: VecDeque<RawLine>,
    complete_bytes: usize,
}

impl Splitter {
    fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(end);
            self.open(line);
            self.close();
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.open(bytes);
    }

    fn open(&mut self, part: &[u8]) {
        if self.open.len().saturating_add(part.len()) > LINE_BYTES_MAX {
            self.is_too_long = true;
            self.open = Vec::new();
        }
        if !self.is_too_long {
            self.open.extend_from_slice(part);
        }
    }

    fn close(&mut self) {
        let text = std::mem::take(&mut self.open);
        let text = if std::mem::take(&mut self.is_too_long) { None } else { Some(text) };
        let is_blank = text.as_ref().is_some_and(|text| text.iter().all(u8::is_ascii_whitespace));
        if !is_blank {
            self.complete_bytes = self.complete_bytes.saturating_add(text.as_ref().map_or(0, Vec::len));
            self.complete.push_back(RawLine { line: self.line, text });
        }
        self.line = self.line.saturating_add(1);
    }

    fn batch(&mut self) -> Vec<RawLine> {
        let mut batch = Vec::new();
        let mut bytes = 0_usize;
        while batch.len() < BATCH_LINES_MAX && bytes < BATCH_BYTES_MAX {
            let Some(line) = self.complete.pop_front() else { break };
            let length = line.text.as_ref().map_or(0, Vec::len);
            bytes = bytes.saturating_add(length);
            self.complete_bytes = self.complete_bytes.saturating_sub(length);
            batch.push(line);
        }
        batch
    }

    fn is_full(&self) -> bool {
        self.complete.len() >= BATCH_LINES_MAX || self.complete_bytes >= BATCH_BYTES_MAX
    }
}

/// Returns the lines of a stream, numbered from `first_line`. Blank lines are counted and left out.
pub fn batches<S, E>(body: S, first_line: u64) -> impl Stream<Item = Result<Vec<RawLine>, AppError>> + Send
where
    S: Stream<Item = Result<Bytes, E>> + Unpin + Send,
    E: Send,
{
    let (open, complete) = (Vec::new(), VecDeque::new());
    let splitter = Splitter { line: first_line, open, is_too_long: false, complete, complete_bytes: 0 };
    stream::unfold((Some(body), splitter), |(mut body, mut splitter)| async move {
        loop {
            if splitter.is_full() || (body.is_none() && !splitter.complete.is_empty()) {
                let batch = splitter.batch();
                return Some((Ok(batch), (body, splitter)));
            }
            let source = body.as_mut()?;
            match tokio::time::timeout(SILENCE_MAX, source.next()).await {
                Ok(Some(Ok(bytes))) => splitter.feed(&bytes),
                Ok(None) => {
                    if !splitter.open.is_empty() || splitter.is_too_long {
                        splitter.close();
                    }
                    body = None;
                }
                Ok(Some(Err(_))) => {
                    let detail = "the body was interrupted: the complete lines before are written".to_owned();
                    return Some((Err(AppError::Malformed(detail)), (None, splitter)));
                }
                Err(_) => {
                    let detail = format!("no line arrived for {} seconds", SILENCE_MAX.as_secs());
                    return Some((Err(AppError::Malformed(detail)), (None, splitter)));
                }
            }
        }
    })
}

/// Member by which a line sets the action for its existing record.
const ON_EXISTING: &str = "$on_existing";
/// Member with the number of relationships, at the end of the list, that lead to records of later lines: they are left
/// out until those records exist, and another line adds them.
const LATER_RELATIONSHIPS: &str = "$later_relationships";
/// Member with the relationships of an individual or a group.
pub const RELATIONSHIP: &str = "relationship";
/// Members of a line that adds relationships.
const ADDITION: [&str; 5] = ["type", "resourceType", "identifier", RELATIONSHIP, "meta"];

/// Dependencies of reading a line.
pub struct Reading<'r> {
    /// The fields that modules add.
    pub fields: &'r ExtensionFields,
    /// Names consents that have no name yet.
    pub ids: &'r dyn IdSource,
    /// Action for a line without `$on_existing` whose record exists.
    pub on_existing: OnExisting,
}

/// Reserves memory for the large lines of a batch, as for bodies. A line above the limit of one body loses its text.
///
/// # Errors
/// [`AppError::Busy`] if there is not enough memory within `wait_max`: the import stops, and the client resumes it.
pub async fn reserve(
    memory: &BodyMemory,
    wait_max: Duration,
    batch: &mut [RawLine],
) -> Result<Vec<OwnedSemaphorePermit>, AppError> {
    let mut reserved = Vec::new();
    for raw in batch {
        let Some(text) = &raw.text else { continue };
        match memory.reserve(text, wait_max).await {
            Ok(permit) => reserved.extend(permit),
            Err(problem) if problem.code == ErrorCode::BodyTooLarge => raw.text = None,
            Err(_) => return Err(AppError::Busy),
        }
    }
    Ok(reserved)
}

/// Reads a line.
///
/// # Errors
/// The problems of the line.
pub fn line(raw: &RawLine, reading: &Reading<'_>) -> Result<BulkLine, AppError> {
    let Some(text) = &raw.text else {
        let message = format!("a line has at most {LINE_BYTES_MAX} bytes, and fewer with very many objects and lists");
        return Err(AppError::invalid("", "line_too_long", message));
    };
    // Files that begin with a byte order mark are common; a byte order mark in another place is rejected.
    let text = text.strip_prefix(b"\xef\xbb\xbf").filter(|_| raw.line == 1).unwrap_or(text);
    let members = corrected(parse(text)?)?;
    record(members, reading)
}

fn parse(text: &[u8]) -> Result<Map<String, Value>, AppError> {
    parse_object(text).map_err(|error| {
        let message = error.0.detail.replacen("the body", "the line", 1);
        AppError::invalid("", "malformed", message)
    })
}

/// Returns the corrected record of a line of a rejects file, or its text that was no record. Any other line is returned
/// unchanged.
fn corrected(mut members: Map<String, Value>) -> Result<Map<String, Value>, AppError> {
    if !(members.contains_key("errors") && members.contains_key("line")) || members.contains_key("type") {
        return Ok(members);
    }
    match (members.remove("record"), members.remove("text")) {
        (Some(Value::Object(record)), None) => Ok(record),
        (None, Some(Value::String(text))) => parse(text.as_bytes()),
        _ => {
            let message =
                "a line of a rejects file holds the line to be written as the object `record`, or as the text `text`";
            Err(AppError::invalid("record", "required", message))
        }
    }
}

fn record(mut members: Map<String, Value>, reading: &Reading<'_>) -> Result<BulkLine, AppError> {
    let kind = kind_of(&members)?;
    let on_existing = match members.remove(ON_EXISTING) {
        None => reading.on_existing,
        Some(value) => on_existing(kind, &value)?,
    };
    let condition = condition(&members)?;
    let mut problems = Problems::default();
    if on_existing == OnExisting::AddRelationships {
        check_addition(&members, &mut problems);
    }
    let later_relationships = later_relationships(kind, &mut members, &mut problems);
    let record = match kind {
        RecordKind::Individual => {
            BulkRecord::Individual(Box::new(read_individual(members, reading.fields, &mut problems)))
        }
        RecordKind::Group => BulkRecord::Group(Box::new(read_group(members, reading.fields, &mut problems))),
        RecordKind::Program => BulkRecord::Program(Box::new(read_program(members, &mut problems))),
        RecordKind::ProgramMembership => {
            let purpose = if on_existing == OnExisting::Update { Purpose::Replace } else { Purpose::Create };
            BulkRecord::ProgramMembership(Box::new(read_membership(members, purpose, &mut problems)))
        }
        RecordKind::Consent => {
            let (id, is_withdrawn) = consent_members(&mut members, reading.ids, &mut problems)?;
            let draft = read_consent(id, members, &mut problems);
            BulkRecord::Consent(Box::new(draft.with(WITHDRAWN, is_withdrawn.then_some(true))))
        }
    };
    Ok(BulkLine { record: problems.finish(record)?, condition, on_existing, later_relationships })
}

fn kind_of(members: &Map<String, Value>) -> Result<RecordKind, AppError> {
    let names: Vec<&str> = RecordKind::ALL.iter().map(|kind| kind.name()).collect();
    let known = || format!("`type` says what the line is: one of {}", names.join(", "));
    let named = ["type", "resourceType"].iter().find_map(|name| members.get(*name));
    let Some(Value::String(text)) = named else { return Err(AppError::invalid("type", "required", known())) };
    let found = RecordKind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| AppError::invalid("type", "unknown_value", known()))
}

fn on_existing(kind: RecordKind, value: &Value) -> Result<OnExisting, AppError> {
    let known = OnExisting::of_lines(kind);
    let found = known.iter().find(|known| value.as_str() == Some(known.name()));
    found.copied().ok_or_else(|| {
        AppError::invalid(ON_EXISTING, "unknown_value", known_values(known.iter().map(|known| known.name())))
    })
}

/// Reads the number of relationships that a later line adds.
fn later_relationships(kind: RecordKind, members: &mut Map<String, Value>, problems: &mut Problems) -> usize {
    if !matches!(kind, RecordKind::Individual | RecordKind::Group) {
        return 0;
    }
    let Some(value) = members.remove(LATER_RELATIONSHIPS) else { return 0 };
    let listed = members.get(RELATIONSHIP).and_then(Value::as_array).map_or(0, Vec::len);
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok()).filter(|count| *count <= listed);
    count.unwrap_or_else(|| {
        let message = format!("must be a whole number, at most the number of items of `{RELATIONSHIP}`");
        problems.add(LATER_RELATIONSHIPS, "wrong_type", message);
        0
    })
}

/// Checks the members of a line that adds relationships: other fields of the record stay unchanged, so that a value for
/// one of them would be lost.
fn check_addition(members: &Map<String, Value>, problems: &mut Problems) {
    if members.get(RELATIONSHIP).is_none_or(Value::is_null) {
        problems.add(RELATIONSHIP, "required", "a line with `add-relationships` lists the relationships to add");
    }
    for name in members.keys().filter(|name| !ADDITION.contains(&name.as_str())) {
        let message = "a line with `add-relationships` has `identifier` and `relationship` alone";
        problems.add(name, "unknown_field", message);
    }
}

/// Reads the version that a line replaces; an exported record contains it when it is exported with its `meta`.
fn condition(members: &Map<String, Value>) -> Result<VersionCondition, AppError> {
    let version = match members.get("meta").and_then(|meta| meta.get("version_id")) {
        None | Some(Value::Null) => return Ok(VersionCondition::Any),
        Some(Value::String(text)) => text.parse().ok(),
        Some(other) => other.as_u64(),
    };
    match version.filter(|version| *version > 0) {
        Some(version) => Ok(VersionCondition::OneOf(vec![VersionId(version)])),
        None => {
            let message = "the version must be a whole number from 1, as in `meta.version_id` of a response";
            Err(AppError::invalid("meta.version_id", "wrong_type", message))
        }
    }
}

/// Reads the name of a consent and its withdrawal. The create of an administrator accepts neither; an exported consent
/// has both.
fn consent_members(
    members: &mut Map<String, Value>,
    ids: &dyn IdSource,
    problems: &mut Problems,
) -> Result<(ConsentId, bool), AppError> {
    members.remove("meta");
    let is_withdrawn = match members.remove("status") {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) if text == "withdrawn" => true,
        // The date decides expiry.
        Some(Value::String(text)) if text == "given" || text == "expired" => false,
        Some(_) => {
            problems.add("status", "unknown_value", known_values(["given", "withdrawn", "expired"]));
            false
        }
    };
    let given = members.remove("consent_id").filter(|value| !value.is_null());
    let id = match given.and_then(|value| field::consent_id("consent_id", &value, problems)) {
        Some(id) => id,
        None => new_id(ids)?,
    };
    Ok((id, is_withdrawn))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines_of(parts: Vec<Result<&'static [u8], ()>>) -> (Vec<(u64, Option<usize>)>, bool) {
        let parts = parts.into_iter().map(|part| part.map(Bytes::from_static));
        let (mut lines, mut is_broken) = (Vec::new(), false);
        let mut batches = Box::pin(batches(stream::iter(parts), 5));
        while let Some(batch) = batches.next().await {
            match batch {
                Ok(batch) => lines.extend(batch.into_iter().map(|line| (line.line, line.text.map(|text| text.len())))),
                Err(_) => is_broken = true,
            }
        }
        (lines, is_broken)
    }

    #[tokio::test]
    async fn lines_are_cut_wherever_the_parts_end() {
        assert_eq!(lines_of(vec![]).await, (vec![], false));
        let parts = vec![Ok(&b"ab"[..]), Ok(b"c\n\r\nde\n"), Ok(b"\n"), Ok(b"f")];
        assert_eq!(lines_of(parts).await, (vec![(5, Some(3)), (7, Some(2)), (9, Some(1))], false));
    }

    #[tokio::test]
    async fn large_lines_reserve_memory_like_bodies() {
        let (memory, wait_max) = (BodyMemory::default(), Duration::from_millis(10));
        let line = |count: usize| RawLine { line: 1, text: Some(br#"{"":0},"#.repeat(count)) };
        let mut batch = [line(1), line(350_000), line(700_000)];
        let first = reserve(&memory, wait_max, &mut batch).await.unwrap();
        assert_eq!((first.len(), batch.map(|raw| raw.text.is_some())), (1, [true, true, false]));
        let _second = reserve(&memory, wait_max, &mut [line(350_000)]).await.unwrap();
        assert!(matches!(reserve(&memory, wait_max, &mut [line(350_000)]).await, Err(AppError::Busy)));
        drop(first);
        assert!(reserve(&memory, wait_max, &mut [line(350_000)]).await.is_ok());
    }

    #[tokio::test]
    async fn an_incomplete_line_is_ignored() {
        let parts = vec![Ok(&b"ab\nc"[..]), Err(())];
        let (lines, is_broken) = lines_of(parts).await;
        assert!(is_broken && !lines.contains(&(6, Some(1))), "{lines:?}");
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over() {
        let part: &'static [u8] = Box::leak(vec![b'x'; LINE_BYTES_MAX / 2].into_boxed_slice());
        let parts = vec![Ok(part), Ok(part), Ok(b"\n"), Ok(part), Ok(part), Ok(b"y\nz\n")];
        assert_eq!(lines_of(parts).await, (vec![(5, Some(LINE_BYTES_MAX)), (6, None), (7, Some(1))], false));
    }
}

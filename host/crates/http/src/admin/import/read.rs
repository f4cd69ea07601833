//! Reads one line: the body of a create with its `type`, by the readers of single calls.

use serde_json::{Map, Value};

use super::lines::{LINE_BYTES_MAX, RawLine};
use crate::api::dto::field;
use crate::api::dto::reader::{Problems, known_values};
use crate::api::dto::record::{Purpose, read_consent, read_group, read_individual, read_membership, read_program};
use crate::api::extract::body::parse_object;
use daftar_domain::consent::{ConsentId, WITHDRAWN};
use daftar_domain::context::IdSource;
use daftar_domain::error::AppError;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::record::{RecordKind, VersionCondition, VersionId};
use daftar_service::bulk::{BulkLine, BulkRecord, OnExisting};
use daftar_service::consent::new_id;

/// By which a line says for itself what becomes of it when its record is there.
const ON_EXISTING: &str = "$on_existing";

/// What reading a line needs to know.
pub struct Reading<'r> {
    /// The fields that modules add.
    pub fields: &'r ExtensionFields,
    /// Names consents that have no name yet.
    pub ids: &'r dyn IdSource,
    /// What becomes of lines whose record is there, where they say nothing.
    pub on_existing: OnExisting,
}

/// Reads a line.
///
/// # Errors
/// What is wrong with it.
pub fn line(raw: &RawLine, reading: &Reading<'_>) -> Result<BulkLine, AppError> {
    let Some(text) = &raw.text else {
        let message = format!("a line has at most {LINE_BYTES_MAX} bytes");
        return Err(AppError::invalid("", "line_too_long", message));
    };
    // Files that begin with a byte order mark are common; anywhere else it is refused.
    let text = text.strip_prefix(b"\xef\xbb\xbf").filter(|_| raw.line == 1).unwrap_or(text);
    let members = mended(parse(text)?)?;
    record(members, reading)
}

fn parse(text: &[u8]) -> Result<Map<String, Value>, AppError> {
    parse_object(text).map_err(|error| {
        let message = error.0.detail.replacen("the body", "the line", 1);
        AppError::invalid("", "malformed", message)
    })
}

/// What a line of a rejects file holds in the end: the record, or the text that was no record. Any other line is what it is.
fn mended(mut members: Map<String, Value>) -> Result<Map<String, Value>, AppError> {
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
    Ok(BulkLine { record: problems.finish(record)?, condition, on_existing })
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
    let add_members = (OnExisting::AddMembers.name(), OnExisting::AddMembers);
    let words = OnExisting::NAMES.into_iter().chain((kind == RecordKind::Group).then_some(add_members));
    let words: Vec<_> = words.collect();
    let found = words.iter().find(|(name, _)| value.as_str() == Some(*name));
    found.map(|(_, word)| *word).ok_or_else(|| {
        AppError::invalid(ON_EXISTING, "unknown_value", known_values(words.iter().map(|(name, _)| *name)))
    })
}

/// The version that a line names as the one that it replaces; an exported record does so when it is exported with its `meta`.
fn condition(members: &Map<String, Value>) -> Result<VersionCondition, AppError> {
    let version = match members.get("meta").and_then(|meta| meta.get("version_id")) {
        None | Some(Value::Null) => return Ok(VersionCondition::Any),
        Some(Value::String(text)) => text.parse().ok(),
        Some(other) => other.as_u64(),
    };
    match version.filter(|version| *version > 0) {
        Some(version) => Ok(VersionCondition::OneOf(vec![VersionId(version)])),
        None => {
            let message = "a version is a whole number from 1, as `meta.version_id` of an answer says it";
            Err(AppError::invalid("meta.version_id", "wrong_type", message))
        }
    }
}

/// The name of a consent and whether it is withdrawn, which an administrator's create does not take: an exported consent has both.
fn consent_members(
    members: &mut Map<String, Value>,
    ids: &dyn IdSource,
    problems: &mut Problems,
) -> Result<(ConsentId, bool), AppError> {
    members.remove("meta");
    let is_withdrawn = match members.remove("status") {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) if text == "withdrawn" => true,
        // Whether it is over depends on the day.
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

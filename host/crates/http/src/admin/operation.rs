//! Operations on a server for its operator: `/audit`, `/backup`, `/checkup`, `/verification` and `/signing-keys`.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use futures_util::stream;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};
use tokio::sync::mpsc::channel;

use crate::admin::resource::{Administrator, Routes, list};
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::api::error::{ApiError, ApiResult, Problem};
use crate::api::extract::body::JsonObject;
use crate::api::extract::query::{NoParameters, Parameters};
use crate::api::lines::{self, Telling, write_line};
use crate::state::AppState;
use daftar_api_types::admin::ListBody;
use daftar_api_types::admin::client::SigningKeyBody;
use daftar_api_types::admin::operation::{
    AuditEntryBody, CheckBody, CheckupBody, FindingBody, PageBody, VerificationBody, VerificationLine, VerifiedPartBody,
};
use daftar_domain::audit::query::{AuditPosition, AuditQuery};
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::calendar::{format_instant, parse_date};
use daftar_domain::checkup::Check;
use daftar_domain::client::ClientId;
use daftar_domain::error::AppError;
use daftar_domain::verification::{Finding, VerificationEvent, VerificationResult};
use daftar_service::backup::KeyInclusion;
use daftar_service::signing_key::{KeyUse, SigningKey};

/// Default number of entries in a page.
const COUNT_DEFAULT: usize = 100;
/// Maximum number of entries in a page.
const COUNT_MAX: usize = 1_000;
/// Maximum length of a searched text, in bytes: no entry contains a longer one.
const TEXT_BYTES_MAX: usize = 1_024;
/// The parameters.
const KNOWN: [&str; 11] =
    ["from", "to", "client", "actor", "action", "outcome", "record", "request_id", "text", "_count", "cursor"];

/// Returns these paths. Keys are those whose tokens and decisions are accepted, by use, the signing key first.
pub fn routes() -> Routes {
    let keys = list(|app: AppState| async move { Ok(key_bodies(&app, &app.signing_keys.list())) });
    vec![
        ("/audit", get(search_audit)),
        ("/backup", post(backup)),
        ("/checkup", get(checkup)),
        ("/verification", get(verify)),
        ("/signing-keys", keys.merge(post(rotate_key))),
    ]
}

/// Searches the audit log, newest entries first.
async fn search_audit(
    call: Administrator,
    parameters: Result<Parameters, ApiError>,
) -> ApiResult<Json<PageBody<AuditEntryBody>>> {
    call.ctx.trail.set_caller(Actor::Administrator, AuditAction::Audit);
    let parameters = parameters?;
    parameters.expect_only(&KNOWN)?;
    let conditions = read_conditions(&parameters)?;
    let before = match parameters.one("cursor")? {
        None => AuditPosition::END,
        Some(text) => read_cursor(text).ok_or_else(|| {
            AppError::InvalidCursor(
                "`cursor` was not issued by the audit log; omit it to start with the newest entries",
            )
        })?,
    };
    let page = call.app.audit.query(&call.ctx, conditions, before, count(&parameters)?).await?;
    let data = page.entries.iter().map(entry_body).collect();
    Ok(Json(PageBody { data, next: page.next.map(cursor) }))
}

fn count(parameters: &Parameters) -> ApiResult<usize> {
    let Some(text) = parameters.one("_count")? else { return Ok(COUNT_DEFAULT) };
    match text.parse() {
        Ok(count @ 1..=COUNT_MAX) => Ok(count),
        Ok(_) | Err(_) => {
            Err(Problem::malformed(format!("`_count` must be a whole number from 1 to {COUNT_MAX}")).into())
        }
    }
}

fn read_conditions(parameters: &Parameters) -> ApiResult<AuditQuery> {
    let outcomes = AuditOutcome::ALL.map(|one| (one.name(), one));
    let mut query = AuditQuery {
        from: instant(parameters, "from")?,
        to: instant(parameters, "to")?,
        actor: actor(parameters)?,
        actions: Vec::new(),
        outcome: parameters.word("outcome", &outcomes)?,
        target: text(parameters, "record")?,
        request_id: text(parameters, "request_id")?,
        text: text(parameters, "text")?,
    };
    for word in parameters.all("action") {
        let action = AuditAction::ALL.into_iter().find(|action| action.name() == word);
        let known = || Problem::malformed(format!("`action` is one of {}", AuditAction::NAMES.join(", ")));
        query.actions.push(action.ok_or_else(known)?);
    }
    if let (Some(from), Some(to)) = (query.from, query.to)
        && from >= to
    {
        return Err(Problem::malformed("`from` must be before `to`; `to` itself is not included").into());
    }
    Ok(query)
}

fn actor(parameters: &Parameters) -> ApiResult<Option<Actor>> {
    // Actors other than clients.
    let actors = [Actor::Administrator, Actor::System, Actor::Unknown].map(|actor| (actor_name(&actor), actor));
    match (parameters.one("client")?, parameters.word("actor", &actors)?) {
        (Some(_), Some(_)) => Err(Problem::malformed("`client` and `actor` both say as whom; name one of them").into()),
        (Some(id), None) => {
            let client = ClientId::parse(id).map_err(|error| Problem::malformed(format!("`client`: {error}")))?;
            Ok(Some(Actor::Client(client)))
        }
        (None, actor) => Ok(actor),
    }
}

fn actor_name(actor: &Actor) -> &'static str {
    match actor {
        Actor::Client(_) => "client",
        Actor::Administrator => "administrator",
        Actor::System => "system",
        Actor::Unknown => "unknown",
    }
}

/// A timestamp, or the beginning of a day in UTC.
fn instant(parameters: &Parameters, name: &str) -> ApiResult<Option<Timestamp>> {
    let Some(text) = parameters.one(name)? else { return Ok(None) };
    let day = || parse_date(text).ok()?.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp());
    let read = text.parse().ok().or_else(day);
    let detail =
        || format!("`{name}` is an instant such as `2026-01-31T12:00:00Z` or a day such as `2026-01-31` (UTC)");
    read.map(Some).ok_or_else(|| Problem::malformed(detail()).into())
}

fn text(parameters: &Parameters, name: &str) -> ApiResult<Option<String>> {
    match parameters.one(name)? {
        None => Ok(None),
        Some(text) if (1..=TEXT_BYTES_MAX).contains(&text.len()) => Ok(Some(text.to_owned())),
        Some(_) => Err(Problem::malformed(format!("`{name}` is a text of 1 to {TEXT_BYTES_MAX} bytes")).into()),
    }
}

fn entry_body(entry: &AuditEntry) -> AuditEntryBody {
    let client = if let Actor::Client(client) = &entry.actor { Some(client.to_string()) } else { None };
    AuditEntryBody {
        at: format_instant(entry.at),
        actor: actor_name(&entry.actor).to_owned(),
        client,
        address: entry.address.map(|address| match address {
            std::net::IpAddr::V4(address) => address.to_string(),
            std::net::IpAddr::V6(network) => format!("{network}/64"),
        }),
        action: entry.action.name().to_owned(),
        outcome: entry.outcome.name().to_owned(),
        status: entry.status,
        operation: entry.operation.as_deref().map(str::to_owned),
        request_id: entry.request_id.clone(),
        records: entry.targets.clone(),
        fields: entry.fields.to_vec(),
        consents: entry.consents.iter().map(ToString::to_string).collect(),
        reason: entry.reason.clone(),
        note: entry.note.clone(),
        count: entry.count,
    }
}

/// Formats a position as a cursor.
fn cursor(position: AuditPosition) -> String {
    format!("{:x}-{:x}", position.value, position.line)
}

/// Parses a cursor.
fn read_cursor(text: &str) -> Option<AuditPosition> {
    let (value, line) = text.split_once('-')?;
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_plain(value) || !is_plain(line) {
        return None;
    }
    let (value, line) = (u64::from_str_radix(value, 16).ok()?, u32::from_str_radix(line, 16).ok()?);
    Some(AuditPosition { value, line })
}

/// Content type of a backup.
pub const BACKUP_CONTENT_TYPE: &str = "application/vnd.daftar.backup";

/// Sends a backup of the register at its current state; `keys=false` leaves out the keys. A backup that fails is
/// interrupted: without its last block it is invalid.
async fn backup(call: Administrator, parameters: Parameters) -> ApiResult {
    parameters.expect_only(&["keys"])?;
    let keys = if parameters.boolean("keys")?.unwrap_or(true) { KeyInclusion::Included } else { KeyInclusion::LeftOut };
    let blocks = call.app.backups.begin(&call.ctx, keys).await?;
    let blocks = stream::unfold(blocks, |mut blocks| async move {
        let block = blocks.recv().await?;
        Some((block.map(Bytes::from), blocks))
    });
    Ok(([(header::CONTENT_TYPE, BACKUP_CONTENT_TYPE)], Body::from_stream(blocks)).into_response())
}

/// Maximum number of lines waiting to be sent.
const WAITING_MAX: usize = 64;

/// Checks how the server is set up; changes nothing.
async fn checkup(call: Administrator, _: NoParameters) -> ApiResult<Json<CheckupBody>> {
    Ok(Json(checkup_body(call.app.program.checkup(&call.app).await?)))
}

/// Returns checks as bodies.
#[must_use]
pub fn checkup_body(checks: Vec<Check>) -> CheckupBody {
    let body = |check| {
        let Check { area, name, state, message, remedy } = check;
        let (area, check, state) = (area.name().to_owned(), name.to_owned(), state.name().to_owned());
        CheckBody { area, check, state, message, remedy }
    };
    CheckupBody::new(checks.into_iter().map(body).collect())
}

/// Verifies the complete register, and reports findings while it runs: one JSON object a line.
async fn verify(call: Administrator, _: NoParameters) -> ApiResult {
    let run = call.app.verifier.begin(&call.ctx).await?;
    let (events, reported) = channel(WAITING_MAX);
    let lines = VerificationLines(VerificationResult::default());
    Ok(lines::response(&call.app.spools, &call.ctx.actor, run.run(events), reported, lines))
}

/// The events of a verification run as lines, and its result so far.
struct VerificationLines(VerificationResult);

impl Telling for VerificationLines {
    type Event = VerificationEvent;
    type End = Result<(), AppError>;

    fn lines(&mut self, event: VerificationEvent) -> Option<Vec<u8>> {
        self.0.count(&event).then(|| line_bytes(&event_line(event)))
    }

    fn last(&mut self, end: Self::End) -> Vec<u8> {
        line_bytes(&match end {
            Err(failure) => VerificationLine::Error(failure.to_string()),
            Ok(()) => VerificationLine::Result(result_body(&self.0)),
        })
    }
}

fn line_bytes(line: &VerificationLine) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_line(line, &mut bytes);
    bytes
}

/// The line of an event.
#[must_use]
pub fn event_line(event: VerificationEvent) -> VerificationLine {
    match event {
        VerificationEvent::Progress { part, done, total } => {
            VerificationLine::Progress { part: part.name().to_owned(), done, total }
        }
        VerificationEvent::Finding(Finding { part, place, problem, remedy }) => {
            let (part, remedy) = (part.name().to_owned(), remedy.text().to_owned());
            VerificationLine::Finding(FindingBody { part, place, problem, remedy })
        }
    }
}

/// The result of a run.
#[must_use]
pub fn result_body(result: &VerificationResult) -> VerificationBody {
    let (checked, findings) = (result.checked(), result.findings());
    let parts = result.parts().map(|part| VerifiedPartBody {
        part: part.part.name().to_owned(),
        checked: part.checked,
        findings: part.findings,
    });
    VerificationBody { valid: findings == 0, checked, findings, parts: parts.collect() }
}

/// The uses of keys as bodies name them.
const USES: &[(&str, KeyUse)] = &[("tokens", KeyUse::Tokens), ("decisions", KeyUse::Decisions)];

/// Creates a new signing key. A replaced key of tokens is accepted for `overlap_s` seconds more, or without it for the
/// lifetime of its tokens; a replaced key of decisions stays accepted.
async fn rotate_key(
    call: Administrator,
    _: NoParameters,
    JsonObject(members): JsonObject,
) -> ApiResult<(StatusCode, Json<ListBody<SigningKeyBody>>)> {
    let (usage, overlap_s) = Problems::of(|problems| read_rotation(members, problems))?;
    let keys = call.app.signing_keys.rotate(&call.ctx, usage, overlap_s).await?;
    Ok((StatusCode::CREATED, Json(ListBody { data: key_bodies(&call.app, &keys) })))
}

/// Reads `{use?, overlap_s?}`.
fn read_rotation(members: Map<String, Value>, problems: &mut Problems) -> (KeyUse, Option<u32>) {
    let mut reader = ObjectReader::root(members);
    let usage = reader.word("use", USES, problems).unwrap_or_default();
    let overlap_s = reader.count("overlap_s", problems);
    reader.finish(problems);
    (usage, overlap_s)
}

fn key_bodies(app: &AppState, keys: &[SigningKey]) -> Vec<SigningKeyBody> {
    let now = app.clock.now();
    let body = |key: &SigningKey| SigningKeyBody {
        kid: key.id.clone(),
        r#use: key.usage.name().to_owned(),
        status: if key.is_current { "signs".to_owned() } else { "accepted".to_owned() },
        created_at: format_instant(key.created_at),
        age_days: now.duration_since(key.created_at).as_hours().max(0) / 24,
        accepted_until: key.accepted_until.map(format_instant),
        public_key: key.public_key.clone(),
    };
    keys.iter().map(body).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_other_texts_are_rejected() {
        for position in
            [AuditPosition { value: 0, line: 0 }, AuditPosition { value: 77, line: 255 }, AuditPosition::END]
        {
            assert_eq!(read_cursor(&cursor(position)), Some(position));
        }
        for wrong in ["", "-", "1", "1-", "-1", "+1-1", "1-+1", "g-1", "1-1-1", "1-100000000"] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }
}

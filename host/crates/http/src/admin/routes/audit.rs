//! `/audit`

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::admin::access::Administrator;
use crate::admin::dto::audit::{AuditLineBody, AuditPageBody, OUTCOMES, actions, cursor, read_cursor};
use crate::api::error::{ApiError, Problem};
use crate::api::extract::query::{Parameters, RawQuery};
use crate::state::AppState;
use daftar_domain::audit::query::{AuditPosition, AuditQuery};
use daftar_domain::audit::{Actor, AuditAction};
use daftar_domain::calendar::parse_date;
use daftar_domain::client::ClientId;

/// How many lines a page has where nothing is said.
const COUNT_DEFAULT: usize = 100;
/// The most lines of a page.
const COUNT_MAX: usize = 1_000;
/// The longest text that is looked for, in bytes: longer ones are in no line.
const TEXT_BYTES_MAX: usize = 1_024;
/// The parameters.
const KNOWN: [&str; 11] =
    ["from", "to", "client", "actor", "action", "outcome", "record", "request_id", "text", "_count", "cursor"];

/// Looks through the audit log, newest lines first.
pub async fn query(
    Administrator(ctx): Administrator,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Json<AuditPageBody>, ApiError> {
    ctx.trail.set_caller(Actor::Administrator, AuditAction::Audit);
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&KNOWN)?;
    let conditions = read_conditions(&parameters)?;
    let before = match parameters.one("cursor")? {
        None => AuditPosition::END,
        Some(text) => read_cursor(text).ok_or_else(|| {
            Problem::malformed("`cursor` is none that the audit log gave; leave it out to begin with the newest lines")
        })?,
    };
    let page = app.audit.query(&ctx, conditions, before, count(&parameters)?).await?;
    let data = page.entries.iter().map(AuditLineBody::from).collect();
    Ok(Json(AuditPageBody { data, next: page.next.map(cursor) }))
}

fn count(parameters: &Parameters) -> Result<usize, ApiError> {
    let Some(text) = parameters.one("_count")? else { return Ok(COUNT_DEFAULT) };
    match text.parse() {
        Ok(count @ 1..=COUNT_MAX) => Ok(count),
        Ok(_) | Err(_) => Err(Problem::malformed(format!("`_count` is a whole number from 1 to {COUNT_MAX}")).into()),
    }
}

fn read_conditions(parameters: &Parameters) -> Result<AuditQuery, ApiError> {
    let actions = actions();
    let mut query = AuditQuery {
        from: instant(parameters, "from")?,
        to: instant(parameters, "to")?,
        actor: actor(parameters)?,
        actions: Vec::new(),
        outcome: parameters.word("outcome", &OUTCOMES)?,
        target: text(parameters, "record")?,
        request_id: text(parameters, "request_id")?,
        text: text(parameters, "text")?,
    };
    for word in parameters.all("action") {
        match actions.iter().find(|(name, _)| *name == word) {
            Some((_, action)) => query.actions.push(*action),
            None => {
                let names: Vec<&str> = actions.iter().map(|(name, _)| *name).collect();
                return Err(Problem::malformed(format!("`action` is one of {}", names.join(", "))).into());
            }
        }
    }
    if let (Some(from), Some(to)) = (query.from, query.to)
        && from >= to
    {
        return Err(Problem::malformed("`from` lies before `to`; `to` itself is not included").into());
    }
    Ok(query)
}

fn actor(parameters: &Parameters) -> Result<Option<Actor>, ApiError> {
    let actors = [("administrator", Actors::Administrator), ("system", Actors::System), ("unknown", Actors::Unknown)];
    match (parameters.one("client")?, parameters.word("actor", &actors)?) {
        (Some(_), Some(_)) => Err(Problem::malformed("`client` and `actor` both say as whom; name one of them").into()),
        (Some(id), None) => {
            let client = ClientId::parse(id).map_err(|error| Problem::malformed(format!("`client`: {error}")))?;
            Ok(Some(Actor::Client(client)))
        }
        (None, Some(Actors::Administrator)) => Ok(Some(Actor::Administrator)),
        (None, Some(Actors::System)) => Ok(Some(Actor::System)),
        (None, Some(Actors::Unknown)) => Ok(Some(Actor::Unknown)),
        (None, None) => Ok(None),
    }
}

/// The actors that are no client.
#[derive(Clone, Copy)]
enum Actors {
    Administrator,
    System,
    Unknown,
}

/// An instant, or the beginning of a day in UTC.
fn instant(parameters: &Parameters, name: &str) -> Result<Option<Timestamp>, ApiError> {
    let Some(text) = parameters.one(name)? else { return Ok(None) };
    let day = || parse_date(text).ok()?.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp());
    let read = text.parse().ok().or_else(day);
    let detail =
        || format!("`{name}` is an instant such as `2026-01-31T12:00:00Z` or a day such as `2026-01-31` (UTC)");
    read.map(Some).ok_or_else(|| Problem::malformed(detail()).into())
}

fn text(parameters: &Parameters, name: &str) -> Result<Option<String>, ApiError> {
    match parameters.one(name)? {
        None => Ok(None),
        Some(text) if (1..=TEXT_BYTES_MAX).contains(&text.len()) => Ok(Some(text.to_owned())),
        Some(_) => Err(Problem::malformed(format!("`{name}` is a text of 1 to {TEXT_BYTES_MAX} bytes")).into()),
    }
}

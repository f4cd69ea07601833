//! `/audit`

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::admin::access::Administrator;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::query::{Parameters, RawQuery};
use crate::state::AppState;
use daftar_api_types::admin::operation::{AuditEntryBody, PageBody};
use daftar_domain::audit::query::{AuditPosition, AuditQuery};
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::calendar::{format_instant, parse_date};
use daftar_domain::client::ClientId;
use daftar_domain::error::AppError;

/// How many entries a page has by default.
const COUNT_DEFAULT: usize = 100;
/// The most entries of a page.
const COUNT_MAX: usize = 1_000;
/// The longest text that is searched for, in bytes: longer ones are in no entry.
const TEXT_BYTES_MAX: usize = 1_024;
/// The parameters.
const KNOWN: [&str; 11] =
    ["from", "to", "client", "actor", "action", "outcome", "record", "request_id", "text", "_count", "cursor"];

/// Searches the audit log, newest entries first.
pub async fn query(
    Administrator(ctx): Administrator,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Json<PageBody<AuditEntryBody>>, ApiError> {
    ctx.trail.set_caller(Actor::Administrator, AuditAction::Audit);
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&KNOWN)?;
    let conditions = read_conditions(&parameters)?;
    let before = match parameters.one("cursor")? {
        None => AuditPosition::END,
        Some(text) => read_cursor(text).ok_or_else(|| {
            AppError::InvalidCursor(
                "`cursor` is none that the audit log gave; leave it out to begin with the newest lines",
            )
        })?,
    };
    let page = app.audit.query(&ctx, conditions, before, count(&parameters)?).await?;
    let data = page.entries.iter().map(entry_body).collect();
    Ok(Json(PageBody { data, next: page.next.map(cursor) }))
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

/// Every outcome by its name.
const OUTCOMES: [(&str, AuditOutcome); 3] =
    [("allowed", AuditOutcome::Allowed), ("refused", AuditOutcome::Refused), ("failed", AuditOutcome::Failed)];

/// Every action by its name.
fn actions() -> [(&'static str, AuditAction); 9] {
    use AuditAction::{Administer, Audit, Authenticate, Create, Evaluate, Plugin, Read, Search, Update};
    [Read, Search, Create, Update, Evaluate, Administer, Plugin, Authenticate, Audit].map(|one| (action_name(one), one))
}

fn action_name(action: AuditAction) -> &'static str {
    match action {
        AuditAction::Read => "read",
        AuditAction::Search => "search",
        AuditAction::Create => "create",
        AuditAction::Update => "update",
        AuditAction::Evaluate => "evaluate",
        AuditAction::Administer => "administer",
        AuditAction::Plugin => "plugin",
        AuditAction::Authenticate => "authenticate",
        AuditAction::Audit => "audit",
    }
}

fn outcome_name(outcome: AuditOutcome) -> &'static str {
    match outcome {
        AuditOutcome::Allowed => "allowed",
        AuditOutcome::Refused => "refused",
        AuditOutcome::Failed => "failed",
    }
}

fn entry_body(entry: &AuditEntry) -> AuditEntryBody {
    let (actor, client) = match &entry.actor {
        Actor::Client(client) => ("client", Some(client.to_string())),
        Actor::Administrator => ("administrator", None),
        Actor::System => ("system", None),
        Actor::Unknown => ("unknown", None),
    };
    AuditEntryBody {
        at: format_instant(entry.at),
        actor: actor.to_owned(),
        client,
        address: entry.address.map(|address| match address {
            std::net::IpAddr::V4(address) => address.to_string(),
            std::net::IpAddr::V6(network) => format!("{network}/64"),
        }),
        action: action_name(entry.action).to_owned(),
        outcome: outcome_name(entry.outcome).to_owned(),
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

/// A position as text.
fn cursor(position: AuditPosition) -> String {
    format!("{:x}-{:x}", position.value, position.line)
}

/// The position that a text names.
fn read_cursor(text: &str) -> Option<AuditPosition> {
    let (value, line) = text.split_once('-')?;
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_plain(value) || !is_plain(line) {
        return None;
    }
    let (value, line) = (u64::from_str_radix(value, 16).ok()?, u32::from_str_radix(line, 16).ok()?);
    Some(AuditPosition { value, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back_and_nothing_else_is_one() {
        for position in
            [AuditPosition { value: 0, line: 0 }, AuditPosition { value: 77, line: 255 }, AuditPosition::END]
        {
            assert_eq!(read_cursor(&cursor(position)), Some(position));
        }
        for wrong in ["", "-", "1", "1-", "-1", "+1-1", "1-+1", "g-1", "1-1-1", "1-100000000"] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_action_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = actions().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), actions().len());
    }
}

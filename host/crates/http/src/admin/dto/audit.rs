//! Lines of the audit log as the administrator sees them.

use serde::Serialize;

use daftar_domain::audit::query::AuditPosition;
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::calendar::format_instant;

/// Every outcome by its name.
pub const OUTCOMES: [(&str, AuditOutcome); 3] =
    [("allowed", AuditOutcome::Allowed), ("refused", AuditOutcome::Refused), ("failed", AuditOutcome::Failed)];

/// Every action by its name.
#[must_use]
pub fn actions() -> [(&'static str, AuditAction); 9] {
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

/// A page of the audit log.
#[derive(Debug, Serialize)]
pub struct AuditPageBody {
    /// The lines, newest first.
    pub data: Vec<AuditLineBody>,
    /// What to send as `cursor` for older lines; null when there are none.
    pub next: Option<String>,
}

/// One line.
#[derive(Debug, Serialize)]
pub struct AuditLineBody {
    at: String,
    actor: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    action: &'static str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    request_id: String,
    records: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    consents: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    count: u64,
}

impl From<&AuditEntry> for AuditLineBody {
    fn from(entry: &AuditEntry) -> Self {
        let (actor, client) = match &entry.actor {
            Actor::Client(client) => ("client", Some(client.to_string())),
            Actor::Administrator => ("administrator", None),
            Actor::System => ("system", None),
            Actor::Unknown => ("unknown", None),
        };
        Self {
            at: format_instant(entry.at),
            actor,
            client,
            address: entry.address.map(|address| match address {
                std::net::IpAddr::V4(address) => address.to_string(),
                std::net::IpAddr::V6(network) => format!("{network}/64"),
            }),
            action: action_name(entry.action),
            outcome: outcome_name(entry.outcome),
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
}

/// A place as text.
#[must_use]
pub fn cursor(position: AuditPosition) -> String {
    format!("{:x}-{:x}", position.value, position.line)
}

/// The place that a text names.
#[must_use]
pub fn read_cursor(text: &str) -> Option<AuditPosition> {
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

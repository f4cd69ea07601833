//! Lines of the audit log as they were stored first.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use crate::domain::client::ClientId;
use crate::store::record::instant::instant;
#[cfg(test)]
use crate::store::record::instant::milliseconds;
use crate::store::record::{StoredForm, Unreadable};

/// Lines of the audit log, oldest first, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAuditV1 {
    pub(super) entries: Vec<StoredAuditEntryV1>,
}

impl StoredForm for StoredAuditV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "part of the audit log";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredAuditEntryV1 {
    at_ms: i64,
    actor: StoredActorV1,
    request_id: String,
    action: StoredAuditActionV1,
    outcome: StoredAuditOutcomeV1,
    targets: Vec<String>,
    note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StoredActorV1 {
    Client(String),
    Administrator,
    System,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredAuditActionV1 {
    Read,
    Search,
    Create,
    Update,
    Evaluate,
    Administer,
    Plugin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredAuditOutcomeV1 {
    Allowed,
    Refused,
}

impl TryFrom<StoredAuditEntryV1> for AuditEntry {
    type Error = Unreadable;

    fn try_from(stored: StoredAuditEntryV1) -> Result<Self, Unreadable> {
        Ok(Self {
            at: instant(stored.at_ms)?,
            actor: match stored.actor {
                StoredActorV1::Client(client) => {
                    Actor::Client(ClientId::parse(&client).map_err(|_| Unreadable::field("actor"))?)
                }
                StoredActorV1::Administrator => Actor::Administrator,
                StoredActorV1::System => Actor::System,
            },
            address: None,
            request_id: stored.request_id,
            operation: None,
            action: match stored.action {
                StoredAuditActionV1::Read => AuditAction::Read,
                StoredAuditActionV1::Search => AuditAction::Search,
                StoredAuditActionV1::Create => AuditAction::Create,
                StoredAuditActionV1::Update => AuditAction::Update,
                StoredAuditActionV1::Evaluate => AuditAction::Evaluate,
                StoredAuditActionV1::Administer => AuditAction::Administer,
                StoredAuditActionV1::Plugin => AuditAction::Plugin,
            },
            outcome: match stored.outcome {
                StoredAuditOutcomeV1::Allowed => AuditOutcome::Allowed,
                StoredAuditOutcomeV1::Refused => AuditOutcome::Refused,
            },
            status: None,
            targets: stored.targets,
            fields: Arc::default(),
            consents: Vec::new(),
            reason: None,
            note: stored.note,
            count: 1,
        })
    }
}

#[cfg(test)]
impl From<&[AuditEntry]> for StoredAuditV1 {
    /// Only golden files are still written so.
    fn from(entries: &[AuditEntry]) -> Self {
        Self { entries: entries.iter().map(StoredAuditEntryV1::from).collect() }
    }
}

#[cfg(test)]
impl From<&AuditEntry> for StoredAuditEntryV1 {
    fn from(entry: &AuditEntry) -> Self {
        Self {
            at_ms: milliseconds(entry.at),
            actor: match &entry.actor {
                Actor::Client(client) => StoredActorV1::Client(client.as_str().to_owned()),
                Actor::Administrator => StoredActorV1::Administrator,
                Actor::System => StoredActorV1::System,
                Actor::Unknown => panic!("version 1 knows every actor"),
            },
            request_id: entry.request_id.clone(),
            action: match entry.action {
                AuditAction::Read => StoredAuditActionV1::Read,
                AuditAction::Search => StoredAuditActionV1::Search,
                AuditAction::Create => StoredAuditActionV1::Create,
                AuditAction::Update => StoredAuditActionV1::Update,
                AuditAction::Evaluate => StoredAuditActionV1::Evaluate,
                AuditAction::Administer => StoredAuditActionV1::Administer,
                AuditAction::Plugin => StoredAuditActionV1::Plugin,
                AuditAction::Authenticate | AuditAction::Audit => panic!("version 1 knows no such action"),
            },
            outcome: match entry.outcome {
                AuditOutcome::Allowed => StoredAuditOutcomeV1::Allowed,
                AuditOutcome::Refused => StoredAuditOutcomeV1::Refused,
                AuditOutcome::Failed => panic!("version 1 knows no such outcome"),
            },
            targets: entry.targets.clone(),
            note: entry.note.clone(),
        }
    }
}

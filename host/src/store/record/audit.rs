//! How lines of the audit log are stored: many in one value, so that reads cost little.

use serde::{Deserialize, Serialize};

use crate::domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use crate::domain::client::ClientId;
use crate::store::StoreError;

use super::instant::{as_stored, instant, milliseconds};
use super::parts::each;
use super::{StoredForm, Unreadable, decode_as};

/// The most lines of one stored value.
pub const ENTRIES_PER_VALUE_MAX: usize = 256;

/// Lines of the audit log, oldest first, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAuditV1 {
    entries: Vec<StoredAuditEntryV1>,
}

impl StoredForm for StoredAuditV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "part of the audit log";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredAuditEntryV1 {
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

/// The bytes of lines of the audit log.
///
/// # Errors
/// [`StoreError::LimitReached`] when they are too many.
pub fn encode(entries: &[AuditEntry]) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredAuditV1 { entries: entries.iter().map(StoredAuditEntryV1::from).collect() })
}

/// The lines that the bytes hold, oldest first.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Vec<AuditEntry>, StoreError> {
    decode_as(bytes, |stored: StoredAuditV1| each(stored.entries))
}

/// The line as it will be read back: its instant to the millisecond.
#[must_use]
pub fn entry_as_stored(entry: AuditEntry) -> AuditEntry {
    AuditEntry { at: as_stored(entry.at), ..entry }
}

impl From<&AuditEntry> for StoredAuditEntryV1 {
    fn from(entry: &AuditEntry) -> Self {
        Self {
            at_ms: milliseconds(entry.at),
            actor: match &entry.actor {
                Actor::Client(client) => StoredActorV1::Client(client.as_str().to_owned()),
                Actor::Administrator => StoredActorV1::Administrator,
                Actor::System => StoredActorV1::System,
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
            },
            outcome: match entry.outcome {
                AuditOutcome::Allowed => StoredAuditOutcomeV1::Allowed,
                AuditOutcome::Refused => StoredAuditOutcomeV1::Refused,
            },
            targets: entry.targets.clone(),
            note: entry.note.clone(),
        }
    }
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
            request_id: stored.request_id,
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
            targets: stored.targets,
            note: stored.note,
        })
    }
}

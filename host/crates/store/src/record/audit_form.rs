//! Lines of the audit log with call, address, status, fields, consents and reason. Texts that lines share are stored once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::instant::{instant, milliseconds};
use crate::record::{StoredForm, Unreadable};
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::client::ClientId;
use daftar_domain::consent::ConsentId;

/// Lines of the audit log, oldest first, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAuditV1 {
    /// Texts that lines name by their place here: clients, calls, fields, reasons and notes.
    words: Vec<String>,
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
    address: Option<StoredAddressV1>,
    request_id: StoredRequestIdV1,
    operation: Option<u32>,
    action: StoredAuditActionV1,
    outcome: StoredAuditOutcomeV1,
    status: Option<u16>,
    targets: Vec<String>,
    fields: Vec<u32>,
    consents: Vec<[u8; 16]>,
    reason: Option<u32>,
    note: Option<u32>,
    count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredActorV1 {
    Client(u32),
    Administrator,
    System,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredAddressV1 {
    V4([u8; 4]),
    V6([u8; 16]),
}

/// What a request is called: nearly always 32 hexadecimal digits, which are 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StoredRequestIdV1 {
    Digits([u8; 16]),
    Text(String),
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
    Authenticate,
    Audit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredAuditOutcomeV1 {
    Allowed,
    Refused,
    Failed,
}

impl StoredAuditV1 {
    /// The form of lines.
    pub(super) fn of(entries: &[AuditEntry]) -> Self {
        let mut words = Words::default();
        let entries = entries.iter().map(|entry| StoredAuditEntryV1::of(entry, &mut words)).collect();
        Self { words: words.list.into_iter().map(str::to_owned).collect(), entries }
    }

    /// The lines of the form.
    pub(super) fn lines(self) -> Result<Vec<AuditEntry>, Unreadable> {
        let words: Vec<Arc<str>> = self.words.into_iter().map(Arc::from).collect();
        self.entries.into_iter().map(|entry| entry.line(&words)).collect()
    }
}

/// The texts of a value, each once.
#[derive(Default)]
struct Words<'e> {
    list: Vec<&'e str>,
    places: HashMap<&'e str, u32>,
}

impl<'e> Words<'e> {
    fn place(&mut self, word: &'e str) -> u32 {
        let next = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        *self.places.entry(word).or_insert_with(|| {
            self.list.push(word);
            next
        })
    }
}

fn word(words: &[Arc<str>], place: u32) -> Result<&Arc<str>, Unreadable> {
    let word = usize::try_from(place).ok().and_then(|place| words.get(place));
    word.ok_or_else(|| Unreadable("it names a text that it does not hold".to_owned()))
}

fn text(words: &[Arc<str>], place: Option<u32>) -> Result<Option<String>, Unreadable> {
    place.map(|place| word(words, place).map(|word| word.to_string())).transpose()
}

impl StoredAuditEntryV1 {
    fn of<'e>(entry: &'e AuditEntry, words: &mut Words<'e>) -> Self {
        Self {
            at_ms: milliseconds(entry.at),
            actor: match &entry.actor {
                Actor::Client(client) => StoredActorV1::Client(words.place(client.as_str())),
                Actor::Administrator => StoredActorV1::Administrator,
                Actor::System => StoredActorV1::System,
                Actor::Unknown => StoredActorV1::Unknown,
            },
            address: entry.address.map(|address| match address {
                IpAddr::V4(address) => StoredAddressV1::V4(address.octets()),
                IpAddr::V6(address) => StoredAddressV1::V6(address.octets()),
            }),
            request_id: StoredRequestIdV1::of(&entry.request_id),
            operation: entry.operation.as_deref().map(|operation| words.place(operation)),
            action: entry.action.into(),
            outcome: match entry.outcome {
                AuditOutcome::Allowed => StoredAuditOutcomeV1::Allowed,
                AuditOutcome::Refused => StoredAuditOutcomeV1::Refused,
                AuditOutcome::Failed => StoredAuditOutcomeV1::Failed,
            },
            status: entry.status,
            targets: entry.targets.clone(),
            fields: entry.fields.iter().map(|field| words.place(field)).collect(),
            consents: entry.consents.iter().map(|consent| consent.to_bytes()).collect(),
            reason: entry.reason.as_deref().map(|reason| words.place(reason)),
            note: entry.note.as_deref().map(|note| words.place(note)),
            count: entry.count,
        }
    }

    fn line(self, words: &[Arc<str>]) -> Result<AuditEntry, Unreadable> {
        let fields: Result<Vec<_>, _> =
            self.fields.into_iter().map(|field| word(words, field).map(|field| field.to_string())).collect();
        Ok(AuditEntry {
            at: instant(self.at_ms)?,
            actor: match self.actor {
                StoredActorV1::Client(client) => {
                    Actor::Client(ClientId::parse(word(words, client)?).map_err(|_| Unreadable::field("actor"))?)
                }
                StoredActorV1::Administrator => Actor::Administrator,
                StoredActorV1::System => Actor::System,
                StoredActorV1::Unknown => Actor::Unknown,
            },
            address: self.address.map(|address| match address {
                StoredAddressV1::V4(octets) => IpAddr::from(octets),
                StoredAddressV1::V6(octets) => IpAddr::from(octets),
            }),
            request_id: self.request_id.into_text(),
            operation: self.operation.map(|operation| word(words, operation).cloned()).transpose()?,
            action: self.action.into(),
            outcome: match self.outcome {
                StoredAuditOutcomeV1::Allowed => AuditOutcome::Allowed,
                StoredAuditOutcomeV1::Refused => AuditOutcome::Refused,
                StoredAuditOutcomeV1::Failed => AuditOutcome::Failed,
            },
            status: self.status,
            targets: self.targets,
            fields: fields?.into(),
            consents: self.consents.into_iter().map(ConsentId::from_bytes).collect(),
            reason: text(words, self.reason)?,
            note: text(words, self.note)?,
            count: self.count,
        })
    }
}

impl StoredRequestIdV1 {
    fn of(id: &str) -> Self {
        // Only what comes back as it was: 32 digits, no capital letters.
        match u128::from_str_radix(id, 16) {
            Ok(number) if format!("{number:032x}") == id => Self::Digits(number.to_be_bytes()),
            Ok(_) | Err(_) => Self::Text(id.to_owned()),
        }
    }

    fn into_text(self) -> String {
        match self {
            Self::Digits(bytes) => format!("{:032x}", u128::from_be_bytes(bytes)),
            Self::Text(id) => id,
        }
    }
}

impl From<AuditAction> for StoredAuditActionV1 {
    fn from(action: AuditAction) -> Self {
        match action {
            AuditAction::Read => Self::Read,
            AuditAction::Search => Self::Search,
            AuditAction::Create => Self::Create,
            AuditAction::Update => Self::Update,
            AuditAction::Evaluate => Self::Evaluate,
            AuditAction::Administer => Self::Administer,
            AuditAction::Plugin => Self::Plugin,
            AuditAction::Authenticate => Self::Authenticate,
            AuditAction::Audit => Self::Audit,
        }
    }
}

impl From<StoredAuditActionV1> for AuditAction {
    fn from(action: StoredAuditActionV1) -> Self {
        match action {
            StoredAuditActionV1::Read => Self::Read,
            StoredAuditActionV1::Search => Self::Search,
            StoredAuditActionV1::Create => Self::Create,
            StoredAuditActionV1::Update => Self::Update,
            StoredAuditActionV1::Evaluate => Self::Evaluate,
            StoredAuditActionV1::Administer => Self::Administer,
            StoredAuditActionV1::Plugin => Self::Plugin,
            StoredAuditActionV1::Authenticate => Self::Authenticate,
            StoredAuditActionV1::Audit => Self::Audit,
        }
    }
}

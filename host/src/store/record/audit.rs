//! How lines of the audit log are stored: many in one value, so that reads cost little.

use serde::{Deserialize, Serialize};

use crate::domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use crate::domain::client::ClientId;
use crate::store::StoreError;

use super::instant::{as_stored, instant, milliseconds};
use super::parts::each;
use super::{StoredForm, Unreadable, VALUE_BYTES_MAX, decode_as};

/// The most lines of one stored value.
pub const ENTRIES_PER_VALUE_MAX: usize = 256;
/// More than what a line takes besides its texts, and a value besides its lines.
const FRAME_BYTES: usize = 64;
/// More than what the length of a text takes.
const LENGTH_BYTES: usize = 10;
/// What a line that is cut keeps of its request's id, and of its note.
const CUT_TEXT_BYTES: usize = 1024;

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

/// The bytes of lines of the audit log: as few values as hold them, in order.
///
/// Every line that went through [`entry_as_stored`] fits into a value.
///
/// # Errors
/// [`StoreError::TooLarge`] when a single line does not fit.
pub fn encode(entries: &[AuditEntry]) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut values = Vec::new();
    for lines in entries.chunks(ENTRIES_PER_VALUE_MAX) {
        encode_halves(lines, &mut values)?;
    }
    Ok(values)
}

/// Encodes lines as one value, or their halves when they do not fit.
fn encode_halves(lines: &[AuditEntry], values: &mut Vec<Vec<u8>>) -> Result<(), StoreError> {
    match super::encode(&StoredAuditV1 { entries: lines.iter().map(StoredAuditEntryV1::from).collect() }) {
        Ok(value) => values.push(value),
        Err(StoreError::TooLarge { .. }) if lines.len() > 1 => {
            let (older, newer) = lines.split_at(lines.len() / 2);
            encode_halves(older, values)?;
            encode_halves(newer, values)?;
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The lines that the bytes hold, oldest first.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Vec<AuditEntry>, StoreError> {
    decode_as(bytes, |stored: StoredAuditV1| each(stored.entries))
}

/// The line as it will be read back: its instant to the millisecond, and cut when it would not fit into a value. A note
/// says how many targets were cut.
#[must_use]
pub fn entry_as_stored(entry: AuditEntry) -> AuditEntry {
    let entry = AuditEntry { at: as_stored(entry.at), ..entry };
    if stored_bytes(&entry) > VALUE_BYTES_MAX { cut(entry) } else { entry }
}

/// No less than what the line takes as it is stored.
#[must_use]
pub fn stored_bytes(entry: &AuditEntry) -> usize {
    let actor = match &entry.actor {
        Actor::Client(client) => client.as_str().len(),
        Actor::Administrator | Actor::System => 0,
    };
    let note = entry.note.as_ref().map_or(0, String::len);
    let frame = FRAME_BYTES.saturating_add(actor).saturating_add(entry.request_id.len()).saturating_add(note);
    entry.targets.iter().fold(frame, |bytes, target| bytes.saturating_add(target_bytes(target)))
}

fn target_bytes(target: &str) -> usize {
    target.len().saturating_add(LENGTH_BYTES)
}

/// Cuts what does not fit into a value.
fn cut(mut entry: AuditEntry) -> AuditEntry {
    cut_text(&mut entry.request_id);
    let mut note = entry.note.take().unwrap_or_default();
    cut_text(&mut note);
    let targets = std::mem::take(&mut entry.targets);
    // The sentence about the cut is far shorter than the other text that may be kept.
    let mut room = VALUE_BYTES_MAX.saturating_sub(stored_bytes(&entry)).saturating_sub(2 * CUT_TEXT_BYTES);
    let named = targets.len();
    for target in targets {
        let Some(left) = room.checked_sub(target_bytes(&target)) else { break };
        room = left;
        entry.targets.push(target);
    }
    let cut = named.saturating_sub(entry.targets.len());
    if cut > 0 {
        let separator = if note.is_empty() { "" } else { "; " };
        note.push_str(&format!("{separator}{cut} of {named} targets were cut, as the line was too long to keep"));
    }
    entry.note = Some(note).filter(|note| !note.is_empty());
    entry
}

fn cut_text(text: &mut String) {
    text.truncate(text.floor_char_boundary(CUT_TEXT_BYTES));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite::audit_entry;

    #[test]
    fn lines_that_do_not_fit_are_split_in_order() {
        let line =
            |number: usize| AuditEntry { targets: vec!["t".repeat(300_000)], ..audit_entry(&number.to_string()) };
        let lines: Vec<_> = (0..7).map(line).collect();
        let values = encode(&lines).unwrap();
        assert_eq!(values.len(), 3, "3, then 4 as 2 and 2");
        let read: Vec<_> = values.iter().flat_map(|value| decode(value).unwrap()).collect();
        assert_eq!(read, lines);
        assert_eq!(encode(&vec![audit_entry("r"); ENTRIES_PER_VALUE_MAX + 1]).unwrap().len(), 2);
        assert!(encode(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_line_that_does_not_fit_says_what_was_cut() {
        let texts = AuditEntry { note: Some("\u{e9}".repeat(900_000)), ..audit_entry(&"r".repeat(900_000)) };
        let targets = AuditEntry { targets: vec!["t".repeat(500); 5_000], ..texts.clone() };
        let one_target = AuditEntry { targets: vec!["t".repeat(2_000_000)], ..audit_entry("r") };
        let many_targets = AuditEntry { targets: vec![String::new(); 900_000], ..audit_entry("r") };
        for line in [texts, targets, one_target, many_targets] {
            let kept = entry_as_stored(line.clone());
            assert_eq!(encode(std::slice::from_ref(&kept)).unwrap().len(), 1);
            assert_eq!(entry_as_stored(kept.clone()), kept, "what was cut fits");
            let (named, cut) = (line.targets.len(), line.targets.len() - kept.targets.len());
            let says = format!("{cut} of {named} targets were cut");
            assert_eq!(kept.note.unwrap_or_default().contains(&says), cut > 0, "{says}");
        }
        let short = AuditEntry { targets: vec!["t".repeat(511); 1_000], ..audit_entry("r") };
        assert_eq!(entry_as_stored(short.clone()), short);
    }
}

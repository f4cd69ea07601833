//! Stored form of the audit log: many entries in one value, so that reads are cheap. Common texts are stored once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::client::ClientId;
use daftar_domain::consent::ConsentId;

use super::instant::{as_stored, instant, milliseconds};
use super::{Unreadable, VALUE_BYTES_MAX, decode_as};

/// Maximum number of entries in a stored value.
pub const ENTRIES_PER_VALUE_MAX: usize = 256;
/// Maximum size of several entries in a value, in bytes, as [`stored_bytes`] computes it: the embedded store splits
/// longer values.
const SEVERAL_BYTES_MAX: usize = 18 * 1024;
/// Upper bound of the size of an entry without its texts, and of a value without its entries, in bytes.
const FRAME_BYTES: usize = 128;
/// Upper bound of the size of a text's length, in bytes.
const LENGTH_BYTES: usize = 10;
/// Maximum length of the request id, the note and the reason of a truncated entry, in bytes.
const CUT_TEXT_BYTES: usize = 1024;
/// Maximum length of the name of a field in a truncated entry, in bytes.
const CUT_FIELD_BYTES: usize = 128;
/// Maximum number of fields, and of consents, in a truncated entry.
const CUT_NAMES_MAX: usize = 1_000;
/// Size of a consent id, in bytes.
const CONSENT_BYTES: usize = 16;

/// Encodes audit entries into as few values as possible, in order.
///
/// Every entry returned by [`entry_as_stored`] fits into a value.
///
/// # Errors
/// [`StoreError::TooLarge`] if a single entry does not fit.
pub fn encode(entries: &[AuditEntry]) -> Result<Vec<Vec<u8>>, StoreError> {
    Ok(encode_each(entries)?.into_iter().map(|(value, _)| value).collect())
}

/// The bytes of a value, and its entries.
pub type EncodedLines<'e> = (Vec<u8>, &'e [AuditEntry]);

/// As [`encode`], with the entries of each value.
///
/// # Errors
/// As [`encode`].
pub fn encode_each(entries: &[AuditEntry]) -> Result<Vec<EncodedLines<'_>>, StoreError> {
    values(entries).map(|lines| Ok((encode_value(lines)?, lines))).collect()
}

/// Encodes audit entries into one value.
///
/// # Errors
/// [`StoreError::TooLarge`] if they do not fit.
pub fn encode_value(entries: &[AuditEntry]) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredAuditV1::of(entries))
}

/// Groups entries by value.
pub fn values(entries: &[AuditEntry]) -> impl Iterator<Item = &[AuditEntry]> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let (lines, after) = rest.split_at(fitting(rest).min(rest.len()));
        rest = after;
        (!lines.is_empty()).then_some(lines)
    })
}

/// The number of entries that fit into the next value: at least one.
fn fitting(lines: &[AuditEntry]) -> usize {
    let mut bytes = 0_usize;
    let fitting = lines.iter().take(ENTRIES_PER_VALUE_MAX).take_while(|line| {
        bytes = bytes.saturating_add(stored_bytes(line));
        bytes <= SEVERAL_BYTES_MAX
    });
    fitting.count().max(1)
}

/// Counts the values into which [`encode`] packs entries, while they are collected.
#[derive(Debug, Clone, Copy, Default)]
pub struct ValueCount {
    values: usize,
    /// The entries of the last value.
    lines: usize,
    /// Their size in bytes, as [`stored_bytes`] computes it.
    bytes: usize,
}

impl ValueCount {
    /// Returns the count with these entries added.
    #[must_use]
    pub fn with(self, entries: &[AuditEntry]) -> Self {
        entries.iter().fold(self, |count, entry| {
            let own = stored_bytes(entry);
            let bytes = count.bytes.saturating_add(own);
            if count.lines > 0 && count.lines < ENTRIES_PER_VALUE_MAX && bytes <= SEVERAL_BYTES_MAX {
                Self { lines: count.lines.saturating_add(1), bytes, ..count }
            } else {
                Self { values: count.values.saturating_add(1), lines: 1, bytes: own }
            }
        })
    }

    /// Returns the number of values.
    #[must_use]
    pub fn values(self) -> usize {
        self.values
    }
}

/// Decodes entries, oldest first.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Vec<AuditEntry>, StoreError> {
    decode_as(bytes, StoredAuditV1::lines)
}

/// The entry as it will be read: with its timestamp in milliseconds, and truncated if it exceeds a value. A note
/// contains the number of omitted targets.
#[must_use]
pub fn entry_as_stored(entry: AuditEntry) -> AuditEntry {
    let entry = AuditEntry { at: as_stored(entry.at), ..entry };
    if stored_bytes(&entry) > VALUE_BYTES_MAX { cut(entry) } else { entry }
}

/// Upper bound of the stored size of the entry, in bytes.
#[must_use]
pub fn stored_bytes(entry: &AuditEntry) -> usize {
    let actor = match &entry.actor {
        Actor::Client(client) => client.as_str().len(),
        Actor::Administrator | Actor::System | Actor::Unknown => 0,
    };
    let once = [&entry.note, &entry.reason].into_iter().flatten().map(String::len);
    let once = once.chain(entry.operation.as_ref().map(|operation| operation.len()));
    let once = once.chain([actor, entry.request_id.len(), entry.consents.len().saturating_mul(CONSENT_BYTES)]);
    let listed = entry.targets.iter().chain(entry.fields.iter()).map(|text| listed_bytes(text));
    once.chain(listed).fold(FRAME_BYTES, usize::saturating_add)
}

/// The stored size of a text in a list, with its index in the texts of the value, in bytes.
fn listed_bytes(text: &str) -> usize {
    text.len().saturating_add(LENGTH_BYTES)
}

/// Truncates an entry that exceeds a value.
fn cut(mut entry: AuditEntry) -> AuditEntry {
    cut_text(&mut entry.request_id, CUT_TEXT_BYTES);
    let mut note = entry.note.take().unwrap_or_default();
    cut_text(&mut note, CUT_TEXT_BYTES);
    if let Some(reason) = &mut entry.reason {
        cut_text(reason, CUT_TEXT_BYTES);
    }
    entry.operation = entry.operation.filter(|operation| operation.len() <= CUT_TEXT_BYTES);
    let fields = entry.fields.iter().take(CUT_NAMES_MAX).cloned().map(|mut field| {
        cut_text(&mut field, CUT_FIELD_BYTES);
        field
    });
    entry.fields = fields.collect();
    entry.consents.truncate(CUT_NAMES_MAX);
    let targets = std::mem::take(&mut entry.targets);
    // The note about the truncation is far shorter than the other text that may be stored.
    let mut room = VALUE_BYTES_MAX.saturating_sub(stored_bytes(&entry)).saturating_sub(2 * CUT_TEXT_BYTES);
    let named = targets.len();
    for target in targets {
        let Some(left) = room.checked_sub(listed_bytes(&target)) else { break };
        room = left;
        entry.targets.push(target);
    }
    let cut = named.saturating_sub(entry.targets.len());
    if cut > 0 {
        let separator = if note.is_empty() { "" } else { "; " };
        note.push_str(&format!("{separator}{cut} of {named} targets were omitted: the entry was too long"));
    }
    entry.note = Some(note).filter(|note| !note.is_empty());
    entry
}

fn cut_text(text: &mut String, bytes_max: usize) {
    text.truncate(text.floor_char_boundary(bytes_max));
}

/// Entries of the audit log, oldest first, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAuditV1 {
    /// Texts that entries refer to by index: clients, calls, fields, reasons and notes.
    words: Vec<String>,
    entries: Vec<StoredAuditEntryV1>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredAuditEntryV1 {
    at_ms: i64,
    actor: StoredActorV1,
    address: Option<StoredAddressV1>,
    request_id: StoredRequestIdV1,
    operation: Option<u32>,
    #[serde(with = "StoredAuditActionV1")]
    action: AuditAction,
    #[serde(with = "StoredAuditOutcomeV1")]
    outcome: AuditOutcome,
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

/// A request id: nearly always 32 hexadecimal digits, stored as 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StoredRequestIdV1 {
    Digits([u8; 16]),
    Text(String),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AuditAction")]
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

#[derive(Serialize, Deserialize)]
#[serde(remote = "AuditOutcome")]
enum StoredAuditOutcomeV1 {
    Allowed,
    Refused,
    Failed,
}

impl StoredAuditV1 {
    /// Converts entries to the form.
    fn of(entries: &[AuditEntry]) -> Self {
        let mut words = Words::default();
        let entries = entries.iter().map(|entry| StoredAuditEntryV1::of(entry, &mut words)).collect();
        Self { words: words.list.into_iter().map(str::to_owned).collect(), entries }
    }

    /// Converts the form to entries.
    fn lines(self) -> Result<Vec<AuditEntry>, Unreadable> {
        let words: Vec<Arc<str>> = self.words.into_iter().map(Arc::from).collect();
        self.entries.into_iter().map(|entry| entry.line(&words)).collect()
    }
}

/// The distinct texts of a value.
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
    word.ok_or_else(|| Unreadable("it refers to a text that it does not contain".to_owned()))
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
            action: entry.action,
            outcome: entry.outcome,
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
            action: self.action,
            outcome: self.outcome,
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
        // Only if formatting returns the same text: 32 digits, no capital letters.
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

/// The summary of an audit log segment, version 1, which is its stored form: searches skip segments by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditSegment {
    /// The number of its first value.
    pub first: u64,
    /// The number of its last value.
    pub last: u64,
    /// Number of its entries.
    pub lines: u64,
    /// The timestamp of its earliest entry, in milliseconds since 1970.
    pub at_min_ms: i64,
    /// The timestamp of its latest entry.
    pub at_max_ms: i64,
    /// The Bloom filter of the actors, targets and requests in its entries (`store/segment.rs`).
    pub filter: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::audit_entry;

    #[test]
    fn lines_that_would_make_a_large_value_are_split_in_order() {
        let line =
            |number: usize| AuditEntry { targets: vec!["t".repeat(300_000)], ..audit_entry(&number.to_string()) };
        let lines: Vec<_> = (0..7).map(line).collect();
        let values = encode(&lines).unwrap();
        assert_eq!(values.len(), 7, "long ones are stored separately");
        let read: Vec<_> = values.iter().flat_map(|value| decode(value).unwrap()).collect();
        assert_eq!(read, lines);
        let line = |number: usize| AuditEntry { targets: vec!["t".repeat(1_000)], ..audit_entry(&number.to_string()) };
        let lines: Vec<_> = (0..100).map(line).collect();
        let values = encode(&lines).unwrap();
        assert!(values.iter().all(|value| value.len() <= SEVERAL_BYTES_MAX) && (5..20).contains(&values.len()));
        assert_eq!(values.iter().flat_map(|value| decode(value).unwrap()).collect::<Vec<_>>(), lines);
        assert!(encode(&[]).unwrap().is_empty());
    }

    #[test]
    fn values_are_counted_as_they_are_packed() {
        let line = |length: usize| AuditEntry { targets: vec!["t".repeat(length)], ..audit_entry("r") };
        let mut lengths: Vec<usize> = (0..200).map(|number| number * 7_919 % 6_000).collect();
        lengths.extend([30_000, 10, 30_000]);
        lengths.extend([0; 600]);
        let lines: Vec<AuditEntry> = lengths.into_iter().map(line).collect();
        let mut count = ValueCount::default();
        for (added, line) in lines.iter().enumerate() {
            assert_eq!(count.values(), values(&lines[..added]).count(), "{added}");
            count = count.with(std::slice::from_ref(line));
        }
        assert_eq!(count.values(), ValueCount::default().with(&lines).values());
    }

    #[test]
    fn a_truncated_entry_reports_the_omitted_targets() {
        let texts = AuditEntry { note: Some("\u{e9}".repeat(900_000)), ..audit_entry(&"r".repeat(900_000)) };
        let targets = AuditEntry { targets: vec!["t".repeat(500); 5_000], ..texts.clone() };
        let one_target = AuditEntry { targets: vec!["t".repeat(2_000_000)], ..audit_entry("r") };
        let many_targets = AuditEntry { targets: vec![String::new(); 900_000], ..audit_entry("r") };
        for line in [texts, targets, one_target, many_targets] {
            let stored = entry_as_stored(line.clone());
            assert_eq!(encode(std::slice::from_ref(&stored)).unwrap().len(), 1);
            assert_eq!(entry_as_stored(stored.clone()), stored, "a truncated entry fits");
            let (named, cut) = (line.targets.len(), line.targets.len() - stored.targets.len());
            let says = format!("{cut} of {named} targets were omitted");
            assert_eq!(stored.note.unwrap_or_default().contains(&says), cut > 0, "{says}");
        }
        let short = AuditEntry { targets: vec!["t".repeat(511); 1_000], ..audit_entry("r") };
        assert_eq!(entry_as_stored(short.clone()), short);
    }
}

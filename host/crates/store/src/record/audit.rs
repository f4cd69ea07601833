//! How lines of the audit log are stored: many in one value, so that reads cost little.

use crate::StoreError;
use daftar_domain::audit::{Actor, AuditEntry};

use super::audit_form::StoredAuditV1;
use super::instant::as_stored;
use super::{VALUE_BYTES_MAX, decode_as};

/// The most lines of one stored value.
pub const ENTRIES_PER_VALUE_MAX: usize = 256;
/// The most bytes of several lines in one value, as [`stored_bytes`] counts them: neighbours lie in one page of the embedded database,
/// and a page of more than half a megabyte would be written to a file of its own.
const SEVERAL_BYTES_MAX: usize = 24 * 1024;
/// More than what a line takes besides its texts, and a value besides its lines.
const FRAME_BYTES: usize = 128;
/// More than what the length of a text takes.
const LENGTH_BYTES: usize = 10;
/// What a line that is cut keeps of its request's id, its note and its reason.
const CUT_TEXT_BYTES: usize = 1024;
/// What a line that is cut keeps of the name of a field.
const CUT_FIELD_BYTES: usize = 128;
/// How many fields and how many consents a line that is cut keeps.
const CUT_NAMES_MAX: usize = 1_000;
/// What a consent takes.
const CONSENT_BYTES: usize = 16;

/// The bytes of lines of the audit log: as few values as hold them, in order.
///
/// Every line that went through [`entry_as_stored`] fits into a value.
///
/// # Errors
/// [`StoreError::TooLarge`] when a single line does not fit.
pub fn encode(entries: &[AuditEntry]) -> Result<Vec<Vec<u8>>, StoreError> {
    Ok(encode_each(entries)?.into_iter().map(|(value, _)| value).collect())
}

/// The bytes of a value, and the lines that it holds.
pub type EncodedLines<'e> = (Vec<u8>, &'e [AuditEntry]);

/// As [`encode`], with the lines that each value holds.
///
/// # Errors
/// As [`encode`].
pub fn encode_each(entries: &[AuditEntry]) -> Result<Vec<EncodedLines<'_>>, StoreError> {
    let mut values = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        let (lines, after) = rest.split_at(fitting(rest));
        values.push((super::encode(&StoredAuditV1::of(lines))?, lines));
        rest = after;
    }
    Ok(values)
}

/// How many of the lines go into one value: at least one.
fn fitting(lines: &[AuditEntry]) -> usize {
    let mut bytes = 0_usize;
    let fitting = lines.iter().take(ENTRIES_PER_VALUE_MAX).take_while(|line| {
        bytes = bytes.saturating_add(stored_bytes(line));
        bytes <= SEVERAL_BYTES_MAX
    });
    fitting.count().max(1)
}

/// The lines that the bytes hold, oldest first.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Vec<AuditEntry>, StoreError> {
    decode_as(bytes, StoredAuditV1::lines)
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
        Actor::Administrator | Actor::System | Actor::Unknown => 0,
    };
    let once = [&entry.note, &entry.reason].into_iter().flatten().map(String::len);
    let once = once.chain(entry.operation.as_ref().map(|operation| operation.len()));
    let once = once.chain([actor, entry.request_id.len(), entry.consents.len().saturating_mul(CONSENT_BYTES)]);
    let listed = entry.targets.iter().chain(entry.fields.iter()).map(|text| listed_bytes(text));
    once.chain(listed).fold(FRAME_BYTES, usize::saturating_add)
}

/// What one text of a list takes, and its place in a list of texts besides.
fn listed_bytes(text: &str) -> usize {
    text.len().saturating_add(LENGTH_BYTES)
}

/// Cuts what does not fit into a value.
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
    // The sentence about the cut is far shorter than the other text that may be kept.
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
        note.push_str(&format!("{separator}{cut} of {named} targets were cut, as the line was too long to keep"));
    }
    entry.note = Some(note).filter(|note| !note.is_empty());
    entry
}

fn cut_text(text: &mut String, bytes_max: usize) {
    text.truncate(text.floor_char_boundary(bytes_max));
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
        assert_eq!(values.len(), 7, "long ones lie alone");
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

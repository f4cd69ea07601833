//! Queries of the administrator on the audit log.

use jiff::Timestamp;

use super::{Actor, AuditAction, AuditEntry, AuditOutcome};
use crate::record::RecordKind;

/// Conditions on entries of the audit log, all of which must hold. Empty: every entry.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Earliest time, inclusive.
    pub from: Option<Timestamp>,
    /// Latest time, exclusive.
    pub to: Option<Timestamp>,
    /// The actor.
    pub actor: Option<Actor>,
    /// Any of these kinds of operation; empty: all kinds.
    pub actions: Vec<AuditAction>,
    /// The outcome.
    pub outcome: Option<AuditOutcome>,
    /// A complete target, or the identifier `<system>|<value>` of a record of any kind.
    pub target: Option<String>,
    /// Request ID.
    pub request_id: Option<String>,
    /// Text in the operation, the fields, the reason or the note; case-insensitive.
    pub text: Option<String>,
}

impl AuditQuery {
    /// True if an entry meets every condition.
    #[must_use]
    pub fn holds(&self, entry: &AuditEntry) -> bool {
        self.from.is_none_or(|from| entry.at >= from)
            && self.to.is_none_or(|to| entry.at < to)
            && self.actor.as_ref().is_none_or(|actor| *actor == entry.actor)
            && (self.actions.is_empty() || self.actions.contains(&entry.action))
            && self.outcome.is_none_or(|outcome| outcome == entry.outcome)
            && self.request_id.as_ref().is_none_or(|id| *id == entry.request_id)
            && self.target.as_ref().is_none_or(|target| is_on(entry, target))
            && self.text.as_ref().is_none_or(|text| says(entry, text))
    }
}

/// Returns the lookup key of a target: for a reference, its identifier alone, so that records of every kind are found.
#[must_use]
pub fn lookup_key(target: &str) -> &str {
    let named = target.split_once('/').filter(|(kind, _)| RecordKind::parse(kind).is_some());
    named.map_or(target, |(_, identifier)| identifier)
}

fn is_on(entry: &AuditEntry, target: &str) -> bool {
    let is_reference = lookup_key(target).len() < target.len();
    let mut targets = entry.targets.iter();
    if is_reference {
        targets.any(|named| named == target)
    } else {
        targets.any(|named| named == target || lookup_key(named) == target)
    }
}

fn says(entry: &AuditEntry, text: &str) -> bool {
    let text = text.to_lowercase();
    let message = entry.operation.as_deref().into_iter().chain(entry.reason.as_deref()).chain(entry.note.as_deref());
    let mut message = message.chain(entry.fields.iter().map(String::as_str));
    message.any(|message| message.to_lowercase().contains(&text))
}

/// A position in the audit log: entries before it are older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditPosition {
    /// The stored value.
    pub value: u64,
    /// Index of the entry in that value.
    pub line: u32,
}

impl AuditPosition {
    /// The position after the newest entry.
    pub const END: Self = Self { value: u64::MAX, line: u32::MAX };
}

/// Limits of one audit query.
#[derive(Debug, Clone, Copy)]
pub struct AuditBounds {
    /// Maximum number of entries returned.
    pub lines_max: usize,
    /// Approximate maximum number of entries examined.
    pub examined_max: usize,
}

/// The result of one audit query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// Matching entries, newest first.
    pub entries: Vec<AuditEntry>,
    /// Position of the next page; absent if there are no older entries. Older entries may follow a page that is not
    /// full, because the number of examined entries is limited.
    pub next: Option<AuditPosition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> AuditEntry {
        AuditEntry {
            at: "2026-03-04T05:06:07Z".parse().unwrap(),
            actor: Actor::Administrator,
            address: None,
            request_id: "r".to_owned(),
            operation: Some("GET /api/v2/Individual/{identifier}".into()),
            action: AuditAction::Read,
            outcome: AuditOutcome::Refused,
            status: Some(404),
            targets: vec!["Individual/urn:x:a/b|1".to_owned(), "client-1".to_owned()],
            fields: ["birth_date".to_owned()].into(),
            consents: Vec::new(),
            reason: Some("Not found".to_owned()),
            note: None,
            count: 1,
        }
    }

    fn holds(query: AuditQuery) -> bool {
        query.holds(&line())
    }

    #[test]
    fn every_condition_has_to_hold() {
        let at = |text: &str| Some(text.parse().unwrap());
        assert!(holds(AuditQuery::default()));
        assert!(holds(AuditQuery { from: at("2026-03-04T05:06:07Z"), ..AuditQuery::default() }));
        assert!(!holds(AuditQuery { from: at("2026-03-04T05:06:08Z"), ..AuditQuery::default() }));
        assert!(!holds(AuditQuery { to: at("2026-03-04T05:06:07Z"), ..AuditQuery::default() }));
        assert!(holds(AuditQuery { to: at("2026-03-04T05:06:08Z"), ..AuditQuery::default() }));
        assert!(!holds(AuditQuery { actor: Some(Actor::System), ..AuditQuery::default() }));
        assert!(holds(AuditQuery { actor: Some(Actor::Administrator), ..AuditQuery::default() }));
        assert!(!holds(AuditQuery { actions: vec![AuditAction::Search], ..AuditQuery::default() }));
        assert!(holds(AuditQuery { actions: vec![AuditAction::Search, AuditAction::Read], ..AuditQuery::default() }));
        assert!(!holds(AuditQuery { outcome: Some(AuditOutcome::Allowed), ..AuditQuery::default() }));
        assert!(!holds(AuditQuery { request_id: Some("s".to_owned()), ..AuditQuery::default() }));
        let both =
            AuditQuery { request_id: Some("r".to_owned()), text: Some("update".to_owned()), ..AuditQuery::default() };
        assert!(!holds(both));
    }

    #[test]
    fn a_record_is_found_by_its_reference_or_its_identifier() {
        let on = |target: &str| holds(AuditQuery { target: Some(target.to_owned()), ..AuditQuery::default() });
        assert!(on("Individual/urn:x:a/b|1"));
        assert!(on("urn:x:a/b|1"));
        assert!(on("client-1"));
        assert!(!on("Group/urn:x:a/b|1"));
        assert!(!on("urn:x:a/b"));
        assert!(!on("b|1"));
    }

    #[test]
    fn text_is_searched_in_operation_and_reason() {
        let says = |text: &str| holds(AuditQuery { text: Some(text.to_owned()), ..AuditQuery::default() });
        assert!(says("individual/{") && says("BIRTH") && says("not found"));
        assert!(!says("urn:x"));
    }
}

//! What the administrator asks of the audit log.

use jiff::Timestamp;

use super::{Actor, AuditAction, AuditEntry, AuditOutcome};
use crate::record::RecordKind;

/// Conditions on lines of the audit log, all of which must hold. Empty: every line.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Not before that instant.
    pub from: Option<Timestamp>,
    /// Before that instant.
    pub to: Option<Timestamp>,
    /// As whom.
    pub actor: Option<Actor>,
    /// What, any of these; empty: anything.
    pub actions: Vec<AuditAction>,
    /// How it ended.
    pub outcome: Option<AuditOutcome>,
    /// On what: a whole target, or the identifier `<system>|<value>` of a record of any kind.
    pub target: Option<String>,
    /// In which request.
    pub request_id: Option<String>,
    /// In the call, the fields, the reason or the note; no case.
    pub text: Option<String>,
}

impl AuditQuery {
    /// Whether a line meets every condition.
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

/// What a target is looked up by: a reference to a record by its identifier alone, so that it is found under every kind.
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
    let said = entry.operation.as_deref().into_iter().chain(entry.reason.as_deref()).chain(entry.note.as_deref());
    let mut said = said.chain(entry.fields.iter().map(String::as_str));
    said.any(|said| said.to_lowercase().contains(&text))
}

/// A place in the audit log: lines before it are older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditPosition {
    /// The stored value.
    pub value: u64,
    /// The line of that value.
    pub line: u32,
}

impl AuditPosition {
    /// After the newest line.
    pub const END: Self = Self { value: u64::MAX, line: u32::MAX };
}

/// How much one look into the audit log may give and cost.
#[derive(Debug, Clone, Copy)]
pub struct AuditBounds {
    /// The most lines that it gives.
    pub lines_max: usize,
    /// About the most lines that it looks at.
    pub examined_max: usize,
}

/// What one look into the audit log found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// Lines that meet the conditions, newest first.
    pub entries: Vec<AuditEntry>,
    /// Where to go on; absent when there is nothing older. A page that is not full may have older lines all the same: looking
    /// was bounded.
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
    fn text_is_looked_for_in_what_was_called_and_why() {
        let says = |text: &str| holds(AuditQuery { text: Some(text.to_owned()), ..AuditQuery::default() });
        assert!(says("individual/{") && says("BIRTH") && says("not found"));
        assert!(!says("urn:x"));
    }
}

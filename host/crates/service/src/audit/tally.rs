//! Refusals of callers whom nobody knows, counted together.
//!
//! **Invariant:** whatever comes from outside, these refusals make at most `2 * (KEYS_MAX + 1)` lines a minute: the first of
//! each kind is written at once, its repetitions as one line with their count when the minute is over, and beyond
//! [`KEYS_MAX`] kinds all are one line. Counts that wait are lost in a crash, the first line of each kind is not.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use daftar_domain::audit::{Actor, AuditAction, AuditEntry};

/// How long alike refusals are counted together.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
/// How many kinds of refusals are told apart in that time. With lines of some 100 bytes the log grows by no more than about
/// 10 MB a day.
const KEYS_MAX: usize = 32;

/// What makes refusals alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    actor: Actor,
    address: Option<IpAddr>,
    operation: Option<Arc<str>>,
    action: AuditAction,
    status: Option<u16>,
    reason: Option<String>,
    targets: Vec<String>,
}

/// Refusals of the present minute.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    since: Option<Timestamp>,
    /// Each with the latest of its kind and how often it came after the first.
    kinds: HashMap<Kind, (AuditEntry, u64)>,
    /// The latest of those that are not told apart, and their number.
    others: Option<(AuditEntry, u64)>,
}

impl Tally {
    /// Takes a refusal; gives the lines to write now.
    pub(super) fn add(&self, entry: AuditEntry) -> Vec<AuditEntry> {
        let mut minute = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = minute.end_if_over(entry.at);
        minute.since.get_or_insert(entry.at);
        let has_room = minute.kinds.len() < KEYS_MAX;
        match minute.kinds.entry(kind_of(&entry)) {
            Entry::Occupied(mut counted) => {
                let (latest, again) = counted.get_mut();
                *again = again.saturating_add(1);
                *latest = entry;
            }
            Entry::Vacant(free) if has_room => {
                free.insert((entry.clone(), 0));
                lines.push(entry);
            }
            Entry::Vacant(_) => {
                let before = minute.others.take().map_or(0, |(_, count)| count);
                minute.others = Some((entry, before.saturating_add(1)));
            }
        }
        lines
    }

    /// The counts of a minute that is over at that instant.
    pub(super) fn over(&self, now: Timestamp) -> Vec<AuditEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end_if_over(now)
    }

    /// All counts that wait: the server stops.
    pub(super) fn all(&self) -> Vec<AuditEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end()
    }
}

impl Minute {
    fn end_if_over(&mut self, now: Timestamp) -> Vec<AuditEntry> {
        // A clock that was set back ends it too.
        let is_over = self.since.is_some_and(|since| now < since || now.duration_since(since) >= WINDOW);
        if is_over { self.end() } else { Vec::new() }
    }

    fn end(&mut self) -> Vec<AuditEntry> {
        let Self { since, kinds, others } = std::mem::take(self);
        let since = since.map(|since| since.to_string()).unwrap_or_default();
        let repeated = kinds.into_values().filter(|(_, again)| *again > 0);
        let mut lines: Vec<AuditEntry> = repeated
            .map(|(latest, again)| {
                AuditEntry { count: again, ..latest }.with_note(format!("as often again since {since}"))
            })
            .collect();
        lines.sort_by_key(|line| line.at);
        lines.extend(others.map(|(latest, count)| {
            // Of various callers, and of nothing else that the latest one would be blamed for.
            let (actor, action, status) = (Actor::Unknown, AuditAction::Authenticate, None);
            let request_id = String::new();
            let nothing = AuditEntry { address: None, operation: None, request_id, targets: Vec::new(), ..latest };
            let line = AuditEntry { count, actor, action, status, ..nothing };
            line.with_reason("various").with_note(format!("more kinds than are told apart in a minute, since {since}"))
        }));
        lines
    }
}

fn kind_of(entry: &AuditEntry) -> Kind {
    Kind {
        actor: entry.actor.clone(),
        address: entry.address,
        operation: entry.operation.clone(),
        action: entry.action,
        status: entry.status,
        reason: entry.reason.clone(),
        targets: entry.targets.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::audit::AuditOutcome;
    use daftar_domain::client::ClientId;

    fn refusal(address: u8, second: i64) -> AuditEntry {
        let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        AuditEntry {
            at: start + SignedDuration::from_secs(second),
            actor: Actor::Unknown,
            address: Some(IpAddr::from([203, 0, 113, address])),
            request_id: second.to_string(),
            operation: Some("GET /api/v2/Individual".into()),
            action: AuditAction::Authenticate,
            outcome: AuditOutcome::Refused,
            status: Some(401),
            targets: Vec::new(),
            fields: Arc::default(),
            consents: Vec::new(),
            reason: Some("the token is malformed".to_owned()),
            note: None,
            count: 1,
        }
    }

    fn counts(lines: &[AuditEntry]) -> Vec<u64> {
        lines.iter().map(|line| line.count).collect()
    }

    #[test]
    fn the_first_is_told_at_once_and_the_rest_with_their_count() {
        let tally = Tally::default();
        assert_eq!(tally.add(refusal(1, 0)), [refusal(1, 0)]);
        for second in 1..60 {
            assert_eq!(tally.add(refusal(1, second)), []);
        }
        assert_eq!(tally.add(refusal(2, 59)), [refusal(2, 59)], "from elsewhere");
        assert_eq!(tally.over(refusal(1, 59).at), []);
        let lines = tally.over(refusal(1, 60).at);
        assert_eq!(counts(&lines), [59]);
        assert_eq!(lines[0].note.as_deref(), Some("as often again since 2026-03-01T12:00:00Z"));
        assert_eq!(tally.over(refusal(1, 600).at), []);
        assert_eq!(tally.all(), []);
    }

    #[test]
    fn more_kinds_than_are_told_apart_are_one_line() {
        let tally = Tally::default();
        let told = (0..=255).map(|address| tally.add(refusal(address, 0)).len()).sum::<usize>();
        assert_eq!(told, KEYS_MAX);
        let lines = tally.all();
        assert_eq!(counts(&lines), [256 - KEYS_MAX as u64]);
        assert_eq!((lines[0].address, lines[0].reason.as_deref()), (None, Some("various")));
        for round in 1..1_000 {
            let lines = (0..=255).map(|address| tally.add(refusal(address, 60 * round)).len()).sum::<usize>();
            assert!(lines <= 2 * (KEYS_MAX + 1), "{lines}");
        }
    }

    #[test]
    fn what_is_not_told_apart_is_nobodys() {
        let tally = Tally::default();
        let of_client = |number: usize| AuditEntry {
            actor: Actor::Client(ClientId::parse(&format!("client-{number}")).unwrap()),
            action: AuditAction::Search,
            status: Some(429),
            ..refusal(1, 0)
        };
        for number in 0..KEYS_MAX + 2 {
            tally.add(of_client(number));
        }
        let lines = tally.all();
        assert_eq!(counts(&lines), [2]);
        let AuditEntry { actor, action, status, request_id, .. } = &lines[0];
        assert_eq!((actor, *action, *status), (&Actor::Unknown, AuditAction::Authenticate, None));
        assert_eq!(request_id, "");
    }

    #[test]
    fn a_clock_that_is_set_back_begins_anew() {
        let tally = Tally::default();
        tally.add(refusal(1, 100));
        tally.add(refusal(1, 100));
        assert_eq!(counts(&tally.add(refusal(1, 0))), [1, 1], "the repetition, and a first one");
    }
}

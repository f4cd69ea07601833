//! Audit log: records read access and denied requests.
//!
//! A change and its audit entry are written in the same transaction. Other entries are collected until the response is
//! known (`context/audit_context.rs`) and then passed to the store. The store writes such entries to disk together
//! shortly afterwards; the client does not wait for that write. Failed requests that no rate limit bounds are counted
//! together (`Counts`), so that their clients cannot fill the disk.
//!
//! **Invariant:** for any input, these denials cause at most `2 * (KEYS_MAX + 1)` entries per minute. The first of
//! each kind is written immediately, and its repetitions are written as one entry with their count when the minute
//! ends. Beyond `KEYS_MAX` kinds, all denials share one entry. A crash loses pending counts, but not the first entry
//! of each kind. Entries that the store refuses are counted again: they are written with the counts of a later minute.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome, REMOVAL_NOTE};
use daftar_domain::context::OpContext;
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::error::AppError;
use daftar_store::audit_log::AuditRemoval;
use daftar_store::{Store, StoreError, Write};

/// Maximum number of targets in one entry: an event with more targets is split into several entries, so that no target
/// is omitted.
const TARGETS_MAX: usize = 1_000;

/// A handle to the audit log.
#[derive(Clone)]
pub struct AuditLog {
    store: Arc<dyn Store>,
    refusals: Arc<Counts>,
}

impl AuditLog {
    /// The audit log of a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, refusals: Arc::default() }
    }

    /// Records an event without a change. Inside a request, the entry is written with the other entries of the request
    /// before the response; otherwise, it is written immediately.
    ///
    /// # Errors
    /// If the store accepts no more entries: an operation that cannot be audited is not performed.
    pub async fn record(&self, ctx: &OpContext, entry: AuditEntry) -> Result<(), AppError> {
        match ctx.trail.collect(entry) {
            Ok(()) => Ok(()),
            Err(entry) => self.record_now(vec![*entry]).await,
        }
    }

    /// Records a read access, or its denial.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_read<T>(
        &self,
        ctx: &OpContext,
        read: &Result<T, AppError>,
        targets: Vec<String>,
        note: Option<&str>,
    ) -> Result<(), AppError> {
        let outcome = if read.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
        let entry = entry(ctx, AuditAction::Read, outcome, targets);
        self.record(ctx, AuditEntry { note: note.map(str::to_owned), ..entry }).await
    }

    /// Records a search with the records found.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_search(
        &self,
        ctx: &OpContext,
        found: Vec<String>,
        note: impl Into<String>,
    ) -> Result<(), AppError> {
        let entry = entry(ctx, AuditAction::Search, AuditOutcome::Allowed, found);
        self.record(ctx, entry.with_note(note)).await
    }

    /// Writes entries immediately: for an operation that must not begin before its entry is written, and for a request
    /// that ends.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_now(&self, entries: Vec<AuditEntry>) -> Result<(), AppError> {
        if entries.is_empty() {
            return Ok(());
        }
        let lines: Vec<AuditEntry> = entries.into_iter().flat_map(in_lines).collect();
        let again = if lines.iter().all(is_look) { Vec::new() } else { lines.clone() };
        match self.store.append_audit(lines).await {
            // The queue is full. An entry that was intended for the transaction of a change is written separately,
            // since the change is committed.
            Err(StoreError::Overloaded) if !again.is_empty() => {
                let at = again.first().map_or(Timestamp::UNIX_EPOCH, |line| line.at);
                let write = Write { at, source: None, operations: Vec::new(), audit: again, read_set: Vec::new() };
                self.store.commit(write).await?;
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Records the entries of a request that ends. Denials that any client can cause without limit are counted
    /// together.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_ended(&self, entries: Vec<AuditEntry>) -> Result<(), AppError> {
        let mut due = Due::default();
        for entry in entries {
            if is_counted(&entry) { due.extend(self.refusals.add(entry)) } else { due.lines.push(entry) }
        }
        self.record_due(due).await
    }

    /// Writes entries; counts denials again that could not be written.
    async fn record_due(&self, Due { lines, counted }: Due) -> Result<(), AppError> {
        let written = self.record_now(lines).await;
        if written.is_err() {
            self.refusals.put_back(counted);
        }
        written
    }

    /// Reads at most `lines_max` entries before a position, newest first. The query itself is recorded in the audit
    /// log.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn query(
        &self,
        ctx: &OpContext,
        query: AuditQuery,
        before: AuditPosition,
        lines_max: usize,
    ) -> Result<AuditPage, AppError> {
        let requested = requested(&query);
        let targets = query.target.iter().cloned().collect();
        let bounds = AuditBounds { lines_max, examined_max: EXAMINED_MAX };
        let page = self.store.audit_page(query, before, bounds).await?;
        let entry = entry(ctx, AuditAction::Audit, AuditOutcome::Allowed, targets);
        self.record(ctx, entry.with_note(format!("{requested}; {} lines were shown", page.entries.len()))).await?;
        Ok(page)
    }

    /// Reads the entries before a position, as [`Self::query`], for the server itself: the query is not recorded.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn look(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        lines_max: usize,
    ) -> Result<AuditPage, AppError> {
        let bounds = AuditBounds { lines_max, examined_max: EXAMINED_MAX };
        Ok(self.store.audit_page(query, before, bounds).await?)
    }

    /// Removes entries older than the given number of days and returns their number. Entries that are stored together
    /// are removed together, once all of them are old enough.
    ///
    /// # Errors
    /// If the store fails. Entries that were removed before the failure are reported.
    pub async fn remove_old(&self, now: Timestamp, retention_days: u32, request_id: &str) -> Result<u64, AppError> {
        let stored = SignedDuration::from_hours(24_i64.saturating_mul(i64::from(retention_days)));
        let Ok(before) = now.checked_sub(stored) else { return Ok(0) };
        let ctx = OpContext::unbound(Actor::System, request_id.into(), now, AuditContext::default());
        let line = entry(&ctx, AuditAction::Audit, AuditOutcome::Allowed, Vec::new());
        let note = format!("{REMOVAL_NOTE} {before}, as `[audit] retention_days` is {retention_days}");
        let line = AuditEntry { count: 0, ..line.with_note(note) };
        let mut reported = None;
        let removal = |reported| AuditRemoval { before, line: line.clone(), reported };
        while let Some(removed) = self.store.remove_audit(removal(reported)).await? {
            reported = Some(removed);
            // Requests have priority.
            tokio::task::yield_now().await;
        }
        Ok(reported.map_or(0, |reported| reported.lines))
    }

    /// Writes the counts of denials whose minute has ended.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_counts(&self, now: Timestamp) -> Result<(), AppError> {
        self.record_due(self.refusals.over(now)).await
    }

    /// Writes all pending counts of denials when the server stops.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_all_counts(&self) -> Result<(), AppError> {
        self.record_due(self.refusals.all()).await
    }
}

/// True if it records read access only.
fn is_look(entry: &AuditEntry) -> bool {
    matches!(entry.action, AuditAction::Read | AuditAction::Search | AuditAction::Audit)
}

/// Splits an entry into entries with at most [`TARGETS_MAX`] targets and consents each.
fn in_lines(mut entry: AuditEntry) -> Vec<AuditEntry> {
    if entry.targets.len() <= TARGETS_MAX && entry.consents.len() <= TARGETS_MAX {
        return vec![entry];
    }
    let (targets, consents) = (std::mem::take(&mut entry.targets), std::mem::take(&mut entry.consents));
    let (mut targets, mut consents) = (targets.chunks(TARGETS_MAX), consents.chunks(TARGETS_MAX));
    let mut lines = Vec::new();
    loop {
        let (targets, consents) = (targets.next(), consents.next());
        if targets.is_none() && consents.is_none() {
            return lines;
        }
        lines.push(AuditEntry {
            targets: targets.unwrap_or_default().to_vec(),
            consents: consents.unwrap_or_default().to_vec(),
            ..entry.clone()
        });
    }
}

/// True if the number of such events is unlimited: requests of unauthenticated clients, requests beyond the limit of a
/// client, and requests of a client that ended before its limit counted them.
fn is_counted(entry: &AuditEntry) -> bool {
    const TOO_MANY_REQUESTS: u16 = 429;
    const DISCONNECTED: u16 = 499;
    const UNAVAILABLE: u16 = 503;
    // The action of a request is `authenticate` until it is counted and its client has the scope.
    let is_ended_early =
        entry.action == AuditAction::Authenticate && matches!(entry.status, Some(DISCONNECTED | UNAVAILABLE));
    let is_unlimited = entry.actor == Actor::Unknown || entry.status == Some(TOO_MANY_REQUESTS) || is_ended_early;
    entry.outcome != AuditOutcome::Allowed && is_unlimited
}

/// An entry for the operation of a context. The `with_…` methods add the other members.
#[must_use]
pub fn entry(ctx: &OpContext, action: AuditAction, outcome: AuditOutcome, targets: Vec<String>) -> AuditEntry {
    let consents = if outcome == AuditOutcome::Allowed { ctx.trail.relied_on() } else { Vec::new() };
    AuditEntry {
        at: ctx.now,
        actor: ctx.actor.clone(),
        address: ctx.trail.address(),
        request_id: ctx.request_id.to_string(),
        operation: ctx.trail.operation(),
        action,
        outcome,
        status: status_at_once(ctx, action, outcome),
        targets,
        fields: Arc::default(),
        consents,
        reason: None,
        note: None,
        count: 1,
    }
}

/// The entry of a change of these fields of a record. If the response contains more fields of the record, the audit
/// context adds an entry for them.
#[must_use]
pub fn with_changes(ctx: &OpContext, entry: AuditEntry, fields: impl IntoIterator<Item = String>) -> AuditEntry {
    let fields: Vec<String> = fields.into_iter().collect();
    ctx.trail.changes(&entry.targets, &fields);
    entry.with_fields(fields)
}

/// The entry of a change is written with the change, before the response; all other entries wait for the response.
fn status_at_once(ctx: &OpContext, action: AuditAction, outcome: AuditOutcome) -> Option<u16> {
    let is_change = match action {
        AuditAction::Create | AuditAction::Update | AuditAction::Administer | AuditAction::Plugin => true,
        AuditAction::Read
        | AuditAction::Search
        | AuditAction::Evaluate
        | AuditAction::Authenticate
        | AuditAction::Audit => false,
    };
    if is_change && outcome == AuditOutcome::Allowed { ctx.trail.success_status() } else { None }
}

/// Interval in which equal denials are counted together.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
/// Maximum number of kinds of denials that are distinguished in that interval. With entries of some 100 bytes, the log
/// grows by at most about 10 MB per day.
const KEYS_MAX: usize = 32;

/// Properties by which denials are counted together.
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

/// Denials of the current minute.
#[derive(Debug, Default)]
struct Counts(Mutex<Minute>);

#[derive(Debug, Clone, Default)]
struct Minute {
    since: Option<Timestamp>,
    /// The beginning of earlier counts that could not be written and are included; none without such.
    earlier_since: Option<Timestamp>,
    /// The latest entry of each kind, and the number of its occurrences after the first.
    kinds: HashMap<Kind, (AuditEntry, u64)>,
    /// The latest entry of the kinds that are not distinguished, and their number.
    others: Option<(AuditEntry, u64)>,
}

/// Entries to write.
#[derive(Debug, Default)]
struct Due {
    lines: Vec<AuditEntry>,
    /// The denials that the entries report: counted again if they cannot be written.
    counted: Minute,
}

impl Due {
    /// The first denial of its kind.
    fn first(entry: AuditEntry) -> Self {
        let kinds = HashMap::from([(kind_of(&entry), (entry.clone(), 1))]);
        let counted = Minute { since: Some(entry.at), kinds, ..Minute::default() };
        Self { lines: vec![entry], counted }
    }

    fn extend(&mut self, more: Self) {
        self.lines.extend(more.lines);
        self.counted.merge(more.counted);
    }
}

impl Counts {
    /// Adds a denial; returns the entries to write immediately.
    fn add(&self, entry: AuditEntry) -> Due {
        let mut minute = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = minute.end_if_over(entry.at);
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
                due.extend(Due::first(entry));
            }
            Entry::Vacant(_) => minute.count_other(entry, 1),
        }
        due
    }

    /// Counts denials again whose entries could not be written.
    fn put_back(&self, counted: Minute) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).merge(counted);
    }

    /// Returns the counts of a minute that has ended at that time.
    fn over(&self, now: Timestamp) -> Due {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end_if_over(now)
    }

    /// Returns all pending counts when the server stops.
    fn all(&self) -> Due {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end()
    }
}

impl Minute {
    fn end_if_over(&mut self, now: Timestamp) -> Due {
        // A clock that was set back also ends the minute.
        let is_over = self.since.is_some_and(|since| now < since || now.duration_since(since) >= WINDOW);
        if is_over { self.end() } else { Due::default() }
    }

    fn end(&mut self) -> Due {
        let mut counted = std::mem::take(self);
        // The others were written, and have not occurred again.
        counted.kinds.retain(|_, (_, again)| *again > 0);
        Due { lines: counted.clone().into_lines(), counted }
    }

    /// Adds the counts of another minute: they are written when this minute ends.
    fn merge(&mut self, other: Self) {
        let Self { since, earlier_since, kinds, others } = other;
        self.earlier_since = [self.earlier_since, earlier_since, since].into_iter().flatten().min();
        self.since = self.since.or(since);
        for (kind, (latest, again)) in kinds {
            self.count(kind, latest, again);
        }
        if let Some((latest, count)) = others {
            self.count_other(latest, count);
        }
    }

    /// Counts a denial without an entry for the first of its kind.
    fn count(&mut self, kind: Kind, entry: AuditEntry, times: u64) {
        let has_room = self.kinds.len() < KEYS_MAX;
        match self.kinds.entry(kind) {
            Entry::Occupied(mut counted) => {
                let (latest, again) = counted.get_mut();
                *again = again.saturating_add(times);
                if entry.at > latest.at {
                    *latest = entry;
                }
            }
            Entry::Vacant(free) if has_room => {
                free.insert((entry, times));
            }
            Entry::Vacant(_) => self.count_other(entry, times),
        }
    }

    /// Counts denials whose kind is not distinguished.
    fn count_other(&mut self, entry: AuditEntry, times: u64) {
        let (latest, count) = match self.others.take() {
            Some((latest, count)) if latest.at > entry.at => (latest, count),
            Some((_, count)) => (entry, count),
            None => (entry, 0),
        };
        self.others = Some((latest, count.saturating_add(times)));
    }

    fn into_lines(self) -> Vec<AuditEntry> {
        let Self { since, earlier_since, kinds, others } = self;
        let since = [since, earlier_since].into_iter().flatten().min();
        let since = since.map(|since| since.to_string()).unwrap_or_default();
        let mut lines: Vec<AuditEntry> = kinds
            .into_values()
            .map(|(latest, again)| {
                AuditEntry { count: again, ..latest }.with_note(format!("as often again since {since}"))
            })
            .collect();
        lines.sort_by_key(|line| line.at);
        lines.extend(others.map(|(latest, count)| {
            // The entry counts denials of several clients: properties of the latest one would be misattributed.
            let (actor, action, status) = (Actor::Unknown, AuditAction::Authenticate, None);
            let request_id = String::new();
            let nothing = AuditEntry { address: None, operation: None, request_id, targets: Vec::new(), ..latest };
            let line = AuditEntry { count, actor, action, status, ..nothing };
            line.with_reason("various")
                .with_note(format!("more kinds than are counted separately in a minute, since {since}"))
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
mod count_tests {
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
    fn the_first_is_recorded_immediately_and_the_rest_with_their_count() {
        let tally = Counts::default();
        assert_eq!(tally.add(refusal(1, 0)).lines, [refusal(1, 0)]);
        for second in 1..60 {
            assert_eq!(tally.add(refusal(1, second)).lines, []);
        }
        assert_eq!(tally.add(refusal(2, 59)).lines, [refusal(2, 59)], "from elsewhere");
        assert_eq!(tally.over(refusal(1, 59).at).lines, []);
        let lines = tally.over(refusal(1, 60).at).lines;
        assert_eq!(counts(&lines), [59]);
        assert_eq!(lines[0].note.as_deref(), Some("as often again since 2026-03-01T12:00:00Z"));
        assert_eq!(tally.over(refusal(1, 600).at).lines, []);
        assert_eq!(tally.all().lines, []);
    }

    #[test]
    fn more_kinds_than_are_counted_separately_are_one_entry() {
        let tally = Counts::default();
        let reported = (0..=255).map(|address| tally.add(refusal(address, 0)).lines.len()).sum::<usize>();
        assert_eq!(reported, KEYS_MAX);
        let lines = tally.all().lines;
        assert_eq!(counts(&lines), [256 - KEYS_MAX as u64]);
        assert_eq!((lines[0].address, lines[0].reason.as_deref()), (None, Some("various")));
        for round in 1..1_000 {
            let lines = (0..=255).map(|address| tally.add(refusal(address, 60 * round)).lines.len()).sum::<usize>();
            assert!(lines <= 2 * (KEYS_MAX + 1), "{lines}");
        }
    }

    #[test]
    fn a_common_entry_names_no_actor() {
        let tally = Counts::default();
        let of_client = |number: usize| AuditEntry {
            actor: Actor::Client(ClientId::parse(&format!("client-{number}")).unwrap()),
            action: AuditAction::Search,
            status: Some(429),
            ..refusal(1, 0)
        };
        for number in 0..KEYS_MAX + 2 {
            tally.add(of_client(number));
        }
        let lines = tally.all().lines;
        assert_eq!(counts(&lines), [2]);
        let AuditEntry { actor, action, status, request_id, .. } = &lines[0];
        assert_eq!((actor, *action, *status), (&Actor::Unknown, AuditAction::Authenticate, None));
        assert_eq!(request_id, "");
    }

    #[test]
    fn requests_that_end_before_they_are_charged_are_counted_together() {
        let of_client = |action, status: u16| AuditEntry {
            actor: Actor::Client(ClientId::parse("client-1").unwrap()),
            action,
            outcome: if status < 499 { AuditOutcome::Refused } else { AuditOutcome::Failed },
            status: Some(status),
            ..refusal(1, 0)
        };
        for (action, status, expected) in [
            (AuditAction::Authenticate, 499, true),
            (AuditAction::Authenticate, 503, true),
            (AuditAction::Authenticate, 401, false),
            (AuditAction::Search, 499, false),
            (AuditAction::Search, 503, false),
            (AuditAction::Search, 429, true),
        ] {
            assert_eq!(is_counted(&of_client(action, status)), expected, "{action:?} {status}");
        }
        assert!(is_counted(&refusal(1, 0)), "an unauthenticated client");
    }

    #[test]
    fn denials_whose_entries_could_not_be_written_are_counted_again() {
        let tally = Counts::default();
        tally.put_back(tally.add(refusal(1, 0)).counted);
        tally.add(refusal(1, 1));
        let over = tally.over(refusal(1, 60).at);
        assert_eq!(counts(&over.lines), [2], "the first one too");
        tally.put_back(over.counted);
        let more = tally.add(refusal(1, 61));
        assert_eq!(counts(&more.lines), [2, 1]);
        tally.put_back(more.counted);
        assert_eq!(tally.over(refusal(1, 120).at).lines, [], "in the new minute");
        let lines = tally.over(refusal(1, 121).at).lines;
        assert_eq!(counts(&lines), [3]);
        assert_eq!(lines[0].note.as_deref(), Some("as often again since 2026-03-01T12:00:00Z"));
        assert_eq!(tally.all().lines, []);
    }

    #[test]
    fn a_clock_that_is_set_back_starts_again() {
        let tally = Counts::default();
        tally.add(refusal(1, 100));
        tally.add(refusal(1, 100));
        assert_eq!(counts(&tally.add(refusal(1, 0)).lines), [1, 1], "the repetition, and a first one");
    }
}

/// Approximate number of entries that one removal pass reads: some tenths of a second.
const EXAMINED_MAX: usize = 200_000;

/// Names of the conditions of a query, never their values: a value may be personal data, and a queried individual is
/// recorded as a target.
fn requested(query: &AuditQuery) -> String {
    let named = [
        ("from", query.from.is_some()),
        ("to", query.to.is_some()),
        ("actor", query.actor.is_some()),
        ("action", !query.actions.is_empty()),
        ("outcome", query.outcome.is_some()),
        ("record", query.target.is_some()),
        ("request_id", query.request_id.is_some()),
        ("text", query.text.is_some()),
    ];
    let names: Vec<&str> = named.iter().filter(|(_, is_named)| *is_named).map(|(name, _)| *name).collect();
    format!("searched by {}", if names.is_empty() { "nothing".to_owned() } else { names.join(", ") })
}

#[cfg(test)]
mod keeper_tests {
    use super::*;
    use daftar_domain::context::{Clock, FakeClock};
    use daftar_store::Write;
    use daftar_store::testing::AuditReads as _;
    use daftar_store_sled::SledStore;

    fn keeper() -> (AuditLog, Arc<SledStore>) {
        let store = Arc::new(SledStore::temporary());
        (AuditLog::new(store.clone()), store)
    }

    fn line(at: Timestamp) -> AuditEntry {
        AuditEntry { at, ..daftar_store::record::samples::audit_entries().remove(0) }
    }

    #[tokio::test]
    async fn what_is_older_than_the_setting_goes_and_a_line_says_how_much() {
        let (keeper, store) = keeper();
        let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
        let first = clock.now();
        for _ in 0..500 {
            // A separate write: each entry is a stored value and is removed individually.
            let (at, audit) = (clock.now(), vec![line(clock.now())]);
            let write = Write { at, source: None, operations: Vec::new(), audit, read_set: Vec::new() };
            store.commit(write).await.unwrap();
            clock.advance(SignedDuration::from_hours(1));
        }
        clock.set(first + SignedDuration::from_hours(24 * 10));
        assert_eq!(keeper.remove_old(clock.now(), 10, "r").await.unwrap(), 0, "exactly as old as allowed");
        clock.advance(SignedDuration::from_hours(300));
        assert_eq!(keeper.remove_old(clock.now(), 10, "r").await.unwrap(), 300);
        let left = store.audit(usize::MAX).await.unwrap();
        assert_eq!(left.len(), 201);
        assert_eq!((left[0].count, left[0].actor.clone(), left[0].action), (300, Actor::System, AuditAction::Audit));
        let note = "removed lines older than 2026-03-14T00:00:00Z, as `[audit] retention_days` is 10";
        assert_eq!(left[0].note.as_deref(), Some(note));
        assert_eq!(keeper.remove_old(clock.now(), 10, "r").await.unwrap(), 0, "and nothing the second time");
    }

    #[tokio::test]
    async fn more_days_than_the_calendar_has_remove_nothing() {
        let (keeper, store) = keeper();
        store.append_audit(vec![line(Timestamp::UNIX_EPOCH)]).await.unwrap();
        assert_eq!(keeper.remove_old(Timestamp::UNIX_EPOCH, u32::MAX, "r").await.unwrap(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_store::record::samples;
    use daftar_store::testing::AuditReads as _;
    use daftar_store_sled::SledStore;

    #[tokio::test]
    async fn what_names_more_than_a_line_holds_is_several_lines() {
        let store = Arc::new(SledStore::temporary());
        let log = AuditLog::new(store.clone());
        for (named, lines) in [(TARGETS_MAX, 1), (TARGETS_MAX + 1, 2), (3 * TARGETS_MAX, 3)] {
            let before = store.audit(usize::MAX).await.unwrap().len();
            let targets: Vec<String> = (0..named).map(|number| format!("Individual/urn:x:a|{number}")).collect();
            let entry = AuditEntry { targets: targets.clone(), ..samples::audit_entries().remove(0) };
            log.record_now(vec![entry]).await.unwrap();
            let mut written = store.audit(usize::MAX).await.unwrap();
            written.truncate(written.len() - before);
            assert_eq!(written.len(), lines, "{named}");
            let stored: Vec<String> = written.into_iter().rev().flat_map(|line| line.targets).collect();
            assert!(stored == targets, "every one, in order");
        }
    }
}

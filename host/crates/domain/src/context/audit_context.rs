//! Audit entries of a request, collected until the status of its response is known.
//!
//! Operations add entries without a status; the HTTP layer then ends the collection with the status and the reason, and
//! writes the entries. If a failed request has no entry of its failure, one is added here, so that a new route cannot
//! omit it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use crate::consent::ConsentId;

/// Maximum number of consents recorded for one call: more than one call reads rows.
const CONSENTS_MAX: usize = 50_000;

/// Lowest status of a failed call.
const FAILED_FROM: u16 = 400;
/// Lower statuses are the caller's fault. 499 means that the client disconnected: the outcome of the call is unknown.
const REFUSED_BELOW: u16 = 499;

/// Collects the audit entries of one request. The default belongs to no request: it collects nothing.
///
/// **Invariant:** after its end, nothing is collected: the entry of a task that outlives its request is returned, and
/// the task writes it itself.
#[derive(Debug, Clone, Default)]
pub struct AuditContext(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    request_id: Arc<str>,
    operation: Arc<str>,
    address: Option<IpAddr>,
    success_status: u16,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    has_ended: bool,
    caller: Option<(Actor, AuditAction)>,
    about: Vec<String>,
    reason: Option<String>,
    /// Fields returned by responses so far, each once.
    shown: Arc<[String]>,
    changed: Option<Changed>,
    relied_on: BTreeSet<ConsentId>,
    named: BTreeSet<String>,
    lines: Vec<AuditEntry>,
}

/// A record that the call changed.
#[derive(Debug)]
struct Changed {
    targets: Vec<String>,
    fields: Vec<String>,
}

/// The request that an audit context belongs to.
#[derive(Debug, Clone)]
pub struct AuditedRequest {
    /// Request ID.
    pub request_id: Arc<str>,
    /// Method and matched route.
    pub operation: Arc<str>,
    /// Client address, as stored in the audit log.
    pub address: Option<IpAddr>,
    /// Status of a successful response: entries written together with a change cannot wait for the response.
    pub success_status: u16,
}

impl AuditContext {
    /// Creates the audit context of a request.
    #[must_use]
    pub fn new(of: AuditedRequest) -> Self {
        let AuditedRequest { request_id, operation, address, success_status } = of;
        Self(Some(Arc::new(Inner { request_id, operation, address, success_status, state: Mutex::default() })))
    }

    /// Creates a separate context for a part of this request, such as an entry of a batch; it is ended separately.
    #[must_use]
    pub fn of_part(&self, operation: &str, success_status: u16) -> Self {
        let Some(inner) = &self.0 else { return Self::default() };
        let part = Self::new(AuditedRequest {
            request_id: Arc::clone(&inner.request_id),
            operation: operation.into(),
            address: inner.address,
            success_status,
        });
        if let (Some(part), caller) = (&part.0, inner.state().caller.clone()) {
            part.state().caller = caller;
        }
        part
    }

    /// Returns the method and matched route.
    #[must_use]
    pub fn operation(&self) -> Option<Arc<str>> {
        self.0.as_ref().map(|inner| Arc::clone(&inner.operation))
    }

    /// Returns the request ID.
    #[must_use]
    pub fn request_id(&self) -> Option<Arc<str>> {
        self.0.as_ref().map(|inner| Arc::clone(&inner.request_id))
    }

    /// Returns the client address.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.0.as_ref().and_then(|inner| inner.address)
    }

    /// Returns the status of a successful response.
    #[must_use]
    pub fn success_status(&self) -> Option<u16> {
        self.0.as_ref().map(|inner| inner.success_status)
    }

    /// Sets the caller and the action: from here on a failure is recorded.
    pub fn set_caller(&self, actor: Actor, action: AuditAction) {
        self.with(|state| state.caller = Some((actor, action)));
    }

    /// Returns the caller and the action, once they are known and until the end.
    #[must_use]
    pub fn caller(&self) -> Option<(Actor, AuditAction)> {
        self.0.as_ref().and_then(|inner| inner.state().caller.clone())
    }

    /// Sets the records that the call is about, for the entry of a failure that names none.
    pub fn about(&self, targets: impl IntoIterator<Item = String>) {
        self.with(|state| state.about = targets.into_iter().collect());
    }

    /// Sets the reason for a denial, if the response does not contain it.
    pub fn refused_for(&self, reason: impl Into<String>) {
        self.with(|state| state.reason = Some(reason.into()));
    }

    /// Adds API fields that the response returns, each once, for entries that name none.
    pub fn shows(&self, fields: Arc<[String]>) {
        self.with(|state| {
            if state.shown.is_empty() {
                state.shown = fields;
            } else {
                let more = fields.iter().filter(|field| !state.shown.contains(field));
                state.shown = state.shown.iter().chain(more).cloned().collect();
            }
        });
    }

    /// Records that the call changes these fields of a record. The entry is written with the change; if the response
    /// returns more of the record, that gets an entry of its own.
    pub fn changes(&self, targets: &[String], fields: &[String]) {
        self.with(|state| state.changed = Some(Changed { targets: targets.to_vec(), fields: fields.to_vec() }));
    }

    /// Adds the consents that granted access to the data read: every entry of an allowed operation names them.
    pub fn relies_on(&self, consents: &[ConsentId]) {
        self.with(|state| {
            let room = CONSENTS_MAX.saturating_sub(state.relied_on.len());
            state.relied_on.extend(consents.iter().take(room).copied());
        });
    }

    /// Returns the consents that granted access so far.
    #[must_use]
    pub fn relied_on(&self) -> Vec<ConsentId> {
        self.0.as_ref().map(|inner| inner.state().relied_on.iter().copied().collect()).unwrap_or_default()
    }

    /// Adds records that the response returns besides the requested one, such as the members of a group; each once.
    pub fn names(&self, targets: impl IntoIterator<Item = String>) {
        self.with(|state| state.named.extend(targets));
    }

    /// True if entries still require the fields that the response returns.
    #[must_use]
    pub fn wants_shown(&self) -> bool {
        let is_open =
            |line: &AuditEntry| line.status.is_none() && matches!(line.action, AuditAction::Read | AuditAction::Search);
        let waits = |state: &State| state.changed.is_some() || state.lines.iter().any(is_open);
        self.0.as_ref().is_some_and(|inner| waits(&inner.state()))
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// The entry, if it is not collected: the caller must write it immediately.
    pub fn collect(&self, entry: AuditEntry) -> Result<(), Box<AuditEntry>> {
        let Some(inner) = &self.0 else { return Err(Box::new(entry)) };
        let mut state = inner.state();
        if state.has_ended {
            return Err(Box::new(entry));
        }
        state.lines.push(entry);
        Ok(())
    }

    /// Discards the entries so far: the operation is repeated.
    pub fn begin_again(&self) {
        self.with(|state| {
            let caller = state.caller.take();
            let has_ended = state.has_ended;
            *state = State { caller, has_ended, ..State::default() };
        });
    }

    /// Ends the collection and returns the entries to write, with status and reason, and an entry of the failure if
    /// operations added none. Returns nothing on a second call.
    #[must_use]
    pub fn end(&self, now: Timestamp, status: u16, reason: Option<&str>) -> Vec<AuditEntry> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let mut state = inner.state();
        if std::mem::replace(&mut state.has_ended, true) {
            return Vec::new();
        }
        let State { about, reason: reported, shown, changed, relied_on, named, mut lines, caller, .. } =
            std::mem::take(&mut *state);
        state.has_ended = true;
        drop(state);
        let reason = reported.as_deref().or(reason);
        if status >= FAILED_FROM {
            inner.fail(&mut lines, caller, about, now, status, reason);
        } else {
            inner.report_shown(&mut lines, caller, now, (shown, changed), named);
        }
        let relied_on: Vec<ConsentId> = relied_on.into_iter().collect();
        for line in lines.iter_mut().filter(|line| line.status.is_none()) {
            line.status = Some(status);
            if line.outcome == AuditOutcome::Allowed && !relied_on.is_empty() {
                line.consents.clone_from(&relied_on);
            }
        }
        lines
    }

    fn with(&self, change: impl FnOnce(&mut State)) {
        if let Some(inner) = &self.0 {
            change(&mut inner.state());
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment or one push, so the state is consistent after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the entries as failed: completed operations were not returned to the client. If an operation recorded the
    /// failure itself, the other entries are unchanged.
    fn fail(
        &self,
        lines: &mut Vec<AuditEntry>,
        caller: Option<(Actor, AuditAction)>,
        about: Vec<String>,
        now: Timestamp,
        status: u16,
        reason: Option<&str>,
    ) {
        if !lines.iter().any(|line| line.status.is_none()) {
            lines.extend(caller.map(|caller| self.line(caller, about, now)));
        }
        let is_reported = lines.iter().any(|line| line.status.is_none() && line.outcome != AuditOutcome::Allowed);
        let outcome = if (REFUSED_BELOW..).contains(&status) { AuditOutcome::Failed } else { AuditOutcome::Refused };
        for line in lines.iter_mut().filter(|line| line.status.is_none()) {
            if line.outcome == AuditOutcome::Allowed && is_reported {
                continue;
            }
            line.outcome = outcome;
            line.reason = line.reason.take().or_else(|| reason.map(str::to_owned));
        }
    }

    /// Adds the returned fields and records. If the response to a change returns other records, or more fields than
    /// were changed, it gets an entry of its own, because the entry of the change is already written.
    fn report_shown(
        &self,
        lines: &mut Vec<AuditEntry>,
        caller: Option<(Actor, AuditAction)>,
        now: Timestamp,
        (shown, changed): (Arc<[String]>, Option<Changed>),
        named: BTreeSet<String>,
    ) {
        let is_read = |line: &AuditEntry| {
            line.status.is_none()
                && line.outcome == AuditOutcome::Allowed
                && matches!(line.action, AuditAction::Read | AuditAction::Search)
        };
        for line in lines.iter_mut().filter(|line| is_read(line) && line.fields.is_empty()) {
            line.fields = Arc::clone(&shown);
        }
        // The entry of the change names the record by its identifiers.
        let shows_more =
            |changed: &Changed| shown.iter().any(|field| field != "identifier" && !changed.fields.contains(field));
        let also_shown = changed.filter(shows_more).map(|changed| changed.targets).unwrap_or_default();
        if named.is_empty() && also_shown.is_empty() {
            return;
        }
        if let Some(line) = lines.iter_mut().find(|line| is_read(line)) {
            let already: HashSet<String> = line.targets.iter().cloned().collect();
            line.targets.extend(named.into_iter().filter(|target| !already.contains(target)));
        } else if let Some((actor, _)) = caller {
            let others = named.into_iter().filter(|target| !also_shown.contains(target));
            let targets = also_shown.iter().cloned().chain(others).collect();
            let line = self.line((actor, AuditAction::Read), targets, now);
            let line = AuditEntry { outcome: AuditOutcome::Allowed, fields: shown, ..line };
            lines.push(line.with_note("returned in the response"));
        }
    }

    fn line(&self, (actor, action): (Actor, AuditAction), targets: Vec<String>, now: Timestamp) -> AuditEntry {
        AuditEntry {
            at: now,
            actor,
            address: self.address,
            request_id: self.request_id.to_string(),
            operation: Some(Arc::clone(&self.operation)),
            action,
            outcome: AuditOutcome::Refused,
            status: None,
            targets,
            fields: Arc::default(),
            consents: Vec::new(),
            reason: None,
            note: None,
            count: 1,
        }
    }
}

/// Collects the entries of ended audit contexts. Clones share their content.
#[derive(Debug, Clone, Default)]
pub struct HeldLines(Arc<Mutex<Vec<AuditEntry>>>);

impl HeldLines {
    /// Adds entries.
    pub fn hold(&self, lines: Vec<AuditEntry>) {
        // The list is consistent after a panic elsewhere: each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
    }

    /// Returns and removes all collected entries, in order.
    #[must_use]
    pub fn take(&self) -> Vec<AuditEntry> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! What a request leaves in the audit log, collected until its answer is known.
//!
//! Use cases hand in lines without a status; whoever answers the request ends the trail with the status and the reason, and
//! writes the lines down. A request that failed and left no line of its failure gets one here, so that a new route cannot
//! forget it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use crate::consent::ConsentId;

/// The most consents that are noted of one call: more than one call looks at rows.
const CONSENTS_MAX: usize = 50_000;

/// Statuses from here on say that a call was not done.
const FAILED_FROM: u16 = 400;
/// Below this it is the caller's doing. 499 stands for a caller who left: whether the call was done is not known.
const REFUSED_BELOW: u16 = 499;

/// Collects the lines of one request. The default belongs to no request: it collects nothing.
///
/// **Invariant:** once it has ended, nothing is collected any more: what a task hands in that outlives its request is given
/// back, and written down by itself.
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
    /// What every answer so far showed, each field once.
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

/// What a trail is of.
#[derive(Debug, Clone)]
pub struct AuditedRequest {
    /// The request.
    pub request_id: Arc<str>,
    /// Method and matched route.
    pub operation: Arc<str>,
    /// Where it came from, as the audit log keeps it.
    pub address: Option<IpAddr>,
    /// The status of its answer when it succeeds: what is written together with a change cannot wait for the answer.
    pub success_status: u16,
}

impl AuditContext {
    /// The trail of a request.
    #[must_use]
    pub fn new(of: AuditedRequest) -> Self {
        let AuditedRequest { request_id, operation, address, success_status } = of;
        Self(Some(Arc::new(Inner { request_id, operation, address, success_status, state: Mutex::default() })))
    }

    /// A trail of its own for a part of this request, such as an entry of a batch: to be ended by itself.
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

    /// By which call.
    #[must_use]
    pub fn operation(&self) -> Option<Arc<str>> {
        self.0.as_ref().map(|inner| Arc::clone(&inner.operation))
    }

    /// In which request.
    #[must_use]
    pub fn request_id(&self) -> Option<Arc<str>> {
        self.0.as_ref().map(|inner| Arc::clone(&inner.request_id))
    }

    /// From where.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.0.as_ref().and_then(|inner| inner.address)
    }

    /// The status that the call is answered with when it succeeds.
    #[must_use]
    pub fn success_status(&self) -> Option<u16> {
        self.0.as_ref().map(|inner| inner.success_status)
    }

    /// Says who calls, and what the call would do: from here on a failure is written down.
    pub fn set_caller(&self, actor: Actor, action: AuditAction) {
        self.with(|state| state.caller = Some((actor, action)));
    }

    /// The actor and what the call would do, once they are known and until the end.
    #[must_use]
    pub fn caller(&self) -> Option<(Actor, AuditAction)> {
        self.0.as_ref().and_then(|inner| inner.state().caller.clone())
    }

    /// Says which records the call is about, for the line of a failure that names none.
    pub fn about(&self, targets: impl IntoIterator<Item = String>) {
        self.with(|state| state.about = targets.into_iter().collect());
    }

    /// Says why the call is refused, where its answer does not.
    pub fn refused_for(&self, reason: impl Into<String>) {
        self.with(|state| state.reason = Some(reason.into()));
    }

    /// Says which API fields the answer shows, each named once, for lines that name none.
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

    /// Says that the call changes those fields of a record, whose line is written with the change: where the answer shows more of
    /// it, that has a line of its own.
    pub fn changes(&self, targets: &[String], fields: &[String]) {
        self.with(|state| state.changed = Some(Changed { targets: targets.to_vec(), fields: fields.to_vec() }));
    }

    /// Says which consents opened what the call looks at: every line of what is allowed names them.
    pub fn relies_on(&self, consents: &[ConsentId]) {
        self.with(|state| {
            let room = CONSENTS_MAX.saturating_sub(state.relied_on.len());
            state.relied_on.extend(consents.iter().take(room).copied());
        });
    }

    /// The consents that opened what the call looked at so far.
    #[must_use]
    pub fn relied_on(&self) -> Vec<ConsentId> {
        self.0.as_ref().map(|inner| inner.state().relied_on.iter().copied().collect()).unwrap_or_default()
    }

    /// Says whom the answer shows besides the record that was asked for, such as the members of a group; each once.
    pub fn names(&self, targets: impl IntoIterator<Item = String>) {
        self.with(|state| state.named.extend(targets));
    }

    /// Whether lines wait for the fields that the answer shows.
    #[must_use]
    pub fn wants_shown(&self) -> bool {
        let is_open =
            |line: &AuditEntry| line.status.is_none() && matches!(line.action, AuditAction::Read | AuditAction::Search);
        let waits = |state: &State| state.changed.is_some() || state.lines.iter().any(is_open);
        self.0.as_ref().is_some_and(|inner| waits(&inner.state()))
    }

    /// Takes a line.
    ///
    /// # Errors
    /// The line, when nobody collects it: it has to be written down at once.
    pub fn collect(&self, entry: AuditEntry) -> Result<(), Box<AuditEntry>> {
        let Some(inner) = &self.0 else { return Err(Box::new(entry)) };
        let mut state = inner.state();
        if state.has_ended {
            return Err(Box::new(entry));
        }
        state.lines.push(entry);
        Ok(())
    }

    /// Forgets what use cases handed in so far: all of it is done anew.
    pub fn begin_again(&self) {
        self.with(|state| {
            let caller = state.caller.take();
            let has_ended = state.has_ended;
            *state = State { caller, has_ended, ..State::default() };
        });
    }

    /// Ends it, and gives the lines to write down: with the status and the reason, and one of the failure where the use cases
    /// left none. Gives nothing the second time.
    #[must_use]
    pub fn end(&self, now: Timestamp, status: u16, reason: Option<&str>) -> Vec<AuditEntry> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let mut state = inner.state();
        if std::mem::replace(&mut state.has_ended, true) {
            return Vec::new();
        }
        let State { about, reason: told, shown, changed, relied_on, named, mut lines, caller, .. } =
            std::mem::take(&mut *state);
        state.has_ended = true;
        drop(state);
        let reason = told.as_deref().or(reason);
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
        // Each change is one assignment or one push, so a panic leaves it sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the lines say that the call failed. What was handed in as done was not answered; where a use case told of the
    /// failure itself, the rest stays as it was.
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
        let is_told = lines.iter().any(|line| line.status.is_none() && line.outcome != AuditOutcome::Allowed);
        let outcome = if (REFUSED_BELOW..).contains(&status) { AuditOutcome::Failed } else { AuditOutcome::Refused };
        for line in lines.iter_mut().filter(|line| line.status.is_none()) {
            if line.outcome == AuditOutcome::Allowed && is_told {
                continue;
            }
            line.outcome = outcome;
            line.reason = line.reason.take().or_else(|| reason.map(str::to_owned));
        }
    }

    /// Adds which fields the answer shows, and whom besides. An answer to a change that shows others, or more of the record than
    /// what was changed, has a line of its own for that, as the line of the change is written already.
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
        // Identifiers are what the line of the change names the record by.
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
            lines.push(line.with_note("shown in the answer"));
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

/// Collects what ended trails leave. Clones share what they hold.
#[derive(Debug, Clone, Default)]
pub struct HeldLines(Arc<Mutex<Vec<AuditEntry>>>);

impl HeldLines {
    /// Keeps lines back.
    pub fn hold(&self, lines: Vec<AuditEntry>) {
        // A panic elsewhere leaves the list whole: each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
    }

    /// Everything that is kept back, in the order in which it came; nothing is after that.
    #[must_use]
    pub fn take(&self) -> Vec<AuditEntry> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

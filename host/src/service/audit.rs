//! Writes down who read what and who was refused.
//!
//! Changes are audited in the same write as the change. What changes nothing is collected until the request's answer is known
//! (`context/trail.rs`) and then handed to the store, which packs such lines together and brings them to disk shortly after,
//! without making the reader wait for it. Refusals of unknown callers are counted together (`tally`), so that nobody can fill
//! the disk with them.

pub mod keeper;
mod tally;

use std::sync::Arc;

use jiff::Timestamp;

use crate::context::OpContext;
use crate::domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use crate::error::AppError;
use crate::store::Store;

use self::tally::Tally;

/// The most targets named by one entry.
const TARGETS_MAX: usize = 1_000;

/// A handle to the audit log.
#[derive(Clone)]
pub struct AuditLog {
    store: Arc<dyn Store>,
    refusals: Arc<Tally>,
}

impl AuditLog {
    /// The audit log of a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, refusals: Arc::default() }
    }

    /// Writes down something that changed nothing: with the request's other lines before it is answered, or at once where it
    /// is part of no request.
    ///
    /// # Errors
    /// When the store takes no more entries: what cannot be audited is not done.
    pub async fn record(&self, ctx: &OpContext, entry: AuditEntry) -> Result<(), AppError> {
        match ctx.trail.collect(entry) {
            Ok(()) => Ok(()),
            Err(entry) => self.record_now(vec![*entry]).await,
        }
    }

    /// Writes lines down at once: of what must not begin before, and of a request that ends.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_now(&self, entries: Vec<AuditEntry>) -> Result<(), AppError> {
        if entries.is_empty() { Ok(()) } else { Ok(self.store.append_audit(entries).await?) }
    }

    /// Writes down the lines of a request that ends; what anybody can cause as often as they like is counted together.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_ended(&self, entries: Vec<AuditEntry>) -> Result<(), AppError> {
        let mut lines = Vec::with_capacity(entries.len());
        for entry in entries {
            if is_counted(&entry) { lines.extend(self.refusals.add(entry)) } else { lines.push(entry) }
        }
        self.record_now(lines).await
    }

    /// Writes down the counts of refusals whose minute is over.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn tell_counts(&self, now: Timestamp) -> Result<(), AppError> {
        self.record_now(self.refusals.over(now)).await
    }

    /// Writes down all counts of refusals that wait: the server stops.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn tell_all_counts(&self) -> Result<(), AppError> {
        self.record_now(self.refusals.all()).await
    }
}

/// Whether there is no bound to how often it comes: from callers who are not known, and beyond the limit of a client.
fn is_counted(entry: &AuditEntry) -> bool {
    const TOO_MANY_REQUESTS: u16 = 429;
    entry.outcome != AuditOutcome::Allowed && (entry.actor == Actor::Unknown || entry.status == Some(TOO_MANY_REQUESTS))
}

/// A line for what a context does. Others are said by its `with_…` methods.
#[must_use]
pub fn entry(ctx: &OpContext, action: AuditAction, outcome: AuditOutcome, mut targets: Vec<String>) -> AuditEntry {
    targets.truncate(TARGETS_MAX);
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
        fields: Vec::new(),
        consents,
        reason: None,
        note: None,
        count: 1,
    }
}

/// The line of a change is written together with the change, before anybody is answered; all others wait for the answer.
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

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

use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_store::{Store, StoreError, Write};

use self::tally::Tally;

/// The most targets that one line names: what names more becomes several lines, so that none is left out.
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
        if entries.is_empty() {
            return Ok(());
        }
        let lines: Vec<AuditEntry> = entries.into_iter().flat_map(in_lines).collect();
        let again = if lines.iter().all(is_look) { Vec::new() } else { lines.clone() };
        match self.store.append_audit(lines).await {
            // Too many wait. What may have gone with a change is written by itself: the change is not undone any more.
            Err(StoreError::Overloaded) if !again.is_empty() => {
                let at = again.first().map_or(Timestamp::UNIX_EPOCH, |line| line.at);
                let write = Write { at, source: None, operations: Vec::new(), audit: again, rests_on: Vec::new() };
                self.store.commit(write).await?;
                Ok(())
            }
            other => Ok(other?),
        }
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

/// Whether it tells of nothing but looking.
fn is_look(entry: &AuditEntry) -> bool {
    matches!(entry.action, AuditAction::Read | AuditAction::Search | AuditAction::Audit)
}

/// A line as lines of no more than [`TARGETS_MAX`] targets and consents each.
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

/// Whether there is no bound to how often it comes: from callers who are not known, and beyond the limit of a client.
fn is_counted(entry: &AuditEntry) -> bool {
    const TOO_MANY_REQUESTS: u16 = 429;
    entry.outcome != AuditOutcome::Allowed && (entry.actor == Actor::Unknown || entry.status == Some(TOO_MANY_REQUESTS))
}

/// A line for what a context does. Others are said by its `with_…` methods.
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

/// The line of a change of these fields of a record. Where the answer shows more of the record, the trail adds a line for that.
#[must_use]
pub fn with_changes(ctx: &OpContext, entry: AuditEntry, fields: impl IntoIterator<Item = String>) -> AuditEntry {
    let fields: Vec<String> = fields.into_iter().collect();
    ctx.trail.changes(&entry.targets, &fields);
    entry.with_fields(fields)
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

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_store::record::samples;
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
            let kept: Vec<String> = written.into_iter().rev().flat_map(|line| line.targets).collect();
            assert!(kept == targets, "every one, in order");
        }
    }
}

//! What the administrator does with the audit log, and how long it is kept.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::audit::{self, AuditLog};
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome, REMOVAL_NOTE};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_store::Store;
use daftar_store::audit_log::AuditRemoval;

/// About how many lines one look goes through: some tenths of a second.
const EXAMINED_MAX: usize = 200_000;

/// Looks things up in the audit log, and removes what is old enough.
#[derive(Clone)]
pub struct AuditKeeper {
    store: Arc<dyn Store>,
    log: AuditLog,
}

impl AuditKeeper {
    /// The keeper of an audit log.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, log: AuditLog) -> Self {
        Self { store, log }
    }

    /// Looks through the lines before a place, newest first, for `lines_max` at most. That it was asked, and for whom, is
    /// written down.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn query(
        &self,
        ctx: &OpContext,
        query: AuditQuery,
        before: AuditPosition,
        lines_max: usize,
    ) -> Result<AuditPage, AppError> {
        let asked = asked(&query);
        let targets = query.target.iter().cloned().collect();
        let bounds = AuditBounds { lines_max, examined_max: EXAMINED_MAX };
        let page = self.store.audit_page(query, before, bounds).await?;
        let entry = audit::entry(ctx, AuditAction::Audit, AuditOutcome::Allowed, targets);
        self.log.record(ctx, entry.with_note(format!("{asked}; {} lines were shown", page.entries.len()))).await?;
        Ok(page)
    }

    /// Looks through the lines before a place, as [`Self::query`], for what the server has to know itself.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn look(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        lines_max: usize,
    ) -> Result<AuditPage, AppError> {
        let bounds = AuditBounds { lines_max, examined_max: EXAMINED_MAX };
        Ok(self.store.audit_page(query, before, bounds).await?)
    }

    /// Removes lines of more than so many days ago; says how many. What is on disk together goes together, once all of it is
    /// old enough.
    ///
    /// # Errors
    /// When the store fails. What was removed before is told of.
    pub async fn remove_old(&self, now: Timestamp, retention_days: u32, request_id: &str) -> Result<u64, AppError> {
        let kept = SignedDuration::from_hours(24_i64.saturating_mul(i64::from(retention_days)));
        let Ok(before) = now.checked_sub(kept) else { return Ok(0) };
        let line = AuditEntry {
            at: now,
            actor: Actor::System,
            address: None,
            request_id: request_id.to_owned(),
            operation: None,
            action: AuditAction::Audit,
            outcome: AuditOutcome::Allowed,
            status: None,
            targets: Vec::new(),
            fields: Arc::default(),
            consents: Vec::new(),
            reason: None,
            note: Some(format!("{REMOVAL_NOTE} {before}, as `[audit] retention_days` is {retention_days}")),
            count: 0,
        };
        let mut told = None;
        let removal = |told| AuditRemoval { before, line: line.clone(), told };
        while let Some(removed) = self.store.remove_audit(removal(told)).await? {
            told = Some(removed);
            // Requests go first.
            tokio::task::yield_now().await;
        }
        Ok(told.map_or(0, |told| told.lines))
    }
}

/// Which conditions a query has, never their values: they may be of a person, and whoever was looked for is a target.
fn asked(query: &AuditQuery) -> String {
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
    format!("looked through by {}", if names.is_empty() { "nothing".to_owned() } else { names.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::context::{Clock, FakeClock};
    use daftar_store::Write;
    use daftar_store_sled::SledStore;

    fn keeper() -> (AuditKeeper, Arc<SledStore>) {
        let store = Arc::new(SledStore::temporary());
        (AuditKeeper::new(store.clone(), AuditLog::new(store.clone())), store)
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
            // A write of its own: each line is a stored value, and removed by itself.
            let (at, audit) = (clock.now(), vec![line(clock.now())]);
            let write = Write { at, source: None, operations: Vec::new(), audit, rests_on: Vec::new() };
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

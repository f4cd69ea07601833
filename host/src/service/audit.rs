//! Writes down who read what and who was refused.
//!
//! Changes are audited in the same write as the change. What changes nothing is handed to the store, which packs such lines
//! together and brings them to disk shortly after, without making the reader wait for it.

use std::sync::Arc;

use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use crate::error::AppError;
use crate::store::Store;

/// The most targets named by one entry.
const TARGETS_MAX: usize = 1_000;

/// A handle to the audit log.
#[derive(Clone)]
pub struct AuditLog {
    store: Arc<dyn Store>,
}

impl AuditLog {
    /// The audit log of a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Writes down something that changed nothing.
    ///
    /// # Errors
    /// When the store takes no more entries: what cannot be audited is not done.
    pub async fn record(&self, entry: AuditEntry) -> Result<(), AppError> {
        Ok(self.store.append_audit(vec![entry]).await?)
    }
}

/// An entry for what a context does.
#[must_use]
pub fn entry(ctx: &OpContext, action: AuditAction, outcome: AuditOutcome, mut targets: Vec<String>) -> AuditEntry {
    targets.truncate(TARGETS_MAX);
    AuditEntry {
        at: ctx.now,
        actor: ctx.actor.clone(),
        request_id: ctx.request_id.to_string(),
        action,
        outcome,
        targets,
        note: None,
    }
}

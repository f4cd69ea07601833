//! Writes down reads and refusals without making anybody wait for the disk.
//!
//! Changes are audited in the same write as the change. What changes nothing is collected here and stored up to
//! [`PACK_ENTRIES_MAX`] entries at a time; a crash loses at most [`PACK_INTERVAL`] of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use crate::error::AppError;
use crate::store::Store;

/// The most entries of one stored pack.
pub const PACK_ENTRIES_MAX: usize = 256;
/// How long an entry waits for company.
pub const PACK_INTERVAL: Duration = Duration::from_millis(50);
/// The most entries that wait to be stored; then whoever wants to read waits too.
const QUEUE_ENTRIES_MAX: usize = 16 * PACK_ENTRIES_MAX;
/// The most targets named by one entry.
const TARGETS_MAX: usize = 1_000;

/// A handle to the audit log's writer.
#[derive(Clone)]
pub struct AuditLog {
    queue: mpsc::Sender<AuditEntry>,
    closing: Arc<Notify>,
}

impl AuditLog {
    /// Makes a log and the writer that stores it; the writer runs until [`Self::close`] and stores what is queued first.
    pub fn new(store: Arc<dyn Store>) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, entries) = mpsc::channel(QUEUE_ENTRIES_MAX);
        let closing = Arc::new(Notify::new());
        let writer = write_packs(store, entries, closing.clone());
        (Self { queue, closing }, writer)
    }

    /// Takes no more entries; the writer stores what is queued and ends.
    pub fn close(&self) {
        self.closing.notify_one();
    }

    /// Writes down something that changed nothing. Returns once the entry is queued.
    ///
    /// # Errors
    /// [`AppError::Unavailable`] when nobody writes the log any more: what cannot be audited is not done.
    pub async fn record(&self, entry: AuditEntry) -> Result<(), AppError> {
        self.queue.send(entry).await.map_err(|_| AppError::Unavailable("the audit log is closed".into()))
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

async fn write_packs(store: Arc<dyn Store>, mut entries: mpsc::Receiver<AuditEntry>, closing: Arc<Notify>) {
    let mut pack = Vec::with_capacity(PACK_ENTRIES_MAX);
    loop {
        let received = tokio::select! {
            received = entries.recv_many(&mut pack, PACK_ENTRIES_MAX) => received,
            () = closing.notified() => {
                entries.close();
                continue;
            }
        };
        if received == 0 {
            return;
        }
        if pack.len() < PACK_ENTRIES_MAX && !entries.is_closed() {
            tokio::time::sleep(PACK_INTERVAL).await;
            while pack.len() < PACK_ENTRIES_MAX {
                let Ok(entry) = entries.try_recv() else { break };
                pack.push(entry);
            }
        }
        if let Err(error) = store.append_audit(std::mem::take(&mut pack)).await {
            tracing::error!(error = %error, "the audit log cannot be written, no more reads are served");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::audit::Actor;
    use crate::domain::scope::ScopeSet;
    use crate::store::memory::MemoryStore;

    #[tokio::test]
    async fn everything_recorded_before_the_close_is_stored() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let (log, writer) = AuditLog::new(store.clone());
        let writer = tokio::spawn(writer);
        let ctx = OpContext {
            actor: Actor::Administrator,
            scopes: ScopeSet::default(),
            request_id: "r".into(),
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        for at in 0..PACK_ENTRIES_MAX + 3 {
            let target = vec![at.to_string()];
            log.record(entry(&ctx, AuditAction::Read, AuditOutcome::Allowed, target)).await.unwrap();
        }
        log.close();
        writer.await.unwrap();
        let stored = store.audit(PACK_ENTRIES_MAX * 2).await.unwrap();
        assert_eq!(stored.len(), PACK_ENTRIES_MAX + 3);
        assert_eq!(stored[0].targets, [(PACK_ENTRIES_MAX + 2).to_string()], "the newest comes first");
        assert!(log.record(entry(&ctx, AuditAction::Read, AuditOutcome::Allowed, Vec::new())).await.is_err());
    }
}

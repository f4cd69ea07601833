//! Keeps the audit log as the settings say, beside the requests.

use std::sync::Arc;
use std::time::Duration;

use daftar_domain::context::{Clock, IdSource};
use daftar_service::audit::AuditLog;

/// How often counts of refusals are looked at.
const COUNTS_INTERVAL: Duration = Duration::from_secs(15);
/// How often old lines are looked for, in intervals of the counts: every hour.
const REMOVAL_INTERVALS: u64 = 240;

/// What is kept up, and by which settings.
pub(super) struct AuditUpkeep {
    pub(super) log: AuditLog,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn IdSource>,
    /// How many days lines are kept; for ever where absent.
    pub(super) retention_days: Option<u32>,
}

impl AuditUpkeep {
    /// Works until it is dropped.
    pub(super) async fn keep_up(self) {
        let mut ticks = tokio::time::interval(COUNTS_INTERVAL);
        for turn in 0_u64.. {
            ticks.tick().await;
            if let Err(error) = self.log.tell_counts(self.clock.now()).await {
                tracing::warn!(error = %error, "counts of refusals cannot be audited");
            }
            if turn.is_multiple_of(REMOVAL_INTERVALS) {
                self.remove_old().await;
            }
        }
    }

    async fn remove_old(&self) {
        let Some(retention_days) = self.retention_days else { return };
        let (now, id) = (self.clock.now(), self.ids.next_id());
        match self.log.remove_old(now, retention_days, &id).await {
            Ok(0) => {}
            Ok(lines) => tracing::info!(
                audit.lines = lines,
                audit.retention_days = retention_days,
                "old lines of the audit log were removed"
            ),
            Err(error) => {
                tracing::warn!(error = %error, "old lines of the audit log cannot be removed, the next hour tries again")
            }
        }
    }
}

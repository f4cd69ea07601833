//! The line of a preview in the audit log, however the preview ends.

use tokio::runtime::Handle;

use super::super::Preview;
use crate::audit::AuditLog;
use daftar_domain::audit::{AuditEntry, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;

/// The line of a preview in the audit log: written when it ends, however it ends.
pub(super) struct Trace {
    pub line: Option<AuditEntry>,
    pub ctx: OpContext,
    pub audit: AuditLog,
}

/// What access logs call a call whose caller left.
const CALLER_LEFT: u16 = 499;
/// The status of an answer whose lines are sent as they come.
pub(in super::super) const STREAMED: u16 = 200;

impl Trace {
    /// Writes the line of a preview that came to its end.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn end(&mut self, finished: Result<&Preview, &AppError>) -> Result<(), AppError> {
        let Some(mut line) = self.line.take() else { return Ok(()) };
        match finished {
            Ok(preview) => {
                line.outcome = AuditOutcome::Allowed;
                line.targets = preview.sample.iter().map(|shown| shown.subject.clone()).collect();
                line.consents = self.ctx.trail.relied_on();
            }
            Err(AppError::Expression(_)) => line.outcome = AuditOutcome::Refused,
            Err(_) => line.outcome = AuditOutcome::Failed,
        }
        self.audit.record(&self.ctx, line).await
    }
}

impl Drop for Trace {
    /// Nobody waits for it any more: that it was begun is written down all the same.
    fn drop(&mut self) {
        let Some(line) = self.line.take() else { return };
        // Whoever ends the request says why.
        let Err(line) = self.ctx.trail.collect(line) else { return };
        let line = line.with_status(CALLER_LEFT).with_reason("the caller left before the preview was at its end");
        let (audit, Ok(runtime)) = (self.audit.clone(), Handle::try_current()) else { return };
        runtime.spawn(async move {
            if let Err(error) = audit.record_now(vec![line]).await {
                tracing::error!(error = %error, "a preview whose caller left could not be audited");
            }
        });
    }
}

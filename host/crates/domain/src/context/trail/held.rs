//! Lines of parts of a request that wait until it is known what becomes of the whole.

use std::sync::{Arc, Mutex, PoisonError};

use crate::audit::AuditEntry;

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

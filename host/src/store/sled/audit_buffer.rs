//! Lines of the audit log that wait to be written together: reads and refusals, which would otherwise each cost a write.
//!
//! **Invariant:** bounded. A crash loses at most what came in during [`AUDIT_DELAY`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::domain::audit::AuditEntry;
use crate::store::StoreError;
use crate::store::record::audit::{ENTRIES_PER_VALUE_MAX, entry_as_stored};

/// The longest that a line waits before it is written.
pub(super) const AUDIT_DELAY: Duration = Duration::from_millis(50);
/// The most lines that wait. At 50 ms this is more than a million lines a second.
const WAITING_MAX: usize = 65_536;

/// The lines that wait.
#[derive(Debug, Default)]
pub(super) struct AuditBuffer {
    waiting: Mutex<Vec<AuditEntry>>,
}

/// Whether the writer has to hear of lines that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// These are the first: it writes them after [`AUDIT_DELAY`].
    First,
    /// It knows.
    More,
    /// They fill a value: it can write them now.
    Full,
}

impl AuditBuffer {
    /// Adds lines.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] when too many wait; none is added then.
    pub(super) fn add(&self, entries: Vec<AuditEntry>) -> Result<Waiting, StoreError> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.len();
        if before.saturating_add(entries.len()) > WAITING_MAX {
            return Err(StoreError::Overloaded);
        }
        waiting.extend(entries.into_iter().map(entry_as_stored));
        let after = waiting.len();
        let fills_a_value = before < ENTRIES_PER_VALUE_MAX && after >= ENTRIES_PER_VALUE_MAX;
        if fills_a_value {
            Ok(Waiting::Full)
        } else if before == 0 && after > 0 {
            Ok(Waiting::First)
        } else {
            Ok(Waiting::More)
        }
    }

    /// Takes everything that waits.
    pub(super) fn take(&self) -> Vec<AuditEntry> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite::audit_entry;

    #[test]
    fn says_when_the_writer_must_hear_of_lines_and_refuses_too_many() {
        let buffer = AuditBuffer::default();
        let lines = |count| vec![audit_entry("r"); count];
        assert_eq!(buffer.add(lines(0)).unwrap(), Waiting::More);
        assert_eq!(buffer.add(lines(1)).unwrap(), Waiting::First);
        assert_eq!(buffer.add(lines(ENTRIES_PER_VALUE_MAX - 2)).unwrap(), Waiting::More);
        assert_eq!(buffer.add(lines(1)).unwrap(), Waiting::Full);
        assert_eq!(buffer.add(lines(1)).unwrap(), Waiting::More);
        let room = WAITING_MAX - ENTRIES_PER_VALUE_MAX - 1;
        assert!(matches!(buffer.add(lines(room + 1)), Err(StoreError::Overloaded)));
        assert_eq!(buffer.add(lines(room)).unwrap(), Waiting::More);
        assert_eq!(buffer.take().len(), WAITING_MAX);
        assert_eq!(buffer.add(lines(ENTRIES_PER_VALUE_MAX)).unwrap(), Waiting::Full);
    }
}

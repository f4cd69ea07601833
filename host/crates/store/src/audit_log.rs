//! The audit log: entries of reads and denied requests wait to be written together, since each would otherwise cost a
//! write; and the removal of old entries.
//!
//! **Invariant:** waiting entries are limited in number and bytes. A crash loses at most the entries of the last
//! [`AUDIT_DELAY`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::record::VALUE_BYTES_MAX;
use crate::record::audit::{AuditSegment, ENTRIES_PER_VALUE_MAX, entry_as_stored, stored_bytes};
use crate::{StoreError, segment};
use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};

/// Maximum time that an entry waits before it is written.
pub const AUDIT_DELAY: Duration = Duration::from_millis(50);
/// Maximum number of waiting entries. At 50 ms this is more than a million entries a second.
pub const WAITING_MAX: usize = 65_536;
/// Maximum memory of waiting entries, in bytes: some hundred entries with a thousand long targets each.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of stored values removed in one step: few enough for one batch, with the entry that reports the step.
pub const REMOVAL_VALUES_MAX: usize = 48;

/// Number of younger values that one step skips: entries written with a wrong clock do not prevent the removal of those
/// written after them.
pub const REMOVAL_PASSED_OVER_MAX: usize = 256;

/// One step of a removal.
#[derive(Debug, Clone)]
pub struct AuditRemoval {
    /// Only entries before this time.
    pub before: Timestamp,
    /// The entry that reports the removal; its count is set to the number of removed entries.
    pub line: AuditEntry,
    /// Result of the earlier steps of the same removal.
    pub reported: Option<AuditRemoved>,
}

/// Result of the steps of a removal so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditRemoved {
    /// Number of the value with the reporting entry.
    pub at: u64,
    /// Number of removed entries.
    pub lines: u64,
}

/// The waiting entries.
#[derive(Debug, Default)]
pub struct AuditBuffer {
    waiting: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    entries: Vec<AuditEntry>,
    /// Approximate memory of the entries, in bytes.
    bytes: usize,
}

/// Approximate memory of an entry, in bytes.
fn memory_bytes(entry: &AuditEntry) -> usize {
    let fixed = size_of::<AuditEntry>().saturating_add(entry.targets.len().saturating_mul(size_of::<String>()));
    stored_bytes(entry).saturating_add(fixed)
}

/// Notification for the writer about new entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// The first ones: it writes them after [`AUDIT_DELAY`].
    First,
    /// None: it is already notified.
    More,
    /// They fill a value: it can write them immediately.
    Full,
}

impl AuditBuffer {
    /// Adds entries.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] if too many are waiting; none is added then.
    pub fn add(&self, entries: Vec<AuditEntry>) -> Result<Waiting, StoreError> {
        let entries: Vec<_> = entries.into_iter().map(entry_as_stored).collect();
        let bytes = entries.iter().fold(0_usize, |bytes, entry| bytes.saturating_add(memory_bytes(entry)));
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, bytes_before) = (waiting.entries.len(), waiting.bytes);
        let (after, bytes_after) = (before.saturating_add(entries.len()), bytes_before.saturating_add(bytes));
        if after > WAITING_MAX || bytes_after > WAITING_BYTES_MAX {
            return Err(StoreError::Overloaded);
        }
        waiting.entries.extend(entries);
        waiting.bytes = bytes_after;
        let fill_a_value = |lines, bytes| lines >= ENTRIES_PER_VALUE_MAX || bytes >= VALUE_BYTES_MAX;
        if fill_a_value(after, bytes_after) && !fill_a_value(before, bytes_before) {
            Ok(Waiting::Full)
        } else if before == 0 && after > 0 {
            Ok(Waiting::First)
        } else {
            Ok(Waiting::More)
        }
    }

    /// Returns entries that could not be written to the queue, before newer ones.
    pub fn put_back(&self, mut entries: Vec<AuditEntry>) {
        let bytes = entries.iter().fold(0_usize, |bytes, entry| bytes.saturating_add(memory_bytes(entry)));
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        entries.append(&mut waiting.entries);
        waiting.bytes = waiting.bytes.saturating_add(bytes);
        waiting.entries = entries;
    }

    /// Number of waiting entries, and their approximate memory in bytes.
    pub fn waiting(&self) -> (usize, usize) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        (waiting.entries.len(), waiting.bytes)
    }

    /// Takes all waiting entries.
    pub fn take(&self) -> Vec<AuditEntry> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner)).entries
    }
}

/// Cost of skipping a segment, in examined entries.
const PASSED_OVER_COST: usize = 16;

/// A search of the audit log, newest first: its matches and its position.
pub struct AuditSearch<'q> {
    query: &'q AuditQuery,
    before: AuditPosition,
    bounds: AuditBounds,
    entries: Vec<AuditEntry>,
    examined: usize,
    /// The last examined position.
    at: AuditPosition,
}

impl<'q> AuditSearch<'q> {
    /// A search of the entries before a position.
    #[must_use]
    pub fn new(query: &'q AuditQuery, before: AuditPosition, bounds: AuditBounds) -> Self {
        Self { query, before, bounds, entries: Vec::new(), examined: 0, at: before }
    }

    /// True if it has found or examined enough.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.entries.len() >= self.bounds.lines_max || self.examined >= self.bounds.examined_max
    }

    /// Examines the entries of a value, newest first, until the search has finished; returns true if it has not.
    pub fn examine(&mut self, value: u64, lines: Vec<AuditEntry>) -> bool {
        for (line, entry) in (0_u32..).zip(lines).collect::<Vec<_>>().into_iter().rev() {
            let at = AuditPosition { value, line };
            if at >= self.before {
                continue;
            }
            if self.is_over() {
                return false;
            }
            self.examined = self.examined.saturating_add(1);
            self.at = at;
            if self.query.holds(&entry) {
                self.entries.push(entry);
            }
        }
        true
    }

    /// True if a segment may contain entries of the search; otherwise it is skipped.
    pub fn may_hold(&mut self, segment: &AuditSegment) -> bool {
        let may_hold = segment::may_hold(segment, self.query);
        if !may_hold {
            self.examined = self.examined.saturating_add(PASSED_OVER_COST);
            self.at = AuditPosition { value: segment.first, line: 0 };
        }
        may_hold
    }

    /// The matches, and the position where to continue; none after the first entry of the oldest value.
    #[must_use]
    pub fn page(self, oldest: Option<u64>) -> AuditPage {
        let end = oldest.map(|value| AuditPosition { value, line: 0 });
        AuditPage { entries: self.entries, next: end.filter(|end| self.at > *end).map(|_| self.at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::audit_entry;

    #[test]
    fn reports_when_to_notify_the_writer_and_rejects_too_many_entries() {
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

    #[test]
    fn rejects_entries_that_exceed_the_memory_limit() {
        let buffer = AuditBuffer::default();
        let long = || vec![AuditEntry { targets: vec!["t".repeat(500); 1_000], ..audit_entry("r") }];
        assert_eq!(buffer.add(long()).unwrap(), Waiting::First);
        assert_eq!(buffer.add(long()).unwrap(), Waiting::Full);
        let added = (2..).take_while(|_| buffer.add(long()).is_ok()).count() + 2;
        assert!((100..134).contains(&added), "{added}");
        assert!(matches!(buffer.add(long()), Err(StoreError::Overloaded)));
        assert_eq!(buffer.add(vec![audit_entry("short")]).unwrap(), Waiting::More);
        assert_eq!(buffer.take().len(), added + 1);
        assert_eq!(buffer.add(long()).unwrap(), Waiting::First);
    }
}

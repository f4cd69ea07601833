//! The audit log of the store that forgets: each line is a value of its own.

use std::collections::BTreeMap;

use crate::StoreError;
use crate::audit_archive::{AuditArchive, AuditRemoval, AuditRemoved, REMOVAL_PASSED_OVER_MAX, REMOVAL_VALUES_MAX};
use crate::record::audit::entry_as_stored;
use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};

use super::MemoryStore;

/// Lines by their numbers, which count up from 1.
#[derive(Default)]
pub(super) struct AuditLines {
    lines: BTreeMap<u64, AuditEntry>,
    last: u64,
}

impl AuditLines {
    pub(super) fn extend(&mut self, entries: impl IntoIterator<Item = AuditEntry>) {
        for entry in entries {
            self.last = self.last.saturating_add(1);
            self.lines.insert(self.last, entry_as_stored(entry));
        }
    }

    /// All lines with their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &AuditEntry)> {
        self.lines.iter().map(|(number, line)| (*number, line))
    }

    /// Takes up lines from that number on; those of one value get numbers of their own.
    pub(super) fn put(&mut self, number: u64, lines: Vec<AuditEntry>) {
        let first = number.max(self.last.saturating_add(1));
        for (number, line) in (first..).zip(lines) {
            self.last = number;
            self.lines.insert(number, line);
        }
    }

    pub(super) fn newest(&self, limit: usize) -> Vec<AuditEntry> {
        self.lines.values().rev().take(limit).cloned().collect()
    }

    fn page(&self, query: &AuditQuery, before: AuditPosition, bounds: AuditBounds) -> AuditPage {
        let mut entries = Vec::new();
        let mut next = None;
        for (examined, (number, entry)) in self.lines.range(..before.value).rev().enumerate() {
            if entries.len() >= bounds.lines_max || examined >= bounds.examined_max {
                // There is this one at least.
                next = Some(AuditPosition { value: number.saturating_add(1), line: 0 });
                break;
            }
            entries.extend(Some(entry).filter(|entry| query.holds(entry)).cloned());
        }
        AuditPage { entries, next }
    }

    fn remove(&mut self, removal: AuditRemoval) -> Option<AuditRemoved> {
        let AuditRemoval { before, line, told } = removal;
        let others = self.lines.iter().filter(|(number, _)| told.is_none_or(|told| told.at != **number));
        let (mut numbers, mut passed_over) = (Vec::new(), 0_usize);
        for (number, entry) in others {
            if entry.at < before {
                numbers.push(*number);
            } else {
                passed_over = passed_over.saturating_add(1);
            }
            if numbers.len() >= REMOVAL_VALUES_MAX || passed_over >= REMOVAL_PASSED_OVER_MAX {
                break;
            }
        }
        if numbers.is_empty() {
            return None;
        }
        let removed = u64::try_from(numbers.len()).unwrap_or(u64::MAX);
        let lines = told.map_or(0, |told| told.lines).saturating_add(removed);
        let line = AuditEntry { count: lines, ..line };
        let at = match told {
            Some(told) => {
                self.lines.insert(told.at, entry_as_stored(line));
                told.at
            }
            None => {
                self.extend([line]);
                self.last
            }
        };
        for number in numbers {
            self.lines.remove(&number);
        }
        Some(AuditRemoved { at, lines })
    }
}

#[async_trait::async_trait]
impl AuditArchive for MemoryStore {
    async fn audit_page(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError> {
        Ok(self.state().audit.page(&query, before, bounds))
    }

    async fn remove_audit(&self, removal: AuditRemoval) -> Result<Option<AuditRemoved>, StoreError> {
        Ok(self.state().audit.remove(removal))
    }
}

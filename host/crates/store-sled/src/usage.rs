//! The metrics of the embedded store.

use std::sync::atomic::Ordering;

use super::SledStore;
use daftar_store::audit_log::WAITING_MAX;
use daftar_store::meters::{StoreRecorders, WriteOutcome};

/// The metrics of a store.
#[derive(Debug, Clone, Copy)]
pub struct StoreUsage {
    /// True if there was no failure.
    pub is_sound: bool,
    /// Writes by outcome.
    pub writes: [(&'static str, u64); WriteOutcome::ALL.len()],
    /// The last write of records.
    pub sequence: u64,
    /// Jobs that are waiting or being written.
    pub waiting: usize,
    /// The most jobs that may wait.
    pub waiting_max: usize,
    /// Audit entries that wait to be written.
    pub audit_lines: usize,
    /// Their approximate memory, in bytes.
    pub audit_bytes: usize,
    /// The most audit entries that may wait.
    pub audit_lines_max: usize,
    /// The size of the store's files on disk; `None` if unknown.
    pub disk_bytes: Option<u64>,
}

impl SledStore {
    /// Records durations from now on.
    pub fn record_with(&self, recorders: StoreRecorders) {
        self.meters.record_with(recorders);
    }

    /// Returns the metrics. Checks the sizes of the files.
    #[must_use]
    pub fn usage(&self) -> StoreUsage {
        let (audit_lines, audit_bytes) = self.audit.waiting();
        StoreUsage {
            is_sound: self.reader.health.check().is_ok(),
            writes: self.meters.writes(),
            sequence: self.last_sequence.load(Ordering::Acquire),
            waiting: self.meters.waiting(),
            waiting_max: self.queue_writes_max,
            audit_lines,
            audit_bytes,
            audit_lines_max: WAITING_MAX,
            disk_bytes: self.reader.database.size_on_disk().ok(),
        }
    }
}

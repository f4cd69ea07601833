//! What the metrics page reports the embedded store.

use std::sync::atomic::Ordering;

use super::SledStore;
use daftar_store::audit_log::WAITING_MAX;
use daftar_store::meters::{StoreRecorders, WriteOutcome};

/// What the metrics page reports a store.
#[derive(Debug, Clone, Copy)]
pub struct StoreUsage {
    /// True if it still works.
    pub is_sound: bool,
    /// Writes by how they ended.
    pub writes: [(&'static str, u64); WriteOutcome::ALL.len()],
    /// The last write of records.
    pub sequence: u64,
    /// Jobs that wait for the writer or are being written.
    pub waiting: usize,
    /// How many may.
    pub waiting_max: usize,
    /// Lines of the audit log that wait to be written.
    pub audit_lines: usize,
    /// About the memory that they take.
    pub audit_bytes: usize,
    /// How many lines may wait.
    pub audit_lines_max: usize,
    /// What the files of the store take on disk; absent where that cannot be reported.
    pub disk_bytes: Option<u64>,
}

impl SledStore {
    /// Records how long its work takes from now on.
    pub fn record_with(&self, recorders: StoreRecorders) {
        self.meters.record_with(recorders);
    }

    /// What it has to do, what it did, and what it takes on disk. Checks the sizes of its files.
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

//! What the store measures of its database.

use std::sync::atomic::{AtomicU64, Ordering};

use daftar_store::audit_log::WAITING_MAX;
use daftar_store::meters::{StoreRecorders, WriteOutcome};

use super::PostgresStore;

/// What is counted of connections and of what had to be done again.
#[derive(Debug, Default)]
pub(super) struct Outages {
    connections: AtomicU64,
    retries: AtomicU64,
    unknown_commits: AtomicU64,
    groups: AtomicU64,
}

impl Outages {
    pub(super) fn note_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_unknown_commit(&self) {
        self.unknown_commits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_group(&self) {
        self.groups.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the metrics page tells of a store in PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub struct PostgresUsage {
    /// Whether the database answered when it was asked last.
    pub is_reachable: bool,
    /// Whether changes of other processes are heard of as they happen.
    pub is_listening: bool,
    /// Writes by how they ended.
    pub writes: [(&'static str, u64); WriteOutcome::ALL.len()],
    /// Groups of writes that were committed.
    pub groups: u64,
    /// The last write that this process knows of.
    pub sequence: u64,
    /// Writes that wait or are being made.
    pub waiting: usize,
    /// How many may.
    pub waiting_max: usize,
    /// Lines of the audit log that wait to be written.
    pub audit_lines: usize,
    /// About the memory that they take.
    pub audit_bytes: usize,
    /// How many lines may wait.
    pub audit_lines_max: usize,
    /// Connections for reads that there are.
    pub connections: usize,
    /// How many there may be.
    pub connections_max: usize,
    /// Those that nobody uses.
    pub connections_idle: usize,
    /// Reads that wait for one.
    pub connections_waited_for: usize,
    /// Connections that were made since the start, those made again after a loss included.
    pub connections_made: u64,
    /// Reads and groups of writes that were tried again.
    pub retries: u64,
    /// Commits whose end was not heard and had to be found out.
    pub unknown_commits: u64,
}

impl PostgresStore {
    /// Records how long its work takes from now on.
    pub fn record_with(&self, recorders: StoreRecorders) {
        self.meters.record_with(recorders);
    }

    /// Notes that a request failed by an outage of the database.
    pub fn note_request_failed(&self) {
        self.database.outage.note_request();
    }

    /// What it has to do, what it did, and how its connections are used. Asks no database.
    #[must_use]
    pub fn usage(&self) -> PostgresUsage {
        let (audit_lines, audit_bytes) = self.audit.waiting();
        let (status, outages) = (self.database.status(), &self.database.outages);
        PostgresUsage {
            is_reachable: !self.database.is_away(),
            is_listening: self.feed.is_listening(),
            writes: self.meters.writes(),
            groups: outages.groups.load(Ordering::Relaxed),
            sequence: self.last_sequence.load(Ordering::Acquire),
            waiting: self.meters.waiting(),
            waiting_max: self.queue_writes_max,
            audit_lines,
            audit_bytes,
            audit_lines_max: WAITING_MAX,
            connections: status.size,
            connections_max: status.max_size,
            connections_idle: status.available,
            connections_waited_for: status.waiting,
            connections_made: outages.connections.load(Ordering::Relaxed),
            retries: outages.retries.load(Ordering::Relaxed),
            unknown_commits: outages.unknown_commits.load(Ordering::Relaxed),
        }
    }
}

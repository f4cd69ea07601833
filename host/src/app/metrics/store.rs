//! What the metrics page tells of the store, the disk, checkpoints and backups.

use std::path::Path;

use super::{Metrics, MetricsSnapshot, number};
use crate::app::Upkeep;
use crate::app::open::MIB;
use daftar_http::state::StateParts;
use daftar_store_postgres::PostgresUsage;
use daftar_store_sled::StoreRecorders;

/// Times of writes.
pub(super) const COMMIT_TIMES: &str = "daftar_store_commit_duration_seconds";
/// Times of groups of writes.
pub(super) const SYNC_TIMES: &str = "daftar_store_sync_duration_seconds";
/// How many jobs such a group has.
pub(super) const GROUP_JOBS: &str = "daftar_store_group_jobs";
/// Upper bounds of sizes of groups that are told apart; a group has at most 257.
pub(super) const GROUP_BOUNDS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

const GAUGES: [(&str, &str); 17] = [
    ("daftar_store_up", "1 while the store works; 0 after a failure, until the next start."),
    ("daftar_store_writes_waiting", "Jobs that wait for the store's writer or are being written."),
    ("daftar_store_writes_waiting_limit", "How many may; one more is answered 503."),
    ("daftar_store_disk_bytes", "What the files of the store take on disk."),
    ("daftar_store_cache_limit_bytes", "Memory that the store's cache may take."),
    ("daftar_audit_lines_waiting", "Lines of the audit log that wait to be written."),
    ("daftar_audit_lines_waiting_limit", "How many may; one more is answered 503."),
    ("daftar_audit_lines_waiting_bytes", "Memory of the lines that wait."),
    ("daftar_disk_free_bytes", "Room that is left on the disk of a folder."),
    ("daftar_disk_size_bytes", "Room that the disk of a folder has in all."),
    ("daftar_records", "Records in the register, ended ones included."),
    ("daftar_checkpoint_age_seconds", "How long ago the last checkpoint was written, or read at the start."),
    ("daftar_checkpoint_writes_behind", "Writes that the last checkpoint does not show."),
    ("daftar_checkpoint_failed", "1 where the last try to write a checkpoint failed."),
    ("daftar_backup_last_timestamp_seconds", "As of when the last whole backup was."),
    (
        "daftar_requests_remembered_limit",
        "Requests of one client that are remembered by their Idempotency-Key, at most.",
    ),
    ("daftar_ready", "1 while requests can be served, as `/health/ready` says."),
];

const DATABASE_GAUGES: [(&str, &str); 5] = [
    ("daftar_partitions", "Partitions of the register that are in memory for previews."),
    ("daftar_partitions_bytes", "What they take."),
    ("daftar_database_connections", "Connections for reads, by whether somebody uses them."),
    ("daftar_database_connections_limit", "How many there may be."),
    ("daftar_database_connections_waited_for", "Reads that wait for one."),
];

const DATABASE_COUNTERS: [(&str, &str); 3] = [
    ("daftar_database_connections_made_total", "Connections that were made since the start."),
    ("daftar_database_retries_total", "Reads and groups of writes that were tried again."),
    ("daftar_database_unknown_commits_total", "Commits whose end was not heard and had to be found out."),
];

const COUNTERS: [(&str, &str); 2] = [
    ("daftar_store_writes_total", "Writes of use cases, by how they ended."),
    ("daftar_store_sequence_total", "Writes of records in the register's whole life."),
];

impl Metrics {
    /// What the store records its times with.
    #[must_use]
    pub fn store_recorders(&self) -> StoreRecorders {
        let histogram = |name: &'static str| self.histogram(name, Vec::new());
        StoreRecorders {
            commit: histogram(COMMIT_TIMES),
            sync: histogram(SYNC_TIMES),
            group_jobs: histogram(GROUP_JOBS),
        }
    }
}

impl MetricsSnapshot {
    pub(super) fn store(&mut self, app: &StateParts, upkeep: &Upkeep) {
        self.describe_all(&GAUGES, &COUNTERS);
        let usage = upkeep.keeper.usage();
        self.gauge("daftar_store_up", &[], f64::from(u8::from(usage.is_sound)));
        self.gauge("daftar_ready", &[], f64::from(u8::from(app.readiness().is_ok())));
        for (outcome, count) in usage.writes {
            self.counter("daftar_store_writes_total", &[("outcome", outcome)], count);
        }
        self.counter("daftar_store_sequence_total", &[], usage.sequence);
        self.gauge("daftar_store_writes_waiting", &[], number(usage.waiting));
        self.gauge("daftar_store_writes_waiting_limit", &[], number(usage.waiting_max));
        if let Some(bytes) = usage.disk_bytes {
            self.gauge("daftar_store_disk_bytes", &[], number(bytes));
        }
        self.gauge("daftar_audit_lines_waiting", &[], number(usage.audit_lines));
        self.gauge("daftar_audit_lines_waiting_limit", &[], number(usage.audit_lines_max));
        self.gauge("daftar_audit_lines_waiting_bytes", &[], number(usage.audit_bytes));
        self.gauge("daftar_requests_remembered_limit", &[], number(app.config.server.idempotency_keys_max));
        self.disk("data", &app.data_dir);
        match upkeep.keeper.database() {
            Some(usage) => self.database(app, &usage),
            None => self.embedded(app),
        }
        if let Some(checkpoints) = &upkeep.checkpoints {
            let usage = checkpoints.usage();
            if let Some(age) = usage.age {
                self.gauge("daftar_checkpoint_age_seconds", &[], age.as_secs_f64());
            }
            self.gauge("daftar_checkpoint_writes_behind", &[], number(usage.writes_behind));
            self.gauge("daftar_checkpoint_failed", &[], f64::from(u8::from(usage.has_failed)));
        }
        if let Some(last) = app.backups.last() {
            self.gauge("daftar_backup_last_timestamp_seconds", &[], last.as_second() as f64);
        }
    }
}

impl MetricsSnapshot {
    fn disk(&mut self, folder: &str, path: &Path) {
        if let Some((free, size)) = room(path) {
            self.gauge("daftar_disk_free_bytes", &[("folder", folder)], number(free));
            self.gauge("daftar_disk_size_bytes", &[("folder", folder)], number(size));
        }
    }

    fn embedded(&mut self, app: &StateParts) {
        self.gauge("daftar_store_cache_limit_bytes", &[], number(app.config.store.cache_mib.saturating_mul(MIB)));
        self.disk("store", &app.config.store.folder(&app.data_dir));
        let snapshot = app.registry.columns.snapshot();
        for (kind, count) in [("individual", snapshot.individual_count()), ("group", snapshot.group_count())] {
            self.gauge("daftar_records", &[("kind", kind)], number(count));
        }
    }

    fn database(&mut self, app: &StateParts, usage: &PostgresUsage) {
        self.describe_all(&DATABASE_GAUGES, &DATABASE_COUNTERS);
        let in_use = usage.connections.saturating_sub(usage.connections_idle);
        self.gauge("daftar_database_connections", &[("state", "idle")], number(usage.connections_idle));
        self.gauge("daftar_database_connections", &[("state", "in_use")], number(in_use));
        self.gauge("daftar_database_connections_limit", &[], number(usage.connections_max));
        self.gauge("daftar_database_connections_waited_for", &[], number(usage.connections_waited_for));
        if let Some(parted) = &app.registry.parted {
            let kept = parted.usage();
            self.gauge("daftar_partitions", &[], number(kept.partitions));
            self.gauge("daftar_partitions_bytes", &[], number(kept.bytes));
        }
        self.counter("daftar_database_connections_made_total", &[], usage.connections_made);
        self.counter("daftar_database_retries_total", &[], usage.retries);
        self.counter("daftar_database_unknown_commits_total", &[], usage.unknown_commits);
    }
}

/// What is left of the disk of a folder for whoever runs the server, and what it has in all.
fn room(folder: &Path) -> Option<(u64, u64)> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some((disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize)))
}

//! The writer thread.
//!
//! **Invariant:** nothing else writes to the database. Waiting jobs are taken as a group: planned, applied in batches,
//! flushed and synced once, passed to the sink in order, and only then completed.
//!
//! **Invariant:** a write is never split over batches, and a batch of small writes has at most [`KEYS_PER_BATCH_MAX`] keys:
//! while a batch is applied, reads wait.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::oneshot;

use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::error::{Panicked, contain};
use daftar_domain::idempotency::{IdempotentRequest, RequestName};
use daftar_store::archive::Fixed;
use daftar_store::audit_log::{AUDIT_DELAY, AuditBuffer};
use daftar_store::audit_log::{AuditRemoval, AuditRemoved};
use daftar_store::meters::Meters;
use daftar_store::numbering::Numbering;
use daftar_store::plan::{Last, Recent};
use daftar_store::segment::OpenSegment;
use daftar_store::{ChangeSink, Committed, StoreError, Write};

use super::archive;
use super::audit_log::OldAudit;
use super::disk;
use super::group::{Group, Operation};
use super::health::Health;
use super::keys;
use super::mark::{Acknowledged, Mark};
use super::reader::Reader;
use super::unfinished::{Place, Unfinished};

/// The most keys of one batch, unless a single write has more.
pub(super) const KEYS_PER_BATCH_MAX: usize = 64;
/// The most jobs of one group.
const JOBS_PER_GROUP_MAX: usize = 256;

/// The sender of a job's result to the caller.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A job of the writer.
pub(super) enum Job {
    /// Writes an operation.
    Commit(Box<Write>, Option<Box<IdempotentRequest>>, Answer<Committed>),
    /// Removes those of the requests that are expired at the timestamp.
    Forget(Vec<RequestName>, Timestamp, Answer<u64>),
    /// Numbers codes and editions.
    Number(Vec<CodeUri>, Vec<(Namespace, String)>, Answer<(Vec<CodeNumber>, Vec<EditionNumber>)>),
    /// Raises a counter.
    RaiseCounter(String, u64, Answer<()>),
    /// Removes the counters with this name prefix.
    RemoveCounters(String, Answer<()>),
    /// Writes the waiting audit entries, and sends the result when they are on disk.
    WriteAudit(Option<Answer<()>>),
    /// Audit entries are waiting.
    AuditWaits,
    /// Checks the stored values between two groups. Must be short.
    Look(Box<dyn FnOnce() + Send>),
    /// Removes old audit entries and adds an entry about the removal.
    RemoveAudit(Box<(OldAudit, AuditRemoval)>, Answer<AuditRemoved>),
    /// Fixes a snapshot of the state after the group.
    Snapshot(Answer<Fixed>),
}

/// Syncs flushed data to disk. Replaceable in tests: disks do not fail on request.
pub(super) type SyncDisk = Box<dyn FnMut() -> io::Result<()> + Send>;

/// The state of the writer thread.
pub(super) struct Writer {
    pub(super) reader: Reader,
    pub(super) meters: Arc<Meters>,
    pub(super) audit: Arc<AuditBuffer>,
    pub(super) sink: Arc<OnceLock<Arc<dyn ChangeSink>>>,
    pub(super) last_sequence: Arc<std::sync::atomic::AtomicU64>,
    pub(super) sync_disk: SyncDisk,
    pub(super) mark: Mark,
    pub(super) unfinished: Unfinished,
    /// The id of the register.
    pub(super) register: [u8; 16],
    /// The last sequence that is on disk.
    pub(super) synced: u64,
    pub(super) state: State,
    /// The keys touched by the last writes, including those of a group that is not on disk yet.
    pub(super) recent: Recent,
}

/// Records a panic of the thread as a failure of the store, so that no caller continues to hand it audit entries.
struct PanicGuard(Arc<Health>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("writing", &"the writer thread has panicked");
        }
    }
}

/// The last assigned numbers and the open audit segment.
pub(super) struct State {
    pub(super) last: Last,
    pub(super) numbering: Numbering,
    pub(super) code_table_parts: u64,
    pub(super) last_audit: u64,
    /// The open segment of the audit log.
    pub(super) audit_segment: OpenSegment,
}

impl State {
    /// Returns the numbers that are durable once this state is on disk.
    pub(super) fn acknowledged(&self) -> Acknowledged {
        let (sequence, audit, code_table_parts) = (self.last.sequence.0, self.last_audit, self.code_table_parts);
        Acknowledged { sequence, audit, code_table_parts }
    }

    /// Reads the state from the database.
    ///
    /// # Errors
    /// If the database fails or a value cannot be read.
    pub(super) fn read(reader: &Reader) -> Result<Self, StoreError> {
        let mut numbering = Numbering::default();
        let (table, code_table_parts) = reader.code_table()?;
        numbering.apply(table);
        let last_audit = reader.last_number(&[keys::AUDIT])?;
        let audit_segment = reader.open_segment(last_audit)?;
        Ok(Self { last: reader.last()?, numbering, code_table_parts, last_audit, audit_segment })
    }
}

impl Writer {
    /// Runs until no caller can send jobs, then writes the waiting ones.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        let _guard = PanicGuard(Arc::clone(&self.reader.health));
        let mut audit_due: Option<Instant> = None;
        loop {
            let first = match audit_due {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => jobs.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            let first = match first {
                Ok(Job::AuditWaits) => {
                    audit_due = audit_due.or_else(|| Instant::now().checked_add(AUDIT_DELAY));
                    continue;
                }
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let waiting = jobs.try_iter().take(JOBS_PER_GROUP_MAX);
            self.write(first.into_iter().chain(waiting));
            // Every group includes the audit entries.
            audit_due = None;
        }
        self.write(std::iter::empty());
    }

    fn write(&mut self, jobs: impl Iterator<Item = Job>) {
        let mut group = Group::new(&self.reader, &mut self.state, &mut self.recent);
        let mut count = 0_usize;
        for job in jobs {
            group.add(job);
            count = count.saturating_add(1);
        }
        // Only now: a caller adds its entries before it sends the job to write them.
        if let Err(error) = group.add_audit(&self.audit.take()) {
            // `apply` rejects the group.
            self.reader.health.fail("writing the audit log", &error);
        }
        let mut finished = group.finish();
        let snapshots = std::mem::take(&mut finished.snapshots);
        let began = Instant::now();
        let applied = self.apply(&finished.batches);
        if applied.is_ok() && !finished.batches.is_empty() {
            self.meters.note_group(count, began.elapsed());
        }
        if let Err(failure) = applied {
            // The dropped senders tell callers that there is no snapshot.
            finished.answers.fail(&self.reader.health, failure);
            return;
        }
        self.last_sequence.store(self.state.last.sequence.0, std::sync::atomic::Ordering::Release);
        if let Some(sink) = self.sink.get().filter(|_| !finished.changes.is_empty()) {
            sink.apply(&finished.changes);
        }
        finished.answers.send();
        for answer in snapshots {
            // The caller may have stopped waiting.
            let _ = answer.send(archive::fix(&self.reader, &self.state));
        }
    }

    /// Writes batches to disk, in order.
    fn apply(&mut self, batches: &[Vec<Operation>]) -> Result<(), StoreError> {
        let health = Arc::clone(&self.reader.health);
        health.check()?;
        if batches.is_empty() {
            return Ok(());
        }
        for (at, operations) in batches.iter().enumerate() {
            if let Err(reason) = self.apply_batch(operations) {
                self.keep_unfinished(batches.get(..=at).unwrap_or(batches));
                return Err(health.fail("writing", &reason));
            }
        }
        disk::flush(&self.reader.database).map_err(|error| health.fail("flushing", &error))?;
        (self.sync_disk)().map_err(|error| health.fail("syncing the disk", &error))?;
        self.synced = self.state.last.sequence.0;
        // On disk already: if the marker cannot be written, the next write is not acknowledged.
        self.mark
            .write(self.state.acknowledged())
            .map_err(|error| health.fail("writing the acknowledgement marker", &error))
    }

    fn apply_batch(&self, operations: &[Operation]) -> Result<(), String> {
        let mut batch = ::sled::Batch::default();
        operations.iter().for_each(|operation| operation.add_to(&mut batch));
        match contain(|| self.reader.database.apply_batch(batch)) {
            Ok(applied) => applied.map_err(|error| error.to_string()),
            Err(Panicked) => Err("the database has panicked".to_owned()),
        }
    }

    /// Saves the group of a failing batch, which may be written in part, so that the next start can repeat it.
    fn keep_unfinished(&self, batches: &[Vec<Operation>]) {
        let place = Place { register: self.register, after: self.synced, last: self.state.last.sequence.0 };
        if let Err(error) = self.unfinished.keep(place, batches.iter().flatten()) {
            tracing::error!(
                %error,
                "failed to save the interrupted write: the next start may recover a part of it; run `daftar verify` then"
            );
        }
    }
}

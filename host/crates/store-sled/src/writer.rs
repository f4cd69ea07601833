//! The one thread that writes.
//!
//! **Invariant:** nothing else writes to the database. What waits is taken as a group: worked out, applied in batches,
//! flushed and synced once, told to the sink in order, and only then answered.
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
use daftar_domain::idempotency::{RememberedRequest, RequestName};
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

/// Somebody who waits for an answer.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked to do.
pub(super) enum Job {
    /// Writes an operation.
    Commit(Box<Write>, Option<Box<RememberedRequest>>, Answer<Committed>),
    /// Forgets those of the requests that are not kept any more at that instant.
    Forget(Vec<RequestName>, Timestamp, Answer<u64>),
    /// Numbers codes and editions.
    Number(Vec<CodeUri>, Vec<(Namespace, String)>, Answer<(Vec<CodeNumber>, Vec<EditionNumber>)>),
    /// Raises a counter.
    RaiseCounter(String, u64, Answer<()>),
    /// Removes the counters whose names begin so.
    RemoveCounters(String, Answer<()>),
    /// Writes the audit lines that wait, and answers when they are on disk.
    WriteAudit(Option<Answer<()>>),
    /// Audit lines wait from now on.
    AuditWaits,
    /// Checks what is stored while nothing is written. Must be short.
    Look(Box<dyn FnOnce() + Send>),
    /// Removes old audit lines and reports it.
    RemoveAudit(Box<(OldAudit, AuditRemoval)>, Answer<AuditRemoved>),
    /// Fixes what a snapshot holds: what is written when the group has been.
    Snapshot(Answer<Fixed>),
}

/// Puts on disk what the database has flushed. A seam for tests: disks do not fail when asked to.
pub(super) type SyncDisk = Box<dyn FnMut() -> io::Result<()> + Send>;

/// What the writer owns.
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
    /// What the last writes touched, those of a group that is not on disk yet included.
    pub(super) recent: Recent,
}

/// Notes it as a failure of the store when the thread panics, so that nobody continues handing it audit lines.
struct PanicGuard(Arc<Health>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("writing", &"the thread that writes has panicked");
        }
    }
}

/// What has been given out so far.
pub(super) struct State {
    pub(super) last: Last,
    pub(super) numbering: Numbering,
    pub(super) code_table_parts: u64,
    pub(super) last_audit: u64,
    /// The stretch of the audit log that is being written.
    pub(super) audit_segment: OpenSegment,
}

impl State {
    /// What is given durably once this is on disk.
    pub(super) fn acknowledged(&self) -> Acknowledged {
        let (sequence, audit, code_table_parts) = (self.last.sequence.0, self.last_audit, self.code_table_parts);
        Acknowledged { sequence, audit, code_table_parts }
    }

    /// Reads it from the database.
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
    /// Works until nobody can ask for anything any more, then writes what still waits.
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
            // Every group takes the audit lines along.
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
        // Only now: whoever asked for lines to be written added them before asking.
        if let Err(error) = group.add_audit(&self.audit.take()) {
            // The group is refused by `apply`.
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
            // Whoever waits for a snapshot hears that the writer has nothing to give.
            finished.answers.fail(&self.reader.health, failure);
            return;
        }
        self.last_sequence.store(self.state.last.sequence.0, std::sync::atomic::Ordering::Release);
        if let Some(sink) = self.sink.get().filter(|_| !finished.changes.is_empty()) {
            sink.apply(&finished.changes);
        }
        finished.answers.send();
        for answer in snapshots {
            // Whoever asked may have stopped waiting.
            let _ = answer.send(archive::fix(&self.reader, &self.state));
        }
    }

    /// Puts batches on disk, in order.
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
        // On disk already: where the note cannot be written, the next one is not acknowledged.
        self.mark.write(self.state.acknowledged()).map_err(|error| health.fail("noting what is acknowledged", &error))
    }

    fn apply_batch(&self, operations: &[Operation]) -> Result<(), String> {
        let mut batch = ::sled::Batch::default();
        operations.iter().for_each(|operation| operation.add_to(&mut batch));
        match contain(|| self.reader.database.apply_batch(batch)) {
            Ok(applied) => applied.map_err(|error| error.to_string()),
            Err(Panicked) => Err("the database has panicked".to_owned()),
        }
    }

    /// Keeps what a failing batch may have written in part, for the next start to write it whole.
    fn keep_unfinished(&self, batches: &[Vec<Operation>]) {
        let place = Place { register: self.register, after: self.synced, last: self.state.last.sequence.0 };
        if let Err(error) = self.unfinished.keep(place, batches.iter().flatten()) {
            tracing::error!(
                %error,
                "what was being written when the store failed could not be kept: a part of it may be found at the next start; run `daftar verify` then"
            );
        }
    }
}

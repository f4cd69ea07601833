//! The writer thread.
//!
//! **Invariant:** nothing else writes to the database. Waiting jobs are taken as a group: planned, applied in batches, and
//! handed to the committer ([`super::committer`]), which flushes it to disk once, passes it to the sink and completes
//! its jobs, in order.
//!
//! **Invariant:** a write is never split over batches, and a batch of small writes has at most [`KEYS_PER_BATCH_MAX`] keys:
//! while a batch is applied, reads wait.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::oneshot;

use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::error::{Panicked, contain};
use daftar_domain::idempotency::{IdempotentRequest, RequestName};
use daftar_store::archive::Fixed;
use daftar_store::audit_log::{AUDIT_DELAY, AuditBuffer};
use daftar_store::audit_log::{AuditRemoval, AuditRemoved};
use daftar_store::numbering::Numbering;
use daftar_store::plan::{Last, Recent};
use daftar_store::segment::OpenSegment;
use daftar_store::{Committed, StoreError, Write};

use super::audit_log::OldAudit;
use super::committer::{Applied, Committer};
use super::group::{Finished, Group, Operation};
use super::health::PanicGuard;
use super::keys;
use super::mark::Acknowledged;
use super::reader::Reader;
use super::unfinished::{Place, Unfinished};

/// The most bytes of keys and values of a batch without which its group is not saved before it is applied. A part of a
/// larger one is likely to reach the disk before a failure in the middle of it is known.
const BATCH_BYTES_UNSAVED_MAX: usize = 256 * 1024;
/// The most keys of one batch, unless a single write has more.
pub(super) const KEYS_PER_BATCH_MAX: usize = 64;

/// The sender of a job's result to the caller.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A check of the stored values, which must be short.
pub(super) type Look = Box<dyn FnOnce() + Send>;

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
    /// Checks the stored values between two groups, when the sink has the changes of the first one.
    Look(Look),
    /// Removes old audit entries and adds an entry about the removal.
    RemoveAudit(Box<(OldAudit, AuditRemoval)>, Answer<AuditRemoved>),
    /// Fixes a snapshot of the state after the group.
    Snapshot(Answer<Fixed>),
}

/// The state of the writer thread.
pub(super) struct Writer {
    pub(super) reader: Reader,
    pub(super) audit: Arc<AuditBuffer>,
    pub(super) unfinished: Unfinished,
    /// The id of the register.
    pub(super) register: [u8; 16],
    pub(super) state: State,
    /// The keys touched by the last writes, including those of a group that is not on disk yet.
    pub(super) recent: Recent,
    pub(super) committer: Committer,
}

/// The last assigned numbers after a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Assigned {
    /// The last keys of records and the last sequence.
    pub(super) last: Last,
    /// The last value of the audit log.
    pub(super) audit: u64,
    /// The number of parts of the table of codes.
    pub(super) code_table_parts: u64,
}

impl Assigned {
    /// Returns the numbers that are acknowledged once these are on disk.
    pub(super) fn acknowledged(&self) -> Acknowledged {
        let Self { last, audit, code_table_parts } = *self;
        Acknowledged { sequence: last.sequence.0, audit, code_table_parts }
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
    /// Returns the last assigned numbers.
    pub(super) fn assigned(&self) -> Assigned {
        Assigned { last: self.last, audit: self.last_audit, code_table_parts: self.code_table_parts }
    }

    /// Returns the numbers that are durable once this state is on disk.
    pub(super) fn acknowledged(&self) -> Acknowledged {
        self.assigned().acknowledged()
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
        let _guard = PanicGuard::new(&self.reader.health, "the writer thread has panicked");
        let mut audit_due = None;
        while self.write_group(jobs, &mut audit_due) {}
        self.committer.settle(&self.reader);
        if let Err(error) = self.forget_saved() {
            tracing::warn!(%error, "the next start repeats the last write");
        }
    }

    /// Plans, applies and hands over the next group. Returns false after the last one.
    fn write_group(&mut self, jobs: &Receiver<Job>, audit_due: &mut Option<Instant>) -> bool {
        let mut group = Group::new(&self.reader, &mut self.state, &mut self.recent);
        // Planned while the group before is brought to disk: that one is in the database already. If it fails, this one
        // is rejected when it is applied.
        take_waiting(&mut group, jobs, audit_due);
        self.committer.settle(&self.reader);
        let has_more = take_jobs(&mut group, jobs, audit_due);
        // Every group includes the audit entries. Only now: a caller adds its entries before it sends the job to write
        // them.
        *audit_due = None;
        let added = group.add_audit(&self.audit.take());
        let (finished, stored) = group.finish();
        if let Err(error) = added.and(stored) {
            // `apply` rejects the group.
            self.reader.health.fail("writing the audit log", &error);
        }
        self.apply(finished);
        has_more
    }

    /// Applies a group, and hands it to the committer.
    fn apply(&mut self, finished: Finished) {
        let Finished { batches, changes, answers, snapshots, looks, jobs } = finished;
        if !looks.is_empty() {
            self.committer.drain();
            looks.into_iter().for_each(|look| look());
        }
        let began = Instant::now();
        let is_empty = batches.is_empty();
        if is_empty && answers.is_empty() && snapshots.is_empty() {
            return;
        }
        match self.apply_batches(&batches) {
            Ok(()) => {
                let assigned = self.state.assigned();
                self.committer.begin(Applied { changes, answers, is_empty, jobs, began, assigned }, snapshots);
            }
            // The dropped senders tell callers that there is no snapshot.
            Err(failure) => answers.fail(&self.reader.health, failure),
        }
    }

    /// Writes batches to the database, in order.
    fn apply_batches(&mut self, batches: &[Vec<Operation>]) -> Result<(), StoreError> {
        self.reader.health.check()?;
        self.forget_saved()?;
        let bytes =
            |operations: &Vec<Operation>| operations.iter().map(Operation::bytes).fold(0, usize::saturating_add);
        if batches.iter().any(|operations| bytes(operations) > BATCH_BYTES_UNSAVED_MAX) {
            self.keep(batches).map_err(|error| self.reader.health.fail("writing", &error))?;
        }
        for (at, operations) in batches.iter().enumerate() {
            if let Err(reason) = self.apply_batch(operations) {
                let saved =
                    if self.unfinished.is_saved() { Ok(()) } else { self.keep(batches.get(..=at).unwrap_or(batches)) };
                if let Err(error) = saved {
                    tracing::error!(
                        %error,
                        "failed to save the interrupted write: the next start may recover a part of it; run `daftar verify` then"
                    );
                }
                return Err(self.reader.health.fail("writing", &reason));
            }
        }
        Ok(())
    }

    fn apply_batch(&self, operations: &[Operation]) -> Result<(), String> {
        match contain(|| self.reader.database.apply(operations.iter())) {
            Ok(applied) => applied.map_err(|error| error.to_string()),
            Err(Panicked) => Err("the database has panicked".to_owned()),
        }
    }

    /// Saves a group of which a batch may be written in part, so that the next start can repeat it.
    fn keep(&mut self, batches: &[Vec<Operation>]) -> io::Result<()> {
        let place = Place { register: self.register, after: self.committer.on_disk(), last: self.state.acknowledged() };
        self.unfinished.keep(place, batches.iter().flatten())
    }

    /// Forgets the group that was saved, which is on disk, before another one is applied.
    fn forget_saved(&mut self) -> Result<(), StoreError> {
        if self.unfinished.is_saved() {
            self.reader.health.check()?;
            self.unfinished.forget().map_err(|error| self.reader.health.fail("writing", &error))?;
        }
        Ok(())
    }
}

/// Adds the waiting jobs to a group; waits for one if there is none, and at most until audit entries are due. Returns
/// false if no caller can send more.
fn take_jobs(group: &mut Group<'_>, jobs: &Receiver<Job>, audit_due: &mut Option<Instant>) -> bool {
    take_waiting(group, jobs, audit_due);
    while group.is_empty() {
        let first = match *audit_due {
            None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => jobs.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match first {
            Ok(job) => take(group, job, audit_due),
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        take_waiting(group, jobs, audit_due);
    }
    true
}

/// Adds the jobs that are waiting now, until the group is full.
fn take_waiting(group: &mut Group<'_>, jobs: &Receiver<Job>, audit_due: &mut Option<Instant>) {
    while !group.is_full() {
        let Ok(job) = jobs.try_recv() else { return };
        take(group, job, audit_due);
    }
}

/// Adds a job to a group. Audit entries alone wait for a group of others, with a limit.
fn take(group: &mut Group<'_>, job: Job, audit_due: &mut Option<Instant>) {
    match job {
        Job::AuditWaits => *audit_due = audit_due.or_else(|| Instant::now().checked_add(AUDIT_DELAY)),
        job => group.add(job),
    }
}

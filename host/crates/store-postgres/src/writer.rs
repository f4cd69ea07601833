//! The one task of a process that writes.
//!
//! **Invariant:** pending jobs form a group, and a group is one transaction: results are returned after its commit and
//! the call of the sink. A group takes jobs until it has the lock of the row that orders writes: while another process
//! has it, groups grow in size. If a connection is lost during a commit, the outcome is resolved first.
//!
//! **Invariant:** audit entries of reads are written elsewhere (`audit_writer`): slow writes do not delay reads.
//!
//! **Invariant:** an unavailable database only fails pending writes, each after a bounded time: the next group starts
//! again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use daftar_domain::change::Change;
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::idempotency::IdempotentRequest;
use daftar_store::audit_log::{AuditRemoval, AuditRemoved};
use daftar_store::meters::Meters;
use daftar_store::{ChangeSink, Committed, Operation, StoreError, Write};

use super::attempt::Failed;
use super::database::Database;
use super::failure::{Failure, Meaning};
use super::group::{Broken, Finished, Outcome};
use super::state::State;

/// Maximum number of jobs of one group.
pub(super) const JOBS_PER_GROUP_MAX: usize = 512;
/// Maximum weight of a group: an operation is one, and so is each of so many bytes of a photo.
const GROUP_WEIGHT_MAX: usize = 8_192;
const PHOTO_BYTES_PER_WEIGHT: usize = 4_096;
/// Maximum number of attempts for a group.
pub(super) const ATTEMPTS_MAX: u32 = 6;
/// The pause after the first attempt; it doubles after each further one.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// Sender of a result to the waiting caller.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// Job of the writer.
pub(super) enum Job {
    /// Writes an operation.
    Commit(Box<Write>, Option<Box<IdempotentRequest>>, Answer<Committed>),
    /// Assigns numbers to codes and editions.
    Number(Vec<CodeUri>, Vec<(Namespace, String)>, Answer<(Vec<CodeNumber>, Vec<EditionNumber>)>),
    /// Removes those of these values of the audit log that still exist, and reports it.
    RemoveAudit(Box<(Vec<u64>, AuditRemoval)>, Answer<Option<AuditRemoved>>),
}

impl Job {
    fn weight(&self) -> usize {
        match self {
            Self::Commit(write, ..) => write.operations.iter().fold(1, |weight, operation| {
                let photo = if let Operation::PutPhoto(photo) = operation { photo.bytes().len() } else { 0 };
                weight.saturating_add(1).saturating_add(photo / PHOTO_BYTES_PER_WEIGHT)
            }),
            Self::Number(codes, editions, _) => codes.len().saturating_add(editions.len()),
            Self::RemoveAudit(..) => 1,
        }
    }

    /// True if it assigns numbers to codes.
    pub(super) fn gives_numbers(&self) -> bool {
        match self {
            Self::Number(..) => true,
            Self::Commit(write, ..) => write.new_codes().next().is_some(),
            Self::RemoveAudit(..) => false,
        }
    }

    /// Reports the numbers that were assigned to codes.
    fn report_numbers(&self, outcome: &Outcome) {
        if let (Self::Commit(write, ..), Outcome::Committed(Ok(_))) = (self, outcome) {
            write.new_codes().for_each(|new| (new.given)());
        }
    }

    /// Sends the outcome. The caller may have stopped waiting; a committed write stays committed.
    fn answer(self, outcome: Outcome) {
        match (self, outcome) {
            (Self::Commit(_, _, answer), Outcome::Committed(outcome)) => drop(answer.send(outcome)),
            (Self::Number(_, _, answer), Outcome::Numbered(outcome)) => drop(answer.send(outcome)),
            (Self::RemoveAudit(_, answer), Outcome::Removed(outcome)) => drop(answer.send(outcome)),
            // No result is sent: a dropped sender means failure.
            (Self::Commit(..) | Self::Number(..) | Self::RemoveAudit(..), _) => {}
        }
    }

    fn fail(self, failure: StoreError) {
        match self {
            Self::Commit(_, _, answer) => drop(answer.send(Err(failure))),
            Self::Number(_, _, answer) => drop(answer.send(Err(failure))),
            Self::RemoveAudit(_, answer) => drop(answer.send(Err(failure))),
        }
    }
}

/// A job, and the time until which it may begin.
pub(super) struct QueuedJob {
    pub(super) job: Job,
    pub(super) by: Instant,
}

/// The jobs of a group.
pub(super) struct Taken<'q> {
    pub(super) jobs: Vec<Job>,
    weight: usize,
    /// Source of more jobs; `None` for a job that is written alone.
    queue: Option<&'q mut mpsc::Receiver<QueuedJob>>,
}

impl<'q> Taken<'q> {
    fn of(queue: &'q mut mpsc::Receiver<QueuedJob>) -> Self {
        Self { jobs: Vec::new(), weight: 0, queue: Some(queue) }
    }

    fn alone(job: Job) -> Self {
        Self { jobs: vec![job], weight: 0, queue: None }
    }

    /// Takes pending jobs, up to the limit of a group.
    pub(super) fn take_waiting(&mut self) {
        while self.weight < GROUP_WEIGHT_MAX && self.jobs.len() < JOBS_PER_GROUP_MAX {
            let Some(Ok(next)) = self.queue.as_mut().map(|queue| queue.try_recv()) else { break };
            self.add(next);
        }
    }

    fn add(&mut self, QueuedJob { job, by }: QueuedJob) {
        if by < Instant::now() {
            job.fail(StoreError::Overloaded);
        } else {
            self.weight = self.weight.saturating_add(job.weight());
            self.jobs.push(job);
        }
    }
}

/// A group with an unknown outcome: its callers got a failure, and it may have been written.
pub(super) struct Unresolved {
    pub(super) group: u64,
    changes: Vec<Change>,
    sequence: u64,
}

/// State of the writer.
pub(super) struct Writer {
    pub(super) database: Arc<Database>,
    /// Its own id.
    pub(super) id: [u8; 16],
    pub(super) meters: Arc<Meters>,
    pub(super) sink: Arc<OnceLock<Arc<dyn ChangeSink>>>,
    pub(super) last_sequence: Arc<AtomicU64>,
    pub(super) state: State,
    /// Number of groups it has begun.
    pub(super) group: u64,
    pub(super) unresolved: Option<Unresolved>,
    pub(super) write_wait: Duration,
}

impl Writer {
    /// Works until no more jobs can arrive.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<QueuedJob>) {
        while let Some(first) = queue.recv().await {
            let mut taken = Taken::of(&mut queue);
            taken.add(first);
            if let Some(held_up) = self.write(taken).await {
                // Jobs that arrived in the meantime would wait as long again.
                while let Ok(QueuedJob { job, .. }) = queue.try_recv() {
                    job.fail(held_up.clone().into());
                }
            }
        }
    }

    /// Writes jobs together; if the database rejects a part, each by itself. Returns the failure if another session
    /// keeps the row that orders writes locked.
    async fn write(&mut self, mut taken: Taken<'_>) -> Option<Failure> {
        if taken.jobs.is_empty() {
            return None;
        }
        let began = Instant::now();
        let outcome = self.attempts(&mut taken).await;
        let jobs = taken.jobs;
        match outcome {
            Ok(finished) => {
                if !finished.is_empty() {
                    self.meters.note_group(jobs.len(), began.elapsed());
                    self.database.outages.note_group();
                }
                // Before the sink, which makes the records visible to searches.
                for (job, outcome) in jobs.iter().zip(&finished.outcomes) {
                    job.report_numbers(outcome);
                }
                self.notify_sink(&finished.changes, finished.locked.last.sequence.0);
                for (job, outcome) in jobs.into_iter().zip(finished.outcomes) {
                    job.answer(outcome);
                }
                None
            }
            Err(Failed { broken, is_of_one }) if is_of_one && jobs.len() > 1 => {
                tracing::warn!(error = %StoreError::from(broken), "a group of writes was rejected; each is tried by itself");
                let mut held_up = None;
                for job in jobs {
                    held_up = match held_up {
                        None => Box::pin(self.write(Taken::alone(job))).await,
                        Some(failure) => {
                            job.fail(failure.clone().into());
                            Some(failure)
                        }
                    };
                }
                held_up
            }
            Err(Failed { broken, .. }) => {
                let message = broken.failure();
                let mut broken = Some(broken);
                for job in jobs {
                    job.fail(broken.take().map_or_else(|| message.clone().into(), StoreError::from));
                }
                (message.meaning == Meaning::Locked).then_some(message)
            }
        }
    }

    /// Tries until the group is written or cannot be.
    async fn attempts(&mut self, jobs: &mut Taken<'_>) -> Result<Finished, Failed> {
        let until = Instant::now().checked_add(self.write_wait);
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            let outcome = self.attempt_resolved(jobs).await;
            let failed = match outcome {
                Ok(finished) => return Ok(finished),
                Err(failed) => failed,
            };
            let is_late = until.is_none_or(|until| Instant::now() + pause > until);
            if is_late || self.unresolved.is_some() {
                return Err(failed);
            }
            if failed.is_of_lock() {
                // The row is busy, and no session keeps it locked: other processes commit.
                if self.database.row_has_moved().await {
                    continue;
                }
                return Err(failed);
            }
            if !failed.is_passing() || attempt >= ATTEMPTS_MAX {
                return Err(failed);
            }
            self.database.outages.note_retry();
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2);
            attempt += 1;
        }
    }

    /// First resolves an earlier group with an unknown outcome, then tries.
    async fn attempt_resolved(&mut self, jobs: &mut Taken<'_>) -> Result<Finished, Failed> {
        if let Some(unresolved) = &self.unresolved {
            let started = Instant::now();
            let is_written = self.is_written(unresolved.group).await;
            self.database.note_write(started, &is_written);
            let is_written = is_written.map_err(Failed::from)?;
            if let Some(Unresolved { changes, sequence, .. }) = self.unresolved.take()
                && is_written
            {
                self.notify_sink(&changes, sequence);
            }
        }
        let started = Instant::now();
        let outcome = self.attempt(jobs).await;
        if let Err(failed) = &outcome
            && let Broken::Database(failure) = &failed.broken
        {
            self.database.note_write(started, &Err::<(), _>(failure.clone()));
        } else {
            self.database.note_write(started, &Ok(()));
        }
        outcome
    }

    /// Keeps a group that may have been written until its outcome can be resolved.
    pub(super) fn leave_unresolved(&mut self, finished: Finished) {
        let sequence = finished.locked.last.sequence.0;
        self.unresolved = Some(Unresolved { group: self.group, changes: finished.changes, sequence });
    }

    fn notify_sink(&self, changes: &[Change], sequence: u64) {
        self.last_sequence.fetch_max(sequence, Ordering::AcqRel);
        if let Some(sink) = self.sink.get().filter(|_| !changes.is_empty()) {
            sink.apply(changes);
        }
    }
}

//! The one task of a process that writes.
//!
//! **Invariant:** what waits is taken as a group, and a group is one transaction: nobody is answered before it is committed, and the
//! sink hears of it before that. A connection that is lost while it commits is no answer: what became of the group is found out first.
//!
//! **Invariant:** a database that is away makes the writes fail that wait, each after a bounded time, and nothing else: the next group
//! begins anew.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::domain::audit::AuditEntry;
use crate::domain::change::Change;
use crate::domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use crate::domain::idempotency::RememberedRequest;
use crate::store::audit_archive::{AuditRemoval, AuditRemoved};
use crate::store::audit_buffer::{AUDIT_DELAY, AuditBuffer};
use crate::store::meters::Meters;
use crate::store::segment::SEGMENT_LINES;
use crate::store::{ChangeSink, Committed, Operation, StoreError, Write};

use super::attempt::Failed;
use super::database::Database;
use super::failure::Failure;
use super::group::{Broken, Finished, Outcome};
use super::state::State;

/// The most jobs of one group.
pub(super) const JOBS_PER_GROUP_MAX: usize = 512;
/// The most that a group weighs: an operation is one, and so is each of so many bytes of a photo.
const GROUP_WEIGHT_MAX: usize = 8_192;
const PHOTO_BYTES_PER_WEIGHT: usize = 4_096;
/// How often a group is tried.
const ATTEMPTS_MAX: u32 = 6;
/// The pause after the first attempt; twice as long after each one more.
const PAUSE: Duration = Duration::from_millis(20);
/// Lines of the audit log that could not be written are tried again after this.
const AUDIT_AGAIN: Duration = Duration::from_secs(1);

/// Somebody who waits for an answer.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked to do.
pub(super) enum Job {
    /// Writes a use case.
    Commit(Box<Write>, Option<Box<RememberedRequest>>, Answer<Committed>),
    /// Numbers codes and editions.
    Number(Vec<CodeUri>, Vec<(Namespace, String)>, Answer<(Vec<CodeNumber>, Vec<EditionNumber>)>),
    /// Removes those values of the audit log that are there still, and tells of it.
    RemoveAudit(Box<(Vec<u64>, AuditRemoval)>, Answer<Option<AuditRemoved>>),
    /// Writes the audit lines that wait, and answers when they are committed.
    WriteAudit(Option<Answer<()>>),
    /// Audit lines wait from now on.
    AuditWaits,
}

impl Job {
    fn weight(&self) -> usize {
        match self {
            Self::Commit(write, ..) => write.operations.iter().fold(1, |weight, operation| {
                let photo = if let Operation::PutPhoto(photo) = operation { photo.bytes().len() } else { 0 };
                weight.saturating_add(1).saturating_add(photo / PHOTO_BYTES_PER_WEIGHT)
            }),
            Self::Number(codes, editions, _) => codes.len().saturating_add(editions.len()),
            Self::RemoveAudit(..) | Self::WriteAudit(_) | Self::AuditWaits => 1,
        }
    }

    /// Whether codes get numbers by it.
    pub(super) fn gives_numbers(&self) -> bool {
        match self {
            Self::Number(..) => true,
            Self::Commit(write, ..) => write.new_codes().next().is_some(),
            Self::RemoveAudit(..) | Self::WriteAudit(_) | Self::AuditWaits => false,
        }
    }

    /// Tells of the numbers that codes got with it.
    fn tell_numbers(&self, outcome: &Outcome) {
        if let (Self::Commit(write, ..), Outcome::Committed(Ok(_))) = (self, outcome) {
            write.new_codes().for_each(|new| new.heard.given());
        }
    }

    /// Tells how it ended. Whoever asked may have stopped waiting; what was written stays written.
    fn answer(self, outcome: Outcome) {
        match (self, outcome) {
            (Self::Commit(_, _, answer), Outcome::Committed(outcome)) => drop(answer.send(outcome)),
            (Self::Number(_, _, answer), Outcome::Numbered(outcome)) => drop(answer.send(outcome)),
            (Self::RemoveAudit(_, answer), Outcome::Removed(outcome)) => drop(answer.send(outcome)),
            (Self::WriteAudit(Some(answer)), Outcome::Done) => drop(answer.send(Ok(()))),
            // Nobody is told: what is dropped unanswered has failed.
            (
                Self::Commit(..) | Self::Number(..) | Self::RemoveAudit(..) | Self::WriteAudit(_) | Self::AuditWaits,
                _,
            ) => {}
        }
    }

    fn fail(self, failure: StoreError) {
        match self {
            Self::Commit(_, _, answer) => drop(answer.send(Err(failure))),
            Self::Number(_, _, answer) => drop(answer.send(Err(failure))),
            Self::RemoveAudit(_, answer) => drop(answer.send(Err(failure))),
            Self::WriteAudit(Some(answer)) => drop(answer.send(Err(failure))),
            Self::WriteAudit(None) | Self::AuditWaits => {}
        }
    }
}

/// A job, and until when it is worth while to begin it.
pub(super) struct Asked {
    pub(super) job: Job,
    pub(super) by: Instant,
}

/// A group whose end was not found out: whoever asked was told that it failed, and it may have been written.
pub(super) struct Unresolved {
    pub(super) group: u64,
    changes: Vec<Change>,
    sequence: u64,
    lines: Vec<AuditEntry>,
}

/// What the writer owns.
pub(super) struct Writer {
    pub(super) database: Arc<Database>,
    /// Its own id.
    pub(super) id: [u8; 16],
    pub(super) meters: Arc<Meters>,
    pub(super) audit: Arc<AuditBuffer>,
    /// Whether lines of the audit log could not be written when it was tried last.
    pub(super) lines_wait: Arc<AtomicBool>,
    pub(super) sink: Arc<OnceLock<Arc<dyn ChangeSink>>>,
    pub(super) last_sequence: Arc<AtomicU64>,
    pub(super) state: State,
    /// How many groups it has begun.
    pub(super) group: u64,
    pub(super) unresolved: Option<Unresolved>,
    pub(super) write_wait: Duration,
}

impl Writer {
    /// Works until nobody can ask for anything any more, then writes what still waits.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Asked>) {
        let mut audit_due: Option<Instant> = None;
        loop {
            let first = match audit_due {
                None => jobs.recv().await,
                Some(due) => match tokio::time::timeout_at(due, jobs.recv()).await {
                    Ok(first) => first,
                    Err(_) => {
                        audit_due = self.write(Vec::new()).await;
                        continue;
                    }
                },
            };
            let Some(first) = first else { break };
            if matches!(first.job, Job::AuditWaits) {
                audit_due = audit_due.or_else(|| Instant::now().checked_add(AUDIT_DELAY));
                continue;
            }
            let mut weight = first.job.weight();
            let mut group = vec![first];
            while weight < GROUP_WEIGHT_MAX && group.len() < JOBS_PER_GROUP_MAX {
                let Ok(next) = jobs.try_recv() else { break };
                weight = weight.saturating_add(next.job.weight());
                group.push(next);
            }
            // Every group takes the audit lines along.
            audit_due = self.write(group).await;
        }
        self.write(Vec::new()).await;
        if !self.lines_wait.load(Ordering::Acquire) {
            // What was found out to be unwritten by the first.
            self.write(Vec::new()).await;
        }
        let unresolved = self.unresolved.as_ref().map_or(0, |unresolved| unresolved.lines.len());
        let lost = self.audit.waiting().0.saturating_add(unresolved);
        if lost > 0 {
            tracing::error!(
                lines = lost,
                "lines of the audit log were lost: the database was away when the store was closed"
            );
        }
    }

    fn unresolved_group(&self) -> Option<u64> {
        self.unresolved.as_ref().map(|unresolved| unresolved.group)
    }

    /// Writes a group, and says when lines of the audit log that wait still are due.
    async fn write(&mut self, group: Vec<Asked>) -> Option<Instant> {
        let now = Instant::now();
        let mut jobs = Vec::with_capacity(group.len());
        for Asked { job, by } in group {
            match job {
                Job::AuditWaits | Job::WriteAudit(None) => {}
                job if by < now => job.fail(StoreError::Overloaded),
                job => jobs.push(job),
            }
        }
        // Only now: whoever asked for lines to be written added them before asking.
        let lines = self.audit.take();
        if jobs.is_empty() && lines.is_empty() && self.unresolved.is_none() {
            return None;
        }
        let is_written = self.write_jobs(jobs, lines).await;
        if !is_written {
            return Instant::now().checked_add(AUDIT_AGAIN);
        }
        // Lines of a group that turned out to be unwritten: nobody tells of those a second time.
        let waits = self.audit.waiting().0 > 0 || self.unresolved.is_some();
        waits.then(|| Instant::now() + AUDIT_DELAY)
    }

    /// Writes jobs and lines together; where the database refuses something of it, each by itself.
    async fn write_jobs(&mut self, jobs: Vec<Job>, lines: Vec<AuditEntry>) -> bool {
        let began = Instant::now();
        let count = jobs.len();
        let unresolved_before = self.unresolved_group();
        match self.attempts(&jobs, &lines).await {
            Ok(finished) => {
                self.lines_wait.store(false, Ordering::Release);
                if !finished.is_empty() {
                    self.meters.note_group(count, began.elapsed());
                    self.database.outages.note_group();
                }
                // Before the sink, which shows the records to searches.
                for (job, outcome) in jobs.iter().zip(&finished.outcomes) {
                    job.tell_numbers(outcome);
                }
                self.tell(&finished.changes, finished.locked.last.sequence.0);
                let is_long = finished.locked.audit_unsummed >= SEGMENT_LINES;
                for (job, outcome) in jobs.into_iter().zip(finished.outcomes) {
                    job.answer(outcome);
                }
                if is_long && let Err(failure) = self.sum_up().await {
                    tracing::warn!(error = %failure, "a stretch of the audit log was not summed up; it is searched line by line");
                }
                true
            }
            Err(Failed { broken, is_of_one })
                if is_of_one && jobs.len().saturating_add(usize::from(!lines.is_empty())) > 1 =>
            {
                tracing::warn!(error = %StoreError::from(broken), "a group of writes was refused; each is tried by itself");
                // Lines first: they were there before.
                let mut is_written = Box::pin(self.write_jobs(Vec::new(), lines)).await;
                for job in jobs {
                    is_written &= Box::pin(self.write_jobs(vec![job], Vec::new())).await;
                }
                is_written
            }
            Err(Failed { broken, .. }) => {
                self.lines_wait.fetch_or(!lines.is_empty(), Ordering::AcqRel);
                // Unless they wait with their group until it is known what became of that.
                if !lines.is_empty() && self.unresolved_group() == unresolved_before {
                    self.audit.put_back(lines);
                }
                let mut broken = Some(broken);
                let said = broken.as_ref().map(|broken| match broken {
                    Broken::Database(failure) => failure.clone(),
                    Broken::Stored(error) => Failure::new(super::failure::Meaning::Refused, error.to_string()),
                });
                for job in jobs {
                    match (broken.take(), &said) {
                        (Some(broken), _) => job.fail(broken.into()),
                        (None, Some(said)) => job.fail(said.clone().into()),
                        (None, None) => drop(job),
                    }
                }
                false
            }
        }
    }

    /// Tries until it is written or cannot be.
    async fn attempts(&mut self, jobs: &[Job], lines: &[AuditEntry]) -> Result<Finished, Failed> {
        let until = Instant::now().checked_add(self.write_wait);
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            let outcome = self.attempt_resolved(jobs, lines).await;
            let failed = match outcome {
                Ok(finished) => return Ok(finished),
                Err(failed) => failed,
            };
            let is_late = until.is_none_or(|until| Instant::now() + pause > until);
            if !failed.is_passing() || attempt >= ATTEMPTS_MAX || is_late || self.unresolved.is_some() {
                return Err(failed);
            }
            self.database.outages.note_retry();
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2);
            attempt += 1;
        }
    }

    /// First finds out what became of a group before, then tries.
    async fn attempt_resolved(&mut self, jobs: &[Job], lines: &[AuditEntry]) -> Result<Finished, Failed> {
        if let Some(unresolved) = &self.unresolved {
            let is_written = self.is_written(unresolved.group).await;
            self.database.note(&is_written);
            let is_written = is_written.map_err(Failed::from)?;
            if let Some(Unresolved { changes, sequence, lines, .. }) = self.unresolved.take() {
                if is_written {
                    self.tell(&changes, sequence);
                } else {
                    self.audit.put_back(lines);
                }
            }
        }
        let outcome = self.attempt(jobs, lines).await;
        if let Err(failed) = &outcome
            && let Broken::Database(failure) = &failed.broken
        {
            self.database.note(&Err::<(), _>(failure.clone()));
        } else {
            self.database.note(&Ok(()));
        }
        outcome
    }

    /// Keeps what may have been written for when it can be found out.
    pub(super) fn leave_unresolved(&mut self, finished: Finished, lines: &[AuditEntry]) {
        let sequence = finished.locked.last.sequence.0;
        self.unresolved =
            Some(Unresolved { group: self.group, changes: finished.changes, sequence, lines: lines.to_vec() });
    }

    fn tell(&self, changes: &[Change], sequence: u64) {
        self.last_sequence.fetch_max(sequence, Ordering::AcqRel);
        if let Some(sink) = self.sink.get().filter(|_| !changes.is_empty()) {
            sink.apply(changes);
        }
    }
}

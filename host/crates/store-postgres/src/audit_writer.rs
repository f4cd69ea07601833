//! The task of a process that writes the audit entries of what changed nothing: reads, refusals.
//!
//! **Invariant:** it waits for nothing that writes of records lock. The database numbers entries by a sequence, and the task has a connection of
//! its own: while the row that orders writes is locked, by whatever, reads are audited and answered.
//!
//! **Invariant:** entries stay in memory, bounded by the buffer, until they are committed. A commit that got no answer is resolved before
//! anything else is written: no entry is lost by it and none is written twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use daftar_domain::audit::AuditEntry;
use daftar_store::audit_log::{AUDIT_DELAY, AuditBuffer};

use super::attempt::{is_refusal, is_written};
use super::audit_row;
use super::database::{Connection, Database};
use super::failure::{Failure, Meaning};
use super::group::Broken;
use super::put::note_written;
use super::writer::{ATTEMPTS_MAX, Answer, PAUSE};

/// Entries that could not be written are tried again after this.
const AGAIN: Duration = Duration::from_secs(1);

/// What the task is asked to do.
pub(super) enum AuditJob {
    /// Entries wait from now on.
    Waits,
    /// Writes the entries that wait, and answers when they are committed.
    Write(Option<Answer<()>>),
}

/// Entries whose commit got no answer.
struct Unresolved {
    number: u64,
    entries: Vec<AuditEntry>,
}

/// What the task owns.
pub(super) struct AuditWriter {
    database: Arc<Database>,
    /// Its own id among those that write.
    id: [u8; 16],
    audit: Arc<AuditBuffer>,
    /// True if entries could not be written when it was tried last.
    lines_wait: Arc<AtomicBool>,
    /// How many transactions it has begun.
    number: u64,
    unresolved: Option<Unresolved>,
    write_wait: Duration,
}

impl AuditWriter {
    /// Nothing written yet. An attempt is repeated for `write_wait` at most.
    pub(super) fn new(
        database: Arc<Database>,
        id: [u8; 16],
        audit: Arc<AuditBuffer>,
        lines_wait: Arc<AtomicBool>,
        write_wait: Duration,
    ) -> Self {
        Self { database, id, audit, lines_wait, number: 0, unresolved: None, write_wait }
    }

    /// Works until no entries can come any more, then writes those that wait.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<AuditJob>) {
        let mut due: Option<Instant> = None;
        loop {
            let first = match due {
                None => jobs.recv().await,
                Some(at) => match tokio::time::timeout_at(at, jobs.recv()).await {
                    Ok(first) => first,
                    Err(_) => {
                        due = self.write(Vec::new()).await;
                        continue;
                    }
                },
            };
            let mut answers = Vec::new();
            match first {
                None => break,
                Some(AuditJob::Waits) => {
                    due = due.or_else(|| Instant::now().checked_add(AUDIT_DELAY));
                    continue;
                }
                Some(AuditJob::Write(answer)) => answers.extend(answer),
            }
            while let Ok(next) = jobs.try_recv() {
                if let AuditJob::Write(Some(answer)) = next {
                    answers.push(answer);
                }
            }
            due = self.write(answers).await;
        }
        self.write(Vec::new()).await;
        let unresolved = self.unresolved.as_ref().map_or(0, |unresolved| unresolved.entries.len());
        let lost = self.audit.waiting().0.saturating_add(unresolved);
        if lost > 0 {
            tracing::error!(
                lines = lost,
                "audit entries were lost: the database was unavailable when the store was closed"
            );
        }
    }

    /// Writes what waits, responds to those who wait for it, and returns when it is to be tried again.
    async fn write(&mut self, answers: Vec<Answer<()>>) -> Option<Instant> {
        let written = self.attempts().await;
        // A flush that had nothing to write has tried nothing.
        let waits = self.audit.waiting().0 > 0 || self.unresolved.is_some();
        let waited = self.lines_wait.swap(written.is_err() && waits, Ordering::AcqRel);
        match &written {
            // An outage is logged by itself.
            Err(failure) if waits && !waited && !failure.is_outage() => {
                tracing::warn!(error = %failure, "audit entries cannot be written: requests that add to them fail until they can");
            }
            Ok(()) if waited => tracing::info!("audit entries are written again"),
            Ok(()) | Err(_) => {}
        }
        for answer in answers {
            // The caller may have stopped waiting.
            let _is_told = answer.send(written.clone().map_err(Into::into));
        }
        written.is_err().then(|| Instant::now() + AGAIN)
    }

    /// Tries until it is written or cannot be.
    async fn attempts(&mut self) -> Result<(), Failure> {
        let until = Instant::now().checked_add(self.write_wait);
        let (mut pause, mut attempt) = (PAUSE, 1);
        loop {
            if self.audit.waiting().0 == 0 && self.unresolved.is_none() {
                // Nothing is sent to the database, so this says nothing about an outage.
                return Ok(());
            }
            let started = Instant::now();
            let outcome = self.attempt().await;
            self.database.note_write(started, &outcome);
            let Err(failure) = outcome else { return Ok(()) };
            let is_late = until.is_none_or(|until| Instant::now() + pause > until);
            if !failure.is_passing() || attempt >= ATTEMPTS_MAX || is_late {
                return Err(failure);
            }
            self.database.outages.note_retry();
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2);
            attempt += 1;
        }
    }

    /// First finds out what became of entries whose commit got no answer, then writes those that wait.
    async fn attempt(&mut self) -> Result<(), Failure> {
        if let Some(Unresolved { number, .. }) = &self.unresolved {
            let connection = self.database.auditor().await?;
            let is_written = is_written(&self.database, connection, &self.id, *number).await?;
            if let Some(Unresolved { entries, .. }) = self.unresolved.take()
                && !is_written
            {
                self.audit.put_back(entries);
            }
        }
        if self.audit.waiting().0 == 0 {
            return Ok(());
        }
        // Taken only once there is a connection: entries that come before that are included.
        let mut connection = self.database.auditor().await?;
        let entries = self.audit.take();
        self.number = self.number.saturating_add(1);
        match self.written(&mut connection, &entries).await {
            Ok(()) => {
                connection.keep_unless(None);
                Ok(())
            }
            Err(Tried::Broken(failure)) => {
                // A COPY may be on its way behind the statement that failed.
                connection.keep_unless(Some(&Failure::slow()));
                self.audit.put_back(entries);
                Err(failure)
            }
            Err(Tried::Unknown) => {
                connection.keep_unless(Some(&Failure::slow()));
                self.database.outages.note_unknown_commit();
                self.unresolved = Some(Unresolved { number: self.number, entries });
                let said = "the connection to the database was lost while audit entries were committed";
                Err(Failure::new(Meaning::Unreachable, said))
            }
        }
    }

    /// Writes entries in one transaction.
    async fn written(&self, connection: &mut Connection, entries: &[AuditEntry]) -> Result<(), Tried> {
        let (limit, object) = (self.database.answer_timeout(), connection.object_mut()?);
        let begun = tokio::time::timeout(limit.saturating_mul(2), async {
            let transaction = object.transaction().await?;
            let adding = async {
                // The statements follow one another on their way, and wait for no answers between them.
                let added = audit_row::add(&transaction, entries);
                tokio::try_join!(note_written(&transaction, &self.id, self.number), added)
            };
            self.database.watched(adding).await?;
            Ok::<_, Broken>(transaction)
        });
        let transaction = begun.await.unwrap_or_else(|_| Err(Failure::slow().into()))?;
        match tokio::time::timeout(limit, transaction.commit()).await {
            Ok(Ok(())) => Ok(()),
            // The database reports that nothing was written.
            Ok(Err(error)) if is_refusal(&error) => Err(Tried::Broken(error.into())),
            Ok(Err(_)) | Err(_) => Err(Tried::Unknown),
        }
    }
}

/// How a transaction ended that did not go well.
enum Tried {
    /// Nothing was written.
    Broken(Failure),
    /// True if it was committed is not known.
    Unknown,
}

impl From<Failure> for Tried {
    fn from(failure: Failure) -> Self {
        Self::Broken(failure)
    }
}

impl From<Broken> for Tried {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken.failure())
    }
}

//! The task of a process that writes audit entries of requests without changes: reads and rejected requests.
//!
//! **Invariant:** it waits for no lock of writes of records. Entries are numbered by a sequence, and the task has its
//! own connection: reads are audited and get responses even while another session locks the row that orders writes.
//!
//! **Invariant:** entries stay in memory, bounded by the buffer, until they are committed. A commit that got no
//! response is resolved before anything else is written: it neither loses an entry nor writes one twice.

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
use super::group::{Broken, cause_of};
use super::put::note_written;
use super::writer::{ATTEMPTS_MAX, Answer, PAUSE};

/// Pause before entries that could not be written are tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Request to the task.
pub(super) enum AuditJob {
    /// Entries are pending from now on.
    Waits,
    /// Writes the pending entries, and responds when they are committed.
    Write(Option<Answer<()>>),
}

/// Entries whose commit got no response.
struct Unresolved {
    number: u64,
    entries: Vec<AuditEntry>,
}

/// State of the task.
pub(super) struct AuditWriter {
    database: Arc<Database>,
    /// Its own id among writers.
    id: [u8; 16],
    audit: Arc<AuditBuffer>,
    /// True if the last attempt to write entries failed.
    lines_wait: Arc<AtomicBool>,
    /// Number of transactions it has begun.
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

    /// Works until no more entries can arrive, then writes the pending ones.
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

    /// Writes pending entries, responds to waiting callers, and returns the time of the next attempt.
    async fn write(&mut self, answers: Vec<Answer<()>>) -> Option<Instant> {
        let written = self.attempts().await;
        // A flush without pending entries has tried nothing.
        let waits = self.audit.waiting().0 > 0 || self.unresolved.is_some();
        let waited = self.lines_wait.swap(written.is_err() && waits, Ordering::AcqRel);
        match &written {
            // An outage is logged elsewhere.
            Err(failure) if waits && !waited && !failure.is_outage() => {
                tracing::warn!(error = %failure, "audit entries cannot be written: requests that add to them fail until they can");
            }
            Ok(()) if waited => tracing::info!("audit entries are written again"),
            Ok(()) | Err(_) => {}
        }
        for answer in answers {
            // The caller may have stopped waiting.
            let _is_reported = answer.send(written.clone().map_err(Into::into));
        }
        written.is_err().then(|| Instant::now() + AGAIN)
    }

    /// Tries until the entries are written or cannot be.
    async fn attempts(&mut self) -> Result<(), Failure> {
        let until = Instant::now().checked_add(self.write_wait);
        let (mut pause, mut attempt) = (PAUSE, 1);
        loop {
            if self.audit.waiting().0 == 0 && self.unresolved.is_none() {
                // Nothing is sent to the database, so this does not end an outage.
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

    /// First resolves entries whose commit got no response, then writes pending ones.
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
        // Taken only once there is a connection: entries that arrive before that are included.
        let mut connection = self.database.auditor().await?;
        let entries = self.audit.take();
        self.number = self.number.saturating_add(1);
        match self.written(&mut connection, &entries).await {
            Ok(()) => {
                connection.keep_unless(None);
                Ok(())
            }
            Err(Tried::Broken(failure)) => {
                // A COPY may still be in flight behind the statement that failed.
                connection.keep_unless(Some(&Failure::slow()));
                self.audit.put_back(entries);
                Err(failure)
            }
            Err(Tried::Unknown) => {
                connection.keep_unless(Some(&Failure::slow()));
                self.database.outages.note_unknown_commit();
                self.unresolved = Some(Unresolved { number: self.number, entries });
                let message = "the connection to the database was lost while audit entries were committed";
                Err(Failure::new(Meaning::Unreachable, message))
            }
        }
    }

    /// Writes entries in one transaction.
    async fn written(&self, connection: &mut Connection, entries: &[AuditEntry]) -> Result<(), Tried> {
        let (limit, object) = (self.database.answer_timeout(), connection.object_mut()?);
        let begun = tokio::time::timeout(limit.saturating_mul(2), async {
            let transaction = object.transaction().await?;
            let adding = async {
                // The statements are pipelined.
                let added = audit_row::add(&transaction, entries, self.database.bulk.copied_rows_min);
                let (noted, added) = tokio::join!(note_written(&transaction, &self.id, self.number), added);
                cause_of([noted, added])
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

/// Outcome of a transaction that failed.
enum Tried {
    /// Nothing was written.
    Broken(Failure),
    /// The outcome of the commit is not known.
    Unknown,
}

impl<B: Into<Broken>> From<B> for Tried {
    fn from(broken: B) -> Self {
        Self::Broken(broken.into().failure())
    }
}

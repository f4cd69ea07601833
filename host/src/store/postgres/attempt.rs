//! One attempt to write a group.

use std::collections::BTreeMap;
use std::time::Duration;

use deadpool_postgres::{Object, Transaction};
use tokio::time::Instant;
use tokio_postgres::IsolationLevel;
use tokio_postgres::error::Severity;

use crate::domain::audit::AuditEntry;
use crate::domain::change::ChangedRecord;
use crate::store::{Write, record};

use super::failure::{Failure, Meaning};
use super::gather::Asked;
use super::group::{Broken, Finished, Group, Rows};
use super::index;
use super::put::put;
use super::rows::{column, number, signed};
use super::state::Locked;
use super::writer::{Job, Writer};

/// The pause between two attempts to find out what became of a group.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Why a group was not written.
pub(super) struct Failed {
    pub(super) broken: Broken,
    /// Whether one of its writes may be the cause, and the others could be made without it.
    pub(super) is_of_one: bool,
}

impl Failed {
    /// Whether it may go well when it is tried again.
    pub(super) fn is_passing(&self) -> bool {
        match &self.broken {
            Broken::Database(failure) => failure.is_passing(),
            Broken::Stored(_) => false,
        }
    }
}

impl<B: Into<Broken>> From<B> for Failed {
    fn from(broken: B) -> Self {
        let broken = broken.into();
        let is_of_one = match &broken {
            Broken::Database(failure) => failure.meaning == Meaning::Refused,
            Broken::Stored(_) => true,
        };
        Self { broken, is_of_one }
    }
}

/// How an attempt ended that did not go well.
enum Tried {
    /// Nothing was written.
    Broken(Broken),
    /// Whether it was committed is not known.
    Unknown(Box<Finished>),
}

impl<B: Into<Broken>> From<B> for Tried {
    fn from(broken: B) -> Self {
        Self::Broken(broken.into())
    }
}

impl Writer {
    /// Tries once to write a group.
    pub(super) async fn attempt(&mut self, jobs: &[Job], lines: &[AuditEntry]) -> Result<Finished, Failed> {
        let mut connection = self.database.writer().await?;
        let tried = match connection.object_mut() {
            Ok(object) => self.tried(object, jobs, lines).await,
            Err(failure) => Err(failure.into()),
        };
        let failed = match tried {
            Ok(finished) => {
                self.state.written(&finished.locked);
                return Ok(finished);
            }
            Err(failed) => failed,
        };
        let outcome = match failed {
            Tried::Broken(broken) => {
                // A COPY may be on its way behind the statement that failed, and what is answered to it would be taken for the answer to
                // something else.
                connection.keep_unless(Some(&Failure::slow()));
                Err(broken.into())
            }
            Tried::Unknown(finished) => {
                connection.keep_unless(Some(&Failure::slow()));
                drop(connection);
                self.find_out(*finished, lines).await
            }
        };
        if outcome.is_err() {
            self.state.forget(jobs.iter().any(Job::gives_numbers));
        }
        outcome
    }

    async fn tried(&mut self, object: &mut Object, jobs: &[Job], lines: &[AuditEntry]) -> Result<Finished, Tried> {
        let limit = self.database.answer_timeout();
        let started = tokio::time::timeout(limit.saturating_mul(2), async {
            let builder = object.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
            let transaction = builder.start().await?;
            self.group = self.group.saturating_add(1);
            let finished = self.planned(&transaction, jobs, lines).await?;
            Ok::<_, Broken>((transaction, finished))
        });
        let (transaction, finished) = started.await.unwrap_or_else(|_| Err(Failure::slow().into()))?;
        if finished.is_empty() {
            // Nothing to be made durable: the lock goes with the transaction.
            return Ok(finished);
        }
        match tokio::time::timeout(limit, transaction.commit()).await {
            Ok(Ok(())) => Ok(finished),
            // It says so itself that nothing was written.
            Ok(Err(error)) if is_refusal(&error) => Err(error.into()),
            Ok(Err(_)) | Err(_) => Err(Tried::Unknown(Box::new(finished))),
        }
    }

    /// Locks, reads what the jobs meet, works them out and writes their rows.
    async fn planned(
        &mut self,
        transaction: &Transaction<'_>,
        jobs: &[Job],
        lines: &[AuditEntry],
    ) -> Result<Finished, Broken> {
        let locked = Locked::lock(transaction).await?;
        let mut asked = Asked::default();
        let mut audit_asked = Vec::new();
        let mut since = None;
        for job in jobs {
            match job {
                Job::Commit(write, request, _) => {
                    asked.add(&write.operations, request.as_deref());
                    since = write.rests_on.iter().map(|rests_on| rests_on.since).chain(since).min();
                }
                Job::RemoveAudit(removal, _) => audit_asked.extend(removal.0.iter().map(|number| signed(*number))),
                Job::Number(..) | Job::WriteAudit(_) | Job::AuditWaits => {}
            }
        }
        let ((), present, audit_there) = tokio::try_join!(
            self.state.catch_up(transaction, &locked, since),
            asked.fetch(transaction),
            audit_lines(transaction, &audit_asked),
        )?;
        let mut group = Group::new(&present, locked, &mut self.state);
        for job in jobs {
            match job {
                Job::Commit(write, request, _) => group.commit(Write::clone(write), request.as_deref().cloned()),
                Job::Number(codes, editions, _) => group.number(codes.clone(), editions.clone()),
                Job::RemoveAudit(removal, _) => group.remove_audit(&audit_there, &removal.0, removal.1.clone()),
                Job::WriteAudit(_) | Job::AuditWaits => group.wait(),
            }
        }
        group.add_audit(lines)?;
        let finished = group.finish();
        if !finished.is_empty() {
            let changed: Vec<ChangedRecord> =
                finished.rows.records.values().map(|(record, _)| record.clone()).collect();
            // Worked out while the records themselves are on their way.
            let rows = index::Apart::begin(changed, move |kind, id| Rows::is_new(&locked.last, kind, id));
            // The statements of both follow one another on their way, and wait for no answers between them.
            tokio::try_join!(put(transaction, &finished, &present, &locked, &self.id, self.group), async {
                Ok(index::write(transaction, rows).await?)
            })?;
        }
        Ok(finished)
    }

    /// Finds out whether a group was written whose commit got no answer.
    async fn find_out(&mut self, finished: Finished, lines: &[AuditEntry]) -> Result<Finished, Failed> {
        self.database.outages.note_unknown_commit();
        let until = Instant::now() + self.write_wait;
        loop {
            match self.is_written(self.group).await {
                Ok(true) => {
                    self.state.written(&finished.locked);
                    return Ok(finished);
                }
                Ok(false) => {
                    let said = "the connection to the database was lost before it had committed";
                    return Err(Failure::new(Meaning::Unreachable, said).into());
                }
                Err(failure) if Instant::now() + LOOK_AGAIN > until => {
                    self.leave_unresolved(finished, lines);
                    return Err(failure.into());
                }
                Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Whether that group was written. Waits until a transaction of it that is still open there has ended.
    pub(super) async fn is_written(&self, group: u64) -> Result<bool, Failure> {
        let mut connection = self.database.writer().await?;
        let looked = tokio::time::timeout(self.database.answer_timeout().saturating_mul(2), async {
            let transaction = connection.object_mut()?.transaction().await?;
            transaction.query("SELECT FROM daftar.last FOR UPDATE", &[]).await?;
            let row = transaction
                .query_opt("SELECT written FROM daftar.writer WHERE id = $1", &[&self.id.as_slice()])
                .await?;
            let written = row.map(|row| row.try_get::<_, i64>(0)).transpose()?;
            transaction.rollback().await?;
            Ok(written == Some(signed(group)))
        });
        let looked = looked.await.unwrap_or_else(|_| Err(Failure::slow()));
        connection.keep_unless(looked.as_ref().err());
        looked
    }
}

/// Whether the database answered that it did not commit. One that ends the connection may have committed all the same.
fn is_refusal(error: &tokio_postgres::Error) -> bool {
    let severity = error.as_db_error().and_then(|refusal| refusal.parsed_severity());
    severity == Some(Severity::Error)
}

/// How many lines each of those values of the audit log has that are there.
async fn audit_lines(transaction: &Transaction<'_>, numbers: &[i64]) -> Result<BTreeMap<u64, u64>, Broken> {
    let mut lines = BTreeMap::new();
    if numbers.is_empty() {
        return Ok(lines);
    }
    let statement = transaction.prepare_cached("SELECT number, value FROM daftar.audit WHERE number = ANY($1)").await?;
    for row in transaction.query(&statement, &[&numbers]).await? {
        lines.insert(number(&row, 0)?, record::audit::decode(column(&row, 1)?)?.len() as u64);
    }
    Ok(lines)
}

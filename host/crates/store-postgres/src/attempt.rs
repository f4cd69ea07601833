//! One attempt to write a group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Transaction};
use tokio::time::Instant;
use tokio_postgres::IsolationLevel;
use tokio_postgres::error::Severity;

use daftar_domain::change::ChangedRecord;
use daftar_store::Write;
use daftar_store::meters::Meters;
use daftar_store::records::Records;

use super::audit_row;
use super::database::{Connection, Database, rows};
use super::failure::{Failure, Meaning, corrupt};
use super::gather::KeyRequest;
use super::group::{Broken, Finished, Group, Outcome, Rows, cause_of, fetch_into};
use super::index;
use super::put::put;
use super::rows::{number, signed};
use super::state::Locked;
use super::writer::{Job, Taken, Writer};

/// The interval between two checks for the outcome of a group.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Time to wait for a response beyond the time that the database waits for a lock.
const LOCK_GRACE: Duration = Duration::from_millis(250);

/// The failure of a group.
pub(super) struct Failed {
    pub(super) broken: Broken,
    /// True if one write of the group may be the cause, and the other writes may succeed without it.
    pub(super) is_of_one: bool,
}

impl Failed {
    /// True if a lock was not acquired in time.
    pub(super) fn is_of_lock(&self) -> bool {
        matches!(&self.broken, Broken::Database(failure) if failure.meaning == Meaning::Locked)
    }

    /// True if a retry may succeed.
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

/// Outcome of an attempt that failed.
enum Tried {
    /// Nothing was written.
    Broken(Broken),
    /// The outcome of the commit is not known.
    Unknown(Box<Finished>),
}

impl<B: Into<Broken>> From<B> for Tried {
    fn from(broken: B) -> Self {
        Self::Broken(broken.into())
    }
}

/// The lock on the row that orders writes; measures for how long it is locked.
struct Held {
    since: Instant,
    meters: Arc<Meters>,
}

impl Held {
    /// Acquired now, requested at that time.
    fn since(requested: Instant, meters: &Arc<Meters>) -> Self {
        meters.note_lock_wait(requested.elapsed());
        Self { since: Instant::now(), meters: Arc::clone(meters) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.meters.note_lock_held(self.since.elapsed());
    }
}

impl Writer {
    /// Tries once to write a group.
    pub(super) async fn attempt(&mut self, jobs: &mut Taken<'_>) -> Result<Finished, Failed> {
        let mut connection = self.database.writer().await?;
        let tried = match connection.object_mut() {
            Ok(object) => self.tried(object, jobs).await,
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
                // A COPY may still be in flight behind the failed statement, and its response would be mistaken for the
                // response of another statement.
                connection.keep_unless(Some(&Failure::slow()));
                Err(broken.into())
            }
            Tried::Unknown(finished) => {
                connection.keep_unless(Some(&Failure::slow()));
                drop(connection);
                self.find_out(*finished).await
            }
        };
        if outcome.is_err() {
            self.state.forget(jobs.jobs.iter().any(Job::gives_numbers));
        }
        outcome
    }

    async fn tried(&mut self, object: &mut Object, jobs: &mut Taken<'_>) -> Result<Finished, Tried> {
        let limit = self.database.answer_timeout();
        let started = tokio::time::timeout(limit.saturating_mul(2), async {
            let builder = object.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
            let transaction = builder.start().await?;
            self.group = self.group.saturating_add(1);
            let (held, finished) = self.planned(&transaction, jobs).await?;
            Ok::<_, Broken>((transaction, held, finished))
        });
        // The lock ends with the transaction, in every outcome.
        let (transaction, _held, finished) = started.await.unwrap_or_else(|_| Err(Failure::slow().into()))?;
        if finished.is_empty() {
            // There is nothing to make durable.
            return Ok(finished);
        }
        match tokio::time::timeout(limit, transaction.commit()).await {
            Ok(Ok(())) => Ok(finished),
            // The database reported that nothing was written.
            Ok(Err(error)) if is_refusal(&error) => Err(error.into()),
            Ok(Err(_)) | Err(_) => Err(Tried::Unknown(Box::new(finished))),
        }
    }

    /// Acquires the lock, dequeues jobs that arrived in the meantime, reads the records that they may change, plans and
    /// writes rows.
    async fn planned(
        &mut self,
        transaction: &Transaction<'_>,
        jobs: &mut Taken<'_>,
    ) -> Result<(Held, Finished), Broken> {
        let begun = Instant::now();
        // The database bounds each of several locks that the statement may wait for.
        let limit = self.database.lock_timeout.saturating_add(LOCK_GRACE);
        let locking = tokio::time::timeout(limit, Locked::lock(transaction));
        let locked = self.database.watched(locking).await.unwrap_or_else(|_| {
            Err(Failure::new(Meaning::Locked, "the row that orders writes is locked by another session").into())
        })?;
        let held = Held::since(begun, &self.meters);
        jobs.take_waiting();
        let jobs = &jobs.jobs;
        let mut requested = KeyRequest::default();
        let mut audit_requested = Vec::new();
        let (mut removals, mut since) = (0_usize, None);
        for job in jobs {
            match job {
                Job::Commit(write, request, _) => {
                    requested.add(&write.operations, request.as_deref());
                    since = write.read_set.iter().map(|read_set| read_set.since).chain(since).min();
                }
                Job::RemoveAudit(removal, _) => {
                    audit_requested.extend(removal.0.iter().map(|number| signed(*number)));
                    // A later step of a removal has the number of its first one.
                    removals = removals.saturating_add(usize::from(removal.1.reported.is_none()));
                }
                Job::Number(..) => {}
            }
        }
        let (mut present, mut audit_there, mut audit_numbers) = (Records::default(), BTreeMap::new(), Vec::new());
        let outcomes = tokio::join!(
            self.state.catch_up(transaction, &locked, since),
            fetch_into(&mut present, requested.fetch(transaction)),
            fetch_into(&mut audit_there, audit_lines(transaction, &audit_requested)),
            fetch_into(&mut audit_numbers, audit_row::next_values(transaction, removals)),
        );
        cause_of(<[_; 4]>::from(outcomes))?;
        let mut audit_numbers = audit_numbers.into_iter();
        let mut group = Group::new(&present, locked, &mut self.state);
        for job in jobs {
            let outcome = match job {
                Job::Commit(write, request, _) => {
                    Outcome::Committed(group.commit(Write::clone(write), request.as_deref().cloned()))
                }
                Job::Number(codes, editions, _) => Outcome::Numbered(group.number(codes.clone(), editions.clone())),
                Job::RemoveAudit(removal, _) => {
                    let at = removal.1.reported.map(|reported| reported.at).or_else(|| audit_numbers.next());
                    let at = at.ok_or_else(|| corrupt("audit log", "it has no number left"))?;
                    Outcome::Removed(Ok(group.remove_audit(&audit_there, &removal.0, removal.1.clone(), at)))
                }
            };
            group.note(outcome);
        }
        let finished = group.finish();
        if !finished.is_empty() {
            let changed: Vec<ChangedRecord> =
                finished.rows.records.values().map(|(record, _)| record.clone()).collect();
            // Planned while the records themselves are being sent.
            let copied_min = self.database.bulk.copied_rows_min;
            let rows = index::Apart::begin(changed, copied_min, move |kind, id| Rows::is_new(&locked.last, kind, id));
            // The statements of both are pipelined, and wait for no responses in between.
            let put = put(transaction, &finished, &present, &locked, (&self.id, self.group), copied_min);
            let indexed = async { index::write(transaction, rows).await.map_err(Broken::from) };
            let (put, indexed) = tokio::join!(put, indexed);
            cause_of([put, indexed])?;
        }
        Ok((held, finished))
    }

    /// Finds out whether a group was written whose commit got no response.
    async fn find_out(&mut self, finished: Finished) -> Result<Finished, Failed> {
        self.database.outages.note_unknown_commit();
        let until = Instant::now() + self.write_wait;
        loop {
            match self.is_written(self.group).await {
                Ok(true) => {
                    self.state.written(&finished.locked);
                    return Ok(finished);
                }
                Ok(false) => {
                    let message = "the connection to the database was lost before it had committed";
                    return Err(Failure::new(Meaning::Unreachable, message).into());
                }
                Err(failure) if Instant::now() + LOOK_AGAIN > until => {
                    self.leave_unresolved(finished);
                    return Err(failure.into());
                }
                Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// True if that group was written.
    pub(super) async fn is_written(&self, group: u64) -> Result<bool, Failure> {
        is_written(&self.database, self.database.writer().await?, &self.id, group).await
    }
}

/// True if that was the last transaction of a writer. Waits until a transaction of that writer that is still open has
/// ended: it has written the writer's row.
pub(super) async fn is_written(
    database: &Database,
    mut connection: Connection,
    writer: &[u8],
    number: u64,
) -> Result<bool, Failure> {
    const LAST: &str = "INSERT INTO daftar.writer (id, written, at) VALUES ($1, 0, now()) \
                        ON CONFLICT (id) DO UPDATE SET at = EXCLUDED.at RETURNING written";
    let looked = tokio::time::timeout(database.answer_timeout().saturating_mul(2), async {
        let transaction = connection.object_mut()?.transaction().await?;
        let written = transaction.query_one(LAST, &[&writer]).await?.try_get::<_, i64>(0)?;
        transaction.rollback().await?;
        Ok(written == signed(number))
    });
    let looked = looked.await.unwrap_or_else(|_| Err(Failure::slow()));
    connection.keep_unless(looked.as_ref().err());
    looked
}

/// True if the database reported that it did not commit. After a lost connection the commit may have succeeded.
pub(super) fn is_refusal(error: &tokio_postgres::Error) -> bool {
    let severity = error.as_db_error().and_then(|refusal| refusal.parsed_severity());
    severity == Some(Severity::Error)
}

/// Number of entries of each of those values of the audit log that exist.
async fn audit_lines(transaction: &Transaction<'_>, numbers: &[i64]) -> Result<BTreeMap<u64, u64>, Broken> {
    let mut lines = BTreeMap::new();
    if numbers.is_empty() {
        return Ok(lines);
    }
    let statement = "SELECT line.number / 256, count(*) FROM unnest($1::bigint[]) AS asked (value) \
                     JOIN daftar.audit AS line ON line.number >= asked.value * 256 AND line.number < asked.value * 256 + 256 \
                     GROUP BY line.number / 256";
    for row in rows(transaction, statement, &[&numbers]).await? {
        lines.insert(number(&row, 0)?, number(&row, 1)?);
    }
    Ok(lines)
}

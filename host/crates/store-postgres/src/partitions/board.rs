//! The board: jobs and their parts as rows, each claimed by locking its row.
//!
//! **Invariant:** a claim is a lock that a transaction holds, so that it ends with the connection of whoever claimed: a process that is killed
//! leaves nothing claimed, and what it did not hand in was never done.
//!
//! **Invariant:** nobody who puts a job up or takes one down waits for whoever has claimed a part: a job is first marked as withdrawn, after which
//! nobody claims of it or looks at it any more, and its rows go when nobody has them locked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_postgres::Row;

use daftar_store::StoreError;
use daftar_store::partition::{Claim, JobId, Wanted};

use super::super::database::{Database, Link};
use super::super::failure::{Failure, Meaning};
use super::super::feed::Channel;
use super::super::rows::{column, number, signed};

/// The board.
pub(super) struct PostgresBoard {
    database: Arc<Database>,
    heard: watch::Receiver<u64>,
}

const POST: &str = "WITH posted AS (INSERT INTO daftar.job (task) VALUES ($1) RETURNING id), \
                    parts AS (INSERT INTO daftar.job_part (job, number, part) \
                    SELECT posted.id, of.number, of.part FROM posted, unnest($2::bigint[], $3::bytea[]) AS of (number, part)) \
                    SELECT id, pg_notify($4, id::text) FROM posted";
/// Whether there is anything to claim: it locks nothing for longer than it takes. Of a job that was withdrawn, or that nobody looks at any
/// more, nothing is.
const LOOK: &str = "SELECT part.job FROM daftar.job_part AS part JOIN daftar.job AS job ON job.id = part.job \
                    WHERE part.outcome IS NULL AND ($1::bigint IS NULL OR part.job = $1) AND part.job <> ALL($2) \
                    AND job.seen_at > now() - interval '5 minutes' \
                    ORDER BY part.job, part.number FOR UPDATE OF part SKIP LOCKED LIMIT 1";
const CLAIM: &str = "SELECT part.job, part.number, part.part, job.task \
                     FROM daftar.job_part AS part JOIN daftar.job AS job ON job.id = part.job \
                     WHERE part.outcome IS NULL AND ($1::bigint IS NULL OR part.job = $1) AND part.job <> ALL($2) \
                     AND job.seen_at > now() - interval '5 minutes' \
                     ORDER BY part.job, part.number FOR UPDATE OF part SKIP LOCKED LIMIT 1";
const BEGIN: &str = "SET idle_in_transaction_session_timeout = '10min'; BEGIN";
const FINISH: &str = "UPDATE daftar.job_part SET outcome = $3 WHERE job = $1 AND number = $2";
const NOTIFY: &str = "SELECT pg_notify($1, $2)";
const FINISHED: &str = "SELECT number, outcome FROM daftar.job_part \
                        WHERE job = $1 AND outcome IS NOT NULL AND number <> ALL($2) ORDER BY number";
const SEEN: &str = "WITH seen AS (UPDATE daftar.job SET seen_at = now() \
                    WHERE id = $1 AND seen_at < now() - interval '10 seconds' AND seen_at > '-infinity') \
                    SELECT id FROM daftar.job WHERE id = $1 AND seen_at > '-infinity'";
const WITHDRAW: &str = "UPDATE daftar.job SET seen_at = '-infinity' WHERE id = $1";
/// How rows go that nobody needs any more, one after the other: jobs that nobody looks at are withdrawn, then go the parts of what was
/// withdrawn, but for those that somebody has locked, then jobs that have no part left.
const CLEAR: [&str; 3] = [
    "UPDATE daftar.job SET seen_at = '-infinity' WHERE id = ANY(ARRAY(SELECT id FROM daftar.job \
     WHERE seen_at < now() - interval '5 minutes' AND seen_at > '-infinity' FOR UPDATE SKIP LOCKED))",
    "DELETE FROM daftar.job_part WHERE ctid = ANY(ARRAY(SELECT part.ctid \
     FROM daftar.job_part AS part JOIN daftar.job AS job ON job.id = part.job \
     WHERE job.seen_at = '-infinity' FOR UPDATE OF part SKIP LOCKED))",
    "DELETE FROM daftar.job WHERE id = ANY(ARRAY(SELECT id FROM daftar.job WHERE seen_at = '-infinity' \
     AND NOT EXISTS (SELECT FROM daftar.job_part AS part WHERE part.job = job.id) FOR UPDATE SKIP LOCKED))",
];

impl PostgresBoard {
    /// The board of a database; `heard` changes when something happens on it.
    pub(super) fn new(database: Arc<Database>, heard: watch::Receiver<u64>) -> Self {
        Self { database, heard }
    }

    /// Takes away what nobody needs any more, as far as nobody has it locked: what is left goes with the next job that is withdrawn.
    async fn clear(&self) {
        for statement in CLEAR {
            if let Err(error) = self.database.query(statement, &[]).await {
                tracing::debug!(error = %error, "what was withdrawn of the board is left there for now");
                return;
            }
        }
    }

    async fn claimed(&self, job: Option<i64>, others: &[i64]) -> Result<Option<Claim>, Failure> {
        let link = self.database.link("daftar (preview part)").await?;
        link.client.batch_execute(BEGIN).await?;
        let row = link.client.query_opt(CLAIM, &[&job, &others]).await?;
        // Somebody else was quicker.
        let Some(row) = row else { return Ok(None) };
        let number = |row: &Row, at: usize| row.try_get::<_, i64>(at).map(i64::unsigned_abs);
        let (job, number) = (JobId(number(&row, 0)?), number(&row, 1)?);
        Ok(Some(Claim {
            job,
            task: row.try_get(3)?,
            number,
            part: row.try_get(2)?,
            hand_in: Box::new(move |outcome| Box::pin(hand_in(link, job, number, outcome))),
        }))
    }

    /// Puts a job up: see [`daftar_store::partition::Partitions`], here and below.
    pub(super) async fn post(&self, task: Vec<u8>, parts: Vec<(u64, Vec<u8>)>) -> Result<JobId, StoreError> {
        let (numbers, parts): (Vec<i64>, Vec<Vec<u8>>) =
            parts.into_iter().map(|(number, part)| (signed(number), part)).unzip();
        let channel = Channel::Previews.name();
        let rows = self.database.query(POST, &[&task, &numbers, &parts, &channel]).await?;
        let posted = rows.first().ok_or_else(|| Failure::new(Meaning::Refused, "a job was not put up"))?;
        Ok(JobId(number(posted, 0)?))
    }

    /// Claims a part.
    pub(super) async fn claim(&self, wanted: Wanted<'_>) -> Result<Option<Claim>, StoreError> {
        let (job, others) = match wanted {
            Wanted::Of(job) => (Some(signed(job.0)), Vec::new()),
            Wanted::NotOf(others) => (None, others.iter().map(|job| signed(job.0)).collect()),
        };
        if self.database.query(LOOK, &[&job, &others]).await?.is_empty() {
            return Ok(None);
        }
        let started = Instant::now();
        let claimed = self.claimed(job, &others).await;
        self.database.note(started, &claimed);
        Ok(claimed?)
    }

    /// What came of the finished parts of a job.
    pub(super) async fn finished(&self, job: JobId, known: &[u64]) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        if self.database.query(SEEN, &[&signed(job.0)]).await?.is_empty() {
            return Err(Failure::new(Meaning::Refused, "a job was taken off the board before it was finished").into());
        }
        let known: Vec<i64> = known.iter().map(|number| signed(*number)).collect();
        let rows = self.database.query(FINISHED, &[&signed(job.0), &known]).await?;
        rows.iter().map(|row| Ok((number(row, 0)?, column(row, 1)?))).collect()
    }

    /// Takes a job down.
    pub(super) async fn withdraw(&self, job: JobId) -> Result<(), StoreError> {
        self.database.query(WITHDRAW, &[&signed(job.0)]).await?;
        self.clear().await;
        Ok(())
    }

    /// Waits until something was put up or finished.
    pub(super) async fn heard(&self, at_most: Duration) {
        let mut heard = self.heard.clone();
        heard.mark_unchanged();
        // Whether something was heard or the time has passed: it is looked at again.
        let _in_time = tokio::time::timeout(at_most, heard.changed()).await;
    }
}

/// Hands in what came of a part whose row a transaction has locked.
async fn hand_in(link: Link, job: JobId, number: u64, outcome: Vec<u8>) -> Result<(), StoreError> {
    let finished = async {
        link.client.execute(FINISH, &[&signed(job.0), &signed(number), &outcome]).await?;
        link.client.query(NOTIFY, &[&Channel::Previews.name(), &job.0.to_string()]).await?;
        link.client.batch_execute("COMMIT").await
    };
    finished.await.map_err(|error| Failure::from(error).into())
}

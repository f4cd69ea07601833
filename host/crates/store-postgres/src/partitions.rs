//! The register in partitions, and the job queue of the work on them: jobs and their parts are rows, each claimed by locking its row.
//!
//! **Invariant:** moments and claims have connections of their own, so many and no more: a preview neither takes those of requests nor waits for
//! another preview while it holds what that one waits for.
//!
//! **Invariant:** previews of one client hold a quarter of the moments at most, so that those of others find some.
//!
//! **Invariant:** a claim is a lock that a transaction holds, so that it ends with the connection of the server that claimed: one that is killed
//! leaves nothing claimed, and what it did not hand in was never done.
//!
//! **Invariant:** a server that posts or withdraws a job does not wait for one that has claimed a part: a job is first marked as withdrawn, after
//! which no server claims of it or looks at it any more, and its rows go when none has them locked.

mod moment;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_postgres::Row;

use daftar_domain::audit::Actor;
use daftar_domain::fair::FairSemaphore;
use daftar_store::StoreError;
use daftar_store::partition::{Claim, JobId, Moment, Partitions, Wanted};

use self::moment::PostgresMoment;
use super::PostgresStore;
use super::database::{Database, Link};
use super::failure::{Failure, Meaning};
use super::feed::Channel;
use super::rows::{column, number, signed};

/// How many moments a process holds at once. One that is asked for beyond is waited for.
const MOMENTS_MAX: usize = 8;
/// How many of them are of previews of one client.
const MOMENTS_OF_CLIENT_MAX: usize = MOMENTS_MAX / 4;

const POST: &str = "WITH posted AS (INSERT INTO daftar.job (task) VALUES ($1) RETURNING id), \
                    parts AS (INSERT INTO daftar.job_part (job, number, part) \
                    SELECT posted.id, of.number, of.part FROM posted, unnest($2::bigint[], $3::bytea[]) AS of (number, part)) \
                    SELECT id, pg_notify($4, id::text) FROM posted";
/// The first part that no server has claimed or finished. Of a job that was withdrawn, or that no server looks at any more, there is none.
macro_rules! unclaimed {
    () => {
        "FROM daftar.job_part AS part JOIN daftar.job AS job ON job.id = part.job \
         WHERE part.outcome IS NULL AND ($1::bigint IS NULL OR part.job = $1) AND part.job <> ALL($2) \
         AND job.seen_at > now() - interval '5 minutes' \
         ORDER BY part.job, part.number FOR UPDATE OF part SKIP LOCKED LIMIT 1"
    };
}
/// Whether there is anything to claim: it locks nothing for longer than it takes.
const LOOK: &str = concat!("SELECT part.job ", unclaimed!());
const CLAIM: &str = concat!("SELECT part.job, part.number, part.part, job.task ", unclaimed!());
const BEGIN_CLAIM: &str = "SET idle_in_transaction_session_timeout = '10min'; BEGIN";
const FINISH: &str = "UPDATE daftar.job_part SET outcome = $3 WHERE job = $1 AND number = $2";
const NOTIFY: &str = "SELECT pg_notify($1, $2)";
const FINISHED: &str = "SELECT number, outcome FROM daftar.job_part \
                        WHERE job = $1 AND outcome IS NOT NULL AND number <> ALL($2) ORDER BY number";
const SEEN: &str = "WITH seen AS (UPDATE daftar.job SET seen_at = now() \
                    WHERE id = $1 AND seen_at < now() - interval '10 seconds' AND seen_at > '-infinity') \
                    SELECT id FROM daftar.job WHERE id = $1 AND seen_at > '-infinity'";
const WITHDRAW: &str = "UPDATE daftar.job SET seen_at = '-infinity' WHERE id = $1";
/// How rows go that are not needed any more, sequentially: jobs that no server looks at are withdrawn, then go the parts of what was
/// withdrawn, but for those that a server has locked, then jobs that have no part left.
const CLEAR: [&str; 3] = [
    "UPDATE daftar.job SET seen_at = '-infinity' WHERE id = ANY(ARRAY(SELECT id FROM daftar.job \
     WHERE seen_at < now() - interval '5 minutes' AND seen_at > '-infinity' FOR UPDATE SKIP LOCKED))",
    "DELETE FROM daftar.job_part WHERE ctid = ANY(ARRAY(SELECT part.ctid \
     FROM daftar.job_part AS part JOIN daftar.job AS job ON job.id = part.job \
     WHERE job.seen_at = '-infinity' FOR UPDATE OF part SKIP LOCKED))",
    "DELETE FROM daftar.job WHERE id = ANY(ARRAY(SELECT id FROM daftar.job WHERE seen_at = '-infinity' \
     AND NOT EXISTS (SELECT FROM daftar.job_part AS part WHERE part.job = job.id) FOR UPDATE SKIP LOCKED))",
];

/// The register in partitions, and jobs of several servers on them.
pub struct PostgresPartitions {
    database: Arc<Database>,
    moments: Arc<FairSemaphore<Actor>>,
    /// Changes when a job is posted or a part is finished.
    heard: watch::Receiver<u64>,
    partition_keys: u32,
}

impl PostgresPartitions {
    /// Of the register of a store, in partitions of so many keys.
    #[must_use]
    pub fn of(store: &PostgresStore, partition_keys: u32) -> Self {
        let moments = FairSemaphore::new(MOMENTS_MAX, MOMENTS_OF_CLIENT_MAX);
        let heard = store.feed.subscribe(Channel::Previews);
        Self { database: Arc::clone(&store.database), moments, heard, partition_keys }
    }

    /// Deletes what is not needed any more, as far as no server has it locked: what is left goes with the next job that is withdrawn.
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
        link.client.batch_execute(BEGIN_CLAIM).await?;
        let row = link.client.query_opt(CLAIM, &[&job, &others]).await?;
        // Another server was quicker.
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
}

#[async_trait::async_trait]
impl Partitions for PostgresPartitions {
    async fn moment(&self, actor: &Actor) -> Result<Arc<dyn Moment>, StoreError> {
        Ok(Arc::new(PostgresMoment::now(&self.database, &self.moments, actor).await?))
    }

    async fn moment_called(&self, name: &str, actor: &Actor) -> Result<Arc<dyn Moment>, StoreError> {
        Ok(Arc::new(PostgresMoment::called(&self.database, &self.moments, name, actor).await?))
    }

    fn partition_keys(&self) -> u32 {
        self.partition_keys
    }

    async fn post(&self, task: Vec<u8>, parts: Vec<(u64, Vec<u8>)>) -> Result<JobId, StoreError> {
        let (numbers, parts): (Vec<i64>, Vec<Vec<u8>>) =
            parts.into_iter().map(|(number, part)| (signed(number), part)).unzip();
        let channel = Channel::Previews.name();
        let rows = self.database.query(POST, &[&task, &numbers, &parts, &channel]).await?;
        let posted = rows.first().ok_or_else(|| Failure::new(Meaning::Refused, "a job was not put up"))?;
        Ok(JobId(number(posted, 0)?))
    }

    async fn claim(&self, wanted: Wanted<'_>) -> Result<Option<Claim>, StoreError> {
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

    async fn finished(&self, job: JobId, known: &[u64]) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        if self.database.query(SEEN, &[&signed(job.0)]).await?.is_empty() {
            return Err(Failure::new(Meaning::Refused, "a job was taken off the board before it was finished").into());
        }
        let known: Vec<i64> = known.iter().map(|number| signed(*number)).collect();
        let rows = self.database.query(FINISHED, &[&signed(job.0), &known]).await?;
        rows.iter().map(|row| Ok((number(row, 0)?, column(row, 1)?))).collect()
    }

    async fn withdraw(&self, job: JobId) -> Result<(), StoreError> {
        self.database.query(WITHDRAW, &[&signed(job.0)]).await?;
        self.clear().await;
        Ok(())
    }

    async fn heard(&self, at_most: Duration) {
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

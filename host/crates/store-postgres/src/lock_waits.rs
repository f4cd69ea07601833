//! Locks that this process waits for: the log names the session that holds them, and the command of its statement only.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Row;

use super::database::Database;
use super::failure::Failure;

/// Time without a response after which the database is queried for awaited locks, and minimum time between queries.
const ASKED_AFTER: Duration = Duration::from_millis(500);
const ASKED_APART: Duration = Duration::from_millis(500);
/// A session that still holds a lock is logged again after this.
const LOGGED_APART: Duration = Duration::from_secs(60);
/// Maximum number of sessions that are noted as logged.
const BLOCKERS_MAX: usize = 16;

/// The sessions that hold locks for which sessions of this process wait, and wait for nothing themselves; with the
/// names of the waiting ones. Activity of other roles is not visible to this one: it is null then.
const BLOCKERS: &str = "WITH RECURSIVE own AS ( \
                            SELECT pid, application_name FROM pg_stat_activity \
                            WHERE right(application_name, length($1)) = $1 AND wait_event_type = 'Lock' \
                        ), chain (pid) AS ( \
                            SELECT pid FROM own \
                            UNION SELECT holding.pid FROM chain CROSS JOIN LATERAL unnest(pg_blocking_pids(chain.pid)) AS holding (pid) \
                        ) \
                        SELECT (SELECT string_agg(DISTINCT application_name, ', ') FROM own), \
                               blocker.pid, blocker.application_name, blocker.state, \
                               blocker.xact_start::text, extract(epoch FROM clock_timestamp() - blocker.xact_start)::float8, \
                               upper(substring(blocker.query FROM '^[[:space:]]*([[:alpha:]]{1,20})')) \
                        FROM chain JOIN pg_stat_activity AS blocker USING (pid) \
                        WHERE blocker.pid NOT IN (SELECT pid FROM own) AND cardinality(pg_blocking_pids(blocker.pid)) = 0 \
                        LIMIT 16";
/// The committed version of the row that orders writes: it changes with each write.
const ROW: &str = "SELECT xmin::text FROM daftar.last";

/// State of the checks of awaited locks.
#[derive(Default)]
pub(super) struct LockWaits(Mutex<Known>);

#[derive(Default)]
struct Known {
    requested: Option<Instant>,
    row: Option<String>,
    /// Process id and start of the transaction of each logged session, and the time.
    logged: Vec<((i32, Option<String>), Instant)>,
}

impl LockWaits {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Every change leaves it consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// True if this session is to be logged.
    fn is_news(&mut self, blocker: (i32, Option<String>), now: Instant) -> bool {
        self.logged.retain(|(_, at)| now.duration_since(*at) < LOGGED_APART);
        if self.logged.iter().any(|(logged, _)| *logged == blocker) || self.logged.len() >= BLOCKERS_MAX {
            return false;
        }
        self.logged.push((blocker, now));
        true
    }
}

impl Database {
    /// Runs some work; if it takes long, checks concurrently for an awaited lock, and logs the session that holds it.
    pub(super) async fn watched<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        if let Ok(done) = tokio::time::timeout(ASKED_AFTER, &mut work).await {
            return done;
        }
        tokio::select! {
            biased;
            done = &mut work => return done,
            requested = self.ask_for_blockers() => {
                if let Err(failure) = requested {
                    tracing::debug!(error = %failure, "the database did not return the locks that are waited for");
                }
            }
        }
        work.await
    }

    /// True if others have written since the last query of awaited locks: then no lock is stuck.
    pub(super) async fn row_has_moved(&self) -> bool {
        let Ok(now) = self.row().await else { return false };
        let before = std::mem::replace(&mut self.lock_waits.lock().row, now.clone());
        before.is_some() && before != now
    }

    async fn row(&self) -> Result<Option<String>, Failure> {
        let rows = self.connection().await?.query(ROW, &[]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    }

    async fn ask_for_blockers(&self) -> Result<(), Failure> {
        let now = Instant::now();
        {
            let mut known = self.lock_waits.lock();
            if known.requested.is_some_and(|requested| now.duration_since(requested) < ASKED_APART) {
                return Ok(());
            }
            known.requested = Some(now);
        }
        let rows = self.connection().await?.query(BLOCKERS, &[&self.tag()]).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in &rows {
            self.log_blocker(row, now)?;
        }
        let row = self.row().await?;
        self.lock_waits.lock().row = row;
        Ok(())
    }

    fn log_blocker(&self, row: &Row, now: Instant) -> Result<(), Failure> {
        let (blocked, pid): (Option<String>, i32) = (row.try_get(0)?, row.try_get(1)?);
        let (name, state): (Option<String>, Option<String>) = (row.try_get(2)?, row.try_get(3)?);
        let (begun, age_s): (Option<String>, Option<f64>) = (row.try_get(4)?, row.try_get(5)?);
        // Values and names follow it.
        let command: Option<String> = row.try_get(6)?;
        if self.lock_waits.lock().is_news((pid, begun), now) {
            tracing::warn!(
                blocked.application_name = blocked,
                blocker.pid = pid,
                blocker.application_name = name,
                blocker.state = state,
                blocker.command = command,
                blocker.transaction_s = age_s,
                "waiting for a lock in the database; requests that need it fail until that session ends its transaction"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_logged_once_a_minute_and_its_next_transaction_again() {
        let mut known = Known::default();
        let now = Instant::now();
        let session = |begun: &str| (7, Some(begun.to_owned()));
        assert!(known.is_news(session("a"), now) && !known.is_news(session("a"), now + LOGGED_APART / 2));
        assert!(known.is_news(session("b"), now) && known.is_news((8, None), now));
        assert!(known.is_news(session("a"), now + LOGGED_APART));
        for pid in 0..100 {
            known.is_news((pid, None), now + LOGGED_APART);
        }
        assert_eq!(known.logged.len(), BLOCKERS_MAX);
    }
}

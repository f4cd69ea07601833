//! Locks that this process waits for: the log names the session that holds them, and of its statement the command and nothing else.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Row;

use super::database::Database;
use super::failure::Failure;

/// The longest that a statement of a pool waits for a lock. One group of writes takes a part of it.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// After so long without a response the database is asked whether a lock is waited for, and so long apart at least.
const ASKED_AFTER: Duration = Duration::from_millis(500);
const ASKED_APART: Duration = Duration::from_millis(500);
/// A session that still holds a lock is logged again after this.
const LOGGED_APART: Duration = Duration::from_secs(60);
/// How many sessions are remembered as logged.
const BLOCKERS_MAX: usize = 16;

/// The sessions that hold what sessions of this process wait for, and wait for nothing themselves; with the names of the waiting ones. What
/// other roles do is not shown to this one: it is null then.
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
/// Which version of the row that orders writes is committed: another one after each write.
const ROW: &str = "SELECT xmin::text FROM daftar.last";

/// What was found out of locks that were waited for.
#[derive(Default)]
pub(super) struct LockWaits(Mutex<Known>);

#[derive(Default)]
struct Known {
    asked: Option<Instant>,
    row: Option<String>,
    /// Process id and beginning of the transaction of those that were logged, and when.
    logged: Vec<((i32, Option<String>), Instant)>,
}

impl LockWaits {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Each change leaves it sound.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// True if it is to be logged that this session holds a lock.
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
    /// Does some work; where it takes long, finds out concurrently whether it waits for a lock, and logs which session holds that.
    pub(super) async fn watched<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        if let Ok(done) = tokio::time::timeout(ASKED_AFTER, &mut work).await {
            return done;
        }
        tokio::select! {
            biased;
            done = &mut work => return done,
            asked = self.ask_for_blockers() => {
                if let Err(failure) = asked {
                    tracing::debug!(error = %failure, "the database did not return which locks are waited for");
                }
            }
        }
        work.await
    }

    /// True if others have written since it was asked last which locks are waited for: then no lock is held up.
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
            if known.asked.is_some_and(|asked| now.duration_since(asked) < ASKED_APART) {
                return Ok(());
            }
            known.asked = Some(now);
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
        // Values and names come after it.
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

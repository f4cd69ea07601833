//! Shared state of processes in the database besides records: call counters, plugins, the exclusive lock.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::database::Database;
use super::failure::{Failure, Meaning};
use super::feed::raise_deployment;
use super::rows::{self, column, signed};
use super::{Channel, PostgresStore, locks, reporting};
use daftar_domain::call_counts::{OfDay, OfMinute, OfWindow, WINDOW, Wanted};
use daftar_domain::context::Clock;
use daftar_store::StoreError;
use daftar_store::shared::{CodeLabel, Generation, History, OtherReaders, ReportViews, Shared, StoredList, Turn};

/// Maximum time to wait for the exclusive lock: a plugin may use the whole time limit of its compiler.
const TURN_WAIT: Duration = Duration::from_secs(120);
/// Time after which the wait is logged.
const TURN_LOGGED: Duration = Duration::from_secs(1);
/// Interval of attempts.
const TURN_PAUSE: Duration = Duration::from_millis(25);

const TAKE: &str = "INSERT INTO daftar.counter AS kept (name, value, taken) \
    SELECT $1, given, given FROM (SELECT CASE WHEN $4::bigint >= $2::bigint THEN least($3::bigint, $4::bigint) ELSE 0 END AS given) AS fresh \
    ON CONFLICT (name) DO UPDATE SET \
    taken = CASE WHEN $4 - kept.value >= $2 THEN least($3, $4 - kept.value) ELSE 0 END, \
    value = kept.value + CASE WHEN $4 - kept.value >= $2 THEN least($3, $4 - kept.value) ELSE 0 END \
    RETURNING value, taken";

const LEASE: &str = "INSERT INTO daftar.minute AS kept (name, full_at, per_minute, asked_at, given) \
    SELECT $1, ns + daftar.minute_cell($2) * daftar.minute_given(0, $2, $3, $4), $2, ns, daftar.minute_given(0, $2, $3, $4) \
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000 AS ns) AS now \
    ON CONFLICT (name) DO UPDATE SET \
    given = daftar.minute_given(daftar.minute_until(kept.full_at, kept.per_minute, excluded.asked_at, $2), $2, $3, $4), \
    full_at = excluded.asked_at + daftar.minute_until(kept.full_at, kept.per_minute, excluded.asked_at, $2) \
        + daftar.minute_cell($2) * daftar.minute_given(daftar.minute_until(kept.full_at, kept.per_minute, excluded.asked_at, $2), $2, $3, $4), \
    per_minute = $2, asked_at = excluded.asked_at \
    RETURNING given, full_at - asked_at";

/// The calls in the window, in the order of time. A call is never dated before the last counted one.
const IN_WINDOW: &str = "INSERT INTO daftar.call_window AS kept (name, calls, asked_at, is_taken) \
    SELECT $1, CASE WHEN $2::bigint <= $3::bigint THEN array_fill(ns, ARRAY[$2::integer]) ELSE '{}' END, ns, $2 <= $3 \
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000 AS ns) AS now \
    ON CONFLICT (name) DO UPDATE SET \
    calls = daftar.window_calls(kept.calls, excluded.asked_at) \
        || CASE WHEN cardinality(daftar.window_calls(kept.calls, excluded.asked_at)) + $2 <= $3 \
            THEN array_fill(greatest(excluded.asked_at, kept.asked_at), ARRAY[$2::integer]) ELSE '{}' END, \
    is_taken = cardinality(daftar.window_calls(kept.calls, excluded.asked_at)) + $2 <= $3, \
    asked_at = excluded.asked_at \
    RETURNING is_taken, ARRAY(SELECT call + 60000000000 - asked_at FROM unnest(calls) AS call)";

const FORGET: &str = "WITH now AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000 AS ns), \
    minutes AS (DELETE FROM daftar.minute USING now WHERE full_at < ns RETURNING 1), \
    windows AS (DELETE FROM daftar.call_window USING now WHERE daftar.window_calls(calls, ns) = '{}' RETURNING 1) \
    SELECT (SELECT count(*) FROM minutes) + (SELECT count(*) FROM windows)";

/// Size of the chunks of files, in bytes.
const PART_BYTES: usize = 1 << 20;

/// Roles that may log in and read tables or reports, except superusers and members of the schema's owner or of this
/// role. The second column is true if they may read or change tables. The rights, of a whole table or of a column, are
/// those of the role itself or of any role that it is a member of: without inheritance it may use SET ROLE. From
/// PostgreSQL 16 on a membership may permit neither, such as that of a role with CREATEROLE in a role that it creates.
const OTHER_READERS: &str = "\
WITH able AS MATERIALIZED (
         SELECT DISTINCT acting.oid, schema.nspowner, schema.nspname = 'daftar' AS is_table
         FROM pg_roles AS acting
         JOIN pg_namespace AS schema ON schema.nspname IN ('daftar', 'reporting') AND has_schema_privilege(acting.oid, schema.oid, 'USAGE')
         JOIN pg_class AS class ON class.relnamespace = schema.oid AND class.relkind IN ('r', 'p', 'v', 'm')
             AND (has_table_privilege(acting.oid, class.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
                  OR has_any_column_privilege(acting.oid, class.oid, 'SELECT, INSERT, UPDATE'))
         WHERE acting.rolsuper
             OR NOT (pg_has_role(acting.oid, schema.nspowner, 'USAGE') OR pg_has_role(acting.oid, current_user, 'USAGE'))
     )
SELECT role.rolname::text AS name, bool_or(able.is_table)
FROM pg_roles AS role JOIN able ON pg_has_role(role.oid, able.oid,
    CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET, USAGE' ELSE 'MEMBER' END)
WHERE role.rolcanlogin AND NOT role.rolsuper
    AND NOT (pg_has_role(role.oid, able.nspowner, 'USAGE') OR pg_has_role(role.oid, current_user, 'USAGE'))
GROUP BY name ORDER BY name";

const REPLACE: &str = "UPDATE daftar.plugin_list AS kept SET revision = before.revision + 1, list = $2, named = $3 \
    FROM (SELECT revision, named FROM daftar.plugin_list WHERE revision = $1 FOR UPDATE) AS before \
    RETURNING before.named";

/// Shared state of processes.
pub struct PostgresShared {
    store: Arc<PostgresStore>,
    heard: Mutex<watch::Receiver<u64>>,
    /// The same, for callers that do not wait.
    last_heard: watch::Receiver<u64>,
}

impl PostgresShared {
    /// Returns the shared state of the processes of that register.
    #[must_use]
    pub fn of(store: Arc<PostgresStore>) -> Self {
        let last_heard = store.feed().subscribe(Channel::Generation);
        Self { store, heard: Mutex::new(last_heard.clone()), last_heard }
    }

    fn database(&self) -> &Database {
        &self.store.database
    }
}

#[async_trait::async_trait]
impl Shared for PostgresShared {
    async fn generation(&self) -> Result<Generation, StoreError> {
        self.store.generation().await
    }

    async fn heard(&self) {
        if self.heard.lock().await.changed().await.is_err() {
            // No more notifications: the store is closed.
            std::future::pending::<()>().await;
        }
    }

    fn is_listening(&self) -> bool {
        self.store.feed().is_listening()
    }

    fn rest_on(&self, history: History, since: Option<Arc<dyn Clock>>) {
        self.store.basis.set(history, since);
    }

    fn heard_of(&self) -> u64 {
        *self.last_heard.borrow()
    }

    async fn turn(&self) -> Result<Turn, StoreError> {
        // Held on a connection of its own: the lock ends with it.
        let link = self.database().link("daftar (turn)").await?;
        let requested = Instant::now();
        let (until, mut is_logged) = (requested + TURN_WAIT, false);
        loop {
            let locked = link.client.query_one("SELECT pg_try_advisory_lock($1)", &[&locks::TURN]);
            let answered = tokio::time::timeout(self.database().answer_timeout(), locked).await;
            let row = answered.map_err(|_| Failure::slow())?.map_err(|error| Failure::from(&error))?;
            if row.try_get::<_, bool>(0).map_err(|error| Failure::from(&error))? {
                if is_logged {
                    let waited_ms = requested.elapsed().as_secs_f64() * 1_000.0;
                    tracing::info!(waited_ms, "the other server has changed plugins or settings");
                }
                return Ok(Box::new(link));
            }
            if !is_logged && requested.elapsed() >= TURN_LOGGED {
                is_logged = true;
                tracing::info!("waiting for another server that changes plugins or settings, as at its first start");
            }
            if Instant::now() >= until {
                let reason = "another process has been changing plugins or settings for two minutes";
                return Err(Failure::new(Meaning::Exhausted, reason).into());
            }
            tokio::time::sleep(TURN_PAUSE).await;
        }
    }

    async fn keep_once(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let stored = "INSERT INTO daftar.kept_once (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        self.database().query(stored, &[&name, &value]).await?;
        let row = self.database().query_opt("SELECT value FROM daftar.kept_once WHERE name = $1", &[&name]).await?;
        let row = row.ok_or_else(|| StoreError::Failed("a value that is stored once is missing".into()))?;
        column(&row, 0)
    }

    async fn other_readers(&self) -> Result<OtherReaders, StoreError> {
        let mut readers = OtherReaders::default();
        for row in self.database().query(OTHER_READERS, &[]).await? {
            let role = column::<String>(&row, 0)?;
            if column(&row, 1)? { readers.of_tables.push(role) } else { readers.of_reports.push(role) }
        }
        Ok(readers)
    }

    async fn report_views(&self) -> Result<ReportViews, StoreError> {
        reporting::state(self.database()).await
    }

    async fn time(&self) -> Result<Timestamp, StoreError> {
        let statement = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        let row = self.database().query_opt(statement, &[]).await?;
        let row = row.ok_or_else(|| StoreError::Failed("the database did not return its time".into()))?;
        Timestamp::from_microsecond(column(&row, 0)?).map_err(|error| StoreError::Failed(error.into()))
    }

    async fn take(&self, name: &str, wanted: Wanted, limit: u32) -> Result<OfDay, StoreError> {
        let (least, most, limit) = (number(wanted.least), number(wanted.most), number(limit));
        // Retried after a lost connection it may be reserved twice: the count is then too high, never too low.
        let row = self.database().query_opt(TAKE, &[&name, &least, &most, &limit]).await?;
        let (count, taken) = pair(row)?;
        Ok(OfDay { taken: at_most(wanted.most, taken), count })
    }

    async fn give_back(&self, name: &str, calls: u32) -> Result<(), StoreError> {
        let lowered = "UPDATE daftar.counter SET value = greatest(value - $2, 0) WHERE name = $1";
        // Only once: returned twice, the count would be too low.
        let mut connection = self.database().connection().await?;
        connection.query(lowered, &[&name, &number(calls)]).await?;
        Ok(())
    }

    async fn lease(&self, name: &str, wanted: Wanted, per_minute: u32) -> Result<OfMinute, StoreError> {
        let (per_minute, least, most) = (number(per_minute.max(1)), number(wanted.least), number(wanted.most));
        let row = self.database().query_opt(LEASE, &[&name, &per_minute, &least, &most]).await?;
        let (given, until_full_ns) = pair(row)?;
        Ok(OfMinute { taken: at_most(wanted.most, given), until_full: Duration::from_nanos(until_full_ns) })
    }

    async fn window(&self, name: &str, calls: u32, limit: u32) -> Result<OfWindow, StoreError> {
        let row = self.database().query_opt(IN_WINDOW, &[&name, &number(calls), &number(limit)]).await?;
        let row = row.ok_or_else(nothing)?;
        let until_left = |ns: &i64| Duration::from_nanos(u64::try_from(*ns).unwrap_or(0)).min(WINDOW);
        let until_left = column::<Vec<i64>>(&row, 1)?.iter().map(until_left).collect();
        Ok(OfWindow { is_taken: column(&row, 0)?, until_left })
    }

    async fn forget_full_minutes(&self) -> Result<u64, StoreError> {
        let row = self.database().query_opt(FORGET, &[]).await?;
        rows::number(&row.ok_or_else(nothing)?, 0)
    }

    async fn plugin_list(&self) -> Result<StoredList, StoreError> {
        let row = self.database().query_opt("SELECT revision, list FROM daftar.plugin_list", &[]).await?;
        let Some(row) = row else { return Ok(StoredList::default()) };
        Ok(StoredList { revision: rows::number(&row, 0)?, bytes: column(&row, 1)? })
    }

    async fn replace_plugin_list(&self, seen: u64, list: &[u8], named: &[[u8; 32]]) -> Result<u64, StoreError> {
        let named: Vec<&[u8]> = named.iter().map(<[u8; 32]>::as_slice).collect();
        let mut connection = self.database().connection().await?;
        let started = Instant::now();
        let replaced = async {
            let transaction = connection.at_work()?.transaction().await?;
            let row = transaction.query_opt(REPLACE, &[&number(seen), &list, &named]).await?;
            let Some(row) = row else { return Ok(None) };
            let before: Vec<Vec<u8>> = row.try_get(0)?;
            let unnamed = "DELETE FROM daftar.plugin_file WHERE digest <> ALL ($1) AND digest <> ALL ($2)";
            transaction.execute(unnamed, &[&named, &before]).await?;
            raise_deployment(&transaction).await?;
            transaction.commit().await?;
            Ok::<_, Failure>(Some(seen.saturating_add(1)))
        };
        let answered = tokio::time::timeout(self.database().answer_timeout(), replaced).await;
        let answered = answered.unwrap_or_else(|_| Err(Failure::slow()));
        self.database().note_write(started, &answered);
        connection.keep_unless(answered.as_ref().err());
        answered?.ok_or(StoreError::Overtaken)
    }

    async fn plugin_file(&self, digest: [u8; 32]) -> Result<Option<Vec<u8>>, StoreError> {
        let mut bytes = Vec::new();
        for part in 0_i32.. {
            // In chunks: reading a whole file may exceed the time limit of one response.
            let requested = "SELECT parts, bytes FROM daftar.plugin_file WHERE digest = $1 AND part = $2";
            let row = self.database().query_opt(requested, &[&digest.as_slice(), &part]).await?;
            let Some(row) = row else { return Ok(None) };
            bytes.extend_from_slice(column(&row, 1)?);
            if part.saturating_add(1) >= column::<i32>(&row, 0)? {
                break;
            }
        }
        Ok(Some(bytes))
    }

    async fn put_plugin_file(&self, digest: [u8; 32], bytes: Vec<u8>) -> Result<(), StoreError> {
        let parts = i32::try_from(bytes.len().div_ceil(PART_BYTES).max(1)).unwrap_or(i32::MAX);
        let put = "INSERT INTO daftar.plugin_file (digest, part, parts, bytes) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        // Sequentially: no reader finds a file whose last chunk is missing.
        for (part, bytes) in (0_i32..).zip(bytes.chunks(PART_BYTES)) {
            self.database().query(put, &[&digest.as_slice(), &part, &parts, &bytes]).await?;
        }
        Ok(())
    }

    async fn put_labels(&self, labels: Vec<CodeLabel>) -> Result<(), StoreError> {
        self.store.put_labels(labels).await.map(|_| ())
    }
}

fn pair(row: Option<tokio_postgres::Row>) -> Result<(u64, u64), StoreError> {
    let row = row.ok_or_else(nothing)?;
    let number = |at| column::<i64>(&row, at).map(|number| u64::try_from(number).unwrap_or(0));
    Ok((number(0)?, number(1)?))
}

fn nothing() -> StoreError {
    StoreError::Failed("the database returned no row for a count".into())
}

/// A number of calls, as the database returned it.
fn at_most(most: u32, calls: u64) -> u32 {
    u32::try_from(calls).unwrap_or(most).min(most)
}

/// A number for the database.
fn number(value: impl Into<u64>) -> i64 {
    signed(value.into())
}

#[cfg(test)]
mod tests;

//! The schema `reporting`, in which analysts read the register by SQL: one view for each table of
//! `daftar_domain::schema::reporting`, one of the audit log, and `label`, which returns the label of a code.
//!
//! **Invariant:** the statements of the views are derived from the schema of records. They run when tables are created,
//! when they differ from those that ran last, and when a view is missing; a program of an older revision leaves the
//! views of a newer one unchanged. A view keeps the order of its columns, and new ones are last, so that views that
//! read it stay valid. It keeps its owner, rights and options, even if it has to be dropped and created again.
//!
//! **Invariant:** a register is served without these views: if they cannot be created, the log contains the reason, and
//! no start waits for a report or for another process that updates them. `daftar migrate prepare` waits, and reports
//! their failure by an exit code of its own.

mod rights;
mod view;

use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

use self::rights::Rights;
use self::view::{View, literal, views};
use super::database::Database;
use super::failure::{Failure, Meaning};
use super::locks;
use daftar_domain::schema::REVISION;
use daftar_store::StoreError;
use daftar_store::shared::ReportViews;

/// Revision of the views and of `label`. A release increases it if their statements differ from those of the previous
/// release with the same revision of the schema of records: otherwise servers of the two replace each other's views.
const VIEWS_REVISION: i32 = 2;
/// Maximum time that a statement waits for a report that uses a view; new reports on the view wait as long. Waits for
/// all views together are shorter than `deadlock_timeout` (1 s), after which PostgreSQL may abort a report that waits
/// for one view and uses another.
const LOCK_WAIT: &str = "SET LOCAL lock_timeout = '100ms'";
/// Waits for other processes that change tables or views.
const LOCK: &str = "SELECT true FROM pg_advisory_xact_lock($1)";
/// As [`LOCK`], but returns false immediately during such a change: that process updates the views.
const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock($1)";
/// Time for which `daftar migrate prepare` retries while reports use views.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between attempts, in which new reports run.
const PAUSE: Duration = Duration::from_millis(500);

/// State of the views, with the values of [`Expected`]: whether a newer program manages them; whether they are those of
/// this program; and the names of missing ones. The role requires no right to the schema.
const STATE: &str = "\
SELECT coalesce((schema_revision, views_revision) > ($1::integer, $2::integer), false),
       coalesce((schema_revision, views_revision) = ($1::integer, $2::integer) AND views = $3::bytea, false),
       ARRAY(SELECT wanted.name FROM unnest($4::text[]) AS wanted (name)
             WHERE NOT EXISTS (
                 SELECT FROM pg_class AS class JOIN pg_namespace AS schema ON schema.oid = class.relnamespace
                 WHERE schema.nspname = 'reporting' AND class.relname::text = wanted.name AND class.relkind = 'v')
             UNION ALL
             SELECT 'label(text, text)' WHERE NOT EXISTS (
                 SELECT FROM pg_proc AS function JOIN pg_namespace AS schema ON schema.oid = function.pronamespace
                 WHERE schema.nspname = 'reporting' AND function.proname = 'label'
                   AND oidvectortypes(function.proargtypes) = 'text, text'))
FROM daftar.reporting_state";

/// Outcome of an update of the views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewsOutcome {
    /// They are those of this program already, or of a newer one.
    Unchanged,
    /// They were created or replaced.
    Updated,
    /// They cannot be created or replaced, and are as before.
    Failed(ViewsError),
}

/// Reason why views cannot be created or replaced, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ViewsError {
    /// The role lacks a right.
    #[error("{0}")]
    Denied(String),
    /// A report uses a view, or the database is unavailable.
    #[error("{0}")]
    Unavailable(String),
    /// The database rejects a statement.
    #[error("{0}")]
    Rejected(String),
}

impl From<&Failure> for ViewsError {
    fn from(failure: &Failure) -> Self {
        match failure.meaning {
            Meaning::Locked => Self::Unavailable(format!(
                "{failure}: a report uses a view; run `daftar migrate prepare` again after it has ended, or end it (host/docs/POSTGRESQL.md)"
            )),
            Meaning::Refused if failure.is_of("42501") => Self::Denied(format!(
                "{failure}: the role must own the tables and the views, and needs CREATE on the database if there is no schema `reporting`; \
                 run `daftar migrate prepare` with the URL of that role, if need be after `CREATE SCHEMA reporting AUTHORIZATION …`"
            )),
            Meaning::Refused if failure.is_of("2BP01") => Self::Rejected(format!(
                "{failure}: objects of other roles depend on a view that has to be dropped and created again, such as functions; drop these first"
            )),
            Meaning::Refused => Self::Rejected(failure.to_string()),
            Meaning::Unreachable
            | Meaning::Slow
            | Meaning::Interrupted
            | Meaning::Exhausted
            | Meaning::Conflict
            | Meaning::ReadOnly
            | Meaning::DiskFull => Self::Unavailable(failure.to_string()),
        }
    }
}

/// The views that this program creates.
struct Expected {
    schema_revision: i32,
    views_revision: i32,
    digest: Vec<u8>,
    names: Vec<&'static str>,
}

impl Expected {
    fn of(views: &[View]) -> Self {
        Self {
            schema_revision: REVISION.into(),
            views_revision: VIEWS_REVISION,
            digest: digest(views),
            names: views.iter().map(|view| view.name).collect(),
        }
    }

    /// Values of [`STATE`].
    fn values(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.schema_revision, &self.views_revision, &self.digest, &self.names]
    }
}

/// The function that returns the label of a code. It runs as its owner: readers of the views may not read its table.
fn label_function() -> String {
    format!(
        "CREATE OR REPLACE FUNCTION reporting.label(uri text, language text DEFAULT NULL) RETURNS text \
         LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ {} $$; \
         COMMENT ON FUNCTION reporting.label(text, text) IS {}",
        view::label("$1", "$2"),
        literal(
            "The label of a code in a language such as fr-CA: in that one, else in fr, else in the default language of its vocabulary. \
             NULL where the code has none."
        )
    )
}

const SCHEMA_COMMENT: &str = "The register for reports, read only. SQL goes past consents, field limits and the audit log of daftar: grant it \
    to people who may see everything. SET reporting.language = 'fr' chooses the language of labels.";

/// SHA-256 of the statements that create all views.
fn digest(views: &[View]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for statement in views.iter().map(|view| view.statements(&[])).chain([label_function(), SCHEMA_COMMENT.to_owned()])
    {
        hash.update(statement.as_bytes());
    }
    hash.finalize().to_vec()
}

/// Reads a row of [`STATE`].
fn state_of(row: Option<&Row>) -> Result<ReportViews, tokio_postgres::Error> {
    let Some(row) = row else { return Ok(ReportViews::Outdated) };
    let (is_of_newer, is_same, missing): (bool, bool, Vec<String>) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if is_of_newer {
        return Ok(ReportViews::Current);
    }
    if !missing.is_empty() {
        return Ok(ReportViews::Missing(missing));
    }
    Ok(if is_same { ReportViews::Current } else { ReportViews::Outdated })
}

/// Returns the state of the views, for any role that reads the tables.
pub(super) async fn state(database: &Database) -> Result<ReportViews, StoreError> {
    let row = database.query_opt(STATE, &Expected::of(&views()).values()).await?;
    Ok(state_of(row.as_ref()).map_err(Failure::from)?)
}

async fn is_current(client: &impl GenericClient, expected: &Expected) -> Result<bool, Failure> {
    let row = client.query_opt(STATE, &expected.values()).await?;
    Ok(state_of(row.as_ref())? == ReportViews::Current)
}

/// Creates or replaces the views, if they differ, in one attempt. A failure is logged: the register works without them.
pub(super) async fn make(client: &mut Client) {
    match made(client, TRY_LOCK).await {
        Ok(true) => tracing::info!("the views of the schema `reporting` were updated"),
        Ok(false) => {}
        Err(failure) => tracing::warn!(
            error = %ViewsError::from(&failure),
            "the views of the schema `reporting` were not updated, and reports by SQL lack the changes"
        ),
    }
}

/// Creates or replaces the views, if they differ; retries for that time while reports use them.
pub(super) async fn make_within(client: &mut Client, patience: Duration) -> ViewsOutcome {
    let (until, mut is_logged) = (Instant::now() + patience, false);
    loop {
        let failure = match made(client, LOCK).await {
            Ok(true) => return ViewsOutcome::Updated,
            Ok(false) => return ViewsOutcome::Unchanged,
            Err(failure) => failure,
        };
        let is_passing = matches!(failure.meaning, Meaning::Locked | Meaning::Interrupted | Meaning::Conflict);
        if !is_passing || Instant::now() >= until {
            return ViewsOutcome::Failed(ViewsError::from(&failure));
        }
        if !is_logged {
            is_logged = true;
            tracing::info!("waiting for reports that use views of the schema `reporting`");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// True if they were missing or different. The lock is one of [`LOCK`] and [`TRY_LOCK`].
async fn made(client: &mut Client, lock: &str) -> Result<bool, Failure> {
    let views = views();
    let expected = Expected::of(&views);
    if is_current(client, &expected).await? {
        return Ok(false);
    }
    let transaction = client.transaction().await?;
    let is_locked = transaction.query_one(lock, &[&locks::TABLES]).await?.try_get::<_, bool>(0)?;
    if !is_locked || is_current(&transaction, &expected).await? {
        return Ok(false);
    }
    transaction.batch_execute(LOCK_WAIT).await?;
    let there = transaction.query_one("SELECT to_regnamespace('reporting') IS NOT NULL", &[]).await?;
    if !there.try_get::<_, bool>(0)? {
        transaction.batch_execute("CREATE SCHEMA reporting").await?;
    }
    transaction.batch_execute(&format!("COMMENT ON SCHEMA reporting IS {}", literal(SCHEMA_COMMENT))).await?;
    for view in &views {
        replace(&transaction, view).await?;
    }
    transaction.batch_execute(&label_function()).await?;
    let noted = "UPDATE daftar.reporting_state SET schema_revision = $1, views_revision = $2, views = $3";
    let Expected { schema_revision, views_revision, digest, .. } = &expected;
    transaction.execute(noted, &[schema_revision, views_revision, digest]).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Creates a view or replaces it; drops it first if a column has to be removed, or to have another type.
async fn replace(transaction: &Transaction<'_>, view: &View) -> Result<(), Failure> {
    let there = columns_of(transaction, view.name).await?;
    if there.is_empty() {
        return Ok(transaction.batch_execute(&view.statements(&[])).await?);
    }
    let rights = Rights::of(transaction, view.name).await?;
    if there.iter().all(|(name, held)| view.has(name, held)) {
        let order: Vec<&str> = there.iter().map(|(name, _)| name.as_str()).collect();
        transaction.batch_execute(&view.statements(&order)).await?;
        return rights.set_options(transaction).await;
    }
    let dependents = rights::dependents(transaction, view.name).await?;
    if !dependents.is_empty() {
        let named: Vec<String> = dependents.iter().map(|name| format!("`{name}`")).collect();
        let reason = format!(
            "the view `reporting.{}` has to be dropped and created again, and {} read it: drop these first, and create them again afterwards",
            view.name,
            named.join(", ")
        );
        return Err(Failure::new(Meaning::Refused, reason));
    }
    transaction.batch_execute(&format!("DROP VIEW reporting.{}", view.name)).await?;
    transaction.batch_execute(&view.statements(&[])).await?;
    let columns: Vec<String> = columns_of(transaction, view.name).await?.into_iter().map(|(name, _)| name).collect();
    rights.restore(transaction, view.name, &columns).await
}

/// The columns of a view with their types, in order; none if it does not exist.
async fn columns_of(transaction: &Transaction<'_>, view: &str) -> Result<Vec<(String, String)>, Failure> {
    let requested = "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute \
                 WHERE attrelid = to_regclass('reporting.' || $1) AND attnum > 0 ORDER BY attnum";
    let rows = transaction.query(requested, &[&view]).await?;
    Ok(rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, tokio_postgres::Error>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [`digest`] of the statements of these revisions.
    const DIGEST: &str = "881c78499c05b006ea30d6a075b6d16a23fc868e9ffce5eaeb4d152c42de177e";

    #[test]
    fn a_change_of_the_views_increases_a_revision() {
        let digest: String = digest(&views()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            (REVISION, VIEWS_REVISION, digest.as_str()),
            (1, 2, DIGEST),
            "the statements of the views changed. If `REVISION` and `VIEWS_REVISION` are those of a release, increase `VIEWS_REVISION`. \
             Then replace the revisions and the digest here"
        );
    }
}

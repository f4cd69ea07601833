//! The schema `reporting`, in which analysts read the register by SQL: one view for each table of
//! `daftar_domain::schema::reporting`, one of the audit log, and `label`, which returns the label of a code.
//!
//! **Invariant:** the statements of the views are derived from the schema of records. They run when tables are created
//! and when they differ from those that ran last; a program with an older schema leaves the views of a newer one
//! unchanged. A view keeps the order of its columns, and new ones are last, so that views that read it stay valid.
//!
//! **Invariant:** a register is served without these views: if they cannot be created, the log contains the reason.

mod view;

use sha2::{Digest, Sha256};
use tokio_postgres::{Client, GenericClient, Transaction};

use self::view::{View, literal, views};
use super::failure::Failure;
use super::locks;
use daftar_domain::schema::REVISION;

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

/// True if the views are those of this program, or of a newer one.
pub(super) async fn is_current(client: &impl GenericClient) -> Result<bool, Failure> {
    let made = "SELECT coalesce(schema_revision > $1 OR (schema_revision = $1 AND views = $2), false) FROM daftar.reporting_state";
    let row = client.query_opt(made, &[&i32::from(REVISION), &digest(&views())]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or(false))
}

/// Creates or updates the views, if they differ. A failure is logged: the register works without them.
pub(super) async fn make(client: &mut Client) {
    match made(client).await {
        Ok(true) => tracing::info!("the views of the schema `reporting` were updated"),
        Ok(false) => {}
        Err(failure) => tracing::warn!(
            error = %failure,
            "the views of the schema `reporting` cannot be made, and reports by SQL lack them: run `daftar migrate prepare` \
             with the role that owns the tables, which needs CREATE on the database, or CREATE SCHEMA reporting AUTHORIZATION …; views of others that read a changed one have to be dropped first"
        ),
    }
}

/// True if they were missing or different.
async fn made(client: &mut Client) -> Result<bool, Failure> {
    if is_current(client).await? {
        return Ok(false);
    }
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&locks::TABLES]).await?;
    if is_current(&transaction).await? {
        return Ok(false);
    }
    // A running report keeps its view, and no start waits for it.
    transaction.batch_execute("SET LOCAL lock_timeout = '2s'").await?;
    let there = transaction.query_one("SELECT to_regnamespace('reporting') IS NOT NULL", &[]).await?;
    if !there.try_get::<_, bool>(0)? {
        transaction.batch_execute("CREATE SCHEMA reporting").await?;
    }
    transaction.batch_execute(&format!("COMMENT ON SCHEMA reporting IS {}", literal(SCHEMA_COMMENT))).await?;
    let views = views();
    for view in &views {
        let there = columns_of(&transaction, view.name).await?;
        let is_stored = there.iter().all(|(name, held)| view.has(name, held));
        if !is_stored {
            transaction.batch_execute(&format!("DROP VIEW reporting.{}", view.name)).await?;
        }
        let order: Vec<&str> = there.iter().filter(|_| is_stored).map(|(name, _)| name.as_str()).collect();
        transaction.batch_execute(&view.statements(&order)).await?;
    }
    transaction.batch_execute(&label_function()).await?;
    let noted = "UPDATE daftar.reporting_state SET schema_revision = $1, views = $2";
    transaction.execute(noted, &[&i32::from(REVISION), &digest(&views)]).await?;
    transaction.commit().await?;
    Ok(true)
}

/// The columns of a view with their types, in order; none if it does not exist.
async fn columns_of(transaction: &Transaction<'_>, view: &str) -> Result<Vec<(String, String)>, Failure> {
    let requested = "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute \
                 WHERE attrelid = to_regclass('reporting.' || $1) AND attnum > 0 ORDER BY attnum";
    let rows = transaction.query(requested, &[&view]).await?;
    Ok(rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, tokio_postgres::Error>>()?)
}

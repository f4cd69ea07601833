//! Records whose index rows were written by a program that does not know all of their fields: an older server next to a
//! newer one, or an older program that filled the database. A program that knows the fields rewrites the rows.
//!
//! **Invariant:** the transaction that writes such rows notes the record; the one that rewrites them deletes the note.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::Transaction;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::entry::Apart;
use super::write::write;
use crate::database::{Database, execute, rows};
use crate::failure::Failure;
use crate::group::Broken;
use crate::rows::{column, kind_of, places, record_of};
use crate::supervise;
use daftar_domain::change::ChangedRecord;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::schema::REVISION;
use daftar_store::StoreError;

/// Time between a write and the check for noted records.
const PAUSE: Duration = Duration::from_secs(2);
/// Number of records that are rewritten in one transaction, during which other writes wait.
const RECORDS_AT_ONCE: i64 = 100;

const NOTE: &str = "INSERT INTO daftar.search_behind AS known (kind, id, revision) \
                    SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::integer[]) \
                    ON CONFLICT (kind, id) DO UPDATE SET revision = greatest(known.revision, excluded.revision)";
const ARE_NOTED: &str = "SELECT EXISTS (SELECT FROM daftar.search_behind WHERE revision <= $1)";
const TAKE: &str = "WITH taken AS (DELETE FROM daftar.search_behind WHERE (kind, id) IN \
                        (SELECT kind, id FROM daftar.search_behind WHERE revision <= $1 ORDER BY kind, id LIMIT $2) \
                        RETURNING kind, id) \
                    SELECT record.id, record.value, record.kind FROM taken JOIN daftar.record AS record USING (kind, id)";

/// Records to be noted, with the revision of the schema that knows all of their fields.
#[derive(Debug, Default)]
pub(crate) struct Behind(BTreeMap<(RecordKind, RecordId), u16>);

impl Behind {
    /// Notes a record, if this program does not know all of its fields.
    pub(crate) fn note(&mut self, record: &ChangedRecord) {
        if let Some(revision) = record.values().later_revision() {
            let (kind, id, _) = record.place();
            let known = self.0.entry((kind, id)).or_default();
            *known = revision.max(*known);
        }
    }

    /// Adds the records of a later write.
    pub(crate) fn extend(&mut self, later: Self) {
        for (place, revision) in later.0 {
            let known = self.0.entry(place).or_default();
            *known = revision.max(*known);
        }
    }

    /// Writes the notes.
    pub(crate) async fn write(&self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let (kinds, ids) = places(self.0.keys());
        let revisions: Vec<i32> = self.0.values().map(|revision| i32::from(*revision)).collect();
        execute(transaction, NOTE, &[&kinds, &ids, &revisions]).await?;
        Ok(())
    }
}

/// The task that rewrites rows; it ends when this is dropped.
pub(crate) struct IndexRepair(JoinHandle<()>);

impl IndexRepair {
    /// Starts with the records that are noted already. `heard` changes when records were written.
    ///
    /// # Errors
    /// If the database fails.
    pub(crate) async fn start(database: Arc<Database>, heard: watch::Receiver<u64>) -> Result<Self, StoreError> {
        let are_there = AtomicBool::new(are_noted(&database).await?);
        // After a panic there may be some.
        let task = move || run(Arc::clone(&database), heard.clone(), are_there.swap(true, Ordering::AcqRel));
        Ok(Self(supervise("index_repair", task)))
    }
}

impl Drop for IndexRepair {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(database: Arc<Database>, mut heard: watch::Receiver<u64>, mut are_there: bool) {
    loop {
        if are_there {
            match rewrite(&database).await {
                Ok(0) => {}
                Ok(records) => {
                    tracing::info!(
                        records,
                        "records that an older daftar had written are found by all of their fields again"
                    );
                }
                Err(error) => {
                    tracing::warn!(%error, "records that an older daftar wrote are not found by all of their fields yet");
                }
            }
        }
        if heard.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
        heard.borrow_and_update();
        are_there = !database.is_unavailable() && are_noted(&database).await.unwrap_or(false);
    }
}

/// True if a noted record has only fields that this program knows.
async fn are_noted(database: &Database) -> Result<bool, StoreError> {
    let row = database.query_opt(ARE_NOTED, &[&i32::from(REVISION)]).await?;
    row.map_or(Ok(false), |row| column(&row, 0))
}

/// Rewrites the rows of noted records, and returns the number of records.
async fn rewrite(database: &Database) -> Result<u64, StoreError> {
    let mut records = 0_u64;
    loop {
        let rewritten = rewrite_some(database).await?;
        if rewritten == 0 {
            return Ok(records);
        }
        records = records.saturating_add(rewritten);
    }
}

async fn rewrite_some(database: &Database) -> Result<u64, Broken> {
    let mut connection = database.connection().await?;
    let transaction = connection.at_work()?.transaction().await?;
    // Counters change by the differences to the rows before: no other write runs in the meantime.
    transaction.query("SELECT FROM daftar.last FOR UPDATE", &[]).await?;
    let rows = rows(&transaction, TAKE, &[&i32::from(REVISION), &RECORDS_AT_ONCE]).await?;
    let mut records = Vec::with_capacity(rows.len());
    for row in &rows {
        match record_of(kind_of(column(row, 2)?)?, row) {
            Ok(record) => records.push(record),
            // A client that reads the record gets the error.
            Err(error) => tracing::warn!(%error, "a record cannot be read: its rows in the index stay as they are"),
        }
    }
    write(&transaction, Apart::begin(records, usize::MAX, |_, _| false)).await?;
    transaction.commit().await?;
    connection.keep_unless(None);
    Ok(rows.len() as u64)
}

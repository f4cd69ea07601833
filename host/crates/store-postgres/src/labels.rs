//! Labels of codes in `daftar.label`, for reports by SQL.
//!
//! **Invariant:** one process inserts the labels of a vocabulary snapshot in one transaction; others find them there.

use deadpool_postgres::Transaction;
use sha2::{Digest, Sha256};

use super::PostgresStore;
use super::failure::Failure;
use super::locks;
use daftar_store::StoreError;
use daftar_store::shared::CodeLabel;

/// Number of labels of a statement: low enough that each statement stays far from its time limit.
const BATCH: usize = 5_000;

/// Waits for another process that inserts them, and replaces the plan options of the connection for single keys.
const INSERT_OPTIONS: &str =
    "SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = '60s'; SET LOCAL enable_hashjoin = on";

const STATE: &str = "SELECT coalesce(labels = $1, false) FROM daftar.reporting_state";

const PUT: &str = "INSERT INTO daftar.label AS kept (uri, language, place, text) \
    SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[], $4::text[]) \
    ON CONFLICT (uri, language) DO UPDATE SET place = excluded.place, text = excluded.text \
    WHERE (kept.place, kept.text) IS DISTINCT FROM (excluded.place, excluded.text)";

/// Languages that a code no longer has. A code that is in no vocabulary any more keeps all of its labels.
const REMOVE: &str = "DELETE FROM daftar.label AS kept WHERE kept.uri = ANY ($1::text[]) \
    AND NOT EXISTS (SELECT FROM unnest($1::text[], $2::text[]) AS put (uri, language) \
        WHERE put.uri = kept.uri AND put.language = kept.language)";

const NOTE: &str = "UPDATE daftar.reporting_state SET labels = $1";

impl PostgresStore {
    /// Inserts labels if they are not there already; returns true if it did.
    pub(super) async fn put_labels(&self, mut labels: Vec<CodeLabel>) -> Result<bool, StoreError> {
        labels.sort_unstable_by(|one, other| (&one.uri, &one.language).cmp(&(&other.uri, &other.language)));
        labels.dedup_by(|later, stored| (&later.uri, &later.language) == (&stored.uri, &stored.language));
        let digest = digest(&labels);
        let there = self.database.query_opt(STATE, &[&digest]).await?;
        if there.is_some_and(|row| row.try_get(0).unwrap_or(false)) {
            return Ok(false);
        }
        let mut connection = self.database.connection().await?;
        let put = async {
            let transaction = connection.at_work()?.transaction().await?;
            transaction.batch_execute(INSERT_OPTIONS).await?;
            transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&locks::LABELS]).await?;
            let there = transaction.query_opt(STATE, &[&digest]).await?;
            if there.is_some_and(|row| row.try_get(0).unwrap_or(false)) {
                return Ok(false);
            }
            for part in parts(&labels) {
                put_part(&transaction, part).await?;
            }
            transaction.execute(NOTE, &[&digest]).await?;
            transaction.commit().await?;
            Ok::<_, Failure>(true)
        };
        let put = put.await;
        connection.keep_unless(put.as_ref().err());
        Ok(put?)
    }
}

/// SHA-256 of sorted labels.
fn digest(labels: &[CodeLabel]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for CodeLabel { uri, language, place, text } in labels {
        for part in [uri, language, text] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(place.to_be_bytes());
    }
    hash.finalize().to_vec()
}

/// Splits sorted labels into batches, none of which ends within the labels of a code.
fn parts(labels: &[CodeLabel]) -> Vec<&[CodeLabel]> {
    let (mut parts, mut rest) = (Vec::new(), labels);
    while !rest.is_empty() {
        let last = rest.get(BATCH.min(rest.len()).saturating_sub(1)).map(|label| label.uri.as_str());
        let end = rest.partition_point(|label| Some(label.uri.as_str()) <= last);
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    parts
}

async fn put_part(transaction: &Transaction<'_>, labels: &[CodeLabel]) -> Result<(), Failure> {
    let uris: Vec<&str> = labels.iter().map(|label| label.uri.as_str()).collect();
    let languages: Vec<&str> = labels.iter().map(|label| label.language.as_str()).collect();
    let places: Vec<i16> = labels.iter().map(|label| i16::try_from(label.place).unwrap_or(i16::MAX)).collect();
    let texts: Vec<&str> = labels.iter().map(|label| label.text.as_str()).collect();
    let remove = transaction.prepare_cached(REMOVE).await?;
    transaction.execute(&remove, &[&uris, &languages]).await?;
    let put = transaction.prepare_cached(PUT).await?;
    transaction.execute(&put, &[&uris, &languages, &places, &texts]).await?;
    Ok(())
}

//! Reading the database as of one write: one read-only transaction that sees nothing newer, read in chunks.

mod refill;

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio_postgres::Row;

use daftar_domain::change::Sequence;
use daftar_domain::record::RecordKind;
use daftar_store::archive::{self, Archive, Ends, Fixed, Held, Mark, Snapshot, present_only};
use daftar_store::change_log::RegisterId;
use daftar_store::verify::RawValues;
use daftar_store::{StoreError, blocking};

pub use self::refill::PostgresRefill;
use super::database::Database;
use super::failure::{Failure, Meaning, corrupt};
use super::rows::{column, number, signed};
use super::verify::{PostgresValues, SAVE};
use super::{PostgresStore, audit_row};

/// The transaction may wait an hour for a slow client. Then the database ends it, because an open transaction keeps old
/// rows from being vacuumed. One statement is short. Statements are prepared once, and planned for the values of each
/// page.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                     SET LOCAL idle_in_transaction_session_timeout = '1h'; SET LOCAL enable_seqscan = off; \
                     SET LOCAL plan_cache_mode = force_custom_plan";
const LAST: &str = "SELECT register, sequence, code_table_parts, individual, \"group\", program, membership, consent \
                    FROM daftar.last";
/// Last write of the register, and the last values that are stored as of that write.
const ENDS: &str = "SELECT register, sequence, code_table_parts, COALESCE((SELECT max(number) FROM daftar.audit), 0) / 256, \
                    (SELECT value FROM daftar.change WHERE sequence = $1) FROM daftar.last";

/// True if a register that was caught up and not compared is as it was then; no row for any other one. A server that
/// was running during the update and has written since made it the current register.
const IS_NOT_COMPARED: &str = "SELECT (origin.sequence, origin.code_table_parts, origin.audit) \
                               = (last.sequence, last.code_table_parts, COALESCE((SELECT max(number) FROM daftar.audit), 0) / 256) \
                               FROM daftar.origin AS origin CROSS JOIN daftar.last AS last WHERE NOT origin.is_compared";

/// Waits for transactions that have numbered audit entries and are not committed, and keeps others from beginning. Audit
/// entries of requests wait behind it, for 2 s at most: an attempt waits for another session, such as an `ANALYZE`, for
/// less.
const SETTLE_AUDIT: &str = "BEGIN; SET LOCAL lock_timeout = '500ms'; LOCK TABLE ONLY daftar.audit IN SHARE MODE";
/// Number of attempts, which end before the time limit of the snapshot.
const SETTLE_ATTEMPTS: u32 = 8;
/// Pause before the next attempt, in which waiting entries are written.
const SETTLE_PAUSE: Duration = Duration::from_millis(500);

impl PostgresStore {
    /// Begins a transaction that sees the database as it is now. Entries of the audit log that are committed later have
    /// later numbers than all that it sees.
    async fn begin(&self) -> Result<(Arc<dyn RawValues>, Fixed), StoreError> {
        let (link, settled) =
            (self.database.link("daftar (snapshot)").await?, self.database.link("daftar (audit)").await?);
        let begun = async {
            let mut attempt = 1;
            while let Err(error) = settled.client.batch_execute(SETTLE_AUDIT).await {
                let failure = Failure::from(error);
                if failure.meaning != Meaning::Locked || attempt >= SETTLE_ATTEMPTS {
                    return Err(failure);
                }
                attempt += 1;
                settled.client.batch_execute("ROLLBACK").await?;
                tokio::time::sleep(SETTLE_PAUSE).await;
            }
            link.client.batch_execute(BEGIN).await?;
            link.client.batch_execute(SAVE).await?;
            let last = link.client.query_opt(LAST, &[]).await?;
            settled.client.batch_execute("ROLLBACK").await?;
            drop(settled);
            Ok::<_, Failure>(last)
        };
        let row = tokio::time::timeout(self.database.answer_timeout(), begun).await;
        let row = row.unwrap_or_else(|_| Err(Failure::slow()))?;
        let row = row.ok_or_else(|| corrupt("row of last numbers", "it is not there"))?;
        let mut records = RecordKind::ALL.map(|kind| (kind, 0));
        for (at, (_, count)) in (3..).zip(&mut records) {
            *count = number(&row, at)?;
        }
        let mark = Mark { register: register_of(&row)?, sequence: Sequence(number(&row, 1)?), records };
        let values: Arc<dyn RawValues> = Arc::new(PostgresValues::new(link, self.database.answer_timeout(), false));
        let reading = Arc::clone(&values);
        let present = blocking(move || present_only(&*reading)).await??;
        Ok((values, Fixed { mark, code_table_parts: number(&row, 2)?, last_audit: u64::MAX, present }))
    }
}

#[async_trait::async_trait]
impl Archive for PostgresStore {
    async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let (values, fixed) = self.begin().await?;
        Ok(archive::snapshot(values, fixed))
    }

    async fn ends(&self, held: &Held) -> Result<Ends, StoreError> {
        let row = self.database.last_row(ENDS, &[&signed(held.sequence.0)]).await?;
        let (first, last) = (audit_row::first_number(held.audit), audit_row::last_number(held.audit));
        let audit = self.database.query(&audit_row::value_statement(), &[&first, &last]).await?;
        ends_of(&row, &audit)
    }

    async fn since(&self, held: &Held) -> Result<Snapshot, StoreError> {
        let (values, fixed) = self.begin().await?;
        archive::since(values, fixed, held).await
    }

    async fn raw_values(&self) -> Result<Arc<dyn RawValues>, StoreError> {
        Ok(Arc::new(self.verified_values().await?))
    }
}

/// False if the register was caught up, and not compared with its source to the end since.
pub(super) async fn is_compared(database: &Database) -> Result<bool, StoreError> {
    let Some(row) = database.query_opt(IS_NOT_COMPARED, &[]).await? else { return Ok(true) };
    let is_unchanged: bool = column(&row, 0)?;
    if !is_unchanged {
        tracing::warn!(
            "the register was caught up and not compared with its source, and a server has written to it since: it can no longer be compared"
        );
    }
    Ok(!is_unchanged)
}

/// The id in the first column.
fn register_of(row: &Row) -> Result<RegisterId, StoreError> {
    let register: &[u8] = column(row, 0)?;
    let register = register.try_into().map_err(|_| corrupt("id of the register", "it has not 16 bytes"))?;
    Ok(RegisterId(register))
}

/// Decodes a row of [`ENDS`] and the rows of the last value of the audit log.
fn ends_of(row: &Row, audit: &[Row]) -> Result<Ends, StoreError> {
    Ok(Ends {
        register: register_of(row)?,
        sequence: Sequence(number(row, 1)?),
        code_table_parts: number(row, 2)?,
        audit: number(row, 3)?,
        change: column::<Option<&[u8]>>(row, 4)?.map(|value| Sha256::digest(value).into()),
        audit_value: audit_row::value_of(audit)?.map(|value| Sha256::digest(value).into()),
    })
}

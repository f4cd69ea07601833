//! Taking the database as it stood after one write: one read-only transaction that sees nothing newer, read in pieces.

mod refill;
mod walk;

use crate::domain::change::Sequence;
use crate::domain::record::RecordKind;
use crate::store::StoreError;
use crate::store::archive::{Archive, Entry, Mark, Snapshot};

pub use self::refill::PostgresRefill;
use self::walk::Walk;
use super::PostgresStore;
use super::failure::{Failure, corrupt};
use super::rows::{column, number};

/// The transaction may wait an hour for who takes things slowly; then the database ends it, as it keeps old rows from being cleared
/// away. One statement is short.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                     SET LOCAL idle_in_transaction_session_timeout = '1h'; SET LOCAL enable_seqscan = off";
const LAST: &str = "SELECT register, sequence, code_table_parts, audit, individual, \"group\", program, membership, consent \
                    FROM daftar.last";

#[async_trait::async_trait]
impl Archive for PostgresStore {
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        let link = self.database.link("daftar (snapshot)").await?;
        let begun = async {
            link.client.batch_execute(BEGIN).await?;
            Ok::<_, Failure>(link.client.query_opt(LAST, &[]).await?)
        };
        let row = tokio::time::timeout(self.database.answer_timeout(), begun).await;
        let row = row.unwrap_or_else(|_| Err(Failure::slow()))?;
        let row = row.ok_or_else(|| corrupt("row of last numbers", "it is not there"))?;
        let register: &[u8] = column(&row, 0)?;
        let register = register.try_into().map_err(|_| corrupt("id of the register", "it has not 16 bytes"))?;
        let counts = [number(&row, 4)?, number(&row, 5)?, number(&row, 6)?, number(&row, 7)?, number(&row, 8)?];
        let mut records = RecordKind::ALL.map(|kind| (kind, 0));
        records.iter_mut().zip(counts).for_each(|((_, to), count)| *to = count);
        let mark = Mark {
            register: crate::store::change_log::RegisterId(register),
            sequence: Sequence(number(&row, 1)?),
            records,
        };
        let walk = Walk::new(link, self.database.answer_timeout(), mark.clone(), number(&row, 2)?, number(&row, 3)?);
        Ok(Box::new(PostgresSnapshot { mark, walk: Some(walk) }))
    }
}

/// The database as it stood after one write.
struct PostgresSnapshot {
    mark: Mark,
    /// Absent after a failure, and while it is read from.
    walk: Option<Walk>,
}

#[async_trait::async_trait]
impl Snapshot for PostgresSnapshot {
    fn mark(&self) -> &Mark {
        &self.mark
    }

    async fn next(&mut self) -> Result<Vec<Entry>, StoreError> {
        let Some(mut walk) = self.walk.take() else {
            return Err(StoreError::Failed("the snapshot failed before, or was left while it was read".into()));
        };
        let entries = walk.next().await?;
        self.walk = Some(walk);
        Ok(entries)
    }
}

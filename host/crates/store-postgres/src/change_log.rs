//! The order of writes, read for those who follow it.

use daftar_domain::change::Sequence;
use daftar_store::change_log::{CHANGES_MAX, ChangeLog, HistoryMark, RegisterId, Touched};
use daftar_store::{StoreError, record};

use super::PostgresStore;
use super::database::Database;
use super::failure::corrupt;
use super::rows::{column, number, signed};

impl Database {
    /// The last write.
    pub(super) async fn last_sequence(&self) -> Result<Sequence, StoreError> {
        let row = self.query_opt("SELECT sequence FROM daftar.last", &[]).await?;
        let row = row.ok_or_else(|| corrupt("row of last numbers", "it is not there"))?;
        number(&row, 0).map(Sequence)
    }
}

#[async_trait::async_trait]
impl ChangeLog for PostgresStore {
    async fn register_id(&self) -> Result<RegisterId, StoreError> {
        Ok(self.register)
    }

    async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        let statement = "SELECT sequence, value FROM daftar.change WHERE sequence > $1 ORDER BY sequence LIMIT $2";
        let limit = signed(limit.min(CHANGES_MAX) as u64);
        let mut changes = Vec::new();
        let mut expected = after.next();
        for row in self.database.query(statement, &[&signed(after.0), &limit]).await? {
            if number(&row, 0)? != expected.0 {
                return Err(corrupt("order of writes", "a write is missing"));
            }
            changes.push(Touched { sequence: expected, records: record::change::touched(column(&row, 1)?)? });
            expected = expected.next();
        }
        Ok(changes)
    }

    async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        if at == Sequence::default() {
            return Ok(Some(HistoryMark::new(self.register, at, &[])));
        }
        let row =
            self.database.query_opt("SELECT value FROM daftar.change WHERE sequence = $1", &[&signed(at.0)]).await?;
        row.map(|row| Ok(HistoryMark::new(self.register, at, column(&row, 0)?))).transpose()
    }
}

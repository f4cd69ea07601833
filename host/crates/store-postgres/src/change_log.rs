//! The order of writes, read for those who follow it.

use daftar_domain::change::Sequence;
use daftar_store::change_log::{HistoryMark, RegisterId, Touched};
use daftar_store::{StoreError, record};

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

    /// What up to `limit` writes after that one touched, in their order.
    pub(super) async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        let statement = "SELECT sequence, value FROM daftar.change WHERE sequence > $1 ORDER BY sequence LIMIT $2";
        let mut changes = Vec::new();
        let mut expected = after.next();
        for row in self.query(statement, &[&signed(after.0), &signed(limit as u64)]).await? {
            if number(&row, 0)? != expected.0 {
                return Err(corrupt("order of writes", "a write is missing"));
            }
            changes.push(Touched { sequence: expected, records: record::change::touched(column(&row, 1)?)? });
            expected = expected.next();
        }
        Ok(changes)
    }

    /// The mark of the history of a register up to that write.
    pub(super) async fn history_mark(
        &self,
        register: RegisterId,
        at: Sequence,
    ) -> Result<Option<HistoryMark>, StoreError> {
        if at == Sequence::default() {
            return Ok(Some(HistoryMark::new(register, at, &[])));
        }
        let row = self.query_opt("SELECT value FROM daftar.change WHERE sequence = $1", &[&signed(at.0)]).await?;
        row.map(|row| Ok(HistoryMark::new(register, at, column(&row, 0)?))).transpose()
    }
}

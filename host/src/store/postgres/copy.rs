//! Rows on their way into a table.

use deadpool_postgres::Transaction;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use super::super::super::group::Broken;

/// A value of a column that owns what it holds.
pub(super) type Cell = Box<dyn ToSql + Sync + Send>;

/// A table that is filled.
pub(super) struct Table {
    copy: &'static str,
    types: &'static [Type],
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Of that statement, whose columns have those types.
    pub(super) fn new(copy: &'static str, types: &'static [Type]) -> Self {
        Self { copy, types, rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// Brings the rows into the database.
    pub(super) async fn flush(&mut self, transaction: &Transaction<'_>) -> Result<(), Broken> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let sink = transaction.copy_in(self.copy).await?;
        let mut writer = Box::pin(BinaryCopyInWriter::new(sink, self.types));
        for row in self.rows.drain(..) {
            let values = row.iter().map(|cell| -> &(dyn ToSql + Sync) { cell.as_ref() });
            writer.as_mut().write_raw(values.collect::<Vec<_>>()).await?;
        }
        writer.as_mut().finish().await?;
        Ok(())
    }
}

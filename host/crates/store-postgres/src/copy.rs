//! Rows on their way into a table, by COPY.

use deadpool_postgres::Transaction;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use super::failure::Failure;

/// A value of a column.
pub(super) type Cell<'r> = Box<dyn ToSql + Sync + Send + 'r>;

/// A value as a cell.
pub(super) fn cell<'r>(value: impl ToSql + Sync + Send + 'r) -> Cell<'r> {
    Box::new(value)
}

/// A table that is filled.
pub(super) struct Table<'r> {
    copy: &'static str,
    types: &'static [Type],
    rows: Vec<Vec<Cell<'r>>>,
}

impl<'r> Table<'r> {
    /// Copies with that statement, whose columns have those types.
    pub(super) fn new(copy: &'static str, types: &'static [Type]) -> Self {
        Self { copy, types, rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: Vec<Cell<'r>>) {
        self.rows.push(row);
    }

    /// Copies the rows into the database.
    ///
    /// # Errors
    /// If the database fails or one of the rows is there already; the transaction cannot continue then.
    pub(super) async fn flush(&mut self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let statement = transaction.prepare_cached(self.copy).await?;
        let sink = transaction.copy_in(&statement).await?;
        let mut writer = Box::pin(BinaryCopyInWriter::new(sink, self.types));
        for row in self.rows.drain(..) {
            let values = row.iter().map(|cell| -> &(dyn ToSql + Sync) { cell.as_ref() });
            writer.as_mut().write_raw(values.collect::<Vec<_>>()).await?;
        }
        writer.as_mut().finish().await?;
        Ok(())
    }
}

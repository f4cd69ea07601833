//! Rows on their way into a table: by COPY, or by a statement with one array per column.

use deadpool_postgres::Transaction;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use super::failure::Failure;

/// A value of a statement, or of a column.
pub(super) type Cell<'r> = Box<dyn ToSql + Sync + Send + 'r>;

/// A value as a cell.
pub(super) fn cell<'r>(value: impl ToSql + Sync + Send + 'r) -> Cell<'r> {
    Box::new(value)
}

/// The values of cells.
pub(super) fn values<'c>(cells: &'c [Cell<'_>]) -> Vec<&'c (dyn ToSql + Sync)> {
    cells.iter().map(|cell| -> &(dyn ToSql + Sync) { cell.as_ref() }).collect()
}

/// One column of some rows, as an array.
pub(super) fn column<'r, R, V>(rows: &'r [R], of: impl Fn(&'r R) -> V) -> Cell<'r>
where
    V: ToSql + Sync + Send + 'r,
{
    cell(rows.iter().map(of).collect::<Vec<V>>())
}

/// A table that is filled.
pub(super) struct Table<'r> {
    /// Its name, and its columns in parentheses.
    columns: &'static str,
    types: &'static [Type],
    rows: Vec<Vec<Cell<'r>>>,
}

impl<'r> Table<'r> {
    /// Copies into these columns, which have those types.
    pub(super) const fn new(columns: &'static str, types: &'static [Type]) -> Self {
        Self { columns, types, rows: Vec::new() }
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
        let copy = format!("COPY daftar.{} FROM STDIN BINARY", self.columns);
        let statement = transaction.prepare_cached(&copy).await?;
        let sink = transaction.copy_in(&statement).await?;
        let mut writer = Box::pin(BinaryCopyInWriter::new(sink, self.types));
        for row in self.rows.drain(..) {
            writer.as_mut().write_raw(values(&row)).await?;
        }
        writer.as_mut().finish().await?;
        Ok(())
    }
}

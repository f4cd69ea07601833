//! Rows on their way into a table: by COPY, or by a statement with one array per column.

use bytes::{BufMut as _, Bytes, BytesMut};
use deadpool_postgres::Transaction;
use futures_util::SinkExt as _;
use tokio_postgres::types::{IsNull, ToSql, Type};

use super::failure::{Failure, Meaning};

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

/// Size of the parts in which rows are sent, in bytes.
const PART_BYTES: usize = 64 * 1024;
/// The head of the binary format: its signature, no flags, no extension.
const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// In place of the length of a value: there is none.
const NULL: i32 = -1;
/// In place of the number of columns of a row: the end.
const END: i16 = -1;

/// A table that is filled.
pub(super) struct Table {
    /// Its name, and its columns in parentheses.
    columns: &'static str,
    types: &'static [Type],
    /// The rows in the binary format of COPY, in parts.
    parts: Vec<Bytes>,
    /// The last part.
    open: BytesMut,
}

impl Table {
    /// Copies into these columns, which have those types.
    pub(super) fn new(columns: &'static str, types: &'static [Type]) -> Self {
        Self { columns, types, parts: Vec::new(), open: BytesMut::new() }
    }

    /// Adds a row: a value for each column.
    ///
    /// # Errors
    /// If a value is not of the type of its column; the table cannot be used then.
    pub(super) fn add(&mut self, row: &[&(dyn ToSql + Sync)]) -> Result<(), Failure> {
        let refused = |error: &dyn std::fmt::Display| {
            Failure::new(Meaning::Refused, format!("error serializing a row of {}: {error}", self.columns))
        };
        if row.len() != self.types.len() {
            return Err(refused(&"it has another number of columns"));
        }
        if self.open.is_empty() {
            if self.parts.is_empty() {
                self.open.put_slice(HEAD);
            } else {
                self.open.reserve(PART_BYTES.saturating_mul(2));
            }
        }
        self.open.put_i16(i16::try_from(row.len()).map_err(|error| refused(&error))?);
        for (value, column) in row.iter().zip(self.types) {
            let length_at = self.open.len();
            self.open.put_i32(NULL);
            let value_at = self.open.len();
            if matches!(value.to_sql_checked(column, &mut self.open).map_err(|error| refused(&error))?, IsNull::No) {
                let length = self.open.len().saturating_sub(value_at);
                let length = i32::try_from(length).map_err(|error| refused(&error))?.to_be_bytes();
                if let Some(place) = self.open.get_mut(length_at..value_at) {
                    place.copy_from_slice(&length);
                }
            }
        }
        if self.open.len() >= PART_BYTES {
            self.parts.push(self.open.split().freeze());
        }
        Ok(())
    }

    /// Copies the rows into the database.
    ///
    /// # Errors
    /// If the database fails or one of the rows is there already; the transaction cannot continue then.
    pub(super) async fn flush(&mut self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        if self.parts.is_empty() && self.open.is_empty() {
            return Ok(());
        }
        self.open.put_i16(END);
        self.parts.push(self.open.split().freeze());
        let copy = format!("COPY daftar.{} FROM STDIN BINARY", self.columns);
        let statement = transaction.prepare_cached(&copy).await?;
        let mut sink = Box::pin(transaction.copy_in(&statement).await?);
        for part in self.parts.drain(..) {
            sink.send(part).await?;
        }
        sink.as_mut().finish().await?;
        Ok(())
    }
}

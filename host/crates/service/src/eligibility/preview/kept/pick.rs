//! Some rows of a field, put together of the parts that hold them.

use std::ops::Range;

use super::super::super::layout::{Bitmap, bit, count};
use daftar_domain::eligibility::{Column, ColumnValues, RowSpace};
use daftar_domain::error::AppError;

/// The columns of one field: its values, or lists and then the values of their items.
pub(in super::super) struct Picked(Vec<Growing>);

/// A column that grows.
struct Growing {
    path: String,
    valid: Bitmap,
    values: ColumnValues,
}

impl Picked {
    /// No rows yet of a field whose parts have these columns.
    pub fn like(columns: &[Column]) -> Self {
        let empty = columns.iter().map(|column| Growing {
            path: column.path.clone(),
            valid: Bitmap::default(),
            values: empty(&column.values),
        });
        Self(empty.collect())
    }

    /// Adds neighbouring rows of a part.
    ///
    /// # Errors
    /// When the part is of another form, which cannot be.
    pub fn add(&mut self, part: &[Column], rows: Range<usize>) -> Result<(), AppError> {
        let mut rows = rows;
        for (to, from) in self.0.iter_mut().zip(part) {
            for row in rows.clone() {
                to.valid.push(bit(&from.valid, row));
            }
            append(&mut to.values, &from.values, rows.clone())?;
            // What follows a column of lists is the column of their items.
            if let ColumnValues::Lists(offsets) = &from.values {
                rows = between(offsets, &rows)?;
            }
        }
        Ok(())
    }

    /// The columns, but for those that are there already.
    pub fn finish(self, space: RowSpace, columns: &mut Vec<Column>) {
        for Growing { path, valid, values } in self.0 {
            if !columns.iter().any(|known| known.space == space && known.path == path) {
                columns.push(Column { space, path, valid: valid.finish(), values });
            }
        }
    }
}

fn empty(like: &ColumnValues) -> ColumnValues {
    match like {
        ColumnValues::Booleans(_) => ColumnValues::Booleans(Vec::new()),
        ColumnValues::Integers(_) => ColumnValues::Integers(Vec::new()),
        ColumnValues::Numbers(_) => ColumnValues::Numbers(Vec::new()),
        ColumnValues::Days(_) => ColumnValues::Days(Vec::new()),
        ColumnValues::Codes(_) => ColumnValues::Codes(Vec::new()),
        ColumnValues::Texts { .. } => ColumnValues::Texts { offsets: vec![0], bytes: Vec::new() },
        ColumnValues::Lists(_) => ColumnValues::Lists(vec![0]),
    }
}

fn append(to: &mut ColumnValues, from: &ColumnValues, rows: Range<usize>) -> Result<(), AppError> {
    match (to, from) {
        (ColumnValues::Booleans(to), ColumnValues::Booleans(from)) => to.extend_from_slice(some(from, rows)?),
        (ColumnValues::Integers(to), ColumnValues::Integers(from)) => to.extend_from_slice(some(from, rows)?),
        (ColumnValues::Numbers(to), ColumnValues::Numbers(from)) => to.extend_from_slice(some(from, rows)?),
        (ColumnValues::Days(to), ColumnValues::Days(from)) => to.extend_from_slice(some(from, rows)?),
        (ColumnValues::Codes(to), ColumnValues::Codes(from)) => to.extend_from_slice(some(from, rows)?),
        (ColumnValues::Texts { offsets, bytes }, ColumnValues::Texts { offsets: from_offsets, bytes: from_bytes }) => {
            bytes.extend_from_slice(some(from_bytes, between(from_offsets, &rows)?)?);
            append_offsets(offsets, from_offsets, &rows)?;
        }
        (ColumnValues::Lists(to), ColumnValues::Lists(from)) => append_offsets(to, from, &rows)?,
        (_, _) => return Err(AppError::internal("parts of a field have several forms")),
    }
    Ok(())
}

fn append_offsets(to: &mut Vec<u32>, from: &[u32], rows: &Range<usize>) -> Result<(), AppError> {
    let begin = count(between(from, rows)?.start)?;
    let base = to.last().copied().unwrap_or_default();
    let ends = some(from, rows.start.saturating_add(1)..rows.end.saturating_add(1))?;
    to.extend(ends.iter().map(|end| base.saturating_add(end.saturating_sub(begin))));
    Ok(())
}

/// What lies between the beginning of the first of some rows and the end of the last.
fn between(offsets: &[u32], rows: &Range<usize>) -> Result<Range<usize>, AppError> {
    let ends = offsets.get(rows.start).zip(offsets.get(rows.end));
    ends.map(|(start, end)| *start as usize..*end as usize).ok_or_else(too_short)
}

fn some<T>(values: &[T], range: Range<usize>) -> Result<&[T], AppError> {
    values.get(range).ok_or_else(too_short)
}

fn too_short() -> AppError {
    AppError::internal("a part of a field is shorter than its rows")
}

//! Values of chosen individuals, laid out as the eligibility engine reads them.

use super::chunk::{self, CODE_COLUMNS, Cell, Cells, Chunk};
use super::groups::Groups;
use super::individuals::Individuals;
use crate::domain::eligibility::ColumnValues;

/// Which of the gathered rows have a value, lowest bit first (empty: all have), and the values.
pub type Gathered = (Vec<u8>, ColumnValues);

/// The values of one field for these rows, in their order; absent where there is no column of that path.
pub(super) fn gather(individuals: &Individuals, path: &str, rows: &[u32]) -> Option<Gathered> {
    match path {
        "birth_date" => {
            let (valid, days) = cells(individuals, rows, 0, |chunk| chunk.birth_date.cells());
            Some((valid, ColumnValues::Days(days)))
        }
        "deceased_date" => {
            let (valid, days) = cells(individuals, rows, 0, |chunk| &chunk.deceased_date);
            Some((valid, ColumnValues::Days(days)))
        }
        "birth_date_estimated" => {
            let (valid, booleans) = cells(individuals, rows, 0, |chunk| &chunk.birth_date_estimated);
            Some((valid, ColumnValues::Booleans(booleans)))
        }
        "active" => {
            let (valid, booleans) = cells(individuals, rows, 0, |chunk| &chunk.active);
            Some((valid, ColumnValues::Booleans(booleans)))
        }
        "income.amount" => {
            let (valid, numbers) = cells(individuals, rows, 0.0, |chunk| &chunk.income_amount);
            Some((valid, ColumnValues::Numbers(numbers)))
        }
        coded => {
            let column = CODE_COLUMNS.into_iter().position(|field| field.path() == coded)?;
            let (valid, codes) = cells(individuals, rows, 0, |chunk| chunk.code_column(column));
            Some((valid, ColumnValues::Codes(codes)))
        }
    }
}

/// The same of groups.
pub(super) fn gather_groups(groups: &Groups, path: &str, rows: &[u32]) -> Option<Gathered> {
    let column = match path {
        "group_type" => &groups.group_types,
        "housing_type" => &groups.housing_types,
        _ => return None,
    };
    let (valid, codes) = cells_of(rows, 0, |at| column.chunk(at));
    Some((valid, ColumnValues::Codes(codes)))
}

/// The cells of a column of individuals.
fn cells<T: Cell>(
    individuals: &Individuals,
    rows: &[u32],
    blank: T,
    column: impl Fn(&Chunk) -> &Cells<T>,
) -> (Vec<u8>, Vec<T>) {
    cells_of(rows, blank, |at| individuals.chunk(at).map_or(&[], |chunk| column(chunk).as_slice()))
}

/// The cells of the chunks that `column` gives with `blank` where there is no value, and the bitmap that says where there is one.
fn cells_of<'c, T: Cell + 'c>(rows: &[u32], blank: T, column: impl Fn(usize) -> &'c [T]) -> (Vec<u8>, Vec<T>) {
    let mut valid = vec![0_u8; rows.len().div_ceil(8)];
    let mut values = Vec::with_capacity(rows.len());
    let mut is_complete = true;
    let mut current: (Option<usize>, &[T]) = (None, &[]);
    for (rows, bits) in rows.chunks(8).zip(valid.iter_mut()) {
        for (bit, row) in rows.iter().enumerate() {
            let (at, slot) = chunk::split(*row);
            if current.0 != Some(at) {
                current = (Some(at), column(at));
            }
            match current.1.get(slot).filter(|cell| !cell.is_missing()) {
                Some(value) => {
                    *bits |= 1 << bit;
                    values.push(*value);
                }
                None => {
                    is_complete = false;
                    values.push(blank);
                }
            }
        }
    }
    (if is_complete { Vec::new() } else { valid }, values)
}

//! One column of many rows: values, and which of them are there.

use super::row::{Cell, Place, Row, add_items, cell};
use crate::eligibility::schema::LIST_MARK;
use daftar_domain::eligibility::{Column, ColumnValues, FieldType, Reference, Schema};
use daftar_domain::error::AppError;

/// Adds the columns of a reference that are not there yet.
///
/// # Errors
/// [`AppError::Internal`] when the schema does not have the field.
pub(in crate::eligibility) fn add_columns(
    schema: &Schema,
    reference: &Reference,
    rows: &[Row<'_>],
    columns: &mut Vec<Column>,
) -> Result<(), AppError> {
    let field = schema.fields.iter().find(|field| field.space == reference.space && field.path == reference.path);
    let Some(field) = field else {
        return Err(AppError::internal(format!(
            "the engine refers to `{}`, which is not in the schema",
            reference.path
        )));
    };
    let mut add = |path: &str, valid: Vec<u8>, values| {
        let is_there = columns.iter().any(|column| column.space == reference.space && column.path == path);
        if !is_there {
            columns.push(Column { space: reference.space, path: path.to_owned(), valid, values });
        }
    };
    let path = reference.path.as_str();
    let place = |path| {
        let place = Place::of(schema.subject, reference.space, path);
        place.ok_or_else(|| AppError::internal(format!("the schema has `{path}`, which no record has")))
    };
    if let Some((list, _)) = path.split_once(LIST_MARK) {
        let (offsets, valid, items) = list_rows(place(list)?, rows)?;
        add(list, valid, ColumnValues::Lists(offsets));
        let (valid, values) = values(field.kind, place(path)?, &items)?;
        add(path, valid, values);
    } else if field.is_repeated {
        let list = place(path)?;
        let (offsets, valid, items) = list_rows(list, rows)?;
        add(path, valid, ColumnValues::Lists(offsets));
        if let Some(item) = list.items().filter(|_| field.kind != FieldType::Structure) {
            let (valid, values) = values(field.kind, item, &items)?;
            add(&format!("{path}[]"), valid, values);
        }
    } else {
        let (valid, values) = values(field.kind, place(path)?, rows)?;
        add(path, valid, values);
    }
    Ok(())
}

type ListRows<'a> = (Vec<u32>, Vec<u8>, Vec<Row<'a>>);

fn list_rows<'a>(place: Place<'_>, rows: &[Row<'a>]) -> Result<ListRows<'a>, AppError> {
    let mut offsets = vec![0];
    let mut valid = Bitmap::default();
    let mut items = Vec::new();
    for row in rows {
        valid.push(add_items(row, place, &mut items));
        offsets.push(count(items.len())?);
    }
    Ok((offsets, valid.finish(), items))
}

fn values(kind: FieldType, place: Place<'_>, rows: &[Row<'_>]) -> Result<(Vec<u8>, ColumnValues), AppError> {
    let mut valid = Bitmap::default();
    let mut booleans = Vec::new();
    let mut integers = Vec::new();
    let mut numbers = Vec::new();
    let mut days = Vec::new();
    let mut codes = Vec::new();
    let mut offsets = vec![0];
    let mut bytes: Vec<u8> = Vec::new();
    for row in rows {
        // A value of another type was written before a module changed its field: a missing fact to the rule.
        let cell = cell(row, place).filter(|cell| cell.is_of(kind));
        valid.push(cell.is_some());
        match kind {
            FieldType::Boolean => booleans.push(matches!(cell, Some(Cell::Boolean(true))).into()),
            FieldType::Number => numbers.push(if let Some(Cell::Number(number)) = cell { number } else { 0.0 }),
            FieldType::Date => days.push(if let Some(Cell::Day(day)) = cell { day } else { 0 }),
            FieldType::Coded => codes.push(if let Some(Cell::Code(code)) = cell { code.0 } else { 0 }),
            FieldType::Text => {
                if let Some(Cell::Text(text)) = cell {
                    bytes.extend_from_slice(text.as_bytes());
                }
                offsets.push(count(bytes.len())?);
            }
            FieldType::Integer => integers.push(if let Some(Cell::Integer(number)) = cell { number } else { 0 }),
            FieldType::Structure => integers.push(0),
        }
    }
    let values = match kind {
        FieldType::Boolean => ColumnValues::Booleans(booleans),
        FieldType::Number => ColumnValues::Numbers(numbers),
        FieldType::Date => ColumnValues::Days(days),
        FieldType::Coded => ColumnValues::Codes(codes),
        FieldType::Text => ColumnValues::Texts { offsets, bytes },
        FieldType::Integer | FieldType::Structure => ColumnValues::Integers(integers),
    };
    Ok((valid.finish(), values))
}

/// A number of rows as columns hold it.
pub(in crate::eligibility) fn count(rows: usize) -> Result<u32, AppError> {
    u32::try_from(rows).map_err(|_| AppError::internal("a batch has more than 2^32 rows"))
}

/// Whether a row has a value.
pub(in crate::eligibility) fn bit(bitmap: &[u8], row: usize) -> bool {
    bitmap.is_empty() || bitmap.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
}

/// Bits by row, the lowest first.
#[derive(Default)]
pub(in crate::eligibility) struct Bitmap {
    bytes: Vec<u8>,
    rows: usize,
    is_full: Option<bool>,
}

impl Bitmap {
    pub(in crate::eligibility) fn push(&mut self, is_set: bool) {
        if self.rows.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(is_set) << (self.rows % 8);
        }
        self.rows += 1;
        self.is_full = Some(self.is_full.unwrap_or(true) && is_set);
    }

    /// The bits; empty where every one is set, as the interface has it.
    pub(in crate::eligibility) fn finish(self) -> Vec<u8> {
        if self.is_full.unwrap_or(true) { Vec::new() } else { self.bytes }
    }
}

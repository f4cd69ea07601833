//! Validation of a batch before it is used.
//!
//! **Invariant:** messages about a batch name columns, never a value in them.

use super::{Bitmap, CheckedColumn, CheckedValues, Columns, Rows};
use crate::batch::{Batch, Children, Column, ColumnValues};
use crate::bind::Bindings;
use crate::calendar::Day;
use crate::limits::{CHILD_ROWS_MAX, COLUMN_TEXT_BYTES_MAX, ROWS_MAX};
use crate::plan::{ColumnPlan, Plan, Shape};
use crate::schema::{FieldType, Space};
use crate::tree::Domain;

/// The reason why a batch cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchFault {
    /// The batch lacks a column that the rule reads, with its space and path.
    MissingColumn(String),
    /// The batch is inconsistent or contradicts the schema, with the reason.
    Malformed(String),
}

/// Validates a batch and sorts its columns in the order of the plan.
///
/// # Errors
///
/// The first inconsistency found.
pub fn validate(batch: Batch, plan: &Plan, bindings: &Bindings) -> Result<Columns, BatchFault> {
    let Batch { as_of, rows, members, programs, columns } = batch;
    if rows as usize > ROWS_MAX {
        return malformed(format!("the batch has {rows} subjects; at most {ROWS_MAX} are accepted"));
    }
    let members = children(members, Space::Members, rows, plan)?;
    let programs = children(programs, Space::Programs, rows, plan)?;
    let mut validator =
        Validator { rows, members, programs, sent: columns.into_iter().map(Some).collect(), checked: Vec::new() };
    for column in plan.columns() {
        let checked = validator.column(column, plan, bindings)?;
        validator.checked.push(checked);
    }
    if let Some(column) = validator.sent.iter().flatten().next() {
        let name = format!("{}.{}", column.space.root(), column.path);
        return malformed(format!(
            "the batch has a column `{name}` too many; the rule does not read it or has it already"
        ));
    }
    let Validator { members, programs, checked, .. } = validator;
    Ok(Columns { rows, as_of, today: Day::from_number(as_of), members, programs, columns: checked })
}

fn malformed<T>(sentence: String) -> Result<T, BatchFault> {
    Err(BatchFault::Malformed(sentence))
}

fn children(sent: Option<Children>, space: Space, rows: u32, plan: &Plan) -> Result<Option<Rows>, BatchFault> {
    let name = space.root();
    let Children { offsets, known } = match (sent, plan.reads_rows_of(space)) {
        (None, false) => return Ok(None),
        (None, true) => return Err(BatchFault::MissingColumn(name.to_owned())),
        (Some(_), false) => return malformed(format!("the batch has `{name}`, which the rule does not read")),
        (Some(children), true) => children,
    };
    check_offsets(&offsets, rows, CHILD_ROWS_MAX, name)?;
    Ok(Some(Rows { offsets, known: bitmap(known, rows, name)? }))
}

struct Validator {
    rows: u32,
    members: Option<Rows>,
    programs: Option<Rows>,
    /// The received columns that are not assigned to the plan yet.
    sent: Vec<Option<Column>>,
    checked: Vec<CheckedColumn>,
}

impl Validator {
    fn column(&mut self, wanted: &ColumnPlan, plan: &Plan, bindings: &Bindings) -> Result<CheckedColumn, BatchFault> {
        let name = wanted.name();
        let is_wanted = |sent: &Option<Column>| {
            sent.as_ref().is_some_and(|column| column.space == wanted.space && column.path == wanted.path)
        };
        let found = self.sent.iter_mut().find(|sent| is_wanted(sent)).and_then(Option::take);
        let Some(column) = found else { return Err(BatchFault::MissingColumn(name)) };
        let rows = self.rows_of(wanted.domain, &name)?;
        let valid = bitmap(column.valid, rows, &name)?;
        let values = values(column.values, wanted.shape, rows, &valid, &name)?;
        let needs_texts = plan.references().get(wanted.reference).is_some_and(|reference| reference.needs_texts);
        if let (CheckedValues::Codes(codes), true) = (&values, needs_texts) {
            let codes = (0..).zip(codes).filter(|(row, _)| valid.has(*row));
            if codes.into_iter().any(|(_, code)| bindings.texts(*code).is_none()) {
                return malformed(format!("the column `{name}` holds a code whose texts were not bound"));
            }
        }
        Ok(CheckedColumn { valid, values, missing: wanted.missing() })
    }

    /// The number of rows of a column of that domain.
    fn rows_of(&self, domain: Domain, name: &str) -> Result<u32, BatchFault> {
        let last = |rows: &Option<Rows>| rows.as_ref().and_then(|rows| rows.offsets.last().copied());
        let rows = match domain {
            Domain::Space(Space::Me) => Some(self.rows),
            Domain::Space(Space::Members) => last(&self.members),
            Domain::Space(Space::Programs) => last(&self.programs),
            Domain::Items(list) => match self.checked.get(list).map(|column| &column.values) {
                Some(CheckedValues::Lists(offsets)) => offsets.last().copied(),
                _ => None,
            },
        };
        rows.map_or_else(|| malformed(format!("nothing says which rows the column `{name}` has")), Ok)
    }
}

fn values(
    values: ColumnValues,
    shape: Shape,
    rows: u32,
    valid: &Bitmap,
    name: &str,
) -> Result<CheckedValues, BatchFault> {
    let is_valid = |index: usize| u32::try_from(index).is_ok_and(|row| valid.has(row));
    match (shape, values) {
        (Shape::Value(FieldType::Boolean), ColumnValues::Booleans(values)) => {
            check_length(values.len(), rows, name)?;
            // If all values are valid, one branchless pass is enough.
            let is_doubtful = values.iter().fold(false, |any, value| any | (*value > 1));
            if is_doubtful && values.iter().enumerate().any(|(index, value)| *value > 1 && is_valid(index)) {
                return malformed(format!("the column `{name}` holds a truth that is neither 0 nor 1"));
            }
            Ok(CheckedValues::Booleans(values))
        }
        (Shape::Value(FieldType::Integer), ColumnValues::Integers(values)) => {
            check_length(values.len(), rows, name)?;
            Ok(CheckedValues::Integers(values))
        }
        (Shape::Value(FieldType::Number), ColumnValues::Numbers(values)) => {
            check_length(values.len(), rows, name)?;
            let is_doubtful = values.iter().fold(false, |any, value| any | value.is_nan());
            if is_doubtful && values.iter().enumerate().any(|(index, value)| value.is_nan() && is_valid(index)) {
                return malformed(format!("the column `{name}` holds a value that is not a number"));
            }
            Ok(CheckedValues::Numbers(values))
        }
        (Shape::Value(FieldType::Date), ColumnValues::Days(values)) => {
            check_length(values.len(), rows, name)?;
            Ok(CheckedValues::Days(values))
        }
        (Shape::Value(FieldType::Coded), ColumnValues::Codes(values)) => {
            check_length(values.len(), rows, name)?;
            Ok(CheckedValues::Codes(values))
        }
        (Shape::Value(FieldType::Text), ColumnValues::Texts { offsets, bytes }) => {
            check_offsets(&offsets, rows, COLUMN_TEXT_BYTES_MAX, name)?;
            texts(offsets, bytes, name)
        }
        (Shape::List, ColumnValues::Lists(offsets)) => {
            check_offsets(&offsets, rows, CHILD_ROWS_MAX, name)?;
            Ok(CheckedValues::Lists(offsets))
        }
        (shape, _) => malformed(format!("the column `{name}` does not hold {}", shape_name(shape))),
    }
}

fn texts(offsets: Vec<u32>, bytes: Vec<u8>, name: &str) -> Result<CheckedValues, BatchFault> {
    if offsets.last().copied().unwrap_or(0) as usize != bytes.len() {
        return malformed(format!("the offsets of `{name}` do not end with its bytes"));
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return malformed(format!("the column `{name}` holds bytes that are not UTF-8"));
    };
    if offsets.iter().any(|offset| !text.is_char_boundary(*offset as usize)) {
        return malformed(format!("an offset of `{name}` stands within a character"));
    }
    Ok(CheckedValues::Texts { offsets, text })
}

fn bitmap(bits: Vec<u8>, rows: u32, name: &str) -> Result<Bitmap, BatchFault> {
    let wanted = (rows as usize).div_ceil(8);
    if !bits.is_empty() && bits.len() != wanted {
        return malformed(format!("the bitmap of `{name}` has {} bytes, not {wanted} for {rows} rows", bits.len()));
    }
    Ok(Bitmap(bits))
}

fn check_length(values: usize, rows: u32, name: &str) -> Result<(), BatchFault> {
    if values == rows as usize { Ok(()) } else { malformed(format!("`{name}` has {values} values for {rows} rows")) }
}

fn check_offsets(offsets: &[u32], owners: u32, last_max: usize, name: &str) -> Result<(), BatchFault> {
    if offsets.len() != owners as usize + 1 {
        return malformed(format!("`{name}` has {} offsets for {owners} rows, not one more", offsets.len()));
    }
    if offsets.first() != Some(&0) {
        return malformed(format!("the offsets of `{name}` do not begin with 0"));
    }
    if !offsets.is_sorted() {
        return malformed(format!("the offsets of `{name}` go backwards"));
    }
    if offsets.last().is_some_and(|last| *last as usize > last_max) {
        return malformed(format!("`{name}` is longer than the {last_max} that a batch may hold"));
    }
    Ok(())
}

fn shape_name(shape: Shape) -> &'static str {
    match shape {
        Shape::List | Shape::Value(FieldType::Structure) => "lists",
        Shape::Value(FieldType::Boolean) => "truths",
        Shape::Value(FieldType::Integer) => "whole numbers",
        Shape::Value(FieldType::Number) => "numbers with fractions",
        Shape::Value(FieldType::Text) => "texts",
        Shape::Value(FieldType::Date) => "days",
        Shape::Value(FieldType::Coded) => "codes",
    }
}

//! Lays the facts of many subjects out as the columns that a rule reads.

mod column;
mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub(super) use self::column::{Bitmap, add_columns, bit, count};
pub(super) use self::row::Row;
use super::facts::{Me, Members, PersonInHousehold, Programs, SubjectFacts};
use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::{Batch, Children, Column, ColumnValues, Reference, RowSpace, Schema};
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;

/// Makes the batch of some subjects: the columns referred to, and no others.
///
/// # Errors
/// [`AppError::Internal`] when the engine refers to a field that the schema does not have.
pub(super) fn batch(
    schema: &Schema,
    references: &[Reference],
    subjects: &[&SubjectFacts],
    as_of: i32,
) -> Result<Batch, AppError> {
    let me: Vec<Row<'_>> = subjects.iter().map(|subject| subject_row(subject)).collect();
    let reads_members = references.iter().any(|reference| reference.space == RowSpace::Members);
    let mut members = Vec::new();
    let children = children_of(subjects, &mut members)?;
    let reads_programs = references.iter().any(|reference| reference.space == RowSpace::Programs);
    let mut programs = Vec::new();
    let program_children = programs_of(subjects, &mut programs)?;
    let mut columns = Vec::new();
    // A reference without a path asks which rows there are, as `size(members)` does; the children say it.
    for reference in references.iter().filter(|reference| !reference.path.is_empty()) {
        let rows = match reference.space {
            RowSpace::Me => me.as_slice(),
            RowSpace::Members => members.as_slice(),
            RowSpace::Programs => programs.as_slice(),
        };
        add_columns(schema, reference, rows, &mut columns)?;
    }
    Ok(Batch {
        as_of,
        rows: count(subjects.len())?,
        members: reads_members.then_some(children),
        programs: reads_programs.then_some(program_children),
        columns,
    })
}

/// The numbers of all codes in the columns that need texts.
pub(super) fn codes_with_texts(references: &[Reference], batch: &Batch) -> BTreeSet<CodeNumber> {
    let mut numbers = BTreeSet::new();
    for reference in references.iter().filter(|reference| reference.needs_texts) {
        let items = format!("{}[]", reference.path);
        let of_reference = |column: &&Column| {
            column.space == reference.space && (column.path == reference.path || column.path == items)
        };
        for column in batch.columns.iter().filter(of_reference) {
            if let ColumnValues::Codes(codes) = &column.values {
                let valid = codes.iter().enumerate().filter(|(row, _)| bit(&column.valid, *row));
                numbers.extend(valid.map(|(_, code)| CodeNumber(*code)));
            }
        }
    }
    numbers
}

fn subject_row(subject: &SubjectFacts) -> Row<'_> {
    match &subject.me {
        Me::Person(person) => person_row(person),
        Me::StoredGroup(seen) => Row::of(&seen.record.details, None, &seen.fields),
        Me::InlineGroup(details) => Row::of(details, None, &FieldSet::All),
    }
}

fn person_row(person: &PersonInHousehold) -> Row<'_> {
    Row::of(person.person.details(), person.role, person.person.fields())
}

fn children_of<'a>(subjects: &[&'a SubjectFacts], rows: &mut Vec<Row<'a>>) -> Result<Children, AppError> {
    let mut offsets = vec![0];
    let mut known = Bitmap::default();
    for subject in subjects {
        match &subject.members {
            Members::Known(members) => {
                rows.extend(members.iter().map(person_row));
                known.push(true);
            }
            Members::Unknown => known.push(false),
        }
        offsets.push(count(rows.len())?);
    }
    Ok(Children { offsets, known: known.finish() })
}

fn programs_of<'a>(subjects: &[&'a SubjectFacts], rows: &mut Vec<Row<'a>>) -> Result<Children, AppError> {
    let mut offsets = vec![0];
    let mut known = Bitmap::default();
    for subject in subjects {
        match &subject.programs {
            Programs::Known(memberships) => {
                rows.extend(memberships.iter().map(Row::Membership));
                known.push(true);
            }
            Programs::Unknown => known.push(false),
        }
        offsets.push(count(rows.len())?);
    }
    Ok(Children { offsets, known: known.finish() })
}

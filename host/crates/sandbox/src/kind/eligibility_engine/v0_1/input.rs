//! The input of an eligibility engine of interface version 0.1.0: schemas, bindings and batches.
//!
//! Columns are borrowed, not copied: this module builds lists of slices.

use super::super::generated::daftar::plugin::columns as wire_columns;
use super::super::generated::daftar::plugin::schema as wire_schema;
use super::super::generated::daftar::plugin::schema::{
    FieldType as WireType, RowSpace as WireSpace, Subject as WireSubject,
};
use super::super::generated::exports::daftar::plugin::eligibility as wire;
use crate::sandbox::CallError;
use crate::wit::same;
use daftar_domain::eligibility::{
    Answer, Batch, Bindings, Children, Column, ColumnValues, Field, FieldType, RowSpace, Schema, Subject, Truth,
};

/// Runs `call` with the schema in wire types.
pub(super) fn with_schema<R>(schema: &Schema, call: impl FnOnce(wire_schema::RegistrySchema<'_>) -> R) -> R {
    let vocabularies: Vec<Vec<&str>> =
        schema.fields.iter().map(|field| field.vocabularies.iter().map(String::as_str).collect()).collect();
    let fields: Vec<_> =
        schema.fields.iter().zip(&vocabularies).map(|(field, vocabularies)| wire_field(field, vocabularies)).collect();
    call(wire_schema::RegistrySchema {
        version: &schema.version,
        subject: same!(schema.subject, Subject => WireSubject { Individual, Group }),
        fields: &fields,
    })
}

/// The size of bindings, in bytes.
pub(super) fn bindings_bytes(bindings: &Bindings) -> usize {
    let answers_bytes = bindings.answers.iter().map(|answer| match answer {
        Answer::Truths { truths, missing } => truths.len() + missing.as_ref().map_or(0, String::len),
        Answer::Number(_) => size_of::<u32>(),
    });
    let texts_bytes = bindings.texts.iter().map(|texts| texts.namespace.len() + texts.code.len() + texts.display.len());
    answers_bytes.chain(texts_bytes).sum()
}

/// Runs `call` with the bindings in wire types.
pub(super) fn with_bindings<R>(
    bindings: &Bindings,
    call: impl FnOnce(wire::Bindings<'_>) -> Result<R, CallError>,
) -> Result<R, CallError> {
    let truths: Vec<Vec<u8>> = bindings.answers.iter().map(truth_bytes).collect();
    let answers: Vec<_> = bindings
        .answers
        .iter()
        .zip(&truths)
        .map(|(answer, truths)| match answer {
            Answer::Truths { missing, .. } => {
                wire::Answer::Truths(wire::TruthTable { truths, missing: missing.as_deref() })
            }
            Answer::Number(number) => wire::Answer::Number(number.0),
        })
        .collect();
    let texts: Vec<_> = bindings
        .texts
        .iter()
        .map(|texts| wire::CodeTexts {
            number: texts.number.0,
            namespace: &texts.namespace,
            code: &texts.code,
            display: &texts.display,
        })
        .collect();
    call(wire::Bindings { answers: &answers, texts: &texts })
}

/// The size of a batch, in bytes.
pub(super) fn batch_bytes(batch: &Batch) -> usize {
    let children = [&batch.members, &batch.programs].into_iter().flatten();
    let children_bytes = children.map(|children| size_of_val(&*children.offsets) + children.known.len());
    let columns_bytes = batch.columns.iter().map(column_bytes);
    children_bytes.chain(columns_bytes).sum()
}

/// Runs `call` with the batch in wire types.
pub(super) fn with_batch<R>(
    batch: &Batch,
    call: impl FnOnce(wire_columns::Batch<'_>) -> Result<R, CallError>,
) -> Result<R, CallError> {
    let columns: Vec<_> = batch.columns.iter().map(wire_column).collect();
    call(wire_columns::Batch {
        as_of: batch.as_of,
        rows: batch.rows,
        members: batch.members.as_ref().map(wire_children),
        programs: batch.programs.as_ref().map(wire_children),
        columns: &columns,
    })
}

fn truth_bytes(answer: &Answer) -> Vec<u8> {
    match answer {
        Answer::Truths { truths, .. } => truths
            .iter()
            .map(|truth| match truth {
                Truth::No => 0,
                Truth::Yes => 1,
                Truth::Unknown => 2,
            })
            .collect(),
        Answer::Number(_) => Vec::new(),
    }
}

fn column_bytes(column: &Column) -> usize {
    let values = match &column.values {
        ColumnValues::Booleans(values) => size_of_val(&**values),
        ColumnValues::Integers(values) => size_of_val(&**values),
        ColumnValues::Numbers(values) => size_of_val(&**values),
        ColumnValues::Days(values) => size_of_val(&**values),
        ColumnValues::Codes(values) => size_of_val(&**values),
        ColumnValues::Texts { offsets, bytes } => size_of_val(&**offsets) + bytes.len(),
        ColumnValues::Lists(offsets) => size_of_val(&**offsets),
    };
    values + column.valid.len() + column.path.len()
}

fn wire_field<'a>(field: &'a Field, vocabularies: &'a [&'a str]) -> wire_schema::Field<'a> {
    wire_schema::Field {
        space: wire_space(field.space),
        path: &field.path,
        kind: same!(field.kind, FieldType => WireType { Boolean, Integer, Number, Text, Date, Coded, Structure }),
        repeated: field.is_repeated,
        vocabularies,
    }
}

fn wire_space(space: RowSpace) -> WireSpace {
    same!(space, RowSpace => WireSpace { Me, Members, Programs })
}

fn wire_children(children: &Children) -> wire_columns::Children<'_> {
    wire_columns::Children { offsets: &children.offsets, known: &children.known }
}

fn wire_column(column: &Column) -> wire_columns::Column<'_> {
    wire_columns::Column {
        space: wire_space(column.space),
        path: &column.path,
        valid: &column.valid,
        values: match &column.values {
            ColumnValues::Booleans(values) => wire_columns::ColumnValues::Booleans(values),
            ColumnValues::Integers(values) => wire_columns::ColumnValues::Integers(values),
            ColumnValues::Numbers(values) => wire_columns::ColumnValues::Numbers(values),
            ColumnValues::Days(values) => wire_columns::ColumnValues::Days(values),
            ColumnValues::Codes(values) => wire_columns::ColumnValues::Codes(values),
            ColumnValues::Texts { offsets, bytes } => {
                wire_columns::ColumnValues::Texts(wire_columns::TextValues { offsets, bytes })
            }
            ColumnValues::Lists(offsets) => wire_columns::ColumnValues::Lists(offsets),
        },
    }
}

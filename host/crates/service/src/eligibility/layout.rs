//! Converts the facts about many subjects to the columns that a rule reads.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::facts::{Me, MembershipFact, PersonInHousehold, SubjectFacts};
use super::schema::{LIST_MARK, ROLE_PATH, record_kind};
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::code::{CodeNumber, CodedValue};
use daftar_domain::eligibility::{
    Batch, Children, Column, ColumnValues, FieldType, Reference, RowSpace, Schema, Subject,
};
use daftar_domain::error::AppError;
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::field::{FieldSet, extension_key};
use daftar_domain::record::{Fields, RecordKind};
use daftar_domain::schema::{self, Field, Kind};
use daftar_domain::value::{Value, Values};
use daftar_domain::{group, individual};

/// Creates the batch of some subjects, with exactly the columns that the references name.
///
/// # Errors
/// [`AppError::Internal`] if the engine refers to a field that the schema does not have.
pub(super) fn batch(
    schema: &Schema,
    references: &[Reference],
    subjects: &[&SubjectFacts],
    as_of: i32,
) -> Result<Batch, AppError> {
    let me: Vec<Row<'_>> = subjects.iter().map(|subject| subject_row(subject)).collect();
    let reads_members = references.iter().any(|reference| reference.space == RowSpace::Members);
    let (of_members, members) = children(subjects, |subject| subject.members.as_ref(), person_row)?;
    let reads_programs = references.iter().any(|reference| reference.space == RowSpace::Programs);
    let (of_programs, programs) = children(subjects, |subject| subject.programs.as_ref(), Row::Membership)?;
    let mut columns = Vec::new();
    // A reference without a path reads only the number of rows, as `size(members)` does. The children contain it.
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
        members: reads_members.then_some(of_members),
        programs: reads_programs.then_some(of_programs),
        columns,
    })
}

/// Returns the numbers of all codes in the columns that require texts.
pub(super) fn codes_with_texts(references: &[Reference], batch: &Batch) -> BTreeSet<CodeNumber> {
    let mut numbers = BTreeSet::new();
    for reference in references.iter().filter(|reference| reference.needs_texts) {
        let items = format!("{}[]", reference.path);
        let of_reference = |column: &&Column| {
            column.space == reference.space && (column.path == reference.path || column.path == items)
        };
        for column in batch.columns.iter().filter(of_reference) {
            numbers.extend(codes_in(column));
        }
    }
    numbers
}

/// Returns the numbers of all codes in the columns.
pub(super) fn codes(batch: &Batch) -> BTreeSet<CodeNumber> {
    batch.columns.iter().flat_map(codes_in).collect()
}

fn codes_in(column: &Column) -> impl Iterator<Item = CodeNumber> {
    let codes: &[u32] = if let ColumnValues::Codes(codes) = &column.values { codes } else { &[] };
    let valid = codes.iter().enumerate().filter(|(row, _)| bit(&column.valid, *row));
    valid.map(|(_, code)| CodeNumber(*code))
}

fn subject_row(subject: &SubjectFacts) -> Row<'_> {
    match &subject.me {
        Me::Person(person) => person_row(person),
        Me::Group(group) => Row::of(group.details(), None, group.fields()),
    }
}

fn person_row(person: &PersonInHousehold) -> Row<'_> {
    Row::of(person.person.details(), person.role, person.person.fields())
}

/// Returns the child rows of each subject, and their offsets by subject. The children of a subject are unknown if `of`
/// returns `None`.
fn children<'a, T: 'a>(
    subjects: &[&'a SubjectFacts],
    of: impl Fn(&'a SubjectFacts) -> Option<&'a Vec<T>>,
    row: impl Fn(&'a T) -> Row<'a>,
) -> Result<(Children, Vec<Row<'a>>), AppError> {
    let (mut offsets, mut known, mut rows) = (vec![0], Bitmap::default(), Vec::new());
    for subject in subjects {
        let these = of(subject);
        known.push(these.is_some());
        rows.extend(these.into_iter().flatten().map(&row));
        offsets.push(count(rows.len())?);
    }
    Ok((Children { offsets, known: known.finish() }, rows))
}

/// Adds the columns of a reference, unless `columns` already contains them.
///
/// # Errors
/// [`AppError::Internal`] if the schema does not have the field.
pub(super) fn add_columns(
    schema: &Schema,
    reference: &Reference,
    rows: &[Row<'_>],
    columns: &mut Vec<Column>,
) -> Result<(), AppError> {
    let Some(field) = schema.field(reference) else {
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
    macro_rules! cells {
        ($of:ident) => {
            cells(place, rows, |cell| if let Cell::$of(value) = cell { Some(value) } else { None })
        };
        ($of:ident as $column:ident) => {{
            let (valid, values) = cells!($of);
            (valid, ColumnValues::$column(values))
        }};
    }
    Ok(match kind {
        FieldType::Boolean => cells!(Boolean as Booleans),
        FieldType::Integer => cells!(Integer as Integers),
        FieldType::Number => cells!(Number as Numbers),
        FieldType::Date => cells!(Day as Days),
        FieldType::Coded => cells!(Code as Codes),
        FieldType::Text => {
            let (valid, texts) = cells!(Text);
            let (mut offsets, mut bytes) = (vec![0], Vec::new());
            for text in texts {
                bytes.extend_from_slice(text.as_bytes());
                offsets.push(count(bytes.len())?);
            }
            (valid, ColumnValues::Texts { offsets, bytes })
        }
        FieldType::Structure => {
            let (valid, none) = cells(place, rows, |_| None);
            (valid, ColumnValues::Integers(none))
        }
    })
}

/// Returns the rows that have a value of the picked type, and the values. A value of another type was written before a
/// module changed its field; the rule reads it as a missing fact.
fn cells<'a, T: Default>(
    place: Place<'_>,
    rows: &[Row<'a>],
    pick: impl Fn(Cell<'a>) -> Option<T>,
) -> (Vec<u8>, Vec<T>) {
    let mut valid = Bitmap::default();
    let picked = rows.iter().map(|row| {
        let value = cell(row, place).and_then(&pick);
        valid.push(value.is_some());
        value.unwrap_or_default()
    });
    let values = picked.collect();
    (valid.finish(), values)
}

/// Converts a number of rows to the type of offsets.
pub(super) fn count(rows: usize) -> Result<u32, AppError> {
    u32::try_from(rows).map_err(|_| AppError::internal("a batch has more than 2^32 rows"))
}

/// Returns true if a row has a value. An empty bitmap has all bits set.
pub(super) fn bit(bitmap: &[u8], row: usize) -> bool {
    bitmap.is_empty() || bitmap.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
}

/// Bits by row, least significant bit first.
#[derive(Default)]
pub(super) struct Bitmap {
    bytes: Vec<u8>,
    rows: usize,
    is_full: Option<bool>,
}

impl Bitmap {
    pub fn push(&mut self, is_set: bool) {
        if self.rows.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(is_set) << (self.rows % 8);
        }
        self.rows += 1;
        self.is_full = Some(self.is_full.unwrap_or(true) && is_set);
    }

    /// Returns the bits; empty if all bits are set, as the plugin interface specifies.
    pub fn finish(self) -> Vec<u8> {
        if self.is_full.unwrap_or(true) { Vec::new() } else { self.bytes }
    }
}

/// One row of a space. A value that its fields do not permit is missing to the rule.
#[derive(Clone, Copy)]
pub(super) enum Row<'a> {
    /// An individual or a group, with the role of an individual in the household.
    Record { values: &'a Values, extension: &'a Extension, role: Option<CodedValue>, fields: &'a FieldSet },
    /// An item of a list.
    Item(&'a Value),
    /// An item of a list in a field that a module adds.
    Extended(&'a ExtensionValue),
    /// A membership in a program.
    Membership(&'a MembershipFact),
}

impl<'a> Row<'a> {
    pub fn of<T>(details: &'a Fields<T>, role: Option<CodedValue>, fields: &'a FieldSet) -> Self {
        Self::Record { values: &details.values, extension: &details.extension, role, fields }
    }
}

/// One value before it is added to a column.
#[derive(Clone, Copy)]
enum Cell<'a> {
    /// 0 or 1.
    Boolean(u8),
    Integer(i64),
    Number(f64),
    Text(&'a str),
    Day(i32),
    Code(u32),
}

/// Source of the values of a column, resolved from the path once per column.
#[derive(Clone, Copy)]
enum Place<'p> {
    /// The role in the household. The permissions on the household apply to it, not those on the individual.
    Role,
    /// Reference of the program of a membership.
    Program,
    /// A field of the record that defaults to `true` if it is not recorded.
    InUse(&'static Field),
    /// A field of the record or of an item.
    Field(&'static Field),
    /// A part of a structured field of the record, or of an item.
    Within(&'static Field, &'static Field),
    /// A field that a module adds: its path in the record, and its path below `extension`.
    Extension(&'p str, &'p str),
    /// The list item itself.
    Item(&'static Kind),
}

impl<'p> Place<'p> {
    /// Returns the source of a path in the rows of a space. For a path below a list, the source is relative to the
    /// items.
    fn of(subject: Subject, space: RowSpace, path: &'p str) -> Option<Self> {
        let kind = record_kind(subject, space);
        if kind == RecordKind::Individual && path == ROLE_PATH {
            return Some(Self::Role);
        }
        if let Some(below) = extension_key(path) {
            return Some(Self::Extension(path, below));
        }
        let fields = schema::fields(kind);
        if let Some((list, part)) = path.split_once(LIST_MARK) {
            let parts = schema::find(fields, list)?.kind.parts();
            let Some((part, within)) = part.split_once('.') else {
                return schema::find(parts, part).map(Self::Field);
            };
            let part = schema::find(parts, part)?;
            return schema::find(part.kind.parts(), within).map(|within| Self::Within(part, within));
        }
        if let Some((field, part)) = path.split_once('.') {
            let field = schema::find(fields, field)?;
            return schema::find(field.kind.parts(), part).map(|part| Self::Within(field, part));
        }
        let field = schema::find(fields, path)?;
        Some(match (kind, &field.kind) {
            (RecordKind::ProgramMembership, Kind::Reference(_)) => Self::Program,
            (RecordKind::Individual, _) if field.tag == individual::ACTIVE.tag() => Self::InUse(field),
            (RecordKind::Group, _) if field.tag == group::ACTIVE.tag() => Self::InUse(field),
            _ => Self::Field(field),
        })
    }

    /// Returns the source of the items if this source is a list.
    fn items(self) -> Option<Self> {
        match self {
            Self::Field(Field { kind: Kind::List { of, .. }, .. }) => Some(Self::Item(of)),
            Self::Extension(..) => Some(self),
            _ => None,
        }
    }

    /// Returns true if a rule may read this value in a record of which it may read `fields`.
    fn is_seen(self, fields: &FieldSet) -> bool {
        fields.is_all()
            || match self {
                Self::InUse(field) | Self::Field(field) | Self::Within(field, _) => fields.allows(field.name),
                Self::Extension(path, _) => fields.allows(path),
                Self::Role | Self::Program | Self::Item(_) => true,
            }
    }
}

impl<'a> Cell<'a> {
    fn of(value: &'a Value, kind: &'static Kind) -> Option<Self> {
        match (value, kind) {
            (Value::Boolean(value), _) => Some(Self::Boolean(u8::from(*value))),
            (Value::Integer(value), _) => Some(Self::Integer(*value)),
            (Value::Number(value), _) => Some(Self::Number(*value)),
            (Value::Text(value), _) => Some(Self::Text(value)),
            (Value::Date(value), _) => Some(Self::Day(days_since_epoch(*value))),
            (Value::Code(value), _) => Some(Self::Code(value.number.0)),
            (Value::Word(place), Kind::Word(words)) => words.get(usize::from(*place)).map(|word| Self::Text(word)),
            _ => None,
        }
    }

    fn of_module(value: &'a ExtensionValue) -> Self {
        match value {
            ExtensionValue::Boolean(value) => Self::Boolean(u8::from(*value)),
            ExtensionValue::Integer(value) => Self::Integer(*value),
            ExtensionValue::Number(value) => Self::Number(*value),
            ExtensionValue::Text(value) => Self::Text(value),
            ExtensionValue::Date(value) => Self::Day(days_since_epoch(*value)),
            ExtensionValue::Code(value) => Self::Code(value.number.0),
        }
    }
}

/// Returns the value of a row, or `None` if it is missing or hidden.
fn cell<'a>(row: &Row<'a>, place: Place<'_>) -> Option<Cell<'a>> {
    match *row {
        Row::Record { values, extension, role, fields } => {
            if !place.is_seen(fields) {
                return None;
            }
            match place {
                Place::Role => role.map(|role| Cell::Code(role.number.0)),
                Place::InUse(field) => {
                    let recorded = values.value(field.tag).and_then(|value| Cell::of(value, &field.kind));
                    recorded.or(Some(Cell::Boolean(1)))
                }
                Place::Field(field) => Cell::of(values.value(field.tag)?, &field.kind),
                Place::Within(field, part) => within(values, field, part),
                Place::Extension(_, path) => match extension.get(path)? {
                    ExtensionContent::One(value) => Some(Cell::of_module(value)),
                    ExtensionContent::Many(_) => None,
                },
                Place::Program | Place::Item(_) => None,
            }
        }
        Row::Item(value) => match (place, value) {
            (Place::Item(kind), value) => Cell::of(value, kind),
            (Place::Field(part), Value::Struct(parts)) => Cell::of(parts.value(part.tag)?, &part.kind),
            (Place::Within(field, part), Value::Struct(parts)) => within(parts, field, part),
            _ => None,
        },
        Row::Extended(value) => Some(Cell::of_module(value)),
        Row::Membership(fact) => match place {
            Place::Program => fact.program.as_deref().map(Cell::Text),
            Place::Field(field) => Cell::of(fact.values.value(field.tag)?, &field.kind),
            _ => None,
        },
    }
}

/// Returns the value of a part in a nested field.
fn within<'a>(values: &'a Values, field: &Field, part: &'static Field) -> Option<Cell<'a>> {
    match values.value(field.tag)? {
        Value::Struct(parts) => Cell::of(parts.value(part.tag)?, &part.kind),
        _ => None,
    }
}

/// Adds the items of a list in a row. Returns true if the list is recorded and the rule may read it.
fn add_items<'a>(row: &Row<'a>, place: Place<'_>, items: &mut Vec<Row<'a>>) -> bool {
    let Row::Record { values, extension, fields, .. } = *row else { return false };
    match place {
        _ if !place.is_seen(fields) => false,
        Place::Extension(_, path) => extension.get(path).is_some_and(|content| {
            items.extend(content.values().iter().map(Row::Extended));
            true
        }),
        Place::Field(field) => match values.value(field.tag) {
            Some(Value::List(list)) => {
                items.extend(list.iter().map(Row::Item));
                true
            }
            _ => false,
        },
        _ => false,
    }
}

//! Lays the facts of many subjects out as the columns that a rule reads.

use std::collections::BTreeSet;

use super::facts::{Me, Members, MembershipFact, PersonInHousehold, Programs, SubjectFacts};
use super::schema::ROLE_PATH;
use crate::domain::calendar::days_since_epoch;
use crate::domain::code::{CodeNumber, CodedValue};
use crate::domain::eligibility::{Batch, Children, Column, ColumnValues, FieldType, Reference, RowSpace, Schema};
use crate::domain::extension::{Extension, ExtensionContent, ExtensionValue};
use crate::domain::group::GroupDetails;
use crate::domain::individual::{Address, IncomePeriod, IndividualDetails};
use crate::domain::vocabulary::CodedField;
use crate::error::AppError;

/// One row of a space.
#[derive(Clone, Copy)]
enum Row<'a> {
    Person(&'a IndividualDetails, Option<CodedValue>),
    Group(&'a GroupDetails),
    Address(&'a Address),
    Code(CodedValue),
    Value(&'a ExtensionValue),
    Membership(&'a MembershipFact),
}

/// One value, before it has a column.
#[derive(Clone, Copy)]
enum Cell<'a> {
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(&'a str),
    Day(i32),
    Code(CodeNumber),
}

/// What the paths of fields begin with that modules add.
const EXTENSION_PREFIX: &str = "extension.";

impl Cell<'_> {
    fn is_of(self, kind: FieldType) -> bool {
        match self {
            Self::Boolean(_) => kind == FieldType::Boolean,
            Self::Integer(_) => kind == FieldType::Integer,
            Self::Number(_) => kind == FieldType::Number,
            Self::Text(_) => kind == FieldType::Text,
            Self::Day(_) => kind == FieldType::Date,
            Self::Code(_) => kind == FieldType::Coded,
        }
    }
}

fn extension_of<'a>(row: &Row<'a>) -> Option<&'a Extension> {
    match row {
        Row::Person(details, _) => Some(&details.extension),
        Row::Group(details) => Some(&details.extension),
        Row::Address(_) | Row::Code(_) | Row::Value(_) | Row::Membership(_) => None,
    }
}

fn extension_cell(value: &ExtensionValue) -> Cell<'_> {
    match value {
        ExtensionValue::Boolean(value) => Cell::Boolean(*value),
        ExtensionValue::Integer(value) => Cell::Integer(*value),
        ExtensionValue::Number(value) => Cell::Number(*value),
        ExtensionValue::Text(value) => Cell::Text(value),
        ExtensionValue::Date(value) => Cell::Day(days_since_epoch(*value)),
        ExtensionValue::Code(value) => Cell::Code(value.number),
    }
}

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
        Me::StoredGroup(group) => Row::Group(&group.details),
        Me::InlineGroup(details) => Row::Group(details),
    }
}

fn person_row(person: &PersonInHousehold) -> Row<'_> {
    Row::Person(person.person.details(), person.role)
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

fn add_columns(
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
    if let Some((list, part)) = reference.path.split_once("[].") {
        let (offsets, valid, items) = list_rows(list, rows)?;
        add(list, valid, ColumnValues::Lists(offsets));
        let (valid, values) = values(field.kind, part, &items)?;
        add(&reference.path, valid, values);
    } else if field.is_repeated {
        let (offsets, valid, items) = list_rows(&reference.path, rows)?;
        add(&reference.path, valid, ColumnValues::Lists(offsets));
        if field.kind != FieldType::Structure {
            let (valid, values) = values(field.kind, "", &items)?;
            add(&format!("{}[]", reference.path), valid, values);
        }
    } else {
        let (valid, values) = values(field.kind, &reference.path, rows)?;
        add(&reference.path, valid, values);
    }
    Ok(())
}

type ListRows<'a> = (Vec<u32>, Vec<u8>, Vec<Row<'a>>);

fn list_rows<'a>(path: &str, rows: &[Row<'a>]) -> Result<ListRows<'a>, AppError> {
    let mut offsets = vec![0];
    let mut valid = Bitmap::default();
    let mut items = Vec::new();
    for row in rows {
        let before = items.len();
        let extension = path.strip_prefix(EXTENSION_PREFIX);
        let is_recorded = match row {
            Row::Person(..) | Row::Group(_) if let Some(path) = extension => {
                let content = extension_of(row).and_then(|extension| extension.get(path));
                items.extend(content.into_iter().flat_map(|content| content.values()).map(Row::Value));
                content.is_some()
            }
            Row::Person(details, _) if path == "address" => details.address.as_ref().is_some_and(|addresses| {
                items.extend(addresses.iter().map(Row::Address));
                true
            }),
            Row::Person(details, _) => {
                let field = CodedField::individual_lists().find(|field| field.path() == path);
                field.and_then(|field| details.code_list(field)).is_some_and(|codes| {
                    items.extend(codes.iter().map(|code| Row::Code(*code)));
                    true
                })
            }
            Row::Group(_) | Row::Address(_) | Row::Code(_) | Row::Value(_) | Row::Membership(_) => false,
        };
        debug_assert!(is_recorded || items.len() == before);
        valid.push(is_recorded);
        offsets.push(count(items.len())?);
    }
    Ok((offsets, valid.finish(), items))
}

fn values(kind: FieldType, path: &str, rows: &[Row<'_>]) -> Result<(Vec<u8>, ColumnValues), AppError> {
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
        let cell = cell(*row, path).filter(|cell| cell.is_of(kind));
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

fn cell<'a>(row: Row<'a>, path: &str) -> Option<Cell<'a>> {
    let text = |text: &'a Option<String>| text.as_deref().map(Cell::Text);
    let code = |value: Option<CodedValue>| value.map(|value| Cell::Code(value.number));
    match row {
        Row::Code(value) => code(Some(value)),
        Row::Value(value) => Some(extension_cell(value)),
        Row::Person(..) | Row::Group(_) if let Some(path) = path.strip_prefix(EXTENSION_PREFIX) => {
            match extension_of(&row)?.get(path)? {
                ExtensionContent::One(value) => Some(extension_cell(value)),
                ExtensionContent::Many(_) => None,
            }
        }
        Row::Membership(fact) => match path {
            "program" => Some(Cell::Text(&fact.program)),
            "status" => fact.status.map(|status| Cell::Text(status.name())),
            "enrollment_date" => fact.enrollment_date.map(|day| Cell::Day(days_since_epoch(day))),
            "exit_date" => fact.exit_date.map(|day| Cell::Day(days_since_epoch(day))),
            "exit_reason" => text(&fact.exit_reason),
            _ => None,
        },
        Row::Group(details) => match path {
            "active" => Some(Cell::Boolean(details.active.unwrap_or(true))),
            "name" => text(&details.name),
            "group_type" => code(details.group_type),
            "housing_type" => code(details.housing_type),
            _ => None,
        },
        Row::Address(address) => match path {
            "type" => text(&address.kind),
            "text" => text(&address.text),
            "city" => text(&address.city),
            "district" => text(&address.district),
            "region" => text(&address.region),
            "postal_code" => text(&address.postal_code),
            "country" => code(address.country),
            _ => None,
        },
        Row::Person(details, role) => match path {
            ROLE_PATH => code(role),
            "active" => Some(Cell::Boolean(details.active.unwrap_or(true))),
            "birth_date" => details.birth_date.map(|day| Cell::Day(days_since_epoch(day))),
            "birth_date_estimated" => details.birth_date_estimated.map(Cell::Boolean),
            "deceased_date" => details.deceased_date.map(|day| Cell::Day(days_since_epoch(day))),
            "income.amount" => details.income.map(|income| Cell::Number(income.amount)),
            "income.currency" => code(details.income.and_then(|income| income.currency)),
            "income.period" => details.income.and_then(|income| income.period).map(|period| {
                Cell::Text(match period {
                    IncomePeriod::Month => "month",
                    IncomePeriod::Year => "year",
                })
            }),
            _ => match path.strip_prefix("name.") {
                Some(part) => name_part(details, part),
                None => {
                    let field = CodedField::individual_singles().find(|field| field.path() == path);
                    field.and_then(|field| code(details.code(field)))
                }
            },
        },
    }
}

fn name_part<'a>(details: &'a IndividualDetails, part: &str) -> Option<Cell<'a>> {
    let name = details.name.as_ref()?;
    let text = match part {
        "family" => &name.family,
        "given" => &name.given,
        "middle" => &name.middle,
        "prefix" => &name.prefix,
        "suffix" => &name.suffix,
        "text" => &name.text,
        _ => return None,
    };
    text.as_deref().map(Cell::Text)
}

fn count(rows: usize) -> Result<u32, AppError> {
    u32::try_from(rows).map_err(|_| AppError::internal("a batch has more than 2^32 rows"))
}

fn bit(bitmap: &[u8], row: usize) -> bool {
    bitmap.is_empty() || bitmap.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
}

/// Bits by row, the lowest first.
#[derive(Default)]
struct Bitmap {
    bytes: Vec<u8>,
    rows: usize,
    is_full: Option<bool>,
}

impl Bitmap {
    fn push(&mut self, is_set: bool) {
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
    fn finish(self) -> Vec<u8> {
        if self.is_full.unwrap_or(true) { Vec::new() } else { self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Person;
    use super::super::schema::schema;
    use super::*;
    use crate::domain::calendar::parse_date;
    use crate::domain::code::EditionNumber;
    use crate::domain::eligibility::Subject;
    use crate::domain::extension::ExtensionFields;
    use crate::domain::manifest::{ExtensionField, ExtensionFieldKind, ExtensionPath};

    fn coded(number: u32) -> CodedValue {
        CodedValue { number: CodeNumber(number), edition: EditionNumber(0) }
    }

    fn person(details: IndividualDetails, role: Option<u32>) -> PersonInHousehold {
        PersonInHousehold { person: Person::Inline(Box::new(details)), role: role.map(coded) }
    }

    fn reference(space: RowSpace, path: &str) -> Reference {
        Reference { space, path: path.to_owned(), needs_texts: true }
    }

    /// A field of every type and a list.
    fn declared() -> ExtensionFields {
        let mut fields = ExtensionFields::default();
        for (name, kind, repeated) in [
            ("is_member", ExtensionFieldKind::Boolean, false),
            ("plots", ExtensionFieldKind::Integer, false),
            ("area", ExtensionFieldKind::Number, false),
            ("note", ExtensionFieldKind::Text, false),
            ("since", ExtensionFieldKind::Date, false),
            ("crops", ExtensionFieldKind::Coded, true),
        ] {
            let vocabulary = (kind == ExtensionFieldKind::Coded).then(|| "urn:fao:agrovoc".to_owned());
            let path = ExtensionPath::parse(&format!("farmer.{name}")).unwrap();
            fields.add(ExtensionField { path, kind, repeated, vocabulary }).unwrap();
        }
        fields
    }

    #[test]
    fn lays_out_what_modules_add_and_takes_a_value_of_another_type_for_missing() {
        let field = |name: &str, content| (ExtensionPath::parse(&format!("farmer.{name}")).unwrap(), content);
        let farmer = |fields| IndividualDetails { extension: Extension::new(fields), ..IndividualDetails::default() };
        let crops = ExtensionContent::Many(vec![ExtensionValue::Code(coded(3)), ExtensionValue::Code(coded(4))]);
        let first = farmer(vec![
            field("crops", crops),
            field("plots", ExtensionContent::One(ExtensionValue::Integer(5))),
            field("note", ExtensionContent::One(ExtensionValue::Text("dry".into()))),
        ]);
        let second = farmer(vec![
            field("crops", ExtensionContent::Many(Vec::new())),
            field("plots", ExtensionContent::One(ExtensionValue::Text("many".into()))),
        ]);
        let subject = |details| SubjectFacts {
            me: Me::Person(person(details, None)),
            members: Members::Unknown,
            programs: Programs::Unknown,
        };
        let subjects = [subject(first), subject(second), subject(IndividualDetails::default())];
        let references =
            ["crops", "plots", "note"].map(|name| reference(RowSpace::Me, &format!("extension.farmer.{name}")));
        let subjects: Vec<&SubjectFacts> = subjects.iter().collect();
        let batch = batch(&schema(Subject::Individual, &declared()), &references, &subjects, 0).unwrap();
        let found = |path: &str| {
            let column = batch.columns.iter().find(|column| column.path == format!("extension.farmer.{path}")).unwrap();
            (column.valid.clone(), column.values.clone())
        };
        assert_eq!(found("crops"), (vec![0b011], ColumnValues::Lists(vec![0, 2, 2, 2])));
        assert_eq!(found("crops[]"), (vec![], ColumnValues::Codes(vec![3, 4])));
        assert_eq!(found("plots"), (vec![0b001], ColumnValues::Integers(vec![5, 0, 0])));
        let texts = ColumnValues::Texts { offsets: vec![0, 3, 3, 3], bytes: b"dry".to_vec() };
        assert_eq!(found("note"), (vec![0b001], texts));
    }

    #[test]
    fn lays_out_singles_lists_and_members_with_what_is_missing() {
        let born = IndividualDetails {
            birth_date: parse_date("1970-01-02").ok(),
            codes: vec![(CodedField::Gender, coded(7))],
            code_lists: vec![(CodedField::Languages, vec![coded(3), coded(4)])],
            ..IndividualDetails::default()
        };
        let unknown = IndividualDetails::default();
        let subjects = [
            SubjectFacts {
                me: Me::Person(person(born.clone(), Some(9))),
                members: Members::Known(vec![person(born, Some(9)), person(unknown.clone(), None)]),
                programs: Programs::Known(Vec::new()),
            },
            SubjectFacts {
                me: Me::Person(person(unknown, None)),
                members: Members::Unknown,
                programs: Programs::Unknown,
            },
        ];
        let references = [
            reference(RowSpace::Me, "birth_date"),
            reference(RowSpace::Me, "languages"),
            reference(RowSpace::Me, "role"),
            reference(RowSpace::Members, "gender"),
        ];
        let subjects: Vec<&SubjectFacts> = subjects.iter().collect();
        let batch =
            batch(&schema(Subject::Individual, &ExtensionFields::default()), &references, &subjects, 0).unwrap();
        assert_eq!(batch.members, Some(Children { offsets: vec![0, 2, 2], known: vec![0b01] }));
        let found = |space, path: &str| {
            let column = batch.columns.iter().find(|column| column.space == space && column.path == path).unwrap();
            (column.valid.clone(), column.values.clone())
        };
        assert_eq!(found(RowSpace::Me, "birth_date"), (vec![0b01], ColumnValues::Days(vec![1, 0])));
        assert_eq!(found(RowSpace::Me, "languages"), (vec![0b01], ColumnValues::Lists(vec![0, 2, 2])));
        assert_eq!(found(RowSpace::Me, "languages[]"), (vec![], ColumnValues::Codes(vec![3, 4])));
        assert_eq!(found(RowSpace::Me, "role"), (vec![0b01], ColumnValues::Codes(vec![9, 0])));
        assert_eq!(found(RowSpace::Members, "gender"), (vec![0b01], ColumnValues::Codes(vec![7, 0])));
        let numbers: Vec<u32> = codes_with_texts(&references, &batch).into_iter().map(|number| number.0).collect();
        assert_eq!(numbers, [3, 4, 7, 9]);
    }

    #[test]
    fn every_field_of_the_schema_has_a_column_of_its_type() {
        for subject in [Subject::Individual, Subject::Group] {
            let schema = schema(subject, &declared());
            for field in &schema.fields {
                let reference = reference(field.space, &field.path);
                let batch = batch(&schema, &[reference], &[], 0).unwrap();
                let path = if field.is_repeated && field.kind != FieldType::Structure {
                    format!("{}[]", field.path)
                } else {
                    field.path.clone()
                };
                let column = batch.columns.iter().find(|column| column.path == path).unwrap();
                let fits = match (&column.values, field.kind) {
                    (ColumnValues::Booleans(_), FieldType::Boolean)
                    | (ColumnValues::Integers(_), FieldType::Integer)
                    | (ColumnValues::Numbers(_), FieldType::Number)
                    | (ColumnValues::Days(_), FieldType::Date)
                    | (ColumnValues::Codes(_), FieldType::Coded)
                    | (ColumnValues::Texts { .. }, FieldType::Text)
                    | (ColumnValues::Lists(_), FieldType::Structure) => true,
                    (_, _) => false,
                };
                assert!(fits, "{}.{}", field.space.name(), field.path);
            }
        }
    }
}

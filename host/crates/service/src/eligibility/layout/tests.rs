//! Tests the conversion of facts to the columns that rules read.

use super::*;
use crate::eligibility::facts::Known;
use crate::eligibility::schema::schema;
use daftar_domain::calendar::{Period, parse_date};
use daftar_domain::code::{CodedValue, EditionNumber};
use daftar_domain::eligibility::{FieldType, Subject};
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionFields, ExtensionValue};
use daftar_domain::individual::{
    ADDRESS, BIRTH_DATE, GENDER, INCOME, INCOME_AMOUNT, INCOME_PERIOD, IncomePeriod, IndividualDetails, LANGUAGES,
    NAME, RELATIONSHIP,
};
use daftar_domain::manifest::{ExtensionField, ExtensionFieldKind, ExtensionPath};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::relationship::{RELATIONSHIP_PERIOD, RELATIONSHIP_TARGET, RELATIONSHIP_TYPE};
use daftar_domain::value::Values;
use daftar_domain::{address, person_name};

fn coded(number: u32) -> CodedValue {
    CodedValue { number: CodeNumber(number), edition: EditionNumber(0) }
}

fn person(details: IndividualDetails, role: Option<u32>) -> PersonInHousehold {
    PersonInHousehold { person: Known::Inline(Box::new(details)), role: role.map(coded) }
}

fn reference(space: RowSpace, path: &str) -> Reference {
    Reference { space, path: path.to_owned(), needs_texts: true, line: 1, column: 1, length: 1 }
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
fn an_engine_gets_the_columns_that_a_rule_reads_and_no_others() {
    let name = Values::default().with(person_name::FAMILY, "Diallo".to_owned());
    let details = IndividualDetails::default()
        .with(BIRTH_DATE, parse_date("1970-01-11").unwrap())
        .with(NAME, name)
        .with(GENDER, coded(3));
    let household = vec![person(details.clone(), Some(7))];
    let subject =
        SubjectFacts { me: Me::Person(person(details, None)), members: Some(household), programs: Some(Vec::new()) };
    let schema = schema(Subject::Individual, &ExtensionFields::default());
    let batch = batch(&schema, &[reference(RowSpace::Me, "birth_date")], &[&subject], 0).unwrap();
    let columns: Vec<&str> = batch.columns.iter().map(|column| column.path.as_str()).collect();
    assert_eq!(columns, ["birth_date"]);
    assert!(batch.members.is_none() && batch.programs.is_none(), "{batch:?}");
    let is_hidden = |path: &str| path.starts_with("identifier") || path.starts_with("photo");
    assert!(!schema.fields.iter().any(|field| is_hidden(&field.path)), "no rule can name these");
}

#[test]
fn lays_out_relationships_with_the_days_of_their_periods() {
    let day = |text: &str| parse_date(text).ok();
    let related = |kind: u32, period: Option<Period>| -> Values {
        let target = daftar_domain::value::Reference { kind: RecordKind::Individual, id: RecordId(7) };
        let values = Values::default().with(RELATIONSHIP_TARGET, target).with(RELATIONSHIP_TYPE, coded(kind));
        values.with(RELATIONSHIP_PERIOD, period)
    };
    let ended = Period { start: day("1970-01-02"), end: day("1970-01-11") };
    let first = IndividualDetails::default().with(
        RELATIONSHIP,
        vec![related(3, Some(ended)), related(4, None), related(5, Some(Period { end: None, ..ended }))],
    );
    let subject = |details| SubjectFacts { me: Me::Person(person(details, None)), members: None, programs: None };
    let subjects = [subject(first), subject(IndividualDetails::default())];
    let subjects: Vec<&SubjectFacts> = subjects.iter().collect();
    let schema = schema(Subject::Individual, &ExtensionFields::default());
    let references = ["relationship[].type", "relationship[].period.end"].map(|path| reference(RowSpace::Me, path));
    let batch = batch(&schema, &references, &subjects, 0).unwrap();
    let found = |path: &str| {
        let column = batch.columns.iter().find(|column| column.path == path).unwrap();
        (column.valid.clone(), column.values.clone())
    };
    assert_eq!(found("relationship"), (vec![0b01], ColumnValues::Lists(vec![0, 3, 3])));
    assert_eq!(found("relationship[].type"), (vec![], ColumnValues::Codes(vec![3, 4, 5])));
    assert_eq!(found("relationship[].period.end"), (vec![0b001], ColumnValues::Days(vec![10, 0, 0])));
    let of_relationship = |path: &&str| path.starts_with("relationship");
    let paths = schema.fields.iter().filter(|field| field.space == RowSpace::Me).map(|field| field.path.as_str());
    let expected = ["relationship", "relationship[].type", "relationship[].period.start", "relationship[].period.end"];
    assert_eq!(paths.filter(of_relationship).collect::<Vec<_>>(), expected, "who the other person is no rule reads");
}

#[test]
fn lays_out_extension_fields_and_treats_other_types_as_missing() {
    let field = |name: &str, content| (ExtensionPath::parse(&format!("farmer.{name}")).unwrap(), content);
    let farmer = |fields| IndividualDetails::new(Vec::new(), Values::default(), Extension::new(fields));
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
    let subject = |details| SubjectFacts { me: Me::Person(person(details, None)), members: None, programs: None };
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
fn lays_out_values_lists_and_members_with_missing_ones() {
    let born = IndividualDetails::default()
        .with(BIRTH_DATE, parse_date("1970-01-02").ok())
        .with(GENDER, coded(7))
        .with(LANGUAGES, vec![coded(3), coded(4)]);
    let unknown = IndividualDetails::default();
    let subjects = [
        SubjectFacts {
            me: Me::Person(person(born.clone(), Some(9))),
            members: Some(vec![person(born, Some(9)), person(unknown.clone(), None)]),
            programs: Some(Vec::new()),
        },
        SubjectFacts { me: Me::Person(person(unknown, None)), members: None, programs: None },
    ];
    let references = [
        reference(RowSpace::Me, "birth_date"),
        reference(RowSpace::Me, "languages"),
        reference(RowSpace::Me, "role"),
        reference(RowSpace::Members, "gender"),
    ];
    let subjects: Vec<&SubjectFacts> = subjects.iter().collect();
    let batch = batch(&schema(Subject::Individual, &ExtensionFields::default()), &references, &subjects, 0).unwrap();
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
fn lays_out_parts_with_a_default_for_absent_status() {
    let city = |name: &str| Values::default().with(address::CITY, name.to_owned());
    let known = IndividualDetails::default()
        .with(NAME, Values::default().with(person_name::FAMILY, "Diallo".to_owned()))
        .with(INCOME, Values::default().with(INCOME_AMOUNT, 12.5).with(INCOME_PERIOD, IncomePeriod::Year))
        .with(ADDRESS, vec![city("Kindia"), Values::default()]);
    let subject = |details| SubjectFacts { me: Me::Person(person(details, None)), members: None, programs: None };
    let subjects = [subject(known), subject(IndividualDetails::default())];
    let subjects: Vec<&SubjectFacts> = subjects.iter().collect();
    let references = ["name.family", "income.amount", "income.period", "address[].city", "active"];
    let references = references.map(|path| reference(RowSpace::Me, path));
    let batch = batch(&schema(Subject::Individual, &ExtensionFields::default()), &references, &subjects, 0).unwrap();
    let found = |path: &str| {
        let column = batch.columns.iter().find(|column| column.path == path).unwrap();
        (column.valid.clone(), column.values.clone())
    };
    let texts = |offsets, text: &str| ColumnValues::Texts { offsets, bytes: text.as_bytes().to_vec() };
    assert_eq!(found("name.family"), (vec![0b01], texts(vec![0, 6, 6], "Diallo")));
    assert_eq!(found("income.amount"), (vec![0b01], ColumnValues::Numbers(vec![12.5, 0.0])));
    assert_eq!(found("income.period"), (vec![0b01], texts(vec![0, 4, 4], "year")));
    assert_eq!(found("address"), (vec![0b01], ColumnValues::Lists(vec![0, 2, 2])));
    assert_eq!(found("address[].city"), (vec![0b01], texts(vec![0, 6, 6], "Kindia")));
    assert_eq!(found("active"), (vec![], ColumnValues::Booleans(vec![1, 1])));
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

mod limited;
mod property;
mod searches;
mod verified;

use std::sync::Arc;

use jiff::civil::Date;

use super::*;
use crate::testing::{code, identifier, key, member, record};
use daftar_domain::address;
use daftar_domain::change::Sequence;
use daftar_domain::code::{CodeNumber, CodedValue};
use daftar_domain::eligibility::ColumnValues;
use daftar_domain::extension::Extension;
use daftar_domain::field::FieldSet;
use daftar_domain::group::{self, GroupDetails, Member};
use daftar_domain::identifier::Identifier;
use daftar_domain::individual::{self, IndividualDetails};
use daftar_domain::person_name;
use daftar_domain::record::{Fields, Record, RecordId, RecordKind};
use daftar_domain::schema;
use daftar_domain::search::order::Window;
use daftar_domain::search::{
    CodeCondition, CodedPlace, DateCondition, DateOperator, Found, Page, Sorting, SubjectQuery, TextConditions,
};
use daftar_domain::subject::Subject;
use daftar_domain::value::Values;
use daftar_domain::vocabulary::CodedField;

const ALL: Page = Page { offset: 0, count: 100 };

fn day(text: &str) -> Date {
    text.parse().unwrap()
}

fn named(family: &str, given: &str) -> Values {
    Values::default().with(person_name::FAMILY, family.to_owned()).with(person_name::GIVEN, given.to_owned())
}

fn with_identifiers(texts: &[&str]) -> IndividualDetails {
    let identifiers = texts.iter().map(|text| identifier(text)).collect();
    IndividualDetails::new(identifiers, Values::default(), Extension::default())
}

fn with_members(members: Vec<Member>) -> GroupDetails {
    GroupDetails::default().with(group::MEMBER, members)
}

fn in_country(number: u32) -> Values {
    Values::default().with(address::COUNTRY, code(number))
}

fn born(conditions: Vec<DateCondition>) -> SubjectQuery {
    SubjectQuery { dates: [("birth_date", conditions)].into(), ..SubjectQuery::individuals() }
}

fn write_individual(columns: &Columns, id: u64, details: IndividualDetails) {
    columns.apply(&[Change { sequence: Sequence(0), record: ChangedRecord::Individual(record(id, details)) }]);
}

fn write_group(columns: &Columns, id: u64, details: GroupDetails) {
    columns.apply(&[Change { sequence: Sequence(0), record: ChangedRecord::Group(record(id, details)) }]);
}

fn by_name(words: &[&str]) -> SubjectQuery {
    let name_words = words.iter().map(|word| (*word).to_owned()).collect();
    let texts = TextConditions { name_words, ..TextConditions::default() };
    SubjectQuery { texts, ..SubjectQuery::individuals() }
}

fn search(snapshot: &Snapshot, query: &SubjectQuery, page: Page) -> Found {
    snapshot.search(query, SearchLimits::default(), Sorting::REGISTERED, &page.into())
}

fn found(snapshot: &Snapshot, query: &SubjectQuery) -> Vec<u64> {
    let found = search(snapshot, query, ALL);
    assert_eq!(found.total, found.ids.len() as u64);
    found.ids.into_iter().map(|id| id.0).collect()
}

#[test]
fn an_empty_register_returns_no_results() {
    let snapshot = Columns::default().snapshot();
    assert_eq!(search(&snapshot, &SubjectQuery::individuals(), ALL), Found::default());
    assert_eq!((snapshot.individual_count(), snapshot.group_count()), (0, 0));
    assert!(snapshot.groups_of(RecordId(1)).is_empty());
    assert_eq!(snapshot.records_using(&[CodeNumber(1)]), 0);
    assert_eq!(snapshot.gather("birth_date", &[0]), Some((vec![0], ColumnValues::Days(vec![0]))));
}

#[test]
fn a_snapshot_never_shows_later_writes() {
    let columns = Columns::default();
    let woman = with_identifiers(&["urn:a:b|1"])
        .with(individual::GENDER, code(2))
        .with(individual::NAME, named("Haile", "Abeba"))
        .with(individual::BIRTH_DATE, day("1990-01-01"));
    write_individual(&columns, 1, woman.clone());
    write_group(&columns, 1, with_members(vec![member(1, None)]));
    let before = columns.snapshot();
    assert!(Arc::ptr_eq(&before, &columns.snapshot()), "nothing was written, so nothing is copied");
    write_individual(&columns, 1, IndividualDetails::default());
    write_individual(&columns, 2, woman);
    write_group(&columns, 1, GroupDetails::default());
    let after = columns.snapshot();
    let queries = [
        by_name(&["abe"]),
        SubjectQuery { identifiers: vec![key("urn:a:b|1")], ..SubjectQuery::individuals() },
        SubjectQuery {
            codes: vec![CodeCondition { field: CodedPlace::Field(CodedField::Gender), any_of: vec![CodeNumber(2)] }],
            ..SubjectQuery::individuals()
        },
        born(vec![DateCondition { operator: DateOperator::Equal, date: day("1990-01-01") }]),
    ];
    for query in &queries {
        assert_eq!(found(&before, query), [1], "{query:?}");
        assert_eq!(found(&after, query), [2], "{query:?}");
    }
    assert_eq!((before.individual_count(), after.individual_count()), (1, 2));
    assert_eq!((before.groups_of(RecordId(1)), after.groups_of(RecordId(1))), (vec![RecordId(1)], vec![]));
    let days = |snapshot: &Snapshot| snapshot.gather("birth_date", &[0, 1]);
    assert_eq!(days(&before), Some((vec![1], ColumnValues::Days(vec![7_305, 0]))));
    assert_eq!(days(&after), Some((vec![2], ColumnValues::Days(vec![0, 7_305]))));
}

#[test]
fn groups_are_found_by_their_members() {
    let columns = Columns::default();
    columns.load_groups(&[record(1, with_members(vec![member(7, None), member(8, None), member(7, Some(3))]))]);
    let away = Member { is_inactive: true, ..member(7, None) };
    write_group(&columns, 2, with_members(vec![away]).with(group::ACTIVE, false));
    let snapshot = columns.snapshot();
    assert_eq!(snapshot.groups_of(RecordId(7)), [RecordId(1), RecordId(2)]);
    assert_eq!(snapshot.groups_of(RecordId(8)), [RecordId(1)]);
    assert!(snapshot.groups_of(RecordId(9)).is_empty());
    write_group(&columns, 1, with_members(vec![member(9, None), member(8, None)]));
    let snapshot = columns.snapshot();
    assert_eq!(snapshot.groups_of(RecordId(7)), [RecordId(2)]);
    assert_eq!(snapshot.groups_of(RecordId(8)), [RecordId(1)]);
    assert_eq!(snapshot.groups_of(RecordId(9)), [RecordId(1)]);
    assert_eq!(snapshot.group_count(), 2);
}

#[test]
fn counts_each_record_that_uses_a_code_once() {
    let columns = Columns::default();
    let income: Values = Values::default().with(individual::INCOME_AMOUNT, 1.0);
    let only: IndividualDetails =
        IndividualDetails::default().with(individual::COUNTRY, code(1)).with(individual::GENDER, code(2));
    let person = only
        .clone()
        .with(individual::LANGUAGES, vec![code(3), code(4)])
        .with(individual::ADDRESS, vec![in_country(1)])
        .with(individual::INCOME, income.with(individual::INCOME_CURRENCY, code(5)));
    write_individual(&columns, 1, person);
    let abroad = IndividualDetails::default().with(individual::ADDRESS, vec![in_country(1)]);
    write_individual(&columns, 2, abroad);
    let group = with_members(vec![member(1, Some(12)), member(2, Some(12))])
        .with(group::GROUP_TYPE, code(10))
        .with(group::HOUSING_TYPE, code(11));
    write_group(&columns, 1, group);
    let snapshot = columns.snapshot();
    let using = |numbers: &[u32]| snapshot.records_using(&numbers.iter().copied().map(CodeNumber).collect::<Vec<_>>());
    assert_eq!(using(&[1]), 2);
    assert_eq!(using(&[1, 2, 3, 4, 5]), 2);
    for number in [2, 3, 4, 5, 10, 11, 12] {
        assert_eq!(using(&[number]), 1, "{number}");
    }
    assert_eq!(using(&[10, 11, 12, 1, 1]), 3);
    assert_eq!(using(&[6]), 0);
    assert_eq!(using(&[]), 0);
    write_individual(&columns, 1, only);
    write_group(&columns, 1, GroupDetails::default());
    let snapshot = columns.snapshot();
    assert_eq!(snapshot.records_using(&[CodeNumber(1)]), 2);
    assert_eq!(snapshot.records_using(&[3, 4, 5, 10, 11, 12].map(CodeNumber)), 0);
}

#[test]
fn gathers_every_column() {
    let columns = Columns::default();
    let income: Values = Values::default().with(individual::INCOME_AMOUNT, 12.5);
    let person = IndividualDetails::default()
        .with(individual::ACTIVE, false)
        .with(individual::BIRTH_DATE, day("1970-01-02"))
        .with(individual::BIRTH_DATE_ESTIMATED, true)
        .with(individual::DECEASED_DATE, day("1969-12-31"))
        .with(individual::GENDER, code(2))
        .with(individual::PREGNANCY_STATUS, code(9))
        .with(individual::INCOME, income.with(individual::INCOME_CURRENCY, code(5)));
    columns.load_individuals(&[record(4, IndividualDetails::default()), record(6, person)]);
    let snapshot = columns.snapshot();
    assert_eq!(snapshot.row_of(RecordId(6)), Some(1));
    assert_eq!(snapshot.row_of(RecordId(5)), None);
    let cases = [
        ("active", ColumnValues::Booleans(vec![0])),
        ("birth_date", ColumnValues::Days(vec![1])),
        ("birth_date_estimated", ColumnValues::Booleans(vec![1])),
        ("deceased_date", ColumnValues::Days(vec![-1])),
        ("gender", ColumnValues::Codes(vec![2])),
        ("pregnancy_status", ColumnValues::Codes(vec![9])),
        ("income.currency", ColumnValues::Codes(vec![5])),
        ("income.amount", ColumnValues::Numbers(vec![12.5])),
    ];
    for (path, expected) in cases {
        assert_eq!(snapshot.gather(path, &[1]), Some((vec![], expected)), "{path}");
        let (valid, _) = snapshot.gather(path, &[0, 1, 1, 5_000, 1, 0, 0, 0, 1]).unwrap();
        assert_eq!(valid, [0b0001_0110, 1], "{path}");
    }
    assert_eq!(snapshot.gather("religion", &[1]), Some((vec![0], ColumnValues::Codes(vec![0]))));
    for path in ["languages", "address.country", "group_type", "name", ""] {
        assert_eq!(snapshot.gather(path, &[1]), None, "{path}");
    }
}

#[test]
fn a_register_for_rules_contains_only_the_data_of_rules() {
    let address = Values::default().with(address::REGION, "Nord".to_owned());
    let person = with_identifiers(&["urn:a:b|1"])
        .with(individual::NAME, named("Haile", "Sara"))
        .with(individual::GENDER, code(2))
        .with(individual::BIRTH_DATE, day("1980-01-02"))
        .with(individual::ADDRESS, vec![address]);
    let FieldSet::Only(read) = rule_fields(RecordKind::Individual) else { panic!("some fields are not read by rules") };
    let is_read =
        |tag| schema::row(schema::fields(RecordKind::Individual), tag).is_some_and(|row| read.contains(row.name));
    assert!(!is_read(individual::NAME.tag()) && is_read(individual::ADDRESS.tag()));
    let values = person.values.iter().filter(|(tag, _)| is_read(*tag)).map(|(tag, value)| (tag, value.clone()));
    let selected = Fields::new(Vec::new(), values.collect(), person.extension.clone());
    let registers = [(Columns::default(), &person), (Columns::for_rules(), &person), (Columns::for_rules(), &selected)];
    let [everything, for_rules, of_selected] = registers.map(|(columns, person)| {
        write_individual(&columns, 1, person.clone());
        write_individual(&columns, 2, with_identifiers(&[]).with(individual::ACTIVE, false));
        write_group(&columns, 3, with_members(vec![member(1, Some(7)), member(2, None)]));
        write_individual(&columns, 2, with_identifiers(&[]).with(individual::GENDER, code(1)));
        columns.snapshot()
    });
    let read_by_rules = |snapshot: &Snapshot| {
        let all_rows = RowMarks::from_sorted(&[0, 1]);
        let columns = ["gender", "birth_date", "active", "income.amount"].map(|path| snapshot.gather(path, &[0, 1]));
        let members: Vec<ActiveMember> = snapshot.active_members_of(0, 20_000).collect();
        let groups: Vec<u32> = snapshot.groups_at(0, 20_000).collect();
        let regions = snapshot.by_region(Subject::Individual, &all_rows, None, &[]);
        let versions = snapshot.versions_from(Subject::Individual, 0, 2).to_vec();
        format!("{columns:?} {members:?} {groups:?} {regions:?} {versions:?} {}", snapshot.individual_count())
    };
    assert_eq!(read_by_rules(&for_rules), read_by_rules(&everything));
    assert_eq!(read_by_rules(&of_selected), read_by_rules(&everything));
    assert!(read_by_rules(&for_rules).contains("nord"));
    assert_eq!((found(&everything, &by_name(&["haile"])), found(&for_rules, &by_name(&["haile"]))), (vec![1], vec![]));
    assert_eq!((everything.records_using(&[CodeNumber(2)]), for_rules.records_using(&[CodeNumber(2)])), (1, 0));
}

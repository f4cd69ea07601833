//! Single filters, combined filters, and pages.

use super::*;

/// Five people; each filter finds some of them.
fn register() -> Columns {
    let columns = Columns::default();
    let abeba = with_identifiers(&["urn:a:national|1", "urn:a:voter|77"])
        .with(individual::NAME, named("Haile-Selassie", "Abebá"))
        .with(individual::BIRTH_DATE, day("1990-05-10"))
        .with(individual::GENDER, code(2))
        .with(individual::MARITAL_STATUS, code(20))
        .with(individual::LANGUAGES, vec![code(30), code(31)]);
    let ended = Identifier {
        key: key("urn:a:national|1"),
        period: Some(daftar_domain::calendar::Period { start: None, end: Some(day("2020-01-01")) }),
    };
    let abel = IndividualDetails::new(vec![ended], Values::default(), Extension::default())
        .with(individual::NAME, named("Tesfaye", "Abel"))
        .with(individual::ACTIVE, false)
        .with(individual::BIRTH_DATE, day("1990-05-11"))
        .with(individual::GENDER, code(1))
        .with(individual::LANGUAGES, vec![code(31)]);
    let sara = IndividualDetails::default()
        .with(individual::NAME, named("Abebe", "Sara"))
        .with(individual::ACTIVE, true)
        .with(individual::BIRTH_DATE, day("1950-01-01"))
        .with(individual::GENDER, code(2))
        .with(individual::ADDRESS, vec![in_country(40)]);
    let unborn = IndividualDetails::default().with(individual::GENDER, code(2));
    columns.load_individuals(&[record(1, abeba), record(2, abel)]);
    write_individual(&columns, 3, sara);
    write_individual(&columns, 4, unborn);
    write_individual(&columns, 5, IndividualDetails::default().with(individual::ACTIVE, false));
    columns
}

fn with_codes(field: CodedField, numbers: &[u32]) -> SubjectQuery {
    let any_of = numbers.iter().copied().map(CodeNumber).collect();
    SubjectQuery {
        codes: vec![CodeCondition { field: CodedPlace::Field(field), any_of }],
        ..SubjectQuery::individuals()
    }
}

#[test]
fn finds_all_records_without_conditions() {
    assert_eq!(found(&register().snapshot(), &SubjectQuery::individuals()), [1, 2, 3, 4, 5]);
}

#[test]
fn finds_by_identifier_open_or_ended() {
    let snapshot = register().snapshot();
    let by = |texts: &[&str]| SubjectQuery {
        identifiers: texts.iter().map(|text| key(text)).collect(),
        ..SubjectQuery::individuals()
    };
    assert_eq!(found(&snapshot, &by(&["urn:a:national|1"])), [1, 2]);
    assert_eq!(found(&snapshot, &by(&["urn:a:national|1", "urn:a:voter|77"])), [1]);
    assert!(found(&snapshot, &by(&["urn:a:national|77"])).is_empty());
    assert!(found(&snapshot, &by(&["urn:a:national|1", "urn:a:voter|78"])).is_empty());
}

#[test]
fn finds_names_by_the_beginnings_of_their_words() {
    let snapshot = register().snapshot();
    let by = by_name;
    assert_eq!(found(&snapshot, &by(&["abe"])), [1, 2, 3]);
    assert_eq!(found(&snapshot, &by(&["abeb"])), [1, 3]);
    assert_eq!(found(&snapshot, &by(&["abeba"])), [1]);
    assert_eq!(found(&snapshot, &by(&["abe", "sel"])), [1]);
    assert_eq!(found(&snapshot, &by(&["abe", "sara"])), [3]);
    assert_eq!(found(&snapshot, &by(&["tesfaye"])), [2]);
    assert!(found(&snapshot, &by(&["abebab"])).is_empty());
    assert!(found(&snapshot, &by(&["ebe"])).is_empty());
    assert!(found(&snapshot, &by(&["abe", "zzz"])).is_empty());
}

#[test]
fn finds_by_day_of_birth() {
    let snapshot = register().snapshot();
    let by = |conditions: &[(DateOperator, &str)]| {
        let condition =
            |(operator, text): &(DateOperator, &str)| DateCondition { operator: *operator, date: day(text) };
        born(conditions.iter().map(condition).collect())
    };
    let cases: [(DateOperator, &[u64]); 6] = [
        (DateOperator::Equal, &[1]),
        (DateOperator::NotEqual, &[2, 3]),
        (DateOperator::After, &[2]),
        (DateOperator::OnOrAfter, &[1, 2]),
        (DateOperator::Before, &[3]),
        (DateOperator::OnOrBefore, &[1, 3]),
    ];
    for (operator, expected) in cases {
        assert_eq!(found(&snapshot, &by(&[(operator, "1990-05-10")])), expected, "{operator:?}");
    }
    let between = [(DateOperator::OnOrAfter, "1950-01-01"), (DateOperator::Before, "1990-05-11")];
    assert_eq!(found(&snapshot, &by(&between)), [1, 3]);
    let not_both = [(DateOperator::NotEqual, "1950-01-01"), (DateOperator::NotEqual, "1990-05-11")];
    assert_eq!(found(&snapshot, &by(&not_both)), [1]);
    let never = [(DateOperator::After, "1990-01-01"), (DateOperator::Before, "1960-01-01")];
    assert!(found(&snapshot, &by(&never)).is_empty());
    assert_eq!(found(&snapshot, &by(&[(DateOperator::OnOrAfter, "-009999-01-01")])), [1, 2, 3]);
}

#[test]
fn finds_by_code() {
    let snapshot = register().snapshot();
    assert_eq!(found(&snapshot, &with_codes(CodedField::Gender, &[2])), [1, 3, 4]);
    assert_eq!(found(&snapshot, &with_codes(CodedField::Gender, &[1, 2, 2, 99])), [1, 2, 3, 4]);
    assert_eq!(found(&snapshot, &with_codes(CodedField::Languages, &[31])), [1, 2]);
    assert_eq!(found(&snapshot, &with_codes(CodedField::AddressCountry, &[40])), [3]);
    assert!(found(&snapshot, &with_codes(CodedField::Country, &[40])).is_empty(), "the code is in another field");
    assert!(found(&snapshot, &with_codes(CodedField::Gender, &[])).is_empty());
    assert!(found(&snapshot, &with_codes(CodedField::Gender, &[99])).is_empty());
}

#[test]
fn a_record_without_a_status_is_active() {
    let snapshot = register().snapshot();
    let by = |active| SubjectQuery { active: Some(active), ..SubjectQuery::individuals() };
    assert_eq!(found(&snapshot, &by(true)), [1, 3, 4]);
    assert_eq!(found(&snapshot, &by(false)), [2, 5]);
}

#[test]
fn every_condition_must_hold() {
    let snapshot = register().snapshot();
    let mut query = with_codes(CodedField::Languages, &[31]);
    query.texts.name_words.push("abe".into());
    assert_eq!(found(&snapshot, &query), [1, 2]);
    query.dates.insert("birth_date", vec![DateCondition { operator: DateOperator::After, date: day("1990-05-10") }]);
    assert_eq!(found(&snapshot, &query), [2]);
    query.identifiers.push(key("urn:a:national|1"));
    query.active = Some(false);
    assert_eq!(found(&snapshot, &query), [2]);
    query.active = Some(true);
    assert!(found(&snapshot, &query).is_empty());
    query.active = None;
    query.codes.push(CodeCondition { field: CodedPlace::Field(CodedField::Gender), any_of: vec![CodeNumber(2)] });
    assert!(found(&snapshot, &query).is_empty());
}

#[test]
fn an_update_clears_the_previous_values() {
    let columns = register();
    let changed = with_identifiers(&["urn:a:national|2"])
        .with(individual::NAME, named("Bekele", "Abeba"))
        .with(individual::ACTIVE, false)
        .with(individual::BIRTH_DATE, day("1991-01-01"))
        .with(individual::GENDER, code(1))
        .with(individual::LANGUAGES, vec![code(30)]);
    write_individual(&columns, 1, changed);
    let snapshot = columns.snapshot();
    let word = |word: &str| by_name(&[word]);
    let number = |text: &str| SubjectQuery { identifiers: vec![key(text)], ..SubjectQuery::individuals() };
    let born = |text: &str| born(vec![DateCondition { operator: DateOperator::Equal, date: day(text) }]);
    let cases: [(SubjectQuery, &[u64]); 13] = [
        (word("selassie"), &[]),
        (word("abeba"), &[1]),
        (word("bekele"), &[1]),
        (number("urn:a:national|1"), &[2]),
        (number("urn:a:voter|77"), &[]),
        (number("urn:a:national|2"), &[1]),
        (born("1990-05-10"), &[]),
        (born("1991-01-01"), &[1]),
        (with_codes(CodedField::Gender, &[2]), &[3, 4]),
        (with_codes(CodedField::MaritalStatus, &[20]), &[]),
        (with_codes(CodedField::Languages, &[31]), &[2]),
        (with_codes(CodedField::Languages, &[30]), &[1]),
        (SubjectQuery { active: Some(true), ..SubjectQuery::individuals() }, &[3, 4]),
    ];
    for (query, expected) in cases {
        assert_eq!(found(&snapshot, &query), expected, "{query:?}");
    }
    assert_eq!(snapshot.individual_count(), 5);
}

#[test]
fn pages_cover_the_result_and_the_total_is_exact() {
    let columns = Columns::default();
    // More than one segment of rows; every third person is a woman, every fifth born in 1990.
    let people: Vec<_> = (1..=70_000_u64)
        .map(|id| {
            let gender = if id % 3 == 0 { 2 } else { 1 };
            let birth_date = (id % 5 == 0).then(|| day("1990-01-01"));
            let person = IndividualDetails::default().with(individual::GENDER, code(gender));
            record(id, person.with(individual::BIRTH_DATE, birth_date))
        })
        .collect();
    for page in people.chunks(1_000) {
        columns.load_individuals(page);
    }
    let snapshot = columns.snapshot();
    let mut query = with_codes(CodedField::Gender, &[2]);
    query.dates.insert("birth_date", vec![DateCondition { operator: DateOperator::Before, date: day("2000-01-01") }]);
    let expected: Vec<RecordId> = (1..=70_000).filter(|id| id % 15 == 0).map(RecordId).collect();
    let mut seen = Vec::new();
    while seen.len() < expected.len() {
        let page = search(&snapshot, &query, Page { offset: seen.len() as u64, count: 100 });
        assert_eq!(page.total, expected.len() as u64);
        assert!(!page.ids.is_empty());
        seen.extend(page.ids);
    }
    assert_eq!(seen, expected);
    let past = search(&snapshot, &query, Page { offset: expected.len() as u64, count: 20 });
    assert_eq!((past.total, past.ids.len()), (expected.len() as u64, 0));
    let all = search(&snapshot, &SubjectQuery::individuals(), Page { offset: 65_530, count: 20 });
    assert_eq!(all.total, 70_000);
    assert!(all.ids.into_iter().eq((65_531..65_551).map(RecordId)));
    let far = search(&snapshot, &SubjectQuery::individuals(), Page { offset: u64::MAX, count: 20 });
    assert_eq!((far.total, far.ids.len()), (70_000, 0));
}

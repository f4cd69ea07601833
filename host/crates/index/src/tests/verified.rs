//! A valid index has no findings; a single difference is reported with its record.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::{any_group, any_individual};
use daftar_domain::code::EditionNumber;
use daftar_domain::individual::Individual;
use daftar_domain::record::RecordKind;

fn problems(columns: &Columns, kind: RecordKind, records: &[ChangedRecord]) -> Vec<(u64, &'static str)> {
    let mut check = columns.snapshot().check_rows(kind, 0);
    for record in records {
        check.see(record);
    }
    check.end().into_iter().map(|(id, problem)| (id.0, problem)).collect()
}

fn individuals(people: &[Arc<Individual>]) -> Vec<ChangedRecord> {
    people.iter().cloned().map(ChangedRecord::Individual).collect()
}

proptest! {
    #[test]
    fn written_rows_agree_with_their_records(
        people in vec((any_individual(), any_individual()), 1..30),
        groups in vec((any_group(40), any_group(40)), 0..6),
    ) {
        let columns = Columns::default();
        let (mut of_people, mut of_groups) = (Vec::new(), Vec::new());
        for second in [false, true] {
            (of_people, of_groups) = (Vec::new(), Vec::new());
            for (id, (one, other)) in (1..).zip(&people) {
                let details = if second { other } else { one }.details.clone();
                of_people.push(record(id, details));
            }
            for (id, (one, other)) in (1..).zip(&groups) {
                of_groups.push(record(id, if second { other } else { one }.clone()));
            }
            let changes = individuals(&of_people).into_iter();
            let changes = changes.chain(of_groups.iter().cloned().map(ChangedRecord::Group));
            let changes: Vec<_> = changes.map(|record| Change { sequence: Sequence(0), record }).collect();
            columns.apply(&changes);
        }
        prop_assert_eq!(problems(&columns, RecordKind::Individual, &individuals(&of_people)), vec![]);
        let of_groups: Vec<_> = of_groups.into_iter().map(ChangedRecord::Group).collect();
        prop_assert_eq!(problems(&columns, RecordKind::Group, &of_groups), vec![]);
    }
}

#[test]
fn each_difference_is_reported_for_its_record_only() {
    let person_with = |id: u64, details: IndividualDetails| record(id, details);
    let one = || {
        with_identifiers(&["urn:a:x|1"])
            .with(individual::NAME, named("Haile", "Abeba"))
            .with(individual::GENDER, code(2))
            .with(individual::LANGUAGES, vec![code(7)])
            .with(individual::BIRTH_DATE, day("1990-01-01"))
    };
    let columns = Columns::default();
    columns.load_individuals(&[person_with(1, one()), person_with(2, IndividualDetails::default())]);
    let check = |changed: IndividualDetails| {
        let people = [person_with(1, changed), person_with(2, IndividualDetails::default())];
        problems(&columns, RecordKind::Individual, &individuals(&people))
    };
    assert_eq!(check(one()), []);
    let changed = |change: &dyn Fn(&mut IndividualDetails)| {
        let mut person = one();
        change(&mut person);
        check(person)
    };
    let values = "its columns contain other values than the record";
    assert_eq!(changed(&|person| person.set(individual::BIRTH_DATE, None)), [(1, values)]);
    assert_eq!(changed(&|person| person.set(individual::GENDER, None)), [(1, values)]);
    let codes = "searches by code do not agree with the record";
    assert_eq!(changed(&|person| person.set(individual::LANGUAGES, None)), [(1, codes)]);
    assert_eq!(check(one().with(individual::LANGUAGES, vec![code(7), code(8)])), [(1, codes)]);
    let identifiers = "searches by identifier do not agree with the record";
    assert_eq!(changed(&|person| person.identifiers.clear()), [(1, identifiers)]);
    assert_eq!(changed(&|person| person.identifiers = vec![identifier("urn:a:x|2")]), [(1, identifiers)]);
    let address: Values = Values::default().with(address::CITY, "Addis".to_owned());
    let moved = one().with(individual::ADDRESS, vec![address]);
    assert_eq!(check(moved), [(1, "searches by word do not agree with the record")]);
    let only = individuals(&[person_with(1, one()), person_with(3, one())]);
    let gone = "the search index contains a record that is missing or unreadable";
    let unknown = "the record is missing from the search index";
    assert_eq!(problems(&columns, RecordKind::Individual, &only), [(3, unknown), (2, gone)]);

    write_group(&columns, 1, with_members(vec![member(1, None)]));
    let group = |members| [ChangedRecord::Group(record(1, with_members(members)))];
    assert_eq!(problems(&columns, RecordKind::Group, &group(vec![member(1, None)])), []);
    let members = "its membership index entries do not agree with the record";
    for differs in [Vec::new(), vec![member(2, None)], vec![member(1, None), member(2, None)]] {
        assert_eq!(problems(&columns, RecordKind::Group, &group(differs)), [(1, members)]);
    }

    // Searches and rules read neither the version of a role's vocabulary nor the order of identifiers.
    let household = |edition, identifiers: &[&str]| {
        let mut one = member(1, Some(9));
        one.role = one.role.map(|role| CodedValue { edition: EditionNumber(edition), ..role });
        let mut details = with_members(vec![one]);
        details.identifiers = identifiers.iter().map(|text| identifier(text)).collect();
        details
    };
    write_group(&columns, 1, household(1, &["urn:a:x|1", "urn:a:x|2"]));
    let check = |details| problems(&columns, RecordKind::Group, &[ChangedRecord::Group(record(1, details))]);
    let shown = "the records of its members show other values of it than the record";
    assert_eq!(check(household(1, &["urn:a:x|1", "urn:a:x|2"])), []);
    assert_eq!(check(household(2, &["urn:a:x|1", "urn:a:x|2"])), [(1, shown)]);
    assert_eq!(check(household(1, &["urn:a:x|2", "urn:a:x|1"])), [(1, shown)]);
}

//! Random registers, random queries.

use jiff::civil::Date;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::database::Database;
use super::random::{
    GROUPS, PEOPLE, any_consent_terms, any_group_query, any_membership_conditions, any_people_query, any_register,
    any_sees, any_sorting,
};
use daftar_domain::change::{Change, ChangedRecord, Sequence};
use daftar_domain::code::CodeNumber;
use daftar_domain::consent::ConsentFilter;
use daftar_domain::record::RecordId;
use daftar_domain::scope::Resource;
use daftar_domain::search::order::{Direction, Position, SortField, SortKey, SortValue, Start, Window};
use daftar_domain::search::{Found, Page, Sorting, SubjectQuery};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::vocabulary::CodedField;
use daftar_index::{Columns, SearchLimits};
use daftar_store::index::{Index, RecordCounts, Sees};

/// The ranks of codes, in the reverse order of their numbers; code 3 has none.
const CODE_RANKS: [u32; 3] = [2, 1, 0];
/// With these limits of `few_max` a page is read from an index, from one or the other, or from all that match.
const FEW: [u32; 3] = [0, 4, 5_000];

type SeenBy = Option<(ConsentFilter, Date)>;

fn sees(seen_by: &SeenBy) -> Option<Sees<'_>> {
    seen_by.as_ref().map(|(filter, day)| Sees { filter, day: *day })
}

/// Writes the same into both.
fn write(database: &Database, columns: &Columns, transactions: &[Vec<ChangedRecord>]) {
    for changed in transactions {
        let change = |record: &ChangedRecord| Change { sequence: Sequence(0), record: record.clone() };
        columns.apply(&changed.iter().map(change).collect::<Vec<_>>());
        database.write(changed);
    }
}

/// Walks through a response by the positions that the register in memory returns, then requests pages by their numbers.
/// Positions are compared too, so those of either continue in the other.
fn walk(
    count: u32,
    memory: impl Fn(&Window) -> Found,
    postgres: impl Fn(&Window) -> Found,
) -> Result<(), TestCaseError> {
    let mut window = Window { start: Start::Offset(0), count };
    loop {
        let expected = memory(&window);
        prop_assert_eq!(&postgres(&window), &expected, "{:?}", window);
        let Some(next) = expected.next else { break };
        window.start = Start::After(next);
    }
    for offset in [1, 3, 1_000, u64::MAX] {
        let window = Window { start: Start::Offset(offset), count };
        prop_assert_eq!(postgres(&window), memory(&window), "{:?}", window);
    }
    Ok(())
}

/// Runs a property over registers in one database.
fn over_registers<S: Strategy>(
    cases: u32,
    questions: S,
    holds: impl Fn(&Database, &Columns, S::Value) -> Result<(), TestCaseError>,
) where
    S::Value: Clone,
{
    let database = Database::new();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let property = |(register, questions): (Vec<Vec<ChangedRecord>>, S::Value)| {
        database.empty();
        let columns = Columns::default();
        write(&database, &columns, &register);
        holds(&database, &columns, questions)
    };
    runner.run(&(any_register(), questions), property).unwrap();
}

#[test]
fn people_are_found_alike() {
    let questions = vec((any_people_query(), any_sorting(), any_sees(), 1_u32..6, 0..FEW.len()), 1..20);
    over_registers(60, questions, |database, columns, questions| {
        let snapshot = columns.snapshot();
        for (query, keys, seen_by, count, few) in questions {
            let index = database.index(FEW[few]);
            let limits = seen_by.as_ref().map(|(filter, day)| {
                let of = |resource| snapshot.consented(resource, filter, *day);
                (of(Resource::Individual), of(Resource::Group))
            });
            let limits = SearchLimits {
                records: limits.as_ref().map(|(records, _)| records.as_ref()),
                groups: limits.as_ref().map(|(_, groups)| groups.as_ref()),
            };
            let sorting = Sorting { keys: &keys, code_ranks: &CODE_RANKS };
            let memory = |window: &Window| snapshot.search(&query, limits, sorting, window);
            let ask = |window: &Window| {
                database.wait(index.search_subjects(&query, sees(&seen_by), sorting, window)).unwrap()
            };
            walk(count, memory, ask)
                .map_err(|error| TestCaseError::fail(format!("{error} {query:?} {keys:?} {seen_by:?}")))?;
            let all_individuals = memory(&Window { start: Start::Offset(0), count: 1_000 }).ids;
            let mut expected = all_individuals;
            expected.sort_unstable();
            let found = database.matching(&query, sees(&seen_by));
            prop_assert_eq!(found, expected);
        }
        Ok(())
    });
}

#[test]
fn groups_are_found_alike() {
    let questions = vec((any_group_query(), any_sorting(), any_sees(), 1_u32..4, 0..FEW.len()), 1..20);
    over_registers(60, questions, |database, columns, questions| {
        let snapshot = columns.snapshot();
        for (query, keys, seen_by, count, few) in questions {
            let index = database.index(FEW[few]);
            let limits = seen_by.as_ref().map(|(filter, day)| snapshot.consented(Resource::Group, filter, *day));
            let limits = SearchLimits { records: limits.as_deref(), groups: None };
            let sorting = Sorting { keys: &keys, code_ranks: &CODE_RANKS };
            let memory = |window: &Window| snapshot.search(&query, limits, sorting, window);
            let ask = |window: &Window| {
                database.wait(index.search_subjects(&query, sees(&seen_by), sorting, window)).unwrap()
            };
            walk(count, memory, ask)
                .map_err(|error| TestCaseError::fail(format!("{error} {query:?} {keys:?} {seen_by:?}")))?;
            let mut expected = memory(&Window { start: Start::Offset(0), count: 1_000 }).ids;
            expected.sort_unstable();
            let found = database.matching(&query, sees(&seen_by));
            prop_assert_eq!(found, expected);
        }
        Ok(())
    });
}

#[test]
fn memberships_and_consents_are_found_alike() {
    let of_memberships = vec((any_membership_conditions(), any_sorting(), any_sees(), 1_u32..6, 0..FEW.len()), 1..20);
    let questions = (of_memberships, vec((any_consent_terms(), 0_u64..4, 1_u32..20), 1..10));
    over_registers(60, questions, |database, columns, (of_memberships, of_consents)| {
        let snapshot = columns.snapshot();
        for (conditions, keys, seen_by, count, few) in of_memberships {
            let index = database.index(FEW[few]);
            let limits =
                seen_by.as_ref().map(|(filter, day)| snapshot.consented(Resource::ProgramMembership, filter, *day));
            let limits = SearchLimits { records: limits.as_deref(), groups: None };
            let sorting = Sorting { keys: &keys, code_ranks: &[] };
            let memory = |window: &Window| snapshot.search_memberships(&conditions, limits, sorting, window);
            let ask = |window: &Window| {
                database.wait(index.search_memberships(&conditions, sees(&seen_by), sorting, window)).unwrap()
            };
            walk(count, memory, ask)
                .map_err(|error| TestCaseError::fail(format!("{error} {conditions:?} {keys:?} {seen_by:?}")))?;
            let page = Page { offset: u64::from(count), count };
            let found = database.wait(index.memberships(&conditions.terms, page)).unwrap();
            prop_assert_eq!(found, snapshot.memberships(&conditions.terms, page));
        }
        let index = database.usual();
        for (terms, offset, count) in of_consents {
            let page = Page { offset, count };
            let found = database.wait(index.consents(&terms, page)).unwrap();
            prop_assert_eq!(found, snapshot.consents(&terms, page), "{:?}", terms);
        }
        Ok(())
    });
}

#[test]
fn single_queries_return_the_same() {
    let numbers = vec(vec((0_u32..6).prop_map(CodeNumber), 0..4), 1..6);
    over_registers(60, (any_sees(), numbers), |database, columns, (seen_by, numbers)| {
        let (snapshot, index) = (columns.snapshot(), database.usual());
        let people = (1..=PEOPLE + 1).map(|id| SubjectReference { kind: Subject::Individual, id: RecordId(id) });
        let groups = (1..=GROUPS + 1).map(|id| SubjectReference { kind: Subject::Group, id: RecordId(id) });
        let subjects: Vec<SubjectReference> = people.chain(groups).collect();
        if let Some((filter, day)) = &seen_by {
            for resource in [Resource::Individual, Resource::Group, Resource::ProgramMembership, Resource::Program] {
                let expected: Vec<_> =
                    subjects.iter().map(|subject| snapshot.opened(resource, *subject, filter, *day)).collect();
                let found = database.wait(index.opened(resource, &subjects, Sees { filter, day: *day })).unwrap();
                prop_assert_eq!(found, expected);
            }
        }
        let memberships: Vec<RecordId> = (0..25).map(RecordId).collect();
        let expected: Vec<_> = memberships.iter().map(|id| snapshot.beneficiary(*id)).collect();
        prop_assert_eq!(database.wait(index.beneficiaries(&memberships)).unwrap(), expected);
        for person in (1..=PEOPLE).map(RecordId) {
            prop_assert_eq!(database.wait(index.groups_of(person)).unwrap(), snapshot.groups_of(person));
        }
        for numbers in numbers {
            let found = database.wait(index.records_using(&numbers)).unwrap();
            prop_assert_eq!(found, snapshot.records_using(&numbers), "{:?}", numbers);
            for (number, count) in database.wait(index.records_by_code(&numbers)).unwrap() {
                prop_assert_eq!(count, snapshot.records_using(&[number]));
            }
            for limit in [0, 2, 100] {
                let found = database.wait(index.holders_of(&numbers, limit)).unwrap();
                prop_assert_eq!(found, snapshot.holders_of(&numbers, limit), "{:?}", numbers);
            }
        }
        let counts = RecordCounts { individuals: snapshot.individual_count(), groups: snapshot.group_count() };
        prop_assert_eq!(database.wait(index.record_counts()).unwrap(), counts);
        Ok(())
    });
}

#[test]
fn a_position_of_another_order_is_no_error() {
    let database = Database::new();
    let (columns, index) = (Columns::default(), database.usual());
    let fields = [SortField::Name, SortField::Date("birth_date"), SortField::LastUpdated, SortField::Word("status")];
    let fields = fields.into_iter().chain([SortField::Code(CodedField::Gender)]);
    let keys: Vec<_> = fields.map(|field| SortKey { field, direction: Direction::Descending }).collect();
    let snapshot = columns.snapshot();
    for values in [
        vec![],
        vec![SortValue::Missing],
        vec![SortValue::Number(0)],
        vec![SortValue::Number(u64::MAX)],
        vec![SortValue::Text("a\0b".into())],
        vec![SortValue::Missing, SortValue::Missing],
    ] {
        for key in &keys {
            let keys = [*key];
            let sorting = Sorting { keys: &keys, code_ranks: &[] };
            let position = Position { values: values.clone(), record: RecordId(u64::MAX), passed: 0 };
            let window = Window { start: Start::After(position), count: 3 };
            let expected = snapshot.search(&SubjectQuery::individuals(), SearchLimits::default(), sorting, &window);
            let found =
                database.wait(index.search_subjects(&SubjectQuery::individuals(), None, sorting, &window)).unwrap();
            assert_eq!(found, expected, "{key:?}");
        }
    }
}

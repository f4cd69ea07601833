//! With many records, an index leads every filter, and every page of many.

use std::sync::Arc;

use jiff::civil::Date;

use super::super::PostgresIndex;
use super::database::Database;
use daftar_domain::address;
use daftar_domain::calendar::{Period, date_from_days};
use daftar_domain::change::ChangedRecord;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::consent::{
    CONSENT_ID, ConsentDetails, ConsentFilter, ConsentId, EFFECTIVE_DATE, GRANTEE, SCOPES, SUBJECT,
};
use daftar_domain::group::{self, GroupDetails, Member};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{self, IndividualDetails};
use daftar_domain::organization::Organization;
use daftar_domain::person_name;
use daftar_domain::program_membership::{
    BENEFICIARY, ENROLLMENT_DATE, MembershipStatus, PROGRAM, ProgramMembershipDetails, STATUS,
};
use daftar_domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};
use daftar_domain::scope::Resource;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::order::{Direction, SortField, SortKey, Start, Window};
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::search::{
    CodeCondition, CodedPlace, ConsentTerm, DateCondition, DateConditions, DateOperator, KindCondition,
    MemberCondition, MembershipConditions, MembershipTerm, Page, PlaceCondition, Sorting, SubjectQuery, TextConditions,
};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::value::{Reference, Values};
use daftar_domain::vocabulary::CodedField;
use daftar_store::index::{Index, Sees};

const PEOPLE: u64 = 40_000;
const GROUPS: u64 = 10_000;

fn record<D>(id: u64, details: D) -> Arc<Record<D>> {
    let last_updated = jiff::Timestamp::from_millisecond(1_000 * id as i64).unwrap();
    let meta = RecordMeta { version: VersionId::FIRST, last_updated, source: None };
    Arc::new(Record { id: RecordId(id), meta, details })
}

fn code(number: u64) -> CodedValue {
    CodedValue { number: CodeNumber(number as u32), edition: EditionNumber(1) }
}

fn day(number: u64) -> Date {
    date_from_days(number as i32).unwrap()
}

fn key(id: u64) -> IdentifierKey {
    IdentifierKey::parse(&format!("urn:a:x|{id}")).unwrap()
}

fn subject(id: u64) -> SubjectReference {
    SubjectReference { kind: Subject::Individual, id: RecordId(id) }
}

fn person(id: u64) -> ChangedRecord {
    let address: Values =
        Values::default().with(address::DISTRICT, format!("district {}", id % 500)).with(address::COUNTRY, code(900));
    let name: Values = Values::default()
        .with(person_name::FAMILY, format!("family{}", id % 1_000))
        .with(person_name::GIVEN, format!("given{id}"));
    let mut details = IndividualDetails::default()
        .with(individual::NAME, name)
        .with(individual::ACTIVE, !id.is_multiple_of(500))
        .with(individual::BIRTH_DATE, day(id % 20_000))
        .with(individual::DECEASED_DATE, id.is_multiple_of(10_000).then(|| day(id)))
        .with(individual::GENDER, code(id % 2 + 1))
        .with(individual::OCCUPATION, code(id % 400 + 100))
        .with(individual::ADDRESS, vec![address]);
    details.identifiers = vec![Identifier { key: key(id), period: None }];
    ChangedRecord::Individual(record(id, details))
}

fn household(id: u64) -> ChangedRecord {
    let member = |individual| Member {
        individual: RecordId(individual),
        role: Some(code(700 + id % 50)),
        period: Some(Period { start: Some(day(id % 1_000)), end: None }),
        is_inactive: false,
    };
    let mut details = GroupDetails::default()
        .with(group::NAME, format!("household{id}"))
        .with(group::GROUP_TYPE, code(1_000 + id % 200))
        .with(group::MEMBER, (1..=4).map(|place| member((id - 1) * 4 + place)).collect::<Vec<_>>());
    details.identifiers = vec![Identifier { key: key(id), period: None }];
    ChangedRecord::Group(record(id, details))
}

fn membership(id: u64) -> ChangedRecord {
    let status = if id.is_multiple_of(200) { MembershipStatus::Draft } else { MembershipStatus::Enrolled };
    let details = ProgramMembershipDetails::default()
        .with(PROGRAM, Reference { kind: RecordKind::Program, id: RecordId(id % 200 + 1) })
        .with(BENEFICIARY, Reference::from(subject(id)))
        .with(STATUS, status)
        .with(ENROLLMENT_DATE, day(id % 5_000));
    ChangedRecord::ProgramMembership(record(id, details))
}

fn organization(id: u64) -> Organization {
    Organization::parse(&format!("Organization {}", id % 200)).unwrap()
}

fn consent(id: u64) -> ChangedRecord {
    let details = ConsentDetails::default()
        .with(CONSENT_ID, ConsentId::from_bytes(u128::from(id).to_be_bytes()))
        .with(SUBJECT, Reference::from(subject(id)))
        .with(GRANTEE, organization(id).as_str().to_owned())
        .with(EFFECTIVE_DATE, day(0))
        .with(SCOPES, vec![Resource::Individual, Resource::ProgramMembership]);
    ChangedRecord::Consent(record(id, details))
}

fn register() -> Database {
    let database = Database::new();
    for make in [person as fn(u64) -> ChangedRecord, membership, consent] {
        database.write(&(1..=PEOPLE).map(make).collect::<Vec<_>>());
    }
    database.write(&(1..=GROUPS).map(household).collect::<Vec<_>>());
    database.execute("VACUUM ANALYZE");
    // What filled it does not count later.
    database.execute("SELECT pg_stat_force_next_flush()");
    database
}

/// Number of sequential scans of tables of the index by PostgreSQL, without the counters: those are few rows.
fn whole_reads(database: &Database) -> i64 {
    sum_of(database, "seq_scan")
}

/// Number of rows that searches read from tables of the index, without the counters.
fn rows_read(database: &Database) -> i64 {
    sum_of(database, "seq_tup_read + coalesce(idx_tup_fetch, 0)")
}

/// Sum of a figure of PostgreSQL over the tables of the index, without the counters.
fn sum_of(database: &Database, figure: &str) -> i64 {
    database.wait(async {
        // On the connection of searches, whose figures are pending.
        database.database.search("SELECT pg_stat_force_next_flush()", &[]).await.unwrap();
        let statement = format!(
            "SELECT sum({figure})::bigint FROM pg_stat_user_tables \
             WHERE relname LIKE 'search_%' AND relname <> 'search_tally'"
        );
        database.database.search(&statement, &[]).await.unwrap()[0].get(0)
    })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn codes(field: CodedField, number: u32) -> Vec<CodeCondition> {
    vec![CodeCondition { field: CodedPlace::Field(field), any_of: vec![CodeNumber(number)] }]
}

fn people_queries() -> Vec<(&'static str, u64, SubjectQuery)> {
    let all_individuals = SubjectQuery::individuals();
    let district = PhraseField::find(RecordKind::Individual, "district").unwrap();
    let by_text = |texts| SubjectQuery { texts, ..SubjectQuery::individuals() };
    let place = |groups, roles| PlaceCondition { day: 2_000, is_none: false, groups, roles };
    let within = |first_ms, last_ms| InstantCondition { operator: DateOperator::Equal, first_ms, last_ms };
    let born = |conditions: &[(DateOperator, u64)]| {
        let conditions =
            conditions.iter().map(|(operator, number)| DateCondition { operator: *operator, date: day(*number) });
        DateConditions::from([("birth_date", conditions.collect())])
    };
    vec![
        ("identifier", 1, SubjectQuery { identifiers: vec![key(7)], ..all_individuals.clone() }),
        ("name", 1, by_text(TextConditions { name_words: words(&["given39999"]), ..Default::default() })),
        (
            "beginning of a name",
            11,
            by_text(TextConditions { name_words: words(&["given3999"]), ..Default::default() }),
        ),
        (
            "two names",
            11,
            by_text(TextConditions { name_words: words(&["given39", "family40"]), ..Default::default() }),
        ),
        ("unknown name", 0, by_text(TextConditions { name_words: words(&["unknown"]), ..Default::default() })),
        (
            "district",
            80,
            by_text(TextConditions { phrases: vec![(district, "district 77".to_owned())], ..Default::default() }),
        ),
        ("word of an address", 80, by_text(TextConditions { address_words: words(&["77"]), ..Default::default() })),
        ("birth date", 2, SubjectQuery { dates: born(&[(DateOperator::Equal, 77)]), ..all_individuals.clone() }),
        ("birth dates", 20, {
            let dates = born(&[(DateOperator::OnOrAfter, 100), (DateOperator::Before, 110)]);
            SubjectQuery { dates, ..all_individuals.clone() }
        }),
        ("code", 100, SubjectQuery { codes: codes(CodedField::Occupation, 200), ..all_individuals.clone() }),
        ("inactive", 80, SubjectQuery { active: Some(false), ..all_individuals.clone() }),
        ("last updated", 11, SubjectQuery { last_updated: vec![within(70_000, 80_000)], ..all_individuals.clone() }),
        ("group", 8, {
            let groups = vec![vec![RecordId(7), RecordId(8)]];
            SubjectQuery {
                of_kind: KindCondition::Individuals(Some(place(groups, Vec::new()))),
                ..all_individuals.clone()
            }
        }),
        ("group and role", 4, {
            let place = place(vec![vec![RecordId(7), RecordId(8)]], vec![vec![CodeNumber(707)]]);
            SubjectQuery { of_kind: KindCondition::Individuals(Some(place)), ..all_individuals.clone() }
        }),
        ("code and birth date", 2, {
            let dates = born(&[(DateOperator::Equal, 100)]);
            SubjectQuery { codes: codes(CodedField::Occupation, 200), dates, ..all_individuals }
        }),
    ]
}

fn assert_led(database: &Database, what: &str, ask: impl Fn(&PostgresIndex) -> u64, expected: u64) {
    let before = whole_reads(database);
    assert_eq!(ask(&database.usual()), expected, "{what}");
    assert_eq!(whole_reads(database), before, "a whole table was read by a search for: {what}");
}

#[test]
fn every_filter_is_led_by_an_index() {
    let database = register();
    let page = Window::from(Page::default());
    let first = Sorting::REGISTERED;
    for (what, total, query) in people_queries() {
        let ask =
            |index: &PostgresIndex| database.wait(index.search_subjects(&query, None, first, &page)).unwrap().total;
        assert_led(&database, what, ask, total);
    }
    let every = SubjectQuery::groups;
    let members = MemberCondition { day: 2_000, people: vec![[1, 2, 5].map(RecordId).to_vec()] };
    let of_groups = [
        ("identifier of a group", 1, SubjectQuery { identifiers: vec![key(7)], ..every() }),
        ("type of a group", 50, SubjectQuery { codes: codes(CodedField::GroupType, 1_007), ..every() }),
        ("member", 2, SubjectQuery { of_kind: KindCondition::Groups(Some(members)), ..every() }),
    ];
    for (what, total, query) in of_groups {
        let ask =
            |index: &PostgresIndex| database.wait(index.search_subjects(&query, None, first, &page)).unwrap().total;
        assert_led(&database, what, ask, total);
    }
    let of_memberships = [
        ("beneficiary", 1, vec![MembershipTerm::Beneficiary(subject(77))]),
        ("program", 200, vec![MembershipTerm::Program(RecordId(77))]),
        ("status", 200, vec![MembershipTerm::Status(MembershipStatus::Draft)]),
    ];
    for (what, total, terms) in of_memberships {
        let conditions = MembershipConditions { terms: vec![terms], last_updated: Vec::new() };
        let ask = |index: &PostgresIndex| {
            database.wait(index.search_memberships(&conditions, None, first, &page)).unwrap().total
        };
        assert_led(&database, what, ask, total);
    }
    for (what, total, term) in
        [("subject", 1, ConsentTerm::Subject(subject(77))), ("grantee", 200, ConsentTerm::Grantee(organization(77)))]
    {
        let ask = |index: &PostgresIndex| {
            database.wait(index.consents(&[vec![term.clone()]], Page::default())).unwrap().total
        };
        assert_led(&database, what, ask, total);
    }
    let filter = ConsentFilter { organization: Some(organization(77)), purpose: None };
    let sees = || Some(Sees { filter: &filter, day: day(5) });
    let all_individuals = SubjectQuery::individuals();
    let ask = |index: &PostgresIndex| {
        database.wait(index.search_subjects(&all_individuals, sees(), first, &page)).unwrap().total
    };
    assert_led(&database, "all who consent", ask, 200);
    let every = MembershipConditions::default();
    let ask =
        |index: &PostgresIndex| database.wait(index.search_memberships(&every, sees(), first, &page)).unwrap().total;
    assert_led(&database, "memberships of those who consent", ask, 200);
    for (what, total, number) in [("holders of a code", 100, 200), ("holders of a role", 200, 707)] {
        let numbers = [CodeNumber(number), CodeNumber(9_999)];
        let ask = |index: &PostgresIndex| {
            let (people, groups) = database.wait(index.holders_of(&numbers, 1_000)).unwrap();
            let count = (people.len() + groups.len()) as u64;
            assert_eq!(database.wait(index.records_using(&numbers)).unwrap(), count, "{what}");
            count
        };
        assert_led(&database, what, ask, total);
    }
}

#[test]
fn a_page_of_many_is_led_by_an_index_in_its_order() {
    let database = register();
    let page = Window::from(Page::default());
    let all_individuals = SubjectQuery::individuals();
    let codes = [CodedField::Gender, CodedField::Occupation].map(SortField::Code);
    let fields = [SortField::Name, SortField::Date("birth_date"), SortField::LastUpdated];
    for field in fields.into_iter().chain(codes) {
        for direction in [Direction::Ascending, Direction::Descending] {
            let keys = [SortKey { field, direction }];
            let sorting = Sorting { keys: &keys, code_ranks: &[] };
            let mut window = page.clone();
            for _ in 0..2 {
                let before = whole_reads(&database);
                let index = database.usual();
                let found = database.wait(index.search_subjects(&all_individuals, None, sorting, &window)).unwrap();
                assert_eq!((found.total, found.ids.len()), (PEOPLE, 20));
                assert_eq!(whole_reads(&database), before, "a whole table was read by {keys:?} from {window:?}");
                window.start = Start::After(found.next.unwrap());
            }
        }
    }
}

#[test]
fn a_page_by_a_value_that_most_records_lack_reads_few_records() {
    let database = Database::new();
    database.write(&(1..=PEOPLE).map(person).collect::<Vec<_>>());
    database.execute("VACUUM ANALYZE");
    let (all_individuals, index) = (SubjectQuery::individuals(), database.usual());
    for field in [SortField::Date("deceased_date"), SortField::Code(CodedField::IncomeCurrency)] {
        for direction in [Direction::Ascending, Direction::Descending] {
            let keys = [SortKey { field, direction }];
            let sorting = Sorting { keys: &keys, code_ranks: &[] };
            let mut window = Window::from(Page::default());
            for _ in 0..2 {
                let before = rows_read(&database);
                let found = database.wait(index.search_subjects(&all_individuals, None, sorting, &window)).unwrap();
                assert_eq!((found.total, found.ids.len()), (PEOPLE, 20));
                let read = rows_read(&database) - before;
                assert!((20..1_000).contains(&read), "{read} rows were read by {keys:?} from {window:?}");
                window.start = Start::After(found.next.unwrap());
            }
        }
    }
}

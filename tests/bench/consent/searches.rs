//! Searches among a million people of whom half a million consented, in memory.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use daftar::columns::{Columns, RowLimits, SearchLimits};
use daftar::domain::change::{Change, ChangedRecord, Sequence};
use daftar::domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar::domain::consent::{ConsentDetails, ConsentId};
use daftar::domain::consent_filter::ConsentFilter;
use daftar::domain::individual::IndividualDetails;
use daftar::domain::organization::{LegalBasis, Organization};
use daftar::domain::person_name::PersonName;
use daftar::domain::record::{Record, RecordId, RecordMeta, VersionId};
use daftar::domain::scope::Resource;
use daftar::domain::search::found::Sorting;
use daftar::domain::search::{
    CodeCondition, CodedPlace, DateCondition, DateOperator, IndividualQuery, Page, TextConditions,
};
use daftar::domain::subject::{Subject, SubjectReference};
use daftar::domain::vocabulary::CodedField;
use jiff::ToSpan;
use jiff::civil::Date;

const PEOPLE: u64 = 1_000_000;
const CONSENTS: u64 = 500_000;
/// How many records are loaded at a time.
const PAGE: u64 = 10_000;
/// How often each search is made.
const REPEATS: usize = 300;
const TODAY: Date = Date::constant(2026, 3, 1);
const FIELDS: [&[&str]; 10] = [
    &[],
    &["name"],
    &["name", "birth_date"],
    &["name", "birth_date", "gender"],
    &["birth_date"],
    &["gender"],
    &["name", "gender", "address"],
    &["birth_date", "gender", "telecom"],
    &["name", "birth_date", "gender", "education"],
    &["name", "birth_date", "gender", "occupation", "income"],
];
const FAMILIES: [&str; 8] = ["Diallo", "Traoré", "Nguyễn", "García", "Haile", "Okafor", "Rahman", "Silva"];

pub(super) fn run() -> Result<(), String> {
    println!("consent: {PEOPLE} people, {CONSENTS} consents to one organization, {} lists of fields", FIELDS.len());
    let grantee = Organization::parse("Ministry of Health").map_err(|error| error.to_string())?;
    let columns = Columns::default();
    let resident_before = resident_mib();
    for first in (1..=PEOPLE).step_by(PAGE as usize) {
        columns.load_individuals(&(first..first + PAGE).map(person).collect::<Vec<_>>());
    }
    let resident_people = resident_mib();
    let started = Instant::now();
    for first in (1..=CONSENTS).step_by(PAGE as usize) {
        let page = (first..first + PAGE).map(|id| ChangedRecord::Consent(consent(id, &grantee)));
        columns.load(&page.collect::<Vec<_>>());
    }
    println!(
        "loading the consents: {:.2} s; resident: people {} MiB, consents {} MiB",
        started.elapsed().as_secs_f64(),
        resident_people.saturating_sub(resident_before),
        resident_mib().saturating_sub(resident_people)
    );
    let filter = ConsentFilter { organization: Some(grantee.clone()), purpose: None };
    let limits_now = || columns.snapshot().consented(Resource::Individual, &filter, TODAY);

    let withdrawals: Vec<f64> = (1..=50).map(|id| withdraw_and_look(&columns, id, &grantee, &limits_now)).collect();
    println!("what is consented to, after a consent was withdrawn: {}", summary(withdrawals));
    let warm: Vec<f64> = (0..REPEATS).map(|_| timed(&limits_now)).collect();
    println!("what is consented to, asked again: {}", summary(warm));

    let limits = limits_now();
    for (name, query) in queries() {
        let everything: Vec<f64> = (0..REPEATS).map(|_| search(&columns, &query, None)).collect();
        let consented: Vec<f64> = (0..REPEATS).map(|_| search(&columns, &query, Some(&limits))).collect();
        let found =
            |limits| columns.snapshot().search(&query, limits, Sorting::REGISTERED, &Page::default().into()).total;
        let (all, seen) =
            (found(SearchLimits::default()), found(SearchLimits { records: Some(&limits), groups: None }));
        println!("search by {name}: everything ({all} found) {}", summary(everything));
        println!("search by {name}: consented ({seen} found) {}", summary(consented));
    }
    Ok(())
}

/// Withdraws a consent and tells how long it takes until it is known who is seen.
fn withdraw_and_look(columns: &Columns, id: u64, grantee: &Organization, limits: &dyn Fn() -> Arc<RowLimits>) -> f64 {
    let given = consent(id, grantee);
    let details = ConsentDetails { is_withdrawn: true, ..given.details.clone() };
    let record = ChangedRecord::Consent(Arc::new(Record { details, ..Record::clone(&given) }));
    columns.apply(&[Change { sequence: Sequence(id), record }]);
    timed(limits)
}

fn timed<T>(what: &dyn Fn() -> T) -> f64 {
    let started = Instant::now();
    black_box(what());
    started.elapsed().as_secs_f64() * 1e6
}

fn search(columns: &Columns, query: &IndividualQuery, limits: Option<&RowLimits>) -> f64 {
    let snapshot = columns.snapshot();
    let limits = SearchLimits { records: limits, groups: None };
    timed(&|| snapshot.search(query, limits, Sorting::REGISTERED, &Page::default().into()))
}

fn queries() -> Vec<(&'static str, IndividualQuery)> {
    let gender = || vec![CodeCondition { field: CodedPlace::Field(CodedField::Gender), any_of: vec![CodeNumber(2)] }];
    let born = || vec![DateCondition { operator: DateOperator::Before, date: Date::constant(1966, 3, 1) }];
    let name = || vec!["diallo".to_owned()];
    vec![
        ("nothing", IndividualQuery::default()),
        ("gender", IndividualQuery { codes: gender(), ..IndividualQuery::default() }),
        ("birth_date", IndividualQuery { birth_date: born(), ..IndividualQuery::default() }),
        (
            "name",
            IndividualQuery {
                texts: TextConditions { name_words: name(), ..TextConditions::default() },
                ..IndividualQuery::default()
            },
        ),
        (
            "all three",
            IndividualQuery {
                codes: gender(),
                birth_date: born(),
                texts: TextConditions { name_words: name(), ..TextConditions::default() },
                ..IndividualQuery::default()
            },
        ),
    ]
}

/// A number that is made of another one and looks like chance.
fn scattered(id: u64) -> u64 {
    id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
}

fn record<D>(id: u64, details: D) -> Arc<Record<D>> {
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
    Arc::new(Record { id: RecordId(id), meta, details })
}

fn person(id: u64) -> Arc<Record<IndividualDetails>> {
    let chance = scattered(id);
    let family = FAMILIES.get((chance % 8) as usize).copied().unwrap_or_default();
    let gender = CodedValue { number: CodeNumber(1 + (chance % 2) as u32), edition: EditionNumber(1) };
    let days = i64::try_from(chance % 36_000).unwrap_or_default();
    let details = IndividualDetails {
        name: Some(PersonName { family: Some(family.into()), ..PersonName::default() }),
        birth_date: Date::constant(1926, 1, 1).checked_add(days.days()).ok(),
        codes: vec![(CodedField::Gender, gender)],
        ..IndividualDetails::default()
    };
    record(id, details)
}

/// The consent of every second person: since some day of the last two years, for a year, or without an end.
fn consent(id: u64, grantee: &Organization) -> Arc<Record<ConsentDetails>> {
    let chance = scattered(id.wrapping_add(PEOPLE));
    let ago = i64::try_from(chance % 730).unwrap_or_default();
    let first = TODAY.saturating_sub(ago.days());
    let fields = FIELDS.get((chance / 730 % 10) as usize).copied().unwrap_or_default();
    let details = ConsentDetails {
        id: ConsentId::from_bytes(u128::from(id).to_be_bytes()),
        subject: SubjectReference { kind: Subject::Individual, id: RecordId(2 * id) },
        grantee: grantee.clone(),
        purpose: None,
        effective_date: first,
        expiry_date: (!(chance / 7_300).is_multiple_of(3)).then(|| first.saturating_add(500.days())),
        resources: vec![Resource::Individual],
        fields: (!fields.is_empty()).then(|| fields.iter().map(|name| (*name).to_owned()).collect()),
        legal_basis: LegalBasis::Consent,
        is_withdrawn: false,
    };
    record(id, details)
}

/// Median and 99th part of a hundred of some times in microseconds.
pub(super) fn summary(mut times_us: Vec<f64>) -> String {
    times_us.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| times_us.get(((times_us.len() as f64 - 1.0) * part) as usize).copied().unwrap_or_default();
    format!("median {:.1} us, p99 {:.1} us", at(0.5), at(0.99))
}

/// How much memory this process has, in MiB.
fn resident_mib() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4_096 / (1 << 20)
}

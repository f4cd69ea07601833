//! A client with the legal basis `consent`: searches in process among a million individuals, half of whom consented;
//! over HTTP, a test of whether the response time distinguishes a hidden individual from a nonexistent one.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use daftar::columns::{Columns, RowLimits, SearchLimits};
use daftar::domain::change::{Change, ChangedRecord, Sequence};
use daftar::domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar::domain::consent::{self, ConsentDetails, ConsentFilter, ConsentId};
use daftar::domain::individual::{self, IndividualDetails};
use daftar::domain::organization::{LegalBasis, Organization};
use daftar::domain::person_name;
use daftar::domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};
use daftar::domain::scope::Resource;
use daftar::domain::search::{
    CodeCondition, CodedPlace, DateCondition, DateConditions, DateOperator, Page, Sorting, SubjectQuery, TextConditions,
};
use daftar::domain::value::{Reference, Values};
use daftar::domain::vocabulary::CodedField;
use jiff::ToSpan;
use jiff::civil::Date;

use crate::http::{Connection, get};
use crate::machine::resident_mib;
use crate::pairs::chance_of_longer;
use crate::people::path;
use crate::report::{Report, Row, Spread};
use crate::server::{Server, create_client};
use crate::setup::Setup;

const PEOPLE: u64 = 1_000_000;
const CONSENTS: u64 = 500_000;
/// Number of records loaded at a time.
const PAGE: u64 = 10_000;
/// Number of repetitions of each search.
const REPEATS: u64 = 300;
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

/// Number of responses of each kind that are timed over HTTP.
const CALLS: u64 = 20_000;
/// Number of individuals in the register that is queried over HTTP.
const ASKED: u64 = 10_000;

/// Measures both.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    searches(setup, report)?;
    timing(setup, report)
}

fn searches(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let part = if setup.is_smoke { 100 } else { 1 };
    let (people, consents) = (PEOPLE / part, CONSENTS / part);
    report.setting("people", people);
    report.setting("consents to one organization", consents);
    report.setting("searches of each kind", setup.times(REPEATS));
    let grantee = Organization::parse("Ministry of Health").map_err(|error| error.to_string())?;
    let columns = Columns::default();
    for first in (1..=people).step_by(PAGE as usize) {
        let page = (first..first + PAGE.min(people)).map(|id| ChangedRecord::Individual(person(id)));
        columns.load(&page.collect::<Vec<_>>());
    }
    let own = std::process::id();
    let before = resident_mib(own);
    for first in (1..=consents).step_by(PAGE as usize) {
        let page = (first..first + PAGE.min(consents)).map(|id| ChangedRecord::Consent(consent(id, &grantee)));
        columns.load(&page.collect::<Vec<_>>());
    }
    let memory = Spread::of([resident_mib(own) - before]);
    report.row(Row::new("consent.memory", "memory of the consents", "MiB", memory));
    let filter = ConsentFilter { organization: Some(grantee.clone()), purpose: None };
    let limits_now = || columns.snapshot().consented(Resource::Individual, &filter, TODAY);
    let us = |id: &str, what: String, times: Vec<f64>| Row::new(format!("consent.{id}"), what, "µs", Spread::of(times));
    let withdrawals = (1..=setup.times(50)).map(|id| withdraw_and_look(&columns, id, &grantee, &limits_now)).collect();
    report.row(us("after-withdrawal", "what is consented to, after a consent was withdrawn".to_owned(), withdrawals));
    let warm = (0..setup.times(REPEATS)).map(|_| timed(&limits_now)).collect();
    report.row(us("again", "what is consented to, asked again".to_owned(), warm));
    let limits = limits_now();
    for (id, name, query) in queries() {
        for (suffix, whose, limits) in
            [("all", "all people", None), ("consented", "what is consented to", Some(&*limits))]
        {
            let times = (0..setup.times(REPEATS)).map(|_| search(&columns, &query, limits)).collect();
            let limits = SearchLimits { records: limits, groups: None };
            let found = columns.snapshot().search(&query, limits, Sorting::REGISTERED, &Page::default().into()).total;
            report.row(us(
                &format!("{id}.{suffix}"),
                format!("search by {name}, {whose} ({found} found), in process"),
                times,
            ));
        }
    }
    Ok(())
}

/// Measures response times for a hidden individual and for a nonexistent one, alternately.
fn timing(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.filled("consent", setup.people(ASKED))?;
    let client = ["--legal-basis", "consent", "--organization", "Ministry of Health"];
    let client = create_client(&register.folder, None, &client)?;
    let server = Server::start(&register.folder)?;
    let token = server.token(&client)?;
    let mut connection = Connection::to(server.address)?;
    let (mut hidden, mut absent) = (Vec::new(), Vec::new());
    for call in 0..setup.times(CALLS) {
        let id = 1 + call % register.people;
        hidden.push(connection.timed(&get(&path(id), &token), 404)?.0);
        absent.push(connection.timed(&get(&path(id + 700_000_000), &token), 404)?.0);
    }
    let chance = Spread::of([chance_of_longer(&hidden, &absent) * 100.0]);
    for (id, what, times) in [("hidden", "a hidden person", hidden), ("absent", "a person who does not exist", absent)]
    {
        report.row(Row::new(format!("consent.{id}"), format!("GET of {what}, over HTTP"), "µs", Spread::of(times)));
    }
    let what = "pairs in which the hidden one takes longer; 50 means indistinguishable";
    report.row(Row::new("consent.told", what, "%", chance));
    server.stop()?;
    setup.remove(register)
}

/// Withdraws a consent and returns the time until the row limits of the client are recomputed.
fn withdraw_and_look(columns: &Columns, id: u64, grantee: &Organization, limits: &dyn Fn() -> Arc<RowLimits>) -> f64 {
    let given = consent(id, grantee);
    let details = given.details.clone().with(consent::WITHDRAWN, true);
    let record = ChangedRecord::Consent(Arc::new(Record { details, ..Record::clone(&given) }));
    columns.apply(&[Change { sequence: Sequence(id), record }]);
    timed(limits)
}

fn timed<T>(what: &dyn Fn() -> T) -> f64 {
    let started = Instant::now();
    black_box(what());
    started.elapsed().as_secs_f64() * 1e6
}

fn search(columns: &Columns, query: &SubjectQuery, limits: Option<&RowLimits>) -> f64 {
    let snapshot = columns.snapshot();
    let limits = SearchLimits { records: limits, groups: None };
    timed(&|| snapshot.search(query, limits, Sorting::REGISTERED, &Page::default().into()))
}

fn queries() -> Vec<(&'static str, &'static str, SubjectQuery)> {
    let gender = || vec![CodeCondition { field: CodedPlace::Field(CodedField::Gender), any_of: vec![CodeNumber(2)] }];
    let before_1966 = DateCondition { operator: DateOperator::Before, date: Date::constant(1966, 3, 1) };
    let born = || DateConditions::from([("birth_date", vec![before_1966])]);
    let name = || vec!["diallo".to_owned()];
    vec![
        ("nothing", "nothing", SubjectQuery::individuals()),
        ("gender", "gender", SubjectQuery { codes: gender(), ..SubjectQuery::individuals() }),
        ("birth-date", "birth_date", SubjectQuery { dates: born(), ..SubjectQuery::individuals() }),
        (
            "name",
            "name",
            SubjectQuery {
                texts: TextConditions { name_words: name(), ..TextConditions::default() },
                ..SubjectQuery::individuals()
            },
        ),
        (
            "three",
            "all three",
            SubjectQuery {
                codes: gender(),
                dates: born(),
                texts: TextConditions { name_words: name(), ..TextConditions::default() },
                ..SubjectQuery::individuals()
            },
        ),
    ]
}

/// Returns a pseudo-random number derived from another one.
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
    let name: Values = Values::default().with(person_name::FAMILY, family.to_owned());
    let details = IndividualDetails::default()
        .with(individual::NAME, name)
        .with(individual::BIRTH_DATE, Date::constant(1926, 1, 1).checked_add(days.days()).ok())
        .with(individual::GENDER, gender);
    record(id, details)
}

/// Returns the consent of every second individual: since a day of the last two years, for a year, or without an end.
fn consent(id: u64, grantee: &Organization) -> Arc<Record<ConsentDetails>> {
    let chance = scattered(id.wrapping_add(PEOPLE));
    let ago = i64::try_from(chance % 730).unwrap_or_default();
    let first = TODAY.saturating_sub(ago.days());
    let fields = FIELDS.get((chance / 730 % 10) as usize).copied().unwrap_or_default();
    let names = || fields.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let last = || first.saturating_add(500.days());
    let details = ConsentDetails::default()
        .with(consent::CONSENT_ID, ConsentId::from_bytes(u128::from(id).to_be_bytes()))
        .with(consent::SUBJECT, Reference { kind: RecordKind::Individual, id: RecordId(2 * id) })
        .with(consent::GRANTEE, grantee.as_str().to_owned())
        .with(consent::EFFECTIVE_DATE, first)
        .with(consent::EXPIRY_DATE, (!(chance / 7_300).is_multiple_of(3)).then(last))
        .with(consent::SCOPES, vec![Resource::Individual])
        .with(consent::FIELD_NAMES, (!fields.is_empty()).then(names))
        .with(consent::LEGAL_BASIS, LegalBasis::Consent);
    record(id, details)
}

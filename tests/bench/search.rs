//! Sequential searches of people over HTTP, each with its exact total and a page of 20; pages of lists, the first and
//! one far down.

use crate::http::{Connection, get};
use crate::people::{Dice, SEED, day, name};
use crate::read;
use crate::report::{Report, Row, Spread, percentile};
use crate::server::Server;
use crate::setup::Setup;

/// Number of repetitions of each search in a round.
const TIMES: u64 = 60;

/// A search: its identifier, its description and the query of a number.
type Search = (&'static str, &'static str, fn(&mut Dice, u64) -> String);

const SEARCHES: &[Search] = &[
    ("identifier", "by identifier", |dice, people| {
        let id = crate::people::national_id(dice.below(people) + 1);
        format!("identifier=urn:svc:vocab:id-type%23national_id%7C{id}")
    }),
    ("name", "by one word of a name", |dice, _| format!("name={}", word(dice))),
    ("name-begin", "by the beginning of a name, `tra`", |_, _| "name=tra".to_owned()),
    ("address", "by words of an address", |dice, _| format!("address=rue%20{}", dice.below(200))),
    ("region", "by region", |_, _| "region=central".to_owned()),
    ("gender", "by gender", |dice, _| gender(dice)),
    ("occupation", "by occupation and all below", |dice, _| occupation(dice)),
    ("birth-date", "by five years of birth dates", |dice, _| born(dice)),
    ("all", "all people", |_, _| String::new()),
    ("active", "by `active=true`", |_, _| "active=true".to_owned()),
    ("written", "by `_last_updated`", |_, _| "_last_updated=ge2020-01-01".to_owned()),
    ("role", "by role in a household", |_, _| "membership_role=urn:svc:vocab:relationship%23head".to_owned()),
    ("no-group", "by `group=none`", |_, _| "group=none".to_owned()),
    ("combined", "by occupation, gender, region, birth dates and `active`", |dice, _| combined(dice)),
    ("all-by-name", "all people, sorted by name", |_, _| "_sort=name".to_owned()),
    ("all-by-written", "all people, sorted by last write, newest first", |_, _| "_sort=-_last_updated".to_owned()),
    ("all-by-birth-date", "all people, sorted by birth date and name", |_, _| "_sort=-birth_date,name".to_owned()),
    ("all-by-occupation", "all people, sorted by occupation and name", |_, _| "_sort=occupation,name".to_owned()),
    ("gender-by-name", "by gender, sorted by name", |dice, _| format!("{}&_sort=name", gender(dice))),
    ("combined-by-name", "by all of these, sorted by birth date and name", |dice, _| {
        format!("{}&_sort=-birth_date,name", combined(dice))
    }),
    ("page-100", "a page of 100 of all people", |_, _| "_count=100".to_owned()),
    ("page-far", "all people, sorted by name, the page in the middle by `_offset`", |_, people| {
        format!("_sort=name&_offset={}", people / 2)
    }),
];

/// Measures everything.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.shared(setup.people(read::PEOPLE))?;
    report.setting("people", register.people);
    report.setting("searches a round", setup.times(TIMES));
    report.setting("connections", 1);
    let server = Server::start(&register.folder)?;
    let token = server.token(&register.client)?;
    let mut connection = Connection::to(server.address)?;
    for (id, what, query) in SEARCHES {
        let request = |number: u64| {
            let mut dice = Dice::new(SEED, number);
            let query = query(&mut dice, register.people);
            let count = if query.contains("_count") { "" } else { "&_count=20" };
            get(&format!("/api/v2/Individual?{query}{count}").replace("?&", "?"), &token)
        };
        let total = connection.json(&request(0), 200)?.pointer("/meta/total").and_then(serde_json::Value::as_u64);
        let (mut medians, mut p99s) = (Vec::new(), Vec::new());
        for round in 0..setup.rounds() {
            let mut times = Vec::new();
            for number in 0..setup.times(TIMES) {
                times.push(connection.timed(&request(round * TIMES + number), 200)?.0 / 1e3);
            }
            times.sort_unstable_by(f64::total_cmp);
            medians.push(percentile(&times, 0.5));
            p99s.push(percentile(&times, 0.99));
        }
        let target = if id.starts_with("all-by") { "8 ms" } else { "10 ms" };
        let found = total.map_or_else(String::new, |total| format!(" ({total} found once)"));
        report.row(Row::new(format!("search.{id}"), format!("{what}{found}: median"), "ms", Spread::of(medians)));
        let p99 = Row::new(format!("search.{id}.p99"), format!("{what}: p99"), "ms", Spread::of(p99s));
        report.row(if *id == "page-far" { p99 } else { p99.target(target) });
    }
    server.stop().map(drop)
}

fn word(dice: &mut Dice) -> String {
    let words = name(dice).into_iter().flatten().flat_map(|part| part.split(' ')).map(crate::http::encoded);
    words.into_iter().next().unwrap_or_default()
}

fn gender(dice: &mut Dice) -> String {
    format!("gender=urn:iso:std:iso:5218%23{}", 1 + dice.below(2))
}

fn occupation(dice: &mut Dice) -> String {
    format!("occupation:below=urn:ilo:isco-08%23{}", dice.below(10))
}

fn born(dice: &mut Dice) -> String {
    let first = i64::try_from(dice.below(16_000)).unwrap_or_default() - 12_000;
    format!("birth_date=ge{}&birth_date=lt{}", day(first), day(first + 1_826))
}

fn combined(dice: &mut Dice) -> String {
    let (occupation, gender, born) = (occupation(dice), gender(dice), born(dice));
    format!("{occupation}&{gender}&{born}&region=central&active=true")
}

//! `$preview` over a complete register, over HTTP: after a start, with columns in memory, and of a rule over a field
//! without a column; the latency of concurrent reads, and the memory.

use serde_json::{Value, json};

use crate::engine::RULES;
use crate::http::{Connection, send};
use crate::load::{Load, cycle};
use crate::read::{self, all_people};
use crate::report::{Report, Row, Spread};
use crate::server::Server;
use crate::setup::Setup;

/// Number of repetitions of each preview once the columns are in memory.
const TIMES: u64 = 21;
/// Number of starts of the server for a first preview.
const STARTS: u64 = 5;
/// A rule over a field without a column: facts read from records are cached for the next preview.
pub const OF_RECORDS: &str = "me.address.exists(a, a.region == 'Northern')";

/// The rule that rule A is compared with: two other ages.
const COMPARED: &str =
    "me.gender == code('urn:iso:std:iso:5218#2') && age_years(me.birth_date) >= 21 && age_years(me.birth_date) < 65";

/// Measures everything.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.shared(setup.people(read::PEOPLE))?;
    report.setting("people", register.people);
    report.setting("previews of each rule", setup.times(TIMES));
    let ms = |id: &str, what: &str, times: Vec<f64>| Row::new(format!("preview.{id}"), what, "ms", Spread::of(times));
    let (mut first, mut both) = (Vec::new(), Vec::new());
    for _ in 0..setup.times(STARTS) {
        let server = Server::start(&register.folder)?;
        let token = server.token(&register.client)?;
        let mut connection = Connection::to(server.address)?;
        let rule = RULES.first().ok_or("there is no rule")?;
        first.push(ask(&mut connection, &preview(&token, rule.subject_name(), rule.expression), register.people)?);
        both.push(server.start_ms + first.last().copied().unwrap_or_default());
        server.stop()?;
    }
    report.row(ms("first", "rule A, all people: the first preview after a start from the checkpoint", first));
    report.row(
        ms("start-and-first", "a start from the checkpoint and the first preview together", both).target("500 ms"),
    );

    let server = Server::start(&register.folder)?;
    server.ready()?;
    let token = server.token(&register.client)?;
    let mut connection = Connection::to(server.address)?;
    let before = server.resident_mib();
    for rule in &RULES {
        let request = preview(&token, rule.subject_name(), rule.expression);
        let least = if rule.name == "B" { 0 } else { register.people };
        ask(&mut connection, &request, least)?;
        let mut times = Vec::new();
        for _ in 0..setup.times(TIMES) {
            times.push(ask(&mut connection, &request, least)?);
        }
        let what = format!("rule {}, all {}s, columns in memory", rule.name, rule.subject_name());
        report.row(ms(&format!("rule-{}", rule.name.to_lowercase()), &what, times).target(rule.preview_target));
    }
    comparison(setup, report, &mut connection, &token, register.people)?;
    let request = preview(&token, "individual", OF_RECORDS);
    let first = ask(&mut connection, &request, register.people)?;
    report.row(
        ms("records.first", "a rule over regions of addresses: the first preview", vec![first]).target("1,500 ms"),
    );
    let mut times = Vec::new();
    for _ in 0..setup.times(TIMES) {
        times.push(ask(&mut connection, &request, register.people)?);
    }
    report.row(ms("records.later", "a rule over regions of addresses: later previews", times).target("60 ms"));
    report.row(Row::new("preview.memory-before", "memory before previews", "MiB", Spread::of([before])));
    let memory = Row::new("preview.memory-after", "memory after them", "MiB", Spread::of([server.resident_mib()]));
    report.row(memory.target("350 MB"));
    reads_during_previews(setup, report, &server, &token, register.people)?;
    server.stop().map(drop)
}

/// Measures rule A alone and compared with a second rule, in turn.
fn comparison(
    setup: &Setup,
    report: &mut Report,
    connection: &mut Connection,
    token: &str,
    people: u64,
) -> Result<(), String> {
    let rule = RULES.first().ok_or("there is no rule")?;
    let alone = preview(token, rule.subject_name(), rule.expression);
    let compared = send_preview(
        token,
        &json!({"expression": rule.expression, "subject": rule.subject_name(), "as_of": AS_OF, "compare": COMPARED}),
    );
    let (mut times, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..setup.times(TIMES) {
        let of_one = ask(connection, &alone, people)?;
        let of_both = ask(connection, &compared, people)?;
        times.push(of_both);
        ratios.push(of_both / of_one);
    }
    let what = "rule A compared with a second rule, all individuals, columns in memory";
    let row = Row::new("preview.compared", what, "ms", Spread::of(times)).target("1.3 of one rule");
    report.row(row.ratio("one rule", Spread::of(ratios)));
    Ok(())
}

/// The day of all previews.
const AS_OF: &str = "2026-03-01";

/// Returns a request for a preview.
pub fn preview(token: &str, subject: &str, expression: &str) -> Vec<u8> {
    send_preview(token, &json!({"expression": expression, "subject": subject, "as_of": AS_OF}))
}

fn send_preview(token: &str, body: &Value) -> Vec<u8> {
    send("POST", "/api/v2/Eligibility/$preview", token, "", &body.to_string())
}

/// Runs a preview, which has to cover at least `least` subjects. Returns its duration in milliseconds.
pub fn ask(connection: &mut Connection, request: &[u8], least: u64) -> Result<f64, String> {
    let (time_us, body) = connection.timed(request, 200)?;
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let total = body.get("total").and_then(Value::as_u64).unwrap_or_default();
    if total < least.max(1) {
        return Err(format!("a preview counted {total}: {body}"));
    }
    Ok(time_us / 1e3)
}

/// Measures reads alone, and during consecutive previews.
fn reads_during_previews(
    setup: &Setup,
    report: &mut Report,
    server: &Server,
    token: &str,
    people: u64,
) -> Result<(), String> {
    const CONNECTIONS: usize = 2;
    let reads = all_people(people, token.to_owned());
    let previews = RULES.iter().map(|rule| preview(token, rule.subject_name(), rule.expression));
    let previews = cycle(previews.collect());
    let load = Load::new(server.address, CONNECTIONS, setup.window());
    let (mut alone, mut beside, mut requested) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setup.rounds() {
        alone.push(load.run(&reads)?);
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| load.run(&previews));
            beside.push(load.run(&reads)?);
            requested.push(asking.join().map_err(|_| "the previews failed".to_owned())??);
            Ok::<_, String>(())
        })?;
    }
    for (id, when, taken) in [("alone", "alone", &alone), ("beside", "beside previews", &beside)] {
        for (part, of) in [(0.5, "median"), (0.99, "p99")] {
            let what = format!("read by identifier, {CONNECTIONS} connections, {when}: {of}");
            let times = Spread::of(taken.iter().map(|taken| taken.ms(0, part)));
            report.row(Row::new(format!("preview.read-{id}.{of}"), what, "ms", times));
        }
    }
    let rate = Spread::of(requested.iter().map(crate::load::Taken::per_second));
    report.row(Row::new("preview.beside", "previews beside these reads", "1/s", rate));
    Ok(())
}

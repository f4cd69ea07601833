//! Codes over HTTP, with every plugin and module that was built: one code, searches with misspelt labels, starts and
//! memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::http::{Connection, encoded, get};
use crate::load::{Load, cycle};
use crate::people::{Dice, SEED};
use crate::report::{Report, Row, Spread};
use crate::rounds::Rounds;
use crate::server::Server;
use crate::setup::{Setup, everything};

/// Number of searches with misspelt labels.
const QUERIES: u64 = 1_000;
/// Maximum number of codes of a vocabulary that are read for labels.
const CODES_MAX: u64 = 500;
/// Fewer letters than this are not misspelt: another word would come out too often.
const LETTERS_MIN: usize = 5;

/// Measures everything.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.empty("codes")?;
    let plugins = everything(&register.folder)?;
    Server::start_with(&register.folder, None, &plugins)?.stop()?;
    let (mut times, mut resident) = (Vec::new(), Vec::new());
    for _ in 0..setup.times(5) {
        let server = Server::start_with(&register.folder, None, &plugins)?;
        times.push(server.start_ms);
        // The indexes for search are made right after the start.
        std::thread::sleep(setup.window());
        resident.push(server.resident_mib());
        server.stop()?;
    }
    let what = "start with every plugin and module, until the server listens";
    report.row(Row::new("codes.start", what, "ms", Spread::of(times)).target("300 ms"));
    report.row(Row::new("codes.memory", "memory after it", "MiB", Spread::of(resident)).target("150 MB"));

    let server = Server::start_with(&register.folder, None, &plugins)?;
    let token = server.token(&register.client)?;
    let labels = labels(&server, &token)?;
    report.setting("codes", labels.len());
    let one: Vec<Vec<u8>> = labels.keys().map(|uri| get(&code_path(uri), &token)).collect();
    let make = cycle(one);
    for connections in [1, 8] {
        let load = Load::new(server.address, connections, setup.window());
        let rounds = Rounds::measure(setup.rounds(), || server.processor_seconds(), || load.run(&make))?;
        let what = format!("one code, {}", crate::load::connections(connections));
        rounds.rows(report, &format!("codes.one-{connections}"), &what, [None, None]);
    }
    search(setup, report, &server, &token, &labels)?;
    server.stop()?;
    setup.remove(register)
}

fn code_path(uri: &str) -> String {
    let (namespace, code) = uri.split_once('#').unwrap_or((uri, ""));
    format!("/api/v2/Vocabulary/{namespace}/codes/{}", encoded(code))
}

/// Labels by code, of every vocabulary that lists its codes.
fn labels(server: &Server, token: &str) -> Result<BTreeMap<String, String>, String> {
    let mut connection = Connection::to(server.address)?;
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let list = |page: &Value| page.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
    let vocabularies = connection.json(&get("/api/v2/Vocabulary?_count=100", token), 200)?;
    let mut labels = BTreeMap::new();
    for namespace in list(&vocabularies).iter().filter_map(|one| text(one, "namespace")) {
        for offset in (0..CODES_MAX).step_by(100) {
            let path = format!("/api/v2/Vocabulary/{namespace}/codes?_count=100&_offset={offset}");
            let codes = list(&connection.json(&get(&path, token), 200)?);
            let is_last = codes.len() < 100;
            labels.extend(codes.iter().filter_map(|code| Some((text(code, "uri")?, text(code, "display")?))));
            if is_last {
                break;
            }
        }
    }
    if labels.is_empty() { Err("there are no codes".to_owned()) } else { Ok(labels) }
}

/// Searches all vocabularies for labels with one typing error.
fn search(
    setup: &Setup,
    report: &mut Report,
    server: &Server,
    token: &str,
    labels: &BTreeMap<String, String>,
) -> Result<(), String> {
    let all: Vec<(&String, &String)> = labels.iter().collect();
    let wanted = setup.times(QUERIES) as usize;
    let mut queries = Vec::new();
    for number in 0..QUERIES * 20 {
        let mut dice = Dice::new(SEED, number);
        let Some((uri, label)) = all.get(dice.below(all.len() as u64) as usize) else { break };
        if let Some(text) = misspelt(label, &mut dice).filter(|text| text != *label && queries.len() < wanted) {
            queries.push((*uri, get(&format!("/api/v2/Vocabulary/$search?_count=20&q={}", encoded(&text)), token)));
        }
    }
    let mut connection = Connection::to(server.address)?;
    let (mut times, mut within_five) = (Vec::new(), 0);
    for (uri, request) in &queries {
        let (time_us, body) = connection.timed(request, 200)?;
        times.push(time_us / 1e3);
        let page: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let found = page.get("data").and_then(Value::as_array).into_iter().flatten().take(5);
        within_five += usize::from(found.filter_map(|code| code.get("uri")?.as_str()).any(|found| found == *uri));
    }
    times.sort_unstable_by(f64::total_cmp);
    let p99 = crate::report::percentile(&times, 0.99);
    let what = format!("search of all vocabularies for {} misspelt labels, 1 connection", queries.len());
    report.row(Row::new("codes.search", what.clone(), "ms", Spread::of(times)));
    report.row(Row::new("codes.search.p99", format!("{what}: p99"), "ms", Spread::of([p99])).target("5 ms"));
    let recall = within_five as f64 * 100.0 / queries.len().max(1) as f64;
    report.row(Row::new("codes.recall", "the code that was meant is among the first five", "%", Spread::of([recall])));
    let requests = Arc::new(queries.into_iter().map(|(_, request)| request).collect::<Vec<_>>());
    let load = Load::new(server.address, 8, setup.window());
    let rounds =
        Rounds::measure(setup.rounds(), || server.processor_seconds(), || load.run(&cycle(requests.to_vec())))?;
    rounds.rows(report, "codes.search-8", "the same, 8 connections", [None, None]);
    Ok(())
}

/// A label with one letter of one word left out, doubled, changed or swapped with the next; none where no word is long
/// enough.
fn misspelt(label: &str, dice: &mut Dice) -> Option<String> {
    let is_long = |word: &str| word.chars().filter(|letter| letter.is_alphabetic()).count() >= LETTERS_MIN;
    let mut words: Vec<String> = label.split(' ').map(str::to_owned).collect();
    let mut long: Vec<&mut String> = words.iter_mut().filter(|word| is_long(word)).collect();
    let chosen = dice.below(long.len() as u64) as usize;
    let word = long.get_mut(chosen)?;
    let letters: Vec<char> = word.chars().collect();
    let place = 1 + dice.below(letters.len().checked_sub(2)? as u64) as usize;
    let (before, after) = letters.split_at_checked(place)?;
    let (previous, letter, rest) = (before.last()?, after.first()?, after.get(1..)?);
    **word = match dice.below(4) {
        0 => before.iter().chain(rest).collect(),
        1 => before.iter().chain([letter, letter]).chain(rest).collect(),
        2 => before.iter().chain([if *letter == 'e' { &'a' } else { previous }]).chain(rest).collect(),
        _ => {
            let (next, rest) = rest.split_first()?;
            before.iter().chain([next, letter]).chain(rest).collect()
        }
    };
    Some(words.join(" "))
}

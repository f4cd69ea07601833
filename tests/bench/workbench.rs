//! Waiting times of a person at the workbench, in a headless browser: until the page can be used, and the longest time
//! for which it is unresponsive during previews of a hundred thousand people.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::report::{Report, Row, Spread};
use crate::server::{Server, artifacts, run as run_command};
use crate::setup::Setup;

/// Number of people in the register.
const PEOPLE: u64 = 100_000;
/// Time without requests from a browser's address between two rounds.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(30);
/// The scripts that drive the browser.
const SCRIPTS: [&str; 2] = ["leader.mjs", "measure.mjs"];

/// Measures it, each round in a browser without cached files.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.filled("workbench", setup.people(PEOPLE))?;
    report.setting("people", register.people);
    let server = Server::start(&register.folder)?;
    let place = artifacts()?.join("clients/browser");
    for script in SCRIPTS {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("workbench").join(script);
        std::fs::copy(source, place.join(script)).map_err(|error| format!("`{script}`: {error}"))?;
    }
    let given = json!({
        "url": format!("http://{}", server.address),
        "chromium": chromium()?,
        "pictures": register.folder.join("pictures"),
        "client": client(&register.folder)?,
        "rule": "is_female(me) && age_years(me.birth_date) >= 60",
        "other": "age_years(me.birth_date) >= 65",
    });
    let mut rounds: Vec<serde_json::Map<String, Value>> = Vec::new();
    for round in 0..setup.times(5) {
        // A browser has one address, and requests without a token are limited per minute.
        if round > 0 {
            std::thread::sleep(BETWEEN_ROUNDS);
        }
        rounds.push(measure(&place, &given)?);
    }
    let names: Vec<String> = rounds.first().into_iter().flat_map(|round| round.keys().cloned()).collect();
    for name in names {
        let values = Spread::of(rounds.iter().filter_map(|round| round.get(&name)?.as_f64()));
        let what = name.trim_end_matches("_ms").replace('_', " ");
        let row = Row::new(format!("workbench.{}", what.replace(' ', "-")), what.clone(), "ms", values);
        report.row(match what.as_str() {
            "first contentful paint" => row.target("1,000 ms"),
            what if what.ends_with("longest task") => row.target("100 ms"),
            _ => row,
        });
    }
    server.stop()?;
    setup.remove(register)
}

/// A client as an analyst has it, with ordinary limits.
fn client(folder: &Path) -> Result<Value, String> {
    let mut arguments = vec!["client", "create", "--name", "analyst", "--rate-limit-per-minute", "600"];
    for scope in ["eligibility:read", "individual:read", "group:read", "vocabulary:read"] {
        arguments.extend(["--scope", scope]);
    }
    run_command(folder, None, &arguments)
}

fn chromium() -> Result<std::path::PathBuf, String> {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&places).map(|folder| folder.join("chromium")).find(|path| path.is_file());
    found.ok_or_else(|| "`chromium` is not on this machine".to_owned())
}

/// One round in a browser of its own.
fn measure(place: &Path, given: &Value) -> Result<serde_json::Map<String, Value>, String> {
    let mut node = Command::new("node");
    node.arg(place.join("measure.mjs")).env("DAFTAR_WORKBENCH_WALK", given.to_string()).stdin(Stdio::null());
    let output = node.output().map_err(|error| format!("`node`: {error}"))?;
    let reported = String::from_utf8_lossy(&output.stdout);
    let figures = reported.lines().find_map(|line| line.strip_prefix("figures "));
    let figures = figures.and_then(|text| serde_json::from_str(text).ok());
    figures.ok_or_else(|| format!("the browser came to no end: {reported}{}", String::from_utf8_lossy(&output.stderr)))
}

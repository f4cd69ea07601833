//! Latency of ordinary requests while a plugin misbehaves, and time until an endless loop is stopped, measured at the
//! client.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;

use crate::http::{Connection, get, send};
use crate::load::{Load, cycle};
use crate::people::path;
use crate::report::{Report, Row, Spread};
use crate::server::{Server, artifacts};
use crate::setup::Setup;

/// The engine that misbehaves as its expression specifies.
const ENGINE: &str = "misbehaving-engine";
/// The kinds of misbehaviour, in this order.
const MISDEEDS: [&str; 6] = ["loop", "panic", "allocate", "recurse", "log", "flood"];
/// The guests that the server accepts, so that repeated rejection cannot be measured.
const ACCEPTED: [&str; 2] = [ENGINE, "chatty"];
/// Number of connections that send ordinary requests.
const CONNECTIONS: usize = 2;
/// The time limit of a call, in milliseconds.
const CALL_MS: u32 = 200;
/// Number of concurrent hostile requests: one for each plugin thread of a machine with two cores, and the same number
/// waiting.
const HOSTILE: usize = 4;
/// Number of individuals in the register.
const PEOPLE: u64 = 10_000;

/// Measures every kind of misbehaviour.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.filled("hostile", setup.people(PEOPLE))?;
    report.setting("people", register.people);
    report.setting("ordinary connections", CONNECTIONS);
    report.setting("hostile requests at a time", HOSTILE);
    // The fuel budget is so large that the time limit stops the call.
    let config = format!(
        "[plugins]\nengine = \"{ENGINE}\"\nallow_unsigned = true\n\n[plugins.limits.{ENGINE}]\ncall_ms = {CALL_MS}\nfuel_base = 50000000000\n"
    );
    let server = Server::start_configured(&register.folder, &config)?;
    let fixtures = artifacts()?.join("fixtures");
    let file = |name: &str| fixtures.join(format!("{name}.wasm")).display().to_string();
    server.command(&["plugin", "install", "--allow-unsigned", &file(ENGINE)])?;
    let token = server.token(&register.client)?;
    let mut stopped = Vec::new();
    for misdeed in MISDEEDS {
        let request = evaluate(&token, misdeed);
        let again = || Ok(Connection::to(server.address)?.exchange(&request)?.0 >= 400);
        measure(setup, report, &server, &token, misdeed, HOSTILE, &again)?;
    }
    let names = std::fs::read_dir(&fixtures).map_err(|error| error.to_string())?.flatten();
    let names = names.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".wasm").map(str::to_owned));
    let mut names: Vec<String> = names.filter(|name| !ACCEPTED.contains(&name.as_str())).collect();
    names.sort();
    for name in names.iter().take(if setup.is_smoke { 1 } else { usize::MAX }) {
        let file = file(name);
        let again = || Ok(server.command(&["plugin", "install", "--allow-unsigned", &file]).is_err());
        measure(setup, report, &server, &token, &format!("install-{name}"), 1, &again)?;
    }
    server.stop()?;
    // A separate server: an engine that fails repeatedly is suspended for some time.
    for _ in 0..setup.times(3) {
        let server = Server::start_configured(&register.folder, &config)?;
        let token = server.token(&register.client)?;
        let started = std::time::Instant::now();
        let mut connection = Connection::to(server.address)?;
        let (status, _) = connection.exchange(&evaluate(&token, "loop"))?;
        stopped.push(started.elapsed().as_secs_f64() * 1e3 / f64::from(CALL_MS));
        if status < 400 {
            return Err("an endless loop was not stopped".to_owned());
        }
        server.stop()?;
    }
    let what = "an endless loop is stopped after so many times its time limit";
    report.row(Row::new("hostile.stop", what, "×", Spread::of(stopped)).target("1.2"));
    setup.remove(register)
}

fn evaluate(token: &str, misdeed: &str) -> Vec<u8> {
    let subjects = json!([{"type": "individual", "active": true}]);
    let body = json!({"expression": format!("{misdeed} in compile"), "subjects": subjects}).to_string();
    send("POST", "/api/v2/Eligibility/$evaluate", token, "", &body)
}

/// Measures ordinary reads alone and while a hostile request is repeated, which has to be rejected each time.
fn measure(
    setup: &Setup,
    report: &mut Report,
    server: &Server,
    token: &str,
    what: &str,
    senders: usize,
    again: &(dyn Fn() -> Result<bool, String> + Sync),
) -> Result<(), String> {
    let reads = cycle((1..=setup.people(PEOPLE)).map(|id| get(&path(id), token)).collect());
    let load = Load::new(server.address, CONNECTIONS, setup.window());
    let alone = load.run(&reads)?;
    let (is_over, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let beside = std::thread::scope(|scope| {
        let (is_over, calls) = (&is_over, &calls);
        let senders: Vec<_> = (0..senders)
            .map(|_| {
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        if !again()? {
                            return Err("a misdeed was not rejected".to_owned());
                        }
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let beside = load.run(&reads);
        is_over.store(true, Ordering::Relaxed);
        for sender in senders {
            sender.join().map_err(|_| "a sender failed".to_owned())??;
        }
        beside
    })?;
    let described = format!("reads beside `{what}` (rejected {} times)", calls.load(Ordering::Relaxed));
    for (part, name, target) in [(0.5, "median", Some("2 × alone")), (0.99, "p99", None)] {
        let row = Row::new(
            format!("hostile.{what}.{name}"),
            format!("{described}: {name}"),
            "ms",
            Spread::of([beside.ms(0, part)]),
        );
        let row = row.ratio(
            format!("alone ({:.3} ms)", alone.ms(0, part)),
            Spread::of([beside.ms(0, part) / alone.ms(0, part)]),
        );
        report.row(target.into_iter().fold(row, Row::target));
    }
    Ok(())
}

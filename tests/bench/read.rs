//! `GET /Individual/{identifier}` and `/health/live` over 16 connections, against a bare server that sends the same
//! bytes: with a warm and a cold response cache, with the default log and with the log level `warn`.

use std::sync::Arc;

use crate::bare::Bare;
use crate::http::{Connection, get};
use crate::load::{Load, Make, cycle};
use crate::people::{any, path};
use crate::report::{Report, Row, Spread};
use crate::rounds::Rounds;
use crate::server::Server;
use crate::setup::Setup;

/// Number of individuals in the register: many more than the response cache can store.
pub const PEOPLE: u64 = 1_000_000;
/// Number of individuals that are read for a warm response cache.
const WARM_PEOPLE: u64 = 100;
/// Number of connections that send concurrently.
const CONNECTIONS: usize = 16;
/// The fraction of the closed loop's rate at which the open loop sends.
const OPEN_PART: f64 = 0.5;
const LIVE: &[u8] = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Measures everything.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.shared(setup.people(PEOPLE))?;
    report.setting("people", register.people);
    report.setting("connections", CONNECTIONS);
    report.setting("people read, warm", WARM_PEOPLE);
    let server = Server::start(&register.folder)?;
    let token = server.token(&register.client)?;
    let warm = cycle((1..=WARM_PEOPLE).map(|id| get(&path(id), &token)).collect());

    let response = Connection::to(server.address)?.whole(&get(&path(1), &token), 200)?;
    let bare = Bare::start(setup.scratch(), &response)?;
    let what = "read by identifier, response cache warm";
    let rounds = against(setup, &server, &bare, &warm)?;
    rounds.rows(report, "read.warm", what, [Some("0.65 of bare axum"), None]);
    open(setup, report, &server, &warm, rounds.rate(), "read.warm", what)?;

    let cold = all_people(register.people, token);
    let what = "read by identifier, any of all people, response cache cold";
    let rounds = against(setup, &server, &bare, &cold)?;
    rounds.rows(report, "read.cold", what, [Some("0.40 of bare axum"), Some("3 ms")]);
    open(setup, report, &server, &cold, rounds.rate(), "read.cold", what)?;

    let response = Connection::to(server.address)?.whole(LIVE, 200)?;
    let bare_live = Bare::start(setup.scratch(), &response)?;
    let rounds = against(setup, &server, &bare_live, &cycle(vec![LIVE.to_vec()]))?;
    rounds.rows(report, "read.live", "`/health/live`", [Some("0.85 of bare axum"), None]);
    drop(bare_live);
    server.stop()?;

    let server = Server::start_configured(&register.folder, "[log]\nlevel = \"warn\"\n")?;
    let token = server.token(&register.client)?;
    let warm = cycle((1..=WARM_PEOPLE).map(|id| get(&path(id), &token)).collect());
    let rounds = against(setup, &server, &bare, &warm)?;
    let what = "read by identifier, response cache warm, log level `warn`";
    rounds.rows(report, "read.warm-warn", what, [Some("0.70 of bare axum"), None]);
    server.stop().map(drop)
}

/// Returns read requests of individuals, uniformly distributed.
pub fn all_people(people: u64, token: String) -> Make {
    Arc::new(move |number, buffer| {
        buffer.extend_from_slice(&get(&path(any(number, people)), &token));
        Some(0)
    })
}

fn against(setup: &Setup, server: &Server, bare: &Bare, make: &Make) -> Result<Rounds, String> {
    let (ours, theirs) =
        (Load::new(server.address, CONNECTIONS, setup.window()), Load::new(bare.address, CONNECTIONS, setup.window()));
    // Both are measured after a warm-up.
    for load in [&ours, &theirs] {
        Load { duration: load.duration / 3, ..load.clone() }.run(make)?;
    }
    // Each round sends different requests than the previous one if they cover all individuals.
    let round = std::cell::Cell::new(1_u64);
    let shifted = || {
        let (make, first) = (Arc::clone(make), round.get() * 10_000_000);
        let shifted: Make = Arc::new(move |number, buffer| make(first + number, buffer));
        round.set(round.get() + 1);
        shifted
    };
    Rounds::against(setup.rounds(), || server.processor_seconds(), || ours.run(&shifted()), || theirs.run(&shifted()))
}

/// Measures response times at a fixed rate, from the scheduled time of each request.
fn open(
    setup: &Setup,
    report: &mut Report,
    server: &Server,
    make: &Make,
    rate: f64,
    id: &str,
    what: &str,
) -> Result<(), String> {
    let load = Load::new(server.address, CONNECTIONS, setup.window());
    let mut p99s = Vec::new();
    for round in 0..setup.rounds() {
        let (make, first) = (Arc::clone(make), (100 + round) * 10_000_000);
        let shifted: Make = Arc::new(move |number, buffer| make(first + number, buffer));
        p99s.push(load.run_open(rate * OPEN_PART, &shifted)?.ms(0, 0.99));
    }
    let what = format!("{what}: p99 at {:.0} a second, open loop", rate * OPEN_PART);
    report.row(Row::new(format!("{id}.open-p99"), what, "ms", Spread::of(p99s)));
    Ok(())
}

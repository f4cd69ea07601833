//! Latency of ordinary clients while others are rejected as fast as they can send; and the limiter with a million
//! addresses, in process.

mod memory;

use crate::http::get;
use crate::load::{Load, Taken, cycle};
use crate::people::path;
use crate::report::{Report, Row, Spread};
use crate::server::{Server, create_client};
use crate::setup::Setup;

/// Number of connections of ordinary clients, and their requests per second in all.
const ORDINARY: (usize, f64) = (4, 400.0);
/// The same of rejected clients.
const REJECTED: (usize, f64) = (32, 20_000.0);
/// Number of people in the register.
const PEOPLE: u64 = 10_000;

/// Measures both.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.filled("limits", setup.people(PEOPLE))?;
    report.setting("people", register.people);
    report.setting("ordinary reads a second, open loop", ORDINARY.1);
    report.setting("rejected requests a second, open loop", REJECTED.1);
    let server = Server::start(&register.folder)?;
    let token = server.token(&register.client)?;
    let limited =
        create_client(&register.folder, None, &["--rate-limit-per-minute", "60", "--rate-limit-per-day", "60"])?;
    let limited = get(&path(1), &server.token(&limited)?);
    let forged = get(&path(1), "e30.e30.forged");
    let reads = cycle((1..=register.people).map(|id| get(&path(id), &token)).collect());
    let ordinary = |statuses| {
        let load = Load { statuses, ..Load::new(server.address, ORDINARY.0, setup.window()) };
        load.run_open(ORDINARY.1, &reads)
    };
    let per_address = daftar::limits::UNAUTHENTICATED_QUOTA.per_minute;
    let floods = [
        ("429", "one client over its limit (429)", limited, None),
        ("401", "many addresses with a made-up token (401)", forged, Some(per_address)),
    ];
    let (connections, rate) = if setup.is_smoke { (REJECTED.0, 400.0) } else { REJECTED };
    for (id, who, request, requests_per_address) in floods {
        let flood = cycle(vec![request]);
        let statuses: &[u16] = if id == "429" { &[200, 429] } else { &[401] };
        let load = Load { statuses, requests_per_address, ..Load::new(server.address, connections, setup.window()) };
        let (mut alone, mut beside, mut rejected) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..setup.rounds() {
            alone.push(ordinary(&[200])?);
            std::thread::scope(|scope| {
                let flooding = scope.spawn(|| load.run_open(rate, &flood));
                beside.push(ordinary(&[200])?);
                rejected.push(flooding.join().map_err(|_| "the flood failed".to_owned())??);
                Ok::<_, String>(())
            })?;
        }
        let of = |taken: &[Taken], part| Spread::of(taken.iter().map(|taken| taken.ms(0, part)));
        for (part, name) in [(0.5, "median"), (0.99, "p99")] {
            let what = format!("ordinary reads beside {who}: {name}");
            let ratios = beside.iter().zip(&alone).map(|(beside, alone)| beside.ms(0, part) / alone.ms(0, part));
            let row = Row::new(format!("limits.{id}.{name}"), what, "ms", of(&beside, part));
            report.row(row.ratio(format!("alone ({:.3} ms)", of(&alone, part).median), Spread::of(ratios)));
        }
        let rates = Spread::of(rejected.iter().map(Taken::per_second));
        report.row(Row::new(format!("limits.{id}.rejected"), format!("requests of {who}"), "1/s", rates));
    }
    server.stop()?;
    setup.remove(register)?;
    memory::measure(setup, report)
}

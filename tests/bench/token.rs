//! The token endpoint compared with a bare server that sends the same bytes. Both get five requests on each connection,
//! because the rate limit permits no more for one address in a minute. Also the cost of validating a token, in process.

use std::hint::black_box;
use std::time::Instant;

use daftar::auth::token;

use crate::bare::Bare;
use crate::http::{Connection, token_request};
use crate::in_process::{open, token_of};
use crate::load::{Load, cycle};
use crate::report::{Report, Row, Spread};
use crate::rounds::Rounds;
use crate::server::Server;
use crate::setup::Setup;
use daftar_tests::fresh_address;

/// Number of concurrent connections.
const CONNECTIONS: usize = 16;
/// Number of tokens that are checked round-robin: more than one, as with several clients.
const TOKENS: usize = 100;
/// Number of checks in one measurement.
const CHECKS: u64 = 20_000;

/// Measures both.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    report.setting("connections", CONNECTIONS);
    report.setting("tokens checked", TOKENS);
    let register = setup.empty("token")?;
    let server = Server::start(&register.folder)?;
    let request = token_request(&register.client.id, &register.client.secret);
    let response = Connection::from(fresh_address(), server.address)?.whole(&request, 200)?;
    let bare = Bare::start(setup.scratch(), &response)?;
    let load = |address| Load {
        requests_per_address: Some(daftar::limits::TOKEN_QUOTA.per_minute),
        ..Load::new(address, CONNECTIONS, setup.window())
    };
    let make = cycle(vec![request]);
    let (ours, theirs) = (load(server.address), load(bare.address));
    let rounds =
        Rounds::against(setup.rounds(), || server.processor_seconds(), || ours.run(&make), || theirs.run(&make))?;
    let what = "tokens, five for each connection and address";
    rounds.rows(report, "token.issue", what, [Some("0.55 of bare axum"), None]);
    server.stop()?;
    check(setup, report)?;
    setup.remove(register)
}

fn check(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.empty("token-check")?;
    let app = open(&register, |_| ())?;
    let mut tokens = Vec::with_capacity(TOKENS);
    for _ in 0..TOKENS {
        tokens.push(token_of(&app)?);
    }
    let headers: Vec<String> = tokens.iter().map(|token| format!("Bearer {token}")).collect();
    let state = app.state();
    let (now, keys) = (state.clock.now(), state.token_keys.load());
    let verified = rounds_ns(setup, |number| {
        let token = tokens.get(number % TOKENS).map(String::as_str).unwrap_or_default();
        black_box(token::verify(token, &keys, &state.config.token, now)).is_ok()
    })?;
    report.row(Row::new("token.verify", "a token is verified, in process", "ns", verified));
    let authenticated = rounds_ns(setup, |number| {
        let header = headers.get(number % TOKENS).map(String::as_bytes).unwrap_or_default();
        black_box(state.authenticate([header], now)).is_ok()
    })?;
    let what = "a client is authenticated by a token that was verified before, in process";
    report.row(Row::new("token.authenticate", what, "ns", authenticated));
    drop(app);
    setup.remove(register)
}

/// Measures the duration of a call in each round, in nanoseconds.
fn rounds_ns(setup: &Setup, mut is_valid: impl FnMut(usize) -> bool) -> Result<Spread, String> {
    let checks = if setup.is_smoke { CHECKS / 100 } else { CHECKS };
    let mut rounds = Vec::new();
    for _ in 0..setup.rounds() * 2 + 1 {
        let started = Instant::now();
        let valid = (0..checks as usize).filter(|number| is_valid(*number)).count();
        rounds.push(started.elapsed().as_secs_f64() * 1e9 / checks as f64);
        if valid as u64 != checks {
            return Err("a token was rejected".to_owned());
        }
    }
    Ok(Spread::of(rounds))
}

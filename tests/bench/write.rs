//! Creates with codes, an identifier and an address, and changes, over HTTP with all checks. Creates are compared with
//! a bare server that reads the same bodies and sends the same bytes. Then concurrent reads, searches and creates.

use std::sync::Arc;

use crate::bare::Bare;
use crate::http::{Connection, get, send};
use crate::load::{Load, Make, once};
use crate::people::{any, path};
use crate::report::{Report, Row, Spread};
use crate::rounds::Rounds;
use crate::server::Server;
use crate::setup::{Register, Setup};

/// Initial number of individuals in the register.
const PEOPLE: u64 = 100_000;
/// Maximum number of requests per second for which a round is prepared.
const RATE_MAX: u64 = 20_000;

/// Measures everything.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.filled("write", setup.people(PEOPLE))?;
    report.setting("people at first", register.people);
    report.setting("creates", "with an identifier, codes, an address and an income");
    let server = Server::start(&register.folder)?;
    let token = server.token(&register.client)?;
    let mut first = register.creates(&token, 1);
    let response = Connection::to(server.address)?.whole(&first.remove(0), 201)?;
    let bare = Bare::start(setup.scratch(), &response)?;
    let worked = || server.processor_seconds();
    let count = (RATE_MAX as f64 * setup.window().as_secs_f64()) as u64;
    for connections in [1, 16] {
        let count = if connections == 1 { count / 4 } else { count };
        let load = |address| Load::new(address, connections, setup.window());
        let (ours, theirs) = (load(server.address), load(bare.address));
        ours.run(&once(register.creates(&token, count / 10)))?;
        let rounds = Rounds::against(
            setup.rounds(),
            worked,
            || ours.run(&once(register.creates(&token, count))),
            || theirs.run(&once(register.creates(&token, count * 2))),
        )?;
        let what = format!("creates with codes, identifier and address, {}", crate::load::connections(connections));
        let target = if connections == 16 { Some("12,000/s") } else { None };
        rounds.rows(report, &format!("write.create-{connections}"), &what, [target, None]);
    }
    let load = Load::new(server.address, 16, setup.window());
    let mut next = 1;
    let each = (register.people / setup.rounds()).min(count);
    let rounds = Rounds::measure(setup.rounds(), worked, || {
        let requests = (next..next + each).map(|id| change(id, &token)).collect();
        next += each;
        load.run(&once(requests))
    })?;
    rounds.rows(report, "write.change-16", "changes of people by PATCH, 16 connections", [None, None]);
    mixed(setup, report, &register, &server, &token)?;
    server.stop()?;
    setup.remove(register)
}

/// Returns a request that changes a previously unchanged individual.
fn change(id: u64, token: &str) -> Vec<u8> {
    let body = r#"{"name":{"family":"Traoré","given":"Moussa"},"active":true}"#;
    send("PATCH", &path(id), token, "If-Match: \"1\"\r\n", body)
}

/// 80 % reads, 10 % searches by name, 10 % creates.
fn mixed(setup: &Setup, report: &mut Report, register: &Register, server: &Server, token: &str) -> Result<(), String> {
    const KINDS: [(&str, &str); 3] = [("read", "reads"), ("search", "searches by name"), ("create", "creates")];
    let load = Load::new(server.address, 16, setup.window());
    let mut taken = Vec::new();
    for round in 0..setup.rounds() {
        let creates = register.creates(token, (RATE_MAX as f64 * setup.window().as_secs_f64()) as u64 / 10);
        let (people, token) = (register.people, token.to_owned());
        let make: Make = Arc::new(move |number, buffer| {
            let kind = match number % 10 {
                8 => 1,
                9 => 2,
                _ => 0,
            };
            match kind {
                0 => buffer.extend_from_slice(&get(&path(any(round * 10_000_000 + number, people)), &token)),
                1 => buffer.extend_from_slice(&get("/api/v2/Individual?name=tra&_count=20", &token)),
                _ => buffer.extend_from_slice(creates.get(usize::try_from(number / 10).ok()?)?),
            }
            Some(kind)
        });
        taken.push(load.run(&make)?);
    }
    let what = "80 % reads, 10 % searches by name, 10 % creates, 16 connections";
    report.row(Row::new("write.mixed", what, "1/s", Spread::of(taken.iter().map(|taken| taken.per_second()))));
    for (kind, (id, name)) in KINDS.into_iter().enumerate() {
        for (part, of) in [(0.5, "median"), (0.99, "p99")] {
            let times = Spread::of(taken.iter().map(|taken| taken.ms(kind, part)));
            report.row(Row::new(format!("write.mixed.{id}.{of}"), format!("{name} of these: {of}"), "ms", times));
        }
    }
    Ok(())
}

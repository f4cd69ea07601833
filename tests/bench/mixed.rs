//! Nine reads to each create, over HTTP, all checks on: how long each takes while the others go on.

use std::sync::Arc;
use std::time::Duration;

use crate::load::{self, Request};
use crate::people::{Codes, Dice, bodies, national_id, person};
use crate::register::{SEED, fill};
use crate::server::Server;

/// How many people there are at first.
const PEOPLE: u64 = 100_000;
/// How many connections send at the same time.
const CONNECTIONS: usize = 16;
/// How long a round lasts.
const ROUND: Duration = Duration::from_secs(5);
const ROUNDS: u64 = 5;
/// The most requests of a round.
const REQUESTS_MAX: u64 = 60_000;
/// What the requests are.
const KINDS: [&str; 3] = ["reads", "searches", "creates"];

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let server = Server::start(folder.path()).await?;
    fill(&server, PEOPLE).await?;
    println!("mixed: {PEOPLE} people, {CONNECTIONS} connections; 80 % reads, 10 % searches by name, 10 % creates");
    let generation = server.app.registry.vocabularies.current();
    let codes = Codes::of(&generation)?;
    for round in 1..=ROUNDS {
        let mut requests = Vec::new();
        for number in 0..REQUESTS_MAX {
            let mut dice = Dice::new(SEED + round, number);
            requests.push(match number % 10 {
                9 => {
                    let id = PEOPLE + (round - 1) * REQUESTS_MAX + number + 1;
                    let body = bodies::body(&*person(SEED, id, &codes)?, &generation);
                    Request { kind: 2, bytes: bodies::request("POST", "/Individual", &server.token, "", &body) }
                }
                8 => Request { kind: 1, bytes: get("/Individual?name=tra&_count=20", &server.token) },
                _ => Request { kind: 0, bytes: get(&path(dice.below(PEOPLE) + 1)?, &server.token) },
            });
        }
        let (taken, seconds) = load::run_once(server.address, Arc::new(requests), CONNECTIONS, ROUND).await?;
        let total: usize = taken.iter().map(|of_kind| of_kind.times_us.len()).sum();
        let of_kinds = KINDS.iter().zip(&taken).map(|(kind, of_kind)| {
            format!("{kind} median {:.2} ms, p99 {:.2} ms", of_kind.at(0.5) / 1e3, of_kind.at(0.99) / 1e3)
        });
        println!("mixed: round {round}: {:.0}/s; {}", total as f64 / seconds, of_kinds.collect::<Vec<_>>().join("; "));
    }
    server.stop().await;
    Ok(())
}

/// The path of a person.
pub fn path(id: u64) -> Result<String, String> {
    let key = national_id(id)?;
    Ok(format!("/Individual/{}%7C{}", key.system.as_str().replace('#', "%23"), key.value.as_str()))
}

/// A request without a body.
pub fn get(path: &str, token: &str) -> Vec<u8> {
    format!("GET /api/v2{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n").into_bytes()
}

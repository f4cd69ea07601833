//! Whether the time of a refused request for a token tells an unknown client, a wrong secret and a disabled client apart.
//!
//! Refusals of the three kinds are timed in turn, in an order that changes from round to round: in process, as the token desk makes
//! them, and over HTTP, each round from an address of its own, as an attacker would have it. What is compared is which of two takes
//! longer (`pairs.rs`). No client is asked for more often than is answered at once.

use std::time::Instant;

use daftar::app::AppState;
use daftar::auth::TokenRequest;
use daftar::auth::failed_sign_ins::FREE_FAILURES;
use daftar::domain::client::ClientId;
use daftar::domain::grant::Grants;
use daftar_tests::fresh_address;
use secrecy::{ExposeSecret, SecretString};

use crate::load::{connect_from, time_us};
use crate::pairs::{chance_of_longer, spread};
use crate::server::{Server, new_client};

/// Rounds in process.
const ROUNDS: usize = 30_000;
/// Rounds over HTTP: an address each.
const HTTP_ROUNDS: usize = 4_000;
const KINDS: [&str; 3] = ["unknown client", "wrong secret", "disabled client"];

/// Who is asked for, and with which secret.
struct Asked {
    id: String,
    secret: SecretString,
}

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let server = Server::start(folder.path()).await?;
    let clients = HTTP_ROUNDS.div_ceil(usize::from(FREE_FAILURES));
    let mut rounds = Vec::with_capacity(clients);
    for _ in 0..clients {
        let (active, _) = client(&server.app).await?;
        let (disabled, secret) = client(&server.app).await?;
        let id = ClientId::parse(&disabled).map_err(|error| error.to_string())?;
        let ctx = server.app.system_context();
        server.app.clients.disable(&ctx, &id).await.map_err(|error| error.to_string())?;
        rounds.push((active, disabled, secret));
    }
    let asked = |round: usize| -> Result<[Asked; 3], String> {
        let (active, disabled, secret) = rounds.get(round % clients).ok_or("there are no clients")?;
        let wrong = SecretString::from(secret.expose_secret().chars().rev().collect::<String>());
        let unknown = format!("client-{}", server.app.ids.next_id());
        Ok([
            Asked { id: unknown, secret: secret.clone() },
            Asked { id: active.clone(), secret: wrong },
            Asked { id: disabled.clone(), secret: secret.clone() },
        ])
    };
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        let asked = asked(round)?;
        for kind in order(round) {
            let (Some(asked), Some(times)) = (asked.get(kind), times.get_mut(kind)) else { continue };
            times.push(desk_us(&server.app, asked)?);
        }
    }
    tell("in process", &times);
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut buffer = Vec::with_capacity(4 * 1024);
    for round in 0..HTTP_ROUNDS {
        let asked = asked(round)?;
        let mut stream = connect_from(fresh_address(), server.address).await?;
        for kind in order(round) {
            let (Some(asked), Some(times)) = (asked.get(kind), times.get_mut(kind)) else { continue };
            times.push(time_us(&mut stream, &mut buffer, request(asked).as_bytes(), 401).await?);
        }
    }
    tell("over HTTP", &times);
    server.stop().await;
    Ok(())
}

async fn client(app: &AppState) -> Result<(String, SecretString), String> {
    let made = app.clients.create(&app.system_context(), new_client(Grants::default())?).await;
    made.map(|(client, secret)| (client.id.to_string(), secret)).map_err(|error| error.to_string())
}

/// Each kind comes first, second and last equally often.
fn order(round: usize) -> [usize; 3] {
    [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [1, 0, 2], [0, 2, 1]].get(round % 6).copied().unwrap_or([0, 1, 2])
}

fn desk_us(app: &AppState, asked: &Asked) -> Result<f64, String> {
    let request = TokenRequest { client_id: asked.id.clone(), client_secret: asked.secret.clone(), scope: None };
    let (desk, now) = (app.token_desk(), app.clock.now());
    let begun = Instant::now();
    let answer = desk.issue(&request, now);
    let time_us = begun.elapsed().as_secs_f64() * 1e6;
    if answer.is_ok() { Err("a request was not refused".to_owned()) } else { Ok(time_us) }
}

/// Asks for a token over HTTP.
fn request(asked: &Asked) -> String {
    let body =
        format!("grant_type=client_credentials&client_id={}&client_secret={}", asked.id, asked.secret.expose_secret());
    format!(
        "POST /api/v2/oauth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn tell(how: &str, times: &[Vec<f64>; 3]) {
    for (kind, times) in KINDS.iter().zip(times) {
        let mut sorted = times.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| sorted.get(((sorted.len() as f64 - 1.0) * part) as usize).copied().unwrap_or_default();
        println!("sign-in {how}, {kind}: median {:.2} us, p90 {:.2} us, p99 {:.2} us", at(0.5), at(0.9), at(0.99));
    }
    let [unknown, wrong, disabled] = times;
    for (pair, one, other) in [
        ("unknown client against wrong secret", unknown, wrong),
        ("unknown against disabled client", unknown, disabled),
        ("wrong secret against disabled client", wrong, disabled),
    ] {
        println!(
            "sign-in {how}, {pair}: the first takes longer in {:.1} of 100 pairs (50 tells nothing; luck strays by {:.1})",
            chance_of_longer(one, other) * 100.0,
            spread(one.len()) * 100.0
        );
    }
}

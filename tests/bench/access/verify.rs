//! What it costs to find out who calls, in process.

use std::hint::black_box;
use std::time::Instant;

use daftar::auth::token;

use crate::server::{Server, token_of};

/// How many tokens take turns: more than one, as clients are.
const TOKENS: usize = 100;
/// How many calls are timed at a time.
const CALLS: usize = 20_000;
/// How many times.
const ROUNDS: usize = 11;

pub(super) async fn measure(server: &Server) -> Result<(), String> {
    let app = &server.app;
    let mut tokens = Vec::with_capacity(TOKENS);
    for _ in 0..TOKENS {
        tokens.push(token_of(app, None).await?);
    }
    let headers: Vec<String> = tokens.iter().map(|token| format!("Bearer {token}")).collect();
    let now = app.clock.now();
    let keys = app.token_keys.load();
    let verified = median_ns(|number| {
        let token = tokens.get(number % TOKENS).map(String::as_str).unwrap_or_default();
        black_box(token::verify(token, &keys, &app.config.token, now)).is_ok()
    })?;
    let authenticated = median_ns(|number| {
        let header = headers.get(number % TOKENS).map(String::as_bytes).unwrap_or_default();
        black_box(app.authenticate([header], now)).is_ok()
    })?;
    println!(
        "access: a token of {} bytes is checked in {verified:.0} ns; who calls is found out in {authenticated:.0} ns, with the cache of {TOKENS} tokens that were checked before",
        tokens.first().map_or(0, String::len)
    );
    Ok(())
}

/// The median over rounds of what a call takes, in nanoseconds.
fn median_ns(mut is_sound: impl FnMut(usize) -> bool) -> Result<f64, String> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let sound = (0..CALLS).filter(|number| is_sound(*number)).count();
        rounds.push(started.elapsed().as_secs_f64() * 1e9 / CALLS as f64);
        if sound != CALLS {
            return Err(format!("{} of {CALLS} tokens were refused", CALLS - sound));
        }
    }
    rounds.sort_unstable_by(f64::total_cmp);
    Ok(rounds.get(ROUNDS / 2).copied().unwrap_or_default())
}

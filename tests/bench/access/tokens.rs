//! Tokens a second over HTTP, all limits on, against a bare handler that sends the same bytes: both get five requests on each
//! connection, for no address may ask for more in a minute.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daftar_tests::fresh_address;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::token_request;
use crate::load::{OfKind, connect_from, read_any};
use crate::server::{Server, bare};

/// How many connections there are at a time.
const CONNECTIONS: usize = 16;
/// How many tokens an address asks for: as many as it may at once.
const EACH: u32 = daftar::limits::TOKEN_QUOTA.per_minute;
/// How long a round lasts.
const ROUND: Duration = Duration::from_secs(4);
/// How many rounds each server gets, in turn.
const ROUNDS: usize = 5;

pub(super) async fn measure(server: &Server) -> Result<(), String> {
    let request: Arc<[u8]> = token_request(&server.app).await?.into();
    let (_, warm) = round(server.address, &request, Duration::from_secs(1)).await?;
    let bare_address = bare(warm.body).await?;
    round(bare_address, &request, Duration::from_secs(1)).await?;
    println!("access: tokens, {CONNECTIONS} connections at a time, each from a new address, with {EACH} requests");
    let mut ratios = Vec::new();
    for number in 1..=ROUNDS {
        let (ours, taken) = round(server.address, &request, ROUND).await?;
        let (theirs, bare_taken) = round(bare_address, &request, ROUND).await?;
        let ratio = ours / theirs;
        println!(
            "round {number}: daftar {ours:.0}/s (median {:.0} us, p99 {:.0} us), bare axum {theirs:.0}/s (median {:.0} us, p99 {:.0} us), ratio {ratio:.3}",
            taken.at(0.5),
            taken.at(0.99),
            bare_taken.at(0.5),
            bare_taken.at(0.99)
        );
        ratios.push(ratio);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    println!("access: tokens, median ratio {:.3} (target 0.5)", ratios.get(ROUNDS / 2).copied().unwrap_or_default());
    Ok(())
}

/// Tokens a second, and how long each took.
async fn round(address: SocketAddr, request: &Arc<[u8]>, duration: Duration) -> Result<(f64, OfKind), String> {
    let started = Instant::now();
    let mut askers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let request = Arc::clone(request);
        askers.spawn(async move {
            let mut taken = OfKind::default();
            let mut buffer = Vec::with_capacity(4 * 1024);
            while started.elapsed() < duration {
                let mut stream = connect_from(fresh_address(), address).await?;
                for _ in 0..EACH {
                    let sent = Instant::now();
                    stream.write_all(&request).await.map_err(|error| error.to_string())?;
                    let (status, body) = read_any(&mut stream, &mut buffer).await?;
                    if status != 200 {
                        return Err(format!(
                            "a token request was answered {status}: {}",
                            String::from_utf8_lossy(&body)
                        ));
                    }
                    taken.times_us.push(sent.elapsed().as_secs_f64() * 1e6);
                    taken.body = body;
                }
            }
            Ok::<_, String>(taken)
        });
    }
    let mut all = OfKind::default();
    while let Some(asked) = askers.join_next().await {
        let mut taken = asked.map_err(|error| error.to_string())??;
        all.times_us.append(&mut taken.times_us);
        all.body = taken.body;
    }
    let per_second = all.times_us.len() as f64 / started.elapsed().as_secs_f64();
    all.times_us.sort_unstable_by(f64::total_cmp);
    Ok((per_second, all))
}

//! What ordinary clients notice while somebody is refused as fast as they can send.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use daftar_tests::fresh_address;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::token_request;
use crate::load::{OfKind, connect_from, read_any};
use crate::read::{PEOPLE, fill, request};
use crate::server::Server;

/// How many connections ordinary clients have, and how many requests they send a second in all.
const ORDINARY: (usize, f64) = (4, 400.0);
/// How many connections whoever is refused has, and how many requests they send a second in all.
const REFUSED: (usize, f64) = (64, 20_000.0);
/// How long it is measured, each time.
const ROUND: Duration = Duration::from_secs(6);
/// How many rounds there are of each kind.
const ROUNDS: usize = 3;
/// The time that it takes the clock of the runtime to fire.
const TICK: Duration = Duration::from_millis(1);

/// Who is refused, and why.
#[derive(Clone)]
enum Flood {
    /// A client whose minute is used up, over many connections.
    OneClient(Arc<[u8]>),
    /// Somebody with a made-up token, from a new address as soon as one's minute is used up.
    ManyAddresses(Arc<[u8]>),
}

pub(super) async fn measure(server: &Server) -> Result<(), String> {
    fill(server).await?;
    let requests: Arc<[Vec<u8>]> = (1..=PEOPLE).map(|number| request(&server.token, number)).collect();
    let limited = request(&limited_token(server).await?, 1);
    let forged = request("e30.e30.forged", 1);
    let floods = [
        ("429 of one client", Flood::OneClient(limited.into())),
        ("401 from many addresses", Flood::ManyAddresses(forged.into())),
    ];
    println!(
        "access: GET Individual {} times a second over {} connections, while others are refused {} times a second over {}",
        ORDINARY.1, ORDINARY.0, REFUSED.1, REFUSED.0
    );
    ordinary(server.address, &requests).await?;
    for (name, flood) in floods {
        for number in 1..=ROUNDS {
            let quiet = ordinary(server.address, &requests).await?;
            let (beside, refused) = beside(server.address, &requests, &flood).await?;
            println!(
                "{name}, round {number}: {:.0} refused a second; median {:.0} us quiet, {:.0} us beside it, ratio {:.2}; p99 {:.0} us, {:.0} us; p99.9 {:.0} us, {:.0} us",
                refused as f64 / ROUND.as_secs_f64(),
                quiet.at(0.5),
                beside.at(0.5),
                beside.at(0.5) / quiet.at(0.5),
                quiet.at(0.99),
                beside.at(0.99),
                quiet.at(0.999),
                beside.at(0.999)
            );
        }
    }
    Ok(())
}

/// The token of a client with the limits of all.
async fn limited_token(server: &Server) -> Result<String, String> {
    let mut stream = connect_from(fresh_address(), server.address).await?;
    stream.write_all(&token_request(&server.app).await?).await.map_err(|error| error.to_string())?;
    let (status, body) = read_any(&mut stream, &mut Vec::new()).await?;
    let body: serde_json::Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let token = body.get("access_token").and_then(serde_json::Value::as_str).map(str::to_owned);
    token.ok_or_else(|| format!("no token was issued, but {status}"))
}

/// How long ordinary calls take while a flood goes on, and how many of its requests were refused meanwhile.
async fn beside(address: SocketAddr, requests: &Arc<[Vec<u8>]>, flood: &Flood) -> Result<(OfKind, usize), String> {
    let is_over = Arc::new(AtomicBool::new(false));
    let refused = Arc::new(AtomicUsize::new(0));
    let mut senders = JoinSet::new();
    for _ in 0..REFUSED.0 {
        senders.spawn(flood_from_one(address, flood.clone(), Arc::clone(&is_over), Arc::clone(&refused)));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = refused.load(Ordering::Relaxed);
    let taken = ordinary(address, requests).await;
    let during = refused.load(Ordering::Relaxed) - before;
    is_over.store(true, Ordering::Relaxed);
    while let Some(sent) = senders.join_next().await {
        sent.map_err(|error| error.to_string())??;
    }
    Ok((taken?, during))
}

/// Sends its part of a flood until it is over.
async fn flood_from_one(
    address: SocketAddr,
    flood: Flood,
    is_over: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
) -> Result<(), String> {
    let (request, per_connection) = match &flood {
        Flood::OneClient(request) => (request, u32::MAX),
        Flood::ManyAddresses(request) => (request, daftar::limits::UNAUTHENTICATED_QUOTA.per_minute),
    };
    let mut pace = Pace::of(REFUSED);
    let mut buffer = Vec::with_capacity(4 * 1024);
    while !is_over.load(Ordering::Relaxed) {
        let mut stream = connect_from(source(&flood), address).await?;
        for _ in 0..per_connection {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            pace.until_due().await;
            let (status, body) = exchange(&mut stream, request, &mut buffer).await?;
            match (&flood, status) {
                (Flood::OneClient(_), 429) | (Flood::ManyAddresses(_), 401) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                // What its minute still has, and what comes back each second.
                (Flood::OneClient(_), 200) => {}
                (Flood::OneClient(_) | Flood::ManyAddresses(_), _) => {
                    return Err(format!("not refused, but {status}: {}", String::from_utf8_lossy(&body)));
                }
            }
        }
    }
    Ok(())
}

/// Where the next connection of a flood comes from.
fn source(flood: &Flood) -> Ipv4Addr {
    match flood {
        Flood::OneClient(_) => Ipv4Addr::LOCALHOST,
        Flood::ManyAddresses(_) => fresh_address(),
    }
}

/// Sends ordinary requests at their pace; how long each took from when it was due, so that none that waits to be sent is left out.
async fn ordinary(address: SocketAddr, requests: &Arc<[Vec<u8>]>) -> Result<OfKind, String> {
    let mut senders = JoinSet::new();
    let started = Instant::now();
    for first in 0..ORDINARY.0 {
        let requests = Arc::clone(requests);
        senders.spawn(async move {
            let mut stream = connect_from(fresh_address(), address).await?;
            let mut times_us = Vec::new();
            let mut buffer = Vec::with_capacity(16 * 1024);
            let mut pace = Pace::of(ORDINARY);
            for request in requests.iter().cycle().skip(first * 97) {
                if started.elapsed() >= ROUND {
                    break;
                }
                let due = pace.until_due().await;
                let (status, body) = exchange(&mut stream, request, &mut buffer).await?;
                if status != 200 {
                    return Err(format!("an ordinary call was answered {status}: {}", String::from_utf8_lossy(&body)));
                }
                times_us.push(due.elapsed().as_secs_f64() * 1e6);
            }
            Ok::<_, String>(times_us)
        });
    }
    let mut all = OfKind::default();
    while let Some(sent) = senders.join_next().await {
        all.times_us.append(&mut sent.map_err(|error| error.to_string())??);
    }
    all.times_us.sort_unstable_by(f64::total_cmp);
    Ok(all)
}

async fn exchange(stream: &mut TcpStream, request: &[u8], buffer: &mut Vec<u8>) -> Result<(u16, Vec<u8>), String> {
    stream.write_all(request).await.map_err(|error| error.to_string())?;
    read_any(stream, buffer).await
}

/// When the requests of one connection are due: evenly, whatever the answers take.
struct Pace {
    due: Instant,
    apart: Duration,
}

impl Pace {
    /// The pace of one of so many connections that send so many requests a second together.
    fn of((connections, per_second): (usize, f64)) -> Self {
        Self { due: Instant::now(), apart: Duration::from_secs_f64(connections as f64 / per_second) }
    }

    /// Waits for the next one; since when it is due, or since it woke up if that was within the clock's precision.
    async fn until_due(&mut self) -> Instant {
        self.due += self.apart;
        let now = Instant::now();
        if self.due > now {
            tokio::time::sleep_until(self.due.into()).await;
            let woken = Instant::now();
            return if woken.duration_since(self.due) <= 2 * TICK { woken } else { self.due };
        }
        self.due
    }
}

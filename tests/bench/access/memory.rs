//! The limiter with a million addresses: what it holds in memory, what a call costs then, what becomes of one more.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use daftar::context::FakeClock;
use daftar::error::Cause;
use daftar::limits::day::DayCounts;
use daftar::limits::{Decision, Limits, Refusal};
use jiff::SignedDuration;
use jiff::civil::Date;
use tokio::task::JoinSet;

use crate::codes::{millis, resident_mb};
use crate::people::Dice;
use crate::server::Server;

/// How many addresses call.
const ADDRESSES: u32 = 1_000_000;
/// How many call in all, more than a bucket remembers.
const CROWD: u32 = 1_300_000;
/// How many addresses call for the first time, each counted on disk, and how many of them at a time.
const ON_DISK: (u32, usize) = (20_000, 64);
/// How the addresses that are picked at random are.
const SEED: u64 = 9;

/// A disk that takes no time and no memory: only the limiter is measured.
struct NoDisk;

#[async_trait::async_trait]
impl DayCounts for NoDisk {
    async fn load(&self, _: Date, _: &str) -> Result<u64, Cause> {
        Ok(0)
    }

    async fn reserve(&self, _: Date, _: &str, _: u64) -> Result<(), Cause> {
        Ok(())
    }

    async fn forget_before(&self, _: Date) -> Result<(), Cause> {
        Ok(())
    }
}

/// One network of 64 bits after the other.
fn address(number: u32) -> IpAddr {
    let network = 0x2001_0db8_0000_0000 + u64::from(number);
    IpAddr::V6(Ipv6Addr::from_bits((u128::from(network) << 64) | 1))
}

/// One of the first million.
fn any(dice: &mut Dice) -> IpAddr {
    address(u32::try_from(dice.below(ADDRESSES.into())).unwrap_or_default())
}

/// Measures without a disk.
pub(super) fn run() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), String> {
    let clock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
    let limits = Limits::new(Arc::new(clock.clone()), Arc::new(NoDisk));
    let before_mb = own_mb();
    let first = charge_all(&limits, (0..ADDRESSES).map(address)).await?;
    let filled_mb = own_mb();
    println!(
        "access: {ADDRESSES} addresses: {:.0} MB, {:.0} bytes each; {:.0} ns for the first call of each",
        filled_mb - before_mb,
        (filled_mb - before_mb) * 1_048_576.0 / f64::from(ADDRESSES),
        first.ns_each
    );
    let mut dice = Dice::new(SEED, 0);
    let again = charge_all(&limits, (0..ADDRESSES).map(|_| any(&mut dice))).await?;
    let one = charge_all(&limits, (0..ADDRESSES).map(|_| address(0))).await?;
    println!(
        "access: with so many, {:.0} ns for a call of any, {:.0} ns for one that is refused ({} of {ADDRESSES} were)",
        again.ns_each, one.ns_each, one.refused
    );

    let crowd = charge_all(&limits, (ADDRESSES..CROWD).map(address)).await?;
    println!(
        "access: of {} more at once {} find no room, {:.0} ns each; {:.0} MB in all",
        CROWD - ADDRESSES,
        crowd.crowded,
        crowd.ns_each,
        own_mb() - before_mb
    );
    clock.advance(SignedDuration::from_secs(60));
    let later = charge_all(&limits, (ADDRESSES..CROWD).map(address)).await?;
    println!(
        "access: a minute later {} of them find no room, {:.0} ns each, {:.1} ms for the slowest",
        later.crowded,
        later.ns_each,
        later.slowest.as_secs_f64() * 1e3
    );
    clock.advance(SignedDuration::from_hours(24));
    let started = Instant::now();
    limits.maintain().await.map_err(|error| error.to_string())?;
    println!(
        "access: the day after they are dropped in {:.1} ms; {:.0} MB left",
        millis(started),
        own_mb() - before_mb
    );
    Ok(())
}

/// How many addresses a second can call for the first time on a day: each is counted on disk first.
pub(super) async fn measure_on_disk(server: &Server) -> Result<(), String> {
    let (addresses, at_a_time) = ON_DISK;
    let next = Arc::new(AtomicU32::new(0));
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..at_a_time {
        let (next, limits) = (Arc::clone(&next), Arc::clone(&server.app.limits));
        callers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= addresses {
                    return Ok::<_, String>(());
                }
                limits.charge_unauthenticated(address(number)).await.map_err(|error| error.to_string())?;
            }
        });
    }
    while let Some(called) = callers.join_next().await {
        called.map_err(|error| error.to_string())??;
    }
    let per_second = f64::from(addresses) / started.elapsed().as_secs_f64();
    println!("access: {per_second:.0} new addresses a second, each counted on disk, {at_a_time} at a time");
    Ok(())
}

/// What became of many calls.
struct Charged {
    ns_each: f64,
    slowest: Duration,
    refused: u64,
    crowded: u64,
}

async fn charge_all(limits: &Limits, addresses: impl ExactSizeIterator<Item = IpAddr>) -> Result<Charged, String> {
    let count = addresses.len();
    let (mut refused, mut crowded, mut slowest) = (0_u64, 0_u64, Duration::ZERO);
    let started = Instant::now();
    let mut last = started;
    for address in addresses {
        match limits.charge_unauthenticated(address).await.map_err(|error| error.to_string())? {
            Decision::Allowed { .. } => {}
            Decision::Refused { refusal: Refusal::Crowded, .. } => crowded += 1,
            Decision::Refused { refusal: Refusal::Minute | Refusal::Day, .. } => refused += 1,
        }
        let now = Instant::now();
        slowest = slowest.max(now.duration_since(last));
        last = now;
    }
    let ns_each = started.elapsed().as_secs_f64() * 1e9 / count as f64;
    Ok(Charged { ns_each, slowest, refused, crowded })
}

/// What this process holds, in MiB.
fn own_mb() -> f64 {
    resident_mb("/proc/self/status")
}

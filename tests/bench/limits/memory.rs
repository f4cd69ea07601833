//! The limiter with a million addresses, in process: its memory, and the duration of a call.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use daftar::context::FakeClock;
use daftar::error::Cause;
use daftar::limits::day::DayCounts;
use daftar::limits::{Decision, Limits, Refusal};
use jiff::civil::Date;

use crate::machine::resident_mib;
use crate::people::Dice;
use crate::report::{Report, Row, Spread};
use crate::setup::Setup;

/// Number of addresses that call.
const ADDRESSES: u32 = 1_000_000;
/// Seed of the addresses that are picked at random.
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

/// Measures it.
pub(super) fn measure(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let count = if setup.is_smoke { ADDRESSES / 1_000 } else { ADDRESSES };
    report.setting("addresses in the limiter", count);
    runtime.block_on(async {
        let limits = Limits::new(Arc::new(FakeClock::new(jiff::Timestamp::UNIX_EPOCH)), Arc::new(NoDisk));
        let own = std::process::id();
        let before = resident_mib(own);
        let first = charge(&limits, count, address).await?;
        let memory = resident_mib(own) - before;
        let each = memory * 1_048_576.0 / f64::from(count);
        report.row(Row::new("limits.memory", "memory of each address in the limiter", "B", Spread::of([each])));
        let mut dice = Dice::new(SEED, 0);
        let mut any = |_| address(u32::try_from(dice.below(count.into())).unwrap_or_default());
        let (mut admitted, mut rejected) = (Vec::new(), Vec::new());
        for _ in 0..setup.rounds() {
            admitted.push(charge(&limits, count, &mut any).await?);
            rejected.push(charge(&limits, count, |_| address(0)).await?);
        }
        let row = |id: &str, what: &str, times| Row::new(format!("limits.{id}"), what, "ns", times);
        report.row(row("first", "the first call of an address, in process", Spread::of([first])));
        report.row(row("call", "a call of any of these addresses, in process", Spread::of(admitted)));
        report.row(row("reject", "a call of one that is rejected, in process", Spread::of(rejected)));
        Ok(())
    })
}

/// Times a call, in nanoseconds.
async fn charge(limits: &Limits, count: u32, mut address: impl FnMut(u32) -> IpAddr) -> Result<f64, String> {
    let started = Instant::now();
    for number in 0..count {
        match limits.charge_unauthenticated(address(number)).await.map_err(|error| error.to_string())? {
            Decision::Allowed { .. } | Decision::Refused { refusal: Refusal::Minute | Refusal::Day, .. } => {}
            Decision::Refused { refusal: Refusal::AtCapacity, .. } => return Err("the limiter is full".to_owned()),
        }
    }
    Ok(started.elapsed().as_secs_f64() * 1e9 / f64::from(count))
}

//! A test clock, counts that survive a restart, and clients with limits.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};

use super::day::DayCounts;
use super::{Decision, Limits, RateHeaders, Refusal};
use daftar_domain::client::{Client, ClientId, ClientName, ClientStatus, RateLimit};
use daftar_domain::context::FakeClock;
use daftar_domain::error::Cause;
use daftar_domain::grant::Grants;

impl Decision {
    /// Returns true if the call may continue.
    pub(super) fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }
}

/// Counts that outlive the limits that use them, like a disk.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) counts: Mutex<BTreeMap<(Date, String), u64>>,
    pub(super) writes: AtomicUsize,
    pub(super) is_broken: AtomicBool,
    /// Locked by a test to delay the responses to reservations.
    pub(super) responses: tokio::sync::Mutex<()>,
}

impl Disk {
    fn check(&self) -> Result<(), Cause> {
        if self.is_broken.load(Ordering::Relaxed) { Err("the disk is broken".into()) } else { Ok(()) }
    }
}

#[async_trait::async_trait]
impl DayCounts for Disk {
    async fn load(&self, day: Date, name: &str) -> Result<u64, Cause> {
        self.check()?;
        tokio::task::yield_now().await;
        Ok(self.counts.lock().unwrap().get(&(day, name.to_owned())).copied().unwrap_or(0))
    }

    async fn reserve(&self, day: Date, name: &str, up_to: u64) -> Result<(), Cause> {
        self.check()?;
        tokio::task::yield_now().await;
        self.writes.fetch_add(1, Ordering::Relaxed);
        {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry((day, name.to_owned())).or_default();
            *count = up_to.max(*count);
        }
        let _response = self.responses.lock().await;
        Ok(())
    }

    async fn forget_before(&self, day: Date) -> Result<(), Cause> {
        self.check()?;
        self.counts.lock().unwrap().retain(|(counted, _), _| *counted >= day);
        Ok(())
    }
}

pub(super) struct Fixture {
    pub(super) clock: FakeClock,
    pub(super) disk: Arc<Disk>,
    pub(super) limits: Limits,
}

impl Fixture {
    pub(super) fn at(start: &str) -> Self {
        let clock = FakeClock::new(start.parse().unwrap());
        let disk = Arc::new(Disk::default());
        let limits = Limits::new(Arc::new(clock.clone()), Arc::clone(&disk) as Arc<dyn DayCounts>);
        Self { clock, disk, limits }
    }

    pub(super) fn new() -> Self {
        Self::at("2026-03-01T12:00:00Z")
    }

    /// Simulates a kill and a restart: only the disk stays.
    pub(super) fn restart(&mut self) {
        self.limits = Limits::new(Arc::new(self.clock.clone()), Arc::clone(&self.disk) as Arc<dyn DayCounts>);
    }

    pub(super) fn wait_s(&self, seconds: u64) {
        self.clock.advance(SignedDuration::from_secs(seconds as i64));
    }

    pub(super) async fn allowed(&self, client: &Client, tries: u32) -> u32 {
        let mut allowed = 0;
        for _ in 0..tries {
            allowed += u32::from(self.limits.charge_client(client).await.unwrap().is_allowed());
        }
        allowed
    }
}

pub(super) fn client(id: &str, per_minute: Option<u32>, per_day: Option<u32>) -> Client {
    Client {
        id: ClientId::parse(id).unwrap(),
        name: ClientName::parse("A client").unwrap(),
        organization: None,
        legal_basis: None,
        purpose: None,
        status: ClientStatus::Active,
        grants: Grants::default(),
        secrets: Vec::new(),
        not_before: None,
        rate_limit_per_minute: per_minute.map(|limit| RateLimit::parse(limit).unwrap()),
        rate_limit_per_day: per_day.map(|limit| RateLimit::parse(limit).unwrap()),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    }
}

pub(super) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(super) fn refusal(decision: Decision) -> (Refusal, RateHeaders, u64) {
    match decision {
        Decision::Refused { refusal, headers, retry_after_s, .. } => (refusal, headers, retry_after_s),
        Decision::Allowed { .. } => panic!("allowed: {decision:?}"),
    }
}

//! The calls that a client with small limits has left, as far as they are known.
//!
//! One server whose clock the test sets has an exact minute. Every other number has the bounds that `host/docs/API.md`
//! and `host/docs/POSTGRESQL.md` document: no call is allowed beyond a limit, and none is rejected before the limit,
//! except for the calls that servers reserved together with others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::civil::Date;

use crate::support::http::Response;

/// The part of a limit of a day that a server reserves together, and its maximum.
const BLOCK_PART: u32 = 10;
const BLOCK_MAX: u32 = 16;
/// The part of a limit of a minute that one of several servers reserves.
const CHUNK_PART: u32 = 20;
/// A rejected call follows others of the last minute. The test reads its clock later than the server, by at most the
/// rest.
const RECENT: Duration = Duration::from_secs(180);

/// Bounds of a number of calls.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    least: u32,
    most: u32,
}

/// The allowed calls of a minute.
#[derive(Debug, Clone)]
enum Minute {
    /// By a clock that the test sets: the remaining calls.
    Left(u32),
    /// By the machine's clock: the beginning of the first call, the number of calls since then, and the recent ones.
    Used { since: Option<Instant>, calls: u32, recent: Vec<Instant> },
}

/// The calls of a client.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    per_minute: u32,
    per_day: u32,
    servers: u32,
    minute: Minute,
    day: Date,
    /// The calls of the day that the servers have counted.
    used: Bounds,
    /// The calls of other days.
    other_days: BTreeMap<Date, Bounds>,
    /// True if the day follows a later one: a server continues with the higher count as long as it has it in memory.
    is_set_back: bool,
}

impl Budget {
    /// Nothing is used.
    pub(super) fn new((per_minute, per_day): (u32, u32), servers: usize, is_clock_set: bool, day: Date) -> Self {
        let servers = u32::try_from(servers).expect("few servers");
        let minute = if is_clock_set { Minute::Left(per_minute) } else { Minute::unused() };
        let (used, other_days) = (Bounds::default(), BTreeMap::new());
        Self { per_minute, per_day, servers, minute, day, used, other_days, is_set_back: false }
    }

    /// Compares the response to a call that began at that time.
    pub(super) fn count(&mut self, today: Date, began: Instant, response: &Response) -> Result<(), String> {
        self.begin(today);
        match response.status {
            200 => self.allow(began),
            429 if response.code() == "quota_exceeded" => self.reject_by_day(),
            429 if response.code() == "rate_limited" => self.reject_by_minute(),
            other => Err(format!("status {other} of a request within limits: {}", response.text())),
        }
    }

    /// At least a minute has passed, by the clock that the test sets.
    pub(super) fn pass_minute(&mut self) {
        if let Minute::Left(left) = &mut self.minute {
            *left = self.per_minute;
        }
    }

    /// A server was stopped or killed: calls of the day that it had reserved may count as used. A single server has the
    /// minute in memory only.
    pub(super) fn restart(&mut self) {
        self.used.most = self.per_day.min(self.used.most + self.block());
        self.is_set_back = false;
        self.pass_minute();
        if let Minute::Used { .. } = self.minute
            && self.servers == 1
        {
            self.minute = Minute::unused();
        }
    }

    /// Begins a day, or continues with it after the clock was set back to it.
    fn begin(&mut self, today: Date) {
        if today == self.day {
            return;
        }
        let Self { day, used, .. } = *self;
        self.other_days.insert(day, used);
        let known = self.other_days.get(&today).copied();
        let stored = known.map_or(0, |known| self.per_day.min(known.most + self.block()));
        self.is_set_back = today < day;
        let most = if self.is_set_back { stored.max(used.most) } else { stored };
        self.used = Bounds { least: known.unwrap_or_default().least, most };
        self.day = today;
    }

    fn allow(&mut self, began: Instant) -> Result<(), String> {
        if self.used.least >= self.per_day {
            return Err(format!("more than {} requests of a day are allowed", self.per_day));
        }
        let Bounds { least, most } = self.used;
        self.used = Bounds { least: least + 1, most: self.per_day.min(most + 1) };
        let reserved = self.reserved_of_minute();
        match &mut self.minute {
            Minute::Left(0) => Err(format!("more than {} requests of a minute are allowed", self.per_minute)),
            Minute::Left(left) => {
                *left -= 1;
                Ok(())
            }
            Minute::Used { since, calls, recent } => {
                recent.push(Instant::now());
                *calls += 1;
                let passed_ms = since.get_or_insert(began).elapsed().as_millis();
                let refilled = passed_ms * u128::from(self.per_minute) / 60_000 + 1;
                let most = u128::from(self.per_minute + reserved) + refilled;
                let is_within = u128::from(*calls) <= most;
                if is_within { Ok(()) } else { Err(format!("{calls} requests in {passed_ms} ms are allowed")) }
            }
        }
    }

    fn reject_by_day(&mut self) -> Result<(), String> {
        let reserved = if self.servers > 1 { self.servers * self.block() } else { 0 };
        if self.used.most + reserved < self.per_day {
            return Err(format!("the {}th request of a day is rejected, of {}", self.used.most + 1, self.per_day));
        }
        if self.servers == 1 && !self.is_set_back {
            self.used = Bounds { least: self.per_day, most: self.per_day };
        }
        Ok(())
    }

    fn reject_by_minute(&mut self) -> Result<(), String> {
        let least = self.per_minute.saturating_sub(self.reserved_of_minute());
        match &mut self.minute {
            Minute::Left(0) => Ok(()),
            Minute::Left(left) => Err(format!("a request is rejected while {left} are left of the minute")),
            Minute::Used { recent, .. } => {
                recent.retain(|at| at.elapsed() < RECENT);
                let count = recent.len();
                let is_used = count >= least as usize;
                if is_used { Ok(()) } else { Err(format!("a request is rejected after {count} of a minute")) }
            }
        }
    }

    fn block(&self) -> u32 {
        (self.per_day / BLOCK_PART).clamp(1, BLOCK_MAX)
    }

    fn reserved_of_minute(&self) -> u32 {
        if self.servers > 1 { self.servers * (self.per_minute / CHUNK_PART).max(1) } else { 0 }
    }
}

impl Minute {
    fn unused() -> Self {
        Self::Used { since: None, calls: 0, recent: Vec::new() }
    }
}

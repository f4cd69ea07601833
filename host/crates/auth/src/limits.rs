//! Rate limits of clients and addresses: four buckets, each with a limit per minute and a limit per day.
//!
//! The minute is a token bucket (GCRA, by `governor`): a burst of N, then one call every 60/N seconds, so that a client
//! that calls evenly at N a minute is never rejected. The minute of the token endpoint is a sliding window instead: at
//! most 5 in any 60 seconds, since each call may be an attempt at a secret. The day is an exact count per UTC day that
//! survives a restart. A rejected call counts in neither. The minute uses the monotonic clock, the day the wall clock:
//! setting the clock neither adds nor removes calls of a minute.
//!
//! **Invariant:** a bucket belongs to a client or an address, never to a token; no setting disables limits.
//!
//! **Invariant:** a call is counted on disk before it is allowed: after a crash a day's count is at most one block of
//! reserved calls too high and never too low (see [`day`]).
//!
//! **Invariant:** memory is bounded: idle keys are dropped, and the number of keys is limited (see `shards.rs`).

mod allowance;
mod bucket;
pub mod common;
pub mod day;
#[cfg(test)]
mod fixtures;
pub mod response_memory;
mod shards;

use std::fmt;
use std::fmt::Display;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::ToSpan;
use jiff::civil::Date;

use self::bucket::{Bucket, Calls, TimeReading, until_tomorrow};
use self::common::{CommonBucket, CommonCounts};
use self::day::DayCounts;
use daftar_domain::calendar;
use daftar_domain::client::{Client, ClientId};
use daftar_domain::context::Clock;
use daftar_domain::error::AppError;

/// The limits of a key per minute and per day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Calls a minute; at least 1.
    pub per_minute: u32,
    /// Calls in a UTC day; at least 1.
    pub per_day: u32,
    /// The refill of the minute.
    pub refill: Refill,
}

/// The algorithms that refill a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refill {
    /// One call every 60/N seconds (GCRA): a client that calls evenly is never rejected, and the first minute may have
    /// up to 2N - 1 calls.
    Even,
    /// Each call a minute after it was made: no 60 seconds have more than N calls.
    Window,
}

/// Token requests from one address: a client requires one a day; more are brute-force attempts.
pub const TOKEN_QUOTA: Quota = Quota { per_minute: 5, per_day: 50, refill: Refill::Window };
/// Calls of one client without limits of its own.
pub const CLIENT_QUOTA_DEFAULT: Quota = Quota { per_minute: 60, per_day: 10_000, refill: Refill::Even };
/// Calls from one address without a valid token.
pub const UNAUTHENTICATED_QUOTA: Quota = Quota { per_minute: 30, per_day: 5_000, refill: Refill::Even };
/// Reads of pages and their files (the documentation and the workbench) from one address: more than the people of an
/// office read, and separate from API calls.
pub const PAGE_QUOTA: Quota = Quota { per_minute: 300, per_day: 20_000, refill: Refill::Even };

/// The most addresses or clients that one bucket stores in memory. A shard's table of 2^14 slots holds 14,336 keys
/// before it doubles, so that this many take about 110 MB and a few more would take twice that.
const KEYS_MAX: usize = shards::SHARDS * 14_000;
/// The number of past days whose counts are retained, in case the clock was wrong and is set back.
const DAYS_RETAINED: i64 = 2;

/// The four buckets of a server.
pub struct Limits {
    clock: Arc<dyn Clock>,
    counts: Counts,
    token: Limiter<AddressKey>,
    client: Limiter<ClientId>,
    unauthenticated: Limiter<AddressKey>,
    pages: Limiter<AddressKey>,
    cleared_on: Mutex<Option<Date>>,
}

impl Limits {
    /// Creates buckets that are full, apart from the stored counts of today.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, counts: Arc<dyn DayCounts>) -> Self {
        Self::counting(clock, Counts::Own(counts))
    }

    /// Creates buckets that are shared with other processes.
    #[must_use]
    pub fn common(clock: Arc<dyn Clock>, counts: Arc<dyn CommonCounts>) -> Self {
        Self::counting(clock, Counts::Common(counts))
    }

    fn counting(clock: Arc<dyn Clock>, counts: Counts) -> Self {
        Self {
            token: Limiter::new("token", &counts),
            client: Limiter::new("client", &counts),
            unauthenticated: Limiter::new("unauthenticated", &counts),
            pages: Limiter::new("pages", &counts),
            cleared_on: Mutex::new(None),
            clock,
            counts,
        }
    }

    /// Counts a token request, before the request is parsed.
    ///
    /// # Errors
    /// If a day's count cannot be read or written: the request is then not allowed.
    pub async fn charge_token_request(&self, address: IpAddr) -> Result<Decision, AppError> {
        self.token.charge(&AddressKey::of(address), TOKEN_QUOTA, Calls::ONE, || self.time_reading()).await
    }

    /// Counts a call of an authenticated client, against its own limits if it has any. A change of the limits applies
    /// to the next call.
    ///
    /// # Errors
    /// If a day's count cannot be read or written: the call is then not allowed.
    pub async fn charge_client(&self, client: &Client) -> Result<Decision, AppError> {
        self.client.charge(&client.id, Self::quota_of(client), Calls::ONE, || self.time_reading()).await
    }

    /// Counts the rest of a call that costs `calls` in total, of which [`Self::charge_client`] counted the first: all
    /// or nothing. `Retry-After` of a rejection is the time after which all of them are allowed.
    ///
    /// # Errors
    /// As [`Self::charge_client`].
    pub async fn charge_client_rest(&self, client: &Client, calls: u32) -> Result<Decision, AppError> {
        let (quota, calls) = (Self::quota_of(client), Calls::rest_of(calls));
        self.client.charge(&client.id, quota, calls, || self.time_reading()).await
    }

    /// Returns the limits of a client: its own, or the default.
    #[must_use]
    pub fn quota_of(client: &Client) -> Quota {
        Quota {
            per_minute: client.rate_limit_per_minute.map_or(CLIENT_QUOTA_DEFAULT.per_minute, |limit| limit.requests()),
            per_day: client.rate_limit_per_day.map_or(CLIENT_QUOTA_DEFAULT.per_day, |limit| limit.requests()),
            refill: CLIENT_QUOTA_DEFAULT.refill,
        }
    }

    /// Counts a call without a valid token, or to a public endpoint.
    ///
    /// # Errors
    /// If a day's count cannot be read or written: the call is then not allowed.
    pub async fn charge_unauthenticated(&self, address: IpAddr) -> Result<Decision, AppError> {
        let key = AddressKey::of(address);
        self.unauthenticated.charge(&key, UNAUTHENTICATED_QUOTA, Calls::ONE, || self.time_reading()).await
    }

    /// Counts a read of a page or one of its files.
    ///
    /// # Errors
    /// If a day's count cannot be read or written: the page is then not sent.
    pub async fn charge_page(&self, address: IpAddr) -> Result<Decision, AppError> {
        let key = AddressKey::of(address);
        self.pages.charge(&key, PAGE_QUOTA, Calls::ONE, || self.time_reading()).await
    }

    /// Drops idle keys, and once a day the counts of past days. Called every minute.
    ///
    /// # Errors
    /// If the counts of past days cannot be removed; the next call tries again.
    pub async fn maintain(&self) -> Result<(), AppError> {
        let moment = self.time_reading();
        self.token.prune(moment).await?;
        self.client.prune(moment).await?;
        self.unauthenticated.prune(moment).await?;
        self.pages.prune(moment).await?;
        let is_cleared = *self.cleared_on() == Some(moment.today);
        if !is_cleared && let Ok(oldest) = moment.today.checked_sub(DAYS_RETAINED.days()) {
            self.counts.forget_before(oldest).await?;
            *self.cleared_on() = Some(moment.today);
        }
        Ok(())
    }

    /// Returns reserved calls of the shared day counts to the store. Called at shutdown, when no more calls are
    /// counted.
    ///
    /// # Errors
    /// If the store fails: the counts then stay too high by the reserved calls, at most a block for each caller.
    pub async fn give_back(&self) -> Result<(), AppError> {
        let moment = self.time_reading();
        self.token.give_back(moment).await?;
        self.client.give_back(moment).await?;
        self.unauthenticated.give_back(moment).await?;
        self.pages.give_back(moment).await
    }

    /// Returns the keys and rejections of each bucket.
    #[must_use]
    pub fn usage(&self) -> [BucketUsage; 4] {
        [self.token.usage(), self.client.usage(), self.unauthenticated.usage(), self.pages.usage()]
    }

    fn cleared_on(&self) -> std::sync::MutexGuard<'_, Option<Date>> {
        self.cleared_on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time_reading(&self) -> TimeReading {
        let now = self.clock.now();
        // `u64` fits 584 years of nanoseconds.
        let steady_ns = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
        TimeReading { now, today: calendar::utc_day(now), steady_ns }
    }
}

/// The key of an address: one IPv4 address, or one IPv6 network of 64 bits, the smallest that a household gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum AddressKey {
    V4([u8; 4]),
    V6([u8; 8]),
}

impl AddressKey {
    /// Returns the key of an address; an IPv4-mapped IPv6 address is the IPv4 address.
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

impl fmt::Display for AddressKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V4(octets) => write!(formatter, "{}", Ipv4Addr::from(octets)),
            Self::V6([a, b, c, d, e, f, g, h]) => {
                let network = Ipv6Addr::from([a, b, c, d, e, f, g, h, 0, 0, 0, 0, 0, 0, 0, 0]);
                write!(formatter, "{network}/64")
            }
        }
    }
}

/// The metrics of a bucket.
#[derive(Debug, Clone, Copy)]
pub struct BucketUsage {
    /// The name of the bucket.
    pub bucket: &'static str,
    /// The addresses or clients in memory.
    pub keys: usize,
    /// The most addresses or clients in memory.
    pub keys_max: usize,
    /// The rejected calls, by reason.
    pub refused: [(&'static str, u64); Refusal::ALL.len()],
}

/// The three `X-RateLimit-` headers, of the window (minute or day) with fewer calls left. On a tie the day is shown: it
/// takes longer to reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateHeaders {
    /// `X-RateLimit-Limit`: calls in the window.
    pub limit: u32,
    /// `X-RateLimit-Remaining`: the calls that are allowed immediately.
    pub remaining: u32,
    /// `X-RateLimit-Reset`: whole seconds, rounded up, until the window is full again.
    pub reset_s: u64,
}

daftar_domain::named_enum! {
    /// The reasons why a call is rejected.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Refusal {
        /// The limit of the minute is reached.
        Minute = "minute",
        /// The limit of the day is reached.
        Day = "day",
        /// More addresses call at the same time than the server can count.
        AtCapacity = "at_capacity",
    }
}

/// The decision on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The call is counted and may continue.
    Allowed {
        /// The rate-limit headers of the response.
        headers: RateHeaders,
    },
    /// The call is not counted and must get a 429 response.
    Refused {
        /// The reason.
        refusal: Refusal,
        /// The limit of the exhausted window.
        limit: u32,
        /// The rate-limit headers of the response.
        headers: RateHeaders,
        /// `Retry-After`: whole seconds, at least 1. A call after that time is allowed, unless other calls come first,
        /// and none a second earlier.
        retry_after_s: u64,
    },
}

impl RateHeaders {
    /// Chooses the window with fewer calls left, the day on a tie.
    fn of(
        quota: Quota,
        (day_left, minute_left): (u32, u32),
        moment: TimeReading,
        until_full: impl FnOnce() -> Duration,
    ) -> Self {
        if day_left <= minute_left {
            let reset_s = seconds_up(until_tomorrow(moment)).max(1);
            Self { limit: quota.per_day, remaining: day_left, reset_s }
        } else {
            Self { limit: quota.per_minute, remaining: minute_left, reset_s: seconds_up(until_full()) }
        }
    }
}

impl Decision {
    fn refused(refusal: Refusal, quota: Quota, headers: RateHeaders, wait: Duration) -> Self {
        let limit = if refusal == Refusal::Day { quota.per_day } else { quota.per_minute };
        Self::Refused { refusal, limit, headers, retry_after_s: seconds_up(wait).max(1) }
    }

    /// Returns the rate-limit headers of the response.
    #[must_use]
    pub fn headers(&self) -> RateHeaders {
        match self {
            Self::Allowed { headers } | Self::Refused { headers, .. } => *headers,
        }
    }

    /// Returns the `detail` of the 429 response; `None` if the call may continue.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        let Self::Refused { refusal, limit, retry_after_s, .. } = self else { return None };
        let reason = match refusal {
            Refusal::Minute => format!("the limit of {limit} requests a minute is reached"),
            Refusal::Day => format!("the limit of {limit} requests a day is reached"),
            Refusal::AtCapacity => "requests come from too many addresses".to_owned(),
        };
        Some(format!("{reason}: retry in {retry_after_s} s"))
    }
}

/// Whole seconds, rounded up.
fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// The store of the counts.
#[derive(Clone)]
enum Counts {
    /// On this process's own disk.
    Own(Arc<dyn DayCounts>),
    /// In a store shared by several processes.
    Common(Arc<dyn CommonCounts>),
}

/// One bucket with its rejection counters.
struct Limiter<K> {
    name: &'static str,
    keys: LimitedKeys<K>,
    refused: [AtomicU64; Refusal::ALL.len()],
}

/// The state of each key.
enum LimitedKeys<K> {
    Own(Bucket<K>),
    Common(CommonBucket<K>),
}

impl<K: Clone + Eq + Hash + Display + Send + 'static> Limiter<K> {
    fn new(name: &'static str, counts: &Counts) -> Self {
        let keys = match counts {
            Counts::Own(counts) => LimitedKeys::Own(Bucket::new(name, KEYS_MAX, Arc::clone(counts))),
            Counts::Common(counts) => LimitedKeys::Common(CommonBucket::new(name, KEYS_MAX, Arc::clone(counts))),
        };
        Self { name, keys, refused: Default::default() }
    }

    async fn charge(
        &self,
        key: &K,
        quota: Quota,
        calls: Calls,
        moment: impl Fn() -> TimeReading,
    ) -> Result<Decision, AppError> {
        let charged = match &self.keys {
            LimitedKeys::Own(bucket) => bucket.charge(key, quota, calls, moment).await,
            LimitedKeys::Common(bucket) => bucket.charge(key, quota, calls, moment).await,
        };
        if let Ok(Decision::Refused { refusal, .. }) = &charged
            && let Some(count) = self.refused.get(*refusal as usize)
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
        charged
    }

    async fn prune(&self, moment: TimeReading) -> Result<(), AppError> {
        match &self.keys {
            LimitedKeys::Own(bucket) => {
                bucket.prune(moment);
                Ok(())
            }
            LimitedKeys::Common(bucket) => bucket.prune(moment).await,
        }
    }

    /// Returns reserved calls to a shared store; on an own disk, reservations stay.
    async fn give_back(&self, moment: TimeReading) -> Result<(), AppError> {
        match &self.keys {
            LimitedKeys::Own(_) => Ok(()),
            LimitedKeys::Common(bucket) => bucket.give_back(moment).await,
        }
    }

    fn usage(&self) -> BucketUsage {
        let keys = match &self.keys {
            LimitedKeys::Own(bucket) => bucket.len(),
            LimitedKeys::Common(bucket) => bucket.len(),
        };
        let mut refused = Refusal::NAMES.map(|name| (name, 0));
        for ((_, to), count) in refused.iter_mut().zip(&self.refused) {
            *to = count.load(Ordering::Relaxed);
        }
        BucketUsage { bucket: self.name, keys, keys_max: KEYS_MAX, refused }
    }
}

impl Counts {
    /// Removes the counts of all earlier days.
    async fn forget_before(&self, day: jiff::civil::Date) -> Result<(), AppError> {
        let forgotten = match self {
            Self::Own(counts) => counts.forget_before(day).await,
            Self::Common(counts) => counts.forget_before(day).await,
        };
        forgotten.map_err(AppError::Unavailable)
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod address_tests {
    use super::*;

    fn key(text: &str) -> String {
        AddressKey::of(text.parse().unwrap()).to_string()
    }

    #[test]
    fn a_network_of_64_bits_is_one_key() {
        assert_eq!(key("2001:db8:1:2::1"), "2001:db8:1:2::/64");
        assert_eq!(key("2001:db8:1:2:ffff::"), key("2001:db8:1:2::1"));
        assert_ne!(key("2001:db8:1:3::1"), key("2001:db8:1:2::1"));
    }

    #[test]
    fn an_ipv4_address_is_the_same_in_both_notations() {
        assert_eq!(key("203.0.113.9"), "203.0.113.9");
        assert_eq!(key("::ffff:203.0.113.9"), "203.0.113.9");
        assert_ne!(key("203.0.113.8"), key("203.0.113.9"));
    }
}

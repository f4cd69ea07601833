//! What a plugin has used, for `plugin list` and the metrics page.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::HostClock;
use super::breaker::{Breaker, BreakerState};
use super::fault::FaultKind;

/// What one session in the sandbox has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Fuel burnt, over all calls.
    pub fuel: u64,
    /// The most memory that the instance had, in bytes.
    pub peak_memory_bytes: u64,
    /// Time spent inside the sandbox.
    pub time: Duration,
}

/// The last thing that went wrong with a plugin: which kind and when, never what it was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastFault {
    /// Which kind.
    pub kind: FaultKind,
    /// When.
    pub at: Timestamp,
}

/// What a plugin has used since it was loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginUsage {
    /// Calls into the plugin, those with a fault included.
    pub calls: u64,
    /// Faults by kind; kinds that never occurred are left out.
    pub faults: Vec<(FaultKind, u64)>,
    /// The last of them.
    pub last_fault: Option<LastFault>,
    /// Instances that are alive now.
    pub instances: u64,
    /// Requests that wait for the plugin or run in it now.
    pub requests: u64,
    /// The most requests that waited or ran at a time.
    pub peak_requests: u64,
    /// Requests that were refused because too much was waiting, or because the plugin is set aside.
    pub rejected: u64,
    /// The most bytes that one call was given.
    pub peak_input_bytes: u64,
    /// About the most bytes that one answer took.
    pub peak_output_bytes: u64,
    /// The most memory that an instance had, in bytes.
    pub peak_memory_bytes: u64,
    /// Fuel burnt, over all calls.
    pub fuel: u64,
    /// The most fuel that one call burnt.
    pub peak_fuel: u64,
    /// The most that a call burnt of the fuel it was given: 1 is all of it.
    pub peak_fuel_share: f64,
    /// Time spent inside, over all calls.
    pub time: Duration,
    /// The longest time that one call took.
    pub peak_time: Duration,
    /// Log lines written.
    pub log_lines: u64,
    /// Log lines dropped because they came too fast.
    pub log_lines_suppressed: u64,
    /// Whether it is used or set aside.
    pub breaker: BreakerState,
    /// How often it was set aside.
    pub set_aside: u64,
}

/// The counters of one plugin, shared by all its sessions.
#[derive(Debug)]
pub(super) struct PluginStats {
    clock: HostClock,
    /// How long calls take, for the metrics page.
    durations: metrics::Histogram,
    last_fault: Mutex<Option<LastFault>>,
    peak_requests: AtomicU64,
    rejected: AtomicU64,
    peak_input_bytes: AtomicUsize,
    peak_output_bytes: AtomicUsize,
    calls: AtomicU64,
    faults: [AtomicU64; FaultKind::ALL.len()],
    instances: AtomicU64,
    requests: AtomicU64,
    peak_memory_bytes: AtomicU64,
    fuel: AtomicU64,
    peak_fuel: AtomicU64,
    peak_fuel_millionths: AtomicU64,
    time_us: AtomicU64,
    peak_time_us: AtomicU64,
}

impl Default for PluginStats {
    fn default() -> Self {
        Self::new(HostClock::default(), metrics::Histogram::noop())
    }
}

impl PluginStats {
    /// Nothing used yet.
    pub fn new(clock: HostClock, durations: metrics::Histogram) -> Self {
        Self {
            clock,
            durations,
            last_fault: Mutex::new(None),
            peak_requests: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            peak_input_bytes: AtomicUsize::new(0),
            peak_output_bytes: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            faults: Default::default(),
            instances: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            peak_memory_bytes: AtomicU64::new(0),
            fuel: AtomicU64::new(0),
            peak_fuel: AtomicU64::new(0),
            peak_fuel_millionths: AtomicU64::new(0),
            time_us: AtomicU64::new(0),
            peak_time_us: AtomicU64::new(0),
        }
    }

    /// Counts a call that burnt so much of the fuel it was given.
    pub fn record_call(&self, fuel: u64, allowed: u64, time: Duration, memory_bytes: u64) {
        let millionths = u128::from(fuel).saturating_mul(1_000_000) / u128::from(allowed.max(1));
        self.peak_fuel_millionths.fetch_max(u64::try_from(millionths).unwrap_or(u64::MAX), Ordering::Relaxed);
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.durations.record(time.as_secs_f64());
        self.fuel.fetch_add(fuel, Ordering::Relaxed);
        self.peak_fuel.fetch_max(fuel, Ordering::Relaxed);
        self.time_us.fetch_add(time_us, Ordering::Relaxed);
        self.peak_time_us.fetch_max(time_us, Ordering::Relaxed);
        self.peak_memory_bytes.fetch_max(memory_bytes, Ordering::Relaxed);
    }

    /// Counts a fault.
    pub fn record_fault(&self, kind: FaultKind) {
        for (counted, faults) in FaultKind::ALL.into_iter().zip(&self.faults) {
            if counted == kind {
                faults.fetch_add(1, Ordering::Relaxed);
            }
        }
        let last = LastFault { kind, at: self.clock.now() };
        *self.last_fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }

    /// Counts a request that was refused.
    pub fn record_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how many bytes a call was given.
    pub fn record_input(&self, bytes: usize) {
        self.peak_input_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Notes about how many bytes an answer took.
    pub fn record_output(&self, bytes: usize) {
        self.peak_output_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Counts an instance for as long as the guard lives.
    pub fn count_instance(self: &Arc<Self>) -> Counted {
        Counted::one_more(self, |stats| &stats.instances)
    }

    /// Counts a request for as long as the guard lives, unless there are `most` already.
    pub fn admit_request(self: &Arc<Self>, most: usize) -> Option<Counted> {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let counted = Counted::one_more(self, |stats| &stats.requests);
        // The guard that goes too far takes itself back when it is dropped here.
        if counted.level > most {
            self.record_rejected();
            return None;
        }
        self.peak_requests.fetch_max(counted.level, Ordering::Relaxed);
        Some(counted)
    }

    /// The figures as they are now.
    pub fn snapshot(&self, (log_lines, log_lines_suppressed): (u64, u64), breaker: &Breaker) -> PluginUsage {
        let bytes = |bytes: &AtomicUsize| u64::try_from(bytes.load(Ordering::Relaxed)).unwrap_or(u64::MAX);
        let faults = FaultKind::ALL.into_iter().zip(&self.faults);
        PluginUsage {
            calls: self.calls.load(Ordering::Relaxed),
            faults: faults
                .map(|(kind, count)| (kind, count.load(Ordering::Relaxed)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            last_fault: *self.last_fault.lock().unwrap_or_else(PoisonError::into_inner),
            peak_requests: self.peak_requests.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            peak_input_bytes: bytes(&self.peak_input_bytes),
            peak_output_bytes: bytes(&self.peak_output_bytes),
            log_lines,
            log_lines_suppressed,
            breaker: breaker.state(),
            set_aside: breaker.opened_in_all(),
            instances: self.instances.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            peak_memory_bytes: self.peak_memory_bytes.load(Ordering::Relaxed),
            fuel: self.fuel.load(Ordering::Relaxed),
            peak_fuel: self.peak_fuel.load(Ordering::Relaxed),
            peak_fuel_share: self.peak_fuel_millionths.load(Ordering::Relaxed) as f64 / 1e6,
            time: Duration::from_micros(self.time_us.load(Ordering::Relaxed)),
            peak_time: Duration::from_micros(self.peak_time_us.load(Ordering::Relaxed)),
        }
    }
}

/// Something counted that is taken off the count when it ends.
#[derive(Debug)]
pub(super) struct Counted {
    stats: Arc<PluginStats>,
    counter: fn(&PluginStats) -> &AtomicU64,
    /// The count with this one.
    level: u64,
}

impl Counted {
    fn one_more(stats: &Arc<PluginStats>, counter: fn(&PluginStats) -> &AtomicU64) -> Self {
        let level = counter(stats).fetch_add(1, Ordering::Relaxed).saturating_add(1);
        Self { stats: stats.clone(), counter, level }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.counter)(&self.stats).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(stats: &PluginStats) -> PluginUsage {
        stats.snapshot((0, 0), &Breaker::new(HostClock::default()))
    }

    #[test]
    fn admits_requests_up_to_the_limit() {
        let stats = Arc::new(PluginStats::default());
        let first = stats.admit_request(2);
        let second = stats.admit_request(2);
        assert!(first.is_some() && second.is_some());
        assert!(stats.admit_request(2).is_none());
        drop(first);
        assert!(stats.admit_request(2).is_some());
        drop(second);
        assert_eq!(snapshot(&stats).requests, 0);
        let usage = snapshot(&stats);
        assert_eq!((usage.peak_requests, usage.rejected), (2, 1));
    }

    #[test]
    fn keeps_totals_and_peaks_apart() {
        let stats = PluginStats::default();
        stats.record_call(10, 40, Duration::from_micros(5), 100);
        stats.record_call(30, 1_000, Duration::from_micros(2), 50);
        stats.record_fault(FaultKind::Trap);
        let usage = snapshot(&stats);
        assert_eq!((usage.calls, usage.fuel, usage.peak_fuel, usage.peak_memory_bytes), (2, 40, 30, 100));
        assert_eq!((usage.time, usage.peak_time), (Duration::from_micros(7), Duration::from_micros(5)));
        assert_eq!(usage.peak_fuel_share, 0.25, "the larger share is that of the call with less fuel");
        assert_eq!(usage.faults, [(FaultKind::Trap, 1)]);
        assert_eq!(usage.last_fault.map(|last| last.kind), Some(FaultKind::Trap));
    }
}

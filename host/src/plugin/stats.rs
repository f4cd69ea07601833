//! What a plugin has used, for `plugin list` and the metrics page.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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

/// What a plugin has used since it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginUsage {
    /// Calls into the plugin, those with a fault included.
    pub calls: u64,
    /// Faults by kind; kinds that never occurred are left out.
    pub faults: Vec<(FaultKind, u64)>,
    /// Instances that are alive now.
    pub instances: u64,
    /// Requests that wait for the plugin or run in it now.
    pub requests: u64,
    /// The most memory that an instance had, in bytes.
    pub peak_memory_bytes: u64,
    /// Fuel burnt, over all calls.
    pub fuel: u64,
    /// The most fuel that one call burnt.
    pub peak_fuel: u64,
    /// Time spent inside, over all calls.
    pub time: Duration,
    /// The longest time that one call took.
    pub peak_time: Duration,
}

/// The counters of one plugin, shared by all its sessions.
#[derive(Debug, Default)]
pub(super) struct PluginStats {
    calls: AtomicU64,
    faults: [AtomicU64; FaultKind::ALL.len()],
    instances: AtomicU64,
    requests: AtomicU64,
    peak_memory_bytes: AtomicU64,
    fuel: AtomicU64,
    peak_fuel: AtomicU64,
    time_us: AtomicU64,
    peak_time_us: AtomicU64,
}

impl PluginStats {
    /// Counts a call.
    pub fn record_call(&self, fuel: u64, time: Duration, memory_bytes: u64) {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.calls.fetch_add(1, Ordering::Relaxed);
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
    }

    /// Counts an instance for as long as the guard lives.
    pub fn count_instance(self: &std::sync::Arc<Self>) -> Counted {
        Counted::one_more(self, |stats| &stats.instances)
    }

    /// Counts a request for as long as the guard lives, unless there are `most` already.
    pub fn admit_request(self: &std::sync::Arc<Self>, most: usize) -> Option<Counted> {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let counted = Counted::one_more(self, |stats| &stats.requests);
        // The guard that goes too far takes itself back when it is dropped here.
        (counted.level <= most).then_some(counted)
    }

    /// The figures as they are now.
    pub fn snapshot(&self) -> PluginUsage {
        let faults = FaultKind::ALL.into_iter().zip(&self.faults);
        PluginUsage {
            calls: self.calls.load(Ordering::Relaxed),
            faults: faults
                .map(|(kind, count)| (kind, count.load(Ordering::Relaxed)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            instances: self.instances.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            peak_memory_bytes: self.peak_memory_bytes.load(Ordering::Relaxed),
            fuel: self.fuel.load(Ordering::Relaxed),
            peak_fuel: self.peak_fuel.load(Ordering::Relaxed),
            time: Duration::from_micros(self.time_us.load(Ordering::Relaxed)),
            peak_time: Duration::from_micros(self.peak_time_us.load(Ordering::Relaxed)),
        }
    }
}

/// Something counted that is taken off the count when it ends.
#[derive(Debug)]
pub(super) struct Counted {
    stats: std::sync::Arc<PluginStats>,
    counter: fn(&PluginStats) -> &AtomicU64,
    /// The count with this one.
    level: u64,
}

impl Counted {
    fn one_more(stats: &std::sync::Arc<PluginStats>, counter: fn(&PluginStats) -> &AtomicU64) -> Self {
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
    use std::sync::Arc;

    use super::*;

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
        assert_eq!(stats.snapshot().requests, 0);
    }

    #[test]
    fn keeps_totals_and_peaks_apart() {
        let stats = PluginStats::default();
        stats.record_call(10, Duration::from_micros(5), 100);
        stats.record_call(30, Duration::from_micros(2), 50);
        stats.record_fault(FaultKind::Trap);
        let usage = stats.snapshot();
        assert_eq!((usage.calls, usage.fuel, usage.peak_fuel, usage.peak_memory_bytes), (2, 40, 30, 100));
        assert_eq!((usage.time, usage.peak_time), (Duration::from_micros(7), Duration::from_micros(5)));
        assert_eq!(usage.faults, [(FaultKind::Trap, 1)]);
    }
}

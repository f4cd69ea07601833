//! The resource use of plugins, for `plugin list` and the metrics, and the clock and histogram that measure it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::breaker::{Breaker, BreakerState};
use super::fault::FaultKind;
use daftar_domain::context::Clock;
use daftar_domain::manifest::PluginName;

/// The resources that one session in the sandbox has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Fuel consumed, over all calls.
    pub fuel: u64,
    /// The peak memory of the instance, in bytes.
    pub peak_memory_bytes: u64,
    /// Time spent inside the sandbox.
    pub time: Duration,
}

/// The last fault of a plugin: its kind and time, without its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastFault {
    /// Its kind.
    pub kind: FaultKind,
    /// Its time.
    pub at: Timestamp,
}

/// The resources that a plugin has used since it was loaded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginUsage {
    /// Calls into the plugin, including those that ended with a fault.
    pub calls: u64,
    /// Faults by kind, in order; kinds that never occurred are omitted.
    pub faults: Vec<(FaultKind, u64)>,
    /// The last of them.
    pub last_fault: Option<LastFault>,
    /// Instances that exist now.
    pub instances: u64,
    /// Requests that wait for the plugin or run in it now.
    pub requests: u64,
    /// The most requests that waited or ran concurrently.
    pub peak_requests: u64,
    /// Requests that were rejected because the queue was full or the plugin is suspended.
    pub rejected: u64,
    /// The largest input of one call, in bytes.
    pub peak_input_bytes: u64,
    /// The approximate size of the largest response, in bytes.
    pub peak_output_bytes: u64,
    /// The peak memory of an instance, in bytes.
    pub peak_memory_bytes: u64,
    /// Fuel consumed, over all calls.
    pub fuel: u64,
    /// The most fuel that one call consumed.
    pub peak_fuel: u64,
    /// The largest share of its fuel that one call consumed; 1 is all of it.
    pub peak_fuel_share: f64,
    /// Time spent in the plugin, over all calls.
    pub time: Duration,
    /// The longest time of one call.
    pub peak_time: Duration,
    /// Log lines written.
    pub log_lines: u64,
    /// Log lines suppressed by the rate limit.
    pub log_lines_suppressed: u64,
    /// The state of its circuit breaker.
    pub breaker: BreakerState,
    /// The number of suspensions.
    pub suspensions: u64,
}

/// The counters of one plugin, shared by all its sessions.
pub(super) struct PluginStats {
    clock: HostClock,
    /// The durations of calls, for the metrics.
    durations: metrics::Histogram,
    /// The values counted here; the log and the breaker count the rest.
    usage: Mutex<PluginUsage>,
}

impl PluginStats {
    /// Counters at zero.
    pub fn new(clock: HostClock, durations: metrics::Histogram) -> Self {
        Self { clock, durations, usage: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, PluginUsage> {
        // Nothing panics while the lock is held.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and the fuel it consumed.
    pub fn record_call(&self, fuel: u64, allowed: u64, time: Duration, memory_bytes: u64) {
        self.durations.record(time.as_secs_f64());
        let mut usage = self.lock();
        usage.calls += 1;
        usage.fuel = usage.fuel.saturating_add(fuel);
        usage.peak_fuel = usage.peak_fuel.max(fuel);
        usage.peak_fuel_share = usage.peak_fuel_share.max(fuel as f64 / allowed.max(1) as f64);
        usage.time = usage.time.saturating_add(time);
        usage.peak_time = usage.peak_time.max(time);
        usage.peak_memory_bytes = usage.peak_memory_bytes.max(memory_bytes);
    }

    /// Counts a fault.
    pub fn record_fault(&self, kind: FaultKind) {
        let at = self.clock.now();
        let mut usage = self.lock();
        usage.last_fault = Some(LastFault { kind, at });
        let place = usage.faults.partition_point(|(other, _)| *other < kind);
        match usage.faults.get_mut(place) {
            Some((other, count)) if *other == kind => *count += 1,
            _ => usage.faults.insert(place, (kind, 1)),
        }
    }

    /// Counts a rejected request.
    pub fn record_rejected(&self) {
        self.lock().rejected += 1;
    }

    /// Records the size of the input of a call.
    pub fn record_input(&self, bytes: usize) {
        let mut usage = self.lock();
        usage.peak_input_bytes = usage.peak_input_bytes.max(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Records the approximate size of a response.
    pub fn record_output(&self, bytes: usize) {
        let mut usage = self.lock();
        usage.peak_output_bytes = usage.peak_output_bytes.max(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Counts an instance for as long as the guard lives.
    pub fn count_instance(self: &Arc<Self>) -> Counted {
        self.lock().instances += 1;
        Counted { stats: self.clone(), counter: |usage| &mut usage.instances }
    }

    /// Counts a request for as long as the guard lives, unless the limit of `most` is reached.
    pub fn admit_request(self: &Arc<Self>, most: usize) -> Option<Counted> {
        let mut usage = self.lock();
        if usage.requests >= u64::try_from(most).unwrap_or(u64::MAX) {
            usage.rejected += 1;
            return None;
        }
        usage.requests += 1;
        usage.peak_requests = usage.peak_requests.max(usage.requests);
        Some(Counted { stats: self.clone(), counter: |usage| &mut usage.requests })
    }

    /// Returns the current values.
    pub fn snapshot(&self, (log_lines, log_lines_suppressed): (u64, u64), breaker: &Breaker) -> PluginUsage {
        let (state, suspensions) = (breaker.state(), breaker.opened_in_all());
        PluginUsage { log_lines, log_lines_suppressed, breaker: state, suspensions, ..self.lock().clone() }
    }
}

/// A guard that decrements a counter when it is dropped.
pub(super) struct Counted {
    stats: Arc<PluginStats>,
    counter: fn(&mut PluginUsage) -> &mut u64,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut usage = self.stats.lock();
        let count = (self.counter)(&mut usage);
        *count = count.saturating_sub(1);
    }
}

/// The clock of breakers and logs; the system clock unless a test sets another.
pub type HostClock = Arc<dyn Clock>;

/// Returns the histogram of a plugin's call durations, in seconds.
pub type CallRecorder = Arc<dyn Fn(&PluginName) -> metrics::Histogram + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::context::SystemClock;

    fn clock() -> HostClock {
        Arc::new(SystemClock)
    }

    fn stats() -> PluginStats {
        PluginStats::new(clock(), metrics::Histogram::noop())
    }

    fn snapshot(stats: &PluginStats) -> PluginUsage {
        stats.snapshot((0, 0), &Breaker::new(clock()))
    }

    #[test]
    fn admits_requests_up_to_the_limit() {
        let stats = Arc::new(stats());
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
        let stats = stats();
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

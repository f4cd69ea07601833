//! One instance of a plugin, for one request.
//!
//! **Invariant:** every call sets its fuel and its deadline before the guest runs.
//! **Invariant:** after a fault the instance is never entered again: each later call returns the same fault.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Level;
use tracing::field::Empty;
use wasmtime::{Engine, Store};

use super::engine::TICK;
use super::fault::{FaultKind, PluginFault};
use super::host::HostCalls;
use super::host::PluginLog;
use super::limits::{Limiter, PluginLimits};
use super::stats::{Counted, PluginStats, Usage};
use daftar_domain::manifest::PluginName;

/// The host's state of an instance. The guest can affect only the counters of its import `log`.
pub(super) struct HostState {
    limiter: Limiter,
    input_bytes_max: usize,
    host_calls: HostCalls,
    log: Arc<PluginLog>,
    /// True if it has received data of a caller, which must not appear in the log.
    is_silent: bool,
    stats: Arc<PluginStats>,
    _counted: Counted,
}

impl HostState {
    /// Records the size of the input of a call.
    ///
    /// # Errors
    /// The size exceeds the limit.
    pub fn give(&self, what: &str, bytes: usize) -> Result<(), CallError> {
        let allowed = self.input_bytes_max;
        if bytes > allowed {
            let reason = format!("{what} takes {bytes} bytes; the limit of a call is {allowed}");
            return Err(CallError::RefusedInput(reason));
        }
        self.stats.record_input(bytes);
        Ok(())
    }

    /// Writes a line of the plugin, or only counts it once the plugin is silenced.
    ///
    /// # Errors
    /// The call exceeded its budget of calls to the host.
    pub fn write_log(&mut self, level: Level, message: &str) -> wasmtime::Result<()> {
        self.host_calls.charge(message.len())?;
        if self.is_silent && !self.log.shows_all() {
            self.log.withhold();
        } else {
            self.log.write(level, message);
        }
        Ok(())
    }
}

/// The parts of a new instance besides its code.
pub(super) struct SandboxOf<'p> {
    pub engine: &'p Engine,
    pub plugin: &'p PluginName,
    pub limits: &'p PluginLimits,
    pub stats: &'p Arc<PluginStats>,
    pub log: &'p Arc<PluginLog>,
}

/// The reason why a call returned no value.
#[derive(Debug)]
pub(super) enum CallError {
    /// Wasmtime stopped the call.
    Stopped(wasmtime::Error),
    /// The response breaks the interface, with the reason.
    InvalidAnswer(String),
    /// The responses exceed a limit of the host, with the amount.
    TooLarge(String),
    /// The plugin rejected the host's input, with the reason; a defect of the host.
    RefusedInput(String),
}

impl From<wasmtime::Error> for CallError {
    fn from(error: wasmtime::Error) -> Self {
        Self::Stopped(error)
    }
}

/// A wasmtime store with one instance of a plugin, and the exports `G` of that instance.
pub(super) struct Sandbox<G> {
    store: Store<HostState>,
    exports: G,
    plugin: PluginName,
    limits: PluginLimits,
    stats: Arc<PluginStats>,
    usage: Usage,
    ended: Option<PluginFault>,
}

impl<G> Sandbox<G> {
    /// Creates an instance with `instantiate`, under the limits of a call: a guest's start function is guest code.
    ///
    /// # Errors
    /// The fault that prevented the start.
    pub fn start(
        of: SandboxOf<'_>,
        instantiate: impl FnOnce(&mut Store<HostState>) -> wasmtime::Result<G>,
    ) -> Result<Self, PluginFault> {
        let state = HostState {
            limiter: Limiter::new(of.limits),
            input_bytes_max: of.limits.input_bytes,
            host_calls: HostCalls::new(of.limits),
            log: of.log.clone(),
            is_silent: false,
            stats: of.stats.clone(),
            _counted: of.stats.count_instance(),
        };
        let mut store = Store::new(of.engine, state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(of.limits.output_bytes);
        let mut sandbox = Sandbox {
            store,
            exports: (),
            plugin: of.plugin.clone(),
            limits: of.limits.clone(),
            stats: of.stats.clone(),
            usage: Usage::default(),
            ended: None,
        };
        let exports = sandbox.call(of.limits.fuel_base, |store, ()| Ok(instantiate(store)?))?;
        let Sandbox { store, exports: (), plugin, limits, stats, usage, ended } = sandbox;
        Ok(Sandbox { store, exports, plugin, limits, stats, usage, ended })
    }

    /// Calls the plugin once with that much fuel, and the time of one call.
    ///
    /// # Errors
    /// The fault of this call, or that of an earlier one.
    pub fn call<R>(
        &mut self,
        fuel: u64,
        call: impl FnOnce(&mut Store<HostState>, &G) -> Result<R, CallError>,
    ) -> Result<R, PluginFault> {
        self.call_within(fuel, Duration::from_millis(self.limits.call_ms), call)
    }

    /// Calls the plugin once with that much fuel and time.
    ///
    /// # Errors
    /// The fault of this call, or that of an earlier one.
    pub fn call_within<R>(
        &mut self,
        fuel: u64,
        time: Duration,
        call: impl FnOnce(&mut Store<HostState>, &G) -> Result<R, CallError>,
    ) -> Result<R, PluginFault> {
        if let Some(fault) = &self.ended {
            return Err(fault.clone());
        }
        let span = tracing::info_span!("plugin.call", plugin.name = %self.plugin, plugin.fault = Empty, otel.status_code = Empty);
        let _entered = span.enter();
        let started = Instant::now();
        self.store.data_mut().host_calls.begin();
        let answer = match self.store.set_fuel(fuel) {
            Ok(()) => {
                self.store.set_epoch_deadline(ticks_of(time));
                call(&mut self.store, &self.exports)
            }
            Err(error) => Err(CallError::Stopped(error)),
        };
        self.record(fuel, started.elapsed());
        answer.map_err(|error| {
            let fault = self.end(&error);
            span.record("plugin.fault", fault.kind.name());
            span.record("otel.status_code", "ERROR");
            fault
        })
    }

    /// Stops logging the plugin's lines, before it receives rules, facts about people, and codes of clients.
    pub fn silence(&mut self) {
        self.store.data_mut().is_silent = true;
    }

    /// The plugin's limits.
    pub fn limits(&self) -> &PluginLimits {
        &self.limits
    }

    /// The resources that the instance has used so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Records the approximate size of a response.
    pub fn note_output(&self, bytes: usize) {
        self.stats.record_output(bytes);
    }

    /// The fault that ended the instance.
    pub fn fault(&self) -> Option<&PluginFault> {
        self.ended.as_ref()
    }

    /// Ends the instance because of an invalid response.
    pub fn distrust(&mut self, reason: impl Into<String>) -> PluginFault {
        self.end(&CallError::InvalidAnswer(reason.into()))
    }

    /// Ends the instance because its responses exceed a limit of the host.
    pub fn overflow(&mut self, reason: impl Into<String>) -> PluginFault {
        self.end(&CallError::TooLarge(reason.into()))
    }

    fn record(&mut self, fuel: u64, time: Duration) {
        let burnt = fuel.saturating_sub(self.store.get_fuel().unwrap_or(0));
        let memory_bytes = u64::try_from(self.store.data().limiter.memory_bytes()).unwrap_or(u64::MAX);
        self.usage.fuel = self.usage.fuel.saturating_add(burnt);
        self.usage.peak_memory_bytes = self.usage.peak_memory_bytes.max(memory_bytes);
        self.usage.time += time;
        self.stats.record_call(burnt, fuel, time, memory_bytes);
    }

    fn end(&mut self, error: &CallError) -> PluginFault {
        let fault = match error {
            CallError::Stopped(error) => PluginFault::classify(&self.plugin, error, &self.limits),
            CallError::InvalidAnswer(reason) => PluginFault::new(&self.plugin, FaultKind::InvalidAnswer, reason),
            CallError::TooLarge(reason) => PluginFault::new(&self.plugin, FaultKind::OutputTooLarge, reason),
            CallError::RefusedInput(reason) => PluginFault::new(&self.plugin, FaultKind::RefusedInput, reason),
        };
        self.stats.record_fault(fault.kind);
        self.ended = Some(fault.clone());
        fault
    }
}

/// The number of ticks that cover that time, plus one, because the first tick may come immediately.
fn ticks_of(time: Duration) -> u64 {
    let ticks = time.as_nanos().div_ceil(TICK.as_nanos()).saturating_add(1);
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_shorter_than_its_time() {
        assert_eq!(ticks_of(Duration::ZERO), 1);
        assert_eq!(ticks_of(TICK), 2);
        assert_eq!(ticks_of(TICK * 3 / 2), 3);
    }
}

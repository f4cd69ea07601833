//! What a plugin used of its limits, and how it fares.

use std::time::Duration;

use serde::Serialize;

use daftar_domain::calendar::format_instant;
use daftar_service::plugin::InstalledPlugin;

/// The part of a plugin's body that tells its use.
#[derive(Debug, Serialize)]
pub struct PluginUseBody {
    /// By limit.
    r#use: LimitsUseBody,
    /// Requests refused because too much waited or the plugin was set aside.
    rejected: u64,
    log_lines: LogLinesBody,
    breaker: BreakerBody,
    last_fault: Option<LastFaultBody>,
}

/// The most that was used since the plugin was loaded, beside what may be used.
#[derive(Debug, Serialize)]
struct LimitsUseBody {
    memory_bytes: OfLimit,
    call_ms: OfLimit,
    fuel: FuelBody,
    input_bytes: OfLimit,
    output_bytes: OfLimit,
    concurrent_requests: OfLimit,
}

#[derive(Debug, Serialize)]
struct OfLimit {
    peak: f64,
    limit: f64,
}

/// A call's fuel is `base + rows * per_row`; the share is that of the call that came nearest to its own.
#[derive(Debug, Serialize)]
struct FuelBody {
    peak: u64,
    peak_share: f64,
    base: u64,
    per_row: u64,
}

#[derive(Debug, Serialize)]
struct LogLinesBody {
    written: u64,
    suppressed: u64,
}

#[derive(Debug, Serialize)]
struct BreakerBody {
    state: &'static str,
    /// How often it was set aside.
    set_aside: u64,
}

/// Which kind and when; never what it was about.
#[derive(Debug, Serialize)]
struct LastFaultBody {
    kind: &'static str,
    at: String,
}

impl From<&InstalledPlugin> for PluginUseBody {
    fn from(plugin: &InstalledPlugin) -> Self {
        let (usage, limits) = (plugin.loaded().usage(), plugin.loaded().limits());
        let of = |peak: u64, limit: usize| OfLimit { peak: peak as f64, limit: limit as f64 };
        Self {
            r#use: LimitsUseBody {
                memory_bytes: of(usage.peak_memory_bytes, limits.memory_bytes),
                call_ms: OfLimit { peak: milliseconds(usage.peak_time), limit: limits.call_ms as f64 },
                fuel: FuelBody {
                    peak: usage.peak_fuel,
                    peak_share: usage.peak_fuel_share,
                    base: limits.fuel_base,
                    per_row: limits.fuel_per_row,
                },
                input_bytes: of(usage.peak_input_bytes, limits.input_bytes),
                output_bytes: of(usage.peak_output_bytes, limits.output_bytes),
                concurrent_requests: of(usage.peak_requests, limits.concurrent_requests),
            },
            rejected: usage.rejected,
            log_lines: LogLinesBody { written: usage.log_lines, suppressed: usage.log_lines_suppressed },
            breaker: BreakerBody { state: usage.breaker.name(), set_aside: usage.set_aside },
            last_fault: usage
                .last_fault
                .map(|last| LastFaultBody { kind: last.kind.name(), at: format_instant(last.at) }),
        }
    }
}

/// A time as the body tells it: milliseconds, to the microsecond.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}

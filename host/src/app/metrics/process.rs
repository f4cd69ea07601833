//! What the metrics page tells of the process, of the limits of callers, and of what is sent to a collector.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::{MetricsSnapshot, number};
use crate::telemetry::Telemetry;
use daftar_http::state::StateParts;

const GAUGES: [(&str, &str); 7] = [
    ("process_resident_memory_bytes", "Resident memory of the process."),
    ("process_start_time_seconds", "When the process started."),
    ("process_open_fds", "Files and connections that the process has open."),
    ("process_max_fds", "How many it may."),
    ("daftar_limit_keys", "Clients or addresses that a bucket of the rate limits keeps."),
    ("daftar_limit_keys_limit", "How many it may."),
    ("daftar_otlp_spans_queued", "Spans that wait for the collector."),
];

const COUNTERS: [(&str, &str); 5] = [
    ("process_cpu_seconds_total", "Processor time that the process took."),
    ("daftar_limit_refusals_total", "Calls that were answered 429, by bucket and reason."),
    ("daftar_log_lines_dropped_total", "Log lines that found no room in the buffer of the log's writer."),
    ("daftar_otlp_spans_total", "Spans by what became of them; all but `sent` were dropped."),
    ("daftar_otlp_requests_total", "Requests to the collector."),
];

impl MetricsSnapshot {
    pub(super) fn process(&mut self) {
        self.describe_all(&GAUGES, &COUNTERS);
        if let Some(bytes) = resident_bytes() {
            self.gauge("process_resident_memory_bytes", &[], bytes);
        }
        if let Some(started) = started_s() {
            self.gauge("process_start_time_seconds", &[], started);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            // Looking opens one as well.
            self.gauge("process_open_fds", &[], number(files.count().saturating_sub(1)));
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            self.gauge("process_max_fds", &[], number(most));
        }
        let used = clock_gettime(ClockId::ProcessCPUTime);
        self.counter("process_cpu_seconds_total", &[], u64::try_from(used.tv_sec).unwrap_or(0));
    }

    pub(super) fn limits(&mut self, app: &StateParts) {
        for bucket in app.limits.usage() {
            let of = ("bucket", bucket.bucket);
            self.gauge("daftar_limit_keys", &[of], number(bucket.keys));
            self.gauge("daftar_limit_keys_limit", &[of], number(bucket.keys_max));
            for (reason, count) in bucket.refused {
                self.counter("daftar_limit_refusals_total", &[of, ("reason", reason)], count);
            }
        }
    }

    /// Of the collector nothing, where nothing is sent.
    pub(super) fn telemetry(&mut self, telemetry: &Telemetry) {
        self.counter("daftar_log_lines_dropped_total", &[], telemetry.dropped_lines());
        let Some(usage) = telemetry.usage() else { return };
        self.describe_all(&[("daftar_otlp_spans_queued_limit", "How many may; one more is dropped.")], &[]);
        self.gauge("daftar_otlp_spans_queued", &[], number(usage.queued));
        self.gauge("daftar_otlp_spans_queued_limit", &[], number(usage.queue_max));
        for (outcome, count) in usage.spans {
            self.counter("daftar_otlp_spans_total", &[("outcome", outcome)], count);
        }
        for (signal, taken, failed) in usage.requests {
            self.counter("daftar_otlp_requests_total", &[("signal", signal), ("outcome", "taken")], taken);
            self.counter("daftar_otlp_requests_total", &[("signal", signal), ("outcome", "failed")], failed);
        }
    }
}

/// Resident memory of this process, where the system tells it.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number(kibibytes.saturating_mul(1_024)))
}

/// When this process started, in seconds since 1970: its folder in `/proc` is as old as it is.
fn started_s() -> Option<f64> {
    let started: SystemTime = std::fs::metadata("/proc/self").ok()?.modified().ok()?;
    Some(started.duration_since(UNIX_EPOCH).ok()?.as_secs_f64().floor())
}

//! The metrics of the server, for the metrics page in the text format of Prometheus and for a collector. `host/docs/METRICS.md` lists
//! them.
//!
//! **Invariant:** no label holds what a client wrote: routes are patterns, methods and statuses are from closed lists, plugins are
//! named by the administrator. So no personal data is on the page, and the number of series is bounded.
//! **Invariant:** nothing is global to the process: two servers in one process have two pages.
//! **Invariant:** page and collector get the same: gauges and counters are read into one snapshot for either, histograms come from one
//! table and are recorded into both.

mod access;
mod bodies;
mod follower;
mod process;
mod store;

use std::collections::HashMap;
use std::time::Duration;

use metrics::{Histogram, Key, Label, Level, Metadata, Recorder, SharedString};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use self::store::{COMMIT_TIMES, GROUP_BOUNDS, GROUP_JOBS, SYNC_TIMES};
use super::Upkeep;
use crate::telemetry::{MetricsSnapshot, SentHistogram, Telemetry};
use daftar_auth::limits::response_memory::ResponseMemoryUsage;
use daftar_http::spans::known_method;
use daftar_http::state::StateParts;
use daftar_http::transport::TransportUsage;
use daftar_sandbox::{BreakerState, CallRecorder, PluginLimits, PluginUsage};
use daftar_service::eligibility::preview::PreviewUsage;
use daftar_service::plugin::InstalledPlugin;

/// Upper bounds of the times that are told apart, in seconds.
const TIMES_S: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// How often recorded times are put into their buckets; until then each takes room.
const UPKEEP: Duration = Duration::from_secs(5);

const REQUEST_TIMES: &str = "daftar_http_request_duration_seconds";
const CALL_TIMES: &str = "daftar_plugin_call_duration_seconds";

/// The histograms: names, descriptions, and upper bounds of what is told apart.
const HISTOGRAMS: [(&str, &str, &[f64]); 5] = [
    (REQUEST_TIMES, "Time to answer HTTP requests, by the route's pattern.", &TIMES_S),
    (CALL_TIMES, "Time inside a plugin, by call.", &TIMES_S),
    (COMMIT_TIMES, "Time from a write that is asked for to its answer, when it is on disk.", &TIMES_S),
    (SYNC_TIMES, "Time to put a group of writes on disk.", &TIMES_S),
    (GROUP_JOBS, "Jobs that were put on disk together.", &GROUP_BOUNDS),
];

static METADATA: Metadata<'static> = Metadata::new("daftar", Level::INFO, None);

/// What is recorded while the server runs: the histograms.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    /// The same for a collector, by name; none, where no metrics are sent.
    sent: HashMap<&'static str, SentHistogram>,
}

impl Metrics {
    /// Nothing recorded yet.
    #[must_use]
    pub fn new(telemetry: &Telemetry) -> Self {
        let (mut builder, mut sent) = (PrometheusBuilder::new(), HashMap::new());
        for (name, description, bounds) in HISTOGRAMS {
            // The bounds are constant and not empty, so they are always taken.
            builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds).unwrap_or_default();
            if let Some(histogram) = telemetry.histogram(name, description, bounds) {
                sent.insert(name, histogram);
            }
        }
        let recorder = builder.build_recorder();
        for (name, description, _) in HISTOGRAMS {
            recorder.describe_histogram(name.into(), None, SharedString::const_str(description));
        }
        Self { handle: recorder.handle(), recorder, sent }
    }

    fn histogram(&self, name: &'static str, labels: Vec<Label>) -> Histogram {
        let key = Key::from_parts(name, labels);
        let histogram = self.recorder.register_histogram(&key, &METADATA);
        match self.sent.get(name) {
            Some(sent) => sent.beside(histogram, &key),
            None => histogram,
        }
    }

    /// Counts a request. `route` is the pattern that matched, never the path.
    pub fn count_request(&self, method: &str, route: Option<&str>, status: u16, time: Duration) {
        let labels = vec![
            Label::new("method", known_method(method)),
            Label::new("route", route.unwrap_or("none").to_owned()),
            Label::new("status", status.to_string()),
        ];
        self.histogram(REQUEST_TIMES, labels).record(time.as_secs_f64());
    }

    /// What plugins record their calls with.
    #[must_use]
    pub fn plugin_calls(self: &std::sync::Arc<Self>) -> CallRecorder {
        let metrics = self.clone();
        CallRecorder::new(move |plugin| metrics.histogram(CALL_TIMES, vec![Label::new("plugin", plugin.to_string())]))
    }

    /// Puts recorded times into their buckets for as long as the server runs.
    pub(super) async fn keep_up(&self) {
        let mut ticks = tokio::time::interval(UPKEEP);
        loop {
            ticks.tick().await;
            self.handle.run_upkeep();
        }
    }
}

/// The metrics page as it is now.
pub(super) fn page(app: &StateParts, upkeep: &Upkeep) -> String {
    let mut page = upkeep.metrics.handle.render();
    page.push_str(&render(&snapshot(app, upkeep)));
    page
}

/// The gauges and counters as they are now.
pub(super) fn snapshot(app: &StateParts, upkeep: &Upkeep) -> MetricsSnapshot {
    let mut now = MetricsSnapshot::default();
    now.describe();
    now.gauge("daftar_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    now.process();
    now.limits(app);
    now.store(app, upkeep);
    now.follower(app);
    now.telemetry(&upkeep.telemetry);
    let pool = app.plugins.pool_usage();
    now.gauge("daftar_plugin_threads", &[], number(pool.threads));
    now.gauge("daftar_plugin_queue_waiting", &[("priority", "interactive")], number(pool.interactive_waiting));
    now.gauge("daftar_plugin_queue_waiting", &[("priority", "background")], number(pool.background_waiting));
    let (requests, others) = (pool.interactive_waiting_max, pool.background_waiting_max);
    now.gauge("daftar_plugin_queue_limit", &[("priority", "interactive")], number(requests));
    now.gauge("daftar_plugin_queue_limit", &[("priority", "background")], number(others));
    let has_engine = app.engine.engine_name().is_some();
    now.gauge("daftar_eligibility_engine_active", &[], f64::from(u8::from(has_engine)));
    now.gauge("daftar_plugins_not_loaded", &[], number(app.plugins.unloaded().len()));
    now.gauge("daftar_connections_limit", &[], number(app.config.server.connections.max));
    now.previews(app.previews.usage());
    let (memory, file) = app.spools.usage();
    now.gauge("daftar_spool_bytes", &[("space", "memory")], number(memory));
    now.gauge("daftar_spool_bytes", &[("space", "file")], number(file));
    now.access(app);
    now.bodies(app.registry.bodies.usage());
    now.transport(&app.transport.usage());
    now.response_memory(&app.response_memory.usage());
    for plugin in app.plugins.list() {
        now.plugin(&plugin);
    }
    now
}

/// A snapshot in the text format of Prometheus.
fn render(snapshot: &MetricsSnapshot) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    for (name, description) in &snapshot.described_gauges {
        recorder.describe_gauge((*name).into(), None, SharedString::const_str(description));
    }
    for (name, description) in &snapshot.described_counters {
        recorder.describe_counter((*name).into(), None, SharedString::const_str(description));
    }
    for (key, value) in &snapshot.gauges {
        recorder.register_gauge(key, &METADATA).set(*value);
    }
    for (key, value) in &snapshot.counters {
        recorder.register_counter(key, &METADATA).absolute(*value);
    }
    recorder.handle().render()
}

impl MetricsSnapshot {
    fn describe(&mut self) {
        let gauges = [
            ("daftar_build_info", "The version that runs."),
            ("daftar_plugin_threads", "Threads that plugins run on."),
            ("daftar_plugin_queue_waiting", "Work that waits for a plugin thread."),
            ("daftar_plugin_queue_limit", "How much may wait; one more is refused."),
            (
                "daftar_eligibility_engine_active",
                "1 while an eligibility engine is active; without one, calls that evaluate an expression are 503.",
            ),
            ("daftar_plugins_not_loaded", "Installed plugins that cannot be loaded; the log says why."),
            ("daftar_connections_limit", "How many connections the public listener may have open."),
            ("daftar_previews", "Previews of rules that have begun and not ended."),
            ("daftar_preview_turns", "Turns of previews that are held or waited for."),
            ("daftar_spool_bytes", "Lines of responses that were not read yet."),
            ("daftar_rule_columns_bytes", "Memory of fields that previews read of records and that are kept."),
            ("daftar_connections", "Connections that are open, of all listeners."),
            ("daftar_http_requests_in_flight", "Requests of the public listener that are worked on."),
            ("daftar_http_requests_in_flight_limit", "How many may be."),
            ("daftar_responses_waiting_bytes", "Memory of finished responses that wait for their clients."),
            ("daftar_responses_waiting_bytes_limit", "How much memory they may take."),
            ("daftar_responses_waiting_clients", "Clients and addresses for which finished responses wait."),
            ("daftar_tls_certificate_expiry_timestamp_seconds", "When the certificate in use expires."),
            ("daftar_tls_certificate_stale", "1 where the files hold another certificate, which cannot be used."),
            ("daftar_plugin_info", "The installed version of each plugin."),
            ("daftar_plugin_requests", "Requests that wait for a plugin or run in it."),
            ("daftar_plugin_instances", "Instances of a plugin that are alive."),
            ("daftar_plugin_limit", "What one call, instance or plugin may use at most."),
            ("daftar_plugin_limit_peak", "The most that was used of a limit since the plugin was loaded."),
            ("daftar_plugin_fuel_peak_ratio", "The most that a call burnt of its fuel; 1 is all of it."),
            ("daftar_plugin_breaker_state", "1 for the state that a plugin's breaker is in."),
        ];
        let counters = [
            ("daftar_rule_columns_parts_total", "Parts of fields that previews asked for, by where they came from."),
            ("daftar_rule_columns_dropped_total", "Kept fields that went because there was no room."),
            ("daftar_connections_cut_total", "Connections that the server ended or did not serve, by reason."),
            ("daftar_http_requests_refused_total", "Requests that were answered 503 since too many were worked on."),
            ("daftar_responses_refused_total", "Requests and responses that were 503 since too much waited, by bound."),
            ("daftar_tls_certificates_taken_total", "Certificates that were taken from the files since the start."),
            ("daftar_plugin_calls_total", "Calls into a plugin."),
            ("daftar_plugin_faults_total", "Calls that a plugin did not answer, by kind."),
            ("daftar_plugin_fuel_total", "Fuel burnt."),
            ("daftar_plugin_rejected_total", "Requests refused because too much waited or the plugin was set aside."),
            ("daftar_plugin_set_aside_total", "How often a plugin was set aside."),
            ("daftar_plugin_log_lines_total", "Log lines of a plugin, written or suppressed."),
        ];
        self.describe_all(&gauges, &counters);
    }

    fn plugin(&mut self, plugin: &InstalledPlugin) {
        let (manifest, loaded) = (plugin.manifest(), plugin.loaded());
        let (name, usage, limits) = (manifest.name.to_string(), loaded.usage(), loaded.limits());
        let of = ("plugin", name.as_str());
        let version = manifest.version.to_string();
        let info = [of, ("version", version.as_str()), ("kind", manifest.kind.as_str())];
        self.gauge("daftar_plugin_info", &info, 1.0);
        self.counter("daftar_plugin_calls_total", &[of], usage.calls);
        for (kind, count) in &usage.faults {
            self.counter("daftar_plugin_faults_total", &[of, ("kind", kind.name())], *count);
        }
        self.counter("daftar_plugin_fuel_total", &[of], usage.fuel);
        self.gauge("daftar_plugin_fuel_peak_ratio", &[of], usage.peak_fuel_share);
        self.gauge("daftar_plugin_requests", &[of], number(usage.requests));
        self.gauge("daftar_plugin_instances", &[of], number(usage.instances));
        self.counter("daftar_plugin_rejected_total", &[of], usage.rejected);
        self.counter("daftar_plugin_set_aside_total", &[of], usage.set_aside);
        let lines = [("written", usage.log_lines), ("suppressed", usage.log_lines_suppressed)];
        for (outcome, count) in lines {
            self.counter("daftar_plugin_log_lines_total", &[of, ("outcome", outcome)], count);
        }
        for state in [BreakerState::Closed, BreakerState::Open { retry_after_s: 0 }, BreakerState::HalfOpen] {
            let is_in = state.name() == usage.breaker.name();
            self.gauge("daftar_plugin_breaker_state", &[of, ("state", state.name())], f64::from(u8::from(is_in)));
        }
        for (limit, allowed, peak) in against_limits(limits, &usage) {
            self.gauge("daftar_plugin_limit", &[of, ("limit", limit)], allowed);
            self.gauge("daftar_plugin_limit_peak", &[of, ("limit", limit)], peak);
        }
    }

    fn previews(&mut self, usage: PreviewUsage) {
        self.gauge("daftar_previews", &[], number(usage.previews));
        self.gauge("daftar_preview_turns", &[("state", "running")], number(usage.slices));
        self.gauge("daftar_preview_turns", &[("state", "waiting")], number(usage.waiting));
        self.gauge("daftar_rule_columns_bytes", &[], number(usage.kept.bytes));
        self.counter("daftar_rule_columns_parts_total", &[("from", "memory")], usage.kept.found);
        self.counter("daftar_rule_columns_parts_total", &[("from", "records")], usage.kept.read);
        self.counter("daftar_rule_columns_dropped_total", &[], usage.kept.dropped);
    }

    fn transport(&mut self, usage: &TransportUsage) {
        self.gauge("daftar_connections", &[], number(usage.connections));
        self.gauge("daftar_http_requests_in_flight", &[], number(usage.requests));
        self.gauge("daftar_http_requests_in_flight_limit", &[], number(usage.requests_max));
        self.counter("daftar_http_requests_refused_total", &[], usage.requests_refused);
        for (reason, count) in usage.cut {
            self.counter("daftar_connections_cut_total", &[("reason", reason)], count);
        }
        if let Some(expires_s) = usage.certificate_expires_s {
            self.gauge("daftar_tls_certificate_expiry_timestamp_seconds", &[], expires_s as f64);
            self.gauge("daftar_tls_certificate_stale", &[], f64::from(u8::from(usage.certificate_is_stale)));
            self.counter("daftar_tls_certificates_taken_total", &[], usage.certificates_taken);
        }
    }

    fn response_memory(&mut self, usage: &ResponseMemoryUsage) {
        self.gauge("daftar_responses_waiting_bytes", &[], number(usage.bytes));
        self.gauge("daftar_responses_waiting_bytes_limit", &[], number(usage.bytes_max));
        self.gauge("daftar_responses_waiting_clients", &[], number(usage.clients));
        for (bound, count) in usage.refused {
            self.counter("daftar_responses_refused_total", &[("bound", bound)], count);
        }
    }
}

/// Name, limit and the most that was used of it.
fn against_limits(limits: &PluginLimits, usage: &PluginUsage) -> [(&'static str, f64, f64); 5] {
    [
        ("memory_bytes", number(limits.memory_bytes), number(usage.peak_memory_bytes)),
        ("call_ms", number(limits.call_ms), usage.peak_time.as_secs_f64() * 1_000.0),
        ("input_bytes", number(limits.input_bytes), number(usage.peak_input_bytes)),
        ("output_bytes", number(limits.output_bytes), number(usage.peak_output_bytes)),
        ("concurrent_requests", number(limits.concurrent_requests), number(usage.peak_requests)),
    ]
}

/// A count as the page writes it; exact far beyond anything that is counted here.
fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_is_no_label() {
        let metrics = Metrics::new(&Telemetry::default());
        metrics.count_request("MAYBE", None, 404, Duration::from_millis(3));
        let page = metrics.handle.render();
        let series = "daftar_http_request_duration_seconds_count{method=\"other\",route=\"none\",status=\"404\"} 1";
        assert!(page.lines().any(|line| line == series), "{page}");
        assert!(!page.contains("MAYBE"));
    }

    #[test]
    fn times_are_counted_in_the_bucket_they_fit() {
        let metrics = Metrics::new(&Telemetry::default());
        for ms in [1, 2, 40_000] {
            metrics.count_request("GET", Some("/a"), 200, Duration::from_millis(ms));
        }
        let page = metrics.handle.render();
        let count = |bound: &str| {
            let start = format!(
                "daftar_http_request_duration_seconds_bucket{{method=\"GET\",route=\"/a\",status=\"200\",le=\"{bound}\"}} "
            );
            page.lines().find_map(|line| line.strip_prefix(&start)?.parse::<u64>().ok())
        };
        assert_eq!(
            (count("0.0005"), count("0.001"), count("30"), count("+Inf")),
            (Some(0), Some(1), Some(2), Some(3)),
            "{page}"
        );
    }
}

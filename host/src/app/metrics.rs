//! The metrics of the server, for the metrics page in the text format of Prometheus and for a collector.
//! `host/docs/METRICS.md` lists them.
//!
//! **Invariant:** no label contains client input: routes are patterns, methods and statuses are from closed lists,
//! plugins are named by the administrator. So the page contains no personal data, and the number of series is bounded.
//! **Invariant:** no state is global to the process: two servers in one process have two pages.
//! **Invariant:** page and collector receive the same values: gauges and counters are read into one snapshot for
//! either, histograms are defined in one table and recorded into both.

mod series;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use metrics::{Histogram, Key, Label, Level, Metadata, Recorder, SharedString};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

pub(super) use self::series::snapshot;
use super::Upkeep;
use crate::telemetry::{MetricsSnapshot, SentHistogram, Series, Telemetry};
use daftar_domain::config::StoreBackend;
use daftar_domain::manifest::PluginName;
use daftar_http::spans::known_method;
use daftar_http::state::StateParts;
use daftar_sandbox::CallRecorder;
use daftar_store_sled::StoreRecorders;

/// Upper bounds of the buckets for durations, in seconds.
const TIMES_S: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Interval at which recorded durations are added to their buckets; until then each uses memory.
const UPKEEP: Duration = Duration::from_secs(5);

const REQUEST_TIMES: &str = "daftar_http_request_duration_seconds";
const CALL_TIMES: &str = "daftar_plugin_call_duration_seconds";
const COMMIT_TIMES: &str = "daftar_store_commit_duration_seconds";
const SYNC_TIMES: &str = "daftar_store_sync_duration_seconds";
const LOCK_WAIT_TIMES: &str = "daftar_database_lock_wait_duration_seconds";
const LOCK_HELD_TIMES: &str = "daftar_database_lock_held_duration_seconds";
const GROUP_JOBS: &str = "daftar_store_commit_group_size";
/// Upper bounds of the buckets for sizes of groups of writes; a group has at most 257.
const GROUP_BOUNDS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// The histograms: names, descriptions, and upper bounds of their buckets.
const HISTOGRAMS: [(&str, &str, &[f64]); 7] = [
    (REQUEST_TIMES, "Time to answer HTTP requests, by the route's pattern.", &TIMES_S),
    (CALL_TIMES, "Time inside a plugin, by call.", &TIMES_S),
    (COMMIT_TIMES, "Time from the request for a write until it is on disk.", &TIMES_S),
    (SYNC_TIMES, "Time to put a group of writes on disk.", &TIMES_S),
    (
        LOCK_WAIT_TIMES,
        "On PostgreSQL: time for which a group of writes waited for the lock that orders writes.",
        &TIMES_S,
    ),
    (LOCK_HELD_TIMES, "On PostgreSQL: time for which a group of writes held that lock.", &TIMES_S),
    (GROUP_JOBS, "Jobs that were put on disk together.", &GROUP_BOUNDS),
];

static METADATA: Metadata<'static> = Metadata::new("daftar", Level::INFO, None);

/// Histograms of the running server.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    /// The same histograms for a collector, by name; `None` if no metrics are sent.
    sent: HashMap<&'static str, SentHistogram>,
    /// Start of the server.
    started: Timestamp,
}

impl Metrics {
    /// Creates histograms without values, for a server that started at that time.
    #[must_use]
    pub fn new(telemetry: &Telemetry, started: Timestamp) -> Self {
        let (mut builder, mut sent) = (PrometheusBuilder::new(), HashMap::new());
        for (name, description, bounds) in HISTOGRAMS {
            // The bounds are constant and not empty, so they are always accepted.
            builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds).unwrap_or_default();
            if let Some(histogram) = telemetry.histogram(name, description, bounds) {
                sent.insert(name, histogram);
            }
        }
        let recorder = builder.build_recorder();
        for (name, description, _) in HISTOGRAMS {
            recorder.describe_histogram(name.into(), None, SharedString::const_str(description));
        }
        Self { handle: recorder.handle(), recorder, sent, started }
    }

    fn histogram(&self, name: &'static str, labels: Vec<Label>) -> Histogram {
        let key = Key::from_parts(name, labels);
        let histogram = self.recorder.register_histogram(&key, &METADATA);
        match self.sent.get(name) {
            Some(sent) => sent.and_export(histogram, &key),
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

    /// Recorders of plugin calls.
    #[must_use]
    pub fn plugin_calls(self: &std::sync::Arc<Self>) -> CallRecorder {
        let metrics = self.clone();
        std::sync::Arc::new(move |plugin: &PluginName| {
            metrics.histogram(CALL_TIMES, vec![Label::new("plugin", plugin.to_string())])
        })
    }

    /// Recorders of the store's durations. Only a database has a lock that orders the writes of several servers.
    #[must_use]
    pub fn store_recorders(&self, backend: StoreBackend) -> StoreRecorders {
        let histogram = |name: &'static str| self.histogram(name, Vec::new());
        let of_lock = |name| if backend == StoreBackend::Postgres { histogram(name) } else { Histogram::noop() };
        StoreRecorders {
            commit: histogram(COMMIT_TIMES),
            sync: histogram(SYNC_TIMES),
            group_jobs: histogram(GROUP_JOBS),
            lock_wait: of_lock(LOCK_WAIT_TIMES),
            lock_held: of_lock(LOCK_HELD_TIMES),
        }
    }

    /// Adds recorded durations to their buckets while the server runs.
    pub(super) async fn maintain(&self) {
        let mut ticks = tokio::time::interval(UPKEEP);
        loop {
            ticks.tick().await;
            self.handle.run_upkeep();
        }
    }
}

/// Renders the current metrics page.
pub(super) fn page(app: &StateParts, upkeep: &Upkeep) -> String {
    let mut page = upkeep.metrics.handle.render();
    page.push_str(&render(&snapshot(app, upkeep)));
    page
}

/// Renders a snapshot in the text format of Prometheus.
fn render(snapshot: &MetricsSnapshot) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    for Series { name, description, key, value } in &snapshot.gauges {
        recorder.describe_gauge((*name).into(), None, SharedString::const_str(description));
        recorder.register_gauge(key, &METADATA).set(*value);
    }
    for Series { name, description, key, value } in &snapshot.counters {
        recorder.describe_counter((*name).into(), None, SharedString::const_str(description));
        recorder.register_counter(key, &METADATA).absolute(*value);
    }
    recorder.handle().render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_is_no_label() {
        let metrics = Metrics::new(&Telemetry::default(), Timestamp::UNIX_EPOCH);
        metrics.count_request("MAYBE", None, 404, Duration::from_millis(3));
        let page = metrics.handle.render();
        let series = "daftar_http_request_duration_seconds_count{method=\"other\",route=\"none\",status=\"404\"} 1";
        assert!(page.lines().any(|line| line == series), "{page}");
        assert!(!page.contains("MAYBE"));
    }

    #[test]
    fn times_are_counted_in_the_bucket_they_fit() {
        let metrics = Metrics::new(&Telemetry::default(), Timestamp::UNIX_EPOCH);
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

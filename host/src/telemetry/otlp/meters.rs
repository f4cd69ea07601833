//! Metrics as OpenTelemetry instruments.
//!
//! **Invariant:** this module defines no metric: a collector receives the names, descriptions, labels and bounds of the
//! metrics page. Gauges and counters come from the same snapshot; histograms are recorded into both.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use metrics::{HistogramFn, Key};
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter, MeterProvider};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    Instrument, InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Stream, Temporality,
};

use super::{SCOPE, lock};
use crate::telemetry::{MetricsSnapshot, Series};

/// Maximum number of series of one histogram; the library merges further ones into one. Greater than the number of
/// combinations of methods, routes and statuses.
const SERIES_MAX: usize = 10_000;

/// Reads the gauges and counters; returns `None` when the server has stopped.
pub(super) type MetricsSource = Box<dyn Fn() -> Option<MetricsSnapshot> + Send + Sync>;

/// The instruments for the metrics of the server.
pub(super) struct Meters {
    meter: Meter,
    reader: OnDemandReader,
    /// Snapshot for the next collection.
    shown: Arc<Mutex<MetricsSnapshot>>,
    /// Names of the gauges and counters for which an instrument exists.
    created: Mutex<HashSet<&'static str>>,
    source: OnceLock<MetricsSource>,
    /// Shuts down the reader when dropped.
    _provider: SdkMeterProvider,
}

impl Meters {
    /// Creates a meter without instruments, for that resource.
    pub fn new(resource: Resource) -> Self {
        let reader = OnDemandReader::default();
        let provider = SdkMeterProvider::builder().with_resource(resource).with_reader(reader.clone());
        let provider = provider.with_view(|instrument: &Instrument| {
            let is_histogram = instrument.kind() == InstrumentKind::Histogram;
            is_histogram.then(|| Stream::builder().with_cardinality_limit(SERIES_MAX).build().ok()).flatten()
        });
        let provider = provider.build();
        let scope = InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION")).build();
        Self {
            meter: provider.meter_with_scope(scope),
            reader,
            shown: Arc::default(),
            created: Mutex::default(),
            source: OnceLock::new(),
            _provider: provider,
        }
    }

    /// Creates a histogram with these upper bounds.
    pub fn histogram(&self, name: &'static str, description: &'static str, bounds: &[f64]) -> SentHistogram {
        let histogram = self.meter.f64_histogram(name).with_description(description).with_unit(unit(name));
        SentHistogram(histogram.with_boundaries(bounds.to_vec()).build())
    }

    /// Sets the source of gauges and counters; later calls have no effect. Counters are cumulative from this call on.
    pub fn read_from(&self, source: MetricsSource) {
        if let Some(snapshot) = source() {
            self.show(snapshot);
        }
        let _is_first = self.source.set(source).is_ok();
    }

    /// Reads the gauges and counters; returns `None` before a source is set, and when the server has stopped.
    pub fn read(&self) -> Option<MetricsSnapshot> {
        self.source.get().and_then(|source| source())
    }

    /// Stores the snapshot for the next collection, and creates the missing instruments.
    pub fn show(&self, snapshot: MetricsSnapshot) {
        let mut created = lock(&self.created);
        for &Series { name, description, .. } in snapshot.gauges.iter().filter(|series| created.insert(series.name)) {
            let shown = Arc::clone(&self.shown);
            let gauge = self.meter.f64_observable_gauge(name).with_description(description).with_unit(unit(name));
            gauge.with_callback(move |gauge| observe(gauge, name, &lock(&shown).gauges)).build();
        }
        for &Series { name, description, .. } in snapshot.counters.iter().filter(|series| created.insert(series.name)) {
            let shown = Arc::clone(&self.shown);
            let counter = self.meter.u64_observable_counter(name).with_description(description).with_unit(unit(name));
            counter.with_callback(move |counter| observe(counter, name, &lock(&shown).counters)).build();
        }
        *lock(&self.shown) = snapshot;
    }

    /// Collects all metrics, with the gauges and counters of the last stored snapshot.
    ///
    /// # Errors
    /// One sentence, if the library cannot collect.
    pub fn collect(&self) -> Result<ResourceMetrics, String> {
        let mut metrics = ResourceMetrics::default();
        match self.reader.collect(&mut metrics) {
            Ok(()) => Ok(metrics),
            Err(error) => Err(format!("metrics cannot be collected: {error}")),
        }
    }
}

/// Reports the values of the series of that name to an instrument.
fn observe<T: Copy>(instrument: &dyn AsyncInstrument<T>, name: &str, all: &[Series<T>]) {
    for series in all.iter().filter(|series| series.name == name) {
        instrument.observe(series.value, &attributes(&series.key));
    }
}

fn attributes(key: &Key) -> Vec<KeyValue> {
    key.labels().map(|label| KeyValue::new(label.key().to_owned(), label.value().to_owned())).collect()
}

/// Returns the unit in the suffix of a name, in UCUM notation.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    if name.ends_with("_seconds") {
        "s"
    } else if name.ends_with("_bytes") {
        "By"
    } else {
        ""
    }
}

/// A histogram that is exported to a collector.
pub struct SentHistogram(Histogram<f64>);

impl SentHistogram {
    /// Records into the series of that key, and into `page`, the corresponding series of the metrics page.
    pub fn and_export(&self, page: metrics::Histogram, key: &Key) -> metrics::Histogram {
        let sent = self.0.clone();
        metrics::Histogram::from_arc(Arc::new(RecordedTwice { page, sent, attributes: attributes(key) }))
    }
}

/// One series for the metrics page and for a collector.
struct RecordedTwice {
    page: metrics::Histogram,
    sent: Histogram<f64>,
    attributes: Vec<KeyValue>,
}

impl HistogramFn for RecordedTwice {
    fn record(&self, value: f64) {
        self.page.record(value);
        self.sent.record(value, &self.attributes);
    }
}

/// A handle to a reader that collects on request, so that only the sender thread collects.
#[derive(Debug, Clone, Default)]
struct OnDemandReader(Arc<ManualReader>);

impl MetricReader for OnDemandReader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}

#[cfg(test)]
mod tests {
    use metrics::Label;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value;
    use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, metric, number_data_point};

    use super::*;

    fn sent(meters: &Meters) -> Vec<Metric> {
        let request = ExportMetricsServiceRequest::from(&meters.collect().unwrap());
        request.resource_metrics.into_iter().flat_map(|of| of.scope_metrics).flat_map(|of| of.metrics).collect()
    }

    fn meters() -> Meters {
        Meters::new(Resource::builder_empty().build())
    }

    fn snapshot() -> MetricsSnapshot {
        let mut snapshot = MetricsSnapshot::default();
        snapshot.gauge("b_bytes", "Now.", &[], -0.5);
        snapshot
    }

    #[test]
    fn counters_and_gauges_keep_names_labels_values_and_units() {
        let meters = meters();
        let mut snapshot = snapshot();
        snapshot.counter("a_total", "What was \\ counted.", &[("kind", "one, \"two\" \\ {three}")], 7);
        snapshot.counter("a_total", "What was \\ counted.", &[], 1);
        meters.show(snapshot);
        let metrics = sent(&meters);
        let [gauge, counter] = &metrics[..] else { panic!("{metrics:?}") };
        assert_eq!(
            (counter.name.as_str(), counter.description.as_str(), counter.unit.as_str()),
            ("a_total", "What was \\ counted.", "")
        );
        let Some(metric::Data::Sum(sum)) = &counter.data else { panic!("{counter:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality() == AggregationTemporality::Cumulative);
        let [plain, labelled] = &sum.data_points[..] else { panic!("{sum:?}") };
        assert!(labelled.time_unix_nano >= labelled.start_time_unix_nano && labelled.start_time_unix_nano > 0);
        assert_eq!(labelled.value, Some(number_data_point::Value::AsInt(7)));
        let label = &labelled.attributes[0];
        let text = any_value::Value::StringValue("one, \"two\" \\ {three}".to_owned());
        assert_eq!(
            (label.key.as_str(), label.value.as_ref().and_then(|value| value.value.clone())),
            ("kind", Some(text))
        );
        assert!(plain.attributes.is_empty());
        let Some(metric::Data::Gauge(now)) = &gauge.data else { panic!("{gauge:?}") };
        assert_eq!(now.data_points[0].value, Some(number_data_point::Value::AsDouble(-0.5)));
        assert_eq!(gauge.unit, "By");
    }

    #[test]
    fn a_series_that_the_next_snapshot_lacks_is_sent_no_more() {
        let meters = meters();
        let mut first = snapshot();
        first.counter("a_total", "What was \\ counted.", &[("plugin", "gone")], 7);
        first.gauge("b_bytes", "Now.", &[("plugin", "gone")], 1.0);
        meters.show(first);
        let points = |metrics: &[Metric]| -> usize {
            let points = |metric: &Metric| match &metric.data {
                Some(metric::Data::Gauge(gauge)) => gauge.data_points.len(),
                Some(metric::Data::Sum(sum)) => sum.data_points.len(),
                other => panic!("{other:?}"),
            };
            metrics.iter().map(points).sum()
        };
        assert_eq!(points(&sent(&meters)), 3);
        meters.show(snapshot());
        assert_eq!(points(&sent(&meters)), 1);
        assert_eq!(points(&sent(&meters)), 1, "what was shown last is sent again");
    }

    #[test]
    fn buckets_are_counted_each_by_itself() {
        let meters = meters();
        let histogram = meters.histogram("c_seconds", "How long.", &[0.1, 1.0]);
        let key = Key::from_parts("c_seconds", vec![Label::new("route", "/a")]);
        let series = histogram.and_export(metrics::Histogram::noop(), &key);
        for value in [0.05, 0.1, 0.5, 0.5, 1.0, 1.5] {
            series.record(value);
        }
        let metrics = sent(&meters);
        let [Metric { data: Some(metric::Data::Histogram(histogram)), unit, .. }] = &metrics[..] else {
            panic!("{metrics:?}")
        };
        let [point] = &histogram.data_points[..] else { panic!("{histogram:?}") };
        assert_eq!(point.explicit_bounds, [0.1, 1.0]);
        assert_eq!(point.bucket_counts, [2, 3, 1]);
        assert_eq!(point.count, 6);
        assert!(point.sum.is_some_and(|sum| (sum - 3.65).abs() < 1e-9), "{point:?}");
        assert_eq!(point.attributes.len(), 1, "the bound is no label: {point:?}");
        assert_eq!(unit, "s");
    }
}

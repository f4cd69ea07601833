//! The metrics page in the form of OTLP.
//!
//! **Invariant:** no series is defined here: what is on the page is sent, under the same names and labels, and what is not is not. So
//! whoever reads the page and whoever asks the collector sees the same.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::SCOPE;

type Labels = Vec<(String, String)>;

/// The message that holds everything on the page.
pub(super) fn as_request(
    page: &str,
    resource: &[KeyValue],
    started: SystemTime,
    now: SystemTime,
) -> ExportMetricsServiceRequest {
    let times = Times { start: nanoseconds(started), now: nanoseconds(now) };
    let scope = InstrumentationScope {
        name: SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let metrics = families(page).into_iter().filter_map(|family| family.into_metric(times)).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
    let resource = Resource { attributes: resource.to_vec(), ..Resource::default() };
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }
}

#[derive(Clone, Copy)]
struct Times {
    start: u64,
    now: u64,
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// All series of one name.
#[derive(Debug, Default)]
struct Family {
    name: String,
    help: String,
    kind: String,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    name: String,
    labels: Labels,
    value: f64,
}

/// Reads the page: lines of `# HELP`, `# TYPE`, and `name{label="text",…} value`, the series of a family together.
fn families(page: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for line in page.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut parts = comment.splitn(3, ' ');
            let (Some(keyword), Some(name), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { continue };
            if families.last().is_none_or(|family| family.name != name) {
                families.push(Family { name: name.to_owned(), ..Family::default() });
            }
            let Some(family) = families.last_mut() else { continue };
            match keyword {
                "HELP" => family.help = unescaped(rest),
                "TYPE" => family.kind = rest.to_owned(),
                _ => {}
            }
        } else if let (Some(sample), Some(family)) = (sample(line), families.last_mut()) {
            family.samples.push(sample);
        }
    }
    families
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    Some(Sample { name: name.to_owned(), labels: read_labels(labels)?, value: value.parse().ok()? })
}

/// `key="text",key="text"`, the text with `\\`, `\"` and `\n` for what cannot stand in it.
fn read_labels(mut rest: &str) -> Option<Labels> {
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (key, text) = rest.split_once("=\"")?;
        let mut is_escaped = false;
        let end = text.char_indices().find(|(_, character)| {
            let is_end = *character == '"' && !is_escaped;
            is_escaped = *character == '\\' && !is_escaped;
            is_end
        });
        let (value, more) = text.split_at_checked(end?.0)?;
        labels.push((key.to_owned(), unescaped(value)));
        rest = more.strip_prefix('"')?;
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(labels)
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            other => plain.push(other),
        }
    }
    plain
}

impl Family {
    fn into_metric(self, times: Times) -> Option<Metric> {
        let Self { name, help, kind, samples } = self;
        let cumulative = AggregationTemporality::Cumulative.into();
        let data = match kind.as_str() {
            "gauge" => metric::Data::Gauge(Gauge { data_points: numbers(samples, 0, times.now) }),
            "counter" => metric::Data::Sum(Sum {
                data_points: numbers(samples, times.start, times.now),
                aggregation_temporality: cumulative,
                is_monotonic: true,
            }),
            "histogram" => metric::Data::Histogram(Histogram {
                data_points: distributions(&name, samples, times),
                aggregation_temporality: cumulative,
            }),
            _ => return None,
        };
        Some(Metric { unit: unit(&name).to_owned(), name, description: help, data: Some(data), ..Metric::default() })
    }
}

/// The unit that a name ends in, as UCUM writes it.
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

fn numbers(samples: Vec<Sample>, start: u64, now: u64) -> Vec<NumberDataPoint> {
    let point = |sample: Sample| NumberDataPoint {
        attributes: attributes(sample.labels),
        start_time_unix_nano: start,
        time_unix_nano: now,
        value: Some(number_data_point::Value::AsDouble(sample.value)),
        ..NumberDataPoint::default()
    };
    samples.into_iter().map(point).collect()
}

/// What the page says of one distribution.
#[derive(Default)]
struct Distribution {
    /// Upper bounds with how many are up to them.
    up_to: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

fn distributions(name: &str, samples: Vec<Sample>, times: Times) -> Vec<HistogramDataPoint> {
    let mut found: BTreeMap<Labels, Distribution> = BTreeMap::new();
    for Sample { name: series, mut labels, value } in samples {
        let bound = labels.iter().position(|(key, _)| key == "le").map(|at| labels.remove(at).1);
        let distribution = found.entry(labels).or_default();
        match (series.strip_prefix(name), bound.and_then(|bound| bound.parse().ok())) {
            (Some("_bucket"), Some(bound)) => distribution.up_to.push((bound, value)),
            (Some("_sum"), None) => distribution.sum = value,
            (Some("_count"), None) => distribution.count = value,
            _ => {}
        }
    }
    found.into_iter().map(|(labels, distribution)| distribution.into_point(labels, times)).collect()
}

impl Distribution {
    fn into_point(mut self, labels: Labels, times: Times) -> HistogramDataPoint {
        self.up_to.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut before = 0.0;
        let mut bucket_counts: Vec<u64> = Vec::with_capacity(self.up_to.len());
        for (_, up_to) in &self.up_to {
            bucket_counts.push(whole(up_to - before));
            before = *up_to;
        }
        let explicit_bounds = self.up_to.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite()).collect();
        HistogramDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: times.start,
            time_unix_nano: times.now,
            count: whole(self.count),
            sum: Some(self.sum),
            bucket_counts,
            explicit_bounds,
            ..HistogramDataPoint::default()
        }
    }
}

/// A count that the page writes with a fraction of none.
fn whole(count: f64) -> u64 {
    count.clamp(0.0, 9.0e15) as u64
}

fn attributes(labels: Labels) -> Vec<KeyValue> {
    let attribute = |(key, text)| KeyValue {
        key,
        value: Some(AnyValue { value: Some(any_value::Value::StringValue(text)) }),
        ..KeyValue::default()
    };
    labels.into_iter().map(attribute).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PAGE: &str = "\
# HELP a_total What was \\\\ counted.
# TYPE a_total counter
a_total{kind=\"one, \\\"two\\\" \\\\ {three}\"} 7
a_total 1

# HELP b_bytes Now.
# TYPE b_bytes gauge
b_bytes -0.5
# TYPE c_seconds histogram
c_seconds_bucket{route=\"/a\",le=\"0.1\"} 2
c_seconds_bucket{route=\"/a\",le=\"1\"} 5
c_seconds_bucket{route=\"/a\",le=\"+Inf\"} 6
c_seconds_sum{route=\"/a\"} 3.25
c_seconds_count{route=\"/a\"} 6
";

    fn metrics() -> Vec<Metric> {
        let start = UNIX_EPOCH + Duration::from_secs(1);
        let request = as_request(PAGE, &[], start, start + Duration::from_secs(1));
        request.resource_metrics.into_iter().flat_map(|of| of.scope_metrics).flat_map(|of| of.metrics).collect()
    }

    #[test]
    fn counters_and_gauges_keep_names_labels_values_and_units() {
        let metrics = metrics();
        let [counter, gauge, _] = &metrics[..] else { panic!("{metrics:?}") };
        assert_eq!(
            (counter.name.as_str(), counter.description.as_str(), counter.unit.as_str()),
            ("a_total", "What was \\ counted.", "")
        );
        let Some(metric::Data::Sum(sum)) = &counter.data else { panic!("{counter:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality() == AggregationTemporality::Cumulative);
        let [labelled, plain] = &sum.data_points[..] else { panic!("{sum:?}") };
        assert_eq!((labelled.start_time_unix_nano, labelled.time_unix_nano), (1_000_000_000, 2_000_000_000));
        assert_eq!(labelled.value, Some(number_data_point::Value::AsDouble(7.0)));
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
    fn buckets_are_counted_each_by_itself() {
        let metrics = metrics();
        let Some(metric::Data::Histogram(histogram)) = &metrics[2].data else { panic!("{metrics:?}") };
        let [point] = &histogram.data_points[..] else { panic!("{histogram:?}") };
        assert_eq!(point.explicit_bounds, [0.1, 1.0]);
        assert_eq!(point.bucket_counts, [2, 3, 1]);
        assert_eq!((point.count, point.sum), (6, Some(3.25)));
        assert_eq!(point.attributes.len(), 1, "the bound is no label: {point:?}");
        assert_eq!(metrics[2].unit, "s");
    }

    #[test]
    fn lines_that_are_no_series_are_left_out() {
        for page in
            ["", "#", "# TYPE", "# HELP x", "x{", "x{a} 1", "x{a=\"b} 1", "x{a=\"b\"", "x y z", "\u{0}", "x{a=\"\\"]
        {
            assert!(
                families(&format!("# TYPE x gauge\n{page}\n")).iter().all(|family| family.samples.is_empty()),
                "{page}"
            );
        }
    }
}

//! Sends spans and metrics to a collector by OTLP: protobuf over HTTP.
//!
//! Finished spans wait in a queue for the sender thread (`sender.rs`). It sends with OpenTelemetry exporters that share
//! one client (`collector.rs`). The metrics are those of the metrics page (`meters.rs`).
//!
//! **Invariant:** only the sender thread ever waits for the collector. Spans that exceed the capacity of the queue are
//! dropped and counted.

mod collector;
mod meters;
mod sender;

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry::trace::{Link, SpanKind, TraceId, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, SdkTracerProvider, ShouldSample};
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::Layer;

use self::collector::Collector;
pub use self::collector::Signal;
pub use self::meters::SentHistogram;
use self::meters::{Meters, MetricsSource};
use self::sender::{MetricsSender, Outcome, Queue, QueueProcessor, Sender, Stop};
use super::{BoxedLayer, MetricsSnapshot};
use daftar_domain::config::OtlpConfig;
use daftar_domain::context::{IdSource, RandomIds};

/// Name of this program in the resource of spans and metrics.
const SCOPE: &str = "daftar";
/// Additional time to wait for the sender thread beyond its own limit.
const GRACE: Duration = Duration::from_millis(200);

/// Export to a collector.
pub(super) struct Otlp {
    queue: Arc<Queue>,
    /// Absent if no metrics are sent.
    meters: Option<Arc<Meters>>,
    provider: SdkTracerProvider,
    is_tracing: bool,
    ended: Mutex<Receiver<()>>,
    shutdown_timeout: Duration,
}

impl Otlp {
    /// Starts the sender thread.
    ///
    /// # Errors
    /// One sentence, if a file or value in the configuration cannot be used, or the thread cannot be started.
    pub fn start(config: &OtlpConfig) -> Result<Self, String> {
        let collector = Arc::new(Collector::new(config)?);
        let resource = Resource::builder_empty().with_attributes([
            KeyValue::new("service.name", config.service_name.clone()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            // Several servers of one register have the same name: without it a collector mixes their metrics.
            KeyValue::new("service.instance.id", RandomIds.next_id()),
        ]);
        let resource = resource.build();
        let spans = collector.span_exporter(&resource)?;
        let metrics = match config.metrics_interval_s {
            0 => None,
            seconds => Some(MetricsSender {
                meters: Arc::new(Meters::new(resource.clone())),
                exporter: collector.metric_exporter()?,
                interval: Duration::from_secs(seconds),
            }),
        };
        let meters = metrics.as_ref().map(|metrics| Arc::clone(&metrics.meters));
        let queue = Arc::new(Queue::new(usize::try_from(config.queue_spans_max).unwrap_or(usize::MAX)));
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(Sampler::ParentBased(Box::new(OfRequests(Sampler::TraceIdRatioBased(config.sampling_ratio)))))
            .with_span_processor(QueueProcessor(Arc::clone(&queue)))
            .build();
        let (ends, ended) = sync_channel(1);
        let sender = Sender { queue: Arc::clone(&queue), collector, spans, metrics, held: None, is_failing: false };
        let run = move || {
            sender.run();
            drop(ends);
        };
        let thread = std::thread::Builder::new().name("otlp".to_owned()).spawn(run);
        thread.map_err(|error| format!("there is no thread to send telemetry: {error}"))?;
        Ok(Self {
            queue,
            meters,
            provider,
            is_tracing: config.sampling_ratio > 0.0,
            ended: Mutex::new(ended),
            shutdown_timeout: Duration::from_millis(config.shutdown_timeout_ms),
        })
    }

    /// Returns the tracer of the spans of this program; `None` if no request is traced.
    pub fn layer(&self) -> Option<BoxedLayer> {
        let is_ours = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("daftar"));
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SCOPE))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false)
            .with_level(false)
            .with_context_activation(false)
            .with_filter(is_ours.with_max_level_hint(LevelFilter::from_level(Level::INFO)));
        self.is_tracing.then(|| layer.boxed())
    }

    pub fn send_metrics_of(&self, source: MetricsSource) {
        if let Some(meters) = &self.meters {
            meters.read_from(source);
        }
    }

    pub fn histogram(&self, name: &'static str, description: &'static str, bounds: &[f64]) -> Option<SentHistogram> {
        self.meters.as_ref().map(|meters| meters.histogram(name, description, bounds))
    }

    /// Sends the queued spans within the configured timeout, and stops.
    pub fn finish(&self, last: Option<MetricsSnapshot>) {
        let deadline = Instant::now() + self.shutdown_timeout;
        self.queue.stop(Stop { deadline, last });
        let ended = lock(&self.ended);
        // The channel closes when the thread ends. A thread that does not respond ends with the process.
        let waited = ended.recv_timeout(self.shutdown_timeout + GRACE);
        let unsent = self.queue.unsent();
        if unsent > 0 || matches!(waited, Err(std::sync::mpsc::RecvTimeoutError::Timeout)) {
            tracing::warn!(otlp.spans = unsent, "the collector did not take everything before the server stopped");
        }
    }

    pub fn usage(&self) -> OtlpUsage {
        let counts = &self.queue.counts;
        OtlpUsage {
            queued: self.queue.len(),
            queue_max: self.queue.max,
            spans: Outcome::ALL.map(|outcome| (outcome.name(), counts.spans(outcome))),
            requests: Signal::ALL.map(|signal| {
                let (taken, failed) = counts.requests(signal);
                (signal.name(), taken, failed)
            }),
        }
    }
}

/// Samples traces that begin with a request, at the configured ratio. Drops all others, such as reads of the store at
/// the start.
#[derive(Debug, Clone)]
struct OfRequests(Sampler);

impl ShouldSample for OfRequests {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let of_request = self.0.should_sample(parent, trace_id, name, kind, attributes, links);
        match kind {
            SpanKind::Server => of_request,
            _ => SamplingResult { decision: SamplingDecision::Drop, ..of_request },
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Statistics of the export on the metrics page.
#[derive(Debug, Clone, Copy)]
pub struct OtlpUsage {
    /// Number of queued spans.
    pub queued: usize,
    /// Capacity of the queue.
    pub queue_max: usize,
    /// Number of spans by outcome.
    pub spans: [(&'static str, u64); Outcome::ALL.len()],
    /// Requests to the collector: kind of data, number of successful requests, number of failed requests.
    pub requests: [(&'static str, u64, u64); Signal::ALL.len()],
}

//! Structured logs, and export of traces and metrics to a collector.
//!
//! **Invariant:** no personal data, no token and no secret ever becomes a field of a log line or of a span; see
//! `host/docs/LOGGING.md` and `host/docs/TRACING.md`.
//!
//! **Invariant:** a request never waits for the log: lines are queued in a bounded buffer that one thread writes out. A
//! line that exceeds the capacity of the buffer is dropped and counted. The audit log is separate and drops nothing.
//!
//! **Invariant:** spans are sent to the collector only and lines are written to the log only. A server without an
//! export creates no spans.

mod log_queue;
mod otlp;

use std::io::IsTerminal;
use std::sync::Arc;

use metrics::{Key, Label};
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt};

use self::log_queue::LogQueue;
pub use self::log_queue::LogWriter;
use self::otlp::Otlp;
pub use self::otlp::{OtlpUsage, SentHistogram, Signal};
use daftar_domain::config::{LogConfig, LogFormat, LogLevel, OtlpConfig};

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Export to a collector, if configured, and statistics of log lines. All handles refer to the same state.
#[derive(Clone, Default)]
pub struct Telemetry {
    otlp: Option<Arc<Otlp>>,
    lines: Option<LogQueue>,
}

impl Telemetry {
    /// Starts to send metrics, at the configured interval. Gauges and counters are read from `source`, the first time
    /// in this call and later in the sender thread; `None` means that the server has stopped.
    pub fn send_metrics_of(&self, source: impl Fn() -> Option<MetricsSnapshot> + Send + Sync + 'static) {
        if let Some(otlp) = &self.otlp {
            otlp.send_metrics_of(Box::new(source));
        }
    }

    /// Creates a histogram with these upper bounds for a collector; `None` if no metrics are sent.
    #[must_use]
    pub fn histogram(&self, name: &'static str, description: &'static str, bounds: &[f64]) -> Option<SentHistogram> {
        self.otlp.as_ref()?.histogram(name, description, bounds)
    }

    /// Returns the sent and dropped data; `None` without an export.
    #[must_use]
    pub fn usage(&self) -> Option<OtlpUsage> {
        self.otlp.as_ref().map(|otlp| otlp.usage())
    }

    /// Returns the number of log lines since the start that were dropped because the buffer was full.
    #[must_use]
    pub fn dropped_lines(&self) -> u64 {
        self.lines.as_ref().map_or(0, LogQueue::dropped_lines)
    }

    /// Returns true if an export is configured.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.otlp.is_some()
    }

    /// Sends the queued spans, and metrics with these gauges and counters; stops after the configured timeout.
    pub fn finish(&self, last: Option<MetricsSnapshot>) {
        if let Some(otlp) = &self.otlp {
            otlp.finish(last);
        }
    }
}

/// The labels of a series, each with its value.
pub type Labels<'l> = &'l [(&'static str, &'l str)];

/// A series with its value.
#[derive(Debug)]
pub struct Series<T> {
    /// The name of the metric.
    pub name: &'static str,
    /// The description of the metric.
    pub description: &'static str,
    /// The name with the labels.
    pub key: Key,
    /// The value.
    pub value: T,
}

impl<T> Series<T> {
    fn new(name: &'static str, description: &'static str, labels: Labels<'_>, value: T) -> Self {
        let labels: Vec<Label> = labels.iter().map(|(key, value)| Label::new(*key, (*value).to_owned())).collect();
        Self { name, description, key: Key::from_parts(name, labels), value }
    }
}

/// Snapshot of the gauges and counters, for the metrics page and for a collector. A series that is absent from the next
/// snapshot has ended, such as those of a plugin that was removed.
#[derive(Debug, Default)]
pub struct MetricsSnapshot {
    /// Series of gauges.
    pub gauges: Vec<Series<f64>>,
    /// Series of counters.
    pub counters: Vec<Series<u64>>,
}

impl MetricsSnapshot {
    /// Adds a series of a gauge.
    pub fn gauge(&mut self, name: &'static str, description: &'static str, labels: Labels<'_>, value: f64) {
        self.gauges.push(Series::new(name, description, labels, value));
    }

    /// Adds a series of a counter.
    pub fn counter(&mut self, name: &'static str, description: &'static str, labels: Labels<'_>, value: u64) {
        self.counters.push(Series::new(name, description, labels, value));
    }
}

/// Starts logging to standard error, and the export if it is configured. Changes nothing if logging has been started
/// already, as in tests. Logging stops when the writer is dropped.
///
/// # Errors
/// One sentence, if a file that the export requires cannot be used.
pub fn start(log: &LogConfig, otlp: &OtlpConfig) -> Result<(Telemetry, LogWriter), String> {
    let (queue, writer) = LogQueue::start(std::io::stderr())
        .map_err(|error| format!("the thread that writes the log cannot be started: {error}"))?;
    let otlp = if otlp.enabled { Some(Arc::new(Otlp::start(otlp)?)) } else { None };
    let mut layers = vec![lines(log, queue.clone())];
    layers.extend(otlp.as_ref().and_then(|otlp| otlp.layer()));
    if tracing_subscriber::registry().with(layers).try_init().is_err() {
        tracing::debug!("logging was started before");
    }
    Ok((Telemetry { otlp, lines: Some(queue) }, writer))
}

/// Returns the writer of log lines.
fn lines(config: &LogConfig, writer: LogQueue) -> BoxedLayer {
    let level = match config.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // Log lines of other crates are for the authors of these crates, not for an operator, and may contain data that
    // must not be logged.
    let targets = Targets::new().with_target("daftar", level).with_default(LevelFilter::WARN);
    let is_line = filter_fn(|metadata| metadata.is_event()).with_max_level_hint(level.max(LevelFilter::WARN));
    let filter = targets.and(is_line);
    match config.format {
        LogFormat::Text => {
            // Colours are useful in a terminal only; in a file they are noise.
            let layer = fmt::layer().with_writer(writer).with_target(false);
            layer.with_ansi(std::io::stderr().is_terminal()).with_filter(filter).boxed()
        }
        LogFormat::Json => fmt::layer().json().with_writer(writer).with_filter(filter).boxed(),
    }
}

//! The sender thread.
//!
//! **Invariant:** one batch at a time. A batch that the collector does not accept is retried with exponential backoff,
//! and dropped after [`ATTEMPTS_MAX`] attempts; in the meantime the queue fills and drops further spans. Metrics that
//! are not accepted are dropped: the next ones contain the same totals.
//!
//! **Invariant:** bounded: a span that exceeds the capacity of the queue is dropped, and its caller continues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry::Context;
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter as _;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter as _, SpanProcessor};

use super::collector::{Answer, Collector, Signal};
use super::lock;
use super::meters::Meters;
use crate::telemetry::MetricsSnapshot;

/// Maximum number of spans in one batch.
pub(super) const BATCH_SPANS: usize = 512;
/// Maximum time for which an incomplete batch waits.
const SPANS_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of attempts for a batch.
const ATTEMPTS_MAX: u32 = 6;
/// Delay before the first retry; doubled with each further one.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// State of the sender thread.
pub(super) struct Sender {
    pub queue: Arc<Queue>,
    pub collector: Arc<Collector>,
    pub spans: SpanExporter,
    pub metrics: Option<MetricsSender>,
    pub held: Option<Held>,
    pub is_failing: bool,
}

/// Sends metrics at an interval.
pub(super) struct MetricsSender {
    pub meters: Arc<Meters>,
    pub exporter: MetricExporter,
    pub interval: Duration,
}

/// Spans that the collector has not accepted yet.
pub(super) struct Held {
    spans: Vec<SpanData>,
    attempts: u32,
    again: Instant,
}

impl Sender {
    /// Sends until it is stopped.
    pub fn run(mut self) {
        let interval = self.metrics.as_ref().map(|metrics| metrics.interval);
        let mut metrics_due = interval.map(|interval| Instant::now() + interval);
        loop {
            let spans_due = self.held.as_ref().map_or_else(|| Instant::now() + SPANS_WAIT, |held| held.again);
            let wake = metrics_due.map_or(spans_due, |due| due.min(spans_due));
            let (spans, stop) = self.queue.wait(wake, self.held.is_none());
            if let Some(stop) = stop {
                self.finish(spans, stop);
                return;
            }
            let now = Instant::now();
            if let Some((due, interval)) = metrics_due.zip(interval).filter(|(due, _)| *due <= now) {
                if let Some(snapshot) = self.metrics.as_ref().and_then(|metrics| metrics.meters.read()) {
                    self.send_metrics(snapshot, self.collector.timeout());
                }
                // Intervals that were missed while the collector did not respond are skipped.
                metrics_due = Some((due + interval).max(Instant::now()));
            }
            self.hold(spans);
            if self.held.as_ref().is_some_and(|held| held.again <= Instant::now()) {
                self.send_held(self.collector.timeout());
            }
        }
    }

    /// Sends the remaining data, metrics first since they are one request, until the timeout or a failure of the
    /// collector.
    fn finish(&mut self, mut spans: Vec<SpanData>, stop: Stop) {
        let collector = self.collector.timeout();
        let left = move || stop.deadline.saturating_duration_since(Instant::now()).min(collector);
        let mut goes_on = stop.last.is_none_or(|snapshot| self.send_metrics(snapshot, left()));
        loop {
            if self.held.is_none() {
                let rest = spans.split_off(spans.len().min(BATCH_SPANS));
                self.hold(std::mem::replace(&mut spans, rest));
            }
            let Some(held) = &self.held else { return };
            if !goes_on || left().is_zero() {
                let lost = held.spans.len().saturating_add(spans.len());
                self.queue.counts.add_spans(Outcome::Unreachable, lost);
                self.queue.set_held(lost);
                return;
            }
            goes_on = self.send_held(left());
        }
    }

    /// Stores spans until the collector accepts them.
    fn hold(&mut self, spans: Vec<SpanData>) {
        if spans.is_empty() {
            return;
        }
        self.queue.set_held(spans.len());
        self.held = Some(Held { spans, attempts: 0, again: Instant::now() });
    }

    /// Sends the pending batch; returns true if the collector accepted it.
    fn send_held(&mut self, timeout: Duration) -> bool {
        let Some(mut held) = self.held.take() else { return true };
        let response = self.collector.send(timeout, self.spans.export(held.spans.clone()));
        let is_taken = self.note(Signal::Traces, &response);
        let (counts, spans) = (&self.queue.counts, held.spans.len());
        match response {
            Answer::Taken { rejected } => {
                let rejected = rejected.min(spans);
                counts.add_spans(Outcome::Sent, spans.saturating_sub(rejected));
                counts.add_spans(Outcome::Rejected, rejected);
            }
            Answer::Refused(_) => counts.add_spans(Outcome::Rejected, spans),
            Answer::NotNow(_) => {
                held.attempts = held.attempts.saturating_add(1);
                if held.attempts < ATTEMPTS_MAX {
                    held.again = Instant::now() + RETRY_FIRST * 2_u32.saturating_pow(held.attempts.saturating_sub(1));
                    self.held = Some(held);
                    return is_taken;
                }
                counts.add_spans(Outcome::Unreachable, spans);
            }
        }
        self.queue.set_held(0);
        is_taken
    }

    /// Sends all metrics, with these gauges and counters; returns true if the collector accepted them.
    fn send_metrics(&mut self, snapshot: MetricsSnapshot, timeout: Duration) -> bool {
        let Some(metrics) = &self.metrics else { return true };
        metrics.meters.show(snapshot);
        let response = match metrics.meters.collect() {
            Ok(collected) => self.collector.send(timeout, metrics.exporter.export(&collected)),
            Err(reason) => Answer::Refused(reason),
        };
        self.note(Signal::Metrics, &response)
    }

    /// Counts a request, and logs when the collector begins to fail and when it recovers.
    fn note(&mut self, signal: Signal, response: &Answer) -> bool {
        let reason = match response {
            Answer::Taken { .. } => None,
            Answer::Refused(reason) | Answer::NotNow(reason) => Some(reason),
        };
        self.queue.counts.add_request(signal, reason.is_none());
        match (reason, self.is_failing) {
            (Some(reason), false) => tracing::warn!(
                otlp.signal = signal.name(),
                error = reason,
                "the collector does not take telemetry; requests are served as before, spans that exceed the queue are dropped"
            ),
            (None, true) => tracing::info!(otlp.signal = signal.name(), "the collector takes telemetry again"),
            (Some(_), true) | (None, false) => {}
        }
        self.is_failing = reason.is_some();
        reason.is_none()
    }
}

daftar_domain::named_enum! {
    /// Outcome of a span, with its name on the metrics page.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Outcome {
        /// The collector accepted it.
        Sent = "sent",
        /// The queue was full.
        QueueFull = "queue_full",
        /// The collector rejected it.
        Rejected = "rejected",
        /// The collector was unreachable in every attempt.
        Unreachable = "unreachable",
    }
}

/// Sent and dropped data since the start.
#[derive(Debug, Default)]
pub(super) struct Counts {
    spans: [AtomicU64; Outcome::ALL.len()],
    taken: [AtomicU64; Signal::ALL.len()],
    failed: [AtomicU64; Signal::ALL.len()],
}

impl Counts {
    pub fn add_spans(&self, outcome: Outcome, spans: usize) {
        add(&self.spans, outcome as usize, u64::try_from(spans).unwrap_or(u64::MAX));
    }

    pub fn add_request(&self, signal: Signal, is_taken: bool) {
        add(if is_taken { &self.taken } else { &self.failed }, signal as usize, 1);
    }

    pub fn spans(&self, outcome: Outcome) -> u64 {
        get(&self.spans, outcome as usize)
    }

    pub fn requests(&self, signal: Signal) -> (u64, u64) {
        (get(&self.taken, signal as usize), get(&self.failed, signal as usize))
    }
}

fn add(counts: &[AtomicU64], at: usize, more: u64) {
    if let Some(count) = counts.get(at) {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

fn get(counts: &[AtomicU64], at: usize) -> u64 {
    counts.get(at).map_or(0, |count| count.load(Ordering::Relaxed))
}

/// Request to stop the thread.
#[derive(Debug)]
pub(super) struct Stop {
    /// Time at which the caller stops waiting.
    pub deadline: Instant,
    /// The final gauges and counters.
    pub last: Option<MetricsSnapshot>,
}

/// The queue of spans.
#[derive(Debug)]
pub(super) struct Queue {
    pub max: usize,
    waiting: Mutex<Waiting>,
    changed: Condvar,
    pub counts: Counts,
}

#[derive(Debug, Default)]
struct Waiting {
    spans: Vec<SpanData>,
    /// Number of accepted spans without an outcome yet.
    held: usize,
    stop: Option<Stop>,
    is_stopped: bool,
}

impl Queue {
    pub fn new(max: usize) -> Self {
        Self { max, waiting: Mutex::default(), changed: Condvar::new(), counts: Counts::default() }
    }

    pub fn len(&self) -> usize {
        self.lock().spans.len()
    }

    /// Returns the number of spans without an outcome.
    pub fn unsent(&self) -> usize {
        let waiting = self.lock();
        waiting.spans.len().saturating_add(waiting.held)
    }

    pub fn set_held(&self, held: usize) {
        self.lock().held = held;
    }

    pub fn stop(&self, stop: Stop) {
        let mut waiting = self.lock();
        if !waiting.is_stopped {
            waiting.is_stopped = true;
            waiting.stop = Some(stop);
        }
        drop(waiting);
        self.changed.notify_all();
    }

    fn push(&self, span: SpanData) {
        let mut waiting = self.lock();
        if waiting.is_stopped || waiting.spans.len() >= self.max {
            drop(waiting);
            self.counts.add_spans(Outcome::QueueFull, 1);
            return;
        }
        waiting.spans.push(span);
        let is_a_batch = waiting.spans.len() == BATCH_SPANS;
        drop(waiting);
        if is_a_batch {
            self.changed.notify_one();
        }
    }

    /// Waits until that instant, a stop request or, if spans are requested, a batch of spans.
    pub fn wait(&self, until: Instant, wants_spans: bool) -> (Vec<SpanData>, Option<Stop>) {
        let mut waiting = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_full = wants_spans && waiting.spans.len() >= BATCH_SPANS;
            if let Some(stop) = waiting.stop.take() {
                return (std::mem::take(&mut waiting.spans), Some(stop));
            }
            if is_full || left == Duration::ZERO {
                let most = if wants_spans { waiting.spans.len().min(BATCH_SPANS) } else { 0 };
                return (waiting.spans.drain(..most).collect(), None);
            }
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }
}

/// Queues finished spans.
#[derive(Debug)]
pub(super) struct QueueProcessor(pub Arc<Queue>);

impl SpanProcessor for QueueProcessor {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.0.push(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// The owner of the queue stops it, with a separate timeout.
    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

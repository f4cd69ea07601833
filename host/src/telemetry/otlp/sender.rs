//! The thread that sends.
//!
//! **Invariant:** one batch at a time: one that the collector does not take now is kept and tried again, ever more seldom, and given
//! up after [`ATTEMPTS_MAX`]; meanwhile the queue fills and drops. Metrics that are not taken are not kept: the next page has all
//! that they said.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;

use super::collector::{Answer, Collector, Signal};
use super::page;
use super::queue::{Outcome, Queue, Stop};

/// Gives the metrics page; none when the server is gone.
pub(super) type PageSource = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// How many spans are sent at once, at most.
pub(super) const BATCH_SPANS: usize = 512;
/// How long fewer of them wait.
const SPANS_WAIT: Duration = Duration::from_secs(1);
/// How often a batch is tried.
const ATTEMPTS_MAX: u32 = 6;
/// How long after the first failure it is tried again; each time twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// What the thread owns.
pub(super) struct Sender {
    queue: Arc<Queue>,
    collector: Collector,
    resource: ResourceAttributesWithSchema,
    interval: Option<Duration>,
    started: SystemTime,
    held: Option<Held>,
    is_failing: bool,
}

/// Spans that the collector has not taken yet.
struct Held {
    body: Vec<u8>,
    spans: usize,
    attempts: u32,
    again: Instant,
}

impl Sender {
    pub fn new(queue: Arc<Queue>, collector: Collector, resource: &Resource, interval: Option<Duration>) -> Self {
        let resource = ResourceAttributesWithSchema::from(resource);
        Self { queue, collector, resource, interval, started: wall_clock(), held: None, is_failing: false }
    }

    /// Sends until it is told to stop.
    pub fn run(mut self) {
        let mut metrics_due = self.interval.map(|interval| Instant::now() + interval);
        loop {
            let spans_due = self.held.as_ref().map_or_else(|| Instant::now() + SPANS_WAIT, |held| held.again);
            let wake = metrics_due.map_or(spans_due, |due| due.min(spans_due));
            let (spans, stop) = self.queue.wait(wake, self.held.is_none());
            if let Some(stop) = stop {
                self.finish(spans, stop);
                return;
            }
            let now = Instant::now();
            if let Some((due, interval)) = metrics_due.zip(self.interval).filter(|(due, _)| *due <= now) {
                if let Some(page) = self.queue.page() {
                    self.send_page(&page, self.collector.timeout());
                }
                // Not in a row for those that were missed while the collector hung.
                metrics_due = Some((due + interval).max(Instant::now()));
            }
            self.hold(spans);
            if self.held.as_ref().is_some_and(|held| held.again <= Instant::now()) {
                self.send_held(self.collector.timeout());
            }
        }
    }

    /// Sends what is left, metrics first since they are one request, until the time is over or the collector fails.
    fn finish(&mut self, mut spans: Vec<SpanData>, stop: Stop) {
        let collector = self.collector.timeout();
        let left = move || stop.deadline.saturating_duration_since(Instant::now()).min(collector);
        let mut goes_on = match stop.last_page.filter(|_| self.interval.is_some()) {
            Some(page) => self.send_page(&page, left()),
            None => true,
        };
        loop {
            if self.held.is_none() {
                let rest = spans.split_off(spans.len().min(BATCH_SPANS));
                self.hold(std::mem::replace(&mut spans, rest));
            }
            let Some(held) = &self.held else { return };
            if !goes_on || left().is_zero() {
                let lost = held.spans.saturating_add(spans.len());
                self.queue.counts.add_spans(Outcome::Unreachable, lost);
                self.queue.set_held(lost);
                return;
            }
            goes_on = self.send_held(left());
        }
    }

    /// Keeps spans until the collector has them.
    fn hold(&mut self, spans: Vec<SpanData>) {
        if spans.is_empty() {
            return;
        }
        let count = spans.len();
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        self.held = Some(Held { body, spans: count, attempts: 0, again: Instant::now() });
        self.queue.set_held(count);
    }

    /// Tries what is held; whether the collector answered as it should.
    fn send_held(&mut self, timeout: Duration) -> bool {
        let Some(mut held) = self.held.take() else { return true };
        let answer = self.collector.send(Signal::Traces, &held.body, timeout);
        let is_taken = self.note(Signal::Traces, &answer);
        let counts = &self.queue.counts;
        match answer {
            Answer::Taken { rejected } => {
                let rejected = rejected.min(held.spans);
                counts.add_spans(Outcome::Sent, held.spans.saturating_sub(rejected));
                counts.add_spans(Outcome::Refused, rejected);
            }
            Answer::Refused(_) => counts.add_spans(Outcome::Refused, held.spans),
            Answer::NotNow(_) => {
                held.attempts = held.attempts.saturating_add(1);
                if held.attempts < ATTEMPTS_MAX {
                    held.again = Instant::now() + RETRY_FIRST * 2_u32.saturating_pow(held.attempts.saturating_sub(1));
                    self.held = Some(held);
                    return is_taken;
                }
                counts.add_spans(Outcome::Unreachable, held.spans);
            }
        }
        self.queue.set_held(0);
        is_taken
    }

    fn send_page(&mut self, page: &str, timeout: Duration) -> bool {
        let body = page::as_request(page, &self.resource.attributes.0, self.started, wall_clock()).encode_to_vec();
        let answer = self.collector.send(Signal::Metrics, &body, timeout);
        self.note(Signal::Metrics, &answer)
    }

    /// Counts a request, and says in the log when the collector begins to fail and when it answers again.
    fn note(&mut self, signal: Signal, answer: &Answer) -> bool {
        let reason = match answer {
            Answer::Taken { .. } => None,
            Answer::Refused(reason) | Answer::NotNow(reason) => Some(reason),
        };
        self.queue.counts.add_request(signal, reason.is_none());
        match (reason, self.is_failing) {
            (Some(reason), false) => tracing::warn!(
                otlp.signal = signal.name(),
                error = reason,
                "the collector does not take telemetry; requests are served as before, spans that find no room are dropped"
            ),
            (None, true) => tracing::info!(otlp.signal = signal.name(), "the collector takes telemetry again"),
            (Some(_), true) | (None, false) => {}
        }
        self.is_failing = reason.is_some();
        reason.is_none()
    }
}

#[expect(clippy::disallowed_methods, reason = "the collector compares it with its own clock; nothing here goes by it")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

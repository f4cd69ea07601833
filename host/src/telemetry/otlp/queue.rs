//! Spans that wait to be sent, and what became of others.
//!
//! **Invariant:** bounded: a span that finds no room is dropped, and whoever ended it goes on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

use super::collector::Signal;
use super::lock;
use super::sender::BATCH_SPANS;
use crate::telemetry::MetricsSnapshot;

/// What became of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The collector has it.
    Sent,
    /// It found no room.
    QueueFull,
    /// The collector does not want it.
    Refused,
    /// The collector could not be reached, again and again.
    Unreachable,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sent, Self::QueueFull, Self::Refused, Self::Unreachable];

    /// Its name on the metrics page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::QueueFull => "queue_full",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }
}

/// What was sent and dropped since the start.
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

/// The wish to end.
pub(super) struct Stop {
    /// When whoever wishes it goes on.
    pub deadline: Instant,
    /// The gauges and counters as they are at the end.
    pub last: Option<MetricsSnapshot>,
}

/// Spans that wait.
pub(super) struct Queue {
    max: usize,
    waiting: Mutex<Waiting>,
    changed: Condvar,
    pub counts: Counts,
}

#[derive(Default)]
struct Waiting {
    spans: Vec<SpanData>,
    /// Of those that were taken, the ones of which it is not known yet what becomes.
    held: usize,
    stop: Option<Stop>,
    is_stopped: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Queue").field("max", &self.max).finish_non_exhaustive()
    }
}

impl Queue {
    pub fn new(max: usize) -> Self {
        Self { max, waiting: Mutex::default(), changed: Condvar::new(), counts: Counts::default() }
    }

    pub fn max(&self) -> usize {
        self.max
    }

    pub fn len(&self) -> usize {
        self.lock().spans.len()
    }

    /// Spans of which it is not known what becomes of them.
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

    /// Waits until that instant, or a wish to end, or, where spans are wanted, a batch of them.
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

/// Puts finished spans into the queue.
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

    /// Stopping is the business of whoever holds the queue, with a time of its own.
    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

//! The span of a request. Its child spans (`store.commit`, `store.read`, `plugin.run`, `plugin.call`, `plugin.install`)
//! are created by the code that does the work, with `tracing` alone.
//!
//! **Invariant:** a span names routes by their pattern, and contains no text of a client.

use std::time::Duration;

use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use daftar_domain::trace_parent::TraceParent;

/// The name of a standard HTTP method: a client may send any word.
#[must_use]
pub fn known_method(method: &str) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    METHODS.into_iter().find(|known| *known == method).unwrap_or("other")
}

/// The span of a request of a connection, or of a nested request such as an entry of a batch, which is a child of the
/// current span. `route` is the matched pattern; `request.id` is recorded once it is known.
#[must_use]
pub fn request(method: &str, route: Option<&str>, parent: Option<TraceParent>) -> Span {
    let (method, route) = (known_method(method), route.unwrap_or("none"));
    let span = tracing::info_span!(
        "request",
        otel.name = format_args!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        request.id = Empty,
    );
    if let Some(parent) = parent.filter(|_| !span.is_disabled()) {
        let flags = if parent.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        let (trace_id, span_id) = (TraceId::from_bytes(parent.trace_id), SpanId::from_bytes(parent.span_id));
        let context = SpanContext::new(trace_id, span_id, flags, true, TraceState::default());
        let parent = opentelemetry::Context::new().with_remote_span_context(context);
        // Fails only where no spans are exported.
        let _is_set = span.set_parent(parent).is_ok();
    }
    span
}

/// Records the status of the response.
pub fn answered(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// Formats a duration for logs and bodies: in milliseconds, with at most three decimals.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

//! The span of a request, for whoever collects traces.
//!
//! **Invariant:** a caller's `traceparent` is believed from trusted proxies alone, and only where the settings say so: whoever may
//! name the trace decides what is kept of it, and puts own requests among those of others.

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, StatusCode};
use tracing::Span;

use super::caller::{Caller, Entrance};
use crate::spans;
use crate::state::AppState;
use daftar_domain::trace_parent::TraceParent;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Probes and scrapes come every few seconds and tell nothing.
fn is_routine(route: Option<&str>) -> bool {
    route.is_some_and(|route| route.starts_with("/health/") || route == "/metrics")
}

/// The span of a request that came; none of one that nobody wants to see.
pub(super) fn begin(app: &AppState, request: &Request, entrance: Entrance) -> Span {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if !app.program.is_traced() || is_routine(route) {
        return Span::none();
    }
    let parent = if app.config.otlp.takes_up_traceparent() { parent(app, request, entrance) } else { None };
    spans::request(request.method().as_str(), route, parent)
}

/// Says which request the span that is entered is of.
pub(super) fn name(app: &AppState, request_id: &str) {
    if app.program.is_traced() {
        Span::current().record("request.id", request_id);
    }
}

/// Ends it.
pub(super) fn end(span: &Span, status: StatusCode) {
    spans::answered(span, status.as_u16());
}

/// The trace that a trusted proxy names, if it names one.
fn parent(app: &AppState, request: &Request, entrance: Entrance) -> Option<TraceParent> {
    if !Caller::of(app, request, entrance)?.is_by_proxy {
        return None;
    }
    let mut named = request.headers().get_all(&TRACEPARENT).iter();
    let header = named.next().filter(|_| named.next().is_none())?;
    TraceParent::parse(header.as_bytes())
}

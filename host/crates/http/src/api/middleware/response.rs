//! Assigns a request its id and its span, limits its time, catches panics, and writes errors and the headers of every
//! response.
//!
//! **Invariant:** a caller's `traceparent` is accepted from trusted proxies alone, and only if configured: a caller
//! that names the trace decides its sampling, and may add its requests to another trace.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tracing::{Instrument, Span};

use super::audit::{self, AuditContextEnd};
use super::entrance::{self, Caller, Entrance, too_much_unread};
use super::shown::fields_shown;
use crate::api::error::Problem;
use crate::api::extract::auth::{WithinRequest, token_unavailable};
use crate::api::extract::body_memory::BodyMemory;
use crate::spans::{self, known_method, milliseconds};
use crate::state::AppState;
use daftar_auth::limits::RateHeaders;
use daftar_auth::limits::response_memory::{Reader, ReservedMemory};
use daftar_domain::audit::{Actor, AuditAction};
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::trace_parent::TraceParent;

/// Suffix of the token endpoint's path: its errors have OAuth's format.
const TOKEN_ROUTE: &str = "/oauth/token";

/// The version of the API, sent with every response.
pub const API_VERSION: &str = "2.0.0";

static API_VERSION_HEADER: HeaderName = HeaderName::from_static("x-api-version");
static REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");
static LIMIT_HEADER: HeaderName = HeaderName::from_static("x-ratelimit-limit");
static REMAINING_HEADER: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
static RESET_HEADER: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Number of headers added to every response.
const HEADERS_ADDED: usize = 8;

/// The request's data for extractors and handlers, and their data for the response.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// The request id in responses, logs and the audit log.
    pub id: Arc<str>,
    /// Its audit context.
    pub trail: AuditContext,
    /// Arrival time by [`daftar_domain::context::Clock::elapsed`]: its timeout counts from here.
    pub begun: Duration,
    /// The caller; none without a connection.
    pub caller: Option<Caller>,
    /// Timeouts of its body.
    pub body_times: BodyTimes,
    /// Memory for its body; none if the body is part of another one.
    body_memory: Option<BodyMemory>,
    reserved: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    rate: Arc<Mutex<Option<RateHeaders>>>,
}

impl RequestInfo {
    /// A request with that id and audit context, arrived at that time.
    #[must_use]
    pub fn new(id: Arc<str>, trail: AuditContext, begun: Duration) -> Self {
        Self {
            id,
            trail,
            begun,
            caller: None,
            body_times: BodyTimes::default(),
            body_memory: None,
            reserved: Arc::default(),
            rate: Arc::default(),
        }
    }

    /// Reserves memory for the JSON body until the response is finished, at the first call.
    ///
    /// # Errors
    /// As [`BodyMemory::reserve`].
    pub async fn reserve_memory(&self, body: &[u8]) -> Result<(), Problem> {
        let is_reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if let Some(memory) = self.body_memory.as_ref().filter(|_| !is_reserved) {
            let reserved = memory.reserve(body, self.body_times.stall).await?;
            *self.reserved.lock().unwrap_or_else(PoisonError::into_inner) = reserved;
        }
        Ok(())
    }

    /// Sets the state of the bucket that counted this request.
    pub fn set_rate(&self, headers: RateHeaders) {
        *self.rate.lock().unwrap_or_else(PoisonError::into_inner) = Some(headers);
    }

    fn rate(&self) -> Option<RateHeaders> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Timeouts of a request body.
#[derive(Debug, Clone, Copy)]
pub struct BodyTimes {
    /// From its beginning to its end.
    pub whole: Duration,
    /// Between two parts of it.
    pub stall: Duration,
}

impl Default for BodyTimes {
    fn default() -> Self {
        Self { whole: Duration::from_secs(20), stall: Duration::from_secs(10) }
    }
}

/// Minimum timeout of a request of the administrator: installing a plugin may take the complete time of its compiler on
/// a busy machine.
const ADMINISTRATION_TIMEOUT: Duration = Duration::from_secs(120);

/// The outermost layer of the public listener.
pub async fn respond_public(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let timeout = Duration::from_millis(app.config.server.request_timeout_ms);
    respond_within(timeout, Entrance::Public, &app, request, next).await
}

/// The outermost layer of the metrics listener, and of nested requests.
pub async fn respond(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let timeout = Duration::from_millis(app.config.server.request_timeout_ms);
    respond_within(timeout, Entrance::Inside, &app, request, next).await
}

/// The outermost layer of the admin API.
pub async fn respond_administrator(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let timeout = Duration::from_millis(app.config.server.request_timeout_ms).max(ADMINISTRATION_TIMEOUT);
    respond_within(timeout, Entrance::Inside, &app, request, next).await
}

async fn respond_within(
    timeout: Duration,
    entrance: Entrance,
    app: &AppState,
    request: Request,
    next: Next,
) -> Response {
    let span = begin_span(app, &request, entrance);
    let response = respond_in_span(timeout, entrance, app, request, next).instrument(span.clone()).await;
    spans::answered(&span, response.status().as_u16());
    response
}

async fn respond_in_span(
    timeout: Duration,
    entrance: Entrance,
    app: &AppState,
    mut request: Request,
    next: Next,
) -> Response {
    let begun = app.clock.elapsed();
    let within = request.extensions().get::<WithinRequest>().cloned();
    let id =
        within.as_ref().map_or_else(|| Arc::from(app.ids.next_id()), |within| Arc::clone(&within.context.request_id));
    if app.program.is_traced() {
        Span::current().record("request.id", &*id);
    }
    let caller = Caller::of(app, &request, entrance);
    let trail = match &within {
        Some(within) => audit::begin_part(&request, &within.context.trail),
        None => audit::begin(&request, &id, caller.map(|caller| caller.address)),
    };
    let lines = within.as_ref().and_then(|within| within.lines.clone());
    let trail_end = AuditContextEnd::new(app.clone(), trail.clone(), lines);
    let connections = &app.config.server.connections;
    let body_times = BodyTimes { whole: connections.body_timeout(), stall: connections.body_stall_timeout() };
    let body_memory = within.is_none().then(|| app.body_memory.clone());
    let info = RequestInfo { caller, body_times, body_memory, ..RequestInfo::new(id, trail, begun) };
    let origin = entrance::allowed_origin(app, request.headers());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = request.method().clone();
    request.extensions_mut().insert(info.clone());

    let answering = async {
        match entrance {
            Entrance::Public => entrance::enter(app, &info, request, next).await,
            Entrance::Inside => next.run(request).await,
        }
    };
    let guarded = AssertUnwindSafe(tokio::time::timeout(timeout, answering)).catch_unwind();
    let mut response = match guarded.await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => refusal(Problem::new(ErrorCode::DeadlineExceeded, "the request took too long, retry later")),
        Err(_) => {
            tracing::error!(request.id = %info.id, http.route = route.as_deref(), "a request panicked");
            let detail = "an internal error occurred; the request id identifies it in the server's log";
            refusal(Problem::new(ErrorCode::InternalError, detail))
        }
    };

    // The response to HEAD is sent without a body, and shows nothing.
    if response.status().is_success() && method != Method::HEAD && info.trail.wants_shown() {
        let (whole, fields) = fields_shown(response).await;
        response = whole;
        info.trail.shows(fields);
    }
    let is_counted = match &within {
        None => entrance == Entrance::Public,
        // A batch gathers its reads. The rest of a batch is not rejected after some of it was done.
        Some(within) => method == Method::GET && within.lines.is_none(),
    };
    let reader = is_counted.then(|| reader(&info)).flatten();
    let mut reserved = None;
    if let Some(reader) = &reader
        && response.extensions().get::<Problem>().is_none()
    {
        match reserve(app, &info, (reader, &method), &response) {
            Ok(memory) => reserved = Some(memory),
            Err(problem) => response = refusal(problem),
        }
    }
    let (status, problem) = (response.status(), response.extensions().get::<Problem>());
    if let Err(problem) = trail_end.end(problem.map_or(status, Problem::status), problem).await {
        response = refusal(problem);
    }
    let is_of_tokens = route.as_deref().is_some_and(|route| route.ends_with(TOKEN_ROUTE));
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        if problem.is_outage && within.is_none() {
            app.program.note_outage();
        }
        if is_of_tokens && problem.status() == StatusCode::SERVICE_UNAVAILABLE {
            response = token_unavailable(&problem.detail);
        } else {
            write_problem(&mut response, &problem, &app.public_url, route.as_deref(), &info.id);
        }
        if within.is_some() {
            // The outer request reports it in its own form.
            response.extensions_mut().insert(problem);
        }
    }
    write_headers(&mut response, &info);
    if let Some(reader) = &reader {
        let bytes = response.body().size_hint().exact();
        // Memory for an error is reserved when it is written.
        let reserve = |bytes| app.response_memory.reserve_always(reader, bytes);
        if let Some(memory) = reserved.filter(|memory| Some(memory.bytes()) == bytes).or_else(|| bytes.map(reserve)) {
            response.extensions_mut().insert(Arc::new(memory));
        }
    }
    if entrance == Entrance::Public {
        entrance::write_headers(app, origin, response.headers_mut());
        if caller.is_some_and(|caller| caller.is_https) {
            write_transport_security(app, &mut response);
        }
    }
    let taken = app.clock.elapsed().saturating_sub(begun);
    app.program.count_request(method.as_str(), route.as_deref(), response.status().as_u16(), taken);
    tracing::info!(
        request.id = %info.id,
        http.method = known_method(method.as_str()),
        http.route = route.as_deref(),
        http.status = response.status().as_u16(),
        duration_ms = milliseconds(taken),
        "request completed"
    );
    response
}

/// Client or address under which the unread response is counted.
fn reader(info: &RequestInfo) -> Option<Reader> {
    match info.trail.caller() {
        Some((Actor::Client(client), _)) => Some(Reader::Client(client)),
        _ => info.caller.map(|caller| Reader::of_address(caller.address)),
    }
}

/// Counts a finished response that is not sent yet. The response to a change is always sent: a completed change is
/// reported.
fn reserve(
    app: &AppState,
    info: &RequestInfo,
    (reader, method): (&Reader, &Method),
    response: &Response,
) -> Result<ReservedMemory, Problem> {
    let bytes = response.body().size_hint().exact().unwrap_or_default();
    let is_read = match info.trail.caller() {
        _ if matches!(*method, Method::GET | Method::HEAD) => true,
        Some((_, action)) => matches!(action, AuditAction::Read | AuditAction::Search | AuditAction::Evaluate),
        None => false,
    };
    if !is_read {
        return Ok(app.response_memory.reserve_always(reader, bytes));
    }
    app.response_memory.reserve(reader, bytes).map_err(|bound| too_much_unread(bound, reader))
}

fn refusal(problem: Problem) -> Response {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(problem);
    response
}

fn write_problem(response: &mut Response, problem: &Problem, public_url: &str, route: Option<&str>, request_id: &str) {
    *response.status_mut() = problem.status();
    *response.body_mut() = Body::from(problem.body(public_url, route, request_id));
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    for (name, value) in &problem.headers {
        headers.insert(name, value.clone());
    }
}

/// Adds the header by which browsers use HTTPS alone (RFC 6797).
fn write_transport_security(app: &AppState, response: &mut Response) {
    let value = format!("max-age={}", app.config.server.hsts_max_age_s);
    if let Ok(value) = HeaderValue::from_str(&value) {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, value);
    }
}

fn write_headers(response: &mut Response, info: &RequestInfo) {
    let headers = response.headers_mut();
    // Capacity for all of them together.
    headers.reserve(HEADERS_ADDED);
    headers.insert(&API_VERSION_HEADER, HeaderValue::from_static(API_VERSION));
    if let Ok(id) = HeaderValue::from_str(&info.id) {
        headers.insert(&REQUEST_ID_HEADER, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Paths contain identifiers of individuals.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // Nearly every response contains personal data or depends on the client; a cacheable one sets the header itself.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(rate) = info.rate() {
        headers.insert(&LIMIT_HEADER, HeaderValue::from(rate.limit));
        headers.insert(&REMAINING_HEADER, HeaderValue::from(rate.remaining));
        headers.insert(&RESET_HEADER, HeaderValue::from(rate.reset_s));
    }
}

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Probes and scrapes arrive every few seconds and are not interesting.
fn is_routine(route: Option<&str>) -> bool {
    route.is_some_and(|route| route.starts_with("/health/") || route == "/metrics")
}

/// The span of a request; none if it is not needed.
fn begin_span(app: &AppState, request: &Request, entrance: Entrance) -> Span {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if !app.program.is_traced() || is_routine(route) {
        return Span::none();
    }
    let parent = if app.config.otlp.accepts_traceparent() { remote_parent(app, request, entrance) } else { None };
    spans::request(request.method().as_str(), route, parent)
}

/// The trace that a trusted proxy names, if any.
fn remote_parent(app: &AppState, request: &Request, entrance: Entrance) -> Option<TraceParent> {
    if !Caller::of(app, request, entrance)?.is_by_proxy {
        return None;
    }
    let mut named = request.headers().get_all(&TRACEPARENT).iter();
    let header = named.next().filter(|_| named.next().is_none())?;
    TraceParent::parse(header.as_bytes())
}

//! A nested request, built from an entry and handled by the handler of the single request, until the deadline of the
//! batch.
//!
//! **Invariant:** the deadline counts from the arrival of the outer request, as its timeout does: a slow body uses time
//! of both.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use tower::ServiceExt;

use super::envelope::Entry;
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::auth::WithinRequest;
use crate::api::idempotency::{DoneBefore, answered_before};
use crate::api::middleware::response::{self, RequestInfo};
use crate::state::AppState;
use daftar_auth::limits::response_memory::ReservedMemory;
use daftar_domain::context::audit_context::HeldLines;
use daftar_domain::context::{Clock, OpContext};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;

/// Sender of a batch, and its preferred languages.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Context of the sender.
    pub context: OpContext,
    /// The header with the preferred languages, if it was sent.
    pub headers: HeaderMap,
    /// The URL of the server for clients.
    pub public_url: String,
}

impl Caller {
    /// The caller of a request with those headers, on a server with that URL.
    #[must_use]
    pub fn new(context: OpContext, headers: &HeaderMap, public_url: String) -> Self {
        // A list may be sent in several headers.
        let given = headers.get_all(header::ACCEPT_LANGUAGE).iter().filter_map(|value| value.to_str().ok());
        let languages = given.collect::<Vec<_>>().join(",");
        let languages = HeaderValue::from_str(&languages).ok().filter(|value| !value.is_empty());
        let headers = languages.map(|value| (header::ACCEPT_LANGUAGE, value)).into_iter().collect();
        Self { context, headers, public_url }
    }
}

/// Response to an entry.
#[derive(Debug)]
pub struct Answered {
    /// The status.
    pub status: StatusCode,
    /// URL of the created record.
    pub location: Option<String>,
    /// The version of the record.
    pub etag: Option<String>,
    /// JSON, or empty.
    pub body: Vec<u8>,
    /// The problem of a failed entry.
    pub problem: Option<Problem>,
    /// The memory of the body, as long as the batch gathers others.
    pub memory: Option<Arc<ReservedMemory>>,
}

/// The handlers with one view of the register.
pub struct InnerRouter(Router);

impl InnerRouter {
    /// Returns the handlers for that state.
    #[must_use]
    pub fn on(app: &AppState) -> Self {
        let again = axum::middleware::from_fn_with_state(app.clone(), answered_before);
        let layer = axum::middleware::from_fn_with_state(app.clone(), response::respond);
        Self(app.routes.inner().layer(again).layer(layer).with_state(app.clone()))
    }

    /// Returns the handlers for a single nested request, which is audited as the outer request.
    #[must_use]
    pub fn of_one(app: &AppState) -> Self {
        Self(app.routes.inner().with_state(app.clone()))
    }

    /// Handles a complete request.
    pub async fn response(&self, request: Request) -> Response {
        let Ok(response) = self.0.clone().oneshot(request).await;
        response
    }

    /// Handles the request of an entry, or returns `done_before` again if it is set. It always returns a response: 500
    /// after a panic, 503 at the deadline, even for a request that was not begun. Audit entries go to `lines`, if
    /// present, and its writes are pending then.
    ///
    /// # Errors
    /// If the request cannot be built, which is a defect.
    pub async fn send(
        &self,
        caller: &Caller,
        entry: &Entry,
        done_before: Option<DoneBefore>,
        lines: Option<HeldLines>,
        deadline: &Deadline,
    ) -> ApiResult<Answered> {
        let Some(left) = deadline.left() else { return Ok(Answered::not_begun(caller)) };
        let changes_nothing = lines.is_some() || entry.method == Method::GET;
        let mut built = Request::builder().method(&entry.method).uri(&entry.uri);
        if let Some(condition) = &entry.if_match {
            built = built.header(header::IF_MATCH, condition);
        }
        if let Some(languages) = caller.headers.get(header::ACCEPT_LANGUAGE) {
            built = built.header(header::ACCEPT_LANGUAGE, languages);
        }
        let body = match &entry.resource {
            None => Body::empty(),
            Some(members) => {
                built = built.header(header::CONTENT_TYPE, "application/json");
                Body::from(serde_json::to_vec(members).map_err(|error| AppError::Internal(error.into()))?)
            }
        };
        let mut request = built.body(body).map_err(|error| AppError::Internal(error.into()))?;
        request.extensions_mut().insert(WithinRequest { context: caller.context.clone(), lines });
        if let Some(done_before) = done_before {
            request.extensions_mut().insert(done_before);
        }
        match tokio::time::timeout(left, self.response(request)).await {
            Ok(response) => read(response).await,
            Err(_) => Ok(Answered::late(changes_nothing, caller)),
        }
    }
}

/// Reads a response completely.
///
/// # Errors
/// If its body stops, which is a defect.
pub(super) async fn read(response: Response) -> ApiResult<Answered> {
    let (mut parts, body) = response.into_parts();
    let text = |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::to_owned);
    let (location, etag) = (text(header::LOCATION), text(header::ETAG));
    // Handlers limit their bodies themselves.
    let body = axum::body::to_bytes(body, usize::MAX).await.map_err(|error| AppError::Internal(error.into()))?;
    let problem = parts.extensions.remove::<Problem>();
    let memory = parts.extensions.remove::<Arc<ReservedMemory>>();
    Ok(Answered { status: parts.status, location, etag, body: body.into(), problem, memory })
}

impl Answered {
    /// Returns a response with a problem alone.
    #[must_use]
    pub fn refused(problem: Problem, caller: &Caller) -> Self {
        let body = problem.body(&caller.public_url, None, &caller.context.request_id);
        Self { status: problem.status(), location: None, etag: None, body, problem: Some(problem), memory: None }
    }

    /// The time of the batch ended before the entry began.
    pub(super) fn not_begun(caller: &Caller) -> Self {
        let detail = "the time limit of the batch ended before this entry was begun: send it again in another batch";
        Self::refused(Problem::new(ErrorCode::DeadlineExceeded, detail), caller)
    }

    /// The time of the batch ended during the entry. The store may still finish the writes that it received.
    fn late(changes_nothing: bool, caller: &Caller) -> Self {
        let detail = if changes_nothing {
            "the time limit of the batch ended before this entry was done, and it changed nothing: send it again by itself, or in a smaller batch"
        } else {
            "the time limit of the batch ended during this entry, and its result is unknown: read the record before you send it again"
        };
        Self::refused(Problem::new(ErrorCode::DeadlineExceeded, detail), caller)
    }

    /// True if the entry succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status.is_success()
    }
}

/// Share of a request's time for the entries of a batch; the rest is for the response.
const PART_FOR_ENTRIES: f64 = 0.8;

/// Time after which no entry begins and none is waited for.
pub struct Deadline {
    clock: Arc<dyn Clock>,
    at: Duration,
}

impl Deadline {
    /// Returns the deadline of a batch in that request.
    pub(super) fn of(app: &AppState, info: &RequestInfo) -> Self {
        let time = Duration::from_millis(app.config.server.request_timeout_ms).mul_f64(PART_FOR_ENTRIES);
        Self { clock: Arc::clone(&app.clock), at: info.begun.saturating_add(time) }
    }

    /// Returns the remaining time; none from the deadline on.
    pub(super) fn left(&self) -> Option<Duration> {
        Some(self.at.saturating_sub(self.clock.elapsed())).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::Uri;

    use super::*;
    use daftar_domain::audit::Actor;
    use daftar_domain::context::FakeClock;
    use daftar_domain::context::audit_context::AuditContext;

    impl Caller {
        /// Returns a caller that is no client.
        pub(in crate::api::batch) fn anonymous() -> Self {
            let now = "2026-03-01T12:00:00Z".parse().unwrap();
            let context = OpContext::unbound(Actor::System, "r".into(), now, AuditContext::default());
            Self::new(context, &HeaderMap::new(), String::new())
        }
    }

    /// Returns the response of a handler that never finishes, with that much time left.
    async fn timed_out(method: Method, lines: Option<HeldLines>, left: Duration) -> (StatusCode, String, Option<u64>) {
        let router = InnerRouter(Router::new().fallback(std::future::pending::<()>));
        let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
        let deadline = Deadline { clock: Arc::new(clock), at: left };
        let uri = Uri::from_static("/x");
        let entry = Entry { placeholder: None, method, uri, if_match: None, resource: None };
        let answered = router.send(&Caller::anonymous(), &entry, None, lines, &deadline).await.unwrap();
        let problem = answered.problem.unwrap();
        (answered.status, problem.detail.clone(), problem.retry_after_s())
    }

    #[tokio::test]
    async fn a_timed_out_entry_reports_if_it_may_have_changed_data() {
        let (pending_writes, shortest) = (|| Some(HeldLines::default()), Duration::from_nanos(1));
        for (method, lines, left, expected) in [
            (Method::POST, None, Duration::ZERO, "before this entry was begun"),
            (Method::POST, pending_writes(), Duration::ZERO, "before this entry was begun"),
            (Method::POST, pending_writes(), shortest, "it changed nothing"),
            (Method::GET, None, shortest, "it changed nothing"),
            (Method::POST, None, shortest, "its result is unknown"),
        ] {
            let (status, detail, retry_after_s) = timed_out(method, lines, left).await;
            assert_eq!((status, retry_after_s), (StatusCode::SERVICE_UNAVAILABLE, Some(1)));
            assert!(detail.contains(expected), "{detail}");
        }
    }
}

//! What a request leaves in the audit log: begun before anything else is done, ended when its answer is known.
//!
//! **Invariant:** whoever is answered, refused or gone meanwhile, the lines that use cases handed in are written down; a call
//! that cannot be audited is answered 503.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode};
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::api::error::Problem;
use crate::state::AppState;
use daftar_domain::audit::{AuditEntry, kept_address};
use daftar_domain::context::audit_context::{AuditContext, AuditedRequest, HeldLines};
use daftar_domain::error::{AppError, FieldProblem};

/// How many problems of fields the reason of a refusal names.
const PROBLEMS_MAX: usize = 10;
/// The longest name of a field that a reason tells, in bytes.
const FIELD_BYTES_MAX: usize = 64;

/// What is done to things that are there, by the last part of its route.
const ACTIONS: [&str; 8] =
    ["backup", "disable", "enable", "rotate-secret", "grants", "deprecate", "withdraw", "plugin-reports"];
/// What is answered with nothing when it is deleted, by the part of its route.
const EMPTIED: [&str; 3] = ["/Consent/", "/consents/{", "/plugins/{"];

/// The trail of a request that has just arrived from that address.
pub(super) fn begin(request: &Request, id: &Arc<str>, address: Option<IpAddr>) -> AuditContext {
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("unknown path", MatchedPath::as_str);
    AuditContext::new(AuditedRequest {
        request_id: Arc::clone(id),
        operation: format!("{} {route}", request.method()).into(),
        address: address.map(kept_address),
        success_status: success_status(request.method(), route),
    })
}

/// The trail of a request that is made within another one.
pub(super) fn begin_part(request: &Request, whole: &AuditContext) -> AuditContext {
    let route = request.extensions().get::<MatchedPath>().map_or("unknown path", MatchedPath::as_str);
    whole.of_part(&format!("{} {route}", request.method()), success_status(request.method(), route))
}

/// The status of a change that succeeds: known before the answer, since the line of a change is written with the change.
pub fn success_status(method: &Method, route: &str) -> u16 {
    let last = route.rsplit('/').next().unwrap_or_default();
    let status = match *method {
        Method::POST if is_action(last) => StatusCode::OK,
        Method::POST => StatusCode::CREATED,
        Method::DELETE if EMPTIED.iter().any(|parent| route.contains(parent)) => StatusCode::NO_CONTENT,
        _ => StatusCode::OK,
    };
    status.as_u16()
}

/// Whether the last part of a route names something done to what is there, so that nothing is made.
fn is_action(last: &str) -> bool {
    let dollar = last.strip_prefix('$').or_else(|| last.strip_prefix("%24"));
    dollar.is_some_and(|name| name != "add-member") || ACTIONS.contains(&last)
}

/// The reason of a refusal for the audit log: which fields, and which kinds of faults. What a 401 and a 403 say names faults of
/// tokens, scopes and fields; other details may repeat what was sent, and stay out.
fn reason(problem: &Problem) -> String {
    if matches!(problem.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return problem.detail.clone();
    }
    let faults: Vec<String> = problem.errors.iter().take(PROBLEMS_MAX).map(fault).collect();
    if !faults.is_empty() {
        return faults.join(", ");
    }
    problem.status().canonical_reason().unwrap_or("refused").to_lowercase()
}

fn fault(problem: &FieldProblem) -> String {
    let FieldProblem { field, code, .. } = problem;
    let is_ours = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.[]".contains(&byte);
    // A member that nobody knows may be anything that was sent.
    let is_told = *code != "unknown_field" && field.len() <= FIELD_BYTES_MAX && field.bytes().all(is_ours);
    if is_told && !field.is_empty() { format!("{field}: {code}") } else { (*code).to_owned() }
}

/// Ends the trail of a request.
pub(super) struct AuditContextEnd {
    app: AppState,
    trail: AuditContext,
    held: Option<HeldLines>,
}

impl AuditContextEnd {
    /// The end of that trail; its lines are kept back where the request is part of another that says what becomes of them.
    pub(super) fn new(app: AppState, trail: AuditContext, held: Option<HeldLines>) -> Self {
        Self { app, trail, held }
    }

    /// Writes the lines down, or keeps them back.
    ///
    /// # Errors
    /// The answer to give instead, when they cannot be.
    pub(super) async fn end(self, status: StatusCode, problem: Option<&Problem>) -> Result<(), Problem> {
        let reason = problem.map(reason);
        let lines = self.trail.end(self.app.clock.now(), status.as_u16(), reason.as_deref());
        if let Some(held) = &self.held {
            held.hold(lines);
            return Ok(());
        }
        write(&self.app, lines).await.map_err(|error| match error {
            error @ (AppError::Busy | AppError::Unavailable(_)) => Problem::from(error),
            other => Problem::from(AppError::Unavailable(other.into())),
        })
    }
}

impl Drop for AuditContextEnd {
    /// The caller left before it was answered. Whether the call was done is not known here: a change that was has its line.
    fn drop(&mut self) {
        // What access logs call it; no answer was sent.
        const CALLER_LEFT: u16 = 499;
        let reason = "the caller left before it was answered; whether it was done is not known";
        let lines = self.trail.end(self.app.clock.now(), CALLER_LEFT, Some(reason));
        if lines.is_empty() {
            return;
        }
        if let Some(Err(error)) = write(&self.app, lines).now_or_never() {
            log_unwritten(&error);
        }
    }
}

fn log_unwritten(error: &AppError) {
    if !error.is_outage() {
        tracing::error!(error = %error, "what a caller did who left could not be audited");
    }
}

/// Writes lines down, which the store nearly always takes at once. Where it does not a task writes them, whether or not it is waited for.
async fn write(app: &AppState, lines: Vec<AuditEntry>) -> Result<(), AppError> {
    let audit = app.registry.audit.clone();
    let mut writing = Box::pin(async move { audit.record_ended(lines).await });
    if let Some(written) = (&mut writing).now_or_never() {
        return written;
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return writing.await };
    let (sender, written) = oneshot::channel();
    let task = async move {
        if let Err(Err(error)) = sender.send(writing.await) {
            log_unwritten(&error);
        }
    };
    runtime.spawn(task.in_current_span());
    written.await.map_err(|error| AppError::Internal(error.into()))?
}

//! The audit context of a request: created before any other work, completed when the status of the response is known.
//!
//! **Invariant:** the audit entries of operations are written for every outcome, including errors and disconnects; a
//! call that cannot be audited returns 503.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode};
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::api::error::Problem;
use crate::state::AppState;
use daftar_domain::audit::{AuditEntry, stored_address};
use daftar_domain::context::audit_context::{AuditContext, AuditedRequest, HeldLines};
use daftar_domain::error::{AppError, FieldProblem};

/// Maximum number of field problems in the reason of an error.
const PROBLEMS_MAX: usize = 10;
/// Maximum length of a field name in a reason, in bytes.
const FIELD_BYTES_MAX: usize = 64;

/// Actions on existing records, by the last part of their route.
const ACTIONS: [&str; 12] = [
    "accept",
    "backup",
    "deprecate",
    "disable",
    "enable",
    "grants",
    "plugin-reports",
    "plugin-reviews",
    "reject",
    "rollback",
    "rotate-secret",
    "withdraw",
];
/// Deletions with an empty response, by the end of their route.
const EMPTIED: [&str; 6] = [
    "/Consent/{consent_id}",
    "/RuleDraft/{draft_id}",
    "/clients/{id}",
    "/consents/{consent_id}",
    "/identifier-systems/{uri}",
    "/plugins/{name}",
];

/// The audit context of a request that has just arrived from that address.
pub(super) fn begin(request: &Request, id: &Arc<str>, address: Option<IpAddr>) -> AuditContext {
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("unknown path", MatchedPath::as_str);
    AuditContext::new(AuditedRequest {
        request_id: Arc::clone(id),
        operation: format!("{} {route}", request.method()).into(),
        address: address.map(stored_address),
        success_status: success_status(request.method(), route),
    })
}

/// The audit context of a nested request.
pub(super) fn begin_part(request: &Request, whole: &AuditContext) -> AuditContext {
    let route = request.extensions().get::<MatchedPath>().map_or("unknown path", MatchedPath::as_str);
    whole.of_part(&format!("{} {route}", request.method()), success_status(request.method(), route))
}

/// The status of a successful change: known before the response, because the entry of a change is written with the
/// change.
pub fn success_status(method: &Method, route: &str) -> u16 {
    let last = route.rsplit('/').next().unwrap_or_default();
    let status = match *method {
        Method::POST if is_action(last) => StatusCode::OK,
        Method::POST => StatusCode::CREATED,
        Method::DELETE if EMPTIED.iter().any(|end| route.ends_with(end)) => StatusCode::NO_CONTENT,
        _ => StatusCode::OK,
    };
    status.as_u16()
}

/// True if the last part of a route is an action on an existing record, so that nothing is created.
fn is_action(last: &str) -> bool {
    let dollar = last.strip_prefix('$').or_else(|| last.strip_prefix("%24"));
    dollar.is_some_and(|name| name != "add-member") || ACTIONS.contains(&last)
}

/// The reason of an error for the audit log: the fields and the codes of the problems. The details of a 401 and a 403
/// name only faults of tokens, scopes and fields; other details may repeat parts of the request, and are left out.
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
    // The name of an unknown member may be any text of the client.
    let is_reported = *code != "unknown_field" && field.len() <= FIELD_BYTES_MAX && field.bytes().all(is_ours);
    if is_reported && !field.is_empty() { format!("{field}: {code}") } else { (*code).to_owned() }
}

/// Ends the audit context of a request.
pub(super) struct AuditContextEnd {
    app: AppState,
    trail: AuditContext,
    held: Option<HeldLines>,
}

impl AuditContextEnd {
    /// The end of that audit context. Entries of a nested request go to `held`, if present, until the outer request
    /// ends.
    pub(super) fn new(app: AppState, trail: AuditContext, held: Option<HeldLines>) -> Self {
        Self { app, trail, held }
    }

    /// Writes the entries, or passes them to the outer request.
    ///
    /// # Errors
    /// The response to send instead, if they cannot be written.
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
    /// The client disconnected before the response. The result is unknown here; a completed change has an entry of its
    /// own.
    fn drop(&mut self) {
        // Conventional status in access logs; no response was sent.
        const CALLER_LEFT: u16 = 499;
        let reason = "the client disconnected before the response; the result is unknown";
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
        tracing::error!(error = %error, "failed to write the audit entry of a disconnected client");
    }
}

/// Writes entries, which the store usually accepts immediately. Otherwise a task writes them, even if the future is
/// dropped.
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

//! `/oauth/token`

use std::borrow::Cow;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use daftar_api_types::public::server::{Token, TokenError, TokenErrorCode, TokenType};
use secrecy::ExposeSecret;
use tracing::Instrument as _;

use crate::api::access::TokenCall;
use crate::api::error::{ApiError, RETRY_AFTER_S};
use crate::api::extract::body::read_bounded;
use crate::api::middleware::response::RequestInfo;
use crate::state::AppState;
use daftar_auth::issue::IssuedResponse;
use daftar_auth::oauth_error::{OAuthError, OAuthErrorCode};
use daftar_auth::token_request::{TOKEN_REQUEST_BYTES_MAX, TokenRequest, TokenRequestParts};
use daftar_domain::audit::{Actor, AuditAction, AuditOutcome};
use daftar_domain::client::ClientId;
use daftar_domain::context::OpContext;
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::error::AppError;
use daftar_service::audit;

/// Issues an access token for client credentials.
pub async fn issue(_: TokenCall, State(app): State<AppState>, request: Request) -> Response {
    let headers = request.headers().clone();
    let query = request.uri().query().map(str::to_owned);
    let trail = request.extensions().get::<RequestInfo>().map(|info| info.trail.clone()).unwrap_or_default();
    let body = match read_bounded(request, TOKEN_REQUEST_BYTES_MAX).await {
        Ok(body) => body,
        Err(problem) => {
            let error = OAuthError::invalid_request(&problem.0.detail);
            return refuse(problem.0.status(), &error);
        }
    };
    let parts = TokenRequestParts {
        query: query.as_deref(),
        content_type: &values(&headers, header::CONTENT_TYPE),
        content_encoding: &values(&headers, header::CONTENT_ENCODING),
        authorization: &values(&headers, header::AUTHORIZATION),
        body: &body,
    };
    let request = match TokenRequest::parse(&parts) {
        Ok(request) => request,
        Err(error) => {
            trail.refused_for(error.code.name());
            return refuse(status(error.code), &error);
        }
    };
    // No token for a client that another process disabled, nor for a secret that it replaced.
    let issuer = app.token_issuer();
    let issued = issuer.issue_refreshed(&request, &*app.clock, || app.refresh_clients()).await;
    let issued = match issued {
        Ok(issued) => issued,
        Err(error) => return unavailable(error, "clients cannot be read, so no token is issued"),
    };
    match issued {
        Ok(issued) => match audit_grant(&app, &trail, &issued).await {
            Ok(()) => grant(&issued),
            Err(error) => unavailable(error, "token not issued: its audit entry could not be written"),
        },
        Err(error) => {
            // Only the id of an existing client: any other text may be a secret in the wrong field.
            let named = ClientId::parse(&request.client_id).ok();
            let known = named.and_then(|id| app.clients.directory.find(&id)).map(|client| client.id.clone());
            trail.about(known.iter().map(ToString::to_string));
            let is_failed = error.code == OAuthErrorCode::InvalidClient;
            let is_stranger = is_failed && known.is_none();
            trail.refused_for(if is_stranger { "invalid_client: no such client" } else { error.code.name() });
            if is_failed && let Some(turned_away) = slow_down(&app, &trail, &request.client_id, known.as_ref()).await {
                return turned_away;
            }
            refuse(status(error.code), &error)
        }
    }
}

/// Delays the response to a failure for as long as the failures of the claimed client require; one that cannot be
/// delayed is rejected. Neither takes longer for a known client than for an unknown one: a delay begins before the
/// audit log is written, and a rejection does not wait for it.
async fn slow_down(app: &AppState, trail: &AuditContext, claimed: &str, known: Option<&ClientId>) -> Option<Response> {
    let failure = app.failed_sign_ins.count(claimed, app.clock.elapsed());
    if failure.delay.is_zero() {
        return None;
    }
    let wait = app.clock.sleep(failure.delay);
    let held = app.failed_sign_ins.hold();
    if failure.is_first_slow {
        let (app, trail, known) = (app.clone(), trail.clone(), known.cloned());
        let reported = async move { log_throttled(&app, &trail, known.as_ref(), failure.failures).await };
        if held.is_some() {
            reported.await;
        } else {
            tokio::spawn(reported.in_current_span());
        }
    }
    let Some(held) = held else { return Some(turn_away(failure.delay)) };
    wait.await;
    drop(held);
    None
}

/// The response if no token can be issued now. An outage is logged separately.
fn unavailable(error: AppError, event: &'static str) -> Response {
    if error.is_outage() {
        // Converted to OAuth's format where the outage's failed requests are counted.
        return ApiError::from(error).into_response();
    }
    tracing::error!(error = %error, "{event}");
    let code = OAuthErrorCode::TemporarilyUnavailable;
    refuse(status(code), &OAuthError::new(code, "the server is unavailable, retry later"))
}

/// Reports a suspected brute-force attempt on a client's secret, or a client that still uses an old secret.
async fn log_throttled(app: &AppState, trail: &AuditContext, known: Option<&ClientId>, failures: u16) {
    if let Some(client) = known {
        tracing::warn!(client.id = %client, client.failures = failures, "token requests of a client keep failing, responses are delayed from now on");
    }
    let ctx = OpContext {
        actor: Actor::Unknown,
        trail: trail.clone(),
        request_id: trail.request_id().unwrap_or_default(),
        ..app.system_context()
    };
    let targets = known.into_iter().map(ToString::to_string).collect();
    let entry = audit::entry(&ctx, AuditAction::Authenticate, AuditOutcome::Refused, targets);
    let entry = entry
        .with_reason("invalid_client: slowed down")
        .with_note(format!("{failures} token requests of one client failed; responses to further ones are delayed"))
        .with_status(StatusCode::UNAUTHORIZED.as_u16());
    // An existing client has an entry of its own, which no flood of others hides: at most one per client in a quarter
    // of an hour. Unknown names are counted together, so that claiming many names cannot fill the log.
    let audit = &app.registry.audit;
    let reported = match known {
        Some(_) => audit.record_now(vec![entry]).await,
        None => audit.record_ended(vec![entry]).await,
    };
    if let Err(error) = reported {
        tracing::error!(error = %error, "failed to write the audit entry of throttled token requests");
    }
}

/// The response to a failure while too many others are delayed. It reveals no more than the response that it replaces.
fn turn_away(delay: Duration) -> Response {
    let retry_after_s = delay.as_secs().saturating_add(u64::from(delay.subsec_nanos() > 0)).max(1);
    let detail = format!("too many concurrent token requests fail: retry in {retry_after_s} s");
    let error = OAuthError::new(OAuthErrorCode::TemporarilyUnavailable, &detail);
    let mut response = refuse(StatusCode::TOO_MANY_REQUESTS, &error);
    response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(retry_after_s));
    response
}

/// Writes the grant of a token to the audit log: its id, never the token.
async fn audit_grant(app: &AppState, trail: &AuditContext, issued: &IssuedResponse) -> Result<(), AppError> {
    let ctx = OpContext {
        actor: Actor::Client(issued.client.id.clone()),
        trail: trail.clone(),
        request_id: trail.request_id().unwrap_or_default(),
        ..app.system_context()
    };
    let targets = vec![issued.client.id.to_string()];
    let entry = audit::entry(&ctx, AuditAction::Authenticate, AuditOutcome::Allowed, targets);
    let note = format!("token {} for {} s with scopes: {}", issued.token_id, issued.expires_in_s, issued.scope);
    app.registry.audit.record(&ctx, entry.with_note(note)).await
}

fn grant(issued: &IssuedResponse) -> Response {
    let body = Token {
        access_token: Cow::Borrowed(issued.access_token.expose_secret()),
        token_type: TokenType::Bearer,
        expires_in: issued.expires_in_s,
        scope: Cow::Owned(issued.scope.to_string()),
    };
    ([(header::CACHE_CONTROL, "no-store"), (header::PRAGMA, "no-cache")], Json(body)).into_response()
}

fn status(code: OAuthErrorCode) -> StatusCode {
    match code {
        OAuthErrorCode::InvalidRequest | OAuthErrorCode::UnsupportedGrantType | OAuthErrorCode::InvalidScope => {
            StatusCode::BAD_REQUEST
        }
        OAuthErrorCode::InvalidClient => StatusCode::UNAUTHORIZED,
        OAuthErrorCode::TemporarilyUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        OAuthErrorCode::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The body of an error.
#[must_use]
pub fn refusal(error: &OAuthError) -> TokenError<'_> {
    TokenError {
        error: match error.code {
            OAuthErrorCode::InvalidRequest => TokenErrorCode::InvalidRequest,
            OAuthErrorCode::InvalidClient => TokenErrorCode::InvalidClient,
            OAuthErrorCode::UnsupportedGrantType => TokenErrorCode::UnsupportedGrantType,
            OAuthErrorCode::InvalidScope => TokenErrorCode::InvalidScope,
            OAuthErrorCode::TemporarilyUnavailable => TokenErrorCode::TemporarilyUnavailable,
            OAuthErrorCode::ServerError => TokenErrorCode::ServerError,
        },
        error_description: Cow::Borrowed(error.description()),
        detail: error.detail(),
    }
}

fn refuse(status: StatusCode, error: &OAuthError) -> Response {
    let mut response = (status, [(header::CACHE_CONTROL, "no-store")], Json(refusal(error))).into_response();
    let more = match status {
        StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Basic realm=\"daftar\"")),
        StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, RETRY_AFTER_S)),
        _ => None,
    };
    if let Some((name, value)) = more {
        response.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    response
}

fn values(headers: &HeaderMap, name: HeaderName) -> Vec<&[u8]> {
    headers.get_all(name).iter().map(header::HeaderValue::as_bytes).collect()
}

//! `/oauth/token`

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use secrecy::ExposeSecret;
use serde::Serialize;

use crate::api::access::TokenCall;
use crate::api::error::RETRY_AFTER_S;
use crate::api::extract::body::read_bounded;
use crate::api::middleware::answer::RequestInfo;
use crate::app::AppState;
use crate::auth::issue::IssuedAnswer;
use crate::auth::oauth_error::{OAuthError, OAuthErrorCode};
use crate::auth::token_request::{TOKEN_REQUEST_BYTES_MAX, TokenRequest, TokenRequestParts};
use crate::context::OpContext;
use crate::context::trail::Trail;
use crate::domain::audit::{Actor, AuditAction, AuditOutcome};
use crate::domain::client::ClientId;
use crate::error::AppError;
use crate::service::audit;

/// A token, as RFC 6749 §5.1 has it.
#[derive(Serialize)]
struct TokenBody {
    access_token: String,
    token_type: &'static str,
    expires_in: u64,
    scope: String,
}

/// Issues an access token for client credentials.
pub async fn issue(_: TokenCall, State(app): State<AppState>, request: Request) -> Response {
    let headers = request.headers().clone();
    let trail = request.extensions().get::<RequestInfo>().map(|info| info.trail.clone()).unwrap_or_default();
    let authorization = values(&headers, header::AUTHORIZATION);
    let body = match read_bounded(request, TOKEN_REQUEST_BYTES_MAX).await {
        Ok(body) => body,
        Err(problem) => {
            let error = OAuthError::invalid_request(&problem.0.detail);
            return refuse(problem.0.status, &error);
        }
    };
    let content_type = values(&headers, header::CONTENT_TYPE);
    let parts = TokenRequestParts { content_type: &content_type, authorization: &authorization, body: &body };
    let request = TokenRequest::parse(&parts);
    // Only the name of a client that there is: what else stands there may be a secret in the wrong place.
    let named = request.as_ref().ok().and_then(|request| ClientId::parse(&request.client_id).ok());
    let known = named.and_then(|id| app.clients.directory.find(&id)).map(|client| client.id.clone());
    match request.and_then(|request| app.token_desk().issue(&request, app.clock.now())) {
        Ok(issued) => match audit_grant(&app, &trail, &issued).await {
            Ok(()) => grant(&issued),
            Err(error) => {
                tracing::error!(error = %error, "a token could not be audited, so none was issued");
                let code = OAuthErrorCode::TemporarilyUnavailable;
                refuse(status(code), &OAuthError::new(code, "the server cannot answer now, retry later"))
            }
        },
        Err(error) => {
            trail.about(known.iter().map(ToString::to_string));
            let is_stranger = error.code == OAuthErrorCode::InvalidClient && known.is_none();
            trail.refused_for(if is_stranger { "invalid_client: no such client" } else { error.code.name() });
            refuse(status(error.code), &error)
        }
    }
}

/// Writes down who got which token: its name, never the token.
async fn audit_grant(app: &AppState, trail: &Trail, issued: &IssuedAnswer) -> Result<(), AppError> {
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

fn grant(issued: &IssuedAnswer) -> Response {
    let body = TokenBody {
        access_token: issued.access_token.expose_secret().to_owned(),
        token_type: "Bearer",
        expires_in: issued.expires_in_s,
        scope: issued.scope.to_string(),
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

fn refuse(status: StatusCode, error: &OAuthError) -> Response {
    let mut response = (status, [(header::CACHE_CONTROL, "no-store")], Json(error.body())).into_response();
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

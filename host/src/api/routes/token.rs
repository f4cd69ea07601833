//! `/oauth/token`

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use secrecy::ExposeSecret;
use serde::Serialize;

use crate::api::access::TokenCall;
use crate::api::extract::body::read_bounded;
use crate::app::AppState;
use crate::auth::issue::IssuedAnswer;
use crate::auth::oauth_error::{OAuthError, OAuthErrorCode};
use crate::auth::token_request::{TOKEN_REQUEST_BYTES_MAX, TokenRequest, TokenRequestParts};

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
    let issued = TokenRequest::parse(&parts).and_then(|request| app.token_desk().issue(&request, app.clock.now()));
    match issued {
        Ok(issued) => grant(&issued),
        Err(error) => refuse(status(error.code), &error),
    }
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
    if status == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Basic realm=\"daftar\""));
    }
    response
}

fn values(headers: &HeaderMap, name: HeaderName) -> Vec<&[u8]> {
    headers.get_all(name).iter().map(header::HeaderValue::as_bytes).collect()
}

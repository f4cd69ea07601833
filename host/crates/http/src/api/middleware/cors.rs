//! Calls from pages in a browser (Fetch standard, section 3.3), where the settings name their origins.
//!
//! **Invariant:** an origin is let in by name only, and never with the browser's cookies or certificates: a page shows a token that it
//! was given, or nothing. Where no origin is named no answer says anything of origins.

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::answer::RequestInfo;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::auth::charge_address;
use crate::state::AppState;
use daftar_domain::error_code::ErrorCode;

/// What a page may ask with.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// The headers that it may send beside those that every page may.
const HEADERS: HeaderValue =
    HeaderValue::from_static("Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key");
/// The headers of an answer that it may read beside those that every page may.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Location, Content-Location, Retry-After, WWW-Authenticate, X-Request-Id, X-API-Version, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Idempotency-Replayed",
);
/// How long a browser may go by the answer to its question, in seconds.
const MAX_AGE_S: HeaderValue = HeaderValue::from_static("600");

/// The origin of a request, where it is one that the settings name.
pub(super) fn allowed_origin(app: &AppState, headers: &HeaderMap) -> Option<HeaderValue> {
    let named = &app.config.server.cors_origins;
    if named.is_empty() {
        return None;
    }
    let mut given = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (given.next(), given.next()) else { return None };
    named.iter().any(|named| named.as_str().as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

/// Whether a browser asks whether a page may make a request of a route.
pub(super) fn is_preflight(app: &AppState, request: &Request) -> bool {
    let headers = request.headers();
    request.method() == Method::OPTIONS
        && !app.config.server.cors_origins.is_empty()
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && request.extensions().get::<MatchedPath>().is_some()
}

/// The answer to that, to a page of an origin that the settings name or of another. It needs no token, since browsers send none, and is
/// counted as other calls without one are.
pub(super) async fn answer_preflight(app: &AppState, info: &RequestInfo, origin: Option<HeaderValue>) -> Response {
    if let Err(refusal) = charge_address(app, info).await {
        return refusal.into_response();
    }
    if origin.is_none() {
        let detail = "pages of this origin may not call the register: an administrator names origins as `cors_origins` in `[server]`";
        return ApiError::from(Problem::new(ErrorCode::OriginNotAllowed, detail)).into_response();
    }
    let told = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_S),
    ];
    (StatusCode::NO_CONTENT, told).into_response()
}

/// Says on an answer which page may read it.
pub(super) fn write_headers(app: &AppState, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
    if app.config.server.cors_origins.is_empty() {
        return;
    }
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}

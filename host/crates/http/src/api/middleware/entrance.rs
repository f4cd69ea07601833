//! Admission of requests on the public listener: by connection, by address, by the origin of a page in a browser (Fetch
//! standard, section 3.3), and by free slots.
//!
//! **Invariant:** health probes are served even while all other requests are rejected.
//!
//! **Invariant:** the only code that reads an address from a header. Only the public listener trusts such headers, and
//! only those of a trusted proxy.
//!
//! **Invariant:** an origin is allowed by name only, and never with the browser's cookies or certificates: a page shows
//! the token it was given, or nothing. Without allowed origins no response names origins.

use std::net::IpAddr;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::response::RequestInfo;
use crate::api::endpoint::{HEALTH_PATHS, TOKEN_PATH};
use crate::api::error::{ApiError, Problem};
use crate::api::extract::auth::{charge_address, token_unavailable};
use crate::state::AppState;
use daftar_auth::limits::response_memory::{MemoryBound, Reader};
use daftar_domain::error_code::ErrorCode;

/// Handles a request, if it is admitted.
pub(super) async fn enter(app: &AppState, info: &RequestInfo, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if route.is_some_and(|route| HEALTH_PATHS.contains(&route)) {
        return next.run(request).await;
    }
    let is_for_token = route == Some(TOKEN_PATH);
    let peer = request.extensions().get::<Peer>();
    if let Some((refusal, peer)) = peer.and_then(|peer| Some((peer.refusal?, peer))) {
        return refused(refusal, peer, is_for_token);
    }
    let Some(_place) = app.transport.enter(is_for_token) else {
        return unavailable(ErrorCode::Overloaded, "too many concurrent requests, retry later", is_for_token);
    };
    if is_preflight(app, &request) {
        let origin = allowed_origin(app, request.headers());
        return respond_preflight(app, info, origin).await;
    }
    next.run(request).await
}

/// Checks that the unread responses of the reader are below the limit.
///
/// # Errors
/// 503.
pub(in crate::api) fn check_unread(app: &AppState, reader: &Reader) -> Result<(), Problem> {
    if app.response_memory.admits(reader) { Ok(()) } else { Err(too_much_unread(MemoryBound::Client, reader)) }
}

/// 503: unread responses use all memory that they may.
pub(super) fn too_much_unread(bound: MemoryBound, reader: &Reader) -> Problem {
    let (code, detail) = match (bound, reader) {
        (MemoryBound::Client, Reader::Client(_)) => (
            ErrorCode::ResponsesUnread,
            "this client has not read so much of its responses that no other is made for it: read them, or close their connections, and retry",
        ),
        (MemoryBound::Client, Reader::Address(_)) => (
            ErrorCode::ResponsesUnread,
            "so much of the responses to this address is not read that no other is made for it: read them, or close their connections, and retry",
        ),
        (MemoryBound::Total, _) => (ErrorCode::Overloaded, "too many responses wait to be read, retry later"),
    };
    Problem::new(code, detail)
}

fn refused(refusal: Refusal, peer: &Peer, is_for_token: bool) -> Response {
    match refusal {
        Refusal::Full => {
            unavailable(ErrorCode::TooManyConnections, "too many connections are open, retry later", is_for_token)
        }
        Refusal::AddressFull => unavailable(
            ErrorCode::TooManyConnections,
            "too many connections are open from this address: use fewer, or keep them, and retry later",
            is_for_token,
        ),
        Refusal::NotAProxy => {
            let address = peer.address.to_canonical();
            let detail = format!(
                "plain HTTP is accepted from trusted proxies alone, and {address} is not one of them: use the server's HTTPS address; an administrator sets `trusted_proxies` in `[server]`"
            );
            ApiError::from(Problem::new(ErrorCode::UntrustedProxy, detail)).into_response()
        }
    }
}

/// 503 in the error format of the endpoint.
fn unavailable(code: ErrorCode, detail: &str, is_for_token: bool) -> Response {
    if is_for_token {
        return token_unavailable(detail);
    }
    ApiError::from(Problem::new(code, detail)).into_response()
}

/// The peer of a connection, as reported by its listener. A request without a connection has none.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// True if the connection to this server uses TLS.
    pub is_tls: bool,
    /// Reason why only health probes are served, if so.
    pub refusal: Option<Refusal>,
}

/// Reason why a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There are too many connections.
    Full,
    /// There are too many connections from its address.
    AddressFull,
    /// It came by plain HTTP, which is accepted from trusted proxies only.
    NotAProxy,
}

/// Side of the server that a request arrived on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entrance {
    /// The public listener: for proxies, browsers and all clients.
    Public,
    /// A listener of the administrator, or a nested request.
    Inside,
}

/// Address and protocol of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The address; an IPv4 address is never written as IPv6.
    pub address: IpAddr,
    /// True if it uses HTTPS to this server or to a trusted proxy.
    pub is_https: bool,
    /// True if the request came through a trusted proxy.
    pub is_by_proxy: bool,
}

impl Caller {
    /// Returns the caller of a request.
    pub(super) fn of(app: &AppState, request: &Request, entrance: Entrance) -> Option<Self> {
        let peer = request.extensions().get::<Peer>()?;
        let own = Self { address: peer.address.to_canonical(), is_https: peer.is_tls, is_by_proxy: false };
        let server = &app.config.server;
        let is_believed =
            entrance == Entrance::Public && server.trusted_proxies.iter().any(|network| network.contains(own.address));
        if !is_believed {
            return Some(own);
        }
        let header = server.forwarded_header;
        let address = header.caller(own.address, &server.trusted_proxies, lines(request.headers(), header.name()));
        let is_https = own.is_https || header.is_https(lines(request.headers(), header.protocol_name()));
        Some(Self { address, is_https, is_by_proxy: true })
    }
}

fn lines<'h>(headers: &'h HeaderMap, name: &'static str) -> impl DoubleEndedIterator<Item = &'h [u8]> {
    headers.get_all(name).iter().map(|value| value.as_bytes())
}

/// Methods allowed for pages.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// Request headers allowed for pages, in addition to those always allowed.
const HEADERS: HeaderValue =
    HeaderValue::from_static("Authorization, Content-Type, If-Match, If-None-Match, Idempotency-Key");
/// Response headers readable by pages, in addition to those always readable.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Location, Content-Location, Retry-After, WWW-Authenticate, X-Request-Id, X-API-Version, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Idempotency-Replayed, Accept-Patch",
);
/// Time that a browser may cache the preflight response, in seconds.
const MAX_AGE_S: HeaderValue = HeaderValue::from_static("600");

/// The origin of a request, if the configuration allows it.
pub(super) fn allowed_origin(app: &AppState, headers: &HeaderMap) -> Option<HeaderValue> {
    let named = &app.config.server.cors_origins;
    if named.is_empty() {
        return None;
    }
    let mut given = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (given.next(), given.next()) else { return None };
    named.iter().any(|named| named.as_str().as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

/// True if the request is a preflight request for a route.
pub(super) fn is_preflight(app: &AppState, request: &Request) -> bool {
    let headers = request.headers();
    request.method() == Method::OPTIONS
        && !app.config.server.cors_origins.is_empty()
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && request.extensions().get::<MatchedPath>().is_some()
}

/// The preflight response, for an allowed origin or another one. It needs no token, since browsers send none, and is
/// counted like other calls without a token.
pub(super) async fn respond_preflight(app: &AppState, info: &RequestInfo, origin: Option<HeaderValue>) -> Response {
    if let Err(refusal) = charge_address(app, info).await {
        return refusal.into_response();
    }
    if origin.is_none() {
        let detail = "pages of this origin may not call the register: an administrator names origins as `cors_origins` in `[server]`";
        return ApiError::from(Problem::new(ErrorCode::OriginNotAllowed, detail)).into_response();
    }
    let reported = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_S),
    ];
    (StatusCode::NO_CONTENT, reported).into_response()
}

/// Adds the headers by which a page may read the response.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_http_client_that_bypasses_the_proxies_is_denied_by_its_code() {
        let peer = Peer { address: [203, 0, 113, 9].into(), is_tls: false, refusal: Some(Refusal::NotAProxy) };
        let response = refused(Refusal::NotAProxy, &peer, false);
        let problem = response.extensions().get::<Problem>().unwrap();
        assert_eq!((problem.code, problem.status().as_u16()), (ErrorCode::UntrustedProxy, 403));
        assert!(problem.detail.contains("203.0.113.9"), "{}", problem.detail);
    }
}

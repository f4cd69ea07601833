//! Whether a request of the public listener is let in: from this connection, and while there is a place.
//!
//! **Invariant:** probes of health are answered whatever else is refused.

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::RequestInfo;
use super::caller::{Peer, Refusal};
use super::cors;
use crate::api::endpoint::{HEALTH_PATHS, TOKEN_PATH};
use crate::api::error::{ApiError, Problem};
use crate::api::extract::auth::token_unavailable;
use crate::state::AppState;
use daftar_auth::limits::response_memory::{MemoryBound, Reader};
use daftar_domain::error_code::ErrorCode;

/// Answers a request, if it is let in.
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
        return unavailable(
            ErrorCode::Overloaded,
            "too many requests are worked on at once, retry later",
            is_for_token,
        );
    };
    if cors::is_preflight(app, &request) {
        let origin = cors::allowed_origin(app, request.headers());
        return cors::answer_preflight(app, info, origin).await;
    }
    next.run(request).await
}

/// Whether so much waits already for that reader that nothing more is made for it.
///
/// # Errors
/// 503.
pub(in crate::api) fn check_unread(app: &AppState, reader: &Reader) -> Result<(), Problem> {
    if app.response_memory.admits(reader) { Ok(()) } else { Err(too_much_unread(MemoryBound::Client, reader)) }
}

/// 503: responses that were not read take all memory that they may.
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
                "plain HTTP is answered to the trusted proxies of this server alone, and {address} is none of them: ask by the server's HTTPS address; an administrator names proxies as `trusted_proxies` in `[server]`"
            );
            ApiError::from(Problem::new(ErrorCode::UntrustedProxy, detail)).into_response()
        }
    }
}

/// 503 in the form that the endpoint's errors have.
fn unavailable(code: ErrorCode, detail: &str, is_for_token: bool) -> Response {
    if is_for_token {
        return token_unavailable(detail);
    }
    ApiError::from(Problem::new(code, detail)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_by_plain_http_past_the_proxies_is_denied_by_its_code() {
        let peer = Peer { address: [203, 0, 113, 9].into(), is_tls: false, refusal: Some(Refusal::NotAProxy) };
        let response = refused(Refusal::NotAProxy, &peer, false);
        let problem = response.extensions().get::<Problem>().unwrap();
        assert_eq!((problem.code, problem.status().as_u16()), (ErrorCode::UntrustedProxy, 403));
        assert!(problem.detail.contains("203.0.113.9"), "{}", problem.detail);
    }
}

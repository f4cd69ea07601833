//! Who may administer: whoever holds the admin token.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::error::{ApiError, Problem};
use crate::api::middleware::answer::RequestInfo;
use crate::state::AppState;
use daftar_domain::audit::{Actor, AuditAction};
use daftar_domain::context::OpContext;
use daftar_domain::error_code::ErrorCode;

/// Where the metrics page is, on the admin listener and on its own.
pub const METRICS_PATH: &str = "/metrics";

/// Stops every request that does not carry the admin token, whatever it asks for.
pub async fn require_token(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
    let presented = match (values.next(), values.next()) {
        (Some(only), None) => only.to_str().ok().and_then(|value| value.split_once(' ')),
        (_, _) => None,
    };
    let is_right = presented.is_some_and(|(scheme, token)| {
        scheme.eq_ignore_ascii_case("bearer") && app.admin_token.matches(token.trim().as_bytes())
    });
    if is_right {
        // What an administrator is shown and changes is what another process left a moment ago.
        // The metrics page tells of a database that is away.
        if request.uri().path() != METRICS_PATH
            && let Err(error) = app.be_current_for_sure().await
        {
            return ApiError::from(error).into_response();
        }
        return next.run(request).await;
    }
    if let Some(info) = request.extensions().get::<RequestInfo>() {
        info.trail.set_caller(Actor::Unknown, AuditAction::Authenticate);
    }
    let code = if request.headers().contains_key(header::AUTHORIZATION) {
        ErrorCode::TokenInvalid
    } else {
        ErrorCode::TokenMissing
    };
    let detail = "the admin token is missing or wrong: send the content of `admin.token` of the data folder as `Authorization: Bearer <token>`";
    let problem = Problem::new(code, detail).with_header(header::WWW_AUTHENTICATE, "Bearer realm=\"daftar admin\"");
    ApiError::from(problem).into_response()
}

/// The context of an administrator's request.
#[derive(Debug)]
pub struct Administrator(pub OpContext);

impl FromRequestParts<AppState> for Administrator {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Self::Rejection> {
        let info = parts.extensions.get::<RequestInfo>();
        let trail = info.map(|info| info.trail.clone()).unwrap_or_default();
        trail.set_caller(Actor::Administrator, AuditAction::Administer);
        let request_id = info.map_or_else(|| app.ids.next_id().into(), |info| info.id.clone());
        Ok(Self(OpContext::unbound(Actor::Administrator, request_id, app.clock.now(), trail)))
    }
}

//! What the server says of itself: the OpenAPI document, the page that shows it, and its metadata.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

use crate::api::access::Public;
use crate::api::conditional::unless_kept;
use crate::api::dto::metadata;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::query::{Parameters, RawQuery};
use crate::api::openapi::page::CONTENT_SECURITY_POLICY;
use crate::api::openapi::served::Kept;
use crate::state::AppState;

/// The OpenAPI document.
pub async fn openapi(
    _: Public,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    let generation = app.registry.vocabularies.current();
    let description = app.description.of(app.routes.endpoints(), generation.extension_fields());
    Ok(unless_kept(&headers, &description.document, "application/json"))
}

/// The page that shows the document.
pub async fn docs(
    _: Public,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    let generation = app.registry.vocabularies.current();
    let description = app.description.of(app.routes.endpoints(), generation.extension_fields());
    let mut response = unless_kept(&headers, &description.page, "text/html; charset=utf-8");
    let policy = HeaderValue::from_str(&CONTENT_SECURITY_POLICY);
    let policy =
        policy.map_err(|_| Problem::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "the page has no policy"))?;
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    // For browsers that do not know `frame-ancestors`.
    response.headers_mut().insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    Ok(response)
}

/// What the server offers.
pub async fn metadata(
    _: Public,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    let body = metadata::write(&app);
    Ok(unless_kept(&headers, &Kept::new(serde_json::to_vec(&body).unwrap_or_default()), "application/json"))
}

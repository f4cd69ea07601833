//! What the server says of itself: the OpenAPI document, the page that shows it, the pages about error codes, and its metadata.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

use crate::api::access::{DocumentationCall, Public};
use crate::api::conditional::unless_kept;
use crate::api::dto::metadata;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::path::NamePath;
use crate::api::extract::query::{Parameters, RawQuery};
use crate::api::openapi::page::{CONTENT_SECURITY_POLICY, errors};
use crate::api::openapi::served::Kept;
use crate::state::AppState;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;

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
    page(&headers, &description.page)
}

/// The page that lists the error codes.
pub async fn error_list(
    _: DocumentationCall,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    page(&headers, &Kept::new(errors::list().into_bytes()))
}

/// The page about one error code.
pub async fn error_page(
    _: DocumentationCall,
    NamePath(name): NamePath,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    let unknown = || Problem::new(ErrorCode::NotFound, "there is no such error code; `/docs/errors` lists all");
    let code = ErrorCode::parse(&name).ok_or_else(unknown)?;
    page(&headers, &Kept::new(errors::page(code).into_bytes()))
}

/// Sends a page with the policy of what it may load.
fn page(headers: &HeaderMap, kept: &Kept) -> Result<Response, ApiError> {
    let mut response = unless_kept(headers, kept, "text/html; charset=utf-8");
    let policy = HeaderValue::from_str(&CONTENT_SECURITY_POLICY);
    let policy = policy.map_err(|_| AppError::internal("the policy of the pages cannot be a header"))?;
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

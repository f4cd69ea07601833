//! The workbench's page and its files, which anybody may have: what it shows it asks for with the admin token.

use axum::http::HeaderMap;
use axum::response::Response;

use crate::api::error::ApiError;
use crate::api::extract::path::NamePath;
use crate::api::extract::query::NoParameters;
use crate::api::routes::workbench::{serve_file, serve_page};

/// The page.
pub async fn page(_: NoParameters, headers: HeaderMap) -> Result<Response, ApiError> {
    serve_page(&headers)
}

/// A file that the page loads.
pub async fn file(NamePath(name): NamePath, _: NoParameters, headers: HeaderMap) -> Result<Response, ApiError> {
    serve_file(&headers, &name)
}

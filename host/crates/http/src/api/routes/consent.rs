//! `/Consent`

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::individual::etag;
use crate::api::access::{Auth, scope};
use crate::api::dto::record as body;
use crate::api::error::ApiError;
use crate::api::extract::accept::IfMatch;
use crate::api::extract::path::ConsentPath;
use crate::api::extract::query::{Parameters, RawQuery};
use crate::state::AppState;
use daftar_service::consent;

/// Reads one consent that is given to the client's organization.
pub async fn read(
    auth: Auth<scope::ConsentRead>,
    State(app): State<AppState>,
    ConsentPath(id): ConsentPath,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    let ctx = auth.into_context();
    let view = consent::read(&ctx, &app.registry, id).await?;
    Ok(([(header::ETAG, etag(&view.consent.meta))], Json(body::consent(&view))).into_response())
}

/// Withdraws one; the second time nothing is left to do, and the answer is the same.
pub async fn withdraw(
    auth: Auth<scope::ConsentDelete>,
    State(app): State<AppState>,
    ConsentPath(id): ConsentPath,
    (RawQuery(query), IfMatch(condition)): (RawQuery, IfMatch),
) -> Result<StatusCode, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    let ctx = auth.into_context();
    consent::withdraw(&ctx, &app.registry, id, &condition).await?;
    Ok(StatusCode::NO_CONTENT)
}

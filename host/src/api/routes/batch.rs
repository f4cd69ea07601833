//! `POST /$batch`

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::api::access::AnyClient;
use crate::api::batch::{self, BatchCaller, envelope};
use crate::api::error::ApiError;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::query::{Parameters, RawQuery};
use crate::app::AppState;

/// Does several requests, all or nothing or each by itself.
pub async fn submit(
    client: AnyClient,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> Result<Response, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    let envelope = envelope::read(members)?;
    client.charge_rest(&app, envelope.entries.len()).await?;
    let caller = BatchCaller::new(client.context, &headers);
    batch::run(&app, caller, envelope).await
}

//! `/backup`

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::admin::access::Administrator;
use crate::api::error::ApiError;
use crate::api::extract::query::{Parameters, RawQuery};
use crate::state::AppState;
use daftar_service::backup::Keys;

/// What a backup is sent as.
pub const CONTENT_TYPE: &str = "application/vnd.daftar.backup";

/// Sends a backup of the register as it stands; `keys=false` without the keys. A backup that cannot be finished is broken off:
/// without its last block it is none.
pub async fn make(
    Administrator(ctx): Administrator,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&["keys"])?;
    let keys = match parameters.boolean("keys")? {
        Some(false) => Keys::LeftOut,
        Some(true) | None => Keys::Included,
    };
    let blocks = app.backups.begin(&ctx, keys).await?;
    let blocks = stream::unfold(blocks, |mut blocks| async move {
        let block = blocks.recv().await?;
        Some((block.map(Bytes::from), blocks))
    });
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], Body::from_stream(blocks)).into_response())
}

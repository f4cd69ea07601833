//! `POST /$batch`

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::Value;

use crate::api::access::AnyClient;
use crate::api::batch::{self, BatchCaller, envelope};
use crate::api::error::ApiError;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::query::{Parameters, RawQuery};
use crate::api::once::{digest, key_of};
use crate::state::AppState;
use daftar_service::once::NamedRequest;

/// Does several requests, all or nothing or each by itself.
pub async fn submit(
    client: AnyClient,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> Result<Response, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    let key = key_of(&headers)?;
    let digest = key.as_ref().map(|_| digest(&[b"$batch", Value::Object(members.clone()).to_string().as_bytes()]));
    let envelope = envelope::read(members)?;
    client.charge_rest(&app, envelope.entries.len()).await?;
    let parts = envelope.parts_remembered();
    let once = match key.zip(digest) {
        Some((key, digest)) => {
            let named = NamedRequest { key, digest, parts };
            Some(app.requests.begin(&client.context, &*app.registry.store, named).await?)
        }
        None => None,
    };
    let caller = BatchCaller::new(client.context, &headers, app.public_url.clone());
    batch::run(&app, (&client.info, caller), envelope, once).await
}

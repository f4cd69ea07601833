//! `/signing-keys`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Map, Value};

use crate::admin::access::Administrator;
use crate::admin::resource::{Routes, list};
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::api::error::ApiError;
use crate::api::extract::body::JsonObject;
use crate::api::extract::query::NoParameters;
use crate::state::AppState;
use daftar_api_types::admin::ListBody;
use daftar_api_types::admin::client::SigningKeyBody;
use daftar_domain::calendar::format_instant;
use daftar_service::signing_key::{KeyUse, SigningKey};

/// The uses of keys as bodies name them.
const USES: &[(&str, KeyUse)] = &[("tokens", KeyUse::Tokens), ("decisions", KeyUse::Decisions)];

/// The path of the keys whose tokens and decisions are accepted, by use, the one that signs first.
pub fn routes() -> Routes {
    let keys = list(|app: AppState| async move { Ok(bodies(&app, &app.signing_keys.list())) });
    vec![("/signing-keys", keys.merge(post(rotate)))]
}

/// Lets a new key sign. One of tokens that is replaced is accepted for `overlap_s` seconds more, as long as its tokens are valid where that is
/// absent; one of decisions stays accepted.
async fn rotate(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    JsonObject(members): JsonObject,
) -> Result<(StatusCode, Json<ListBody<SigningKeyBody>>), ApiError> {
    let mut problems = Problems::default();
    let rotation = read_rotation(members, &mut problems);
    let (usage, overlap_s) = problems.finish(rotation)?;
    let keys = app.signing_keys.rotate(&ctx, usage, overlap_s).await?;
    Ok((StatusCode::CREATED, Json(ListBody { data: bodies(&app, &keys) })))
}

/// Reads `{use?, overlap_s?}`.
fn read_rotation(members: Map<String, Value>, problems: &mut Problems) -> (KeyUse, Option<u32>) {
    let mut reader = ObjectReader::root(members);
    let usage = reader.word("use", USES, problems).unwrap_or_default();
    let overlap_s = reader.count("overlap_s", problems);
    reader.finish(problems);
    (usage, overlap_s)
}

fn bodies(app: &AppState, keys: &[SigningKey]) -> Vec<SigningKeyBody> {
    let now = app.clock.now();
    let body = |key: &SigningKey| SigningKeyBody {
        kid: key.id.clone(),
        r#use: key.usage.name().to_owned(),
        status: if key.is_current { "signs".to_owned() } else { "accepted".to_owned() },
        created_at: format_instant(key.created_at),
        age_days: now.duration_since(key.created_at).as_hours().max(0) / 24,
        accepted_until: key.accepted_until.map(format_instant),
    };
    keys.iter().map(body).collect()
}

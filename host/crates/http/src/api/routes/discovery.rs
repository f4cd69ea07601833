//! What a client can find out before it has a token.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use daftar_api_types::public::server::{AuthorizationServer, GrantType};

use crate::api::access::Public;
use crate::api::endpoint::{BASE_PATH, scopes_on_offer};
use crate::state::AppState;

/// Where and how tokens are had.
pub async fn authorization_server(_: Public, State(app): State<AppState>) -> Json<AuthorizationServer<'static>> {
    Json(AuthorizationServer {
        issuer: Cow::Owned(app.public_url.clone()),
        token_endpoint: Cow::Owned(format!("{}{BASE_PATH}/oauth/token", app.public_url)),
        token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"].map(Cow::Borrowed).into(),
        grant_types_supported: vec![GrantType::ClientCredentials],
        response_types_supported: Vec::new(),
        scopes_supported: scopes_on_offer(app.routes.endpoints()).iter().map(ToString::to_string).collect(),
    })
}

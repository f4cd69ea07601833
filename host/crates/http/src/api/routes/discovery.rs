//! What a client can find out before it has a token.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::api::access::Public;
use crate::api::endpoint::{BASE_PATH, scopes_on_offer};
use crate::state::AppState;

/// The authorization server's metadata (RFC 8414).
#[derive(Debug, Serialize)]
pub struct AuthorizationServer {
    issuer: String,
    token_endpoint: String,
    token_endpoint_auth_methods_supported: [&'static str; 2],
    grant_types_supported: [&'static str; 1],
    response_types_supported: [&'static str; 0],
    scopes_supported: Vec<String>,
}

/// Where and how tokens are had.
pub async fn authorization_server(_: Public, State(app): State<AppState>) -> Json<AuthorizationServer> {
    Json(AuthorizationServer {
        issuer: app.public_url.clone(),
        token_endpoint: format!("{}{BASE_PATH}/oauth/token", app.public_url),
        token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
        grant_types_supported: ["client_credentials"],
        response_types_supported: [],
        scopes_supported: scopes_on_offer(app.routes.endpoints()).iter().map(ToString::to_string).collect(),
    })
}

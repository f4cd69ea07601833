//! Getting tokens.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::client::Credentials;
use super::http::Connection;

/// The token endpoint.
pub const PATH: &str = "/api/v2/oauth/token";
/// The media type of a form.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// A token with all that the client was granted.
#[must_use]
pub fn fetch(connection: &Connection, credentials: &Credentials) -> String {
    fetch_scoped(connection, credentials, "")
}

/// A token with those scopes, separated by spaces.
#[must_use]
pub fn fetch_scoped(connection: &Connection, credentials: &Credentials, scope: &str) -> String {
    let request = connection.request("POST", PATH).header("Authorization", basic(&credentials.id, &credentials.secret));
    let response = request.body(FORM, format!("grant_type=client_credentials&scope={scope}")).send().expect(200).json();
    response["access_token"].as_str().expect("a token").to_owned()
}

/// The header of HTTP Basic, for texts that need no form encoding.
#[must_use]
pub fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
}

//! Who may call, as the document says it.

use utoipa::openapi::security::{
    ClientCredentials, Flow, HttpAuthScheme, HttpBuilder, OAuth2, Scopes, SecurityRequirement, SecurityScheme,
};

use crate::api::access::Access;
use crate::api::endpoint::{BASE_PATH, Endpoint, scopes_on_offer};
use daftar_domain::scope::{Action, Scope};

/// The name of the scheme of access tokens.
const TOKENS: &str = "client_credentials";
/// The name of the scheme of client id and secret, at the token endpoint.
const SECRET: &str = "client_secret_basic";

/// The ways to prove who calls.
pub fn schemes(public_url: &str, endpoints: &[Endpoint]) -> [(String, SecurityScheme); 2] {
    let scopes: Scopes =
        scopes_on_offer(endpoints).into_iter().map(|scope| (scope.to_string(), describe(scope))).collect();
    let flow = ClientCredentials::new(format!("{public_url}{BASE_PATH}/oauth/token"), scopes);
    let description = "An access token for client credentials, sent as `Authorization: Bearer <token>`.";
    let tokens = OAuth2::with_description([Flow::ClientCredentials(flow)], description);
    let secret = HttpBuilder::new().scheme(HttpAuthScheme::Basic).description(Some(
        "Client id and secret, each form-urlencoded (RFC 6749, section 2.3.1). They may stand in the body instead.",
    ));
    [(TOKENS.to_owned(), SecurityScheme::OAuth2(tokens)), (SECRET.to_owned(), SecurityScheme::Http(secret.build()))]
}

/// What a scope allows.
#[must_use]
pub fn describe(scope: Scope) -> String {
    let resource = scope.resource.name();
    match scope.action {
        Action::All => format!("every action on {resource}"),
        Action::Read | Action::Search | Action::Create | Action::Update | Action::Delete => {
            format!("{} {resource}", scope.action.name())
        }
    }
}

/// What a caller must have: one of these.
#[must_use]
pub fn of(access: Access) -> Vec<SecurityRequirement> {
    match access {
        Access::Scopes(accepted) => {
            accepted.iter().map(|scope| SecurityRequirement::new(TOKENS, [scope.to_string()])).collect()
        }
        Access::AnyClient => vec![SecurityRequirement::new(TOKENS, [""; 0])],
        Access::Token => vec![SecurityRequirement::new(SECRET, [""; 0]), SecurityRequirement::default()],
        Access::Public | Access::Health => Vec::new(),
    }
}

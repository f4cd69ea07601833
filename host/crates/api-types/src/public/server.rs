//! Tokens, and the description of a server.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request for a token. Other members are ignored.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct TokenRequest<'a> {
    /// The grant of OAuth.
    pub grant_type: GrantType,
    /// The client, where it is not given by HTTP Basic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<Cow<'a, str>>,
    /// Its secret, where it is not given by HTTP Basic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Cow<'a, str>>,
    /// Scopes separated by spaces, of those granted; all of them by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Cow<'a, str>>,
}

/// A grant of OAuth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// Client id and secret (RFC 6749, section 4.4).
    ClientCredentials,
}

/// An access token (RFC 6749, section 5.1).
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Token<'a> {
    /// The token.
    pub access_token: Cow<'a, str>,
    /// Its transport.
    pub token_type: TokenType,
    /// Its lifetime in seconds.
    #[schema(minimum = 1)]
    pub expires_in: u64,
    /// The scopes granted, separated by spaces.
    pub scope: Cow<'a, str>,
}

impl std::fmt::Debug for Token<'_> {
    /// Without the token.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Token")
            .field("expires_in", &self.expires_in)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// Transport of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum TokenType {
    /// As `Authorization: Bearer <token>`.
    Bearer,
}

/// The reason why no token was issued (RFC 6749, section 5.2).
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct TokenError<'a> {
    /// The name of the error.
    pub error: TokenErrorCode,
    /// One sentence for a person.
    pub error_description: Cow<'a, str>,
    /// The same, and what is supported, where the request was not understood.
    pub detail: Cow<'a, str>,
}

/// The name of an error of OAuth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenErrorCode {
    /// The request cannot be understood.
    InvalidRequest,
    /// The client cannot be authenticated.
    InvalidClient,
    /// Another grant than client credentials.
    UnsupportedGrantType,
    /// A scope that does not exist or that is not granted to the client.
    InvalidScope,
    /// Too many requests, or the server cannot answer now.
    TemporarilyUnavailable,
    /// A defect of the server.
    ServerError,
}

/// The authorization server's metadata (RFC 8414).
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AuthorizationServer<'a> {
    /// The name of the server in tokens.
    #[schema(format = "uri")]
    pub issuer: Cow<'a, str>,
    /// The URL that issues tokens.
    #[schema(format = "uri")]
    pub token_endpoint: Cow<'a, str>,
    /// The ways in which a client gives its secret.
    pub token_endpoint_auth_methods_supported: Vec<Cow<'a, str>>,
    /// The grants.
    pub grant_types_supported: Vec<GrantType>,
    /// None: no user signs in.
    pub response_types_supported: Vec<Cow<'a, str>>,
    /// The scopes.
    pub scopes_supported: Vec<String>,
}

/// The description of a server.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Metadata<'a> {
    /// The name of the product.
    pub server: ServerName,
    /// The server's version.
    pub version: Cow<'a, str>,
    /// The version of the API.
    pub api_version: Cow<'a, str>,
    /// The URL that every path below begins with.
    #[schema(format = "uri")]
    pub base_url: Cow<'a, str>,
    /// The OpenAPI document.
    #[schema(format = "uri")]
    pub openapi: Cow<'a, str>,
    /// The page that shows it.
    #[schema(format = "uri")]
    pub docs: Cow<'a, str>,
    /// The token endpoint.
    pub token: MetadataToken<'a>,
    /// Kinds of records and lists, with their operations.
    pub resources: Vec<MetadataResource<'a>>,
    /// The operations that belong to no resource.
    pub operations: Vec<MetadataOperation<'a>>,
    /// The plugins that are installed.
    pub modules: Vec<MetadataModule<'a>>,
    /// The limits of requests.
    pub limits: MetadataLimits,
}

/// The name of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerName {
    /// This one.
    Daftar,
}

/// The token endpoint.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MetadataToken<'a> {
    /// The URL that issues tokens.
    #[schema(format = "uri")]
    pub endpoint: Cow<'a, str>,
    /// The grants.
    pub grant_types: Vec<GrantType>,
    /// The lifetime of a token in seconds.
    #[schema(minimum = 1)]
    pub lifetime_s: u64,
    /// The authorization server's metadata.
    #[schema(format = "uri")]
    pub metadata: Cow<'a, str>,
    /// The scopes.
    pub scopes: Vec<String>,
}

/// A kind of record, or of code list.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct MetadataResource<'a> {
    /// Its name.
    #[serde(rename = "type")]
    pub kind: Cow<'a, str>,
    /// The spellings of its path.
    pub paths: Vec<String>,
    /// Its operations.
    pub operations: Vec<MetadataOperation<'a>>,
    /// The parameters of its search.
    pub search_parameters: Vec<MetadataParameter<'a>>,
}

/// An operation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MetadataOperation<'a> {
    /// Its name in the OpenAPI document.
    pub id: Cow<'a, str>,
    /// The method.
    pub method: Cow<'a, str>,
    /// The path.
    pub path: Cow<'a, str>,
    /// The other spellings of the path, which behave alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_at: Vec<String>,
    /// One line for a person.
    pub summary: Cow<'a, str>,
    /// The scopes of which a client needs one; none where no scope is needed.
    pub scopes: Vec<String>,
}

/// A parameter of a search.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MetadataParameter<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its meaning.
    pub description: Cow<'a, str>,
    /// True if it may be given several times.
    pub repeatable: bool,
}

/// A plugin that is installed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MetadataModule<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its version.
    pub version: Cow<'a, str>,
    /// Its kind.
    pub kind: Cow<'a, str>,
    /// The namespaces that it provides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vocabularies: Vec<String>,
    /// The fields that it adds below `extension`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extension_fields: Vec<String>,
}

/// The limits of requests.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MetadataLimits {
    /// The most items of a page.
    #[schema(minimum = 1)]
    pub page_items: u32,
    /// The biggest body of most requests.
    #[schema(minimum = 1)]
    pub body_bytes: usize,
    /// The biggest body of a request that writes an individual.
    #[schema(minimum = 1)]
    pub record_bytes: usize,
    /// The most codes of a batch.
    #[schema(minimum = 1)]
    pub codes_of_a_batch: usize,
    /// The most subjects of an evaluation.
    #[schema(minimum = 1)]
    pub subjects_of_a_rule: usize,
    /// The longest expression.
    #[schema(minimum = 1)]
    pub expression_bytes: usize,
    /// Requests for tokens from one address.
    pub token_calls: RateLimit,
    /// Requests without a token from one address.
    pub public_calls: RateLimit,
    /// Requests of one client, where the administrator sets no other limit.
    pub client_calls: RateLimit,
}

/// A rate limit.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub struct RateLimit {
    /// The most requests in a minute.
    #[schema(minimum = 1)]
    pub per_minute: u32,
    /// The most requests in a day.
    #[schema(minimum = 1)]
    pub per_day: u32,
}

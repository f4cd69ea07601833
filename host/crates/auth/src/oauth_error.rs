//! Errors of token requests, as defined by OAuth (RFC 6749 §5.2).
//!
//! **Invariant:** an unknown id, a wrong secret and a disabled client give the same value.

use std::borrow::Cow;

/// The suffix of every error about an unsupported or unparsable request.
const ONLY_CLIENT_CREDENTIALS: &str = "only grant_type=client_credentials is supported";

daftar_domain::named_enum! {
    /// The error codes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum OAuthErrorCode {
        /// The request cannot be parsed.
        InvalidRequest = "invalid_request",
        /// The client cannot be authenticated.
        InvalidClient = "invalid_client",
        /// Another grant than client credentials.
        UnsupportedGrantType = "unsupported_grant_type",
        /// A scope that does not exist or that was not granted to the client.
        InvalidScope = "invalid_scope",
        /// Too many requests, or the server is unavailable.
        TemporarilyUnavailable = "temporarily_unavailable",
        /// An internal error.
        ServerError = "server_error",
    }
}

/// An error response to a token request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthError {
    /// The error code.
    pub code: OAuthErrorCode,
    description: String,
}

impl OAuthError {
    /// Creates an error with a description.
    #[must_use]
    pub fn new(code: OAuthErrorCode, description: &str) -> Self {
        Self { code, description: description.chars().map(printable).collect() }
    }

    /// Creates the error for a request that cannot be parsed.
    #[must_use]
    pub fn invalid_request(description: &str) -> Self {
        Self::new(OAuthErrorCode::InvalidRequest, description)
    }

    /// Creates the single error for an unknown id, a wrong secret and a disabled client.
    #[must_use]
    pub fn invalid_client() -> Self {
        Self::new(OAuthErrorCode::InvalidClient, "client authentication failed")
    }

    /// Returns the description.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the description, plus the supported grant if the request could not be parsed.
    #[must_use]
    pub fn detail(&self) -> Cow<'_, str> {
        match self.code {
            OAuthErrorCode::InvalidRequest | OAuthErrorCode::UnsupportedGrantType => {
                Cow::Owned(format!("{}; {ONLY_CLIENT_CREDENTIALS}", self.description))
            }
            OAuthErrorCode::InvalidClient
            | OAuthErrorCode::InvalidScope
            | OAuthErrorCode::TemporarilyUnavailable
            | OAuthErrorCode::ServerError => Cow::Borrowed(&self.description),
        }
    }
}

/// RFC 6749 allows printable ASCII without quotation mark and backslash.
fn printable(character: char) -> char {
    match character {
        '"' => '\'',
        '\\' => '/',
        ' '..='~' => character,
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detail_contains_the_supported_grant() {
        let error = OAuthError::invalid_request("the body is not JSON");
        assert_eq!((error.code.name(), error.description()), ("invalid_request", "the body is not JSON"));
        assert_eq!(error.detail(), "the body is not JSON; only grant_type=client_credentials is supported");
        let error = OAuthError::invalid_client();
        assert_eq!((error.code.name(), error.detail().as_ref()), ("invalid_client", "client authentication failed"));
    }

    #[test]
    fn a_description_contains_only_allowed_characters() {
        let error = OAuthError::invalid_request("a \"quoted\" \\ é\r\n`x`");
        assert_eq!(error.description(), "a 'quoted' / ???`x`");
    }
}

//! Why a token request is refused, in the words of OAuth (RFC 6749 §5.2).
//!
//! **Invariant:** an unknown id, a wrong secret and a disabled client give one and the same value.

use std::borrow::Cow;

/// What every refusal of an unsupported or unreadable request adds.
const ONLY_CLIENT_CREDENTIALS: &str = "only grant_type=client_credentials is supported";

daftar_domain::named_enum! {
    /// The name of an error.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum OAuthErrorCode {
        /// The request cannot be understood.
        InvalidRequest = "invalid_request",
        /// The client cannot be authenticated.
        InvalidClient = "invalid_client",
        /// Another grant than client credentials.
        UnsupportedGrantType = "unsupported_grant_type",
        /// A scope that does not exist or that the client does not hold.
        InvalidScope = "invalid_scope",
        /// Too many requests, or the server cannot answer now.
        TemporarilyUnavailable = "temporarily_unavailable",
        /// A defect of ours.
        ServerError = "server_error",
    }
}

/// Why a token request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthError {
    /// The name of the error.
    pub code: OAuthErrorCode,
    description: String,
}

impl OAuthError {
    /// An error with a description of what is wrong.
    #[must_use]
    pub fn new(code: OAuthErrorCode, description: &str) -> Self {
        Self { code, description: description.chars().map(printable).collect() }
    }

    /// The request cannot be understood.
    #[must_use]
    pub fn invalid_request(description: &str) -> Self {
        Self::new(OAuthErrorCode::InvalidRequest, description)
    }

    /// The one answer for an unknown id, a wrong secret and a disabled client.
    #[must_use]
    pub fn invalid_client() -> Self {
        Self::new(OAuthErrorCode::InvalidClient, "client authentication failed")
    }

    /// What is wrong.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The description, and what is supported, where the request was not understood.
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
    fn says_what_is_supported_where_the_request_was_not_understood() {
        let error = OAuthError::invalid_request("the body is not JSON");
        assert_eq!((error.code.name(), error.description()), ("invalid_request", "the body is not JSON"));
        assert_eq!(error.detail(), "the body is not JSON; only grant_type=client_credentials is supported");
        let error = OAuthError::invalid_client();
        assert_eq!((error.code.name(), error.detail().as_ref()), ("invalid_client", "client authentication failed"));
    }

    #[test]
    fn a_description_holds_only_what_the_standard_allows() {
        let error = OAuthError::invalid_request("a \"quoted\" \\ é\r\n`x`");
        assert_eq!(error.description(), "a 'quoted' / ???`x`");
    }
}

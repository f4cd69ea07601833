//! Credentials in HTTP Basic: id and secret are form-encoded, joined by a colon and base64 (RFC 6749 §2.3.1).

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;

use super::fields;
use crate::oauth_error::{OAuthError, OAuthErrorCode};

/// Base64 with or without padding: clients send both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads the value of an `Authorization` header.
pub(super) fn read(value: &[u8]) -> Result<(String, SecretString), OAuthError> {
    let value = value.trim_ascii();
    let scheme_end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, encoded) = value.split_at(scheme_end);
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return Err(OAuthError::new(
            OAuthErrorCode::InvalidClient,
            "a client authenticates with HTTP Basic or in the body, with no other scheme",
        ));
    }
    let decoded = BASE64
        .decode(encoded.trim_ascii())
        .map(Zeroizing::new)
        .map_err(|_| OAuthError::invalid_request("the HTTP Basic credentials are not base64"))?;
    let text = std::str::from_utf8(&decoded)
        .map_err(|_| OAuthError::invalid_request("the HTTP Basic credentials are not UTF-8"))?;
    let (id, secret) = text
        .split_once(':')
        .ok_or_else(|| OAuthError::invalid_request("the HTTP Basic credentials have no colon after the client_id"))?;
    let part = |name: &str, text: &str| match fields::form_decode(text) {
        Some(decoded) if !decoded.is_empty() => Ok(decoded),
        Some(_) => Err(OAuthError::invalid_request(&format!("the {name} in the HTTP Basic credentials is empty"))),
        None => Err(OAuthError::invalid_request(&format!(
            "the {name} in the HTTP Basic credentials is not form-encoded: write % as %25"
        ))),
    };
    Ok((part("client_id", id)?, SecretString::from(part("client_secret", secret)?)))
}

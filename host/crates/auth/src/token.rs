//! Access tokens: signing and verification.
//!
//! **Invariant:** HS256 only; the key is one of the server's, found by `kid`; nothing else of a token's header is used,
//! and no claim is read before the signature is verified.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, Header};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::keys::TokenKeys;
use daftar_domain::client::ClientId;
use daftar_domain::config::TokenConfig;
use daftar_domain::scope::{Scope, ScopeSet};

/// The longest token that is parsed. One with all existing scopes has half of it.
pub const TOKEN_BYTES_MAX: usize = 4096;
/// The longest header part: generated ones have about 90 characters.
const HEADER_BYTES_MAX: usize = 512;
/// The token type (RFC 9068).
const TOKEN_TYPE: &str = "at+jwt";
const MICROSECONDS: i64 = 1_000_000;

/// A new token.
#[derive(Debug)]
pub struct IssuedToken {
    /// The token, to be sent once.
    pub text: SecretString,
    /// The token id, for the audit log.
    pub id: String,
    /// The lifetime in seconds.
    pub expires_in_s: u64,
}

/// The claims of a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The token id (`jti`).
    pub id: String,
    /// The client of the token.
    pub client_id: ClientId,
    /// The scopes that it was issued for.
    pub scopes: ScopeSet,
    /// The time of issue, with microseconds.
    pub issued_at: Timestamp,
    /// The time from which it is expired.
    pub expires_at: Timestamp,
    /// The id of the key that signed it.
    pub key_id: Arc<str>,
}

/// The reason why a token is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFault {
    /// The token was not issued by this registry or has another audience.
    Malformed(TokenDefect),
    /// The token is past its `exp`.
    Expired,
}

/// The defects of a token: for the log and the tests, never for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenDefect {
    /// Longer than [`TOKEN_BYTES_MAX`].
    TooLong,
    /// Not three parts of base64.
    Shape,
    /// The header differs from the JSON that this module writes: unknown members such as `jwk`, `jku` or `crit`
    /// included.
    Header,
    /// Any algorithm but HS256.
    Algorithm,
    /// Not an access token.
    Type,
    /// Signed by an unknown key.
    UnknownKey,
    /// The signature is invalid.
    Signature,
    /// A claim is missing, duplicate or of another type.
    Claims,
    /// Another issuer.
    Issuer,
    /// Another audience.
    Audience,
    /// Issued in the future.
    IssuedInFuture,
    /// Not valid yet (`nbf`, RFC 7519 §4.1.5).
    NotYetValid,
    /// `sub` and `client_id` differ or are no client id.
    Subject,
    /// A scope that does not exist.
    Scopes,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    client_id: String,
    aud: String,
    exp: i64,
    iat: i64,
    /// `iat` in microseconds. Without it a token issued in the second in which its client was disabled and enabled
    /// again could not be distinguished from one issued before.
    #[serde(skip_serializing_if = "Option::is_none")]
    iat_us: Option<i64>,
    /// Never written: a token is valid from its issue. If present, it is enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    nbf: Option<i64>,
    jti: String,
    scopes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadHeader {
    alg: String,
    typ: Option<String>,
    kid: Option<String>,
}

/// Signs a token for a client with the current key, which is retained for at least the lifetime of the token.
///
/// # Errors
/// If the signing library fails: a defect that a client cannot cause.
pub fn issue(
    keys: &TokenKeys,
    config: &TokenConfig,
    client_id: &ClientId,
    scopes: &ScopeSet,
    id: String,
    now: Timestamp,
) -> Result<IssuedToken, jsonwebtoken::errors::Error> {
    let key = keys.current();
    let expires_in_s = config.lifetime_s.min(key.lifetime_s());
    let mut header = Header::new(Algorithm::HS256);
    header.typ = Some(TOKEN_TYPE.to_owned());
    header.kid = Some(key.id().to_owned());
    let issued_us = now.as_microsecond();
    let iat = issued_us.div_euclid(MICROSECONDS);
    let claims = Claims {
        iss: config.issuer.clone(),
        sub: client_id.to_string(),
        client_id: client_id.to_string(),
        aud: config.audience.clone(),
        exp: iat.saturating_add(i64::try_from(expires_in_s).unwrap_or(i64::MAX)),
        iat,
        iat_us: Some(issued_us),
        nbf: None,
        jti: id.clone(),
        scopes: scopes.iter().map(|scope| scope.to_string()).collect(),
    };
    let text = jsonwebtoken::encode(&header, &claims, &key.material.encoding)?;
    Ok(IssuedToken { text: SecretString::from(text), id, expires_in_s })
}

/// Verifies a token: size, signature, then `iss`, `aud`, `exp` (no leeway), `iat` and `nbf` (nothing in the future).
///
/// # Errors
/// The first defect, in that order.
pub fn verify(text: &str, keys: &TokenKeys, config: &TokenConfig, now: Timestamp) -> Result<VerifiedToken, TokenFault> {
    let (claims, key_id) = read_signed(text, keys, now).map_err(TokenFault::Malformed)?;
    if claims.iss != config.issuer {
        return Err(TokenFault::Malformed(TokenDefect::Issuer));
    }
    if claims.aud != config.audience {
        return Err(TokenFault::Malformed(TokenDefect::Audience));
    }
    if now.as_microsecond() >= claims.exp.saturating_mul(MICROSECONDS) {
        return Err(TokenFault::Expired);
    }
    understand(claims, key_id, now).map_err(TokenFault::Malformed)
}

/// Returns the claims of a token after verifying its signature, and the id of the key.
fn read_signed(text: &str, keys: &TokenKeys, now: Timestamp) -> Result<(Claims, Arc<str>), TokenDefect> {
    if text.len() > TOKEN_BYTES_MAX {
        return Err(TokenDefect::TooLong);
    }
    let (message, signature) = text.rsplit_once('.').ok_or(TokenDefect::Shape)?;
    let (header, payload) = message.split_once('.').ok_or(TokenDefect::Shape)?;
    if payload.contains('.') || header.len() > HEADER_BYTES_MAX {
        return Err(TokenDefect::Shape);
    }
    let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| TokenDefect::Shape)?;
    let header: ReadHeader = serde_json::from_slice(&header).map_err(|_| TokenDefect::Header)?;
    if header.alg != "HS256" {
        return Err(TokenDefect::Algorithm);
    }
    if header.typ.as_deref() != Some(TOKEN_TYPE) {
        return Err(TokenDefect::Type);
    }
    let key = header.kid.as_deref().and_then(|id| keys.find(id, now)).ok_or(TokenDefect::UnknownKey)?;
    match jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key.material.decoding, Algorithm::HS256) {
        Ok(true) => {}
        Ok(false) | Err(_) => return Err(TokenDefect::Signature),
    }
    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| TokenDefect::Claims)?;
    let claims = serde_json::from_slice(&payload).map_err(|_| TokenDefect::Claims)?;
    Ok((claims, Arc::clone(&key.id)))
}

/// Converts the claims to a verified token.
fn understand(claims: Claims, key_id: Arc<str>, now: Timestamp) -> Result<VerifiedToken, TokenDefect> {
    let issued_us = claims.iat_us.unwrap_or_else(|| claims.iat.saturating_mul(MICROSECONDS));
    if issued_us.div_euclid(MICROSECONDS) != claims.iat {
        return Err(TokenDefect::Claims);
    }
    if issued_us > now.as_microsecond() {
        return Err(TokenDefect::IssuedInFuture);
    }
    if claims.nbf.is_some_and(|nbf| nbf.saturating_mul(MICROSECONDS) > now.as_microsecond()) {
        return Err(TokenDefect::NotYetValid);
    }
    let issued_at = Timestamp::from_microsecond(issued_us).map_err(|_| TokenDefect::Claims)?;
    let expires_at = Timestamp::from_second(claims.exp).map_err(|_| TokenDefect::Claims)?;
    if claims.sub != claims.client_id {
        return Err(TokenDefect::Subject);
    }
    let client_id = ClientId::parse(&claims.sub).map_err(|_| TokenDefect::Subject)?;
    let scopes = claims.scopes.iter().map(|text| Scope::parse(text)).collect::<Result<ScopeSet, _>>();
    let scopes = scopes.map_err(|_| TokenDefect::Scopes)?;
    Ok(VerifiedToken { id: claims.jti, client_id, scopes, issued_at, expires_at, key_id })
}

#[cfg(test)]
mod tests;

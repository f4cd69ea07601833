//! What a token request says: HTTP Basic with a form, a form alone, or a JSON object.
//!
//! Whatever a request says twice, or in two ways at once, is refused: which of the two counts must never depend on who
//! reads it.
//!
//! **Invariant:** pure: nothing is looked up here, and no message repeats a secret.

mod basic;
mod fields;

use secrecy::SecretString;

use self::fields::Fields;
use super::oauth_error::{OAuthError, OAuthErrorCode};

/// The biggest body that is read; a full one has a few hundred bytes.
pub const TOKEN_REQUEST_BYTES_MAX: usize = 16 * 1024;
/// The only grant.
const CLIENT_CREDENTIALS: &str = "client_credentials";

/// A token request as it came in.
#[derive(Clone, Copy, Default)]
pub struct TokenRequestParts<'a> {
    /// What stands behind the `?` of the URL.
    pub query: Option<&'a str>,
    /// The values of all `Content-Type` headers.
    pub content_type: &'a [&'a [u8]],
    /// The values of all `Content-Encoding` headers.
    pub content_encoding: &'a [&'a [u8]],
    /// The values of all `Authorization` headers.
    pub authorization: &'a [&'a [u8]],
    /// The body.
    pub body: &'a [u8],
}

/// A token request that can be understood.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// Who asks; any text, perhaps no client id at all.
    pub client_id: String,
    /// The proof.
    pub client_secret: SecretString,
    /// For which scopes; all grants, where absent.
    pub scope: Option<String>,
}

/// How the body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyForm {
    Form,
    Json,
}

impl TokenRequest {
    /// Reads a token request.
    ///
    /// # Errors
    /// `invalid_request` when it cannot be understood, `unsupported_grant_type` for any other grant, `invalid_client`
    /// for an `Authorization` header of another scheme than `Basic`.
    pub fn parse(parts: &TokenRequestParts<'_>) -> Result<Self, OAuthError> {
        check_query(parts.query)?;
        let form = body_form(parts.content_type)?;
        check_encoding(parts.content_encoding)?;
        let text = body_text(parts.body)?;
        let fields = match form {
            BodyForm::Form => Fields::from_form(text)?,
            BodyForm::Json => Fields::from_json(text)?,
        };
        check_grant_type(&fields)?;
        let credentials = match parts.authorization {
            [] => from_body(&fields)?,
            [value] => {
                let credentials = basic::read(value)?;
                check_basic_alone(form, &fields)?;
                credentials
            }
            _ => return Err(OAuthError::invalid_request("there is more than one Authorization header")),
        };
        let (client_id, client_secret) = credentials;
        Ok(Self { client_id, client_secret, scope: fields.scope })
    }
}

/// What belongs into the body must not stand in the URL (RFC 6749 §2.3.1), where proxies and logs keep it. Other parameters are ignored,
/// like other fields.
fn check_query(query: Option<&str>) -> Result<(), OAuthError> {
    match fields::known_in_query(query.unwrap_or_default()) {
        Some(name) => Err(OAuthError::invalid_request(&format!(
            "the field {name} stands in the URL: send it in the body; URLs are kept in logs, so rotate a secret that was sent in one"
        ))),
        None => Ok(()),
    }
}

fn check_encoding(content_encoding: &[&[u8]]) -> Result<(), OAuthError> {
    if content_encoding.iter().all(|value| value.trim_ascii().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    Err(OAuthError::invalid_request("the body is taken as it is: send it without Content-Encoding"))
}

fn body_form(content_type: &[&[u8]]) -> Result<BodyForm, OAuthError> {
    const EXPECTED: &str = "the Content-Type must be application/x-www-form-urlencoded or application/json";
    let [value] = content_type else {
        return Err(OAuthError::invalid_request(match content_type {
            [] => "the Content-Type header is missing: send application/x-www-form-urlencoded or application/json",
            _ => "there is more than one Content-Type header",
        }));
    };
    let value = std::str::from_utf8(value).map_err(|_| OAuthError::invalid_request(EXPECTED))?;
    let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
    let essence = essence.trim();
    let form = if essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        BodyForm::Form
    } else if essence.eq_ignore_ascii_case("application/json") {
        BodyForm::Json
    } else {
        return Err(OAuthError::invalid_request(EXPECTED));
    };
    check_charset(parameters)?;
    Ok(form)
}

/// Parameters are accepted; a charset must be one whose bytes are UTF-8.
fn check_charset(parameters: &str) -> Result<(), OAuthError> {
    for parameter in parameters.split(';') {
        let Some((name, value)) = parameter.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        let is_utf8 = ["utf-8", "utf8", "us-ascii"].iter().any(|known| value.eq_ignore_ascii_case(known));
        if name.trim().eq_ignore_ascii_case("charset") && !is_utf8 {
            return Err(OAuthError::invalid_request("the charset of the body must be UTF-8"));
        }
    }
    Ok(())
}

fn body_text(body: &[u8]) -> Result<&str, OAuthError> {
    if body.len() > TOKEN_REQUEST_BYTES_MAX {
        return Err(OAuthError::invalid_request("the body is longer than 16 KiB"));
    }
    let text = std::str::from_utf8(body).map_err(|_| OAuthError::invalid_request("the body is not UTF-8"))?;
    if text.starts_with('\u{feff}') {
        return Err(OAuthError::invalid_request("the body begins with a byte order mark"));
    }
    Ok(text)
}

fn check_grant_type(fields: &Fields) -> Result<(), OAuthError> {
    match fields.grant_type.as_deref() {
        Some(CLIENT_CREDENTIALS) => Ok(()),
        Some(_) => Err(OAuthError::new(OAuthErrorCode::UnsupportedGrantType, "this grant_type is not supported")),
        None => Err(missing("grant_type")),
    }
}

fn from_body(fields: &Fields) -> Result<(String, SecretString), OAuthError> {
    let client_id = fields.client_id.clone().ok_or_else(|| missing("client_id"))?;
    let client_secret = fields.client_secret.clone().ok_or_else(|| missing("client_secret"))?;
    Ok((client_id, client_secret))
}

fn check_basic_alone(form: BodyForm, fields: &Fields) -> Result<(), OAuthError> {
    if form == BodyForm::Json {
        return Err(OAuthError::invalid_request(
            "HTTP Basic goes with a form body: send application/x-www-form-urlencoded, or the credentials in the JSON",
        ));
    }
    if fields.client_id.is_some() || fields.client_secret.is_some() {
        return Err(OAuthError::invalid_request(
            "the client authenticates in two ways at once: with HTTP Basic and with fields of the body",
        ));
    }
    Ok(())
}

fn missing(name: &str) -> OAuthError {
    OAuthError::invalid_request(&format!("the field {name} is missing"))
}

#[cfg(test)]
mod tests;

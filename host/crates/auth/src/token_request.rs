//! Parsing of token requests: HTTP Basic with a form, a form alone, or a JSON object.
//!
//! Duplicate fields, or credentials in two ways, are rejected: the result must never depend on which one a parser
//! prefers.
//!
//! **Invariant:** pure: no lookups, and no message repeats a secret.

use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, de};

use crate::oauth_error::{OAuthError, OAuthErrorCode};

/// The largest body that is read; a complete request has a few hundred bytes.
pub const TOKEN_REQUEST_BYTES_MAX: usize = 16 * 1024;
/// The only grant.
const CLIENT_CREDENTIALS: &str = "client_credentials";

/// A token request as received.
#[derive(Clone, Copy, Default)]
pub struct TokenRequestParts<'a> {
    /// The query string of the URL.
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

/// A parsed token request.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// The claimed client id: any text, perhaps not a valid id.
    pub client_id: String,
    /// The client secret.
    pub client_secret: SecretString,
    /// The requested scopes; `None` means all grants.
    pub scope: Option<String>,
}

/// The encoding of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyForm {
    Form,
    Json,
}

impl TokenRequest {
    /// Parses a token request.
    ///
    /// # Errors
    /// `invalid_request` if it cannot be parsed, `unsupported_grant_type` for any other grant, `invalid_client` for an
    /// `Authorization` header of another scheme than `Basic`.
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
                let credentials = basic_credentials(value)?;
                check_basic_alone(form, &fields)?;
                credentials
            }
            _ => return Err(OAuthError::invalid_request("there is more than one Authorization header")),
        };
        let (client_id, client_secret) = credentials;
        Ok(Self { client_id, client_secret, scope: fields.scope })
    }
}

/// Rejects body fields in the URL (RFC 6749 §2.3.1), where proxies and logs store them. Other parameters are ignored,
/// like other fields.
fn check_query(query: Option<&str>) -> Result<(), OAuthError> {
    match known_in_query(query.unwrap_or_default()) {
        Some(name) => Err(OAuthError::invalid_request(&format!(
            "the field {name} is in the URL: send it in the body; URLs are stored in logs, so rotate a secret that was sent in one"
        ))),
        None => Ok(()),
    }
}

fn check_encoding(content_encoding: &[&[u8]]) -> Result<(), OAuthError> {
    if content_encoding.iter().all(|value| value.trim_ascii().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    Err(OAuthError::invalid_request("encoded bodies are not supported: send the body without Content-Encoding"))
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

/// Checks parameters of the media type; a charset must be one whose bytes are UTF-8.
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
            "HTTP Basic requires a form body: send application/x-www-form-urlencoded, or the credentials in the JSON",
        ));
    }
    if fields.client_id.is_some() || fields.client_secret.is_some() {
        return Err(OAuthError::invalid_request(
            "the client authenticates in two ways: with HTTP Basic and with fields of the body",
        ));
    }
    Ok(())
}

fn missing(name: &str) -> OAuthError {
    OAuthError::invalid_request(&format!("the field {name} is missing"))
}

/// The known fields. One that was sent without a value is absent (RFC 6749 §3.2); others are ignored.
#[derive(Debug, Default)]
struct Fields {
    grant_type: Option<String>,
    client_id: Option<String>,
    client_secret: Option<SecretString>,
    scope: Option<String>,
    seen: [bool; Name::NAMES.len()],
}

daftar_domain::named_enum! {
    /// The names of the known fields.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Name {
        /// The grant.
        GrantType = "grant_type",
        /// The client.
        ClientId = "client_id",
        /// The client secret.
        ClientSecret = "client_secret",
        /// The scopes.
        Scope = "scope",
    }
}

impl Fields {
    /// Parses `name=value&…`.
    pub fn from_form(text: &str) -> Result<Self, OAuthError> {
        let mut fields = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text| form_decode(text).ok_or_else(|| OAuthError::invalid_request(NOT_FORM_ENCODED));
            if let Some(name) = Name::parse(&decode(name)?) {
                fields.set(name, decode(value)?).map_err(|problem| OAuthError::invalid_request(&problem))?;
            }
        }
        Ok(fields)
    }

    /// Parses a JSON object whose known fields are strings.
    pub fn from_json(text: &str) -> Result<Self, OAuthError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let mut problem = None;
        let read = reader.deserialize_map(FieldsVisitor { problem: &mut problem });
        match read.and_then(|fields| reader.end().map(|()| fields)) {
            Ok(fields) => Ok(fields),
            Err(error) => Err(OAuthError::invalid_request(&problem.unwrap_or_else(|| {
                format!("the body is not a JSON object (line {}, column {})", error.line(), error.column())
            }))),
        }
    }

    /// Sets a field; fails if it is already set.
    fn set(&mut self, name: Name, value: String) -> Result<(), String> {
        if let Some(seen) = self.seen.get_mut(name as usize)
            && std::mem::replace(seen, true)
        {
            return Err(format!("the field {} is given more than once", name.name()));
        }
        let value = Some(value).filter(|value| !value.is_empty());
        match name {
            Name::GrantType => self.grant_type = value,
            Name::ClientId => self.client_id = value,
            Name::ClientSecret => self.client_secret = value.map(SecretString::from),
            Name::Scope => self.scope = value,
        }
        Ok(())
    }
}

/// Returns the first known field among the parameters of a URL. A parameter that is not form-encoded is ignored.
fn known_in_query(query: &str) -> Option<&'static str> {
    let names = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    names.filter_map(|name| Name::parse(&form_decode(name)?)).map(Name::name).next()
}

const NOT_FORM_ENCODED: &str = "the body is not form-encoded: a % must begin a %xx, and the bytes must be UTF-8";

/// Decodes the form encoding: `+` is a space, `%xx` a byte. `None` if a `%` begins no `%xx` or the bytes are not UTF-8:
/// a lenient decoder would accept two spellings of a secret.
fn form_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => hexadecimal(*rest.next()?)? << 4 | hexadecimal(*rest.next()?)?,
            other => *other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hexadecimal(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Deserialises the fields by hand: a map type would silently keep the last of two equal names.
struct FieldsVisitor<'a> {
    /// A more precise error than the deserialiser's own.
    problem: &'a mut Option<String>,
}

impl<'de> Visitor<'de> for FieldsVisitor<'_> {
    type Value = Fields;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<String>()? {
            let Some(name) = Name::parse(&name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let set = match map.next_value::<serde_json::Value>()? {
                serde_json::Value::String(value) => fields.set(name, value),
                _ => Err(format!("the field {} must be a string", name.name())),
            };
            if let Err(problem) = set {
                *self.problem = Some(problem);
                return Err(de::Error::custom("refused"));
            }
        }
        Ok(fields)
    }
}

/// Base64 with or without padding: clients send both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Parses the value of an `Authorization` header.
fn basic_credentials(value: &[u8]) -> Result<(String, SecretString), OAuthError> {
    let value = value.trim_ascii();
    let scheme_end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, encoded) = value.split_at(scheme_end);
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return Err(OAuthError::new(
            OAuthErrorCode::InvalidClient,
            "authenticate with HTTP Basic or in the body; no other scheme is supported",
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
    let part = |name: &str, text: &str| match form_decode(text) {
        Some(decoded) if !decoded.is_empty() => Ok(decoded),
        Some(_) => Err(OAuthError::invalid_request(&format!("the {name} in the HTTP Basic credentials is empty"))),
        None => Err(OAuthError::invalid_request(&format!(
            "the {name} in the HTTP Basic credentials is not form-encoded: write % as %25"
        ))),
    };
    Ok((part("client_id", id)?, SecretString::from(part("client_secret", secret)?)))
}

#[cfg(test)]
mod tests;

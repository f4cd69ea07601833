//! The fields of a token request's body, each at most once.

use std::fmt;

use secrecy::SecretString;
use serde::Deserializer;
use serde::de::{self, IgnoredAny, MapAccess, Visitor};

use crate::oauth_error::OAuthError;

/// The fields that count. One that was sent without a value is absent (RFC 6749 §3.2); others are ignored.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// `grant_type`.
    pub grant_type: Option<String>,
    /// `client_id`.
    pub client_id: Option<String>,
    /// `client_secret`.
    pub client_secret: Option<SecretString>,
    /// `scope`.
    pub scope: Option<String>,
    seen: [bool; Name::ALL.len()],
}

/// The name of a field that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    GrantType,
    ClientId,
    ClientSecret,
    Scope,
}

impl Name {
    const ALL: [Self; 4] = [Self::GrantType, Self::ClientId, Self::ClientSecret, Self::Scope];

    fn text(self) -> &'static str {
        match self {
            Self::GrantType => "grant_type",
            Self::ClientId => "client_id",
            Self::ClientSecret => "client_secret",
            Self::Scope => "scope",
        }
    }

    fn find(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.text() == text)
    }
}

impl Fields {
    /// Reads `name=value&…`.
    pub fn from_form(text: &str) -> Result<Self, OAuthError> {
        let mut fields = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text| form_decode(text).ok_or_else(|| OAuthError::invalid_request(NOT_FORM_ENCODED));
            if let Some(name) = Name::find(&decode(name)?) {
                fields.set(name, decode(value)?).map_err(|problem| OAuthError::invalid_request(&problem))?;
            }
        }
        Ok(fields)
    }

    /// Reads a JSON object whose fields that count are strings.
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

    /// Notes a field; the error says that it is there twice.
    fn set(&mut self, name: Name, value: String) -> Result<(), String> {
        if let Some(seen) = self.seen.get_mut(name as usize)
            && std::mem::replace(seen, true)
        {
            return Err(format!("the field {} is there more than once", name.text()));
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

/// The first field that counts among the parameters of a URL. What is not form-encoded names none.
pub(super) fn known_in_query(query: &str) -> Option<&'static str> {
    let names = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    names.filter_map(|name| Name::find(&form_decode(name)?)).map(Name::text).next()
}

const NOT_FORM_ENCODED: &str = "the body is not form-encoded: a % must begin a %xx, and the bytes must be UTF-8";

/// Undoes the form encoding: `+` is a space, `%xx` a byte. `None` when a `%` begins no `%xx` or the bytes are not
/// UTF-8: guessing at a secret that was sent wrong would accept two spellings of it.
pub(super) fn form_decode(text: &str) -> Option<String> {
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

/// Reads a map by hand: a map type would keep the last of two equal names and say nothing.
struct FieldsVisitor<'a> {
    /// Says better than the reader's own error what is wrong.
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
            let Some(name) = Name::find(&name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let set = match map.next_value::<serde_json::Value>()? {
                serde_json::Value::String(value) => fields.set(name, value),
                _ => Err(format!("the field {} must be a string", name.text())),
            };
            if let Err(problem) = set {
                *self.problem = Some(problem);
                return Err(de::Error::custom("refused"));
            }
        }
        Ok(fields)
    }
}

//! Strict query parameters: unknown ones are rejected, never ignored.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::api::dto::reader::{nearest, shown};
use crate::api::error::{ApiError, Problem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::RecordKind;
use daftar_domain::search::{PAGE_COUNT_MAX, Page};
use daftar_domain::subject::Subject;

/// Maximum number of parameters in a request.
pub const PARAMETERS_MAX: usize = 500;
/// Maximum offset: beyond it a client should use a cursor.
pub const OFFSET_MAX: u64 = 100_000_000;

/// A query of a call without parameters.
#[derive(Debug)]
pub struct NoParameters;

impl<S: Send + Sync> FromRequestParts<S> for NoParameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Parameters::parse(parts.uri.query().unwrap_or_default())?.expect_only(&[])?;
        Ok(Self)
    }
}

/// The parameters of pages of the documentation, which their scripts read and the server does not.
#[derive(Debug, Clone, Copy)]
pub struct PageParameters;

impl<S: Send + Sync> FromRequestParts<S> for PageParameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Parameters::parse(parts.uri.query().unwrap_or_default())?.expect_only(&["highlight", "search"])?;
        Ok(Self)
    }
}

/// Named parameters, in their order.
#[derive(Debug)]
pub struct Parameters(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

impl Parameters {
    /// Reads `name=value&…`.
    ///
    /// # Errors
    /// 400 for text that is not percent-encoded UTF-8, and for more than 500 parameters.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let mut parameters = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if parameters.len() == PARAMETERS_MAX {
                return Err(Problem::malformed(format!("more than {PARAMETERS_MAX} query parameters")).into());
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.push((decode(name)?, decode(value)?));
        }
        Ok(Self(parameters))
    }

    /// Parameters from a body, at most [`PARAMETERS_MAX`].
    #[must_use]
    pub fn of_pairs(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// Rejects every unknown parameter.
    ///
    /// # Errors
    /// 400 naming the parameter and the closest known one, or all known ones.
    pub fn expect_only(&self, known: &[&str]) -> Result<(), ApiError> {
        for (name, _) in &self.0 {
            if !known.contains(&name.as_str()) {
                return Err(unknown_parameter(name, known).into());
            }
        }
        Ok(())
    }

    /// Every value of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(at, _)| at == name).map(|(_, value)| value.as_str())
    }

    /// The name of every parameter, once for each occurrence.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The value of a parameter that may appear once.
    ///
    /// # Errors
    /// 400 if it appears twice.
    pub fn one<'a>(&'a self, name: &'a str) -> Result<Option<&'a str>, ApiError> {
        let mut values = self.all(name);
        let first = values.next();
        if values.next().is_some() {
            return Err(Problem::malformed(format!("the parameter `{name}` appears more than once")).into());
        }
        Ok(first)
    }

    /// A text that is not empty, of a parameter that may appear once.
    ///
    /// # Errors
    /// 400 if it is empty or appears twice.
    pub fn filled<'a>(&'a self, name: &'a str) -> Result<Option<&'a str>, ApiError> {
        match self.one(name)? {
            Some("") => Err(Problem::malformed(format!("the parameter `{name}` is empty; omit it instead")).into()),
            value => Ok(value),
        }
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// 400 for anything else.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.one(name)? {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(Problem::malformed(format!("the parameter `{name}` is `true` or `false`")).into()),
        }
    }

    /// One of some words.
    ///
    /// # Errors
    /// 400 for any other word, with the known words.
    pub fn word<T: Clone>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(value.clone()));
        }
        let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        Err(Problem::malformed(format!("the parameter `{name}` is one of {}", known.join(", "))).into())
    }

    /// `_count` and `_offset`.
    ///
    /// # Errors
    /// 400 if either is no whole number or out of its bounds.
    pub fn page(&self) -> Result<Page, ApiError> {
        let mut page = Page::default();
        if let Some(text) = self.one("_count")? {
            let count = whole_number(text).filter(|count| (1..=u64::from(PAGE_COUNT_MAX)).contains(count));
            let Some(count) = count.and_then(|count| u32::try_from(count).ok()) else {
                return Err(
                    Problem::malformed(format!("`_count` must be a whole number from 1 to {PAGE_COUNT_MAX}")).into()
                );
            };
            page.count = count;
        }
        if let Some(text) = self.one("_offset")? {
            let Some(offset) = whole_number(text).filter(|offset| *offset <= OFFSET_MAX) else {
                return Err(
                    Problem::malformed(format!("`_offset` must be a whole number from 0 to {OFFSET_MAX}")).into()
                );
            };
            page.offset = offset;
        }
        Ok(page)
    }

    /// The parameters without the named ones, encoded again for links.
    #[must_use]
    pub fn encode_without(&self, left_out: &[&str]) -> String {
        encode(self.0.iter().filter(|(name, _)| !left_out.contains(&name.as_str())))
    }

    /// The same in a canonical order, to compare queries.
    #[must_use]
    pub fn sorted_without(&self, left_out: &[&str]) -> String {
        let mut stored: Vec<&(String, String)> =
            self.0.iter().filter(|(name, _)| !left_out.contains(&name.as_str())).collect();
        stored.sort_unstable();
        encode(stored.into_iter())
    }
}

fn encode<'a>(pairs: impl Iterator<Item = &'a (String, String)>) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        text.append_pair(name, value);
    }
    text.finish()
}

/// Parses `<kind>/<system>|<value>` or `<system>|<value>`; returns the kind, if it is named.
///
/// # Errors
/// 400 when it is neither.
pub fn reference(
    name: &str,
    text: &str,
    kinds: &[RecordKind],
) -> Result<(Option<RecordKind>, IdentifierKey), ApiError> {
    let of_kind = |kind: &RecordKind| Some((*kind, text.strip_prefix(kind.name())?.strip_prefix('/')?));
    let (kind, key) = match kinds.iter().find_map(of_kind) {
        Some((kind, key)) => (Some(kind), key),
        None => (None, text),
    };
    let key = IdentifierKey::parse(key);
    let key = key.map_err(|error| Problem::malformed(format!("`{name}`: {}", error.in_url())))?;
    Ok((kind, key))
}

/// Parses a reference to an individual or a group, of either kind if none is named.
///
/// # Errors
/// 400 as [`reference()`].
pub fn subject_reference(name: &str, text: &str) -> Result<(Vec<Subject>, IdentifierKey), ApiError> {
    let (kind, key) = reference(name, text, &Subject::ALL.map(Subject::record_kind))?;
    let kinds = Subject::ALL.into_iter().filter(|subject| kind.is_none_or(|kind| kind == subject.record_kind()));
    Ok((kinds.collect(), key))
}

/// Digits only: `u64::from_str` would also take `+5`.
fn whole_number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) { None } else { text.parse().ok() }
}

fn unknown_parameter(name: &str, known: &[&str]) -> Problem {
    let shown = shown(name);
    Problem::new(
        ErrorCode::UnknownParameter,
        match nearest(&shown, known.iter().copied(), 2) {
            Some(nearest) => format!("unknown parameter `{shown}`; did you mean `{nearest}`?"),
            None if known.is_empty() => format!("unknown parameter `{shown}`; this call has no parameters"),
            None => format!("unknown parameter `{shown}`; known here: {}", known.join(", ")),
        },
    )
}

fn decode(text: &str) -> Result<String, ApiError> {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let is_escape = |offset: usize| bytes.get(at + offset).is_some_and(u8::is_ascii_hexdigit);
        if *byte == b'%' && !(is_escape(1) && is_escape(2)) {
            return Err(
                Problem::malformed("the query holds a `%` that is not followed by two hexadecimal digits").into()
            );
        }
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let decoded = decoded.map_err(|_| Problem::malformed("the query is not percent-encoded UTF-8"))?;
    if decoded.contains('\0') {
        return Err(Problem::malformed("the query holds a NUL character").into());
    }
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail<T: std::fmt::Debug>(result: Result<T, ApiError>) -> String {
        result.unwrap_err().0.detail
    }

    #[test]
    fn decodes_names_and_values() {
        let parameters = Parameters::parse("name=Jos%C3%A9+M&gender=urn%3Ax%232&gender=b").unwrap();
        assert_eq!(parameters.one("name").unwrap(), Some("José M"));
        assert_eq!(parameters.all("gender").collect::<Vec<_>>(), ["urn:x#2", "b"]);
        assert!(parameters.one("gender").is_err());
    }

    #[test]
    fn rejects_text_that_is_not_encoded() {
        for wrong in ["a=%ff", "a=%", "a=%4", "a=%zz", "a=%00"] {
            assert!(Parameters::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Parameters::parse(&"a=1&".repeat(PARAMETERS_MAX)).is_ok());
        assert!(Parameters::parse(&"a=1&".repeat(PARAMETERS_MAX + 1)).is_err());
    }

    #[test]
    fn names_an_unknown_parameter_and_the_nearest() {
        let parameters = Parameters::parse("gendr=1").unwrap();
        assert_eq!(
            detail(parameters.expect_only(&["gender", "name"])),
            "unknown parameter `gendr`; did you mean `gender`?"
        );
        let parameters = Parameters::parse("something=1").unwrap();
        assert_eq!(
            detail(parameters.expect_only(&["gender", "name"])),
            "unknown parameter `something`; known here: gender, name"
        );
    }

    #[test]
    fn bounds_the_page() {
        for right in ["", "_count=1", "_count=100", "_offset=0"] {
            assert!(Parameters::parse(right).unwrap().page().is_ok(), "{right}");
        }
        for wrong in [
            "_count=0",
            "_count=-1",
            "_count=101",
            "_count=abc",
            "_count=",
            "_count=%2B5",
            "_offset=-1",
            "_count=1&_count=2",
        ] {
            assert!(Parameters::parse(wrong).unwrap().page().is_err(), "{wrong}");
        }
    }
}

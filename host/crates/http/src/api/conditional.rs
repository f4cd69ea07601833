//! Responses that a client may cache: entity tags, 304, and the other headers of such a response.
//!
//! **Invariant:** a tag depends on everything that the response depends on, so equal tags mean equal bytes, and a
//! response that the client has is not generated again.

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::api::openapi::document::TaggedBytes;
use crate::api::routes::record_search::languages;
use crate::state::AppState;
use daftar_domain::code::CodeUri;
use daftar_domain::error::AppError;
use daftar_domain::hexadecimal;
use daftar_service::open_vocabulary;
use daftar_service::vocabulary::{Edition, Fingerprint, Generation, LanguagePreference};

/// Clients may cache the response but must revalidate it each time: a changed code is active immediately.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, no-cache");
/// The same for responses without personal data.
const PUBLIC_CACHE_CONTROL: HeaderValue = HeaderValue::from_static("no-cache");
/// Length of the digest in a tag, in bytes.
const TAG_BYTES: usize = 16;
/// The response depends on the client and the languages.
const VARY: HeaderValue = HeaderValue::from_static("Authorization, Accept-Language");
/// Maximum number of languages in a header.
const LANGUAGES_LISTED_MAX: usize = 32;

/// The vocabulary snapshot and request of a response about codes, and the tags that the client has.
pub struct Reading {
    /// The active codes.
    pub generation: Arc<Generation>,
    /// Preferred languages of the client.
    pub languages: LanguagePreference,
    tag: String,
    has_it: bool,
}

impl Reading {
    /// Begins a response to a request for `uri` with that body.
    #[must_use]
    pub fn begin(app: &AppState, method: &Method, uri: &Uri, headers: &HeaderMap, requested: &[&str]) -> Self {
        let generation = app.registry.vocabularies.current();
        let languages = languages(app, headers);
        let mut fingerprint = Fingerprint::of(&generation, &languages);
        // HEAD returns the headers of the response to GET.
        fingerprint.text(if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() });
        fingerprint.text(uri.path());
        fingerprint.text(uri.query().unwrap_or_default());
        fingerprint.text(&app.public_url);
        requested.iter().for_each(|part| fingerprint.text(part));
        let tag = format!("\"{}\"", fingerprint.finish());
        let has_it = holds(headers, &tag);
        Self { generation, languages, tag, has_it }
    }

    /// Adds the results of packs of open vocabularies for the codes of the request.
    ///
    /// # Errors
    /// If a pack does not respond.
    pub async fn consulting(self, app: &AppState, codes: impl FnOnce() -> Vec<CodeUri>) -> Result<Self, AppError> {
        let generation = open_vocabulary::resolve(&app.registry, self.generation, codes).await?.generation;
        Ok(Self { generation, ..self })
    }

    /// As [`Self::consulting`] for the active version. For an earlier version the currently installed pack returns
    /// nothing.
    ///
    /// # Errors
    /// If a pack does not respond.
    pub async fn consulting_for(
        self,
        app: &AppState,
        edition: &Edition,
        codes: impl FnOnce() -> Vec<CodeUri>,
    ) -> Result<Self, AppError> {
        let is_active = edition.version.as_ref().is_none_or(|version| {
            let active = self.generation.vocabulary(&edition.namespace);
            active.is_some_and(|vocabulary| vocabulary.description().version == *version)
        });
        if is_active { self.consulting(app, codes).await } else { Ok(self) }
    }

    /// Returns 304 if the client has the response; called before an expensive lookup.
    #[must_use]
    pub fn unchanged(&self) -> Option<Response> {
        self.has_it.then(|| self.response(|_| ()))
    }

    /// Returns the response, or 304 if the client has it. `body` also reports its languages.
    pub fn response<B: Serialize>(&self, body: impl FnOnce(&mut ReportedLanguages) -> B) -> Response {
        let mut reported = ReportedLanguages::default();
        let mut response = if self.has_it {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            Json(body(&mut reported)).into_response()
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, CACHE_CONTROL);
        headers.insert(header::VARY, VARY);
        let values = [(header::ETAG, self.tag.as_str()), (header::CONTENT_LANGUAGE, &reported.0.join(", "))];
        for (name, value) in values {
            if !value.is_empty()
                && let Ok(value) = HeaderValue::from_str(value)
            {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// The entity tag of bytes.
#[must_use]
pub fn tag_of(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    format!("\"{}\"", hexadecimal::encode(digest.iter().take(TAG_BYTES)))
}

/// True if the client has the response of that tag.
#[must_use]
pub fn holds(headers: &HeaderMap, tag: &str) -> bool {
    headers.get_all(header::IF_NONE_MATCH).iter().any(|value| names(value.as_bytes(), tag))
}

/// Returns a response without personal data, or 304 if the client has it.
#[must_use]
pub fn unless_cached(headers: &HeaderMap, cached: &TaggedBytes, media_type: &'static str) -> Response {
    let mut response = if holds(headers, &cached.tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, media_type)], cached.bytes.clone()).into_response()
    };
    response.headers_mut().insert(header::CACHE_CONTROL, PUBLIC_CACHE_CONTROL);
    response.headers_mut().extend(HeaderValue::from_str(&cached.tag).ok().map(|tag| (header::ETAG, tag)));
    response
}

/// Generates the response to a batch on a thread for blocking work: it may take some tens of milliseconds.
///
/// # Errors
/// If the task is lost.
pub async fn elsewhere(make: impl FnOnce() -> Response + Send + 'static) -> Result<Response, AppError> {
    tokio::task::spawn_blocking(make).await.map_err(AppError::of_task)
}

/// The languages of a response, in order of appearance.
#[derive(Debug, Default)]
pub struct ReportedLanguages(Vec<String>);

impl ReportedLanguages {
    /// Adds a language of the response.
    pub fn add(&mut self, language: &str) {
        if !language.is_empty()
            && self.0.len() < LANGUAGES_LISTED_MAX
            && !self.0.iter().any(|reported| reported == language)
        {
            self.0.push(language.to_owned());
        }
    }
}

/// True if a list of entity tags (RFC 9110, section 13.1.2) names a tag, weak or strong, or any.
fn names(list: &[u8], tag: &str) -> bool {
    let list = list.trim_ascii();
    if list == b"*" {
        return true;
    }
    let mut rest = list;
    // A tag may contain a comma, so tags are parsed one by one instead of split.
    loop {
        while let [b' ' | b'\t' | b',', behind @ ..] = rest {
            rest = behind;
        }
        rest = rest.strip_prefix(b"W/").unwrap_or(rest);
        let Some(inside) = rest.strip_prefix(b"\"") else { return false };
        let Some(end) = inside.iter().position(|byte| *byte == b'"') else { return false };
        let Some((opaque, behind)) = inside.split_at_checked(end) else { return false };
        if tag.len() == opaque.len() + 2 && tag.as_bytes().get(1..=end) == Some(opaque) {
            return true;
        }
        rest = behind.get(1..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_of_tags() {
        for right in ["\"ab\"", "W/\"ab\"", "*", " * ", "\"x\", \"ab\"", "\"x,y\",W/\"ab\" , \"z\"", "\"\",\"ab\""] {
            assert!(names(right.as_bytes(), "\"ab\""), "{right}");
        }
        for wrong in ["", "ab", "\"a\"", "\"abc\"", "\"ab", "\"x\" ab", "\"AB\"", "w/\"ab\"", "*,\"x\"", "\"\""] {
            assert!(!names(wrong.as_bytes(), "\"ab\""), "{wrong}");
        }
    }

    #[test]
    fn names_each_language_once_in_order() {
        let mut reported = ReportedLanguages::default();
        ["fr", "", "en", "fr"].into_iter().for_each(|language| reported.add(language));
        assert_eq!(reported.0, ["fr", "en"]);
    }
}

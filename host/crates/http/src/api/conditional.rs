//! Answers that a client may keep: entity tags, 304, and what else the headers of such an answer say.
//!
//! **Invariant:** a tag is made of everything that an answer depends on, so equal tags are equal bytes, and an answer that
//! the client has is not written again.

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
use daftar_service::open_vocabulary;
use daftar_service::vocabulary::{Edition, Fingerprint, Generation, LanguagePreference};

/// A client may keep the answer and asks each time whether it still holds: a changed code is in force at once.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, no-cache");
/// The same for what says nothing of anybody.
const PUBLIC_CACHE_CONTROL: HeaderValue = HeaderValue::from_static("no-cache");
/// How many bytes of a digest make a tag.
const TAG_BYTES: usize = 16;
/// An answer in another language is another answer, and so is one to somebody else.
const VARY: HeaderValue = HeaderValue::from_static("Authorization, Accept-Language");
/// The most languages that a header names.
const LANGUAGES_TOLD_MAX: usize = 32;

/// What an answer about codes is made from, and what the client has of it already.
pub struct Reading {
    /// The codes in force.
    pub generation: Arc<Generation>,
    /// The languages that the client wants.
    pub languages: LanguagePreference,
    tag: String,
    has_it: bool,
}

impl Reading {
    /// Begins an answer to a request for `uri`; `asked` is what its body says.
    #[must_use]
    pub fn begin(app: &AppState, method: &Method, uri: &Uri, headers: &HeaderMap, asked: &[&str]) -> Self {
        let generation = app.registry.vocabularies.current();
        let languages = languages(app, headers);
        let mut fingerprint = Fingerprint::of(&generation, &languages);
        // A HEAD asks for the headers of the same answer.
        fingerprint.text(if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() });
        fingerprint.text(uri.path());
        fingerprint.text(uri.query().unwrap_or_default());
        fingerprint.text(&app.public_url);
        asked.iter().for_each(|part| fingerprint.text(part));
        let tag = format!("\"{}\"", fingerprint.finish());
        let has_it = holds(headers, &tag);
        Self { generation, languages, tag, has_it }
    }

    /// The same with what packs of open vocabularies say of codes that the request names.
    ///
    /// # Errors
    /// A pack does not answer.
    pub async fn consulting(self, app: &AppState, codes: impl FnOnce() -> Vec<CodeUri>) -> Result<Self, AppError> {
        let generation = open_vocabulary::resolve(&app.registry, self.generation, codes).await?.generation;
        Ok(Self { generation, ..self })
    }

    /// As [`Self::consulting`] where codes are read in the version in force; of an earlier one the pack that is installed now says
    /// nothing.
    ///
    /// # Errors
    /// A pack does not answer.
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

    /// 304 where the client has the answer, for one that costs something to find.
    #[must_use]
    pub fn unchanged(&self) -> Option<Response> {
        self.has_it.then(|| self.answer(|_| ()))
    }

    /// The answer, or 304 where the client has it; `body` also says which languages it is in.
    pub fn answer<B: Serialize>(&self, body: impl FnOnce(&mut ReportedLanguages) -> B) -> Response {
        let mut told = ReportedLanguages::default();
        let mut response =
            if self.has_it { StatusCode::NOT_MODIFIED.into_response() } else { Json(body(&mut told)).into_response() };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, CACHE_CONTROL);
        headers.insert(header::VARY, VARY);
        let values = [(header::ETAG, self.tag.as_str()), (header::CONTENT_LANGUAGE, &told.0.join(", "))];
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
    let digits: String = digest.iter().take(TAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

/// Whether a client has the answer of that tag.
#[must_use]
pub fn holds(headers: &HeaderMap, tag: &str) -> bool {
    headers.get_all(header::IF_NONE_MATCH).iter().any(|value| names(value.as_bytes(), tag))
}

/// An answer that everybody may have, or 304 where the client has it.
#[must_use]
pub fn unless_kept(headers: &HeaderMap, kept: &TaggedBytes, media_type: &'static str) -> Response {
    let mut response = if holds(headers, &kept.tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, media_type)], kept.bytes.clone()).into_response()
    };
    response.headers_mut().insert(header::CACHE_CONTROL, PUBLIC_CACHE_CONTROL);
    response.headers_mut().extend(HeaderValue::from_str(&kept.tag).ok().map(|tag| (header::ETAG, tag)));
    response
}

/// Makes the answer to a batch away from the threads that serve requests: it may take some tens of milliseconds.
///
/// # Errors
/// When the work was lost.
pub async fn elsewhere(make: impl FnOnce() -> Response + Send + 'static) -> Result<Response, AppError> {
    tokio::task::spawn_blocking(make).await.map_err(|error| AppError::Internal(error.into()))
}

/// The languages that an answer is in, in the order in which they were met.
#[derive(Debug, Default)]
pub struct ReportedLanguages(Vec<String>);

impl ReportedLanguages {
    /// A text in that language is in the answer.
    pub fn add(&mut self, language: &str) {
        if !language.is_empty() && self.0.len() < LANGUAGES_TOLD_MAX && !self.0.iter().any(|told| told == language) {
            self.0.push(language.to_owned());
        }
    }
}

/// Whether a list of entity tags (RFC 9110, section 13.1.2) names a tag, weak or strong, or any.
fn names(list: &[u8], tag: &str) -> bool {
    let list = list.trim_ascii();
    if list == b"*" {
        return true;
    }
    let mut rest = list;
    // A tag may hold a comma, so tags are read one by one rather than split.
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
        let mut told = ReportedLanguages::default();
        ["fr", "", "en", "fr"].into_iter().for_each(|language| told.add(language));
        assert_eq!(told.0, ["fr", "en"]);
    }
}

//! `Accept`: checks that a client accepts a media type of the endpoint (RFC 9110, section 12.5.1); and `If-Match`: the
//! record versions that a change accepts (section 13.1.1).
//!
//! Only the table of routes defines the media types of an endpoint. A request without the header accepts any. The token
//! endpoint responds in JSON and the probes in text for any `Accept`: the standard of the former has no such error, and
//! of the latter only the status counts.

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};

use crate::api::endpoint::Endpoint;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::query::NoParameters;
use crate::api::routes::record_search::languages;
use crate::state::AppState;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::record::{VersionCondition, VersionId};
use daftar_service::codes::LanguagePreference;

/// Media type of lines with one JSON value each.
pub const LINES: &str = "application/x-ndjson";

/// Rejects a request whose `Accept` excludes every media type of the endpoint.
///
/// # Errors
/// 406 naming the media types.
pub fn check_accept(parts: &Parts, app: &AppState) -> Result<(), Problem> {
    if !parts.headers.contains_key(header::ACCEPT) {
        return Ok(());
    }
    let Some(path) = parts.extensions.get::<MatchedPath>() else { return Ok(()) };
    let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
    let offered = app.routes.find(method, path.as_str()).map(Endpoint::media_types);
    check_offered(&parts.headers, &offered.unwrap_or_default())
}

/// Rejects a request whose `Accept` excludes every offered media type. A response without a body is always accepted.
///
/// # Errors
/// 406 naming the media types.
pub fn check_offered(headers: &HeaderMap, offered: &[&'static str]) -> Result<(), Problem> {
    let accepted = Accepted::read(headers);
    if accepted.is_anything() || offered.is_empty() || offered.iter().any(|media_type| accepted.takes(media_type)) {
        return Ok(());
    }
    let known: Vec<String> = offered.iter().map(|media_type| format!("`{media_type}`")).collect();
    let detail = format!("`Accept` excludes the media types of this response: {}", known.join(" or "));
    Err(Problem::new(ErrorCode::NotAcceptable, detail))
}

/// True if a request names lines of JSON in `Accept`.
#[must_use]
pub fn asks_for_lines(headers: &HeaderMap) -> bool {
    Accepted::read(headers).0.iter().any(|(range, is_wanted)| *is_wanted && range == LINES)
}

/// The media ranges of a request, in lower case, each with its acceptance. Empty if any media type is accepted.
struct Accepted(Vec<(String, bool)>);

impl Accepted {
    /// Reads every `Accept` header. Invalid media ranges are left out (section 12.4 permits this).
    fn read(headers: &HeaderMap) -> Self {
        let texts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges = texts.flat_map(|text| text.split(',')).filter_map(|element| {
            let mut parts = element.split(';').map(str::trim);
            let range = parts.next()?.to_ascii_lowercase();
            let (kind, sub) = range.split_once('/')?;
            if kind.is_empty() || sub.is_empty() || (kind == "*" && sub != "*") {
                return None;
            }
            let quality = parts.filter_map(|parameter| parameter.split_once('='));
            let mut quality = quality.filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
            let quality = quality.next().and_then(|(_, value)| value.trim().parse::<f32>().ok());
            Some((range, quality.is_none_or(|quality| quality > 0.0)))
        });
        Self(ranges.collect())
    }

    fn is_anything(&self) -> bool {
        self.0.is_empty() || matches!(self.0.as_slice(), [(range, true)] if range == "*/*")
    }

    /// True if a media type is accepted: the most specific range counts.
    fn takes(&self, media_type: &str) -> bool {
        let kind = media_type.split('/').next().unwrap_or_default();
        let closest = [media_type.to_owned(), format!("{kind}/*"), "*/*".to_owned()];
        let named = closest.iter().find_map(|wanted| self.0.iter().find(|(range, _)| range == wanted));
        named.is_some_and(|(_, is_wanted)| *is_wanted)
    }
}

/// Maximum number of tags in a header.
const TAGS_MAX: usize = 20;

/// The condition of the header; none if it is absent or `*`.
#[derive(Debug)]
pub struct IfMatch(pub VersionCondition);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let mut versions = Vec::new();
        for value in parts.headers.get_all(header::IF_MATCH) {
            let text = value.to_str().map_err(|_| malformed())?.trim();
            if text == "*" {
                return Ok(Self(VersionCondition::Any));
            }
            for tag in text.split(',') {
                versions.push(read(tag.trim()).ok_or_else(malformed)?);
            }
        }
        if versions.len() > TAGS_MAX {
            return Err(Problem::malformed(format!("`If-Match` names more than {TAGS_MAX} versions")).into());
        }
        Ok(Self(if versions.is_empty() { VersionCondition::Any } else { VersionCondition::OneOf(versions) }))
    }
}

/// Headers of a change: the accepted versions, and the languages of the response. Excludes parameters.
#[derive(Debug)]
pub struct Conditions {
    /// Accepted versions.
    pub condition: VersionCondition,
    /// Preferred languages.
    pub languages: LanguagePreference,
}

impl FromRequestParts<AppState> for Conditions {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Self::Rejection> {
        NoParameters::from_request_parts(parts, app).await?;
        let IfMatch(condition) = IfMatch::from_request_parts(parts, app).await?;
        Ok(Self { condition, languages: languages(app, &parts.headers) })
    }
}

/// A version in quotation marks, as in our `ETag`. A weak tag has none: it never matches strongly.
fn read(tag: &str) -> Option<VersionId> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(VersionId)
}

fn malformed() -> Problem {
    Problem::malformed(
        "`If-Match` must be the `ETag` of a response, such as `\"3\"`, several of them separated by commas, or `*`",
    )
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn accepted(values: &[&str]) -> Accepted {
        let values = values.iter().map(|value| (header::ACCEPT, HeaderValue::from_str(value).unwrap()));
        Accepted::read(&values.collect())
    }

    #[test]
    fn the_most_specific_media_range_applies() {
        for (values, json, html) in [
            (&["application/json"][..], true, false),
            (&["Application/JSON; charset=utf-8"], true, false),
            (&["application/*"], true, false),
            (&["text/html, */*;q=0.1"], true, true),
            (&["text/html", "application/json;q=0.2"], true, true),
            (&["application/json;q=0, */*"], false, true),
            (&["application/*;q=0.000, */*"], false, true),
            (&["*/*;q=0"], false, false),
            (&["application/xml"], false, false),
            (&["text/html, *; q=.2, */*; q=.2"], true, true),
        ] {
            let accepted = accepted(values);
            assert!(!accepted.is_anything(), "{values:?}");
            assert_eq!((accepted.takes("application/json"), accepted.takes("text/html")), (json, html), "{values:?}");
        }
    }

    #[test]
    fn every_type_is_accepted_without_a_header() {
        for values in [&[][..], &[""], &["*/*"], &["*/*;q=0.5"], &["nonsense"], &["*/json", "/", "a/"]] {
            assert!(accepted(values).is_anything(), "{values:?}");
        }
    }
}

#[cfg(test)]
mod if_match_tests {
    use super::*;

    async fn condition(headers: &[&str]) -> Result<VersionCondition, ApiError> {
        let mut request = axum::http::Request::builder();
        for value in headers {
            request = request.header(header::IF_MATCH, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        IfMatch::from_request_parts(&mut parts, &()).await.map(|found| found.0)
    }

    #[tokio::test]
    async fn reads_no_tag_one_and_several() {
        let one_of = |versions: &[u64]| VersionCondition::OneOf(versions.iter().copied().map(VersionId).collect());
        assert_eq!(condition(&[]).await.unwrap(), VersionCondition::Any);
        assert_eq!(condition(&["*"]).await.unwrap(), VersionCondition::Any);
        assert_eq!(condition(&["\"3\""]).await.unwrap(), one_of(&[3]));
        assert_eq!(condition(&["\"3\" , \"4\"", "\"5\""]).await.unwrap(), one_of(&[3, 4, 5]));
        for wrong in ["", "3", "W/\"3\"", "\"\"", "\"x\"", "\"+3\"", "\"3", "\"99999999999999999999\"", "\"3\",,\"4\""]
        {
            assert!(condition(&[wrong]).await.is_err(), "{wrong}");
        }
        let tags = |count| vec!["\"1\""; count].join(",");
        assert!(condition(&[&tags(TAGS_MAX)]).await.is_ok());
        assert!(condition(&[&tags(TAGS_MAX + 1)]).await.is_err());
    }
}

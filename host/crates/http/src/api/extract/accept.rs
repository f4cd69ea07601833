//! `Accept`: checks that a client accepts a media type of the endpoint (RFC 9110, section 12.5.1); and `If-Match` and
//! `If-None-Match`: the record versions that a change accepts (sections 13.1.1 and 13.1.2).
//!
//! A read of a record ignores `If-None-Match` and never responds 304. The entity tag is the version of the record alone;
//! the body also depends on the grants of the client, the names of other records and the languages of its codes, which
//! change without a new version.
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
use daftar_domain::record::{ExcludedVersions, VersionCondition, VersionId};
use daftar_service::codes::LanguagePreference;

/// Media type of lines with one JSON value each.
pub const LINES: &str = "application/x-ndjson";
/// Media type of one JSON object.
const OBJECT: &str = "application/json";

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

/// True if a request prefers lines of JSON to one JSON object: `Accept` names them, with at least the quality of the
/// object, or excludes the object.
#[must_use]
pub fn asks_for_lines(headers: &HeaderMap) -> bool {
    let accepted = Accepted::read(headers);
    let (lines, object) = (accepted.quality(LINES), accepted.quality(OBJECT));
    lines > 0.0 && (object <= 0.0 || (accepted.names(LINES) && lines >= object))
}

/// The media ranges of a request, in lower case, each with its quality from 0 (excluded) to 1. Empty if any media type
/// is accepted.
struct Accepted(Vec<(String, f32)>);

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
            let quality = quality.filter(|quality| quality.is_finite());
            Some((range, quality.map_or(1.0, |quality| quality.clamp(0.0, 1.0))))
        });
        Self(ranges.collect())
    }

    fn is_anything(&self) -> bool {
        self.0.is_empty() || matches!(self.0.as_slice(), [(range, quality)] if range == "*/*" && *quality > 0.0)
    }

    /// True if a media type is accepted.
    fn takes(&self, media_type: &str) -> bool {
        self.quality(media_type) > 0.0
    }

    /// True if a range is exactly that media type.
    fn names(&self, media_type: &str) -> bool {
        self.0.iter().any(|(range, _)| range == media_type)
    }

    /// The quality of a media type, 0 if no range contains it: the most specific range counts.
    fn quality(&self, media_type: &str) -> f32 {
        let kind = media_type.split('/').next().unwrap_or_default();
        let closest = [media_type.to_owned(), format!("{kind}/*"), "*/*".to_owned()];
        let named = closest.iter().find_map(|wanted| self.0.iter().find(|(range, _)| range == wanted));
        named.map_or(0.0, |(_, quality)| *quality)
    }
}

/// Maximum number of tags in a header.
const TAGS_MAX: usize = 20;

/// The versions that `If-Match` permits, all if it is absent or `*`, without those that `If-None-Match` excludes.
#[derive(Debug)]
pub struct IfMatch(pub VersionCondition);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let permitted = match Tags::read(&parts.headers, "If-Match", read_strong)? {
            None | Some(Tags::Any) => VersionCondition::Any,
            Some(Tags::Listed(versions)) => VersionCondition::OneOf(versions),
        };
        let excluded = match Tags::read(&parts.headers, "If-None-Match", read_weak)? {
            None => return Ok(Self(permitted)),
            Some(Tags::Any) => ExcludedVersions::All,
            Some(Tags::Listed(versions)) => ExcludedVersions::Listed(versions),
        };
        Ok(Self(VersionCondition::Except(Box::new(permitted), excluded)))
    }
}

/// The entity tags of a header.
enum Tags {
    /// `*`.
    Any,
    /// At least one version.
    Listed(Vec<VersionId>),
}

impl Tags {
    /// Reads all headers of a name, each tag by `read_tag`; none if the header is absent.
    fn read(
        headers: &HeaderMap,
        name: &'static str,
        read_tag: fn(&str) -> Option<VersionId>,
    ) -> Result<Option<Self>, Problem> {
        let mut versions = Vec::new();
        for value in headers.get_all(name) {
            let text = value.to_str().map_err(|_| malformed(name))?.trim();
            if text == "*" {
                return Ok(Some(Self::Any));
            }
            for tag in text.split(',') {
                versions.push(read_tag(tag.trim()).ok_or_else(|| malformed(name))?);
            }
        }
        if versions.len() > TAGS_MAX {
            return Err(Problem::malformed(format!("`{name}` names more than {TAGS_MAX} versions")));
        }
        Ok((!versions.is_empty()).then_some(Self::Listed(versions)))
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
fn read_strong(tag: &str) -> Option<VersionId> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(VersionId)
}

/// The version of a strong or weak tag: `If-None-Match` compares weakly.
fn read_weak(tag: &str) -> Option<VersionId> {
    read_strong(tag.strip_prefix("W/").unwrap_or(tag))
}

fn malformed(name: &str) -> Problem {
    Problem::malformed(format!(
        "`{name}` must be the `ETag` of a response, such as `\"3\"`, several of them separated by commas, or `*`"
    ))
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

    #[test]
    fn lines_are_preferred_by_name_unless_the_object_has_a_higher_quality() {
        for (accept, is_expected) in [
            (None, false),
            (Some("*/*"), false),
            (Some("application/json"), false),
            (Some("application/*"), false),
            (Some("application/x-ndjson"), true),
            (Some("application/x-ndjson, */*"), true),
            (Some("application/json, application/x-ndjson"), true),
            (Some("Application/X-NDJSON;q=0.5, application/json;q=0.4"), true),
            (Some("application/json, application/x-ndjson;q=0.1"), false),
            (Some("application/*;q=0.9, application/x-ndjson;q=0.8"), false),
            (Some("application/json;q=0, */*"), true),
            (Some("application/json;q=0, application/*;q=0.1"), true),
            (Some("application/x-ndjson;q=0, */*"), false),
            (Some("application/x-ndjson;q=0, application/json;q=0"), false),
            (Some("application/x-ndjson;q=nan, application/json;q=5"), true),
        ] {
            let headers = accept.map(|accept| (header::ACCEPT, HeaderValue::from_static(accept)));
            assert_eq!(asks_for_lines(&headers.into_iter().collect()), is_expected, "{accept:?}");
        }
    }
}

#[cfg(test)]
mod if_match_tests {
    use super::*;

    async fn condition(permitted: &[&str]) -> Result<VersionCondition, ApiError> {
        read(permitted, None).await
    }

    async fn excluding(permitted: &[&str], excluded: &str) -> Result<VersionCondition, ApiError> {
        read(permitted, Some(excluded)).await
    }

    async fn read(permitted: &[&str], excluded: Option<&str>) -> Result<VersionCondition, ApiError> {
        let mut request = axum::http::Request::builder();
        for value in permitted {
            request = request.header(header::IF_MATCH, *value);
        }
        if let Some(value) = excluded {
            request = request.header(header::IF_NONE_MATCH, value);
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

    #[tokio::test]
    async fn excludes_the_versions_of_the_other_header() {
        let except = |permitted: VersionCondition, excluded| VersionCondition::Except(Box::new(permitted), excluded);
        let versions = |versions: &[u64]| versions.iter().copied().map(VersionId).collect::<Vec<_>>();
        let any = VersionCondition::Any;
        assert_eq!(excluding(&[], "*").await.unwrap(), except(any.clone(), ExcludedVersions::All));
        let listed = ExcludedVersions::Listed(versions(&[3, 4]));
        assert_eq!(excluding(&["*"], "\"3\",W/\"4\"").await.unwrap(), except(any, listed));
        let one_of = VersionCondition::OneOf(versions(&[5]));
        assert_eq!(excluding(&["\"5\""], "*").await.unwrap(), except(one_of, ExcludedVersions::All));
        for wrong in ["", "3", "w/\"3\"", "W/3", "W/W/\"3\"", "\"x\"", "*, \"3\""] {
            let ApiError(problem) = excluding(&[], wrong).await.unwrap_err();
            assert!(problem.detail.starts_with("`If-None-Match` must be"), "{wrong}: {}", problem.detail);
        }
    }
}

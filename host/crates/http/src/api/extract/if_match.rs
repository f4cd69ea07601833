//! `If-Match`: at which versions a change may find its record (RFC 9110, section 13.1.1).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

use crate::api::error::{ApiError, Problem};
use crate::api::extract::query::Parameters;
use daftar_domain::record::{VersionCondition, VersionId};

/// The most tags of one header.
const TAGS_MAX: usize = 20;

/// The condition that the header makes; none, where it is absent or `*`.
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

/// What a change says beside its body: the query, at which versions, in which languages it wants the answer.
#[derive(Debug)]
pub struct Conditions {
    /// The parameters.
    pub query: Parameters,
    /// At which versions.
    pub condition: VersionCondition,
    /// The headers.
    pub headers: HeaderMap,
}

impl<S: Send + Sync> FromRequestParts<S> for Conditions {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let query = Parameters::parse(parts.uri.query().unwrap_or_default())?;
        let IfMatch(condition) = IfMatch::from_request_parts(parts, state).await?;
        Ok(Self { query, condition, headers: parts.headers.clone() })
    }
}

/// A version in quotation marks, as an `ETag` of ours is written. A weak tag names none: it never matches strongly.
fn read(tag: &str) -> Option<VersionId> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(VersionId)
}

fn malformed() -> Problem {
    Problem::malformed(
        "`If-Match` holds the `ETag` of an answer, such as `\"3\"`, several of them separated by commas, or `*`",
    )
}

#[cfg(test)]
mod tests {
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

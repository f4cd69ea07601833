//! Strict JSON bodies: media type, size, depth, UTF-8, no duplicate members.

use std::fmt;

use axum::body::HttpBody as _;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderName, Method, header};
use http_body_util::BodyExt as _;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::api::error::{ApiError, Problem};
use crate::api::middleware::response::{BodyTimes, RequestInfo};
use daftar_domain::error_code::ErrorCode;

/// Maximum size of the body of most calls.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Maximum size of the body of a call that writes an individual.
pub const RECORD_BYTES_MAX: usize = 8 << 20;
/// Maximum size initially reserved for a body of known length: sufficient for most.
const FIRST_BYTES_MAX: usize = 64 << 10;
/// Media types of the body of a PATCH: a merge patch (RFC 7396), never a JSON Patch (RFC 6902).
const PATCH_TYPES: [&str; 2] = ["application/merge-patch+json", "application/json"];
/// Header with the media types of a PATCH (RFC 5789, section 3.1).
static ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");
/// Maximum nesting depth of arrays and objects. Our own bodies need 8.
const DEPTH_MAX: usize = 32;

/// A JSON object of at most `LIMIT` bytes.
#[derive(Debug)]
pub struct JsonObject<const LIMIT: usize = BODY_BYTES_MAX>(pub Map<String, Value>);

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for JsonObject<LIMIT> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        check_media_type(request.method(), request.headers())?;
        let info = request.extensions().get::<RequestInfo>().cloned();
        let bytes = read_bounded(request, LIMIT).await?;
        if let Some(info) = info {
            info.reserve_memory(&bytes).await?;
        }
        Ok(Self(parse_object(&bytes)?))
    }
}

/// Reads a complete body of at most `limit` bytes.
///
/// # Errors
/// 413 if it is longer, 400 if it ends early, 408 if it takes too long or stops arriving.
pub async fn read_bounded(request: Request, limit: usize) -> Result<Vec<u8>, ApiError> {
    let declared = request.headers().get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<u64>().ok());
    let too_large = || Problem::new(ErrorCode::BodyTooLarge, format!("the body exceeds the limit of {limit} bytes"));
    if declared.is_some_and(|length| length > limit as u64) {
        return Err(too_large().into());
    }
    let info = request.extensions().get::<RequestInfo>();
    let BodyTimes { whole, stall } = info.map(|info| info.body_times).unwrap_or_default();
    let begun = tokio::time::Instant::now();
    let mut body = request.into_body();
    let mut bytes = Vec::with_capacity(usize::try_from(body.size_hint().lower()).unwrap_or(0).min(FIRST_BYTES_MAX));
    loop {
        let left = whole.saturating_sub(begun.elapsed());
        match tokio::time::timeout(left.min(stall), body.frame()).await {
            Err(_) if left <= stall => {
                let detail = format!("the body did not arrive within {:?}", whole);
                return Err(Problem::new(ErrorCode::RequestTimeout, detail).into());
            }
            Err(_) => {
                let detail = format!("nothing more of the body arrived for {:?}", stall);
                return Err(Problem::new(ErrorCode::RequestTimeout, detail).into());
            }
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(_))) => return Err(Problem::malformed("the body ended before it was complete").into()),
            Ok(Some(Ok(frame))) => {
                // Trailers follow the body and are ignored.
                let Ok(part) = frame.into_data() else { continue };
                if part.len() > limit.saturating_sub(bytes.len()) {
                    return Err(too_large().into());
                }
                bytes.extend_from_slice(&part);
            }
        }
    }
}

/// Checks that the headers declare unencoded JSON in UTF-8, for a PATCH a merge patch.
fn check_media_type(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let is_patch = method == Method::PATCH;
    let is_accepted: fn(&str) -> bool = if is_patch { is_merge_patch } else { is_json };
    let unsupported = |detail: &str| Problem::new(ErrorCode::UnsupportedMediaType, detail);
    let mut content_types = headers.get_all(header::CONTENT_TYPE).iter();
    let content_type = content_types.next().and_then(|value| value.to_str().ok());
    let Some(content_type) = content_type.filter(|text| is_accepted(text) && content_types.next().is_none()) else {
        let of_patch = "the body must be a JSON merge patch: send `Content-Type: application/merge-patch+json` or `Content-Type: application/json`";
        return Err(if is_patch {
            unsupported(of_patch).with_header(ACCEPT_PATCH.clone(), &PATCH_TYPES.join(", "))
        } else {
            unsupported("the body must be JSON: send `Content-Type: application/json`")
        });
    };
    if !is_utf8(content_type) {
        return Err(unsupported("JSON is UTF-8: send the body in UTF-8, and no other `charset`"));
    }
    let encoding = headers.get_all(header::CONTENT_ENCODING).iter();
    if encoding.into_iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(unsupported("bodies are taken as they are: send the body without `Content-Encoding`"));
    }
    Ok(())
}

/// True if a media type names no character encoding, or UTF-8.
fn is_utf8(content_type: &str) -> bool {
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    parameters.all(|(name, value)| {
        !name.trim().eq_ignore_ascii_case("charset")
            || ["utf-8", "utf8"].contains(&value.trim().trim_matches('"').to_ascii_lowercase().as_str())
    })
}

fn is_json(content_type: &str) -> bool {
    let essence = essence(content_type);
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn is_merge_patch(content_type: &str) -> bool {
    PATCH_TYPES.contains(&essence(content_type).as_str())
}

/// A media type without its parameters, in lower case.
fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads one JSON object.
///
/// # Errors
/// 400 with the problem and its position.
pub fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::malformed("the body is not UTF-8"))?;
    if text.starts_with('\u{feff}') {
        let detail = "the body begins with a byte order mark; send the JSON alone, in UTF-8";
        return Err(Problem::malformed(detail).into());
    }
    if text.trim().is_empty() {
        return Err(Problem::malformed("the body is empty; a JSON object is required").into());
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = strict_value(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    match value {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Problem::malformed("the body is JSON; a JSON object is required").into()),
        Err(error) => Err(Problem::malformed(format!("the body is not valid JSON: {error}")).into()),
    }
}

/// A JSON value with the checks of a body: duplicate members, great depth and NUL characters are rejected.
///
/// # Errors
/// If it is invalid.
pub fn strict_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Strict { depth: 0 }.deserialize(deserializer)
}

/// Builds a value, rejecting input that serde_json accepts: duplicate members, great depth, NUL characters.
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: de::Error>(&self) -> Result<Self, E> {
        if self.depth < DEPTH_MAX {
            Ok(Self { depth: self.depth + 1 })
        } else {
            Err(E::custom(format_args!("arrays and objects lie more than {DEPTH_MAX} deep in each other")))
        }
    }
}

fn checked_text<E: de::Error>(text: &str) -> Result<String, E> {
    if text.contains('\0') { Err(E::custom("a string holds a NUL character")) } else { Ok(text.to_owned()) }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        checked_text(value).map(Value::String)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(self.deeper()?)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let name = checked_text::<A::Error>(&name)?;
            let value = members.next_value_seed(self.deeper()?)?;
            if object.contains_key(&name) {
                let shown: String = name.chars().take(60).collect();
                return Err(de::Error::custom(format_args!("the member `{shown}` appears twice in one object")));
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &[u8]) -> String {
        parse_object(body).unwrap_err().0.detail
    }

    #[test]
    fn reads_an_object() {
        let object = parse_object(br#"{"a": [1, -2, 0.5, true, null, {"b": "c"}]}"#).unwrap();
        assert_eq!(Value::Object(object), serde_json::json!({"a": [1, -2, 0.5, true, null, {"b": "c"}]}));
    }

    #[test]
    fn reads_a_number_as_the_nearest_one() {
        for text in ["98446744073709551615", "0.30000000000000004", "9007199254740993.5", "1.7976931348623157e308"] {
            let object = parse_object(format!("{{\"a\": {text}}}").as_bytes()).unwrap();
            assert_eq!(object["a"].as_f64(), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn reports_the_fault() {
        assert_eq!(refusal(b""), "the body is empty; a JSON object is required");
        assert!(refusal(b"\xef\xbb\xbf{}").contains("byte order mark"));
        assert_eq!(refusal(b"[]"), "the body is JSON; a JSON object is required");
        assert_eq!(refusal(b"{\"a\": \"\xff\"}"), "the body is not UTF-8");
        assert!(refusal(br#"{"a": 1, "a": 2}"#).contains("the member `a` appears twice"));
        assert!(refusal(br#"{"a": "x\u0000"}"#).contains("NUL"));
        assert!(refusal(b"{\"a\": 1} x").contains("trailing"));
        assert!(refusal(b"{\"a\": 1e999}").contains("out of range"));
        let deep = format!("{{\"a\": {}1{}}}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(refusal(deep.as_bytes()).contains("deep"));
        let just_right = format!("{{\"a\": {}1{}}}", "[".repeat(DEPTH_MAX - 1), "]".repeat(DEPTH_MAX - 1));
        assert!(parse_object(just_right.as_bytes()).is_ok());
    }

    #[test]
    fn knows_utf8() {
        for right in
            ["application/json", "application/json; charset=UTF-8", "a/b;x=y; Charset=\"utf-8\"", "a/b;charset"]
        {
            assert!(is_utf8(right), "{right}");
        }
        for wrong in [
            "application/json; charset=iso-8859-1",
            "a/b;charset=utf-16",
            "a/b; charset=utf-8; charset=x",
            "a/b;charset=",
        ] {
            assert!(!is_utf8(wrong), "{wrong}");
        }
    }

    #[test]
    fn knows_json_media_types() {
        for right in ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"] {
            assert!(is_json(right), "{right}");
        }
        for wrong in ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"] {
            assert!(!is_json(wrong), "{wrong}");
        }
    }

    #[test]
    fn knows_merge_patches() {
        for right in ["application/json; charset=utf-8", "Application/Merge-Patch+JSON"] {
            assert!(is_merge_patch(right), "{right}");
        }
        for wrong in ["application/json-patch+json", "application/fhir+json", "text/plain", ""] {
            assert!(!is_merge_patch(wrong), "{wrong}");
        }
    }
}

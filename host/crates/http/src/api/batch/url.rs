//! The `url` of an entry: as it would stand on the wire, below the API's base path.

use axum::http::Uri;
use percent_encoding::percent_decode_str;

use crate::api::endpoint::BASE_PATH;

/// The longest URL, in bytes: an identifier of the greatest length, percent-encoded, with room for a query.
pub const URL_BYTES_MAX: usize = 8_192;

/// Reads `Individual/…`, `/Individual/…` or `/api/v2/Individual/…`.
///
/// # Errors
/// A sentence that says what is wrong and what would be right.
pub(super) fn read(text: &str) -> Result<Uri, String> {
    if text.contains('#') {
        return Err("a `#` ends a URL: encode # as %23".to_owned());
    }
    let path = text.split('?').next().unwrap_or_default();
    let first = path.split('/').next().unwrap_or_default();
    if text.starts_with("//") || first.contains(':') {
        return Err(
            "it is relative to this API, such as `Individual/<system>%23<code>|<value>`: leave scheme and host out"
                .to_owned(),
        );
    }
    let below = path.strip_prefix(BASE_PATH).filter(|rest| rest.starts_with('/')).unwrap_or(path);
    let below = below.strip_prefix('/').unwrap_or(below);
    let resource = percent_decode_str(below.split('/').next().unwrap_or_default()).decode_utf8_lossy();
    if resource.is_empty() {
        return Err("it names no resource, such as `Individual`".to_owned());
    }
    if resource == "$batch" {
        return Err("a batch holds no other batch".to_owned());
    }
    let query = text.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
    let whole = format!("{BASE_PATH}/{below}{query}");
    whole.parse().map_err(|_| "it holds characters that a URL cannot: percent-encode them".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_relative_url_is_one() {
        for text in [
            "Individual/urn:x%23a|1?_elements=name",
            "/Individual/urn:x%23a|1?_elements=name",
            "/api/v2/Individual/urn:x%23a|1?_elements=name",
        ] {
            assert_eq!(read(text).unwrap().to_string(), "/api/v2/Individual/urn:x%23a|1?_elements=name", "{text}");
        }
        assert_eq!(read("api/v2/Individual").unwrap(), "/api/v2/api/v2/Individual", "only with its slash");
        assert!(read("Individual/urn:x%23a%7C1/%24add-member").is_ok());
    }

    #[test]
    fn what_is_not_relative_or_no_url_is_refused() {
        for (text, why) in [
            ("https://register.example/api/v2/Individual", "leave scheme and host out"),
            ("HTTP:Individual", "leave scheme and host out"),
            ("//register.example/Individual", "leave scheme and host out"),
            ("Individual/urn:x#a|1", "encode # as %23"),
            ("$batch", "no other batch"),
            ("/api/v2/%24batch", "no other batch"),
            ("", "names no resource"),
            ("/", "names no resource"),
            ("/api/v2/", "names no resource"),
            ("?_count=1", "names no resource"),
            ("Individual/a b", "percent-encode"),
            ("Individual/\u{7f}", "percent-encode"),
        ] {
            let refusal = read(text).unwrap_err();
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
    }
}

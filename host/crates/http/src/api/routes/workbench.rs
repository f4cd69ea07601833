//! The workbench: a page for analysts, and its files, which are embedded in the program.
//!
//! **Invariant:** the files are the same for all clients and contain no data of the register; the page requests data
//! from the public API, with the token of the signed-in user.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::api::access::Public;
use crate::api::conditional::unless_kept;
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::path::NamePath;
use crate::api::extract::query::NoParameters;
use crate::api::openapi::document::TaggedBytes;
use daftar_domain::error_code::ErrorCode;

/// Immutable files may be cached for a year, the maximum of caches.
const FIXED: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const VARY: HeaderValue = HeaderValue::from_static("Accept-Encoding");

/// The page.
pub async fn page(_: Public, _: NoParameters, headers: HeaderMap) -> ApiResult {
    serve_page(&headers)
}

/// A file that the page loads.
pub async fn file(_: Public, NamePath(name): NamePath, _: NoParameters, headers: HeaderMap) -> ApiResult {
    serve_file(&headers, &name)
}

/// Returns the page, without access control.
///
/// # Errors
/// If the program was built without it.
pub fn serve_page(headers: &HeaderMap) -> ApiResult {
    let mut response = serve(headers, find(PAGE).ok_or_else(|| absent(is_there()))?);
    let told = response.headers_mut();
    told.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    // For browsers without support for `frame-ancestors`.
    told.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    Ok(response)
}

/// Returns a file of the page, without access control.
///
/// # Errors
/// If there is no file of that name.
pub fn serve_file(headers: &HeaderMap, name: &str) -> ApiResult {
    let served = find(name).filter(|_| name != PAGE).ok_or_else(|| absent(is_there()))?;
    Ok(serve(headers, served))
}

fn serve(headers: &HeaderMap, served: &'static Served) -> Response {
    let is_compressed = takes_gzip(headers);
    let form = if is_compressed { &served.gzip } else { &served.plain };
    let mut response = unless_kept(headers, form, served.media_type);
    let is_sent = response.status() != StatusCode::NOT_MODIFIED;
    let told = response.headers_mut();
    if is_compressed && is_sent {
        told.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if served.is_fixed {
        told.insert(header::CACHE_CONTROL, FIXED);
    }
    told.insert(header::VARY, VARY);
    response
}

/// There is no such file, or the page was not built.
fn absent(is_built: bool) -> Problem {
    let detail = if is_built {
        "the workbench has no such file; open /workbench, which names those that it has"
    } else {
        "this program was built without the workbench, which needs Node.js where it is built"
    };
    Problem::new(ErrorCode::NotFound, detail)
}

/// True if a client accepts gzip (RFC 9110, section 12.5.3): named, or included in `*`, with a quality above zero.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut by_any = false;
    for element in texts.flat_map(|text| text.split(',')) {
        let mut parts = element.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let is_wanted = quality.is_none_or(|quality| quality.parse::<f32>().is_ok_and(|quality| quality > 0.0));
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            return is_wanted;
        }
        by_any |= coding == "*" && is_wanted;
    }
    by_any
}

/// The page itself, by its name among the files.
pub const PAGE: &str = "index.html";

/// Content security policy: the page may run its own scripts, show its own styles and pictures, and call this server.
/// External resources, inline scripts and texts as scripts are forbidden.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the build.
struct File {
    name: &'static str,
    bytes: &'static [u8],
    compressed: &'static [u8],
}

/// Every file; empty if the page was not built.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/workbench.rs"));

/// One of the files, ready to be sent.
#[derive(Debug)]
pub struct Served {
    /// Media type.
    pub media_type: &'static str,
    /// True if its name contains a digest of its content, so that it never changes.
    pub is_fixed: bool,
    /// Uncompressed content.
    pub plain: TaggedBytes,
    /// Content compressed with gzip; its tag is different.
    pub gzip: TaggedBytes,
}

/// A file by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Served> {
    static SERVED: LazyLock<BTreeMap<&'static str, Served>> = LazyLock::new(|| {
        let known = FILES.iter().filter_map(|file| {
            let served = Served {
                media_type: media_type(file.name)?,
                is_fixed: is_fixed(file.name),
                plain: TaggedBytes::new(file.bytes),
                gzip: TaggedBytes::new(file.compressed),
            };
            Some((file.name, served))
        });
        known.collect()
    });
    SERVED.get(name)
}

/// True if the page was built.
#[must_use]
pub fn is_there() -> bool {
    !FILES.is_empty()
}

fn media_type(name: &str) -> Option<&'static str> {
    match name.rsplit('.').next() {
        Some("html") => Some("text/html; charset=utf-8"),
        Some("js") => Some("text/javascript; charset=utf-8"),
        Some("css") => Some("text/css; charset=utf-8"),
        Some("svg") => Some("image/svg+xml"),
        Some("txt") => Some("text/plain; charset=utf-8"),
        _ => None,
    }
}

/// `name.digest.extension`
fn is_fixed(name: &str) -> bool {
    name.split('.').count() == 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_the_page_says_why() {
        let without = absent(false);
        assert_eq!(without.status(), StatusCode::NOT_FOUND);
        assert_eq!(
            without.detail,
            "this program was built without the workbench, which needs Node.js where it is built"
        );
        assert_ne!(absent(true).detail, without.detail);
    }

    #[test]
    fn gzip_goes_to_those_who_take_it() {
        let takes = |value: &'static str| {
            takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]))
        };
        for right in ["gzip", "gzip, deflate, br, zstd", "br;q=1.0, GZIP;q=0.8", "*", "identity, *;q=0.1", "x-gzip"] {
            assert!(takes(right), "{right}");
        }
        for wrong in ["", "br", "gzip;q=0", "gzip;q=0.000, br", "*;q=0", "gzip;q=0, *", "gzipped"] {
            assert!(!takes(wrong), "{wrong}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}

#[cfg(test)]
mod workbench_tests {
    use super::*;

    #[test]
    fn a_name_with_a_digest_is_fixed() {
        assert!(is_fixed("main.Bx81kQz0.js") && is_fixed("main.Bx81kQz0.css"));
        assert!(!is_fixed("index.html") && !is_fixed("icon.svg"));
    }

    #[test]
    fn every_file_has_a_type_and_a_build_includes_the_page() {
        for file in FILES {
            assert!(find(file.name).is_some(), "{} has no media type", file.name);
        }
        assert_eq!(is_there(), find(PAGE).is_some());
    }

    #[test]
    fn the_two_forms_of_a_file_have_tags_of_their_own() {
        for served in FILES.iter().filter_map(|file| find(file.name)) {
            assert_ne!(served.plain.tag, served.gzip.tag);
            assert!(served.gzip.bytes.starts_with(&[0x1f, 0x8b]), "gzip begins with its magic number");
        }
    }
}

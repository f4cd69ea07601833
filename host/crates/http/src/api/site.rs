//! Pages and files that are embedded in the program: the workbench and the documentation site.
//!
//! **Invariant:** the files are the same for all clients and contain no data of the register.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::OnceLock;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use flate2::read::GzDecoder;

use crate::api::conditional::unless_cached;
use crate::api::openapi::document::TaggedBytes;

/// Immutable files may be cached for a year, the maximum of caches.
const FIXED: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const VARY: HeaderValue = HeaderValue::from_static("Accept-Encoding");

/// A file of a build.
#[derive(Debug)]
pub struct File {
    /// Path in the site.
    pub name: &'static str,
    /// Content, compressed with gzip.
    pub compressed: &'static [u8],
}

/// The files of a site by their paths.
#[derive(Debug)]
pub struct Site(BTreeMap<&'static str, Served>);

#[derive(Debug)]
struct Served {
    media_type: &'static str,
    /// True if its name contains a digest of its content, so that it never changes.
    is_fixed: bool,
    gzip: TaggedBytes,
    /// Decompressed for the first client that does not accept gzip.
    plain: OnceLock<Option<TaggedBytes>>,
}

impl Site {
    /// Those files; `is_fixed` tests whether a name contains a digest. Files of an unknown type are left out.
    #[must_use]
    pub fn new(files: &'static [File], is_fixed: fn(&str) -> bool) -> Self {
        let served = |file: &File| {
            let media_type = media_type(file.name)?;
            let (is_fixed, gzip) = (is_fixed(file.name), TaggedBytes::new(file.compressed));
            Some((file.name, Served { media_type, is_fixed, gzip, plain: OnceLock::new() }))
        };
        Self(files.iter().filter_map(served).collect())
    }

    /// True if the program was built with the site.
    #[must_use]
    pub fn is_there(&self) -> bool {
        !self.0.is_empty()
    }

    /// The content of a file.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<&TaggedBytes> {
        self.0.get(name)?.plain()
    }

    /// Returns a file, compressed if the client accepts that; none if the site has no such file.
    #[must_use]
    pub fn serve(&self, headers: &HeaderMap, name: &str) -> Option<Response> {
        let served = self.0.get(name)?;
        let is_compressed = takes_gzip(headers);
        let form = if is_compressed { &served.gzip } else { served.plain()? };
        let mut response = unless_cached(headers, form, served.media_type);
        let is_sent = response.status() != StatusCode::NOT_MODIFIED;
        let sent = response.headers_mut();
        if is_compressed && is_sent {
            sent.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if served.is_fixed {
            sent.insert(header::CACHE_CONTROL, FIXED);
        }
        sent.insert(header::VARY, VARY);
        Some(response)
    }
}

impl Served {
    fn plain(&self) -> Option<&TaggedBytes> {
        let unpack = || {
            let mut bytes = Vec::new();
            GzDecoder::new(self.gzip.bytes.as_ref()).read_to_end(&mut bytes).ok()?;
            Some(TaggedBytes::new(bytes))
        };
        self.plain.get_or_init(unpack).as_ref()
    }
}

/// Adds the content security policy of a page to its response.
pub fn restrict(response: &mut Response, policy: HeaderValue) {
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    // For browsers without support for `frame-ancestors`.
    response.headers_mut().insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
}

/// Media types by extension of a file.
const MEDIA_TYPES: [(&str, &str); 16] = [
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("h", "text/plain; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "text/plain; charset=utf-8"),
    ("png", "image/png"),
    ("py", "text/plain; charset=utf-8"),
    ("service", "text/plain; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("sql", "text/plain; charset=utf-8"),
    ("toml", "text/plain; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("woff2", "font/woff2"),
    ("yaml", "text/plain; charset=utf-8"),
    ("zig", "text/plain; charset=utf-8"),
];

fn media_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    MEDIA_TYPES.iter().find(|(known, _)| *known == extension).map(|(_, media_type)| *media_type)
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

#[cfg(test)]
mod tests {
    use super::*;

    // `printf 'body{}' | gzip -n9`
    static FILES: [File; 2] = [
        File {
            name: "a-00112233.css",
            compressed: &[
                31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 75, 202, 79, 169, 172, 174, 5, 0, 89, 113, 135, 226, 6, 0, 0, 0,
            ],
        },
        File { name: "unknown.bin", compressed: &[] },
    ];

    #[test]
    fn a_file_is_sent_in_the_form_that_the_client_accepts() {
        let site = Site::new(&FILES, |name| name.starts_with("a-"));
        assert!(site.is_there() && site.content("unknown.bin").is_none());
        assert_eq!(site.content("a-00112233.css").unwrap().bytes.as_ref(), b"body{}");
        let gzip = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        let (packed, plain) =
            (site.serve(&gzip, "a-00112233.css").unwrap(), site.serve(&HeaderMap::new(), "a-00112233.css").unwrap());
        assert_eq!(
            (&packed.headers()[header::CONTENT_ENCODING], &packed.headers()[header::CACHE_CONTROL]),
            (&"gzip".parse().unwrap(), &FIXED)
        );
        assert_eq!(plain.headers().get(header::CONTENT_ENCODING), None);
        assert_ne!(packed.headers()[header::ETAG], plain.headers()[header::ETAG], "two forms are two representations");
    }

    #[test]
    fn gzip_is_sent_to_clients_that_accept_it() {
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

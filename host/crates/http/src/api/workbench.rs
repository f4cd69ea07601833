//! The files of the workbench's page, which are inside the program.
//!
//! **Invariant:** they are the same for everybody and say nothing of the register; what the page shows it asks the public API for, with
//! the token of whoever signed in.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::conditional::tag_of;

/// The page itself, by its name among the files.
pub const PAGE: &str = "index.html";

/// What the page may do: run its own scripts, show its own styles and pictures, and call this server. Nothing is taken from elsewhere,
/// nothing inline runs, and no text becomes a script.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A file as it was built.
struct File {
    name: &'static str,
    bytes: &'static [u8],
    compressed: &'static [u8],
}

/// Every file; none where the page was not built.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/workbench.rs"));

/// One of the files, ready to be sent.
#[derive(Debug)]
pub struct Served {
    /// What it is.
    pub media_type: &'static str,
    /// Whether its name holds a digest of what it says, so that it never changes.
    pub is_fixed: bool,
    /// It as it is.
    pub plain: Form,
    /// It compressed with gzip.
    pub gzip: Form,
}

/// Bytes with their entity tag: two forms of a file are told apart by it.
#[derive(Debug)]
pub struct Form {
    /// The bytes.
    pub bytes: &'static [u8],
    /// The tag, in quotation marks.
    pub tag: String,
}

impl Form {
    fn new(bytes: &'static [u8]) -> Self {
        Self { tag: tag_of(bytes), bytes }
    }
}

/// A file by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Served> {
    static SERVED: LazyLock<BTreeMap<&'static str, Served>> = LazyLock::new(|| {
        let known = FILES.iter().filter_map(|file| {
            let served = Served {
                media_type: media_type(file.name)?,
                is_fixed: is_fixed(file.name),
                plain: Form::new(file.bytes),
                gzip: Form::new(file.compressed),
            };
            Some((file.name, served))
        });
        known.collect()
    });
    SERVED.get(name)
}

/// Whether the page was built.
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
    fn a_name_with_a_digest_is_fixed() {
        assert!(is_fixed("main.Bx81kQz0.js") && is_fixed("main.Bx81kQz0.css"));
        assert!(!is_fixed("index.html") && !is_fixed("icon.svg"));
    }

    #[test]
    fn every_file_has_a_type_and_the_page_is_among_them_where_there_are_any() {
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

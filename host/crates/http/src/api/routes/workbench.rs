//! The workbench: a page for analysts, and its files. The page requests data from the public API, with the token of the
//! signed-in user.

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue};

use crate::api::access::PageCall;
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::path::NamePath;
use crate::api::extract::query::NoParameters;
use crate::api::site::{File, Site, restrict};
use daftar_domain::error_code::ErrorCode;

/// The page.
pub async fn page(_: PageCall, _: NoParameters, headers: HeaderMap) -> ApiResult {
    serve_page(&headers)
}

/// A file that the page loads.
pub async fn file(_: PageCall, NamePath(name): NamePath, _: NoParameters, headers: HeaderMap) -> ApiResult {
    serve_file(&headers, &name)
}

/// Returns the page, without access control.
///
/// # Errors
/// If the program was built without it.
pub fn serve_page(headers: &HeaderMap) -> ApiResult {
    let mut response = SITE.serve(headers, PAGE).ok_or_else(|| absent(SITE.is_there()))?;
    restrict(&mut response, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    Ok(response)
}

/// Returns a file of the page, without access control.
///
/// # Errors
/// If there is no file of that name.
pub fn serve_file(headers: &HeaderMap, name: &str) -> ApiResult {
    let response = if name == PAGE { None } else { SITE.serve(headers, name) };
    Ok(response.ok_or_else(|| absent(SITE.is_there()))?)
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

/// The page itself, by its name among the files.
pub const PAGE: &str = "index.html";

/// Content security policy: the page may run its own scripts, show its own styles and pictures, and call this server.
/// External resources, inline scripts and texts as scripts are forbidden.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Every file; empty if the page was not built.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/workbench.rs"));
static SITE: LazyLock<Site> = LazyLock::new(|| Site::new(FILES, is_fixed));

/// `name.digest.extension`
fn is_fixed(name: &str) -> bool {
    name.split('.').count() == 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    #[test]
    fn a_program_without_the_page_reports_the_reason() {
        let without = absent(false);
        assert_eq!(without.status(), StatusCode::NOT_FOUND);
        assert_eq!(
            without.detail,
            "this program was built without the workbench, which needs Node.js where it is built"
        );
        assert_ne!(absent(true).detail, without.detail);
    }

    #[test]
    fn a_name_with_a_digest_is_fixed() {
        assert!(is_fixed("main.Bx81kQz0.js") && is_fixed("main.Bx81kQz0.css"));
        assert!(!is_fixed("index.html") && !is_fixed("icon.svg"));
    }

    #[test]
    fn every_file_has_a_type_and_a_build_includes_the_page() {
        for file in FILES {
            assert!(SITE.content(file.name).is_some(), "{} has no media type or cannot be unpacked", file.name);
        }
        assert_eq!(SITE.is_there(), SITE.content(PAGE).is_some());
    }
}

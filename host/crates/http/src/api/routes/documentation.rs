//! The documentation site.

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::access::PageCall;
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::path::NamePath;
use crate::api::extract::query::{NoParameters, PageParameters};
use crate::api::site::{File, Site, restrict};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;

/// Every file of the site; empty if it was not built.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/docs.rs"));
static SITE: LazyLock<Site> = LazyLock::new(|| Site::new(FILES, is_fixed));

const HOME: &str = "/docs/";
/// The page of the API, which every program has.
const API_PAGE: &str = "/docs/api";
const INDEX: &str = "index.html";
/// The file of the site with the content security policy of its pages.
const POLICY: &str = "content-security-policy.txt";

/// The address of the site without its last `/`.
pub async fn home(_: PageCall, _: NoParameters) -> Response {
    redirect(StatusCode::PERMANENT_REDIRECT, HOME)
}

/// The first page; in a program without the site, a redirect to the page of the API.
pub async fn index(_: PageCall, _: PageParameters, headers: HeaderMap) -> ApiResult {
    if SITE.is_there() {
        return serve(&headers, INDEX);
    }
    Ok(redirect(StatusCode::TEMPORARY_REDIRECT, API_PAGE))
}

fn redirect(status: StatusCode, location: &'static str) -> Response {
    (status, [(header::LOCATION, location), (header::CACHE_CONTROL, "no-cache")]).into_response()
}

/// A page or a file.
pub async fn file(_: PageCall, NamePath(name): NamePath, _: PageParameters, headers: HeaderMap) -> ApiResult {
    serve(&headers, &name)
}

fn serve(headers: &HeaderMap, name: &str) -> ApiResult {
    let mut response = SITE.serve(headers, name).ok_or_else(|| absent(SITE.is_there()))?;
    if name.ends_with(".html") {
        let policy = SITE.content(POLICY).and_then(|policy| HeaderValue::from_bytes(&policy.bytes).ok());
        let policy = policy.ok_or_else(|| AppError::internal("the site has no content security policy"))?;
        restrict(&mut response, policy);
    }
    Ok(response)
}

fn absent(is_built: bool) -> Problem {
    let detail = if is_built {
        "the documentation has no such page; `/docs/` lists and searches all"
    } else {
        "this program was built without the documentation site; `cargo xtask dist` includes it, and `/docs/api` describes the API"
    };
    Problem::new(ErrorCode::NotFound, detail)
}

/// `name-digest.extension`, with a digest of eight hexadecimal digits.
fn is_fixed(name: &str) -> bool {
    let digest = name.rsplit_once('.').and_then(|(stem, _)| stem.rsplit_once('-')).map(|(_, digest)| digest);
    digest.is_some_and(|digest| digest.len() == 8 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_digest_is_fixed() {
        assert!(is_fixed("css/general-2cd42b1f.css") && is_fixed("searchindex-0123abcd.js"));
        assert!(!is_fixed("guides/quick-start.html") && !is_fixed("a-12345678"));
    }

    #[test]
    fn a_build_includes_every_file_and_the_policy() {
        for file in FILES {
            assert!(SITE.content(file.name).is_some(), "{} has no media type or cannot be unpacked", file.name);
        }
        assert_eq!(SITE.is_there(), SITE.content(POLICY).is_some() && SITE.content(INDEX).is_some());
    }
}

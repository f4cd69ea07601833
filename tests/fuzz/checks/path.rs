//! Identifiers in paths, through a router. The input is a raw path segment, and a text that is encoded as one.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use daftar_domain::identifier::IdentifierKey;
use daftar_http::api::extract::path::{CodePath, IdentifierPath, PATH_PART};
use percent_encoding::utf8_percent_encode;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

/// Maximum length of a response, in bytes.
const RESPONSE_BYTES_MAX: usize = 8_000;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be started"));

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    Router::new()
        .route("/record/{identifier}", get(|IdentifierPath(key): IdentifierPath| async move { key.reveal() }))
        .route(
            "/code/{namespace}/{code}",
            get(|CodePath(namespace, code): CodePath| async move { format!("{namespace}#{code}") }),
        )
});

pub fn check(input: &[u8]) {
    for start in ["/record/", "/code/urn:x/", "/code/"] {
        let raw: Vec<u8> = start.bytes().chain(input.iter().copied()).collect();
        let Ok(uri) = Uri::try_from(raw) else { continue };
        let (status, text) = send(uri);
        let known = [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND];
        assert!(known.contains(&status), "{status}: {text}");
        assert!(text.len() <= RESPONSE_BYTES_MAX);
    }
    let Ok(text) = str::from_utf8(input) else { return };
    let encoded = utf8_percent_encode(text, PATH_PART).to_string();
    let Ok(uri) = Uri::try_from(format!("/record/{encoded}")) else { return };
    let expected = IdentifierKey::parse(text).is_ok();
    let (status, shown) = send(uri);
    assert_eq!(status == StatusCode::OK, expected, "{encoded}: {shown}");
    if expected {
        assert_eq!(shown, text, "an identifier arrives as it was encoded");
    }
}

fn send(uri: Uri) -> (StatusCode, String) {
    RUNTIME.block_on(async {
        let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
        let response: Response = ROUTER.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).expect("a response is UTF-8"))
    })
}

//! A response, checked for the properties of every response.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use daftar::domain::error_code::{ERROR_PAGES_PATH, ErrorCode};
use serde_json::Value;

/// A response.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    /// Parses the received bytes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        Self::parse_answer(bytes, false)
    }

    /// As [`Self::parse`]; the response to a HEAD has the headers of the GET and no body.
    pub(super) fn parse_answer(bytes: &[u8], is_head: bool) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no HTTP answer: {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..end]).expect("headers are ASCII");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        let status = status.unwrap_or_else(|| panic!("no status: {head}"));
        let mut response = Self { status, headers, body: bytes[end + 4..].to_vec() };
        if let Some(encoding) = response.header("transfer-encoding") {
            assert_eq!(encoding, "chunked");
            assert_eq!(response.header("content-type"), Some(LINES), "only a stream is sent in chunks");
            response.body = unchunked(&response.body);
        }
        if let Some(length) = response.header("content-length").filter(|_| !is_head) {
            assert_eq!(length, response.body.len().to_string(), "the body is as long as it says: {head}");
        }
        response
    }

    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Every header, its name in lower case.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The first header of that name as a number.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        let value = self.header(name).unwrap_or_else(|| panic!("`{name}` is missing: {self:?}"));
        value.parse().unwrap_or_else(|_| panic!("`{name}` is `{value}`, no number"))
    }

    /// The body as it is.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("a body is UTF-8")
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {}", self.text()))
    }

    /// The body as JSON, a value a line.
    #[must_use]
    pub fn lines(&self) -> Vec<Value> {
        let text = self.text();
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    /// The `detail` of a problem.
    #[must_use]
    pub fn detail(&self) -> String {
        let body = self.json();
        body["detail"].as_str().unwrap_or_else(|| panic!("`detail` is no string: {body}")).to_owned()
    }

    /// The `code` of a problem.
    #[must_use]
    pub fn code(&self) -> String {
        let body = self.json();
        body["code"].as_str().unwrap_or_else(|| panic!("`code` is no string: {body}")).to_owned()
    }

    /// Fails the test unless the status is this one.
    #[track_caller]
    #[must_use]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// A client with limits gets them in every response. A server that cannot respond may not have counted the request.
    pub(super) fn check_limits(&self, method: &str, target: &str) {
        if self.status >= 500 {
            return;
        }
        let [limit, remaining, reset_s] = LIMIT_HEADERS.map(|name| self.number(name));
        let is_sound = limit >= 1 && (0..=limit).contains(&remaining) && (0..=86_400).contains(&reset_s);
        assert!(is_sound, "{method} {target}: {remaining} of {limit} calls left, all of them in {reset_s} s: {self:?}");
        assert_eq!(self.status == 429, self.header("retry-after").is_some(), "{method} {target}: {self:?}");
    }

    /// Checks the properties of every response.
    pub(super) fn check(&self, request: &str) {
        assert_eq!(self.header("x-api-version"), Some("2.0.0"), "{request}: {self:?}");
        let request_id = self.header("x-request-id").unwrap_or_default();
        assert!(!request_id.is_empty(), "{request}: {self:?}");
        if self.status < 400 || request.starts_with("HEAD ") {
            return;
        }
        let body = self.json();
        assert!(body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{request}: {body}");
        if self.header("content-type") == Some("application/json") {
            assert!(body["error"].is_string() && body["error_description"].is_string(), "{request}: {body}");
            return;
        }
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{request}: {body}");
        assert_eq!(body["status"], self.status, "{request}");
        assert_eq!(body["request_id"], request_id, "{request}");
        assert!(body["title"].is_string(), "{request}: {body}");
        check_code(&body);
        if let Some(instance) = body["instance"].as_str() {
            assert!(is_route(instance), "{request}: `{instance}` is no route");
        }
    }
}

/// Fails the test unless a problem's code is one of the table, with its status, and its type the address of its
/// documentation.
#[track_caller]
fn check_code(problem: &Value) {
    let code = problem["code"].as_str().and_then(ErrorCode::parse).map(ErrorCode::entry);
    let entry = code.unwrap_or_else(|| panic!("the code is not one of the table: {problem}"));
    assert_eq!(problem["status"], entry.status, "{problem}");
    let page = format!("{ERROR_PAGES_PATH}/{}", entry.name);
    let kind = problem["type"].as_str().and_then(|kind| kind.strip_suffix(&page));
    assert!(kind.is_some_and(|url| url.starts_with("http")), "the type is not the page about the code: {problem}");
}

/// The headers that describe the limits of a caller.
const LIMIT_HEADERS: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// The media type of streamed responses.
pub const LINES: &str = "application/x-ndjson";

/// A body without chunk framing (RFC 9112, section 7.1); a truncated one ends where it does.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..end]).expect("a size is ASCII");
        let size = usize::from_str_radix(size, 16).expect("a size is hexadecimal");
        let chunk = &bytes[end + 2..];
        if size == 0 || chunk.len() < size + 2 {
            break;
        }
        body.extend_from_slice(&chunk[..size]);
        bytes = &chunk[size + 2..];
    }
    body
}

/// Tests whether a text is the pattern of a route and not a path with a person's identifier.
fn is_route(instance: &str) -> bool {
    static ROUTES: LazyLock<BTreeSet<String>> =
        LazyLock::new(|| daftar::api::router::endpoints().into_iter().flat_map(|endpoint| endpoint.paths).collect());
    let of_admin = [daftar::admin::router::BASE_PATH, daftar::admin::router::METRICS_PATH];
    ROUTES.contains(instance) || of_admin.into_iter().any(|path| instance.starts_with(path))
}

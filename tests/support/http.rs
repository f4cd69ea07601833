//! Requests byte for byte as a test says, from any loopback address; answers held to what every answer must be.
//!
//! **Invariant:** no answer passes through here without its request id and API version, and no problem without the shape
//! that problems have, and none that the OpenAPI document does not tell of.

mod held;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use socket2::{Domain, Socket, Type};

pub use self::held::Held;

use super::contract;

/// How long an answer may take; nothing in the tests needs a tenth of it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A loopback address that nothing in this process has used yet: a full bucket.
#[must_use]
pub fn fresh_address() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // 127.1.0.1 and on, in networks of which the first and the last address stay unused.
    let [_, high, middle, low] = (number / 254 * 256 + number % 254 + 1).to_be_bytes();
    Ipv4Addr::new(127, high + 1, middle, low)
}

/// A way to a listener on this machine.
#[derive(Debug, Clone)]
pub struct Connection {
    port: Arc<AtomicU16>,
    source: Ipv4Addr,
    /// Whether the listener counts who calls.
    is_counted: bool,
}

impl Connection {
    /// To that port, wherever the port moves, from an address that nobody else uses.
    #[must_use]
    pub fn new(port: Arc<AtomicU16>) -> Self {
        Self { port, source: fresh_address(), is_counted: true }
    }

    /// The same to a listener of the operator, which counts nobody.
    #[must_use]
    pub fn to_operator(port: Arc<AtomicU16>) -> Self {
        Self { is_counted: false, ..Self::new(port) }
    }

    /// The same way from that address.
    #[must_use]
    pub fn from(&self, source: Ipv4Addr) -> Self {
        Self { source, ..self.clone() }
    }

    /// The address that requests come from.
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        self.source
    }

    /// Where requests go to, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.server())
    }

    /// A request to be filled in and sent.
    #[must_use]
    pub fn request(&self, method: &str, target: &str) -> Request {
        Request {
            connection: self.clone(),
            method: method.to_owned(),
            // A link is followed by its path.
            target: target.strip_prefix(&self.url()).unwrap_or(target).to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            declared_bytes: None,
        }
    }

    /// Sends bytes as they are and returns what comes back until the server closes the connection.
    #[must_use]
    pub fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.open();
        // A server that refuses early stops reading; its answer is what counts.
        let _is_read_to_the_end = stream.write_all(bytes).is_ok();
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert!(!answer.is_empty(), "no answer came: {error}");
        }
        answer
    }

    /// Sends the head of a request and waits until the server asks for the body, which it does when whoever answers it is
    /// known. Then does something, sends the body and returns the answer. The head says neither length nor `Expect`.
    #[must_use]
    pub fn exchange_slowly(&self, head: &str, body: &str, meanwhile: impl FnOnce()) -> Response {
        let mut stream = self.open();
        let length = body.len();
        let head = format!("{head}Content-Length: {length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("the server reads");
        let mut line = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut line).expect("the server answers");
        assert!(line.starts_with(b"HTTP/1.1 100"), "the body is not asked for: {:?}", String::from_utf8_lossy(&line));
        meanwhile();
        stream.write_all(body.as_bytes()).expect("the server reads on");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the server answers");
        Response::parse(&answer)
    }

    /// Sends bytes and reads until what came holds `until`.
    fn hold_after(&self, bytes: &[u8], until: &str) -> Held {
        let mut stream = self.open();
        stream.write_all(bytes).expect("the server reads");
        Held::after(stream, until)
    }

    /// As [`Self::exchange`]; none where the server goes away before or while it answers.
    fn try_exchange(&self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut stream = self.try_open()?;
        stream.write_all(bytes)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn open(&self) -> TcpStream {
        self.try_open().expect("the server accepts connections from a loopback address")
    }

    fn try_open(&self) -> std::io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(IpAddr::V4(self.source), 0).into())?;
        socket.connect(&self.server().into())?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(stream)
    }

    fn server(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.load(Ordering::Acquire)))
    }
}

/// A request on its way.
#[derive(Debug, Clone)]
pub struct Request {
    connection: Connection,
    method: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    declared_bytes: Option<usize>,
}

impl Request {
    /// Adds a header, also one that is there already.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Adds an access token.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", format!("Bearer {token}"))
    }

    /// Sets the body and says that it is JSON.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// Sets the body and its media type.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self.header("Content-Type", content_type)
    }

    /// Declares a length other than the body's.
    #[must_use]
    pub fn declare_length(mut self, bytes: usize) -> Self {
        self.declared_bytes = Some(bytes);
        self
    }

    /// Sends it to a server that may be killed meanwhile; none where no whole answer came.
    #[must_use]
    pub fn try_send(self) -> Option<Response> {
        let answer = self.connection.try_exchange(&self.bytes()).ok()?;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&answer[..end]).ok()?.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
        let length: usize = length.trim().parse().ok()?;
        (answer.len() - end - 4 == length).then(|| Response::parse(&answer))
    }

    /// Sends it and waits for the answer.
    #[must_use]
    pub fn send(self) -> Response {
        let response = Response::parse_answer(&self.connection.exchange(&self.bytes()), self.method == "HEAD");
        response.check(&format!("{} {}", self.method, self.target));
        if self.connection.is_counted && !self.target.starts_with(HEALTH) {
            response.check_limits(&self.method, &self.target);
        }
        contract::hold(&self.method, &self.target, &response);
        response
    }

    /// Sends it and reads until what came holds `until`.
    #[must_use]
    pub fn hold_after(self, until: &str) -> Held {
        self.connection.hold_after(&self.bytes(), until)
    }

    /// Sends it, reads until what came holds `until`, and leaves.
    pub fn leave_after(self, until: &str) -> String {
        self.hold_after(until).text()
    }

    /// Sends it and waits for nothing.
    #[must_use]
    pub fn hold(self) -> Held {
        self.hold_after("")
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", self.method, self.target);
        let length = self.declared_bytes.unwrap_or(self.body.len());
        if length > 0 || self.method != "GET" {
            bytes.push_str(&format!("Content-Length: {length}\r\n"));
        }
        let mut bytes = bytes.into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: ").as_bytes());
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    /// Reads what came over the wire.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        Self::parse_answer(bytes, false)
    }

    /// As [`Self::parse`]; the answer to a HEAD has the headers of the GET and no body.
    fn parse_answer(bytes: &[u8], is_head: bool) -> Self {
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
            assert_eq!(response.header("content-type"), Some(LINES), "whatever is no stream is sent whole");
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

    /// The `detail` of a refusal.
    #[must_use]
    pub fn detail(&self) -> String {
        let body = self.json();
        body["detail"].as_str().unwrap_or_else(|| panic!("`detail` is no string: {body}")).to_owned()
    }

    /// Fails the test unless the status is this one.
    #[track_caller]
    #[must_use]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// Whoever is counted is told of its limits, whatever else the answer says. A server that cannot answer may not have counted.
    fn check_limits(&self, method: &str, target: &str) {
        if self.status >= 500 {
            return;
        }
        let [limit, remaining, reset_s] = LIMIT_HEADERS.map(|name| self.number(name));
        let is_sound = limit >= 1 && (0..=limit).contains(&remaining) && (0..=86_400).contains(&reset_s);
        assert!(is_sound, "{method} {target}: {remaining} of {limit} calls left, all of them in {reset_s} s: {self:?}");
        assert_eq!(self.status == 429, self.header("retry-after").is_some(), "{method} {target}: {self:?}");
    }

    /// What holds for every answer.
    fn check(&self, request: &str) {
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
        assert!(body["title"].is_string() && body["type"].is_string(), "{request}: {body}");
        if let Some(instance) = body["instance"].as_str() {
            assert!(is_route(instance), "{request}: `{instance}` is no route");
        }
    }
}

/// Where a server tells that it lives, to everybody and uncounted.
const HEALTH: &str = "/health/";
/// The headers that tell a caller of its limits.
const LIMIT_HEADERS: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// The media type of answers that are sent as they come.
pub const LINES: &str = "application/x-ndjson";

/// A body without the sizes of its chunks (RFC 9112, section 7.1); one that breaks off ends where it does.
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

/// Whether a text is the pattern of a route, never a path with somebody's identifier in it.
fn is_route(instance: &str) -> bool {
    static ROUTES: LazyLock<BTreeSet<String>> =
        LazyLock::new(|| daftar::api::router::endpoints().into_iter().flat_map(|endpoint| endpoint.paths).collect());
    let of_admin = [daftar::admin::router::BASE_PATH, daftar::admin::router::METRICS_PATH];
    ROUTES.contains(instance) || of_admin.into_iter().any(|path| instance.starts_with(path))
}

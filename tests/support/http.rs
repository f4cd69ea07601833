//! Requests byte for byte as a test specifies, from any loopback address; responses are checked for the properties of
//! every response.
//!
//! **Invariant:** every response is checked for its request id and API version, every problem for its schema,
//! and every response for its description in the OpenAPI document.

mod held;
mod response;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use socket2::{Domain, Socket, Type};

pub use self::held::Held;
pub use self::response::{LINES, Response};

use super::contract;

/// Timeout of a response; no test needs a tenth of it.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Path of the health checks, which are open to every client and not rate limited.
const HEALTH: &str = "/health/";

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
    /// True if the listener limits requests by address.
    is_counted: bool,
}

impl Connection {
    /// A connection to that port, also after it changes, from an address that no other client uses.
    #[must_use]
    pub fn new(port: Arc<AtomicU16>) -> Self {
        Self { port, source: fresh_address(), is_counted: true }
    }

    /// The same to a listener of the operator, which has no limits.
    #[must_use]
    pub fn to_operator(port: Arc<AtomicU16>) -> Self {
        Self { is_counted: false, ..Self::new(port) }
    }

    /// The same way from that address.
    #[must_use]
    pub fn from(&self, source: Ipv4Addr) -> Self {
        Self { source, ..self.clone() }
    }

    /// Returns the source address of requests.
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        self.source
    }

    /// Returns the base URL of requests, without a path.
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

    /// Sends bytes unchanged and returns all received bytes until the server closes the connection.
    #[must_use]
    pub fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.open();
        // A server that rejects early stops reading; only its response counts.
        let _is_read_to_the_end = stream.write_all(bytes).is_ok();
        let mut response = Vec::new();
        if let Err(error) = stream.read_to_end(&mut response) {
            assert!(!response.is_empty(), "no answer came: {error}");
        }
        response
    }

    /// Sends the head of a request and waits until the server requests the body, which it does once the handler is
    /// known. Then calls `before_body`, sends the body and returns the response. The head has neither length nor
    /// `Expect`.
    #[must_use]
    pub fn exchange_slowly(&self, head: &str, body: &str, before_body: impl FnOnce()) -> Response {
        let mut stream = self.open();
        let length = body.len();
        let head = format!("{head}Content-Length: {length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("the server reads");
        let mut line = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut line).expect("the server answers");
        assert!(line.starts_with(b"HTTP/1.1 100"), "the body is not asked for: {:?}", String::from_utf8_lossy(&line));
        before_body();
        stream.write_all(body.as_bytes()).expect("the server reads on");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("the server answers");
        Response::parse(&response)
    }

    /// Sends bytes and reads until the response contains `until`.
    fn hold_after(&self, bytes: &[u8], until: &str) -> Held {
        let mut stream = self.open();
        stream.write_all(bytes).expect("the server reads");
        Held::after(stream, until)
    }

    /// As [`Self::exchange`]; none if the server disconnects before or during the response.
    fn try_exchange(&self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut stream = self.try_open()?;
        stream.write_all(bytes)?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response)?;
        Ok(response)
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
    /// Adds a header, also if it is already present.
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

    /// Sets a JSON body and its media type.
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

    /// Sends it to a server that may be killed during the request; none if the connection broke before the complete
    /// response.
    #[must_use]
    pub fn try_send(self) -> Option<Response> {
        let response = self.connection.try_exchange(&self.bytes()).ok()?;
        let end = response.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&response[..end]).ok()?.to_ascii_lowercase();
        let length = match head.lines().find_map(|line| line.strip_prefix("content-length:")) {
            Some(length) => length.trim().parse().ok()?,
            // A response without content has no length.
            None if head.starts_with("http/1.1 204") => 0,
            None => return None,
        };
        (response.len() - end - 4 == length).then(|| self.checked(Response::parse(&response)))
    }

    /// Sends it and waits for the response.
    #[must_use]
    pub fn send(self) -> Response {
        let response = self.connection.exchange(&self.bytes());
        self.checked(Response::parse_answer(&response, self.method == "HEAD"))
    }

    #[track_caller]
    fn checked(&self, response: Response) -> Response {
        response.check(&format!("{} {}", self.method, self.target));
        if self.connection.is_counted && !self.target.starts_with(HEALTH) {
            response.check_limits(&self.method, &self.target);
        }
        contract::hold(&self.method, &self.target, &response);
        response
    }

    /// Sends it and reads until the response contains `until`.
    #[must_use]
    pub fn hold_after(self, until: &str) -> Held {
        self.connection.hold_after(&self.bytes(), until)
    }

    /// Sends it, reads until the response contains `until`, and disconnects.
    pub fn leave_after(self, until: &str) -> String {
        self.hold_after(until).text()
    }

    /// Sends it without waiting for the response.
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

//! Requests as bytes, and one blocking connection that sends them sequentially.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, Socket, Type};

/// Timeout of a response, more than ten times any measured response time.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The head of a response: the status, and the position of the body.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// Size of the head, in bytes.
    pub head_bytes: usize,
    /// Size of head and body, in bytes.
    pub whole_bytes: usize,
}

impl Head {
    /// Parses the head of the received bytes. Returns `None` while it is incomplete.
    pub fn parse(arrived: &[u8]) -> Result<Option<Self>, String> {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(arrived).map_err(|error| error.to_string())?;
        let httparse::Status::Complete(head_bytes) = parsed else { return Ok(None) };
        let length = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
        let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok());
        let length = length.ok_or("a response has no length")?;
        let status = response.code.unwrap_or_default();
        Ok(Some(Self { status, head_bytes, whole_bytes: head_bytes + length }))
    }
}

/// Returns a GET request with a token.
pub fn get(path: &str, token: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n").into_bytes()
}

/// Returns a request with a JSON body. `more` contains further header lines.
pub fn send(method: &str, path: &str, token: &str, more: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    )
    .into_bytes()
}

/// Returns a request for a token.
pub fn token_request(id: &str, secret: &str) -> Vec<u8> {
    let body = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}");
    let length = body.len();
    format!(
        "POST /api/v2/oauth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Returns the text encoded for a query string.
pub fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// A connection.
pub struct Connection {
    stream: TcpStream,
    arrived: Vec<u8>,
}

impl Connection {
    /// Connects to a server from the default loopback address.
    pub fn to(address: SocketAddr) -> Result<Self, String> {
        Self::from(Ipv4Addr::LOCALHOST, address)
    }

    /// Connects from a given loopback address. The server counts requests without a token by address.
    pub fn from(source: Ipv4Addr, address: SocketAddr) -> Result<Self, String> {
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&SocketAddr::from((source, 0)).into())?;
            socket.connect(&address.into())?;
            socket.set_tcp_nodelay(true)?;
            let stream = TcpStream::from(socket);
            stream.set_read_timeout(Some(TIMEOUT))?;
            Ok::<_, std::io::Error>(stream)
        };
        let stream = connect().map_err(|error| format!("cannot connect from {source}: {error}"))?;
        Ok(Self { stream, arrived: Vec::with_capacity(16 * 1_024) })
    }

    /// Sends a request and returns the status and body of the complete response.
    pub fn exchange(&mut self, request: &[u8]) -> Result<(u16, &[u8]), String> {
        self.stream.write_all(request).map_err(|error| error.to_string())?;
        self.arrived.clear();
        let mut part = [0; 16 * 1_024];
        loop {
            if let Some(head) = Head::parse(&self.arrived)?
                && self.arrived.len() >= head.whole_bytes
            {
                return Ok((head.status, self.arrived.get(head.head_bytes..head.whole_bytes).unwrap_or_default()));
            }
            let read = self.stream.read(&mut part).map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("the server closed a connection".to_owned());
            }
            self.arrived.extend_from_slice(part.get(..read).unwrap_or_default());
        }
    }

    /// Sends a request whose response must have that status; returns its duration in microseconds, and the body.
    pub fn timed(&mut self, request: &[u8], status: u16) -> Result<(f64, &[u8]), String> {
        let sent = Instant::now();
        let (got, body) = self.exchange(request)?;
        let time_us = sent.elapsed().as_secs_f64() * 1e6;
        if got == status {
            return Ok((time_us, body));
        }
        Err(format!("a response has the status {got} instead of {status}: {}", String::from_utf8_lossy(body)))
    }

    /// Returns the response to a request, as JSON.
    pub fn json(&mut self, request: &[u8], status: u16) -> Result<Value, String> {
        let (_, body) = self.timed(request, status)?;
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }

    /// Returns the complete response to a request, head and body.
    pub fn whole(&mut self, request: &[u8], status: u16) -> Result<Vec<u8>, String> {
        self.timed(request, status)?;
        Ok(self.arrived.clone())
    }
}

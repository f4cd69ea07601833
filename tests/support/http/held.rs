//! A response that is read as far as a test specifies, and then completely or not at all.

use std::io::Read;
use std::net::TcpStream;

use super::Response;

/// A response that has begun. Dropping it closes the connection.
#[derive(Debug)]
pub struct Held {
    stream: TcpStream,
    response: Vec<u8>,
}

impl Held {
    /// Reads until the response contains `until`.
    pub(super) fn after(mut stream: TcpStream, until: &str) -> Self {
        let mut response = Vec::new();
        let mut part = [0; 4_096];
        while !String::from_utf8_lossy(&response).contains(until) {
            let count = stream.read(&mut part).expect("the server answers");
            assert!(count > 0, "it ended before `{until}`: {}", String::from_utf8_lossy(&response));
            response.extend_from_slice(&part[..count]);
        }
        Self { stream, response }
    }

    /// The bytes received so far.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.response).into_owned()
    }

    /// The complete response.
    #[must_use]
    pub fn finish(mut self) -> Response {
        self.stream.read_to_end(&mut self.response).expect("the server answers to the end");
        Response::parse(&self.response)
    }
}

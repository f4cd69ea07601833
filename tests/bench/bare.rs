//! The bare server that reads and writes are compared with: a process of its own on the same framework, listener and
//! allocator, which reads and parses the same requests and sends the same bytes, and does nothing else.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

/// The argument by which this program becomes the bare server; the file with the response to send follows.
pub const MODE: &str = "bare";

/// A running bare server.
pub struct Bare {
    child: Child,
    /// Its address.
    pub address: SocketAddr,
}

impl Bare {
    /// Starts one that sends this response, head and body as the server sent them.
    pub fn start(folder: &Path, response: &[u8]) -> Result<Self, String> {
        let file = folder.join("response");
        std::fs::write(&file, response).map_err(|error| error.to_string())?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        let mut child =
            command.arg(MODE).arg(&file).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        let address = line.trim().parse().map_err(|_| "the bare server did not start".to_owned())?;
        Ok(Self { child, address })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _is_ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Serves until it is killed.
pub fn serve(file: &Path) -> Result<(), String> {
    let response = Arc::new(Canned::read(file)?);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
        listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        println!("{}", listener.local_addr().map_err(|error| error.to_string())?);
        let (one, other) = (Arc::clone(&response), Arc::clone(&response));
        let read = move |headers: HeaderMap| async move { one.send(&headers) };
        let live = {
            let response = Arc::clone(&response);
            move |headers: HeaderMap| async move { response.send(&headers) }
        };
        // The body is read, as any handler must.
        let write = move |headers: HeaderMap, body: Bytes| async move {
            drop(body);
            other.send(&headers)
        };
        let router = Router::new()
            .route("/health/live", get(live))
            .route("/api/v2/Individual/{identifier}", get(read))
            .route("/api/v2/Individual", post(write.clone()))
            .route("/api/v2/oauth/token", post(write));
        let server = axum_server::from_tcp(listener).map_err(|error| error.to_string())?;
        server.serve(router.into_make_service()).await.map_err(|error| error.to_string())
    })
}

/// A response that is sent again and again.
struct Canned {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Canned {
    fn read(file: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
        let mut parsed = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut parsed);
        let httparse::Status::Complete(head) = response.parse(&bytes).map_err(|error| error.to_string())? else {
            return Err("the response to send has no whole head".to_owned());
        };
        let mut headers = HeaderMap::new();
        for header in response.headers.iter() {
            // The framework writes these two itself.
            if header.name.eq_ignore_ascii_case("content-length") || header.name.eq_ignore_ascii_case("date") {
                continue;
            }
            let name: HeaderName = header.name.parse().map_err(|_| "a header has no name".to_owned())?;
            headers.append(name, HeaderValue::from_bytes(header.value).map_err(|error| error.to_string())?);
        }
        let status = StatusCode::from_u16(response.code.unwrap_or_default()).map_err(|error| error.to_string())?;
        let body = Bytes::copy_from_slice(bytes.get(head..).unwrap_or_default());
        Ok(Self { status, headers, body })
    }

    fn send(&self, request: &HeaderMap) -> Response {
        if !request.contains_key("host") {
            return StatusCode::BAD_REQUEST.into_response();
        }
        (self.status, self.headers.clone(), self.body.clone()).into_response()
    }
}

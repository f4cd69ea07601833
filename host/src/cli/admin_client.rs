//! Client of the admin API: connects to a running server over HTTP, or opens the data folder of a stopped server.
//!
//! Both connections use the same router, so that a command has the same effect on either.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{Request, Uri, header};
use http_body_util::BodyExt;
use secrecy::ExposeSecret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt;
use ureq::tls::TlsConfig;

use super::{CliError, GlobalArgs};
use crate::app::App;
use crate::app::plugin_files::PluginFile;
use crate::app::restore::is_unfinished;
use crate::app::serve::RunningServer;
use crate::client_tls::{TrustError, trust};
use daftar_api_types::admin::ListBody;
use daftar_api_types::problem::Problem;
use daftar_auth::admin_token::AdminToken;
use daftar_domain::config::{Config, StoreBackend, admin_token_from_environment};
use daftar_http::admin::plugin::SIGNATURE_HEADER;
use daftar_http::admin::router::{BASE_PATH, router};

/// Time that a command waits for a response of the server, or for the next bytes of a long response.
const TIMEOUT: Duration = Duration::from_secs(150);
/// Number of records in a page of a list.
const PAGE_RECORDS: usize = 100;
/// Maximum size of a response body, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A connection to the admin API.
pub enum AdminClient {
    /// A running server.
    Remote {
        /// The base URL, without a path.
        url: String,
        /// Its admin token.
        token: AdminToken,
        /// The HTTP client.
        agent: ureq::Agent,
    },
    /// The data folder of a stopped server.
    Local {
        /// Runtime that executes the requests.
        runtime: Runtime,
        /// The register.
        app: App,
    },
}

/// Scope of [`TIMEOUT`].
#[derive(Clone, Copy)]
enum Patience {
    /// The complete response.
    ForAll,
    /// Each read of the response body: the total time is unlimited, and a dead connection times out.
    ForEachRead,
}

/// The body of a request, with the headers that describe it.
#[derive(Default)]
pub struct Payload {
    headers: Vec<(&'static str, String)>,
    bytes: Vec<u8>,
}

impl Payload {
    fn of(content_type: &str, bytes: Vec<u8>) -> Self {
        Self { headers: vec![(header::CONTENT_TYPE.as_str(), content_type.to_owned())], bytes }
    }

    fn with(mut self, header: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((header, value.into()));
        self
    }

    /// Returns a JSON body.
    ///
    /// # Errors
    /// If the value cannot be serialized as JSON, which is a defect.
    pub fn json(body: &impl Serialize) -> Result<Self, CliError> {
        Ok(Self::of("application/json", serde_json::to_vec(body).map_err(CliError::failed)?))
    }

    /// Returns a JSON body for a request with an NDJSON response.
    ///
    /// # Errors
    /// As [`Payload::json`].
    pub fn for_lines(body: &impl Serialize) -> Result<Self, CliError> {
        Ok(Self::json(body)?.with(header::ACCEPT.as_str(), "application/x-ndjson"))
    }

    /// Returns an NDJSON body.
    pub fn lines(bytes: Vec<u8>) -> Self {
        Self::of("application/x-ndjson", bytes)
    }

    /// Returns a body with a plugin and its signature.
    pub fn plugin(PluginFile { bytes, signature }: PluginFile) -> Self {
        let payload = Self::of("application/wasm", bytes);
        match signature {
            Some(line) => payload.with(SIGNATURE_HEADER, line.trim_end()),
            None => payload,
        }
    }

    /// Makes the request conditional on the record's version, if one is passed.
    pub fn at(self, version: Option<String>) -> Self {
        match version {
            Some(version) => self.with(header::IF_MATCH.as_str(), format!("\"{version}\"")),
            None => self,
        }
    }
}

/// Percent-encodes a path segment.
pub fn part(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Appends query parameters to a path; parameters without a value are omitted.
pub fn with_query<'q>(path: &str, parameters: impl IntoIterator<Item = (&'q str, Option<&'q str>)>) -> String {
    let given = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Reads a response body as its type; members that a newer server added are ignored.
///
/// # Errors
/// If the body does not match the type.
pub fn read<T: DeserializeOwned>(body: Value) -> Result<T, CliError> {
    serde_json::from_value(body).map_err(|error| {
        CliError::failed(format_args!("the server's response is not as expected: {error}; is it of another version?"))
    })
}

impl AdminClient {
    /// Connects to `--admin-url`, or to the server that uses the data folder, or else opens the folder itself with the
    /// configuration of `--config`. The folder must contain a register: a mistyped path is reported, and no folder is
    /// created.
    ///
    /// # Errors
    /// When the configuration or the token cannot be read, or the folder cannot be opened or contains no register.
    pub fn connect(global: &GlobalArgs) -> Result<Self, CliError> {
        Self::connect_or_begin(global, false)
    }

    /// As [`AdminClient::connect`]; if the command `begins` a register, a missing register is created.
    ///
    /// # Errors
    /// As [`AdminClient::connect`].
    pub fn connect_or_begin(global: &GlobalArgs, begins: bool) -> Result<Self, CliError> {
        if let Some(running) = Self::connect_running(global)? {
            return Ok(running);
        }
        let config = global.config()?;
        if !begins {
            expect_register(global, &config)?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
        let app = runtime.block_on(App::open(config, global.app_options(global.data_dir.clone())))?;
        Ok(Self::Local { runtime, app })
    }

    /// As [`AdminClient::connect`], to a running server only; returns none if no server uses the data folder.
    ///
    /// # Errors
    /// When the token cannot be read.
    pub fn connect_running(global: &GlobalArgs) -> Result<Option<Self>, CliError> {
        if let Some(url) = &global.admin_url {
            let token = match &global.admin_token_file {
                Some(path) => AdminToken::load_file(path).map_err(CliError::denied)?,
                None => admin_token_from_environment().and_then(|text| AdminToken::parse(&text)).ok_or_else(|| {
                    CliError::denied(
                        "--admin-url needs --admin-token-file FILE or the environment variable DAFTAR_ADMIN_TOKEN",
                    )
                })?,
            };
            return Self::remote(url.trim_end_matches('/').to_owned(), token, global.admin_ca.as_deref()).map(Some);
        }
        if let Some(running) = RunningServer::find(&global.data_dir) {
            let token = AdminToken::load(&global.data_dir).map_err(CliError::denied)?;
            return Self::remote(running.admin_url, token, None).map(Some);
        }
        Ok(None)
    }

    fn remote(url: String, token: AdminToken, trusted: Option<&Path>) -> Result<Self, CliError> {
        let mut config = ureq::Agent::config_builder().proxy(proxy(&url)).http_status_as_error(false);
        if url.starts_with("https://") {
            config = config.tls_config(tls(trusted, "--admin-ca")?);
        }
        Ok(Self::Remote { url, token, agent: config.build().into() })
    }

    /// Sends a request below the admin API's path and returns the JSON response.
    ///
    /// # Errors
    /// The response's `detail` when the request is rejected, or the connection error.
    pub fn call(&self, method: &str, path: &str, payload: Payload) -> Result<Value, CliError> {
        let body = read_whole(self.send(method, path, payload, Patience::ForAll)?)?;
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Sends a GET request to a path and returns the JSON response.
    ///
    /// # Errors
    /// As [`AdminClient::call`].
    pub fn get(&self, path: &str) -> Result<Value, CliError> {
        self.call("GET", path, Payload::default())
    }

    /// Sends a request with a JSON body and returns the JSON response.
    ///
    /// # Errors
    /// As [`AdminClient::call`].
    pub fn send_json(&self, method: &str, path: &str, body: &impl Serialize) -> Result<Value, CliError> {
        self.call(method, path, Payload::json(body)?)
    }

    /// Reads all pages of a list of records; `parameters` without a value are omitted.
    ///
    /// # Errors
    /// As [`AdminClient::call`].
    pub fn records(&self, path: &str, parameters: &[(&str, Option<&str>)]) -> Result<Value, CliError> {
        let mut data = Vec::new();
        loop {
            let (count, offset) = (PAGE_RECORDS.to_string(), data.len().to_string());
            let page = [("_count", Some(count.as_str())), ("_offset", Some(offset.as_str()))];
            let page = with_query(path, parameters.iter().copied().chain(page));
            let page: ListBody<Value> = read(self.get(&page)?)?;
            let is_last = page.data.len() < PAGE_RECORDS;
            data.extend(page.data);
            if is_last {
                return Ok(json!({"data": data}));
            }
        }
    }

    /// Sends a request below the admin API's path and streams the response body, whose size is unlimited.
    ///
    /// # Errors
    /// The response's `detail` when the request is rejected, or the connection error.
    pub fn download(&self, method: &str, path: &str, payload: Payload) -> Result<Download<'_>, CliError> {
        self.send(method, path, payload, Patience::ForEachRead)
    }

    /// Streams the lines of an NDJSON response.
    ///
    /// # Errors
    /// As [`AdminClient::download`]; for a line, when the connection ends before it or the line is not JSON.
    pub fn lines(
        &self,
        method: &'static str,
        path: &'static str,
        payload: Payload,
    ) -> Result<impl Iterator<Item = Result<Value, CliError>>, CliError> {
        let response = BufReader::new(self.download(method, path, payload)?);
        Ok(response.lines().map(|line| {
            let line =
                line.map_err(|error| CliError::unavailable(format!("the server closed the connection: {error}")))?;
            serde_json::from_str::<Value>(&line)
                .map_err(|error| CliError::failed(format!("a line of the server's answer is no JSON: {error}")))
        }))
    }

    /// Sends a request and returns the response after its headers arrived; a rejection is an error.
    fn send(&self, method: &str, path: &str, payload: Payload, patience: Patience) -> Result<Download<'_>, CliError> {
        let Payload { headers, bytes } = payload;
        let path = format!("{BASE_PATH}{path}");
        let (uri, token) = match self {
            Self::Remote { url, token, .. } => (format!("{url}{path}"), token),
            Self::Local { app, .. } => (path, &app.admin_token),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(&uri)
            .header(header::AUTHORIZATION, format!("Bearer {}", token.secret().expose_secret()));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let started = Instant::now();
        let (status, answer): (u16, Download<'_>) = match self {
            Self::Remote { url, agent, .. } => {
                let request = request.body(bytes).map_err(CliError::failed)?;
                let request = match patience {
                    Patience::ForAll => agent.configure_request(request).timeout_global(Some(TIMEOUT)).build(),
                    Patience::ForEachRead => agent.configure_request(request).timeout_per_read(Some(TIMEOUT)).build(),
                };
                let response = agent.run(request);
                let response = response.map_err(|error| {
                    CliError::unavailable(format_args!(
                        "cannot reach the server at {url}: {error}; is it running, and is this its admin address?"
                    ))
                })?;
                (response.status().as_u16(), Box::new(response.into_body().into_reader()))
            }
            Self::Local { runtime, app } => {
                let request = request.body(Body::from(bytes)).map_err(CliError::failed)?;
                let Ok(response) = runtime.block_on(router(app.state()).oneshot(request));
                (response.status().as_u16(), Box::new(Frames::new(runtime, response.into_body())))
            }
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        // The query parameters are omitted: they may identify individuals.
        let url = uri.split_once('?').map_or(uri.as_str(), |(url, _)| url);
        tracing::info!(method, url, status, duration_ms, "admin request");
        if (200..300).contains(&status) { Ok(answer) } else { Err(refused(status, answer)?) }
    }

    /// Runs `work` with this connection, then closes the connection.
    ///
    /// # Errors
    /// The errors of `work`.
    pub fn run<T>(self, work: impl FnOnce(&Self) -> Result<T, CliError>) -> Result<T, CliError> {
        let result = work(&self);
        self.close();
        result
    }

    /// Closes the data folder of a stopped server: all data is on disk afterwards.
    pub fn close(self) {
        if let Self::Local { runtime, app } = self {
            runtime.block_on(app.leave());
            app.close();
            drop(app);
            runtime.shutdown_timeout(TIMEOUT);
        }
    }
}

/// Checks that the data folder contains a register, before any file is created in it.
///
/// # Errors
/// When the folder contains no register.
pub fn expect_register(global: &GlobalArgs, config: &Config) -> Result<(), CliError> {
    if config.store.backend == StoreBackend::Postgres {
        return Ok(());
    }
    let store = config.store.folder(&global.data_dir);
    let is_empty = match std::fs::read_dir(&store) {
        Ok(mut entries) => entries.next().is_none(),
        // Opening the folder reports a missing read permission.
        Err(error) => [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()),
    };
    // Opening the folder reports an interrupted restore.
    if !is_empty || is_unfinished(&global.data_dir) {
        return Ok(());
    }
    Err(CliError::input(format_args!(
        "there is no register in `{}`: name its folder with --data-dir, and its settings with --config where they have `[store] path`; `daftar serve` makes a new one",
        global.data_dir.display()
    )))
}

/// The proxy of the environment for an address, and none for an address of this machine: a proxy would get the token or the
/// secret, and connect to its own machine.
pub fn proxy(url: &str) -> Option<ureq::Proxy> {
    let address = url.parse::<Uri>().ok()?;
    let host = address.host()?.trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_here { None } else { ureq::Proxy::try_from_env() }
}

/// Trusts the certificates in the file, or those of the system. `option` is the option that names the file.
///
/// # Errors
/// If the file does not exist or contains no certificate.
pub fn tls(trusted: Option<&Path>, option: &str) -> Result<TlsConfig, CliError> {
    trust(trusted).map_err(|error| match error {
        TrustError::NoFile => CliError::usage(format_args!(
            "this system has no file of trusted certificates: name one with {option} FILE"
        )),
        TrustError::Unreadable(file, error) => CliError::cannot_read(&file, &error),
        TrustError::NoCertificate(file) => {
            CliError::input(format_args!("there is no certificate in `{}`; a PEM file is needed", file.display()))
        }
    })
}

/// Returns the error for a rejected request.
fn refused(status: u16, answer: Download<'_>) -> Result<CliError, CliError> {
    let (message, code) = match serde_json::from_slice::<Problem<'_>>(&read_whole(answer)?) {
        Ok(Problem { detail, code, .. }) => (detail, Some(code)),
        Err(_) => {
            let hint = "is this the admin address of a server of daftar?";
            (format!("the answer has status {status} and no explanation: {hint}"), None)
        }
    };
    let refused = match status {
        401 | 403 => CliError::denied(message),
        429 | 503 => CliError::unavailable(message),
        _ => CliError::failed(message),
    };
    Ok(CliError { code, ..refused })
}

fn read_whole(answer: Download<'_>) -> Result<Vec<u8>, CliError> {
    let mut body = Vec::new();
    let read = answer.take(ANSWER_BYTES_MAX).read_to_end(&mut body);
    read.map_err(|error| CliError::unavailable(format_args!("the response was interrupted: {error}; try again")))?;
    Ok(body)
}

/// The body of a response. Reads block until bytes arrive; an interrupted body is an error, never an early end.
pub type Download<'c> = Box<dyn Read + 'c>;

/// The frames of a body, in order.
struct Frames<'c> {
    runtime: &'c Runtime,
    body: Body,
    left: Bytes,
}

impl<'c> Frames<'c> {
    fn new(runtime: &'c Runtime, body: Body) -> Self {
        Self { runtime, body, left: Bytes::new() }
    }
}

impl Read for Frames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() {
            match self.runtime.block_on(self.body.frame()) {
                None => return Ok(0),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok(frame)) => self.left = frame.into_data().unwrap_or_default(),
            }
        }
        let taken = self.left.split_to(self.left.len().min(buffer.len()));
        if let Some(room) = buffer.get_mut(..taken.len()) {
            room.copy_from_slice(&taken);
        }
        Ok(taken.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_the_router_is_read_to_its_end_in_pieces_of_any_size() {
        let runtime = Runtime::new().unwrap();
        for size in [1, 3, 64] {
            let mut download = Frames::new(&runtime, Body::from("a body of some bytes"));
            let mut text = Vec::new();
            let mut buffer = vec![0; size];
            loop {
                match download.read(&mut buffer).unwrap() {
                    0 => break,
                    read => text.extend_from_slice(&buffer[..read]),
                }
            }
            assert_eq!(text, b"a body of some bytes", "{size}");
        }
    }
}

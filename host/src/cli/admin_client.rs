//! Reaches the admin API: of a running server over HTTP, of a stopped one by opening its folder.
//!
//! Both ways go through the same router, so that a command does the same on either.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{Request, header};
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
/// Number of records of a list that are read at a time.
const PAGE_RECORDS: usize = 100;
/// The biggest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A way to the admin API.
pub enum AdminClient {
    /// A server that runs.
    Remote {
        /// The place, without a path.
        url: String,
        /// Its admin token.
        token: AdminToken,
        /// The connection.
        agent: ureq::Agent,
    },
    /// The folder of a server that is stopped.
    Local {
        /// Runner of the request.
        runtime: Runtime,
        /// The register.
        app: App,
    },
}

/// For what a command waits no longer than [`TIMEOUT`].
#[derive(Clone, Copy)]
enum Patience {
    /// For the whole answer.
    ForAll,
    /// For each part of the answer: a long one takes as long as it takes, and a connection that died ends.
    ForEachRead,
}

/// The body of a request, with the headers that say how it is meant.
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

    /// A body as JSON.
    ///
    /// # Errors
    /// If it cannot be JSON, which is a defect.
    pub fn json(body: &impl Serialize) -> Result<Self, CliError> {
        Ok(Self::of("application/json", serde_json::to_vec(body).map_err(CliError::failed)?))
    }

    /// A body as JSON, for a response of lines.
    ///
    /// # Errors
    /// As [`Payload::json`].
    pub fn for_lines(body: &impl Serialize) -> Result<Self, CliError> {
        Ok(Self::json(body)?.with(header::ACCEPT.as_str(), "application/x-ndjson"))
    }

    /// Lines of JSON.
    pub fn lines(bytes: Vec<u8>) -> Self {
        Self::of("application/x-ndjson", bytes)
    }

    /// A plugin with its signature.
    pub fn plugin(PluginFile { bytes, signature }: PluginFile) -> Self {
        let payload = Self::of("application/wasm", bytes);
        match signature {
            Some(line) => payload.with(SIGNATURE_HEADER, line.trim_end()),
            None => payload,
        }
    }

    /// The same for a record that is at that version still, where one is named.
    pub fn at(self, version: Option<String>) -> Self {
        match version {
            Some(version) => self.with(header::IF_MATCH.as_str(), format!("\"{version}\"")),
            None => self,
        }
    }
}

/// A part of a path, percent-encoded.
pub fn part(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A path with parameters; those without a value are left out.
pub fn with_query<'q>(path: &str, parameters: impl IntoIterator<Item = (&'q str, Option<&'q str>)>) -> String {
    let given = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Reads a response body as its type; members that a newer server added are ignored.
///
/// # Errors
/// If it is of another type.
pub fn read<T: DeserializeOwned>(body: Value) -> Result<T, CliError> {
    serde_json::from_value(body).map_err(|error| {
        CliError::failed(format_args!("the server's response is not as expected: {error}; is it of another version?"))
    })
}

impl AdminClient {
    /// Finds the way: `--admin-url`, or the server that uses the data folder, or else the folder itself, opened with
    /// the settings of `--config`. The folder must contain a register: a mistyped path is reported, and no folder is
    /// created.
    ///
    /// # Errors
    /// When the settings or the token cannot be read, or the folder cannot be opened or holds no register.
    pub fn connect(global: &GlobalArgs) -> Result<Self, CliError> {
        Self::connect_or_begin(global, false)
    }

    /// As [`AdminClient::connect`]; with a command by which a register `begins`, it is made where there is none.
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

    /// As [`AdminClient::connect`], to a server that runs; none, where none uses the data folder.
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
        let mut config = ureq::Agent::config_builder().http_status_as_error(false);
        if url.starts_with("https://") {
            config = config.tls_config(tls(trusted, "--admin-ca")?);
        }
        Ok(Self::Remote { url, token, agent: config.build().into() })
    }

    /// Sends a request below the admin API's path and reads its JSON answer.
    ///
    /// # Errors
    /// The answer's `detail` when it is refused, or what is wrong with the connection.
    pub fn call(&self, method: &str, path: &str, payload: Payload) -> Result<Value, CliError> {
        let body = read_whole(self.send(method, path, payload, Patience::ForAll)?)?;
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Reads what is at a path.
    ///
    /// # Errors
    /// As [`AdminClient::call`].
    pub fn get(&self, path: &str) -> Result<Value, CliError> {
        self.call("GET", path, Payload::default())
    }

    /// Sends a body of JSON.
    ///
    /// # Errors
    /// As [`AdminClient::call`].
    pub fn send_json(&self, method: &str, path: &str, body: &impl Serialize) -> Result<Value, CliError> {
        self.call(method, path, Payload::json(body)?)
    }

    /// Reads a list of records whole, page after page; `parameters` without a value are left out.
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

    /// Sends a request below the admin API's path and gives its answer as it arrives, however large it is.
    ///
    /// # Errors
    /// The answer's `detail` when it is refused, or what is wrong with the connection.
    pub fn download(&self, method: &str, path: &str, payload: Payload) -> Result<Download<'_>, CliError> {
        self.send(method, path, payload, Patience::ForEachRead)
    }

    /// The lines of a response as they arrive.
    ///
    /// # Errors
    /// As [`AdminClient::download`]; of a line, when the connection ends before it, or it is no JSON.
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

    /// Sends a request and waits for the head of its answer, which is no refusal.
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
        // Without the parameters, which may name people.
        let url = uri.split_once('?').map_or(uri.as_str(), |(url, _)| url);
        tracing::info!(method, url, status, duration_ms, "admin request");
        if (200..300).contains(&status) { Ok(answer) } else { Err(refused(status, answer)?) }
    }

    /// Works by this way, and closes it.
    ///
    /// # Errors
    /// Those of the work.
    pub fn run<T>(self, work: impl FnOnce(&Self) -> Result<T, CliError>) -> Result<T, CliError> {
        let result = work(&self);
        self.close();
        result
    }

    /// Ends the work on a stopped server's folder: everything is on disk afterwards.
    pub fn close(self) {
        if let Self::Local { runtime, app } = self {
            runtime.block_on(app.leave());
            app.close();
            drop(app);
            runtime.shutdown_timeout(TIMEOUT);
        }
    }
}

/// Checks that there is a register in the data folder, before anything is made there.
///
/// # Errors
/// When there is none.
pub fn expect_register(global: &GlobalArgs, config: &Config) -> Result<(), CliError> {
    if config.store.backend == StoreBackend::Postgres {
        return Ok(());
    }
    let store = config.store.folder(&global.data_dir);
    let is_empty = match std::fs::read_dir(&store) {
        Ok(mut entries) => entries.next().is_none(),
        // Opening reports a folder that this account may not read.
        Err(error) => [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()),
    };
    // Opening reports the remains of a restore.
    if !is_empty || is_unfinished(&global.data_dir) {
        return Ok(());
    }
    Err(CliError::input(format_args!(
        "there is no register in `{}`: name its folder with --data-dir, and its settings with --config where they have `[store] path`; `daftar serve` makes a new one",
        global.data_dir.display()
    )))
}

/// Trusts the certificates in that file, or those of the system. `option` names the file.
///
/// # Errors
/// If there is no such file, or no certificate in it.
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

/// Message of a rejection.
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

/// The body of a response. Reads block until bytes are there; an interrupted body is an error, never an early end.
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

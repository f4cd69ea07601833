//! The HTTP client by which exporters reach a collector.
//!
//! **Invariant:** time and response size are bounded. The client follows no redirects and ignores proxies of the
//! environment, so that only the collector receives the values of the headers. Of a response only the status is logged.
//!
//! **Invariant:** a file that all accounts may read is rejected, and no message contains a value of the file.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::trace::SpanExporter as _;
use prost::Message;
use secrecy::{ExposeSecret, SecretString};
use ureq::Agent;

use super::lock;
use crate::client_tls::{TrustError, trust};
use daftar_domain::config::{OtlpConfig, read_private};

/// Maximum number of bytes of a response that are read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

daftar_domain::named_enum! {
    /// Kind of the exported data, with its name on the metrics page, in logs and in the collector's paths.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Signal {
        /// Spans.
        Traces = "traces",
        /// Metrics.
        Metrics = "metrics",
    }
}

/// Response of the collector.
#[derive(Debug)]
pub(super) enum Answer {
    /// The collector accepted all data except this number of spans.
    Taken { rejected: usize },
    /// The collector rejected the data permanently, for this reason.
    Refused(String),
    /// The collector rejected the data temporarily, for this reason.
    NotNow(String),
}

/// The HTTP client of the sender thread.
#[derive(Debug)]
pub(super) struct Collector {
    agent: Agent,
    endpoint: String,
    headers: Vec<Header>,
    timeout: Duration,
    exchange: Mutex<Exchange>,
}

/// One request: its time limit, and the response, which the exporter does not return.
#[derive(Debug)]
struct Exchange {
    timeout: Duration,
    response: Option<Answer>,
}

impl Collector {
    /// Creates a client from the configuration.
    ///
    /// # Errors
    /// One sentence, if a file cannot be used.
    pub fn new(config: &OtlpConfig) -> Result<Self, String> {
        let headers = config.headers_file.as_deref().map(read).transpose()?.unwrap_or_default();
        let mut agent = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
        agent = agent.max_redirects_will_error(false).max_idle_connections(1).max_idle_connections_per_host(1);
        if config.is_https() {
            agent = agent.tls_config(trust(config.ca.as_deref()).map_err(untrusted)?);
        }
        let timeout = Duration::from_millis(config.timeout_ms);
        Ok(Self {
            agent: agent.build().into(),
            endpoint: config.endpoint.clone(),
            headers,
            timeout,
            exchange: Mutex::new(Exchange { timeout, response: None }),
        })
    }

    /// Creates an exporter of spans that sends by this client.
    ///
    /// # Errors
    /// One sentence, if the library rejects the configuration.
    pub fn span_exporter(self: &Arc<Self>, resource: &Resource) -> Result<SpanExporter, String> {
        let exporter = self.configure(SpanExporter::builder().with_http(), Signal::Traces).build();
        let mut exporter = exporter.map_err(unusable)?;
        exporter.set_resource(resource);
        Ok(exporter)
    }

    /// Creates an exporter of metrics that sends by this client.
    ///
    /// # Errors
    /// One sentence, if the library rejects the configuration.
    pub fn metric_exporter(self: &Arc<Self>) -> Result<MetricExporter, String> {
        let builder = MetricExporter::builder().with_http().with_temporality(Temporality::Cumulative);
        self.configure(builder, Signal::Metrics).build().map_err(unusable)
    }

    /// Configures an exporter to send by this client, to the configured endpoint. `Sender` retries, so the exporter
    /// does not.
    fn configure<B: WithExportConfig + WithHttpConfig>(self: &Arc<Self>, builder: B, signal: Signal) -> B {
        let client: Arc<dyn HttpClient> = Arc::<Self>::clone(self);
        builder
            .with_endpoint(format!("{}/v1/{}", self.endpoint, signal.name()))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(self.timeout)
            .with_retry_policy(RetryPolicy::disabled())
            .with_shared_http_client(client)
    }

    /// Returns the time limit of a request.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Exports with an exporter of this client within that time, and returns the response of the collector.
    pub fn send(&self, timeout: Duration, export: impl Future<Output = OTelSdkResult>) -> Answer {
        *lock(&self.exchange) = Exchange { timeout, response: None };
        // `send_bytes` blocks, so the export is complete after the first poll.
        let exported = export.now_or_never();
        let response = lock(&self.exchange).response.take();
        response.unwrap_or_else(|| match exported {
            Some(Err(error)) => Answer::Refused(error.to_string()),
            Some(Ok(())) | None => Answer::Refused("the exporter did not send".to_owned()),
        })
    }

    /// Sends a message with the headers of the file. Headers that the exporter reads from the environment are ignored.
    fn post(&self, message: &Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        // A timeout of zero would mean no timeout.
        let timeout = lock(&self.exchange).timeout.max(Duration::from_millis(1));
        let request = self.agent.post(message.uri()).config().timeout_global(Some(timeout)).build();
        let request = self
            .headers
            .iter()
            .fold(request, |request, header| request.header(header.name.as_str(), header.value.expose_secret()));
        let body: &[u8] = message.body();
        let mut response = request.header("content-type", "application/x-protobuf").send(body)?;
        let reply = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let mut read = Response::new(Bytes::from(reply.unwrap_or_default()));
        *read.status_mut() = response.status();
        Ok(read)
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let posted = self.post(&request);
        let reply = match &posted {
            Ok(response) => match response.status().as_u16() {
                200..=299 => Answer::Taken { rejected: rejected(response.body()) },
                status @ (429 | 502 | 503 | 504) => Answer::NotNow(format!("it answered {status}")),
                status => Answer::Refused(format!("it answered {status}")),
            },
            Err(error) => Answer::NotNow(error.to_string()),
        };
        lock(&self.exchange).response = Some(reply);
        Ok(posted?)
    }
}

fn untrusted(error: TrustError) -> String {
    match error {
        TrustError::NoFile => {
            "this system has no file of certificates that it trusts: name one as `otlp.ca`".to_owned()
        }
        TrustError::Unreadable(file, error) => format!("`otlp.ca`: cannot read `{}`: {error}", file.display()),
        TrustError::NoCertificate(file) => {
            format!("`otlp.ca`: there is no certificate in `{}`; a PEM file is needed", file.display())
        }
    }
}

fn unusable(error: ExporterBuildError) -> String {
    format!("`otlp.endpoint` cannot be used: {error}")
}

/// Returns the number of spans that the collector reports as rejected; meaningless for metrics.
fn rejected(response: &[u8]) -> usize {
    let partial = ExportTraceServiceResponse::decode(response).ok().and_then(|response| response.partial_success);
    partial.and_then(|partial| usize::try_from(partial.rejected_spans).ok()).unwrap_or(0)
}

/// Maximum number of headers.
const HEADERS_MAX: usize = 32;
/// Headers that the client sets.
const OURS: [&str; 6] =
    ["content-type", "content-length", "content-encoding", "transfer-encoding", "host", "connection"];

/// A header with a secret value.
#[derive(Debug)]
pub(super) struct Header {
    pub name: String,
    pub value: SecretString,
}

/// Reads the headers from the file.
///
/// # Errors
/// One sentence that names the file and the problem.
pub(super) fn read(path: &Path) -> Result<Vec<Header>, String> {
    let text = read_private("otlp.headers_file", path).map_err(|error| error.to_string())?;
    let wrong = |(line, reason)| format!("`otlp.headers_file`: `{}` line {line}: {reason}", path.display());
    parse(text.expose_secret()).map_err(wrong)
}

fn parse(text: &str) -> Result<Vec<Header>, (usize, &'static str)> {
    let mut headers = Vec::new();
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once(':').ok_or((number, "write `name: value`"))?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
            return Err((number, "what stands before the colon is no name of a header"));
        }
        if OURS.contains(&name.as_str()) {
            return Err((number, "that header is written by the server itself"));
        }
        if value.is_empty() || !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err((number, "the value has characters that a header cannot have"));
        }
        if headers.len() == HEADERS_MAX {
            return Err((number, "there are more than 32 headers"));
        }
        headers.push(Header { name, value: value.into() });
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn names_and_values_are_read_and_comments_are_not() {
        let headers = parse("# the key\n\nAuthorization: Bearer a:b c\nx-scope-orgid:7\n").unwrap();
        let read: Vec<_> = headers.iter().map(|header| (header.name.as_str(), header.value.expose_secret())).collect();
        assert_eq!(read, [("authorization", "Bearer a:b c"), ("x-scope-orgid", "7")]);
    }

    #[test]
    fn problems_are_reported_by_line_without_the_value() {
        for (text, line, reported) in [
            ("authorization Bearer SECRET", 1, "write `name: value`"),
            ("a: b\n: SECRET", 2, "no name of a header"),
            ("a b: SECRET", 1, "no name of a header"),
            ("Content-Type: SECRET", 1, "written by the server itself"),
            ("a: SECRET\u{7f}", 1, "characters that a header cannot have"),
            ("a:", 1, "characters that a header cannot have"),
        ] {
            let (at, reason) = parse(text).unwrap_err();
            assert_eq!(at, line, "{text}");
            assert!(reason.contains(reported) && !reason.contains("SECRET"), "{text}: {reason}");
        }
        let many = |count: usize| parse(&"a: b\n".repeat(count));
        assert_eq!(many(32).unwrap().len(), 32);
        assert_eq!(many(33).unwrap_err().0, 33);
    }

    #[test]
    fn a_file_that_all_accounts_may_read_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("headers");
        std::fs::write(&path, "authorization: SECRET\n").unwrap();
        for (mode, is_read) in
            [(0o600, true), (0o400, true), (0o440, true), (0o644, false), (0o604, false), (0o660, false)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let outcome = read(&path);
            assert_eq!(outcome.is_ok(), is_read, "{mode:o}");
            if let Err(reason) = outcome {
                assert!(reason.contains("headers") && !reason.contains("SECRET"), "{reason}");
            }
        }
        assert!(read(&folder.path().join("absent")).unwrap_err().contains("absent"));
        assert!(read(folder.path()).unwrap_err().contains("not a regular file"));
    }
}

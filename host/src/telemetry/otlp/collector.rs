//! One request to a collector.
//!
//! **Invariant:** bounded in time and in what is read of the answer; no redirect and no proxy of the environment is followed, so that
//! what the headers hold goes to the collector alone. Nothing that an answer says is logged but its status.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use secrecy::ExposeSecret;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::headers::{self, Header};
use daftar_domain::config::OtlpConfig;

/// The most of an answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Where systems keep the certificates of the authorities that they trust.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Series.
    Metrics,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Traces, Self::Metrics];

    /// Its name on the metrics page, in logs and in the collector's paths.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

/// What the collector said.
#[derive(Debug)]
pub(super) enum Answer {
    /// It has everything, but for so many spans.
    Taken { rejected: usize },
    /// It does not want this, and would not if it were sent again; says why.
    Refused(String),
    /// It may take it later; says why it does not now.
    NotNow(String),
}

/// The client.
pub(super) struct Collector {
    agent: Agent,
    urls: [String; Signal::ALL.len()],
    headers: Vec<Header>,
    timeout: Duration,
}

impl Collector {
    /// A client by the settings.
    ///
    /// # Errors
    /// One sentence, where a file cannot be used.
    pub fn new(config: &OtlpConfig) -> Result<Self, String> {
        let headers = config.headers_file.as_deref().map(headers::read).transpose()?.unwrap_or_default();
        let mut agent = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
        agent = agent.max_redirects_will_error(false).max_idle_connections(1).max_idle_connections_per_host(1);
        if config.is_https() {
            agent = agent.tls_config(trust(config.ca.as_deref())?);
        }
        let urls = Signal::ALL.map(|signal| format!("{}/v1/{}", config.endpoint, signal.name()));
        let timeout = Duration::from_millis(config.timeout_ms);
        Ok(Self { agent: agent.build().into(), urls, headers, timeout })
    }

    /// How long a request may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends a message.
    pub fn send(&self, signal: Signal, body: &[u8], timeout: Duration) -> Answer {
        let Some(url) = self.urls.get(signal as usize) else { return Answer::Refused("no address".to_owned()) };
        // A bound of nothing would be none.
        let timeout = timeout.max(Duration::from_millis(1));
        let request = self.agent.post(url).config().timeout_global(Some(timeout)).build();
        let request = self
            .headers
            .iter()
            .fold(request, |request, header| request.header(header.name.as_str(), header.value.expose_secret()));
        let mut response = match request.header("content-type", "application/x-protobuf").send(body) {
            Ok(response) => response,
            Err(error) => return Answer::NotNow(error.to_string()),
        };
        let status = response.status().as_u16();
        let answer = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        match status {
            200..=299 => Answer::Taken { rejected: rejected(signal, answer.as_deref().unwrap_or_default()) },
            429 | 502 | 503 | 504 => Answer::NotNow(format!("it answered {status}")),
            _ => Answer::Refused(format!("it answered {status}")),
        }
    }
}

/// How many spans the collector says that it did not take.
fn rejected(signal: Signal, answer: &[u8]) -> usize {
    if signal != Signal::Traces {
        return 0;
    }
    let partial = ExportTraceServiceResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
    partial.and_then(|partial| usize::try_from(partial.rejected_spans).ok()).unwrap_or(0)
}

/// Trusts the certificates in that file, or else those that this system trusts.
fn trust(file: Option<&Path>) -> Result<TlsConfig, String> {
    let system = || SYSTEM_FILES.iter().map(Path::new).find(|file| file.is_file());
    let Some(file) = file.or_else(system) else {
        return Err("this system has no file of certificates that it trusts: name one as `otlp.ca`".to_owned());
    };
    let shown = file.display();
    let pem = std::fs::read(file).map_err(|error| format!("`otlp.ca`: cannot read `{shown}`: {error}"))?;
    let items = parse_pem(&pem).filter_map(Result::ok);
    let certificates: Vec<Certificate<'static>> = items
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            // The library may come to know other kinds of items.
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(format!("`otlp.ca`: there is no certificate in `{shown}`; a PEM file is needed"));
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

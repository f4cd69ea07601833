//! The HTTP client by which exporters reach a collector.
//!
//! **Invariant:** bounded in time and in what is read of the answer; no redirect and no proxy of the environment is followed, so that
//! what the headers hold goes to the collector alone. Nothing that an answer says is logged but its status.

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
use secrecy::ExposeSecret;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::headers::{self, Header};
use super::lock;
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

/// The HTTP client. One thread sends by it.
#[derive(Debug)]
pub(super) struct Collector {
    agent: Agent,
    endpoint: String,
    headers: Vec<Header>,
    timeout: Duration,
    exchange: Mutex<Exchange>,
}

/// One request: its time limit, and the answer, which the exporter does not return.
#[derive(Debug)]
struct Exchange {
    timeout: Duration,
    answer: Option<Answer>,
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
        let timeout = Duration::from_millis(config.timeout_ms);
        Ok(Self {
            agent: agent.build().into(),
            endpoint: config.endpoint.clone(),
            headers,
            timeout,
            exchange: Mutex::new(Exchange { timeout, answer: None }),
        })
    }

    /// An exporter of spans that sends by this client.
    ///
    /// # Errors
    /// One sentence, where the library cannot use the settings.
    pub fn span_exporter(self: &Arc<Self>, resource: &Resource) -> Result<SpanExporter, String> {
        let exporter = self.configure(SpanExporter::builder().with_http(), Signal::Traces).build();
        let mut exporter = exporter.map_err(unusable)?;
        exporter.set_resource(resource);
        Ok(exporter)
    }

    /// An exporter of metrics that sends by this client.
    ///
    /// # Errors
    /// One sentence, where the library cannot use the settings.
    pub fn metric_exporter(self: &Arc<Self>) -> Result<MetricExporter, String> {
        let builder = MetricExporter::builder().with_http().with_temporality(Temporality::Cumulative);
        self.configure(builder, Signal::Metrics).build().map_err(unusable)
    }

    /// Makes an exporter send by this client, to the endpoint of the settings. `Sender` retries, so the exporter does not.
    fn configure<B: WithExportConfig + WithHttpConfig>(self: &Arc<Self>, builder: B, signal: Signal) -> B {
        let client: Arc<dyn HttpClient> = Arc::<Self>::clone(self);
        builder
            .with_endpoint(format!("{}/v1/{}", self.endpoint, signal.name()))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(self.timeout)
            .with_retry_policy(RetryPolicy::disabled())
            .with_shared_http_client(client)
    }

    /// How long a request may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Exports by an exporter of this client within that time, and returns the answer of the collector.
    pub fn send(&self, timeout: Duration, export: impl Future<Output = OTelSdkResult>) -> Answer {
        *lock(&self.exchange) = Exchange { timeout, answer: None };
        // `send_bytes` blocks, so the export is complete after the first poll.
        let exported = export.now_or_never();
        let answer = lock(&self.exchange).answer.take();
        answer.unwrap_or_else(|| match exported {
            Some(Err(error)) => Answer::Refused(error.to_string()),
            Some(Ok(())) | None => Answer::Refused("the exporter did not send".to_owned()),
        })
    }

    /// Sends a message with the headers of the file; those that the exporter reads from the environment are ignored.
    fn post(&self, message: &Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        // A bound of nothing would be none.
        let timeout = lock(&self.exchange).timeout.max(Duration::from_millis(1));
        let request = self.agent.post(message.uri()).config().timeout_global(Some(timeout)).build();
        let request = self
            .headers
            .iter()
            .fold(request, |request, header| request.header(header.name.as_str(), header.value.expose_secret()));
        let body: &[u8] = message.body();
        let mut response = request.header("content-type", "application/x-protobuf").send(body)?;
        let answer = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let mut read = Response::new(Bytes::from(answer.unwrap_or_default()));
        *read.status_mut() = response.status();
        Ok(read)
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let posted = self.post(&request);
        let answer = match &posted {
            Ok(response) => match response.status().as_u16() {
                200..=299 => Answer::Taken { rejected: rejected(response.body()) },
                status @ (429 | 502 | 503 | 504) => Answer::NotNow(format!("it answered {status}")),
                status => Answer::Refused(format!("it answered {status}")),
            },
            Err(error) => Answer::NotNow(error.to_string()),
        };
        lock(&self.exchange).answer = Some(answer);
        Ok(posted?)
    }
}

fn unusable(error: ExporterBuildError) -> String {
    format!("`otlp.endpoint` cannot be used: {error}")
}

/// How many spans the collector says that it did not take; meaningless for metrics.
fn rejected(answer: &[u8]) -> usize {
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

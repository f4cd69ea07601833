//! `[otlp]`: export of traces and metrics to an OpenTelemetry collector.
//!
//! **Invariant:** disabled by default, and all queued data is bounded.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Default OTLP/HTTP endpoint of a local collector, as specified by the protocol.
pub const OTLP_ENDPOINT_DEFAULT: &str = "http://127.0.0.1:4318";
/// Maximum length of an endpoint or a name, in bytes.
const TEXT_BYTES_MAX: usize = 200;

/// Settings of the OTLP export.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpConfig {
    /// Enables the export.
    pub enabled: bool,
    /// URL of the collector; `/v1/traces` and `/v1/metrics` are appended to it.
    pub endpoint: String,
    /// File with additional headers, one `name: value` a line, such as an API key of the collector.
    pub headers_file: Option<PathBuf>,
    /// CA certificates for the collector; those trusted by the system if absent.
    pub ca: Option<PathBuf>,
    /// The `service.name` of the server.
    pub service_name: String,
    /// Fraction of requests that are traced, from 0 (none) to 1 (all).
    pub sampling_ratio: f64,
    /// Requests whose `traceparent` header is accepted.
    pub traceparent: TraceparentFrom,
    /// Interval of metrics, in seconds; 0 for never.
    pub metrics_interval_s: u64,
    /// Maximum number of finished spans in the queue; further spans are dropped and counted.
    pub queue_spans_max: u64,
    /// Timeout of a request to the collector, in milliseconds.
    pub timeout_ms: u64,
    /// Time for sending queued data after the server has stopped, in milliseconds.
    pub shutdown_timeout_ms: u64,
}

impl Default for OtlpConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            endpoint: OTLP_ENDPOINT_DEFAULT.to_owned(),
            headers_file: None,
            ca: None,
            service_name: "daftar".to_owned(),
            sampling_ratio: 1.0,
            traceparent: TraceparentFrom::None,
            metrics_interval_s: 60,
            // About 4 MB, and the output of a busy server in about a second.
            queue_spans_max: 8_192,
            timeout_ms: 5_000,
            shutdown_timeout_ms: 3_000,
        }
    }
}

/// Requests whose `traceparent` header is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceparentFrom {
    /// No request: every request starts its own trace.
    None,
    /// Requests from `server.trusted_proxies`.
    TrustedProxies,
}

impl OtlpConfig {
    /// True if the collector is reached by HTTPS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.endpoint.starts_with("https://")
    }

    /// True if the `traceparent` header of a trusted proxy is accepted.
    #[must_use]
    pub fn accepts_traceparent(&self) -> bool {
        self.traceparent == TraceparentFrom::TrustedProxies
    }

    fn is_on_this_machine(&self) -> bool {
        let rest = self.endpoint.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or("");
        let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, _)) => host,
            None => authority.split(':').next().unwrap_or(""),
        };
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// Collects the problems of the table.
pub(super) fn collect_problems(config: &OtlpConfig, problems: &mut Vec<String>) {
    if !is_endpoint(&config.endpoint) {
        problems.push(format!(
            "`otlp.endpoint` is not the URL of a collector: write scheme and host, such as `{OTLP_ENDPOINT_DEFAULT}` or `https://collector.example.org`, without user, query and `/v1/…`, which is appended; put keys into `otlp.headers_file`"
        ));
    } else if config.headers_file.is_some() && !config.is_https() && !config.is_on_this_machine() {
        problems.push(
            "`otlp.headers_file` contains secrets, and `otlp.endpoint` is a plain HTTP address of another machine: use `https://`".to_owned(),
        );
    }
    let name = &config.service_name;
    if name.is_empty() || name.len() > TEXT_BYTES_MAX || name.chars().any(char::is_control) {
        problems.push(format!("`otlp.service_name` must have 1 to {TEXT_BYTES_MAX} bytes and no control characters"));
    }
    if !(0.0..=1.0).contains(&config.sampling_ratio) {
        problems.push("`otlp.sampling_ratio` must be between 0 and 1".to_owned());
    }
}

fn is_endpoint(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest.filter(|_| url.len() <= TEXT_BYTES_MAX) else { return false };
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let is_plain =
        |text: &str, more: &[u8]| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte));
    !authority.is_empty() && is_plain(authority, b".-:[]_") && is_plain(path, b".-_~/%") && !url.ends_with('/')
}

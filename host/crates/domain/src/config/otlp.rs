//! `[otlp]`: traces and metrics for a collector of OpenTelemetry.
//!
//! **Invariant:** off unless it is asked for, and nothing that is sent waits without a bound.

use std::path::PathBuf;

use serde::Deserialize;

/// Where a collector on this machine listens for OTLP over HTTP, by the protocol's own convention.
pub const OTLP_ENDPOINT_DEFAULT: &str = "http://127.0.0.1:4318";
/// The most bytes of an endpoint or a name.
const TEXT_BYTES_MAX: usize = 200;

/// What is sent to a collector, and how.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpConfig {
    /// Whether anything is sent.
    pub enabled: bool,
    /// The collector's URL; `/v1/traces` and `/v1/metrics` are added to it.
    pub endpoint: String,
    /// A file of further headers, one `name: value` a line, such as a key that the collector asks for.
    pub headers_file: Option<PathBuf>,
    /// The certificates that the collector's must be signed by; those that this system trusts where absent.
    pub ca: Option<PathBuf>,
    /// What the server is called there.
    pub service_name: String,
    /// Of how many requests a trace is made, from 0 (none) to 1 (all).
    pub sampling_ratio: f64,
    /// Whose `traceparent` header is taken up.
    pub traceparent: TraceparentFrom,
    /// How often metrics are sent; 0 for never.
    pub metrics_interval_s: u64,
    /// How many finished spans may wait; those beyond it are dropped and counted.
    pub queue_spans_max: u64,
    /// How long one request to the collector may take.
    pub timeout_ms: u64,
    /// How long what waits may still be sent after the server has stopped.
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
            // Some 4 MB, and what a busy server makes in about a second.
            queue_spans_max: 8_192,
            timeout_ms: 5_000,
            shutdown_timeout_ms: 3_000,
        }
    }
}

/// Whose `traceparent` header is taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceparentFrom {
    /// No request: every request starts its own trace.
    None,
    /// That of requests which come from one of `server.trusted_proxies`.
    TrustedProxies,
}

impl OtlpConfig {
    /// Whether the collector is reached by HTTPS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.endpoint.starts_with("https://")
    }

    /// Whether a trusted proxy may say to which trace a request belongs.
    #[must_use]
    pub fn takes_up_traceparent(&self) -> bool {
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

/// What is wrong with the table.
pub(super) fn collect_problems(config: &OtlpConfig, problems: &mut Vec<String>) {
    if !is_endpoint(&config.endpoint) {
        problems.push(format!(
            "`otlp.endpoint` is not the URL of a collector: write scheme and host, such as `{OTLP_ENDPOINT_DEFAULT}` or `https://collector.example.org`, without user, query and the `/v1/…` that is added; keys go into `otlp.headers_file`"
        ));
    } else if config.headers_file.is_some() && !config.is_https() && !config.is_on_this_machine() {
        problems.push(
            "`otlp.headers_file` holds what others must not read, and `otlp.endpoint` is a plain HTTP address of another machine: use `https://`".to_owned(),
        );
    }
    let name = &config.service_name;
    if name.is_empty() || name.len() > TEXT_BYTES_MAX || name.chars().any(char::is_control) {
        problems.push(format!("`otlp.service_name` has 1 to {TEXT_BYTES_MAX} bytes and no control characters"));
    }
    if !(0.0..=1.0).contains(&config.sampling_ratio) {
        problems.push("`otlp.sampling_ratio` lies between 0 and 1".to_owned());
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

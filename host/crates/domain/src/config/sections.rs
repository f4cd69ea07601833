//! The tables of `daftar.toml`, their keys and defaults.
//!
//! **Invariant:** every limit has a default and a ceiling: none can be disabled.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::forwarded::ForwardedHeader;
use crate::idempotency::REMEMBERED_PER_CLIENT_DEFAULT;
use crate::manifest::PluginName;
use crate::network::Network;
use crate::network::WebOrigin;
use crate::plugin_key::TrustedKey;

use super::plugin_limits::PluginLimitsConfig;
use super::postgres::{PostgresConfig, StoreBackend};

/// Maximum lifetime of a token: 31 days. A stolen token stays valid for as long.
pub const TOKEN_LIFETIME_S_MAX: u64 = 31 * 86_400;
/// Maximum age of a client secret, in days, at which a warning is logged: ten years.
pub const SECRET_AGE_WARNING_DAYS_MAX: u32 = 3_650;
/// Maximum memory for the record fields read by previews, in MiB.
pub const PREVIEW_CACHE_MIB_MAX: u64 = 65_536;
/// Maximum memory of the response cache, in MiB.
pub const RESPONSE_CACHE_MIB_MAX: u64 = 65_536;
/// Maximum duration of HSTS, in seconds: two years.
pub const HSTS_MAX_AGE_S_MAX: u64 = 63_072_000;
/// Default timeout of a TLS handshake, in milliseconds.
pub const HANDSHAKE_TIMEOUT_MS_DEFAULT: u64 = 10_000;
/// Default interval of checking the certificate files for changes, in seconds.
pub const CERTIFICATE_CHECK_S_DEFAULT: u64 = 10;
/// Default number of days before the expiry of the certificate at which a warning is logged: tools renew by then.
pub const EXPIRY_WARNING_DAYS_DEFAULT: u64 = 30;

/// Listeners.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Listen address for API clients.
    pub listen: SocketAddr,
    /// Listen address for the administrator: HTTP on a loopback address, HTTPS on any other.
    pub admin_listen: SocketAddr,
    /// Listen address of the metrics page without a token, in addition to the admin listener; none if absent.
    pub metrics_listen: Option<SocketAddr>,
    /// Public URL of this server, without a path; derived from `listen` if absent.
    pub public_url: Option<String>,
    /// Timeout of a request, in milliseconds.
    pub request_timeout_ms: u64,
    /// Maximum number of stored `Idempotency-Key`s of one client; an entry of a batch counts as one.
    pub idempotency_keys_max: u64,
    /// Reverse proxies whose forwarding header is trusted; none if empty.
    pub trusted_proxies: Vec<Network>,
    /// The forwarding header of these proxies.
    pub forwarded_header: ForwardedHeader,
    /// Origins whose pages may call the API from a browser; none if empty.
    pub cors_origins: Vec<WebOrigin>,
    /// Duration of HSTS, in seconds; 0 removes it in browsers.
    pub hsts_max_age_s: u64,
    /// Time for requests in flight to finish at shutdown, in milliseconds.
    pub shutdown_timeout_ms: u64,
    /// Limits and timeouts of connections.
    pub connections: ConnectionsConfig,
    /// Certificate and key for HTTPS.
    pub tls: Option<TlsConfig>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            admin_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8081)),
            metrics_listen: None,
            public_url: None,
            request_timeout_ms: 30_000,
            idempotency_keys_max: REMEMBERED_PER_CLIENT_DEFAULT,
            trusted_proxies: Vec::new(),
            forwarded_header: ForwardedHeader::default(),
            cors_origins: Vec::new(),
            // A year, the minimum for HSTS preload lists.
            hsts_max_age_s: 31_536_000,
            shutdown_timeout_ms: 10_000,
            connections: ConnectionsConfig::default(),
            tls: None,
        }
    }
}

/// The audit log.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct AuditConfig {
    /// Number of days for which entries are retained. Default 0: without limit, because legal retention periods differ
    /// between countries and deletion is irreversible.
    pub retention_days: u32,
}

impl AuditConfig {
    /// Returns the retention period in days; without limit if absent.
    #[must_use]
    pub fn retention(self) -> Option<u32> {
        (self.retention_days > 0).then_some(self.retention_days)
    }
}

/// Certificate and key for HTTPS, both PEM.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate, followed by its intermediate certificates.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Timeout of a handshake, in milliseconds.
    #[serde(default = "handshake_timeout_ms")]
    pub handshake_timeout_ms: u64,
    /// Interval of checking the files for changes, in seconds.
    #[serde(default = "check_every_s")]
    pub check_every_s: u64,
    /// Number of days before the expiry of the certificate at which a warning is logged.
    #[serde(default = "expiry_warning_days")]
    pub expiry_warning_days: u64,
}

fn handshake_timeout_ms() -> u64 {
    HANDSHAKE_TIMEOUT_MS_DEFAULT
}

fn check_every_s() -> u64 {
    CERTIFICATE_CHECK_S_DEFAULT
}

fn expiry_warning_days() -> u64 {
    EXPIRY_WARNING_DAYS_DEFAULT
}

/// Access tokens.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenConfig {
    /// Lifetime of a token, in seconds.
    pub lifetime_s: u64,
    /// The `iss` claim.
    pub issuer: String,
    /// The `aud` claim.
    pub audience: String,
    /// Age of a client secret, in days, at which a warning is logged; 0 for never.
    pub secret_age_warning_days: u32,
}

impl TokenConfig {
    /// Returns the age in days at which a warning about a secret is logged; never if absent.
    #[must_use]
    pub fn secret_age_warning(&self) -> Option<u32> {
        (self.secret_age_warning_days > 0).then_some(self.secret_age_warning_days)
    }
}

impl Default for TokenConfig {
    fn default() -> Self {
        Self {
            // One day, so that a nightly job needs one token.
            lifetime_s: 86_400,
            issuer: "svc-api-v2".to_owned(),
            audience: "svc".to_owned(),
            // A quarter of a year.
            secret_age_warning_days: 90,
        }
    }
}

/// Storage of records.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// The storage backend.
    pub backend: StoreBackend,
    /// The folder of the records; `store` in the data folder where absent.
    pub path: Option<PathBuf>,
    /// Memory for the cache of the store, in MiB.
    pub cache_mib: u64,
    /// Memory for record fields read by previews of rules, in MiB; the least recently used field is evicted first.
    pub preview_cache_mib: u64,
    /// Memory for the response cache of reads of individuals, in MiB.
    pub response_cache_mib: u64,
    /// Settings of the database, if it is the backend.
    pub postgres: PostgresConfig,
}

impl StoreConfig {
    /// Returns the folder of the records for a data folder.
    #[must_use]
    pub fn folder(&self, data_dir: &Path) -> PathBuf {
        self.path.clone().unwrap_or_else(|| data_dir.join("store"))
    }
}

impl StoreConfig {
    /// Returns the folder that contains `keys`: the shared folder if there are several processes.
    #[must_use]
    pub fn keys_home(&self, data_dir: &Path) -> PathBuf {
        let common = match self.backend {
            StoreBackend::Sled => None,
            StoreBackend::Postgres => self.postgres.shared_dir.clone(),
        };
        common.unwrap_or_else(|| data_dir.to_owned())
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            backend: StoreBackend::default(),
            path: None,
            cache_mib: 128,
            // Enough for a few fields of a million people.
            preview_cache_mib: 128,
            // About twenty thousand bodies: the individuals that a program works with on a day.
            response_cache_mib: 32,
            postgres: PostgresConfig::default(),
        }
    }
}

/// Plugins.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginsConfig {
    /// Folder of plugins to install at start if absent or newer; `plugins` beside the executable if absent.
    pub dir: Option<PathBuf>,
    /// The eligibility engine, if several are installed; the only one if absent.
    pub engine: Option<PluginName>,
    /// Trusted public keys for plugins and backups; each without limits or within limits.
    pub trusted_keys: Vec<TrustedKey>,
    /// Permits plugins without a trusted signature.
    pub allow_unsigned: bool,
    /// Maximum processor time of compiling one plugin, in seconds.
    pub compile_seconds: u64,
    /// Maximum memory of compiling one plugin, in MiB.
    pub compile_memory_mib: u64,
    /// Limits of single plugins, by name, that override the defaults of their kind.
    pub limits: BTreeMap<PluginName, PluginLimitsConfig>,
}

impl Default for PluginsConfig {
    fn default() -> Self {
        Self {
            dir: None,
            engine: None,
            trusted_keys: Vec::new(),
            allow_unsigned: false,
            // Several times the needs of the largest known plugin: the eligibility engine needs 2 s and 250 MiB.
            compile_seconds: 20,
            compile_memory_mib: 1_024,
            limits: BTreeMap::new(),
        }
    }
}

/// Vocabularies.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct VocabularyConfig {
    /// The default language of displays.
    pub default_language: String,
}

impl Default for VocabularyConfig {
    fn default() -> Self {
        Self { default_language: "en".to_owned() }
    }
}

/// Logs.
#[derive(Debug, Clone, Deserialize, Serialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Minimum level of log lines: `error`, `warn`, `info`, `debug` or `trace`.
    pub level: LogLevel,
    /// Format of log lines.
    pub format: LogFormat,
}

/// Level of a log line.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord, Default)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// A failure.
    Error,
    /// A problem that was handled.
    Warn,
    /// Information for operators.
    #[default]
    Info,
    /// Information for developers.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The level so many steps further towards [`LogLevel::Trace`].
    #[must_use]
    pub fn more_verbose(self, steps: u8) -> Self {
        let next = |level| match level {
            Self::Error => Self::Warn,
            Self::Warn => Self::Info,
            Self::Info => Self::Debug,
            Self::Debug | Self::Trace => Self::Trace,
        };
        (0..steps).fold(self, |level, _| next(level))
    }
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Readable text.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Limits of connections and requests of the public listener. The defaults suit a machine with two cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionsConfig {
    /// Maximum number of open connections.
    pub max: u64,
    /// Maximum number of them from one address, or from one /64 network of IPv6. Trusted proxies are exempt: they
    /// forward many clients.
    pub per_address_max: u64,
    /// Maximum number of concurrent requests.
    pub requests_max: u64,
    /// Maximum number of concurrent streams of one HTTP/2 connection.
    pub http2_streams_max: u64,
    /// Timeout for the head of a request, in milliseconds.
    pub header_timeout_ms: u64,
    /// Timeout for the body of a request, in milliseconds.
    pub body_timeout_ms: u64,
    /// Maximum time without progress while a body arrives, in milliseconds.
    pub body_stall_timeout_ms: u64,
    /// Idle timeout of a connection, in milliseconds.
    pub idle_timeout_ms: u64,
    /// Half of the time limit for reading a small response, and the averaging period of the read rate of others.
    pub write_timeout_ms: u64,
    /// Maximum memory of finished responses that wait for one client, in MiB.
    pub responses_per_client_mib: u64,
    /// Maximum memory of all finished responses that wait, in MiB.
    pub responses_mib: u64,
}

impl Default for ConnectionsConfig {
    fn default() -> Self {
        Self {
            // About 40 KB each when in use.
            max: 4_096,
            // Many users behind one address, and no more than a quarter of all connections.
            per_address_max: 1_024,
            // Far more than two cores can process: waiting requests wait for the disk or for the sandbox.
            requests_max: 1_024,
            http2_streams_max: 64,
            header_timeout_ms: 10_000,
            // Shorter than the timeout of the whole request, so that a slow sender gets this error.
            body_timeout_ms: 20_000,
            body_stall_timeout_ms: 10_000,
            // Longer than the keep-alive of most clients and proxies: they close the connection, not the server.
            idle_timeout_ms: 75_000,
            write_timeout_ms: 30_000,
            // Nine of the largest photos, and no more than a quarter of the total.
            responses_per_client_mib: 64,
            responses_mib: 256,
        }
    }
}

impl ConnectionsConfig {
    /// Returns [`Self::body_timeout_ms`] as a duration.
    #[must_use]
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// Returns [`Self::body_stall_timeout_ms`] as a duration.
    #[must_use]
    pub fn body_stall_timeout(&self) -> Duration {
        Duration::from_millis(self.body_stall_timeout_ms)
    }
}

/// Collects the problems of proxies, origins, times and numbers.
pub(super) fn collect_problems(server: &ServerConfig, problems: &mut Vec<String>) {
    if server.hsts_max_age_s > HSTS_MAX_AGE_S_MAX {
        let most = HSTS_MAX_AGE_S_MAX;
        problems.push(format!("`server.hsts_max_age_s` must be between 0 and {most} seconds (two years)"));
    }
    for network in server.trusted_proxies.iter().filter(|network| network.is_wider_than_any_private_one()) {
        problems.push(format!(
            "`server.trusted_proxies` has `{network}`, which is most of the internet: any client in it could forge its address and evade limits; list only the addresses of the proxies"
        ));
    }
    for (key, count) in [("trusted_proxies", server.trusted_proxies.len()), ("cors_origins", server.cors_origins.len())]
    {
        if count > LIST_MAX {
            problems.push(format!("`server.{key}` has {count} entries; the maximum is {LIST_MAX}"));
        }
    }
}

/// Maximum number of entries of a list; each entry is checked for every request.
const LIST_MAX: usize = 64;

//! The tables of `daftar.toml`, their keys and defaults.
//!
//! **Invariant:** every bound is there and has a ceiling: none can be turned off.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::forwarded::ForwardedHeader;
use crate::idempotency::REMEMBERED_PER_CLIENT_DEFAULT;
use crate::manifest::PluginName;
use crate::network::Network;
use crate::network::WebOrigin;
use crate::plugin_key::TrustedKey;

use super::plugin_limits::PluginLimitsConfig;
use super::postgres::{PostgresConfig, StoreBackend};

/// The longest lifetime of a token: a month; a stolen one is good for as long.
pub const TOKEN_LIFETIME_S_MAX: u64 = 31 * 86_400;
/// The greatest age of a client's secret, in days, from which on it is warned of: ten years.
pub const SECRET_AGE_WARNING_DAYS_MAX: u32 = 3_650;
/// The most memory, in MiB, for the fields that previews read of records.
pub const PREVIEW_CACHE_MIB_MAX: u64 = 65_536;
/// More memory for bodies than a machine has is a slip.
pub const RESPONSE_CACHE_MIB_MAX: u64 = 65_536;
/// The longest time for which browsers are told to use HTTPS only: two years.
pub const HSTS_MAX_AGE_S_MAX: u64 = 63_072_000;
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIMEOUT_MS_DEFAULT: u64 = 10_000;
/// How often it is looked whether the files of the certificate have changed.
pub const CERTIFICATE_CHECK_S_DEFAULT: u64 = 10;
/// How long before its certificate expires the log warns: the time in which tools renew them by default.
pub const EXPIRY_WARNING_DAYS_DEFAULT: u64 = 30;

/// Listeners.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Where API clients connect.
    pub listen: SocketAddr,
    /// Where the administrator connects: by HTTP on a loopback address, by HTTPS on any other.
    pub admin_listen: SocketAddr,
    /// Where the metrics page is served without a token, besides the admin listener; nowhere where absent.
    pub metrics_listen: Option<SocketAddr>,
    /// The URL by which clients know this server, without a path; made from `listen` where absent.
    pub public_url: Option<String>,
    /// How long one request may take.
    pub request_timeout_ms: u64,
    /// How many requests of one client are remembered by their `Idempotency-Key`; an entry of a batch counts as one.
    pub idempotency_keys_max: u64,
    /// The proxies that are believed when they say for whom they ask. Nobody is where it is empty.
    pub trusted_proxies: Vec<Network>,
    /// The header in which they say it.
    pub forwarded_header: ForwardedHeader,
    /// Pages from there may call the API in a browser. None may where it is empty.
    pub cors_origins: Vec<WebOrigin>,
    /// For how long browsers are told to use HTTPS only; 0 tells them to forget it.
    pub hsts_max_age_s: u64,
    /// How long requests in flight may take after the server was told to stop.
    pub shutdown_timeout_ms: u64,
    /// Connections: how many, and how long each may take for what.
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
            // A year, the least that lists of such hosts ask for.
            hsts_max_age_s: 31_536_000,
            shutdown_timeout_ms: 10_000,
            connections: ConnectionsConfig::default(),
            tls: None,
        }
    }
}

/// The audit log.
#[derive(Debug, Clone, Copy, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct AuditConfig {
    /// How many days its lines are kept; 0 for ever, which is the default: what the law says differs from country to country,
    /// and what is gone is gone.
    pub retention_days: u32,
}

impl AuditConfig {
    /// How many days lines are kept; for ever where absent.
    #[must_use]
    pub fn retention(self) -> Option<u32> {
        (self.retention_days > 0).then_some(self.retention_days)
    }
}

/// Certificate and key for HTTPS, both PEM.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate, followed by the ones that signed it.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// How long a handshake may take.
    #[serde(default = "handshake_timeout_ms")]
    pub handshake_timeout_ms: u64,
    /// How often it is looked whether one of the files has changed.
    #[serde(default = "check_every_s")]
    pub check_every_s: u64,
    /// How long before the certificate expires the log warns.
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
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenConfig {
    /// How long a token is good for.
    pub lifetime_s: u64,
    /// The `iss` claim.
    pub issuer: String,
    /// The `aud` claim.
    pub audience: String,
    /// Clients whose secret is older than so many days are warned of; 0 for never.
    pub secret_age_warning_days: u32,
}

impl TokenConfig {
    /// Past how many days a secret is warned of; never where absent.
    #[must_use]
    pub fn secret_age_warning(&self) -> Option<u32> {
        (self.secret_age_warning_days > 0).then_some(self.secret_age_warning_days)
    }
}

impl Default for TokenConfig {
    fn default() -> Self {
        Self {
            // One day, so that a nightly job needs one.
            lifetime_s: 86_400,
            issuer: "svc-api-v2".to_owned(),
            audience: "svc".to_owned(),
            // A quarter of a year.
            secret_age_warning_days: 90,
        }
    }
}

/// Where records live.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// What keeps them.
    pub backend: StoreBackend,
    /// The folder of the records; `store` in the data folder where absent.
    pub path: Option<PathBuf>,
    /// Memory for the store's cache.
    pub cache_mib: u64,
    /// Memory for fields that previews of rules read of records; the field asked for longest ago goes first.
    pub preview_cache_mib: u64,
    /// Memory for bodies of people as they were sent, for the next who asks for the same.
    pub response_cache_mib: u64,
    /// The database, where it is what keeps them.
    pub postgres: PostgresConfig,
}

impl StoreConfig {
    /// The folder of the records of a register with that data folder.
    #[must_use]
    pub fn folder(&self, data_dir: &Path) -> PathBuf {
        self.path.clone().unwrap_or_else(|| data_dir.join("store"))
    }
}

impl StoreConfig {
    /// The folder in which `keys` is: one that all processes have, where there are several.
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
            // Some twenty thousand bodies: the people that a program works with on a day.
            response_cache_mib: 32,
            postgres: PostgresConfig::default(),
        }
    }
}

/// Plugins.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct PluginsConfig {
    /// Folder of plugins to install at start when absent or newer; `plugins` beside the program where absent.
    pub dir: Option<PathBuf>,
    /// The eligibility engine to use where several are installed; the only one where absent.
    pub engine: Option<PluginName>,
    /// The public keys whose plugins are installed, and whose backups are accepted; each for everything or within limits.
    pub trusted_keys: Vec<TrustedKey>,
    /// Whether plugins are installed that nobody vouches for.
    pub allow_unsigned: bool,
    /// Limits of single plugins, by name, where they are not the defaults of their kind.
    pub limits: BTreeMap<PluginName, PluginLimitsConfig>,
}

/// Vocabularies.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VocabularyConfig {
    /// The language of displays where the client asks for none.
    pub default_language: String,
}

impl Default for VocabularyConfig {
    fn default() -> Self {
        Self { default_language: "en".to_owned() }
    }
}

/// Logs.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The least severe level that is written: `error`, `warn`, `info`, `debug` or `trace`.
    pub level: LogLevel,
    /// How a line is written.
    pub format: LogFormat,
}

/// How severe a log line is.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is wrong and was dealt with.
    Warn,
    /// What an operator wants to see.
    #[default]
    Info,
    /// What a developer wants to see.
    Debug,
    /// Everything.
    Trace,
}

/// How a log line is written.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Bounds of the public listener's connections and requests. The defaults fit a machine with two cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionsConfig {
    /// How many connections may be open at once.
    pub max: u64,
    /// How many of them may come from one address, or from one network of 64 bits of IPv6. A trusted proxy stands for many clients
    /// and is not bound by it.
    pub per_address_max: u64,
    /// How many requests may be worked on at once.
    pub requests_max: u64,
    /// How many streams one HTTP/2 connection may have open at once.
    pub http2_streams_max: u64,
    /// How long the head of a request may take to arrive.
    pub header_timeout_ms: u64,
    /// How long the body of a request may take to arrive.
    pub body_timeout_ms: u64,
    /// How long a body that is on its way may bring nothing.
    pub body_stall_timeout_ms: u64,
    /// How long a connection may have no request.
    pub idle_timeout_ms: u64,
    /// Half of the time in which a client has to take a small response, and over which the rate is averaged at which it takes others.
    pub write_timeout_ms: u64,
    /// How much memory finished responses may take that wait for one client, in MiB.
    pub responses_per_client_mib: u64,
    /// How much memory they may take in all.
    pub responses_mib: u64,
}

impl Default for ConnectionsConfig {
    fn default() -> Self {
        Self {
            // Some 40 KB each when they are in use.
            max: 4_096,
            // An office behind one address, and no more than a quarter of all.
            per_address_max: 1_024,
            // Far more than two cores have use for: what waits here waits for the disk or for the sandbox.
            requests_max: 1_024,
            http2_streams_max: 64,
            header_timeout_ms: 10_000,
            // Shorter than the time for the whole request, so that a slow sender is told so.
            body_timeout_ms: 20_000,
            body_stall_timeout_ms: 10_000,
            // Longer than most clients and proxies keep a connection, so that they close it and not we under their request.
            idle_timeout_ms: 75_000,
            write_timeout_ms: 30_000,
            // Nine of the largest photos, and no more than a quarter of all.
            responses_per_client_mib: 64,
            responses_mib: 256,
        }
    }
}

impl ConnectionsConfig {
    /// As [`Self::body_timeout_ms`].
    #[must_use]
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// As [`Self::body_stall_timeout_ms`].
    #[must_use]
    pub fn body_stall_timeout(&self) -> Duration {
        Duration::from_millis(self.body_stall_timeout_ms)
    }
}

/// What is wrong with the settings of proxies, origins, times and numbers.
pub(super) fn collect_problems(server: &ServerConfig, problems: &mut Vec<String>) {
    if server.hsts_max_age_s > HSTS_MAX_AGE_S_MAX {
        let most = HSTS_MAX_AGE_S_MAX;
        problems.push(format!("`server.hsts_max_age_s` lies between 0 and {most} seconds, two years"));
    }
    for network in server.trusted_proxies.iter().filter(|network| network.is_wider_than_any_private_one()) {
        problems.push(format!(
            "`server.trusted_proxies` has `{network}`, which is most of the internet: whoever is in it says for itself which address it has, and no limit holds it; name the addresses of the proxies alone"
        ));
    }
    for (key, count) in [("trusted_proxies", server.trusted_proxies.len()), ("cors_origins", server.cors_origins.len())]
    {
        if count > LIST_MAX {
            problems.push(format!("`server.{key}` has {count} entries; at most {LIST_MAX} are taken"));
        }
    }
}

/// The most entries of a list; each is looked at for every request.
const LIST_MAX: usize = 64;

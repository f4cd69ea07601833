//! The tables of `daftar.toml`, their keys and defaults.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::plugin_limits::PluginLimitsConfig;
use crate::domain::idempotency::REMEMBERED_PER_CLIENT_DEFAULT;
use crate::domain::manifest::PluginName;
use crate::domain::plugin_key::PluginKey;

/// How long one request may take before it is answered with 503.
pub const REQUEST_TIMEOUT_MS_DEFAULT: u64 = 30_000;
/// How long an access token is good for: one day, so that a nightly job needs one.
pub const TOKEN_LIFETIME_S_DEFAULT: u64 = 86_400;
/// The longest lifetime of a token: a month; a stolen one is good for as long.
pub const TOKEN_LIFETIME_S_MAX: u64 = 31 * 86_400;
/// From which age on, in days, a client's secret is warned of: a quarter of a year.
pub const SECRET_AGE_WARNING_DAYS_DEFAULT: u32 = 90;
/// The greatest such age: ten years.
pub const SECRET_AGE_WARNING_DAYS_MAX: u32 = 3_650;
/// How much memory the store may use for its cache.
pub const CACHE_MIB_DEFAULT: u64 = 128;
/// How much memory the fields take that previews read of records: enough for a few fields of a million people.
pub const RULE_COLUMNS_MIB_DEFAULT: u64 = 128;
/// The most of it.
pub const RULE_COLUMNS_MIB_MAX: u64 = 65_536;
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
            request_timeout_ms: REQUEST_TIMEOUT_MS_DEFAULT,
            idempotency_keys_max: REMEMBERED_PER_CLIENT_DEFAULT,
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
            lifetime_s: TOKEN_LIFETIME_S_DEFAULT,
            issuer: "svc-api-v2".to_owned(),
            audience: "svc".to_owned(),
            secret_age_warning_days: SECRET_AGE_WARNING_DAYS_DEFAULT,
        }
    }
}

/// Where records live.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// The folder of the records; `store` in the data folder where absent.
    pub path: Option<PathBuf>,
    /// Memory for the store's cache.
    pub cache_mib: u64,
    /// Memory for fields that previews of rules read of records; the field asked for longest ago goes first.
    pub rule_columns_mib: u64,
}

impl StoreConfig {
    /// The folder of the records of a register with that data folder.
    #[must_use]
    pub fn folder(&self, data_dir: &Path) -> PathBuf {
        self.path.clone().unwrap_or_else(|| data_dir.join("store"))
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { path: None, cache_mib: CACHE_MIB_DEFAULT, rule_columns_mib: RULE_COLUMNS_MIB_DEFAULT }
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
    /// The public keys whose plugins are installed.
    pub trusted_keys: Vec<PluginKey>,
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
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The least severe level that is written: `error`, `warn`, `info`, `debug` or `trace`.
    pub level: LogLevel,
    /// How a line is written.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: LogLevel::Info, format: LogFormat::Text }
    }
}

/// How severe a log line is.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is wrong and was dealt with.
    Warn,
    /// What an operator wants to see.
    Info,
    /// What a developer wants to see.
    Debug,
    /// Everything.
    Trace,
}

/// How a log line is written.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

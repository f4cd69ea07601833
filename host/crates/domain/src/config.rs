//! Typed settings from `daftar.toml`, with safe defaults.
//!
//! **Invariant:** the only module that reads the environment. An unknown key or invalid value prevents the start; the
//! error names the key, the file and the valid values. All problems are reported together.

mod environment;
mod keys;
mod otlp;
pub mod plugin_limits;
mod postgres;
mod sections;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::idempotency::REMEMBERED_PER_CLIENT_CEILING;

pub use otlp::{OTLP_ENDPOINT_DEFAULT, OtlpConfig, TraceparentFrom};
pub use postgres::{PostgresConfig, PostgresIndexPlace, StoreBackend, UrlFileError, read_private};
pub use sections::{
    AuditConfig, CERTIFICATE_CHECK_S_DEFAULT, ConnectionsConfig, EXPIRY_WARNING_DAYS_DEFAULT,
    HANDSHAKE_TIMEOUT_MS_DEFAULT, LogConfig, LogFormat, LogLevel, PREVIEW_CACHE_MIB_MAX, PluginsConfig,
    RESPONSE_CACHE_MIB_MAX, SECRET_AGE_WARNING_DAYS_MAX, ServerConfig, StoreConfig, TOKEN_LIFETIME_S_MAX, TlsConfig,
    TokenConfig, VocabularyConfig,
};

/// Maximum size of a configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The path of a setting, its value, and the valid range.
type Bound = (&'static str, u64, RangeInclusive<u64>);

/// All settings.
#[derive(Debug, Clone, Deserialize, Serialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Listeners.
    pub server: ServerConfig,
    /// Access tokens.
    pub token: TokenConfig,
    /// Storage of records.
    pub store: StoreConfig,
    /// Plugins.
    pub plugins: PluginsConfig,
    /// Vocabularies.
    pub vocabulary: VocabularyConfig,
    /// The audit log.
    pub audit: AuditConfig,
    /// Logs.
    pub log: LogConfig,
    /// Traces and metrics for a collector.
    pub otlp: OtlpConfig,
}

/// Error: the settings are invalid; each problem is one sentence.
#[derive(Debug, thiserror::Error)]
#[error("{}", .problems.join("\n"))]
pub struct ConfigError {
    /// All problems.
    pub problems: Vec<String>,
}

impl ConfigError {
    fn one(problem: String) -> Self {
        Self { problems: vec![problem] }
    }
}

impl Config {
    /// Reads a configuration file, and the environment, whose variables override the file.
    ///
    /// # Errors
    /// All problems together: the file cannot be read, a key is unknown, a value is invalid.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let shown = path.display();
        let unreadable = |error: std::io::Error| {
            ConfigError::one(format!("cannot read `{shown}`: {error}; name the configuration file with --config"))
        };
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_BYTES_MAX {
            return Err(ConfigError::one(format!("`{shown}` has {size} bytes; the maximum is {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse_with(&text, environment::variables()).map_err(|error| ConfigError {
            problems: error.problems.into_iter().map(|problem| format!("`{shown}`: {problem}")).collect(),
        })
    }

    /// Reads the environment alone.
    ///
    /// # Errors
    /// All problems together.
    pub fn from_environment() -> Result<Self, ConfigError> {
        Self::parse_with("", environment::variables())
    }

    /// Parses settings.
    ///
    /// # Errors
    /// All problems together.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Self::parse_with(text, Vec::new())
    }

    fn parse_with(text: &str, variables: Vec<(String, String)>) -> Result<Self, ConfigError> {
        let mut table: toml::Table = text.parse().map_err(|error| ConfigError::one(format!("not TOML: {error}")))?;
        let is_text_alone = variables.is_empty();
        let mut problems = environment::apply(&mut table, variables);
        problems.extend(keys::unknown_keys(&table));
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        // From the text, an error has its line.
        let config: Result<Self, _> = if is_text_alone { toml::from_str(text) } else { table.try_into() };
        let config = config.map_err(|error| ConfigError::one(error.to_string()))?;
        config.validate()?;
        Ok(config)
    }

    /// Checks constraints that the types do not express.
    ///
    /// # Errors
    /// All problems together.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        let server = &self.server;
        if server.tls.is_none() && !server.listen.ip().is_loopback() && server.trusted_proxies.is_empty() {
            problems.push(format!(
                "`server.listen` is {}, which is reachable from other machines, without HTTPS: set `server.tls.cert` and `server.tls.key`, or listen on 127.0.0.1, or list the HTTPS proxies in front of it in `server.trusted_proxies`",
                server.listen
            ));
        }
        if server.tls.is_none() && !server.admin_listen.ip().is_loopback() {
            problems.push(format!(
                "`server.admin_listen` is {}, which is reachable from other machines, without HTTPS: set `server.tls.cert` and `server.tls.key`, or use a loopback address such as 127.0.0.1:8081",
                server.admin_listen
            ));
        }
        if server.admin_listen == server.listen && server.listen.port() != 0 {
            problems.push("`server.listen` and `server.admin_listen` are the same address".to_owned());
        }
        if let Some(metrics) = server.metrics_listen {
            if server.tls.is_none() && !metrics.ip().is_loopback() {
                problems.push(format!(
                    "`server.metrics_listen` is {metrics}, which is reachable from other machines, without HTTPS: set `server.tls.cert` and `server.tls.key`, or listen on 127.0.0.1"
                ));
            }
            for (key, other) in [("server.listen", server.listen), ("server.admin_listen", server.admin_listen)] {
                if metrics == other && metrics.port() != 0 {
                    problems.push(format!("`server.metrics_listen` and `{key}` are the same address"));
                }
            }
        }
        sections::collect_problems(server, &mut problems);
        if let Some(url) = &server.public_url
            && !is_base_url(url)
        {
            problems.push(format!(
                "`server.public_url` is `{url}`: write scheme and host without a path, such as `https://registry.example.org`"
            ));
        }
        if !(60..=TOKEN_LIFETIME_S_MAX).contains(&self.token.lifetime_s) {
            problems.push(format!("`token.lifetime_s` must be between 60 and {TOKEN_LIFETIME_S_MAX} seconds"));
        }
        for (key, value) in [("token.issuer", &self.token.issuer), ("token.audience", &self.token.audience)] {
            if value.is_empty() || value.len() > 200 {
                problems.push(format!("`{key}` must have 1 to 200 bytes"));
            }
        }
        postgres::collect_problems(self.store.backend, &self.store.postgres, &mut problems);
        otlp::collect_problems(&self.otlp, &mut problems);
        for (key, value, range) in self.bounds() {
            if !range.contains(&value) {
                problems.push(format!("`{key}` must be between {} and {}", range.start(), range.end()));
            }
        }
        let keys = &self.plugins.trusted_keys;
        for (place, key) in keys.iter().enumerate() {
            if keys.iter().take(place).any(|before| before.id() == key.id()) {
                problems.push(format!("`plugins.trusted_keys` has the key `{}` ({}) twice", key.key(), key.id()));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }

    /// Returns the numeric settings with their valid ranges.
    fn bounds(&self) -> Vec<Bound> {
        let Self { server, token, store, otlp, plugins, .. } = self;
        let (connections, postgres) = (&server.connections, &store.postgres);
        let mut bounds: Vec<Bound> = vec![
            ("server.request_timeout_ms", server.request_timeout_ms, 100..=600_000),
            ("server.shutdown_timeout_ms", server.shutdown_timeout_ms, 100..=600_000),
            ("server.idempotency_keys_max", server.idempotency_keys_max, 1..=REMEMBERED_PER_CLIENT_CEILING),
            ("server.connections.max", connections.max, 1..=100_000),
            ("server.connections.per_address_max", connections.per_address_max, 1..=100_000),
            ("server.connections.requests_max", connections.requests_max, 1..=100_000),
            ("server.connections.http2_streams_max", connections.http2_streams_max, 1..=1_000),
            ("server.connections.header_timeout_ms", connections.header_timeout_ms, 100..=120_000),
            ("server.connections.body_timeout_ms", connections.body_timeout_ms, 100..=600_000),
            ("server.connections.body_stall_timeout_ms", connections.body_stall_timeout_ms, 100..=600_000),
            ("server.connections.idle_timeout_ms", connections.idle_timeout_ms, 100..=3_600_000),
            ("server.connections.write_timeout_ms", connections.write_timeout_ms, 100..=600_000),
            ("server.connections.responses_per_client_mib", connections.responses_per_client_mib, 1..=65_536),
            ("server.connections.responses_mib", connections.responses_mib, 1..=65_536),
            (
                "token.secret_age_warning_days",
                token.secret_age_warning_days.into(),
                0..=SECRET_AGE_WARNING_DAYS_MAX.into(),
            ),
            ("store.cache_mib", store.cache_mib, 8..=65_536),
            ("store.response_cache_mib", store.response_cache_mib, 0..=RESPONSE_CACHE_MIB_MAX),
            ("store.preview_cache_mib", store.preview_cache_mib, 0..=PREVIEW_CACHE_MIB_MAX),
            ("store.postgres.pool_max", postgres.pool_max.into(), 2..=1_000),
            ("store.postgres.connect_timeout_ms", postgres.connect_timeout_ms, 100..=60_000),
            ("store.postgres.acquire_timeout_ms", postgres.acquire_timeout_ms, 100..=60_000),
            ("store.postgres.statement_timeout_ms", postgres.statement_timeout_ms, 100..=600_000),
            ("store.postgres.partition_keys", postgres.partition_keys.into(), 1_024..=1_048_576),
            ("store.postgres.partitions_mib", postgres.partitions_mib, 0..=1_048_576),
            ("plugins.compile_seconds", plugins.compile_seconds, 1..=120),
            ("plugins.compile_memory_mib", plugins.compile_memory_mib, 64..=8_192),
            ("otlp.metrics_interval_s", otlp.metrics_interval_s, 0..=3_600),
            ("otlp.queue_spans_max", otlp.queue_spans_max, 1..=1_000_000),
            ("otlp.timeout_ms", otlp.timeout_ms, 100..=60_000),
            ("otlp.shutdown_timeout_ms", otlp.shutdown_timeout_ms, 100..=60_000),
        ];
        if let Some(tls) = &server.tls {
            bounds.push(("server.tls.handshake_timeout_ms", tls.handshake_timeout_ms, 100..=120_000));
            bounds.push(("server.tls.check_every_s", tls.check_every_s, 1..=86_400));
            bounds.push(("server.tls.expiry_warning_days", tls.expiry_warning_days, 1..=365));
        }
        bounds
    }
}

fn is_base_url(url: &str) -> bool {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    host.is_some_and(|host| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
    })
}

/// True if the environment requests output without colours (`NO_COLOR`, no-color.org).
#[must_use]
pub fn colours_are_unwanted() -> bool {
    #[expect(clippy::disallowed_methods, reason = "`config` is the one place that reads the environment")]
    std::env::var("NO_COLOR").is_ok_and(|value| !value.is_empty())
}

/// Returns the administrator token from the environment, for commands that connect to a remote server.
#[must_use]
pub fn admin_token_from_environment() -> Option<String> {
    secret_from_environment("DAFTAR_ADMIN_TOKEN")
}

/// Returns the secret of a client from the environment, for `daftar token`.
#[must_use]
pub fn client_secret_from_environment() -> Option<String> {
    secret_from_environment("DAFTAR_CLIENT_SECRET")
}

fn secret_from_environment(variable: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "`config` is the one place that reads the environment")]
    std::env::var(variable).ok().filter(|secret| !secret.is_empty())
}

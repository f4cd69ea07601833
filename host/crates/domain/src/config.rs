//! Typed settings from `daftar.toml`, with defaults that are safe.
//!
//! **Invariant:** the only module that reads the environment. An unknown key or a bad value refuses the start and names the
//! key, the file and what would be right; all problems are told at once.

mod keys;
mod otlp;
pub mod plugin_limits;
mod postgres;
mod sections;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::Deserialize;

use crate::idempotency::REMEMBERED_PER_CLIENT_CEILING;

pub use otlp::{OTLP_ENDPOINT_DEFAULT, OtlpConfig, TraceparentFrom};
pub use postgres::{PostgresConfig, StoreBackend, UrlFileError};
pub use sections::{
    AuditConfig, BODIES_MIB_DEFAULT, BODIES_MIB_MAX, CACHE_MIB_DEFAULT, CERTIFICATE_CHECK_S_DEFAULT, ConnectionsConfig,
    EXPIRY_WARNING_DAYS_DEFAULT, HANDSHAKE_TIMEOUT_MS_DEFAULT, LogConfig, LogFormat, LogLevel, PluginsConfig,
    REQUEST_TIMEOUT_MS_DEFAULT, RULE_COLUMNS_MIB_DEFAULT, RULE_COLUMNS_MIB_MAX, SECRET_AGE_WARNING_DAYS_DEFAULT,
    SECRET_AGE_WARNING_DAYS_MAX, ServerConfig, StoreConfig, TOKEN_LIFETIME_S_DEFAULT, TOKEN_LIFETIME_S_MAX, TlsConfig,
    TokenConfig, VocabularyConfig,
};

/// The biggest configuration file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// All settings.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Listeners.
    pub server: ServerConfig,
    /// Access tokens.
    pub token: TokenConfig,
    /// Where records live.
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

/// Why the settings cannot be used; each problem is one sentence.
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
    /// Reads a file.
    ///
    /// # Errors
    /// All problems at once: the file cannot be read, a key is unknown, a value is wrong.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let shown = path.display();
        let unreadable = |error: std::io::Error| {
            ConfigError::one(format!("cannot read `{shown}`: {error}; name the configuration file with --config"))
        };
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_BYTES_MAX {
            return Err(ConfigError::one(format!("`{shown}` has {size} bytes; at most {FILE_BYTES_MAX} are read")));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text).map_err(|error| ConfigError {
            problems: error.problems.into_iter().map(|problem| format!("`{shown}`: {problem}")).collect(),
        })
    }

    /// Reads settings from text.
    ///
    /// # Errors
    /// All problems at once.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let table: toml::Table = text.parse().map_err(|error| ConfigError::one(format!("not TOML: {error}")))?;
        let problems = keys::unknown_keys(&table);
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        let config: Self = toml::from_str(text).map_err(|error| ConfigError::one(error.to_string()))?;
        config.validate()?;
        Ok(config)
    }

    /// Checks what a type cannot say.
    ///
    /// # Errors
    /// All problems at once.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        let server = &self.server;
        if server.tls.is_none() && !server.listen.ip().is_loopback() && server.trusted_proxies.is_empty() {
            problems.push(format!(
                "`server.listen` is {}, which others can reach, without HTTPS: set `server.tls.cert` and `server.tls.key`, or listen on 127.0.0.1, or name the proxies that speak HTTPS in front of it as `server.trusted_proxies`",
                server.listen
            ));
        }
        if server.tls.is_none() && !server.admin_listen.ip().is_loopback() {
            problems.push(format!(
                "`server.admin_listen` is {}, which others can reach, without HTTPS: set `server.tls.cert` and `server.tls.key`, or stay on a loopback address such as 127.0.0.1:8081",
                server.admin_listen
            ));
        }
        if server.admin_listen == server.listen && server.listen.port() != 0 {
            problems.push("`server.listen` and `server.admin_listen` are the same address".to_owned());
        }
        if let Some(metrics) = server.metrics_listen {
            if server.tls.is_none() && !metrics.ip().is_loopback() {
                problems.push(format!(
                    "`server.metrics_listen` is {metrics}, which others can reach, without HTTPS: set `server.tls.cert` and `server.tls.key`, or listen on 127.0.0.1"
                ));
            }
            for (key, other) in [("server.listen", server.listen), ("server.admin_listen", server.admin_listen)] {
                if metrics == other && metrics.port() != 0 {
                    problems.push(format!("`server.metrics_listen` and `{key}` are the same address"));
                }
            }
        }
        if !(100..=600_000).contains(&server.request_timeout_ms) {
            problems.push("`server.request_timeout_ms` lies between 100 and 600000".to_owned());
        }
        sections::collect_problems(server, &mut problems);
        if !(1..=REMEMBERED_PER_CLIENT_CEILING).contains(&server.idempotency_keys_max) {
            problems.push(format!("`server.idempotency_keys_max` lies between 1 and {REMEMBERED_PER_CLIENT_CEILING}"));
        }
        if let Some(url) = &server.public_url
            && !is_base_url(url)
        {
            problems.push(format!(
                "`server.public_url` is `{url}`: write scheme and host without a path, such as `https://registry.example.org`"
            ));
        }
        if !(60..=TOKEN_LIFETIME_S_MAX).contains(&self.token.lifetime_s) {
            problems.push(format!("`token.lifetime_s` lies between 60 and {TOKEN_LIFETIME_S_MAX} seconds"));
        }
        for (key, value) in [("token.issuer", &self.token.issuer), ("token.audience", &self.token.audience)] {
            if value.is_empty() || value.len() > 200 {
                problems.push(format!("`{key}` has 1 to 200 bytes"));
            }
        }
        if self.token.secret_age_warning_days > SECRET_AGE_WARNING_DAYS_MAX {
            problems.push(format!("`token.secret_age_warning_days` lies between 0 and {SECRET_AGE_WARNING_DAYS_MAX}"));
        }
        if !(8..=65_536).contains(&self.store.cache_mib) {
            problems.push("`store.cache_mib` lies between 8 and 65536".to_owned());
        }
        if self.store.bodies_mib > BODIES_MIB_MAX {
            problems.push(format!("`store.bodies_mib` lies between 0 and {BODIES_MIB_MAX}"));
        }
        if self.store.rule_columns_mib > RULE_COLUMNS_MIB_MAX {
            problems.push(format!("`store.rule_columns_mib` lies between 0 and {RULE_COLUMNS_MIB_MAX}"));
        }
        postgres::collect_problems(self.store.backend, &self.store.postgres, &mut problems);
        otlp::collect_problems(&self.otlp, &mut problems);
        let keys = &self.plugins.trusted_keys;
        for (place, key) in keys.iter().enumerate() {
            if keys.iter().take(place).any(|before| before.id() == key.id()) {
                problems.push(format!("`plugins.trusted_keys` has the key `{}` ({}) twice", key.key(), key.id()));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }
}

fn is_base_url(url: &str) -> bool {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    host.is_some_and(|host| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
    })
}

/// Whether the environment asks for output without colours (`NO_COLOR`, no-color.org).
#[must_use]
pub fn colours_are_unwanted() -> bool {
    #[expect(clippy::disallowed_methods, reason = "`config` is the one place that reads the environment")]
    std::env::var("NO_COLOR").is_ok_and(|value| !value.is_empty())
}

/// The admin token given in the environment, for commands that reach a distant server.
#[must_use]
pub fn admin_token_from_environment() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "`config` is the one place that reads the environment")]
    std::env::var("DAFTAR_ADMIN_TOKEN").ok().filter(|token| !token.is_empty())
}

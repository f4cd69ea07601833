//! Typed settings from `daftar.toml`, with defaults that are safe.
//!
//! **Invariant:** the only module that reads the environment. An unknown key or a bad value refuses the start and names the
//! key, the file and what would be right; all problems are told at once.

mod keys;
pub mod plugin_limits;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::domain::manifest::PluginName;
use crate::domain::plugin_key::PluginKey;
use plugin_limits::PluginLimitsConfig;

/// How long one request may take before it is answered with 503.
pub const REQUEST_TIMEOUT_MS_DEFAULT: u64 = 30_000;
/// How long an access token is good for: one day, so that a nightly job needs one.
pub const TOKEN_LIFETIME_S_DEFAULT: u64 = 86_400;
/// The longest lifetime of a token: a month; a stolen one is good for as long.
pub const TOKEN_LIFETIME_S_MAX: u64 = 31 * 86_400;
/// How much memory the store may use for its cache.
pub const CACHE_MIB_DEFAULT: u64 = 128;
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
}

/// Listeners.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Where API clients connect.
    pub listen: SocketAddr,
    /// Where the administrator connects; a loopback address.
    pub admin_listen: SocketAddr,
    /// Where the metrics page is served without a token, besides the admin listener; nowhere where absent.
    pub metrics_listen: Option<SocketAddr>,
    /// The URL by which clients know this server, without a path; made from `listen` where absent.
    pub public_url: Option<String>,
    /// How long one request may take.
    pub request_timeout_ms: u64,
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
}

impl Default for TokenConfig {
    fn default() -> Self {
        Self { lifetime_s: TOKEN_LIFETIME_S_DEFAULT, issuer: "svc-api-v2".to_owned(), audience: "svc".to_owned() }
    }
}

/// Where records live.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// Memory for the store's cache.
    pub cache_mib: u64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { cache_mib: CACHE_MIB_DEFAULT }
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
        let size =
            std::fs::metadata(path).map_err(|error| ConfigError::one(format!("cannot read `{shown}`: {error}")))?.len();
        if size > FILE_BYTES_MAX {
            return Err(ConfigError::one(format!("`{shown}` has {size} bytes; at most {FILE_BYTES_MAX} are read")));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::one(format!("cannot read `{shown}`: {error}")))?;
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
        if server.tls.is_none() && !server.listen.ip().is_loopback() {
            problems.push(format!(
                "`server.listen` is {}, which others can reach, without HTTPS: set `server.tls.cert` and `server.tls.key`, or listen on 127.0.0.1",
                server.listen
            ));
        }
        if !server.admin_listen.ip().is_loopback() {
            problems.push(format!(
                "`server.admin_listen` is {}, which others can reach: the admin listener stays on a loopback address such as 127.0.0.1:8081",
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
        if !(8..=65_536).contains(&self.store.cache_mib) {
            problems.push("`store.cache_mib` lies between 8 and 65536".to_owned());
        }
        let keys = &self.plugins.trusted_keys;
        for (place, key) in keys.iter().enumerate() {
            if keys.iter().take(place).any(|before| before.id() == key.id()) {
                problems.push(format!("`plugins.trusted_keys` has the key `{key}` ({}) twice", key.id()));
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

/// The admin token given in the environment, for commands that reach a distant server.
#[must_use]
pub fn admin_token_from_environment() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "`config` is the one place that reads the environment")]
    std::env::var("DAFTAR_ADMIN_TOKEN").ok().filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(config.server.admin_listen.to_string(), "127.0.0.1:8081");
        assert_eq!(config.token.issuer, "svc-api-v2");
    }

    /// The example names every key, and all but the paths and the URL are the defaults.
    #[test]
    fn the_example_file_can_be_loaded_and_says_the_defaults() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/daftar.example.toml");
        let example = Config::load(&path).unwrap();
        let default = Config::default();
        assert_eq!(example.server.listen, default.server.listen);
        assert_eq!(example.server.admin_listen, default.server.admin_listen);
        assert_eq!(example.server.request_timeout_ms, default.server.request_timeout_ms);
        assert_eq!(example.token.lifetime_s, default.token.lifetime_s);
        assert_eq!(example.token.issuer, default.token.issuer);
        assert_eq!(example.token.audience, default.token.audience);
        assert_eq!(example.store.cache_mib, default.store.cache_mib);
        assert_eq!(example.plugins.allow_unsigned, default.plugins.allow_unsigned);
        assert_eq!(example.plugins.trusted_keys, [], "whoever copies the example trusts nobody by that");
        assert_eq!(example.vocabulary.default_language, default.vocabulary.default_language);
        assert_eq!(example.audit.retention_days, default.audit.retention_days);
        assert_eq!(example.log.level, default.log.level);
        assert_eq!(example.log.format, default.log.format);
        let table: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        assert_eq!(keys::known_but_absent(&table), Vec::<&str>::new());
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_one() {
        let error = Config::parse("[server]\nlistne = '127.0.0.1:1'\n[tokens]\nissuer = 'x'\n").unwrap_err();
        assert_eq!(
            error.problems,
            [
                "unknown key `server.listne`; did you mean `server.listen`?",
                "unknown key `tokens`; did you mean `token`?"
            ]
        );
    }

    #[test]
    fn keys_for_plugins_are_read_and_a_wrong_one_is_named() {
        let key = "ed25519:6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=";
        let keys = Config::parse(&format!("[plugins]\ntrusted_keys = ['{key} ours']")).unwrap().plugins.trusted_keys;
        assert_eq!(keys.iter().map(ToString::to_string).collect::<Vec<_>>(), [format!("{key} ours")]);
        let error = Config::parse(&format!("[plugins]\ntrusted_keys = ['{key}', 'ed25519:AAAA']")).unwrap_err();
        assert!(error.to_string().contains("`ed25519:AAAA` is no public key for plugins"), "{error}");
        assert!(error.to_string().contains("trusted_keys"), "{error}");
        let error = Config::parse(&format!("[plugins]\ntrusted_keys = ['{key}', '{key} again']")).unwrap_err();
        assert!(error.to_string().contains("twice") && error.to_string().contains(" again"), "{error}");
    }

    #[test]
    fn plain_http_stays_on_loopback() {
        let error = Config::parse("[server]\nlisten = '0.0.0.0:8080'\nadmin_listen = '0.0.0.0:8081'").unwrap_err();
        assert_eq!(error.problems.len(), 2, "{error}");
        assert!(error.problems[0].contains("server.tls.cert"), "{error}");
    }

    #[test]
    fn metrics_leave_the_machine_by_https_only_and_have_an_address_of_their_own() {
        let parse = |address: &str| Config::parse(&format!("[server]\nmetrics_listen = '{address}'"));
        assert!(parse("127.0.0.1:9090").is_ok());
        assert!(parse("0.0.0.0:9090").unwrap_err().problems[0].contains("without HTTPS"));
        assert!(parse("127.0.0.1:8081").unwrap_err().problems[0].contains("`server.admin_listen` are the same"));
        let tls = "[server]\nmetrics_listen = '0.0.0.0:9090'\n[server.tls]\ncert = 'c'\nkey = 'k'";
        assert!(Config::parse(tls).is_ok());
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let text = "[token]\nlifetime_s = 1\nissuer = ''\n[store]\ncache_mib = 1\n[server]\npublic_url = 'https://a/b'";
        assert_eq!(Config::parse(text).unwrap_err().problems.len(), 4);
    }
}

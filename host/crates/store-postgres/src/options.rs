//! Location of the database, and limits of its use.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::OpenError;

/// TCP keepalive, so that the server detects a lost host within half a minute. Until then it holds the locks of its
/// connections: the exclusive lock, and tasks of previews. Without it, that takes hours on an idle connection and a
/// quarter of an hour on another. Unix socket connections ignore it.
const SERVER_SIDE: &str = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 \
                           -c tcp_user_timeout=30000";

/// Sizes from which rows are sent to the database in batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkLimits {
    /// Number of new rows from which they are copied; a statement with arrays is faster for fewer.
    pub copied_rows_min: usize,
    /// Size in bytes after which a database that is being filled is sent its rows.
    pub flush_bytes: usize,
}

impl Default for BulkLimits {
    fn default() -> Self {
        Self { copied_rows_min: 64, flush_bytes: 4 * 1024 * 1024 }
    }
}

/// Connection and limits of a register in PostgreSQL.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The URL: `postgres://<role>:<password>@<host>:<port>/<database>`, with `sslmode` and other parameters.
    pub url: SecretString,
    /// CA certificates for the server, as a PEM file; those of the system if absent.
    pub ca_file: Option<PathBuf>,
    /// Maximum number of connections for reads. One more writes and one listens.
    pub connections_max: usize,
    /// Maximum time to open a connection.
    pub connect_timeout: Duration,
    /// Maximum time that a read waits for a connection.
    pub acquire_timeout: Duration,
    /// Maximum time of one statement.
    pub statement_timeout: Duration,
    /// Maximum time that a statement waits for a lock; three quarters of `statement_timeout` where that is less.
    pub lock_timeout: Duration,
    /// Maximum time that a write waits before it begins, and that it is retried while the database is unavailable.
    pub write_wait: Duration,
    /// Maximum number of pending writes; one more is rejected as [`daftar_store::StoreError::Overloaded`].
    pub queue_writes_max: usize,
    /// Sizes of batches.
    pub bulk: BulkLimits,
    /// True to open a register that was caught up and not compared, for that comparison.
    pub opens_not_compared: bool,
}

impl PostgresOptions {
    /// Sixteen connections, and no wait longer than clients accept.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            ca_file: None,
            connections_max: 16,
            connect_timeout: Duration::from_secs(5),
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(2),
            write_wait: Duration::from_secs(5),
            queue_writes_max: 2048,
            bulk: BulkLimits::default(),
            opens_not_compared: false,
        }
    }

    /// Parses the URL.
    pub(super) fn target(&self) -> Result<Target, OpenError> {
        let url = self.url.expose_secret();
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        if !is_url {
            return Err(OpenError::Url("it does not begin with `postgres://`".to_owned()));
        }
        let (url, mode) = without_mode(url)?;
        // The fault is not quoted: it may be a part of the password.
        let mut config: Config = url
            .parse()
            .map_err(|_| OpenError::Url("it cannot be read; in a password `@`, `/`, `?`, `#` and `%` are written `%40`, `%2F`, `%3F`, `%23` and `%25`".to_owned()))?;
        if config.get_hosts().is_empty() {
            return Err(OpenError::Url("it names no host".to_owned()));
        }
        if config.get_user().is_none() {
            return Err(OpenError::Url("it names no role".to_owned()));
        }
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(OpenError::Url("its `target_session_attrs` is `read-write` or absent".to_owned()));
        }
        let is_here = config.get_hosts().iter().all(is_this_machine);
        let is_tls = match mode {
            Some(Mode::Off) => false,
            Some(Mode::Checked) => true,
            None => !is_here,
        };
        config.ssl_mode(if is_tls { SslMode::Require } else { SslMode::Disable });
        let place = place(&config);
        // JIT compilation takes longer than any of our statements, and plans that are forced to look up by keys seem
        // expensive enough for it.
        let ours = format!(
            "-c statement_timeout={0} -c idle_in_transaction_session_timeout={0} -c client_min_messages=warning -c jit=off \
             {SERVER_SIDE}",
            self.statement_timeout.as_millis().max(1)
        );
        let options = [config.get_options().unwrap_or_default(), &ours].join(" ");
        config.options(options.trim());
        if config.get_application_name().is_none() {
            config.application_name("daftar");
        }
        config.connect_timeout(self.connect_timeout).tcp_user_timeout(self.statement_timeout);
        config.keepalives_idle(Duration::from_secs(10));
        if config.get_hosts().len() > 1 {
            // One of them is the primary, another may be the next. A connection to the first that responds would read
            // stale data of an old primary for hours.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Target { config, is_tls, place })
    }
}

/// Target of a connection.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) is_tls: bool,
    /// Host and database, for messages.
    pub(super) place: String,
}

enum Mode {
    Off,
    Checked,
}

/// Splits the URL from its `sslmode`: TLS with a fully verified certificate, or none. There is nothing in between, as a
/// man in the middle could downgrade it.
fn without_mode(url: &str) -> Result<(String, Option<Mode>), OpenError> {
    let after_credentials = url.rfind('@').unwrap_or(0);
    let begins = url.get(after_credentials..).and_then(|rest| rest.find('?'));
    let Some((front, query)) = begins.and_then(|at| url.split_at_checked(after_credentials.saturating_add(at))) else {
        return Ok((url.to_owned(), None));
    };
    let mut mode = None;
    let mut rest = Vec::new();
    for parameter in query.trim_start_matches('?').split('&') {
        match parameter.split_once('=') {
            Some(("sslmode", "disable")) => mode = Some(Mode::Off),
            Some(("sslmode", "require" | "verify-ca" | "verify-full")) => mode = Some(Mode::Checked),
            Some(("sslmode", _)) => {
                return Err(OpenError::Url("its `sslmode` is `verify-full` or `disable`".to_owned()));
            }
            Some(("sslrootcert", _)) => {
                return Err(OpenError::Url(
                    "the file of `sslrootcert` is named by the configuration, not by the URL".to_owned(),
                ));
            }
            _ => rest.push(parameter),
        }
    }
    let query = rest.join("&");
    Ok((if query.is_empty() { front.to_owned() } else { format!("{front}?{query}") }, mode))
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

/// Host and database, without role and password.
fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("database `{database}` at {}", hosts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, String> {
        PostgresOptions::new(url.to_owned().into()).target().map_err(|error| error.to_string())
    }

    #[test]
    fn tls_is_asked_for_everywhere_but_on_this_machine() {
        for (url, is_tls) in [
            ("postgres://d@127.0.0.1/r", false),
            ("postgres://d@localhost:5433/r", false),
            ("postgres://d@[::1]/r", false),
            ("postgres://d@%2Frun%2Fpostgresql/r", false),
            ("postgres://d@db.example.org/r", true),
            ("postgres://d@localhost,db.example.org/r", true),
            ("postgres://d@db.example.org/r?sslmode=disable", false),
            ("postgres://d@localhost/r?sslmode=require", true),
            ("postgres://d@localhost/r?connect_timeout=3&sslmode=verify-full", true),
        ] {
            let target = target(url).unwrap();
            assert_eq!(target.is_tls, is_tls, "{url}");
            let expected = if is_tls { SslMode::Require } else { SslMode::Disable };
            assert_eq!(target.config.get_ssl_mode(), expected, "{url}");
        }
    }

    #[test]
    fn of_several_hosts_the_writable_one_is_used() {
        use TargetSessionAttrs::{Any, ReadWrite};
        for (url, expected) in [
            ("postgres://d@a.example.org/r", Any),
            ("postgres://d@a.example.org/r?target_session_attrs=read-write", ReadWrite),
            ("postgres://d@a.example.org,b.example.org/r", ReadWrite),
            ("postgres://d@a.example.org,b.example.org/r?target_session_attrs=any", ReadWrite),
        ] {
            match target(url) {
                Ok(target) => assert_eq!(target.config.get_target_session_attrs(), expected, "{url}"),
                Err(reported) => panic!("{url}: {reported}"),
            }
        }
    }

    #[test]
    fn errors_of_a_url_do_not_contain_its_password() {
        for (url, says) in [
            ("mysql://d:geheim@h/r", "does not begin with `postgres://`"),
            ("postgres://d:geheim@h/r?sslmode=prefer", "`verify-full` or `disable`"),
            ("postgres://d:geheim@h/r?sslrootcert=/x", "named by the configuration"),
            ("postgres://d:geheim@h:port/r", "cannot be read"),
            ("postgres://d:geheim?x@h:port/r", "cannot be read"),
            ("postgres://d:geheim@h/r?geheim=1", "cannot be read"),
            ("postgres://h.example.org/r", "names no role"),
            ("postgres://d:geheim@h,i/r?target_session_attrs=read-only", "`read-write` or absent"),
        ] {
            let reported = target(url).unwrap_err();
            assert!(reported.contains(says) && !reported.contains("geheim"), "{url}: {reported}");
        }
        let target = target("postgres://d:geheim@h.example.org:5433,i.example.org:5434/r").unwrap();
        assert_eq!(target.place, "database `r` at h.example.org:5433, i.example.org:5434");
        assert!(!format!("{target:?}").contains("geheim"));
    }
}

//! `[store.postgres]`: connection to the database.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

/// Maximum size of a file with a URL, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024;
/// Permission bits that the file must not have, for users other than owner and group. The group may read: container
/// platforms mount secrets that way.
const OTHERS_MASK: u32 = 0o027;

/// The storage backend of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum StoreBackend {
    /// In a folder of this process.
    #[default]
    Sled,
    /// In a PostgreSQL database shared by several processes.
    Postgres,
}

impl StoreBackend {
    /// The other backend, with which a register is exchanged.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Sled => Self::Postgres,
            Self::Postgres => Self::Sled,
        }
    }

    /// The place of a register, in messages.
    #[must_use]
    pub fn place(self) -> &'static str {
        match self {
            Self::Sled => "folder",
            Self::Postgres => "database",
        }
    }
}

/// Data source of searches and previews on PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum PostgresIndexPlace {
    /// The search tables of the database.
    #[default]
    Database,
    /// The register in memory, updated with the changes of every server.
    Memory,
}

/// Settings of the database connection.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct PostgresConfig {
    /// URL without a password.
    pub url: Option<String>,
    /// File with the URL, which may contain a password.
    pub url_file: Option<PathBuf>,
    /// Folder shared by every process of the register: `keys` in it contains the keys that sign tokens and protect
    /// secrets. The data folder if absent.
    pub shared_dir: Option<PathBuf>,
    /// Maximum number of connections of this process.
    pub pool_max: u32,
    /// Timeout of establishing a connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Maximum time that a request waits for a free connection, in milliseconds.
    pub acquire_timeout_ms: u64,
    /// Timeout of a statement, in milliseconds.
    pub statement_timeout_ms: u64,
    /// CA certificates for the database connection; those of the system if absent.
    pub ca_file: Option<PathBuf>,
    /// Data source of searches and previews.
    pub index: PostgresIndexPlace,
    /// Number of successive keys in a partition of the register, for previews of rules.
    pub partition_keys: u32,
    /// Memory for partitions cached for the next preview, in MiB.
    pub partitions_mib: u64,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            url: None,
            url_file: None,
            shared_dir: None,
            pool_max: 16,
            connect_timeout_ms: 3_000,
            acquire_timeout_ms: 3_000,
            statement_timeout_ms: 10_000,
            ca_file: None,
            index: PostgresIndexPlace::Database,
            // The part of a register that a process has in memory during a preview of rules.
            partition_keys: 65_536,
            // A million people and their households.
            partitions_mib: 1_024,
        }
    }
}

impl PostgresConfig {
    /// Returns the URL, read from its file if it is in one.
    ///
    /// # Errors
    /// One sentence that names the key, the file and the problem, without the content of the file.
    pub fn read_url(&self) -> Result<SecretString, UrlFileError> {
        if let Some(url) = &self.url {
            return Ok(SecretString::from(url.as_str()));
        }
        const SETTING: &str = "store.postgres.url_file";
        let unusable = |reason: String| UrlFileError::Unusable(format!("`{SETTING}`{reason}"));
        let path = self.url_file.as_deref().ok_or_else(|| unusable(" is not set".to_owned()))?;
        let url = read_private(SETTING, path)?;
        let url = SecretString::from(url.expose_secret().trim());
        if !is_url(url.expose_secret()) {
            return Err(unusable(format!(": `{}` contains no URL such as `{EXAMPLE}`", path.display())));
        }
        Ok(url)
    }

    /// Checks that the shared folder exists. A missing folder is not created: the volume may not be mounted, and the
    /// server would create keys of its own there.
    ///
    /// # Errors
    /// One sentence that names the key, the folder and the remedy.
    pub fn check_shared_dir(&self) -> Result<(), String> {
        let Some(path) = self.shared_dir.as_deref().filter(|path| !path.is_dir()) else { return Ok(()) };
        let path = path.display();
        Err(format!(
            "`store.postgres.shared_dir`: `{path}` does not exist or is not a folder: mount the volume shared by all servers of the register, or create the folder as the server's account with `install -d -m 700 {path}`"
        ))
    }
}

/// Error: a file with a secret cannot be used; one sentence each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlFileError {
    /// Other users may read or change it.
    #[error("{0}")]
    NotPrivate(String),
    /// It is missing, cannot be read, or has other content.
    #[error("{0}")]
    Unusable(String),
}

const EXAMPLE: &str = "postgresql://daftar@db.example.org/daftar";

/// Reads a small file with a secret, named by a setting.
///
/// # Errors
/// [`UrlFileError`] if it cannot be read, is not a small file, or other users may read it.
pub fn read_private(setting: &str, path: &Path) -> Result<SecretString, UrlFileError> {
    let of_file = |reason: &str| format!("`{setting}`: `{}` {reason}", path.display());
    let unusable = |reason: &str| UrlFileError::Unusable(of_file(reason));
    let failed = |error: std::io::Error| unusable(&format!("cannot be read: {error}"));
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mode = metadata.permissions().mode() & 0o777;
    if !metadata.is_file() {
        return Err(unusable("is not a regular file"));
    }
    if mode & OTHERS_MASK != 0 {
        let reason = format!("may be read or changed by other users (mode {mode:03o}): run `chmod 600` on it");
        return Err(UrlFileError::NotPrivate(of_file(&reason)));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(unusable(&format!("has more than {FILE_BYTES_MAX} bytes")));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(SecretString::from(text))
}

/// Collects the problems of the table, if the backend is PostgreSQL.
pub(super) fn collect_problems(backend: StoreBackend, config: &PostgresConfig, problems: &mut Vec<String>) {
    match (&config.url, &config.url_file) {
        (Some(_), Some(_)) => {
            problems.push("`store.postgres.url` and `store.postgres.url_file` are both set: keep one of them".to_owned());
        }
        (None, None) if backend == StoreBackend::Postgres => problems.push(format!(
            "`store.backend` is `postgres`, and `[store.postgres]` does not name the database: set `url_file`, a file with its URL, or, without a password, `url`, such as `{EXAMPLE}`"
        )),
        // Not repeated in the message: it may contain a password.
        (Some(url), None) if !is_url(url) => {
            problems.push(format!("`store.postgres.url` is not a database URL such as `{EXAMPLE}`"));
        }
        (Some(url), None) if has_password(url) => problems.push(
            "`store.postgres.url` contains a password, which every reader of the configuration sees: put the URL into a file that only the server's account can read, and set `store.postgres.url_file` to its path".to_owned(),
        ),
        (Some(_) | None, None) | (None, Some(_)) => {}
    }
}

fn is_url(url: &str) -> bool {
    let rest = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.chars().any(|one| one.is_whitespace() || one.is_control()))
}

/// True if a URL contains a password, before the `@` or as a parameter.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (before, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let user = before.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || parameters.split('&').any(|one| one.starts_with("password="))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        crate::config::Config::parse(text).err().map(|error| error.problems).unwrap_or_default()
    }

    #[test]
    fn a_database_is_named_by_a_url_or_a_file_with_one() {
        let with = |line: &str| problems(&format!("[store]\nbackend = 'postgres'\n[store.postgres]\n{line}"));
        assert_eq!(with("url = 'postgresql://daftar@db/daftar'"), [""; 0]);
        assert_eq!(with("url = 'postgres:///daftar?host=/run/postgresql'"), [""; 0]);
        assert_eq!(with("url_file = '/etc/daftar/database'"), [""; 0]);
        assert!(with("")[0].contains("does not name the database"));
        assert!(with("url = 'mysql://db/x'")[0].contains("is not a database URL"));
        assert!(with("url = 'postgresql://db/x'\nurl_file = 'f'")[0].contains("keep one of them"));
        for url in ["postgresql://daftar:SECRET@db/daftar", "postgresql://db/daftar?user=a&password=SECRET"] {
            let reported = with(&format!("url = '{url}'"));
            assert!(reported[0].contains("contains a password") && !reported[0].contains("SECRET"), "{reported:?}");
        }
        assert_eq!(problems("[store.postgres]\npool_max = 4"), [""; 0], "unused settings are not checked");
        assert_eq!(problems("[store]\nbackend = 'mysql'").len(), 1);
    }

    #[test]
    fn searches_use_the_database_or_memory() {
        let place = |text: &str| crate::config::Config::parse(text).map(|config| config.store.postgres.index);
        assert_eq!(place("").unwrap(), PostgresIndexPlace::Database);
        assert_eq!(place("[store.postgres]\nindex = 'memory'").unwrap(), PostgresIndexPlace::Memory);
        assert_eq!(place("[store.postgres]\nindex = 'database'").unwrap(), PostgresIndexPlace::Database);
        assert_eq!(problems("[store.postgres]\nindex = 'disk'").len(), 1);
    }

    #[test]
    fn all_exceeded_bounds_are_reported_together() {
        let text = "[store.postgres]\npool_max = 1\nconnect_timeout_ms = 99\nacquire_timeout_ms = 60001\nstatement_timeout_ms = 0\npartition_keys = 1023\npartitions_mib = 1048577";
        let reported = problems(text);
        assert_eq!(reported.len(), 6, "{reported:?}");
        assert_eq!(reported[0], "`store.postgres.pool_max` must be between 2 and 1000");
    }

    #[test]
    fn a_url_is_read_from_a_file_private_to_the_account() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("database");
        let config = PostgresConfig { url_file: Some(path.clone()), ..PostgresConfig::default() };
        assert!(config.read_url().unwrap_err().to_string().contains("cannot be read"));
        std::fs::write(&path, "postgresql://daftar:SECRET@db/daftar\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o440)).unwrap();
        assert_eq!(config.read_url().unwrap().expose_secret(), "postgresql://daftar:SECRET@db/daftar");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let reported = config.read_url().unwrap_err();
        assert!(matches!(reported, UrlFileError::NotPrivate(_)));
        let reported = reported.to_string();
        assert!(reported.contains("chmod 600") && !reported.contains("SECRET"), "{reported}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "host=db password=SECRET").unwrap();
        let reported = config.read_url().unwrap_err().to_string();
        assert!(reported.contains("contains no URL") && !reported.contains("SECRET"), "{reported}");
    }
}

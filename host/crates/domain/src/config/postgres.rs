//! `[store.postgres]`: how the database is reached.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// The biggest file with a URL that is read.
const FILE_BYTES_MAX: u64 = 16 * 1024;
/// What others than owner and group may do with the file; must be nothing. A group may read: that is how secrets are handed to
/// containers.
const OTHERS_MASK: u32 = 0o027;

/// Where the records are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum StoreBackend {
    /// In a folder of this process.
    #[default]
    Sled,
    /// In a PostgreSQL that several processes share.
    Postgres,
}

/// What searches and previews of a server on PostgreSQL are answered from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum PostgresIndexPlace {
    /// The search tables of the database.
    #[default]
    Database,
    /// The register in memory, which follows what any server writes.
    Memory,
}

/// How the database is reached.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PostgresConfig {
    /// Its URL, without a password.
    pub url: Option<String>,
    /// A file with its URL, which may have a password.
    pub url_file: Option<PathBuf>,
    /// A folder that every process of the register has: `keys` in it holds what signs tokens and protects secrets. The data folder where
    /// absent.
    pub shared_dir: Option<PathBuf>,
    /// Connections that this process opens at most.
    pub pool_max: u32,
    /// How long a connection may take to come about.
    pub connect_timeout_ms: u64,
    /// How long a request waits for a connection to be free.
    pub acquire_timeout_ms: u64,
    /// How long the database may work on one statement.
    pub statement_timeout_ms: u64,
    /// Certificates of those who may vouch for the database's own; those of the system where absent.
    pub ca_file: Option<PathBuf>,
    /// What searches and previews are answered from.
    pub index: PostgresIndexPlace,
    /// How many successive keys a partition of the register has when rules are previewed.
    pub partition_keys: u32,
    /// How much memory partitions may take that are kept for the next preview, in MiB.
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
            // What a process has in memory of a register of which it previews rules.
            partition_keys: 65_536,
            // A million people and their households.
            partitions_mib: 1_024,
        }
    }
}

impl PostgresConfig {
    /// The URL, read from its file where it is in one.
    ///
    /// # Errors
    /// One sentence that names the key, the file and what is wrong with it, and nothing of what it holds.
    pub fn read_url(&self) -> Result<SecretString, UrlFileError> {
        if let Some(url) = &self.url {
            return Ok(SecretString::from(url.as_str()));
        }
        const SETTING: &str = "store.postgres.url_file";
        let unusable = |reason: String| UrlFileError::Unusable(format!("`{SETTING}`{reason}"));
        let path = self.url_file.as_deref().ok_or_else(|| unusable(" names no file".to_owned()))?;
        let url = read_private(SETTING, path)?;
        let url = SecretString::from(url.expose_secret().trim());
        if !is_url(url.expose_secret()) {
            return Err(unusable(format!(": `{}` holds no URL such as `{EXAMPLE}`", path.display())));
        }
        Ok(url)
    }

    /// Makes sure that the folder is there that every process of the register has. It is not created where it is missing: a volume
    /// that is not mounted is missing too, and the server would create keys of its own there.
    ///
    /// # Errors
    /// One sentence that names the key, the folder and the remedy.
    pub fn check_shared_dir(&self) -> Result<(), String> {
        let Some(path) = self.shared_dir.as_deref().filter(|path| !path.is_dir()) else { return Ok(()) };
        let path = path.display();
        Err(format!(
            "`store.postgres.shared_dir`: `{path}` is not there, or is no folder: mount the volume that every server of the register has, or make the folder as the server's account with `install -d -m 700 {path}`"
        ))
    }
}

/// Why a file with a secret cannot be used; one sentence each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlFileError {
    /// Others may read or change it.
    #[error("{0}")]
    NotPrivate(String),
    /// It is not there, cannot be read, or holds something else.
    #[error("{0}")]
    Unusable(String),
}

const EXAMPLE: &str = "postgresql://daftar@db.example.org/daftar";

/// Reads a small file with a secret that a setting names.
///
/// # Errors
/// [`UrlFileError`], where it cannot be read, is no small file, or others may read it.
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
        let reason = format!("may be read or changed by others (mode {mode:03o}): `chmod 600` it");
        return Err(UrlFileError::NotPrivate(of_file(&reason)));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(unusable(&format!("has more than {FILE_BYTES_MAX} bytes")));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(SecretString::from(text))
}

/// What is wrong with the table, where it is what the register is kept in.
pub(super) fn collect_problems(backend: StoreBackend, config: &PostgresConfig, problems: &mut Vec<String>) {
    match (&config.url, &config.url_file) {
        (Some(_), Some(_)) => {
            problems.push("`store.postgres.url` and `store.postgres.url_file` are both there: keep one of them".to_owned());
        }
        (None, None) if backend == StoreBackend::Postgres => problems.push(format!(
            "`store.backend` is `postgres`, and `[store.postgres]` does not say where the database is: set `url_file`, a file with its URL, or `url`, where it needs no password, such as `{EXAMPLE}`"
        )),
        // Never repeated: it may hold a password.
        (Some(url), None) if !is_url(url) => {
            problems.push(format!("`store.postgres.url` is no URL of a database such as `{EXAMPLE}`"));
        }
        (Some(url), None) if has_password(url) => problems.push(
            "`store.postgres.url` holds a password, which everybody knows who reads the configuration: put the URL into a file that only the server's account can read, and name that as `store.postgres.url_file`".to_owned(),
        ),
        (Some(_) | None, None) | (None, Some(_)) => {}
    }
}

fn is_url(url: &str) -> bool {
    let rest = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.chars().any(|one| one.is_whitespace() || one.is_control()))
}

/// Whether a URL has a password, before the `@` or as a parameter.
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
    fn a_database_is_named_by_a_url_or_a_file_that_holds_one() {
        let with = |line: &str| problems(&format!("[store]\nbackend = 'postgres'\n[store.postgres]\n{line}"));
        assert_eq!(with("url = 'postgresql://daftar@db/daftar'"), [""; 0]);
        assert_eq!(with("url = 'postgres:///daftar?host=/run/postgresql'"), [""; 0]);
        assert_eq!(with("url_file = '/etc/daftar/database'"), [""; 0]);
        assert!(with("")[0].contains("does not say where the database is"));
        assert!(with("url = 'mysql://db/x'")[0].contains("no URL of a database"));
        assert!(with("url = 'postgresql://db/x'\nurl_file = 'f'")[0].contains("keep one of them"));
        for url in ["postgresql://daftar:SECRET@db/daftar", "postgresql://db/daftar?user=a&password=SECRET"] {
            let told = with(&format!("url = '{url}'"));
            assert!(told[0].contains("holds a password") && !told[0].contains("SECRET"), "{told:?}");
        }
        assert_eq!(problems("[store.postgres]\npool_max = 4"), [""; 0], "nothing is asked of who does not use it");
        assert_eq!(problems("[store]\nbackend = 'mysql'").len(), 1);
    }

    #[test]
    fn searches_are_answered_from_the_database_or_from_memory() {
        let place = |text: &str| crate::config::Config::parse(text).map(|config| config.store.postgres.index);
        assert_eq!(place("").unwrap(), PostgresIndexPlace::Database);
        assert_eq!(place("[store.postgres]\nindex = 'memory'").unwrap(), PostgresIndexPlace::Memory);
        assert_eq!(place("[store.postgres]\nindex = 'database'").unwrap(), PostgresIndexPlace::Database);
        assert_eq!(problems("[store.postgres]\nindex = 'disk'").len(), 1);
    }

    #[test]
    fn bounds_are_told_all_at_once() {
        let text = "[store.postgres]\npool_max = 1\nconnect_timeout_ms = 99\nacquire_timeout_ms = 60001\nstatement_timeout_ms = 0\npartition_keys = 1023\npartitions_mib = 1048577";
        let told = problems(text);
        assert_eq!(told.len(), 6, "{told:?}");
        assert_eq!(told[0], "`store.postgres.pool_max` lies between 2 and 1000");
    }

    #[test]
    fn a_url_is_read_from_a_file_that_nobody_else_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("database");
        let config = PostgresConfig { url_file: Some(path.clone()), ..PostgresConfig::default() };
        assert!(config.read_url().unwrap_err().to_string().contains("cannot be read"));
        std::fs::write(&path, "postgresql://daftar:SECRET@db/daftar\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o440)).unwrap();
        assert_eq!(config.read_url().unwrap().expose_secret(), "postgresql://daftar:SECRET@db/daftar");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let told = config.read_url().unwrap_err();
        assert!(matches!(told, UrlFileError::NotPrivate(_)));
        let told = told.to_string();
        assert!(told.contains("chmod 600") && !told.contains("SECRET"), "{told}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "host=db password=SECRET").unwrap();
        let told = config.read_url().unwrap_err().to_string();
        assert!(told.contains("holds no URL") && !told.contains("SECRET"), "{told}");
    }
}

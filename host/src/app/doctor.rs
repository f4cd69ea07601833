//! Checks the set-up of a server and reports problems with their solutions.
//!
//! The command runs the same checks on the folder of a stopped server; a running server checks itself, with more data.
//!
//! **Invariant:** the checks change nothing: they create no file with a name, do not open the database, and take a lock
//! only for the time needed to test whether another process has it.

mod folder;
mod machine;
mod network;
pub(super) mod running;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::{PLUGINS_FOLDER, PinnedDigests};
use daftar_domain::checkup::{Check, CheckArea};
use daftar_domain::config::{Config, StoreBackend};

/// Seconds of a day.
const SECONDS_OF_A_DAY: i64 = 86_400;
/// Age in days at which a warning calls a key that signs tokens old.
const SIGNING_KEY_DAYS_MAX: i64 = 365;

/// The area of a check.
#[derive(Debug, Clone)]
pub struct Patient {
    /// The configuration of the server, or the one that it would be started with.
    pub config: Config,
    /// The folder of the register.
    pub data_dir: PathBuf,
    /// Time of the check.
    pub now: Timestamp,
    /// Time of the last commit to the program's sources, if known.
    pub built_from: Option<Timestamp>,
    /// The plugins of this program's build.
    pub pinned: PinnedDigests,
    /// The checking process.
    pub checked_by: CheckedBy,
}

/// The process that checks a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedBy {
    /// A command, while no server uses the folder.
    Command,
    /// The server that uses the folder.
    Server,
}

impl Patient {
    /// Formats a path for a message.
    fn shown(path: &Path) -> String {
        format!("`{}`", path.display())
    }

    fn is_server(&self) -> bool {
        self.checked_by == CheckedBy::Server
    }

    fn store(&self) -> PathBuf {
        self.config.store.folder(&self.data_dir)
    }

    /// Returns true if the folder contains a register.
    fn has_register(&self) -> bool {
        match self.config.store.backend {
            StoreBackend::Sled => self.store().join("db").is_file(),
            // An earlier server of this folder installed the plugins.
            StoreBackend::Postgres => self.data_dir.join(PLUGINS_FOLDER).is_dir(),
        }
    }
}

/// Reads a configuration file, and reports the result. If the file cannot be used, the defaults replace it, so that the
/// remaining checks can run.
#[must_use]
pub fn settings(file: Option<&Path>) -> (Config, Vec<Check>) {
    let area = CheckArea::Settings;
    let (shown, loaded) = match file {
        Some(file) => (Patient::shown(file), Config::load(file)),
        None => ("the environment".to_owned(), Config::from_environment()),
    };
    match loaded {
        Ok(config) if file.is_none() => {
            let message = "no configuration file was named, the defaults hold; name the server's with --config FILE";
            (config, vec![Check::ok(area, "file", message)])
        }
        Ok(config) => (config, vec![Check::ok(area, "file", format_args!("{shown} is right"))]),
        Err(error) => {
            let remedy = format!(
                "change {shown}; deploy/daftar.example.toml explains every setting. The server does not start with it; the checks below use the defaults"
            );
            let reported = error.problems.into_iter().map(|problem| Check::problem(area, "file", problem, &remedy));
            (Config::default(), reported.collect())
        }
    }
}

/// Runs all checks that require no server. Blocks on disk access: not for async code.
#[must_use]
pub fn examine(patient: &Patient) -> Vec<Check> {
    let mut checks = folder::data_folder(patient);
    checks.extend(folder::keys(patient));
    checks.extend(network::certificate(patient));
    checks.extend(machine::clock(patient));
    checks.extend(machine::disks(patient));
    checks.extend(machine::open_files(patient));
    checks.extend(machine::memory(patient));
    checks.extend(network::listeners(patient));
    checks.extend(folder::plugins(patient));
    if !patient.is_server() {
        let unknown =
            |area, name, what| Check::not_known(area, name, format_args!("{what} are known to a running server alone"));
        checks.push(unknown(CheckArea::Secrets, "age", "the ages of clients' secrets"));
        checks.push(unknown(CheckArea::Backup, "age", "the times of backups"));
    }
    checks
}

/// Formats an elapsed time in words.
fn age(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs().max(0);
    let (number, unit) = match seconds {
        0..=119 => (seconds, "seconds"),
        120..=7_199 => (seconds / 60, "minutes"),
        7_200..=172_799 => (seconds / 3_600, "hours"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{number} {unit} ago")
}

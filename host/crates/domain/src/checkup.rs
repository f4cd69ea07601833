//! Results of the diagnosis of a server's configuration: one line for each checked item.
//!
//! **Invariant:** texts name settings, files, plugins and clients by their ids; no secret and no record data.

use std::fmt;

named_enum! {
    /// The area of a check.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CheckArea {
        /// The configuration file.
        Settings = "settings",
        /// The data folder: owner, locks and unfinished operations.
        DataFolder = "data_folder",
        /// Keys and the administrator token.
        Keys = "keys",
        /// The TLS certificate.
        Certificate = "certificate",
        /// The system clock.
        Clock = "clock",
        /// The disks of the data folder and the store.
        Disk = "disk",
        /// Limit of open files of the process.
        OpenFiles = "open_files",
        /// Available memory.
        Memory = "memory",
        /// Listen addresses, proxies and the public URL.
        Listeners = "listeners",
        /// Installed plugins.
        Plugins = "plugins",
        /// Client secrets.
        Secrets = "secrets",
        /// Backups.
        Backup = "backup",
        /// Imports.
        Imports = "imports",
        /// The database shared by several servers.
        Database = "database",
    }
}

named_enum! {
    /// The result state of a check.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CheckState {
        /// Passed.
        Ok = "ok",
        /// The state cannot be determined here.
        NotKnown = "not_known",
        /// Works, but requires attention.
        Warning = "warning",
        /// Does not work, or soon will not.
        Problem = "problem",
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The area.
    pub area: CheckArea,
    /// The stable name of the check within its area, such as `mode`.
    pub name: &'static str,
    /// The result state.
    pub state: CheckState,
    /// Finding, in one sentence.
    pub message: String,
    /// Remedy, with the command to run; absent if nothing is to be fixed.
    pub remedy: Option<String>,
}

impl Check {
    /// Creates a result for a passed check.
    #[must_use]
    pub fn ok(area: CheckArea, name: &'static str, message: impl fmt::Display) -> Self {
        Self { area, name, state: CheckState::Ok, message: message.to_string(), remedy: None }
    }

    /// Creates a result for a state that cannot be determined.
    #[must_use]
    pub fn not_known(area: CheckArea, name: &'static str, message: impl fmt::Display) -> Self {
        Self { state: CheckState::NotKnown, ..Self::ok(area, name, message) }
    }

    /// Creates a result for an item that works but requires attention.
    #[must_use]
    pub fn warning(area: CheckArea, name: &'static str, message: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        let remedy = Some(remedy.to_string());
        Self { state: CheckState::Warning, remedy, ..Self::ok(area, name, message) }
    }

    /// Creates a result for an item that does not work, or soon will not.
    #[must_use]
    pub fn problem(area: CheckArea, name: &'static str, message: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self { state: CheckState::Problem, ..Self::warning(area, name, message, remedy) }
    }
}

//! What a look at how a server is set up comes to: one line for each thing that was looked at.
//!
//! **Invariant:** texts name settings, files, plugins and clients by their ids; no secret, and nothing of a record.

use std::fmt;

named_enum! {
    /// What a check is about.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CheckArea {
        /// The configuration file.
        Settings = "settings",
        /// The data folder: whose it is, who uses it, what is unfinished in it.
        DataFolder = "data_folder",
        /// Keys and the administrator's token.
        Keys = "keys",
        /// The certificate of HTTPS.
        Certificate = "certificate",
        /// The machine's clock.
        Clock = "clock",
        /// The disks of the data folder and the store.
        Disk = "disk",
        /// How many files the process may have open.
        OpenFiles = "open_files",
        /// How much memory there is.
        Memory = "memory",
        /// Addresses, proxies, the URL that clients know.
        Listeners = "listeners",
        /// Installed plugins.
        Plugins = "plugins",
        /// Secrets of clients.
        Secrets = "secrets",
        /// Backups.
        Backup = "backup",
        /// Imports.
        Imports = "imports",
        /// The database that several servers share.
        Database = "database",
    }
}

named_enum! {
    /// How things stand.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CheckState {
        /// As it should be.
        Ok = "ok",
        /// It cannot be told here.
        NotKnown = "not_known",
        /// It works, and should be looked at.
        Warning = "warning",
        /// It does not work, or soon will not.
        Problem = "problem",
    }
}

/// What one look came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is about.
    pub area: CheckArea,
    /// The stable name of the check within its area, such as `mode`.
    pub name: &'static str,
    /// How it stands.
    pub state: CheckState,
    /// One sentence that says what was seen.
    pub message: String,
    /// What mends it, with the command to type; nothing where nothing is to be mended.
    pub remedy: Option<String>,
}

impl Check {
    /// All is well.
    #[must_use]
    pub fn ok(area: CheckArea, name: &'static str, message: impl fmt::Display) -> Self {
        Self { area, name, state: CheckState::Ok, message: message.to_string(), remedy: None }
    }

    /// It cannot be told.
    #[must_use]
    pub fn not_known(area: CheckArea, name: &'static str, message: impl fmt::Display) -> Self {
        Self { state: CheckState::NotKnown, ..Self::ok(area, name, message) }
    }

    /// It should be looked at.
    #[must_use]
    pub fn warning(area: CheckArea, name: &'static str, message: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        let remedy = Some(remedy.to_string());
        Self { state: CheckState::Warning, remedy, ..Self::ok(area, name, message) }
    }

    /// It does not work, or soon will not.
    #[must_use]
    pub fn problem(area: CheckArea, name: &'static str, message: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self { state: CheckState::Problem, ..Self::warning(area, name, message, remedy) }
    }
}

//! The error of a command with its exit code. `host/docs/CLI.md` contains the table of exit codes.

use std::fmt::Display;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::app::StartError;
use crate::app::restore::RestoreError;
use daftar_domain::config::ConfigError;
use daftar_domain::error::{why_not_read, why_not_written};

/// Kind of a failure, each with its own exit code. Codes from 64 on have their meaning in `sysexits.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum ErrorKind {
    /// The command was rejected or failed for a reason that no other kind covers.
    Failed = 1,
    /// The command line is invalid, or combines options that exclude each other.
    Usage = 2,
    /// The command succeeded with findings: rejected lines, warnings.
    Findings = 3,
    /// An input file cannot be read or is invalid.
    Input = 66,
    /// A dependency does not respond or is in use: a server, a folder, an address.
    Unavailable = 69,
    /// A file or folder cannot be written.
    Output = 73,
    /// The admin token is missing or invalid.
    Denied = 77,
    /// The configuration is invalid.
    Configuration = 78,
}

impl ErrorKind {
    /// Returns the exit code.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        self as u8
    }
}

/// The error of a command: one sentence with the problem, the object and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CliError {
    /// Kind of the failure.
    pub kind: ErrorKind,
    /// The sentence.
    pub message: String,
    /// The error code of the server's rejection.
    pub code: Option<String>,
}

impl CliError {
    /// Creates an error of a kind.
    pub fn of(kind: ErrorKind, message: impl Display) -> Self {
        Self { kind, message: message.to_string(), code: None }
    }

    /// The command was rejected or failed.
    pub fn failed(message: impl Display) -> Self {
        Self::of(ErrorKind::Failed, message)
    }

    /// The options exclude each other.
    pub fn usage(message: impl Display) -> Self {
        Self::of(ErrorKind::Usage, message)
    }

    /// The command succeeded with findings.
    pub fn findings(message: impl Display) -> Self {
        Self::of(ErrorKind::Findings, message)
    }

    /// The configuration is invalid.
    pub fn settings(message: impl Display) -> Self {
        Self::of(ErrorKind::Configuration, message)
    }

    /// An input file is invalid.
    pub fn input(message: impl Display) -> Self {
        Self::of(ErrorKind::Input, message)
    }

    /// A dependency does not respond or is in use.
    pub fn unavailable(message: impl Display) -> Self {
        Self::of(ErrorKind::Unavailable, message)
    }

    /// Output cannot be written.
    pub fn output(message: impl Display) -> Self {
        Self::of(ErrorKind::Output, message)
    }

    /// The admin token is missing or invalid.
    pub fn denied(message: impl Display) -> Self {
        Self::of(ErrorKind::Denied, message)
    }

    /// A file cannot be read.
    pub fn cannot_read(path: &Path, error: &io::Error) -> Self {
        Self::input(format_args!("cannot read `{}`: {}", path.display(), why_not_read(error)))
    }

    /// A file cannot be written.
    pub fn cannot_write(path: &Path, error: &io::Error) -> Self {
        Self::output(format_args!("cannot write `{}`: {}", path.display(), why_not_written(error)))
    }

    /// The server returned an unexpected response, such as `an import`.
    pub fn none_to(requested: &str) -> Self {
        Self::failed(format_args!("the server returned an unexpected response to {requested}: is it an older version?"))
    }

    /// Appends a text to the message.
    #[must_use]
    pub fn with(mut self, more: impl Display) -> Self {
        self.message = format!("{}\n{more}", self.message);
        self
    }

    /// Returns the error as printed with `--json`, on one line of standard error.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut error = json!({"kind": self.kind, "exit_code": self.kind.exit_code(), "message": self.message});
        if let (Some(members), Some(code)) = (error.as_object_mut(), &self.code) {
            members.insert("code".to_owned(), json!(code));
        }
        json!({"error": error})
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::settings(error)
    }
}

impl From<&StartError> for ErrorKind {
    fn from(error: &StartError) -> Self {
        match error {
            StartError::Folder(_) => Self::Output,
            StartError::InUse(_) | StartError::Listen { .. } | StartError::Unavailable(_) => Self::Unavailable,
            StartError::Certificate(_) | StartError::Settings(_) => Self::Configuration,
            StartError::Denied(_) => Self::Denied,
            StartError::Input(_) => Self::Input,
            StartError::Key(_) | StartError::Store(_) | StartError::Plugins(_) | StartError::Server(_) => Self::Failed,
        }
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        Self::of(ErrorKind::from(&error), error)
    }
}

impl From<&RestoreError> for ErrorKind {
    fn from(error: &RestoreError) -> Self {
        match error {
            RestoreError::Backup(_) => Self::Input,
            RestoreError::Database(error) => error.into(),
            RestoreError::Occupied { .. } | RestoreError::Folder { .. } | RestoreError::NoRoom { .. } => Self::Output,
            RestoreError::KeysThere(_) | RestoreError::KeysNotPut(_) | RestoreError::StillMarked { .. } => Self::Output,
            RestoreError::Unfinished(_)
            | RestoreError::Unconfirmed { .. }
            | RestoreError::Keys(_)
            | RestoreError::KeysBeside(_)
            | RestoreError::Open(_)
            | RestoreError::Verification(_)
            | RestoreError::Store { .. } => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ErrorKind; 8] = [
        ErrorKind::Failed,
        ErrorKind::Usage,
        ErrorKind::Findings,
        ErrorKind::Input,
        ErrorKind::Unavailable,
        ErrorKind::Output,
        ErrorKind::Denied,
        ErrorKind::Configuration,
    ];

    #[test]
    fn the_table_of_the_documentation_has_every_code() {
        assert_eq!(KINDS.map(ErrorKind::exit_code), [1, 2, 3, 66, 69, 73, 77, 78]);
        let text = include_str!("../../docs/CLI.md");
        for kind in KINDS {
            let name = json!(kind);
            let row = format!("| {} | `{}` |", kind.exit_code(), name.as_str().unwrap());
            assert!(text.contains(&row), "host/docs/CLI.md lacks the row {row}");
        }
    }

    #[test]
    fn a_failure_is_one_object_of_one_shape() {
        let error = CliError::cannot_read(Path::new("a.wasm"), &io::ErrorKind::NotFound.into()).with("more");
        let reported = json!({"error": {
            "kind": "input", "exit_code": 66, "message": "cannot read `a.wasm`: there is no such file; check the path\nmore"
        }});
        assert_eq!(error.to_json(), reported);
        let refused = CliError { code: Some("not_found".to_owned()), ..CliError::failed("no") };
        let reported = json!({"error": {"kind": "failed", "exit_code": 1, "message": "no", "code": "not_found"}});
        assert_eq!(refused.to_json(), reported);
    }
}

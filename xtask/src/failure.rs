//! Failures of tasks.

use std::fmt;
use std::path::Path;

/// A message that names the failed step and the remedy.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    pub fn usage(usage: &str) -> Self {
        Self(format!("no such command\n\n{usage}"))
    }

    /// A file that cannot be used, with the cause.
    pub fn file(path: &Path, cause: impl fmt::Display) -> Self {
        Self(format!("{}: {cause}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

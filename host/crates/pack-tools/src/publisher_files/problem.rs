//! The errors of an import.

use std::fmt;
use std::path::{Path, PathBuf};

/// The reason why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Rows were rejected, and possibly reading ended because of `ended`.
    #[error("{}", shown(.file, .refusals, *.left_out, .ended.as_deref()))]
    Refused {
        /// The file.
        file: PathBuf,
        /// The rejected rows, in the order of the file.
        refusals: Vec<Refusal>,
        /// The number of further ones.
        left_out: u64,
        /// The error that ended the reading.
        ended: Option<Box<ImportError>>,
    },
    /// The file is not of its format, or reading failed.
    #[error("{}{reason}", at(.file, *.line))]
    Unusable {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: Option<u64>,
        /// The cause, and the expected value.
        reason: String,
    },
    /// An option is invalid.
    #[error("{option} is `{value}`, which is not {wanted}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// The expected value.
        wanted: String,
    },
    /// The file lacks required metadata.
    #[error("{options} must be given: {reason}")]
    Missing {
        /// The options, joined.
        options: String,
        /// The reason.
        reason: String,
    },
    /// A file cannot be written.
    #[error("cannot write `{path}`: {source}")]
    Write {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// A rejected row.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Refusal {
    /// The line in the file, from 1; none if the format has no line numbers for it.
    pub line: Option<u64>,
    /// The code concerned.
    pub code: Option<String>,
    /// The reason.
    #[serde(rename = "message")]
    pub reason: String,
}

impl ImportError {
    /// An unusable file.
    pub(super) fn unusable(file: &Path, line: Option<u64>, reason: impl fmt::Display) -> Self {
        Self::Unusable { file: file.to_owned(), line, reason: reason.to_string() }
    }

    /// Required options.
    pub(super) fn missing(options: &[&str], reason: impl fmt::Display) -> Self {
        Self::Missing { options: options.join(", "), reason: reason.to_string() }
    }

    /// An invalid option.
    pub(super) fn option(option: &'static str, value: &str, wanted: impl fmt::Display) -> Self {
        Self::Option { option, value: excerpt(value), wanted: wanted.to_string() }
    }
}

/// Shortens a text of a file and removes control characters, for messages.
pub(super) fn excerpt(text: &str) -> String {
    const SHOWN_CHARS: usize = 80;
    let mut shown = String::new();
    for character in text.chars().take(SHOWN_CHARS) {
        if character.is_control() {
            shown.extend(character.escape_debug());
        } else {
            shown.push(character);
        }
    }
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(code) = &self.code {
            write!(formatter, "code `{}`: ", excerpt(code))?;
        }
        formatter.write_str(&self.reason)
    }
}

/// Formats one rejection per line, then the number of further ones, then the error that ended the reading.
fn shown(file: &Path, refusals: &[Refusal], left_out: u64, ended: Option<&ImportError>) -> String {
    let refusals = refusals.iter().map(|refusal| format!("{}{refusal}", at(file, refusal.line)));
    let more = (left_out > 0).then(|| format!("and {left_out} more"));
    let lines: Vec<String> = refusals.chain(more).chain(ended.map(ToString::to_string)).collect();
    lines.join("\n")
}

/// The position at the start of a message.
fn at(file: &Path, line: Option<u64>) -> String {
    match line {
        Some(line) => format!("{}:{line}: ", file.display()),
        None => format!("{}: ", file.display()),
    }
}

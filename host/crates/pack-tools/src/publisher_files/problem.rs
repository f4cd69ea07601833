//! What can be wrong with an owner's file.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Rows were refused, and possibly reading ended because of `ended`.
    #[error("{}", shown(.file, .refusals, *.left_out, .ended.as_deref()))]
    Refused {
        /// The file.
        file: PathBuf,
        /// What is wrong, in the order in which it was met.
        refusals: Vec<Refusal>,
        /// How many more there were than are kept.
        left_out: u64,
        /// What ended the reading before the file's end.
        ended: Option<Box<ImportError>>,
    },
    /// The file is not what it should be, or cannot be read on.
    #[error("{}{reason}", at(.file, *.line))]
    Unusable {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: Option<u64>,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// An option cannot be used.
    #[error("{option} is `{value}`, which is not {wanted}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        wanted: String,
    },
    /// Something has to be said that the file does not say.
    #[error("{options} must be given: {reason}")]
    Missing {
        /// The options, joined.
        options: String,
        /// Why they are needed.
        reason: String,
    },
    /// The folder cannot be written.
    #[error("cannot write `{path}`: {source}")]
    Write {
        /// What could not be written.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A row that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The line in the file, from 1; none where the file has no lines of its own for it.
    pub line: Option<u64>,
    /// The code concerned.
    pub code: Option<String>,
    /// What is wrong with it.
    pub reason: String,
}

impl ImportError {
    /// The file as a whole.
    pub(super) fn unusable(file: &Path, line: Option<u64>, reason: impl fmt::Display) -> Self {
        Self::Unusable { file: file.to_owned(), line, reason: reason.to_string() }
    }

    /// Options that must be given.
    pub(super) fn missing(options: &[&str], reason: impl fmt::Display) -> Self {
        Self::Missing { options: options.join(", "), reason: reason.to_string() }
    }

    /// An option that cannot be used.
    pub(super) fn option(option: &'static str, value: &str, wanted: impl fmt::Display) -> Self {
        Self::Option { option, value: excerpt(value), wanted: wanted.to_string() }
    }
}

/// A text of a file as it may be shown: short, and without characters that a terminal obeys.
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

/// One refusal a line, then how many more there are, then what ended the reading.
fn shown(file: &Path, refusals: &[Refusal], left_out: u64, ended: Option<&ImportError>) -> String {
    let refusals = refusals.iter().map(|refusal| format!("{}{refusal}", at(file, refusal.line)));
    let more = (left_out > 0).then(|| format!("and {left_out} more"));
    let lines: Vec<String> = refusals.chain(more).chain(ended.map(ToString::to_string)).collect();
    lines.join("\n")
}

/// The place that a message begins with.
fn at(file: &Path, line: Option<u64>) -> String {
    match line {
        Some(line) => format!("{}:{line}: ", file.display()),
        None => format!("{}: ", file.display()),
    }
}

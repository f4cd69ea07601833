//! What can be wrong with an owner's file.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why nothing was written.
#[derive(Debug)]
pub enum ImportError {
    /// Rows were refused, and possibly reading ended because of `ended`.
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
    Unusable {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: Option<u64>,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// An option cannot be used.
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        wanted: String,
    },
    /// Something has to be said that the file does not say.
    Missing {
        /// The options, joined.
        options: String,
        /// Why they are needed.
        reason: String,
    },
    /// The folder cannot be written.
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

impl fmt::Display for ImportError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { file, refusals, left_out, ended } => {
                for (index, refusal) in refusals.iter().enumerate() {
                    if index > 0 {
                        formatter.write_str("\n")?;
                    }
                    at(formatter, file, refusal.line)?;
                    refusal.fmt(formatter)?;
                }
                if *left_out > 0 {
                    write!(formatter, "\nand {left_out} more")?;
                }
                match ended {
                    Some(ended) => write!(formatter, "\n{ended}"),
                    None => Ok(()),
                }
            }
            Self::Unusable { file, line, reason } => {
                at(formatter, file, *line)?;
                formatter.write_str(reason)
            }
            Self::Option { option, value, wanted } => write!(formatter, "{option} is `{value}`, which is not {wanted}"),
            Self::Missing { options, reason } => write!(formatter, "{options} must be given: {reason}"),
            Self::Write { path, source } => write!(formatter, "cannot write `{}`: {source}", path.display()),
        }
    }
}

fn at(formatter: &mut fmt::Formatter<'_>, file: &Path, line: Option<u64>) -> fmt::Result {
    match line {
        Some(line) => write!(formatter, "{}:{line}: ", file.display()),
        None => write!(formatter, "{}: ", file.display()),
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Write { source, .. } => Some(source),
            Self::Refused { .. } | Self::Unusable { .. } | Self::Option { .. } | Self::Missing { .. } => None,
        }
    }
}

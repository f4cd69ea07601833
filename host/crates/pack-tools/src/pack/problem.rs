//! The problems of a pack's source, each with its file, line and code, all reported together.

use std::fmt;

use super::build::PackBuildError;

/// The problems of a pack, in the order of its files and lines.
#[derive(Debug, Default, thiserror::Error)]
#[error("{}", shown(.problems, *.left_out))]
pub struct PackErrors {
    problems: Vec<PackProblem>,
    left_out: usize,
}

/// One problem.
#[derive(Debug)]
pub struct PackProblem {
    /// The file, relative to the pack's folder; empty for the pack as a whole.
    pub file: String,
    /// The line in the file, from 1.
    pub line: Option<usize>,
    /// The code concerned.
    pub code: Option<String>,
    /// The cause, and the expected value.
    pub reason: String,
}

/// The most problems that are reported: enough to see the pattern, few enough to print.
const PROBLEMS_MAX: usize = 1_000;

impl PackErrors {
    /// A single problem with a file as a whole.
    pub(super) fn one(file: &str, reason: impl fmt::Display) -> Self {
        let mut errors = Self::default();
        errors.push(file, None, None, reason);
        errors
    }

    /// The reported problems; never empty in a returned error.
    pub fn problems(&self) -> &[PackProblem] {
        &self.problems
    }

    /// The number of further problems.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    pub(super) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn push(&mut self, file: &str, line: Option<usize>, code: Option<&str>, reason: impl fmt::Display) {
        if self.problems.len() >= PROBLEMS_MAX {
            self.left_out += 1;
            return;
        }
        let reason = reason.to_string();
        self.problems.push(PackProblem { file: file.to_owned(), line, code: code.map(str::to_owned), reason });
    }
}

/// The message for a value that exceeds a limit.
pub(super) fn too_many(what: &str, actual: usize, max: usize) -> String {
    format!("it has {actual} {what}; the limit is {max}")
}

impl From<PackBuildError> for PackErrors {
    fn from(error: PackBuildError) -> Self {
        Self::one("", error)
    }
}

impl fmt::Display for PackProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(formatter, "{}:", self.file)?;
            if let Some(line) = self.line {
                write!(formatter, "{line}:")?;
            }
            formatter.write_str(" ")?;
        }
        if let Some(code) = &self.code {
            write!(formatter, "code `{}`: ", code.escape_debug())?;
        }
        formatter.write_str(&self.reason)
    }
}

/// Formats one problem per line, then the number of further ones.
fn shown(problems: &[PackProblem], left_out: usize) -> String {
    let more = (left_out > 0).then(|| format!("and {left_out} more"));
    problems.iter().map(ToString::to_string).chain(more).collect::<Vec<_>>().join("\n")
}

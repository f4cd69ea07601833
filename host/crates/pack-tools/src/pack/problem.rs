//! What can be wrong with a pack's source: every problem with its file, line and code, all reported at once.

use std::fmt;

use super::build::PackBuildError;

/// Everything that is wrong with a pack, in the order of its files and lines.
#[derive(Debug, Default, thiserror::Error)]
#[error("{}", shown(.problems, *.left_out))]
pub struct PackErrors {
    problems: Vec<PackProblem>,
    left_out: usize,
}

/// One thing that is wrong.
#[derive(Debug)]
pub struct PackProblem {
    /// The file, relative to the pack's folder; empty for the pack as a whole.
    pub file: String,
    /// The line in the file, from 1.
    pub line: Option<usize>,
    /// The code concerned.
    pub code: Option<String>,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// How many problems are kept: enough to see the pattern, few enough to print.
const PROBLEMS_MAX: usize = 1_000;

impl PackErrors {
    /// A single problem with a file as a whole.
    pub(super) fn one(file: &str, reason: impl fmt::Display) -> Self {
        let mut errors = Self::default();
        errors.push(file, None, None, reason);
        errors
    }

    /// What is wrong. Never empty in an error that a function returned.
    pub fn problems(&self) -> &[PackProblem] {
        &self.problems
    }

    /// How many more there were than are kept.
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

/// What is wrong with something that is larger than any valid one.
pub(super) fn too_many(what: &str, actual: usize, max: usize) -> String {
    format!("it has {actual} {what}; at most {max} are taken")
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

/// One problem a line, then how many more there are.
fn shown(problems: &[PackProblem], left_out: usize) -> String {
    let more = (left_out > 0).then(|| format!("and {left_out} more"));
    problems.iter().map(ToString::to_string).chain(more).collect::<Vec<_>>().join("\n")
}

//! What can be wrong with a pack's source: every problem with its file, line and code, all reported at once.

use std::fmt;

use super::build::PackBuildError;

/// Everything that is wrong with a pack, in the order of its files and lines.
#[derive(Debug)]
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
    /// What is wrong.
    pub kind: PackProblemKind,
}

/// What is wrong with a file, a line or a code.
#[derive(Debug, thiserror::Error)]
pub enum PackProblemKind {
    /// The file or folder cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// It is larger than any sound one.
    #[error("it has {actual} {what}; at most {max} are taken")]
    TooMany {
        /// What there is too much of, with its unit.
        what: &'static str,
        /// How much there is.
        actual: usize,
        /// How much is taken.
        max: usize,
    },
    /// `pack.toml` is not TOML, or not of the right shape.
    #[error("{0}")]
    Settings(String),
    /// A setting has a value that it cannot have.
    #[error("`{key}` is `{value}`, which is not {wanted}")]
    Setting {
        /// The setting.
        key: String,
        /// Its value.
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// Something that must be unique occurs again.
    #[error("{what} `{value}` occurs again")]
    Repeated {
        /// What it is.
        what: &'static str,
        /// Its value.
        value: String,
    },
    /// A file that no setting in `pack.toml` names, so that its content would be lost.
    #[error("no setting in pack.toml refers to this file")]
    Unclaimed,
    /// The bytes are not UTF-8.
    #[error("the line is not UTF-8")]
    NotUtf8,
    /// The file has no header line.
    #[error("the header line is missing")]
    NoHeader,
    /// A column that the format does not have.
    #[error("there is no column `{name}`; known are {known}")]
    UnknownColumn {
        /// Its name.
        name: String,
        /// The names that there are.
        known: &'static str,
    },
    /// A column that must be there is not.
    #[error("the column `{0}` is missing")]
    MissingColumn(&'static str),
    /// A line does not have one cell for each column.
    #[error("the line has {cells} cells, the header {columns}; empty cells at the end keep their tab")]
    CellCount {
        /// Cells of the line.
        cells: usize,
        /// Columns of the header.
        columns: usize,
    },
    /// A control character in a cell.
    #[error("`{column}` holds the control character {character:?}")]
    ControlCharacter {
        /// The column.
        column: String,
        /// The character.
        character: char,
    },
    /// A text is not in normal form C.
    #[error("`{column}` is not in Unicode normal form C")]
    NotNormalized {
        /// The column.
        column: String,
    },
    /// Space around a cell's text.
    #[error("`{column}` begins or ends with white space")]
    Untrimmed {
        /// The column.
        column: String,
    },
    /// A code that the format cannot hold.
    #[error("a code is 1 to {} bytes without white space, `#` and `|`", daftar_domain::code::CODE_BYTES_MAX)]
    MalformedCode,
    /// The code occurs again.
    #[error("the code occurs again; it is already on line {first_line}")]
    DuplicateCode {
        /// Where it is first.
        first_line: usize,
    },
    /// Another spelling clashes with a code, or with a spelling of another code.
    #[error("the alias `{alias}` is taken by the code `{taken_by}`")]
    DuplicateAlias {
        /// The alias.
        alias: String,
        /// What already goes by that name.
        taken_by: String,
    },
    /// A cell names a code that is not in the vocabulary.
    #[error("`{column}` names `{named}`, which is not a code of this vocabulary")]
    UnknownCode {
        /// The column.
        column: &'static str,
        /// The code that is not there.
        named: String,
    },
    /// A label or definition belongs to no code.
    #[error("the vocabulary has no such code")]
    TextForUnknownCode,
    /// A rule says what each code is below, and so does a column.
    #[error("the column `parents` has no place here: `hierarchy = \"{0}\"` in pack.toml says what each code is below")]
    ParentsByRule(&'static str),
    /// A code that the rule of the hierarchy is not made for.
    #[error("the rule `{rule}` of the hierarchy is for codes made of {wanted}")]
    NotForRule {
        /// The rule.
        rule: &'static str,
        /// What its codes are made of.
        wanted: &'static str,
    },
    /// The code that a code is below is not there.
    #[error("by the rule `{rule}` it is below `{named}`, which is not a code of this vocabulary")]
    NoParentByRule {
        /// The rule.
        rule: &'static str,
        /// The code that is not there.
        named: String,
    },
    /// A code is below itself.
    #[error("the code is below itself: {path}")]
    Cycle {
        /// The codes of the cycle.
        path: String,
    },
    /// A cell has a value that its column does not know.
    #[error("`{column}` is `{value}`; it can be {wanted}")]
    UnknownValue {
        /// The column.
        column: &'static str,
        /// The value.
        value: String,
        /// What it can be.
        wanted: &'static str,
    },
    /// An active code has a successor.
    #[error("`replaced_by` is only for inactive codes")]
    ActiveReplaced,
    /// No label in the default language.
    #[error("there is no label in the default language `{0}`")]
    NoDefaultLabel(String),
    /// An empty label.
    #[error("the label is empty; leave the line out where there is none")]
    EmptyLabel,
    /// The vocabulary does not have as many codes as `pack.toml` says.
    #[error("`{namespace}` has {actual} codes; pack.toml says {declared}")]
    Count {
        /// The vocabulary.
        namespace: String,
        /// How many there are.
        actual: usize,
        /// How many there should be.
        declared: u32,
    },
    /// `hierarchical` does not agree with the codes.
    #[error("`{namespace}` says `hierarchical = {declared}`, but {found}")]
    Hierarchical {
        /// The vocabulary.
        namespace: String,
        /// What pack.toml says.
        declared: bool,
        /// What the codes say.
        found: &'static str,
    },
    /// The base that should be rebuilt does not go with the folder, or cannot be used.
    #[error("{0}")]
    Base(String),
    /// The source is sound, yet no pack could be made of it.
    #[error("{0}")]
    NotBuilt(PackBuildError),
}

/// How many problems are kept: enough to see the pattern, few enough to print.
const PROBLEMS_MAX: usize = 1_000;

impl PackErrors {
    pub(super) fn none() -> Self {
        Self { problems: Vec::new(), left_out: 0 }
    }

    /// A single problem with a file as a whole.
    pub(super) fn one(file: &str, kind: PackProblemKind) -> Self {
        let mut errors = Self::none();
        errors.push(file, None, None, kind);
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

    pub(super) fn push(&mut self, file: &str, line: Option<usize>, code: Option<&str>, kind: PackProblemKind) {
        if self.problems.len() >= PROBLEMS_MAX {
            self.left_out += 1;
            return;
        }
        self.problems.push(PackProblem { file: file.to_owned(), line, code: code.map(str::to_owned), kind });
    }
}

impl From<PackBuildError> for PackErrors {
    fn from(error: PackBuildError) -> Self {
        let mut errors = Self::none();
        errors.push("", None, None, PackProblemKind::NotBuilt(error));
        errors
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
        self.kind.fmt(formatter)
    }
}

impl fmt::Display for PackErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            problem.fmt(formatter)?;
        }
        if self.left_out > 0 {
            write!(formatter, "\nand {} more", self.left_out)?;
        }
        Ok(())
    }
}

impl std::error::Error for PackErrors {}

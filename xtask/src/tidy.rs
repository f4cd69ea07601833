//! `cargo xtask tidy`: the rules of the house that neither rustc nor clippy can see.
//!
//! The allowed dependencies of packages are in `tidy/dependencies.toml`; one file here for each rule, each with tests
//! that break it.
//!
//! **Invariant:** nothing is compiled or changed: the sources are read, and `cargo metadata` lists the packages.

mod dependencies;
mod frozen;
mod source;
mod text;
mod words;

use std::fmt;

use self::dependencies::{Packages, Rules};
use self::source::Sources;
use self::words::Terms;
use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// The file, from the project's folder.
    file: String,
    /// The line, from 1; none where it is about the whole.
    line: Option<usize>,
    message: String,
}

impl Finding {
    fn whole(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, message: message.into() }
    }

    fn at(file: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}: {}", self.file, self.message),
            None => write!(formatter, "{}: {}", self.file, self.message),
        }
    }
}

/// Checks every rule, reports all that breaks one, and reports long files.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    steps.say("read the sources");
    let (rules, terms) = (Rules::read()?, Terms::read()?);
    let sources = Sources::read(workspace.root())?;
    steps.say("ask cargo for the packages");
    let packages = Packages::of(workspace)?;

    let mut findings = dependencies::check(&packages, &rules);
    findings.extend(frozen::check(&sources));
    findings.extend(text::check(&sources, &text::machine_paths(workspace)));
    findings.extend(words::check(&sources, &terms));
    findings.sort();
    findings.dedup();
    for (file, lines) in text::long_files(&sources) {
        eprintln!("note: {file}: {lines} lines; look for a seam");
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => {
            steps.say(&format!("tidy: {} files", sources.files().len()));
            Ok(())
        }
        1 => Err(Failure::new("1 rule is broken; see above")),
        count => Err(Failure::new(format!("{count} rules are broken; see above"))),
    }
}

//! Checks of everything that parses input: each target takes arbitrary bytes and asserts a property of the parser.
//!
//! A fuzzer runs the targets with inputs that it generates (`cargo xtask fuzz`, the package in `runner`), and the test
//! `replay` runs them with the inputs in `corpus` and some [`mutation`]s of each, in every run of the tests. An input for
//! which a check failed stays in the corpus.
//!
//! **Invariant:** a check is deterministic: it reads no clock, and the same bytes have the same outcome.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a check fails"
)]

pub mod mutation;

mod checks {
    pub mod checkpoint;
    pub mod code_list;
    pub mod forwarded;
    pub mod identifier;
    pub mod rule;
    pub mod stored;
    pub mod token;

    #[cfg(feature = "server")]
    pub mod backup;
    #[cfg(feature = "server")]
    pub mod pack_source;
    #[cfg(feature = "server")]
    pub mod package;
    #[cfg(feature = "server")]
    pub mod path;
    #[cfg(feature = "server")]
    pub mod query;
    #[cfg(feature = "server")]
    pub mod record_body;
}

/// A temporary folder, in memory where the machine has such a place: a check writes many files.
fn temporary() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a temporary folder can be made")
}

/// The maximum length of an input of each target, in bytes: a name, a tab and a number a line. `cargo xtask fuzz` reads
/// the same file.
const LIMITS: &str = include_str!("limits.tsv");

/// A parser under test.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and the folder of its inputs below `corpus`.
    pub name: &'static str,
    /// Runs the parser and panics if a property does not hold.
    pub check: fn(&[u8]),
}

impl Target {
    /// Maximum length of an input, in bytes.
    ///
    /// # Panics
    /// If `limits.tsv` has no line for this target.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        let mut lines = LIMITS.lines().filter_map(|line| line.split_once('\t'));
        let limit = lines.find(|(name, _)| *name == self.name).and_then(|(_, bytes)| bytes.parse().ok());
        limit.unwrap_or_else(|| panic!("`limits.tsv` has no limit of `{}`", self.name))
    }
}

const fn target(name: &'static str, check: fn(&[u8])) -> Target {
    Target { name, check }
}

/// The targets that are built without the WebAssembly engine.
pub const PARSERS: [Target; 8] = [
    target("checkpoint", checks::checkpoint::check),
    target("code_list", checks::code_list::check),
    target("forwarded", checks::forwarded::check),
    target("identifier", checks::identifier::check),
    target("rule", checks::rule::check),
    target("stored_record", checks::stored::check),
    target("token", checks::token::check),
    target("token_request", checks::token::check_request),
];

/// The targets in crates that use the sandbox.
#[cfg(feature = "server")]
pub const SERVER: [Target; 6] = [
    target("backup", checks::backup::check),
    target("pack_source", checks::pack_source::check),
    target("package", checks::package::check),
    target("path", checks::path::check),
    target("query", checks::query::check),
    target("record_body", checks::record_body::check),
];

/// The targets of this build by the program of the fuzzer that has them. The inputs of a target are in
/// `corpus/<program>/<target>`.
pub const PROGRAMS: &[(&str, &[Target])] = &[
    ("parsers", &PARSERS),
    #[cfg(feature = "server")]
    ("server", &SERVER),
];

/// The target with that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    PROGRAMS.iter().flat_map(|(_, targets)| targets.iter()).find(|target| target.name == name)
}

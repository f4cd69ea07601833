//! Requirements of tests other than Rust: programs, rights, files. Also folders that every test process of a machine
//! shares.
//!
//! A test checks a requirement here, and returns if it is missing. Where `CI` is set such a test fails; elsewhere one
//! line is appended to the file that [`NOT_RUN`] names, and `cargo xtask test` prints those lines after the run.
//!
//! **Invariant:** a test that did not run is never silently counted as passed.
//!
//! **Invariant:** only files that may not be passed on, which no machine can install, are listed and never fail a test.

#![expect(clippy::panic, clippy::expect_used, reason = "used by tests only, where a panic is how a test fails")]

mod shared;
mod tools;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

pub use self::shared::{lock, once, scratch, target};
pub use self::tools::{TOOLS, Tool, postgres_programs};

/// Names the file to which a line is appended for every test that did not run.
pub const NOT_RUN: &str = "DAFTAR_TEST_NOT_RUN";
/// Set on machines that run the tests before a change is merged: there every requirement must be present.
const CI: &str = "CI";
/// Names the folder with copies of classifications that may not be passed on.
const REFERENCE: &str = "DAFTAR_REFERENCE_VOCABULARIES";
/// Path of that folder by default, next to the workspace.
const DEFAULT_REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vocab/reference-only");
/// Names the file with the conformance tests of the CEL specification.
const CEL_SPEC: &str = "DAFTAR_CEL_SPEC";

/// Tests whether all those programs are on this machine; each is a row of [`TOOLS`]. A missing one is reported.
///
/// # Panics
/// If one is missing and `CI` is set.
#[must_use]
#[track_caller]
pub fn programs(names: &[&str]) -> bool {
    let missing: Vec<&Tool> = names.iter().map(|name| tools::row(name)).filter(|tool| tool.find().is_none()).collect();
    if missing.is_empty() {
        return true;
    }
    let join = |part: fn(&Tool) -> &str| missing.iter().map(|tool| part(tool)).collect::<Vec<_>>().join(", ");
    not_run(&join(|tool| tool.program), &format!("install {} (packages of Debian)", join(|tool| tool.package)));
    false
}

/// Path of a program of [`TOOLS`] on this machine. A missing one is reported.
///
/// # Panics
/// If it is missing and `CI` is set.
#[must_use]
#[track_caller]
pub fn program(name: &str) -> Option<PathBuf> {
    programs(&[name]).then(|| tools::row(name).find()).flatten()
}

/// A file that a publisher does not allow to be redistributed: in the folder that `DAFTAR_REFERENCE_VOCABULARIES` names
/// or in `registry` next to it, or else in those folders next to the workspace. A missing one is reported, and fails no
/// test anywhere.
#[must_use]
pub fn published_file(name: &str) -> Option<PathBuf> {
    let reference = std::env::var_os(REFERENCE).map_or_else(|| PathBuf::from(DEFAULT_REFERENCE), PathBuf::from);
    let folders = [reference.clone(), reference.join("../registry")];
    let file = folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    if file.is_none() {
        let how = format!("fetch it from its publisher into a folder, and name the folder by `{REFERENCE}`");
        Environment::read().list(&test_name(), name, &how);
    }
    file
}

/// The file with the conformance tests of the CEL specification, one on each line. A missing one is reported.
///
/// # Panics
/// If it is missing and `CI` is set.
#[must_use]
#[track_caller]
pub fn cel_specification() -> Option<PathBuf> {
    let named = std::env::var_os(CEL_SPEC).map(PathBuf::from);
    if named.is_none() {
        not_run(
            "the conformance tests of the CEL specification",
            &format!("run `cargo xtask test`, which fetches them and sets `{CEL_SPEC}`"),
        );
    }
    named
}

/// Reports that this test is skipped because `what` is missing. `how` states the installation instructions. The test
/// returns afterwards.
///
/// # Panics
/// If `CI` is set.
#[track_caller]
pub fn not_run(what: &str, how: &str) {
    let environment = Environment::read();
    assert!(!environment.is_ci, "missing: {what}; {how}. Where `CI` is set every test runs");
    environment.list(&test_name(), what, how);
}

/// As [`not_run`], for helpers that tests call: ends the test itself. That is possible where each test has a process of
/// its own, as under `cargo nextest`.
///
/// # Panics
/// If `CI` is set, and if other tests run in the same process.
#[track_caller]
pub fn end_test(what: &str, how: &str) -> ! {
    let has_own_process = std::env::var_os("NEXTEST_EXECUTION_MODE").is_some_and(|mode| mode == "process-per-test");
    assert!(has_own_process, "missing: {what}; {how}");
    not_run(what, how);
    std::process::exit(0)
}

/// The running test: `cargo nextest` names it, else the name of its thread.
fn test_name() -> String {
    let named = std::env::var_os("NEXTEST_TEST_NAME").and_then(|name| name.into_string().ok());
    let name = named.or_else(|| std::thread::current().name().map(str::to_owned));
    name.unwrap_or_else(|| "a test".to_owned())
}

/// The variables that decide how a missing requirement is reported.
struct Environment {
    is_ci: bool,
    list: Option<PathBuf>,
}

impl Environment {
    fn read() -> Self {
        let filled = |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
        Self { is_ci: filled(CI).is_some(), list: filled(NOT_RUN).map(PathBuf::from) }
    }

    /// Appends one line in one write: other test processes append to the same file.
    fn list(&self, test: &str, what: &str, how: &str) {
        let line = format!("{}\n", [test, what, how].map(|part| part.replace(['\t', '\n'], " ")).join("\t"));
        match &self.list {
            Some(path) => append(path, &line),
            None => eprint!("not run: {line}"),
        }
    }
}

fn append(path: &Path, line: &str) {
    let file = File::options().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("`{}` cannot be appended to: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::process::Command;

    use super::*;

    /// Set in the processes in which the tests below run one of the functions.
    const CALL: &str = "DAFTAR_TEST_NEEDS_CALL";

    /// Runs the case named by the variable in a process of its own; does nothing in the test run itself.
    #[test]
    fn called() {
        match std::env::var_os(CALL).as_deref().and_then(OsStr::to_str) {
            Some("program") => assert!(program("no-such-program-for-tests").is_none()),
            Some("published") => assert!(published_file("no-such-file.tsv").is_none()),
            Some("cel") => assert!(cel_specification().is_none()),
            Some("end") => end_test("a database", "install it"),
            _ => {}
        }
    }

    /// Runs such a case; returns whether it passes, and the lines that it appends.
    fn call(what: &str, variables: &[(&str, &str)]) -> (bool, String) {
        let list = scratch().join(format!("needs-{}-{what}", std::process::id()));
        let _was_there = std::fs::remove_file(&list);
        let mut test = Command::new(std::env::current_exe().expect("this program"));
        test.args(["--exact", "tests::called"]).env(CALL, what).env(NOT_RUN, &list).env(REFERENCE, "/nowhere");
        for name in [CI, CEL_SPEC, "NEXTEST_EXECUTION_MODE", "NEXTEST_TEST_NAME"] {
            test.env_remove(name);
        }
        let output = test.envs(variables.iter().copied()).output().expect("this program runs");
        let lines = std::fs::read_to_string(&list).unwrap_or_default();
        let _was_there = std::fs::remove_file(&list);
        (output.status.success(), lines)
    }

    #[test]
    fn a_missing_program_is_listed_with_its_package() {
        let expected = "tests::called\tno-such-program-for-tests\tinstall no-such-package (packages of Debian)\n";
        assert_eq!(call("program", &[]), (true, expected.to_owned()));
        assert_eq!(call("program", &[(CI, "")]), (true, expected.to_owned()), "set to nothing is not set");
    }

    #[test]
    fn a_missing_tool_fails_the_test_in_ci() {
        for what in ["program", "cel", "end"] {
            let alone = ("NEXTEST_EXECUTION_MODE", "process-per-test");
            assert_eq!(call(what, &[(CI, "true"), alone]), (false, String::new()), "{what}");
        }
    }

    #[test]
    fn a_file_that_may_not_be_passed_on_is_listed_and_fails_nothing() {
        for variables in [&[][..], &[(CI, "true")]] {
            let (is_passed, lines) = call("published", variables);
            assert!(is_passed && lines.starts_with("tests::called\tno-such-file.tsv\tfetch it"), "{lines}");
        }
    }

    #[test]
    fn the_runner_provides_the_name_of_the_test() {
        let (is_passed, lines) = call("cel", &[("NEXTEST_TEST_NAME", "some::other")]);
        assert!(is_passed && lines.starts_with("some::other\tthe conformance tests of the CEL"), "{lines}");
    }

    #[test]
    fn a_helper_ends_a_test_only_in_a_process_of_its_own() {
        let alone = ("NEXTEST_EXECUTION_MODE", "process-per-test");
        assert_eq!(call("end", &[alone]), (true, "tests::called\ta database\tinstall it\n".to_owned()));
        assert_eq!(call("end", &[]), (false, String::new()), "the tests beside it must run");
    }
}

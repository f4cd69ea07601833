//! The runner of the tests, nextest: each test is a process of its own with a time limit, and its times are printed.
//!
//! After its output it prints the slowest tests, the duration of the short form of the nightly checks, the tests that
//! were not run because of a missing requirement, and its summary once more.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use daftar_test_needs::{NOT_RUN, Tool};

use crate::failure::Failure;
use crate::files;
use crate::steps::{Steps, shown};
use crate::tools;
use crate::workspace::Workspace;

/// The test runner, from crates.io, without its self-update.
const NEXTEST: (&str, &str) = ("cargo-nextest", "0.9.151");
const FEATURES: [&str; 3] = ["--no-default-features", "--features", "default-no-update"];
/// Number of the slowest tests that are printed.
const SLOWEST: usize = 20;
/// The tests that are the short form of long checks of the nightly run: the name of each part, the package and the
/// program of its tests, and the begin of their names.
const SHORT_FORMS: [(&str, &str, &str, &str); 5] = [
    ("power", "daftar-tests", "it", "power::"),
    ("model", "daftar-tests", "it", "model::"),
    ("torture", "daftar-tests", "it", "torture::"),
    ("recovery", "daftar-tests", "it", "recovery::"),
    ("replay", "daftar-fuzz", "replay", ""),
];

/// Returns the expression that selects the tests of the short form.
pub fn short_filter() -> String {
    let parts = SHORT_FORMS
        .map(|(_, package, program, begin)| format!("(package({package}) & binary({program}) & test(/^{begin}/))"));
    parts.join(" | ")
}

/// Installs the runner once on this machine.
pub fn install(workspace: &Workspace, steps: &Steps) -> Result<PathBuf, Failure> {
    tools::cargo_tool(workspace, steps, NEXTEST, &FEATURES)
}

/// File with the skipped tests, as lines `test<tab>missing requirement<tab>installation instructions`.
pub struct NotRun(PathBuf);

impl NotRun {
    /// Creates an empty list.
    pub fn in_folder(target: &Path) -> Result<Self, Failure> {
        let file = target.join("tests").join("not-run.tsv");
        files::create_folder(file.parent().unwrap_or(target))?;
        fs::write(&file, "").map_err(|error| Failure::file(&file, error))?;
        Ok(Self(file))
    }

    /// Adds tests that could not be run because these are missing.
    pub fn note(&mut self, what: &str, missing: &[&Tool]) -> Result<(), Failure> {
        let names: Vec<&str> = missing.iter().map(|tool| tool.program).collect();
        let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
        let line = format!("{what}\t{}\tinstall {} (packages of Debian)\n", names.join(", "), packages.join(" "));
        let file = fs::OpenOptions::new().append(true).open(&self.0);
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(|error| Failure::file(&self.0, error))
    }

    /// Text about them; empty if every test was run.
    fn text(&self) -> String {
        let lines = fs::read_to_string(&self.0).unwrap_or_default();
        let mut lines: Vec<&str> = lines.lines().collect();
        // A test that was tried twice.
        lines.sort_unstable();
        lines.dedup();
        let tests: BTreeSet<&str> = lines.iter().filter_map(|line| line.split('\t').next()).collect();
        let reported = lines.iter().map(|line| {
            let mut parts = line.split('\t');
            let [test, missing, how] = [(); 3].map(|()| parts.next().unwrap_or_default());
            format!("  {test}: needs {missing} ({how})\n")
        });
        format!("NOT RUN: {}\n{}", tests.len(), reported.collect::<String>())
    }
}

/// Runs the tests; fails as they do.
pub fn run(mut tests: Command, not_run: &NotRun, report: &Path) -> Result<(), Failure> {
    let _is_old = fs::remove_file(report);
    let failed = |error| Failure::new(format!("the runner of the tests: {error}"));
    let mut child = tests.env(NOT_RUN, &not_run.0).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let mut summary = Vec::new();
    if let Some(output) = child.stderr.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(failed)?;
            if line.trim_start().starts_with("Summary [") {
                summary.clear();
            }
            eprintln!("{line}");
            summary.push(line);
        }
    }
    let status = child.wait().map_err(failed)?;
    if let Ok(report) = fs::read_to_string(report) {
        eprintln!("\nThe {SLOWEST} slowest tests:");
        for (seconds, name) in slowest(&report) {
            eprintln!("  {seconds:>7.1} s  {name}");
        }
        if let Some(short) = ShortForm::of(&report) {
            eprintln!("\nThe short form of the nightly checks: {short}");
        }
    }
    eprintln!("\n{}", not_run.text());
    // Last, as readers expect it at the end of a log.
    for line in summary.iter().filter(|_| summary.first().is_some_and(|line| line.contains("Summary ["))) {
        eprintln!("{line}");
    }
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{}` failed: {status}", shown(&tests)))) }
}

/// The durations of the tests of the short form, of a run.
#[derive(Debug, PartialEq)]
pub struct ShortForm {
    /// Number of its tests.
    tests: usize,
    /// The seconds of each part that was run.
    parts: Vec<(&'static str, f64)>,
}

impl ShortForm {
    /// Reads a report in JUnit's form; none if no test of the short form was run.
    pub fn of(report: &str) -> Option<Self> {
        let times = times(report);
        let mut short = Self { tests: 0, parts: Vec::new() };
        for (part, package, program, begin) in SHORT_FORMS {
            let of_part = format!("{package}::{program} {begin}");
            let seconds: Vec<f64> =
                times.iter().filter(|(_, name)| name.starts_with(&of_part)).map(|(seconds, _)| *seconds).collect();
            if !seconds.is_empty() {
                short.tests = short.tests.saturating_add(seconds.len());
                short.parts.push((part, seconds.iter().sum()));
            }
        }
        Some(short).filter(|short| short.tests > 0)
    }
}

impl fmt::Display for ShortForm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.parts.iter().map(|(part, seconds)| format!("{part} {seconds:.1} s")).collect();
        let sum: f64 = self.parts.iter().map(|(_, seconds)| *seconds).sum();
        write!(formatter, "{} tests, {sum:.1} s in sum ({})", self.tests, parts.join(", "))
    }
}

/// The tests that took longest, of a report in JUnit's form.
fn slowest(report: &str) -> Vec<(f64, String)> {
    let mut times = times(report);
    times.sort_unstable_by(|(one, _), (other, _)| other.total_cmp(one));
    times.truncate(SLOWEST);
    times
}

/// The duration of a run in seconds, of its report in JUnit's form. The tests run concurrently: their sum is more.
pub fn duration(report: &str) -> Option<f64> {
    let (_, run) = report.split_once("<testsuites")?;
    attribute(run.split_once('>')?.0, "time")?.parse().ok()
}

fn attribute(element: &str, name: &str) -> Option<String> {
    let (_, rest) = element.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value.to_owned())
}

/// The seconds and the name of each test, after that of its program, of a report in JUnit's form.
fn times(report: &str) -> Vec<(f64, String)> {
    let elements =
        report.split("<testcase").skip(1).filter_map(|rest| rest.split_once('>').map(|(element, _)| element));
    let times = elements.filter_map(|element| {
        let seconds = attribute(element, "time")?.parse().ok()?;
        Some((seconds, format!("{} {}", attribute(element, "classname")?, attribute(element, "name")?)))
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    use daftar_test_needs::TOOLS;

    use super::*;

    #[test]
    fn the_slowest_tests_stand_first() {
        let case = |name: usize| {
            format!(
                "<testcase name=\"t{name}\" classname=\"daftar::it\" timestamp=\"x\" time=\"{name}.5\">\n</testcase>"
            )
        };
        let report = format!("<testsuite name=\"a\" time=\"99\">{}</testsuite>", (0..30).map(case).collect::<String>());
        let slowest = slowest(&report);
        assert_eq!(slowest.len(), SLOWEST);
        assert_eq!(slowest.first(), Some(&(29.5, "daftar::it t29".to_owned())));
    }

    #[test]
    fn the_durations_of_the_short_form_are_added() {
        let case = |program: &str, name: &str, seconds: &str| {
            format!("<testcase name=\"{name}\" classname=\"{program}\" timestamp=\"x\" time=\"{seconds}\"/>")
        };
        let report = [
            case("daftar-tests::it", "power::nothing_is_lost", "10.5"),
            case("daftar-tests::it", "power::something_is", "2.5"),
            case("daftar-tests::it", "recovery::clock::a_day", "4"),
            case("daftar-tests::it", "many::recovery::no_drill", "100"),
            case("daftar-fuzz::replay", "rule", "1.3"),
            case("daftar-store", "model::tests::other", "100"),
        ];
        let short = ShortForm::of(&report.concat()).unwrap();
        assert_eq!(short.to_string(), "4 tests, 18.3 s in sum (power 13.0 s, recovery 4.0 s, replay 1.3 s)");
        assert_eq!(ShortForm::of(&report[5]), None);
        let whole = format!("<testsuites name=\"run\" tests=\"6\" time=\"9.250\">{}</testsuites>", report.concat());
        assert_eq!((duration(&whole), duration(&report.concat())), (Some(9.25), None));
    }

    #[test]
    fn tests_that_were_not_run_are_counted_once() {
        let folder = std::env::temp_dir().join(format!("daftar-xtask-not-run-{}", std::process::id()));
        let mut not_run = NotRun::in_folder(&folder).unwrap();
        assert_eq!(not_run.text(), "NOT RUN: 0\n");
        let needing = |program| TOOLS.iter().filter(move |tool| tool.program == program).collect::<Vec<&Tool>>();
        let tools = needing("make");
        not_run.note("the page", &tools).unwrap();
        not_run.note("the page", &tools).unwrap();
        not_run.note("the page", &needing("curl")).unwrap();
        let text = not_run.text();
        fs::remove_dir_all(&folder).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let curl = "  the page: needs curl (install curl (packages of Debian))";
        assert_eq!(lines, ["NOT RUN: 1", curl, "  the page: needs make (install make (packages of Debian))"]);
    }
}

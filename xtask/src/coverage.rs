//! `cargo xtask coverage`: the tests again, with code that counts the lines that they run, and a page with the counts.
//!
//! Counted is code that the processes of the tests run. Servers in processes of their own are built without counters:
//! most of them are killed, and a killed process writes no counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::commit::Commit;
use crate::failure::Failure;
use crate::files;
use crate::steps::Steps;
use crate::test;
use crate::tools;
use crate::workspace::Workspace;

/// The tool that compiles with counters and reads the counts, from crates.io.
const TOOL: (&str, &str) = ("cargo-llvm-cov", "0.9.1");
/// The part of Rust with LLVM's programs for counts.
const COMPONENT: &str = "llvm-tools";
/// Files that hold tests only.
const TEST_FILES: &str = r"(/tests/|/tests\.rs$|/testing/|/testing\.rs$|/fixtures\.rs$|/suite/|/suite\.rs$)";
/// Number of files that the page names: those with the most lines that no test runs.
const FILES_MAX: usize = 25;

/// Lines and functions, all and those that a test runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Count {
    count: u64,
    covered: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.covered += other.covered;
    }

    fn missing(self) -> u64 {
        self.count.saturating_sub(self.covered)
    }

    /// The covered part in percent, rounded down: no part is complete that is not.
    fn percent(self) -> String {
        if self.count == 0 {
            return "–".to_owned();
        }
        let tenths = self.covered * 1_000 / self.count;
        format!("{}.{} %", tenths / 10, tenths % 10)
    }
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct Summary {
    lines: Count,
    functions: Count,
}

/// The used part of the tool's report.
#[derive(Deserialize)]
struct Report {
    data: Vec<Data>,
}

#[derive(Deserialize)]
struct Data {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    filename: PathBuf,
    summary: Summary,
}

/// Runs the tests and writes the page, even if a test fails. `arguments` are passed to `cargo xtask test`.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    ensure_llvm(workspace, steps)?;
    let tool = tools::cargo_tool(workspace, steps, TOOL, &[])?;
    steps.run("remove earlier counts", workspace.command(&tool).args(["llvm-cov", "clean", "--profraw-only"]))?;
    let tested = test::run_by(workspace, steps, arguments, &|nextest| {
        let mut run = workspace.command(&tool);
        // The tool calls the runner as a command of cargo.
        run.env("PATH", with_first(nextest.parent())).args(["llvm-cov", "nextest", "--no-report"]);
        run
    });
    let json = folder(workspace).join("coverage.json");
    files::create_folder(&folder(workspace))?;
    let mut report = workspace.command(&tool);
    report.args(["llvm-cov", "report", "--json", "--summary-only", "--ignore-filename-regex", TEST_FILES]);
    steps.run("read the counts", report.arg("--output-path").arg(&json))?;
    let report: Report = serde_json::from_slice(&files::read(&json)?).map_err(|error| Failure::file(&json, error))?;
    let page = folder(workspace).join("coverage.md");
    files::write_if_changed(&page, page_of(workspace.root(), arguments, &report).as_bytes())?;
    steps.say(&format!("the coverage is in {}", page.display()));
    tested
}

/// The folder of the pages of the nightly checks.
fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("nightly")
}

/// Installs LLVM's programs when they are missing.
fn ensure_llvm(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    let mut rustc = Command::new("rustc");
    let output = rustc.current_dir(workspace.root()).args(["--print", "target-libdir"]).output();
    let output = output.map_err(|error| Failure::new(format!("rustc: {error}")))?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if libraries.parent().is_some_and(|folder| folder.join("bin/llvm-profdata").is_file()) {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.current_dir(workspace.root()).args(["component", "add", COMPONENT]);
    steps.run("install LLVM's programs of Rust, which are missing", &mut rustup)
}

/// The search path for programs with another folder before it.
fn with_first(folder: Option<&Path>) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folder.map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap_or(path)
}

/// The page, in Markdown.
fn page_of(root: &Path, arguments: &[String], report: &Report) -> String {
    let mut crates: BTreeMap<String, Summary> = BTreeMap::new();
    let mut sources: Vec<(String, Count)> = Vec::new();
    for File { filename, summary } in report.data.iter().flat_map(|data| &data.files) {
        let Ok(path) = filename.strip_prefix(root) else { continue };
        let Some(package) = package_of(path) else { continue };
        let total = crates.entry(package).or_default();
        total.lines.add(summary.lines);
        total.functions.add(summary.functions);
        sources.push((path.display().to_string(), summary.lines));
    }
    let commit = Commit::of(root).name.unwrap_or_else(|| "an unknown commit".to_owned());
    let tests = if arguments.is_empty() { "all tests".to_owned() } else { format!("`{}`", arguments.join(" ")) };
    let mut page = format!(
        "# Coverage of {commit}\n\nLines and functions that {tests} run in the processes of the tests. Servers in \
         processes of their own are not counted. Modules of tests inside a file are.\n\n\
         | crate | lines | covered | functions | covered |\n|---|---:|---:|---:|---:|\n"
    );
    let mut total = Summary::default();
    for (package, Summary { lines, functions }) in &crates {
        row(&mut page, &format!("`{package}`"), *lines, *functions);
        total.lines.add(*lines);
        total.functions.add(*functions);
    }
    row(&mut page, "all", total.lines, total.functions);
    sources.sort_by(|(path, count), (other, others)| others.missing().cmp(&count.missing()).then(path.cmp(other)));
    page.push_str("\n## Files with the most lines that no test runs\n\n| file | lines | not run | covered |\n|---|---:|---:|---:|\n");
    for (path, count) in sources.iter().filter(|(_, count)| count.missing() > 0).take(FILES_MAX) {
        let _ = writeln!(page, "| `{path}` | {} | {} | {} |", count.count, count.missing(), count.percent());
    }
    page
}

fn row(page: &mut String, name: &str, lines: Count, functions: Count) {
    let (in_lines, in_functions) = (lines.percent(), functions.percent());
    let _ = writeln!(page, "| {name} | {} | {in_lines} | {} | {in_functions} |", lines.count, functions.count);
}

/// The folder of the package that a source file belongs to; none for the code of tests.
fn package_of(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    let (package, _) = text.split_once("/src/")?;
    (!package.starts_with("tests")).then(|| package.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, lines: (u64, u64)) -> File {
        let count = |(count, covered)| Count { count, covered };
        let summary = Summary { lines: count(lines), functions: count((2, 1)) };
        File { filename: Path::new("/nowhere/project").join(name), summary }
    }

    #[test]
    fn the_page_has_a_row_for_each_crate_and_the_files_with_the_most_missing_lines() {
        let files = vec![
            file("host/crates/auth/src/token.rs", (999, 998)),
            file("host/crates/auth/src/limits/day.rs", (1, 1)),
            file("host/src/main.rs", (300, 100)),
            file("tests/support/src/x.rs", (50, 0)),
            File { filename: "/elsewhere/src/lib.rs".into(), ..file("x", (9, 0)) },
        ];
        let page = page_of(Path::new("/nowhere/project"), &[], &Report { data: vec![Data { files }] });
        let (introduction, tables) = page.split_once("\n\n|").unwrap();
        assert!(introduction.starts_with("# Coverage of an unknown commit\n\nLines and functions that all tests run"));
        let expected = " crate | lines | covered | functions | covered |\n|---|---:|---:|---:|---:|\n\
            | `host` | 300 | 33.3 % | 2 | 50.0 % |\n\
            | `host/crates/auth` | 1000 | 99.9 % | 4 | 50.0 % |\n\
            | all | 1300 | 84.5 % | 6 | 50.0 % |\n\n\
            ## Files with the most lines that no test runs\n\n| file | lines | not run | covered |\n|---|---:|---:|---:|\n\
            | `host/src/main.rs` | 300 | 200 | 33.3 % |\n\
            | `host/crates/auth/src/token.rs` | 999 | 1 | 99.8 % |\n";
        assert_eq!(tables, expected);
    }

    #[test]
    fn a_part_is_complete_only_if_nothing_is_missing() {
        let percent = |count, covered| Count { count, covered }.percent();
        assert_eq!(percent(100_000, 99_999), "99.9 %");
        assert_eq!(percent(3, 3), "100.0 %");
        assert_eq!(percent(0, 0), "–");
    }

    #[test]
    fn the_report_of_the_tool_is_read() {
        let json = r#"{"data":[{"files":[{"filename":"/a/src/b.rs","summary":{"branches":{"count":0},
            "functions":{"count":3,"covered":2,"percent":66.6},"lines":{"count":9,"covered":4,"percent":44.4}}}],
            "totals":{}}],"type":"llvm.coverage.json.export","version":"3.0.1"}"#;
        let report: Report = serde_json::from_str(json).unwrap();
        let summary = report.data[0].files[0].summary;
        assert_eq!((summary.lines.missing(), summary.functions.missing()), (5, 1));
    }
}

//! A guide as a list of steps, one for each of its fences.

use std::path::{Path, PathBuf};

/// Prefix of the line before a fence that is not run.
const NOT_RUN: &str = "Not run by the tests:";

/// A step for a fence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Commands for the guide's shell.
    Shell(String),
    /// A server that runs next to it.
    Server(String),
    /// A file that is written.
    File { name: String, text: String },
    /// Output of the commands before.
    Output(String),
    /// Skipped, for that reason.
    NotRun(String),
}

/// A guide.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) file: PathBuf,
    /// Each with the line of its fence.
    pub(super) steps: Vec<(usize, Step)>,
}

impl Document {
    pub(super) fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("`{}`: {error}", file.display()));
        let steps = steps(&text).unwrap_or_else(|problem| panic!("`{}`: {problem}", file.display()));
        Self { file: file.to_owned(), steps }
    }

    /// Tests whether a command that is run, or a file that it writes, calls a program.
    pub(super) fn calls(&self, program: &str) -> bool {
        let is_called = |text: &str| {
            let is_part = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_' | '.' | '/');
            text.lines().any(|line| {
                line.match_indices(program).any(|(at, _)| {
                    let (before, after) = (&line[..at], &line[at + program.len()..]);
                    !before.ends_with(is_part) && after.starts_with(' ')
                })
            })
        };
        self.steps.iter().any(|(_, step)| match step {
            Step::Shell(text) | Step::Server(text) => is_called(text),
            Step::File { name, text } => name.ends_with(".sh") && is_called(text),
            Step::Output(_) | Step::NotRun(_) => false,
        })
    }

    /// The reasons why fences are not run.
    pub(super) fn not_run(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|(_, step)| match step {
            Step::NotRun(reason) => Some(reason.as_str()),
            _ => None,
        })
    }
}

fn steps(text: &str) -> Result<Vec<(usize, Step)>, String> {
    let mut steps: Vec<(usize, Step)> = Vec::new();
    let mut lines = text.lines().enumerate();
    let mut before = "";
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            if !line.trim().is_empty() {
                before = line.trim();
            }
            continue;
        };
        let mut inside = Vec::new();
        loop {
            let (_, line) = lines.next().ok_or_else(|| format!("the fence of line {} is never closed", number + 1))?;
            if line == "```" {
                break;
            }
            inside.push(line);
        }
        let inside = inside.join("\n");
        let words: Vec<&str> = info.split_whitespace().collect();
        let step = match words.as_slice() {
            ["sh"] => Step::Shell(inside),
            ["sh", "server"] => Step::Server(inside),
            ["sh", "not-run"] => {
                let reason = before.strip_prefix(NOT_RUN).map(str::trim).filter(|reason| !reason.is_empty());
                let reason =
                    reason.ok_or_else(|| format!("the fence of line {} is not run for no reason", number + 1))?;
                Step::NotRun(reason.to_owned())
            }
            ["sh", ..] => return Err(format!("the fence of line {} is `{info}`", number + 1)),
            [_, file] if file.starts_with("file=") => {
                Step::File { name: file.trim_start_matches("file=").to_owned(), text: inside + "\n" }
            }
            ["text"] if matches!(steps.last(), Some((_, Step::Shell(_)))) => Step::Output(inside),
            _ => continue,
        };
        steps.push((number + 1, step));
    }
    Ok(steps)
}

/// Tests whether the output matches the text: line by line, `…` for any text.
pub(super) fn is_shown(printed: &str, shown: &str) -> bool {
    let printed: Vec<&str> = printed.trim().lines().map(str::trim_end).collect();
    let shown: Vec<&str> = shown.trim().lines().map(str::trim_end).collect();
    lines_fit(&printed, &shown)
}

fn lines_fit(printed: &[&str], shown: &[&str]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((&"…", rest)), _) => (0..=printed.len()).any(|skipped| lines_fit(&printed[skipped..], rest)),
        (Some((first, rest)), Some((line, others))) => fits(line, first) && lines_fit(others, rest),
        _ => false,
    }
}

fn fits(line: &str, shown: &str) -> bool {
    let Some((first, rest)) = shown.split_once('…') else { return line == shown };
    let Some(mut line) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('…').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = line.split_once(part) else { return false };
        line = after;
    }
    line.ends_with(last)
}

#[test]
fn a_guide_is_taken_apart() {
    let text = "# A\n```sh server\ndaftar serve\n```\n```sh\necho 1\n```\nprints\n```text\n1\n```\n```python file=a.py\nx\n```\n\
        Not run by the tests: it needs a domain.\n\n```sh not-run\nx\n```\n```json\n{}\n```\n";
    let file = Step::File { name: "a.py".to_owned(), text: "x\n".to_owned() };
    let expected = [
        (2, Step::Server("daftar serve".to_owned())),
        (5, Step::Shell("echo 1".to_owned())),
        (9, Step::Output("1".to_owned())),
        (12, file),
        (17, Step::NotRun("it needs a domain.".to_owned())),
    ];
    assert_eq!(steps(text).unwrap(), expected);
    assert!(steps("```sh not-run\nx\n```").unwrap_err().contains("for no reason"));
    assert!(steps("```sh\nx\n").unwrap_err().contains("never closed"));
    assert!(steps("```sh once\nx\n```").unwrap_err().contains("sh once"));
}

#[test]
fn shown_output_is_compared() {
    assert!(is_shown("a 1 b 2 c\n", "a … b … c"));
    assert!(is_shown("a\nx\ny\nb\n", "a\n…\nb"));
    assert!(is_shown("a\nb\n", "a\n…\nb"));
    assert!(!is_shown("a\nb\nc\n", "a\n…\nb"));
    assert!(!is_shown("a 1 c", "a … d"));
    assert!(!is_shown("", "a"));
}

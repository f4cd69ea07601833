//! `cargo xtask fuzz`: the targets of `tests/fuzz` with inputs that libFuzzer generates.
//!
//! The programs are compiled with instrumentation for coverage and without a sanitizer of memory: the code of the project is
//! safe Rust, and what a target asserts panics.
//!
//! **Invariant:** time and memory of a run are bounded. An input that fails is in the corpus of its target afterwards, where
//! the test `replay` runs it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::failure::Failure;
use crate::files;
use crate::guests;
use crate::steps::Steps;
use crate::tools;
use crate::workspace::Workspace;

/// The tool that compiles the programs, from crates.io.
const TOOL: (&str, &str) = ("cargo-fuzz", "0.13.2");
/// The inputs in the tree: a folder for each program, in it one for each target.
const CORPUS: &str = "tests/fuzz/corpus";
/// The package with the programs.
const RUNNER: &str = "tests/fuzz/runner";
/// The program of the targets that need the sandbox, and thereby the WebAssembly engine.
const SERVER: &str = "server";
/// Names the target in the environment of a program.
const TARGET: &str = "DAFTAR_FUZZ_TARGET";
/// Duration of the run of one target.
const SECONDS: u64 = 180;
/// Maximum duration of one input, in seconds. Most take less than a millisecond.
const INPUT_SECONDS_MAX: u64 = 10;
/// Maximum memory of a run, in MiB.
const MEMORY_MIB_MAX: u64 = 2_048;
/// The maximum length of an input of each target, in bytes: a name, a tab and a number a line.
const LIMITS: &str = "tests/fuzz/limits.tsv";
const USAGE: &str = "usage: cargo xtask fuzz [TARGET …] [--seconds N]";

/// The result of the run of one target.
#[derive(Debug)]
pub struct Outcome {
    pub target: String,
    /// Number of inputs that were tried.
    pub runs: u64,
    pub duration: Duration,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, runs, duration, failure } = self;
        write!(formatter, "{target}: {runs} inputs in {:.0} s", duration.as_secs_f64())?;
        failure.as_ref().map_or(Ok(()), |failure| write!(formatter, "; {failure}"))
    }
}

/// Builds what is needed, runs the named targets or all, and fails if an input does.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    let outcomes = outcomes(workspace, steps, arguments)?;
    let failed: Vec<String> =
        outcomes.iter().filter(|outcome| outcome.failure.is_some()).map(ToString::to_string).collect();
    for outcome in &outcomes {
        steps.say(&outcome.to_string());
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("\n"))) }
}

/// Runs targets, one on each processor and each to its end even if another fails.
pub fn outcomes(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<Vec<Outcome>, Failure> {
    let known = Target::all(workspace)?;
    let (names, seconds) = read(arguments)?;
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|target| target.name == **name)) {
        let known: Vec<&str> = known.iter().map(|target| target.name.as_str()).collect();
        return Err(Failure::new(format!("there is no target `{unknown}`; known are {}", known.join(", "))));
    }
    let selected: Vec<Target> =
        known.into_iter().filter(|target| names.is_empty() || names.contains(&target.name)).collect();
    let mut programs: Vec<&str> = selected.iter().map(|target| target.program.as_str()).collect();
    programs.dedup();
    for program in programs {
        build(workspace, steps, program)?;
    }
    let mut outcomes = Vec::with_capacity(selected.len());
    for group in selected.chunks(processors()) {
        let group: Vec<Result<Outcome, Failure>> = std::thread::scope(|scope| {
            let runs: Vec<_> =
                group.iter().map(|target| scope.spawn(|| target.run(workspace, steps, seconds))).collect();
            runs.into_iter().map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        for outcome in group {
            outcomes.push(outcome?);
        }
    }
    Ok(outcomes)
}

/// Number of targets that run at once: a target uses one processor.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The names of targets, and the seconds.
fn read(arguments: &[String]) -> Result<(Vec<String>, u64), Failure> {
    let (mut names, mut seconds) = (Vec::new(), SECONDS);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => {
                let number = arguments.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                seconds = number.ok_or_else(|| Failure::new(USAGE))?;
            }
            flag if flag.starts_with('-') => return Err(Failure::new(USAGE)),
            name => names.push(name.to_owned()),
        }
    }
    Ok((names, seconds))
}

/// The folder that the programs are compiled into, away from those without instrumentation.
fn target_folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("fuzz")
}

/// The platform of the programs.
fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Compiles a program, with the versions of crates that the project has.
fn build(workspace: &Workspace, steps: &Steps, program: &str) -> Result<(), Failure> {
    if program == SERVER {
        guests::run(workspace, steps)?;
    }
    let tool = tools::cargo_tool(workspace, steps, TOOL, &[])?;
    let runner = workspace.root().join(RUNNER);
    let (of_project, of_runner) = (workspace.root().join("Cargo.lock"), runner.join("Cargo.lock"));
    // Cargo adds the crates of libFuzzer to it.
    if files::changed(&of_runner) < files::changed(&of_project) {
        files::write_if_changed(&of_runner, &files::read(&of_project)?)?;
    }
    let mut build = workspace.command(tool);
    build.env("DAFTAR_GUESTS", workspace.target().join("guests"));
    build.args(["fuzz", "build", "--sanitizer", "none", "--codegen-units", "16", "--target", &triple()]);
    build.arg("--fuzz-dir").arg(&runner).arg("--target-dir").arg(target_folder(workspace));
    if program == SERVER {
        build.args(["--features", SERVER]);
    }
    steps.run(&format!("compile the fuzzer `{program}` (some minutes, the first time)"), build.arg(program))
}

/// A target and its program, as the folders of the corpus name them.
#[derive(Debug)]
struct Target {
    program: String,
    name: String,
    corpus: PathBuf,
    /// Maximum length of an input, in bytes.
    bytes_max: u64,
}

impl Target {
    fn all(workspace: &Workspace) -> Result<Vec<Self>, Failure> {
        let limits = files::read_text(&workspace.root().join(LIMITS))?;
        let mut targets = Vec::new();
        for program in folders(&workspace.root().join(CORPUS))? {
            for corpus in folders(&program)? {
                let bytes_max = limit(&limits, &name(&corpus))?;
                targets.push(Self { program: name(&program), name: name(&corpus), corpus, bytes_max });
            }
        }
        Ok(targets)
    }

    fn run(&self, workspace: &Workspace, steps: &Steps, seconds: u64) -> Result<Outcome, Failure> {
        let found = target_folder(workspace).join("corpus").join(&self.name);
        files::create_folder(&found)?;
        let mut run = Command::new(target_folder(workspace).join(triple()).join("release").join(&self.program));
        // New inputs are written into the first folder, failing ones into the last one.
        run.env(TARGET, &self.name).arg(&found).arg(&self.corpus);
        run.arg(format!("-artifact_prefix={}/", self.corpus.display()));
        for (name, value) in [
            ("max_total_time", seconds),
            ("timeout", INPUT_SECONDS_MAX),
            ("rss_limit_mb", MEMORY_MIB_MAX),
            ("max_len", self.bytes_max),
            ("print_final_stats", 1),
        ] {
            run.arg(format!("-{name}={value}"));
        }
        steps.say(&format!("fuzz `{}` for {seconds} s", self.name));
        let started = std::time::Instant::now();
        let output = run.output().map_err(|error| Failure::new(format!("{}: {error}", self.program)))?;
        let log = String::from_utf8_lossy(&output.stderr);
        let failure = (!output.status.success()).then(|| {
            eprintln!("{}", ending(&log));
            format!("an input fails; it is in {}", self.corpus.display())
        });
        Ok(Outcome { target: self.name.clone(), runs: runs(&log), duration: started.elapsed(), failure })
    }
}

/// The limit of a target in the text of the file with all of them.
fn limit(limits: &str, target: &str) -> Result<u64, Failure> {
    let mut lines = limits.lines().filter_map(|line| line.split_once('\t'));
    let bytes_max = lines.find(|(name, _)| *name == target).and_then(|(_, bytes)| bytes.parse().ok());
    bytes_max.ok_or_else(|| Failure::new(format!("`{LIMITS}` has no limit of `{target}`")))
}

/// Number of inputs that a log of libFuzzer reports.
fn runs(log: &str) -> u64 {
    const FIGURE: &str = "stat::number_of_executed_units:";
    let figure = log.lines().rev().find_map(|line| line.strip_prefix(FIGURE)?.trim().parse().ok());
    // Without final figures, as after a failure: the last line of progress, `#<number>`.
    let progress =
        || log.lines().rev().find_map(|line| line.strip_prefix('#')?.split_whitespace().next()?.parse().ok());
    figure.or_else(progress).unwrap_or_default()
}

/// The last lines of a log.
fn ending(log: &str) -> String {
    const LINES: usize = 60;
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n")
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The folders in a folder, sorted.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::file(folder, error))?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_name_targets_and_seconds() {
        assert_eq!(read(&[]).unwrap(), (Vec::new(), SECONDS));
        assert_eq!(read(&words("rule token --seconds 7")).unwrap(), (words("rule token"), 7));
        for wrong in ["--seconds", "--seconds 0", "--seconds x", "--all"] {
            assert!(read(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_target_has_a_limit() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let limits = files::read_text(&root.join(LIMITS)).unwrap();
        for program in folders(&root.join(CORPUS)).unwrap() {
            for corpus in folders(&program).unwrap() {
                assert!(limit(&limits, &name(&corpus)).unwrap() >= 4_096, "{}", corpus.display());
            }
        }
        let missing = limit(&limits, "no_target").unwrap_err().to_string();
        assert_eq!(missing, "`tests/fuzz/limits.tsv` has no limit of `no_target`");
    }

    #[test]
    fn the_number_of_inputs_is_read_from_the_log() {
        assert_eq!(
            runs("#2 INITED\nDone 1234 runs in 5 second(s)\nstat::number_of_executed_units: 1234\nstat::x: 1"),
            1_234
        );
        assert_eq!(runs("#2 INITED cov: 1\n#4096 pulse cov: 2\nthread panicked"), 4_096);
        assert_eq!(runs(""), 0);
    }
}

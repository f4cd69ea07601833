//! `cargo xtask test`: every test of the workspace, those that require nothing but Rust, or the short form of the long
//! checks of the nightly run.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::failure::Failure;
use crate::files;
use crate::runner::{self, NotRun, ShortForm};
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, cel_spec, clients, docs, guests, release, tools, workbench};

/// Names the folder where the tests find plugins, modules and misbehaving guests.
pub const ARTIFACTS: &str = "DAFTAR_TEST_ARTIFACTS";
/// Names the file with the conformance tests of the CEL specification.
const CEL_SPEC: &str = "DAFTAR_CEL_SPEC";
/// Environment variable with the URL of the PostgreSQL server that tests share.
const POSTGRES: &str = "DAFTAR_TEST_POSTGRES_URL";
/// Runs only the tests that require nothing but Rust.
const FAST: &str = "--fast";
/// Runs only the tests that are the short form of the long checks of the nightly run.
const SHORT: &str = "--short";

/// Builds the server and the tests in one call. Separate calls would compile shared crates twice. No benchmark is
/// linked.
const EVERYTHING: [&str; 6] =
    ["build", "--workspace", "--bin=daftar", "--bin=daftar-test-postgres", "--lib", "--tests"];

/// Builds the requirements of the tests and runs them. `arguments` are passed to the runner.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    run_by(workspace, steps, arguments, &|nextest| {
        let mut tests = workspace.command(nextest);
        tests.args(["nextest", "run"]);
        tests
    })
}

/// Runs the short form of the long checks and returns the durations of its tests, and that of the run in seconds.
pub fn run_short(workspace: &Workspace, steps: &Steps) -> Result<(ShortForm, f64), Failure> {
    run(workspace, steps, &[SHORT.to_owned()])?;
    let report = files::read_text(&report_of(workspace, profile_of_all()))?;
    let short = ShortForm::of(&report).zip(runner::duration(&report));
    short.ok_or_else(|| Failure::new("no test of the short form was run"))
}

/// As [`run`], by another call of the runner; `call` gets the runner's path.
pub fn run_by(
    workspace: &Workspace,
    steps: &Steps,
    arguments: &[String],
    call: &dyn Fn(&Path) -> Command,
) -> Result<(), Failure> {
    let (flags, arguments): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| [FAST, SHORT].contains(&argument.as_str()));
    let has = |flag: &str| flags.iter().any(|given| given.as_str() == flag);
    let (is_fast, is_short) = (has(FAST), has(SHORT));
    if is_fast && is_short {
        return Err(Failure::new(format!("`{FAST}` and `{SHORT}` select different tests: use one of them")));
    }
    let is_whole = !is_fast && !is_short;
    let mut not_run = NotRun::in_folder(workspace.target())?;
    if is_whole {
        report_missing_tools(steps)?;
    }
    let nextest = runner::install(workspace, steps)?;
    guests::run(workspace, steps)?;
    workbench::build(workspace, steps)?;
    if is_whole {
        docs::build(workspace, steps)?;
        prepare(workspace, steps, &mut not_run)?;
    }
    steps.compile("compile the server and the tests", &mut workspace.cargo(&EVERYTHING))?;
    build::finish(workspace, steps, Profile::Dev)?;
    let profile = if is_fast { "fast" } else { profile_of_all() };
    let mut tests = call(&nextest);
    tests.args(["--workspace", "--profile", profile]);
    if is_short {
        tests.args(["-E", &runner::short_filter()]);
    }
    tests.args(arguments).env(ARTIFACTS, workspace.target());
    let mut database = None;
    if !is_fast {
        database = Database::start(&workspace.program(Profile::Dev, "daftar-test-postgres"))?;
        if let Some(database) = &database {
            tests.env(POSTGRES, &database.url);
        }
    }
    if is_whole {
        if let Some(tests_of_cel) = cel_spec::fetch(workspace, steps)? {
            tests.env(CEL_SPEC, tests_of_cel);
        }
        let mut doctests = workspace.cargo(&["test", "--quiet", "--doc", "--package", "daftar-sdk"]);
        steps.run("run the examples of the plugin library", &mut doctests)?;
    }
    steps.say("run the tests");
    let outcome = runner::run(tests, &not_run, &report_of(workspace, profile));
    drop(database);
    outcome
}

/// The runner's profile of runs that are not limited to Rust.
fn profile_of_all() -> &'static str {
    if is_ci() { "ci" } else { "default" }
}

/// The report of the last run with a profile, in JUnit's form.
fn report_of(workspace: &Workspace, profile: &str) -> PathBuf {
    workspace.root().join("target/nextest").join(profile).join("junit.xml")
}

/// True if a missing program is a failure.
fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

/// Before anything is compiled: reports requirements of the tests that are missing on this machine.
fn report_missing_tools(steps: &Steps) -> Result<(), Failure> {
    let missing = tools::missing_of_tests();
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!("some tests need programs that are not on this machine:\n{}", tools::instructions(&missing));
    if is_ci() {
        return Err(Failure::new(format!("{text}\nWith `CI` set in the environment every test has to run.")));
    }
    steps.say(&format!("{text}\nThe other tests are run; these are listed at the end."));
    Ok(())
}

/// Installs clients and runs the checks that are not Rust tests; checks that cannot be run are recorded.
fn prepare(workspace: &Workspace, steps: &Steps, not_run: &mut NotRun) -> Result<(), Failure> {
    let mut with = |what: &str, names: &[&str], run: &dyn Fn() -> Result<(), Failure>| {
        let missing = tools::missing(names);
        if missing.is_empty() { run() } else { not_run.note(what, &missing) }
    };
    with("clients of others", &["python3", "node", "npm", "curl"], &|| clients::install(workspace, steps))?;
    with("the workbench in a browser", &["node", "npm", "chromium"], &|| clients::install_browser(workspace, steps))?;
    with("the parts of the workbench", &["node", "npm"], &|| workbench::test(workspace, steps))?;
    with("the bill of materials", &["python3"], &|| release::check::run(workspace, steps))
}

/// The PostgreSQL that all tests share which do not stop it. It ends with its standard input.
struct Database {
    process: Child,
    input: Option<ChildStdin>,
    url: String,
}

impl Database {
    /// Starts one; none if PostgreSQL is not on the machine, which the tests report.
    fn start(program: &Path) -> Result<Option<Self>, Failure> {
        if std::env::var_os(POSTGRES).is_some() {
            return Ok(None);
        }
        let failed = |error| Failure::file(program, error);
        let mut process = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut url = String::new();
        if let Some(output) = process.stdout.take() {
            std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut url).map_err(failed)?;
        }
        let input = process.stdin.take();
        let database = Self { process, input, url: url.trim().to_owned() };
        Ok(Some(database).filter(|database| !database.url.is_empty()))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        drop(self.input.take());
        let _has_ended = self.process.wait();
    }
}

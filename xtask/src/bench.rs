//! `cargo xtask bench`: figures, not assertions; and the tables of `host/docs/SCALE.md`, which are written from them.

mod blocks;
mod figures;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::blocks::Blocks;
use self::figures::Figures;
use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, clients, files, guests, workbench};

const USAGE: &str = "usage:
  cargo xtask bench [--baseline | --all | NAME...] [--write-docs]
                      build (release) and run benchmarks: those of the base line (25 minutes on two cores), all, or some; with
                      `--write-docs` write their tables into host/docs/SCALE.md afterwards
  cargo xtask bench --smoke [NAME...]
                      build for development and run each benchmark for a moment: whether it works
  cargo xtask bench --write-docs
                      run nothing, write the tables from the newest figures in the target folder
  cargo xtask bench --check
                      list the tables that are older than the code they measure
  cargo xtask bench --mark
                      write that into the tables";

/// The document with the tables, and the folder with the figures from which they are generated.
const DOCUMENT: &str = "host/docs/SCALE.md";
const FIGURES: &str = "host/docs/figures";
/// The benchmark that controls a browser, and the benchmarks that need the engine that evaluates row by row.
const BROWSER: &str = "workbench";
const ENGINE: &str = "engine";

/// Features of the tests' programs.
const FEATURES: &str = "--features=daftar-tests/tools";

/// Requested benchmarks and options.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    is_smoke: bool,
    is_all: bool,
    is_baseline: bool,
    writes: bool,
    checks: bool,
    marks: bool,
    names: Vec<String>,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut wanted = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "--smoke" => wanted.is_smoke = true,
                "--all" => wanted.is_all = true,
                "--baseline" => wanted.is_baseline = true,
                "--write-docs" => wanted.writes = true,
                "--check" => wanted.checks = true,
                "--mark" => wanted.marks = true,
                flag if flag.starts_with('-') => return Err(Failure::new(format!("`{flag}` is unknown\n\n{USAGE}"))),
                name => wanted.names.push(name.to_owned()),
            }
        }
        if wanted.is_smoke && wanted.writes {
            return Err(Failure::new("figures of `--smoke` are not written into documents"));
        }
        Ok(wanted)
    }

    /// True if only documents are read or written.
    fn runs_nothing(&self) -> bool {
        let is_named = self.is_smoke || self.is_all || self.is_baseline || !self.names.is_empty();
        self.checks || self.marks || (self.writes && !is_named)
    }

    fn wants(&self, name: &str) -> bool {
        self.names.iter().any(|wanted| wanted == name) || (self.names.is_empty() && (name != BROWSER || self.is_all))
    }

    /// The arguments of the benchmarks' program.
    fn arguments(&self) -> Vec<&str> {
        let flags = [(self.is_smoke, "--smoke"), (self.is_all, "--all"), (self.is_baseline, "--baseline")];
        let flags = flags.into_iter().filter_map(|(is_given, flag)| is_given.then_some(flag));
        flags.chain(self.names.iter().map(String::as_str)).collect()
    }
}

/// Runs benchmarks, or writes and checks the tables generated from their figures.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    let wanted = Wanted::parse(arguments)?;
    if !wanted.runs_nothing() {
        measure(workspace, steps, &wanted)?;
    }
    let document = workspace.root().join(DOCUMENT);
    if wanted.writes {
        write(workspace, steps, &document)?;
    }
    if wanted.checks || wanted.marks {
        check(workspace, steps, &document, wanted.marks)?;
    }
    Ok(())
}

fn measure(workspace: &Workspace, steps: &Steps, wanted: &Wanted) -> Result<(), Failure> {
    let profile = if wanted.is_smoke { Profile::Dev } else { Profile::Release };
    // The misbehaving ones too: a benchmark measures their effect.
    guests::run(workspace, steps)?;
    workbench::build(workspace, steps)?;
    let is_led = wanted.wants(BROWSER) && !(wanted.is_smoke && wanted.names.is_empty());
    if is_led {
        clients::install_browser(workspace, steps)?;
    }
    // Server and benchmarks are built in one call. Separate calls would compile shared crates twice.
    let programs: &[&str] = match profile {
        Profile::Dev => &["build", "--workspace", "--bin", "daftar", "--bin", "bench", FEATURES],
        Profile::Release => {
            &["build", "--release", "-p", "daftar", "-p", "daftar-tests", "--bin", "daftar", "--bin", "bench", FEATURES]
        }
    };
    steps.compile("compile the server and the benchmarks", &mut workspace.cargo(programs))?;
    build::finish(workspace, steps, profile)?;

    let folder = workspace.target().join("bench");
    files::create_folder(&folder)?;
    let native = folder.join("native.json");
    let mut bench = Command::new(workspace.program(profile, "bench"));
    if wanted.wants(ENGINE) {
        guests::rows_engine(workspace, steps)?;
        outside_of_the_sandbox(workspace, steps, profile, &native)?;
        bench.env("DAFTAR_BENCH_NATIVE", &native);
    }
    bench.env("DAFTAR_TEST_ARTIFACTS", workspace.target()).args(wanted.arguments());
    steps.run("run the benchmarks", &mut bench)
}

/// Runs the benchmark of the engine outside of the sandbox. It is a separate program: only the crate of the engine may
/// link the CEL crate with which it is compared.
fn outside_of_the_sandbox(
    workspace: &Workspace,
    steps: &Steps,
    profile: Profile,
    native: &Path,
) -> Result<(), Failure> {
    let mut engine = workspace.cargo(&["bench", "--package", "daftar-cel", "--bench", "eligibility"]);
    if profile == Profile::Dev {
        engine.args(["--profile", "dev"]).env("DAFTAR_BENCH_SMOKE", "1");
    }
    engine.env("DAFTAR_BENCH_NATIVE", native);
    steps.run("run the benchmark of the eligibility engine outside of the sandbox", &mut engine)
}

/// Copies the newest figures of each table from the target folder and writes all tables.
fn write(workspace: &Workspace, steps: &Steps, document: &Path) -> Result<(), Failure> {
    let stored = workspace.root().join(FIGURES);
    let mut blocks = Blocks::read(document)?;
    for name in blocks.names() {
        let Some(newest) = newest(&workspace.target().join("bench"), &name) else { continue };
        let figures = Figures::read(&newest)?;
        if let Some(reason) = figures.unfit() {
            steps.say(&format!("{name}: not taken, {reason}: {}", newest.display()));
            continue;
        }
        files::copy(&newest, &stored.join(format!("{name}.json")))?;
        steps.say(&format!("{name}: {}", newest.display()));
    }
    blocks.write_all(&stored, workspace.root())?;
    blocks.save(document)
}

/// Returns the newest file with figures of a benchmark.
fn newest(folder: &Path, name: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_of = |path: &PathBuf| {
        let commit = path.file_name().and_then(|file| file.to_str()?.strip_prefix(name)?.strip_prefix('-'));
        commit.and_then(|rest| rest.strip_suffix(".json")).is_some_and(|commit| !commit.contains('-'))
    };
    files.filter(is_of).max_by_key(|path| files::changed(path))
}

/// Lists the tables that are older than the code they measure; a table without figures is listed too. It is not an
/// error.
fn check(workspace: &Workspace, steps: &Steps, document: &Path, marks: bool) -> Result<(), Failure> {
    let mut blocks = Blocks::read(document)?;
    let old = blocks.old(workspace.root());
    for (name, why) in &old {
        eprintln!("note: {DOCUMENT}, table `{name}`: {why}");
    }
    if marks {
        blocks.write_all(&workspace.root().join(FIGURES), workspace.root())?;
        blocks.save(document)?;
    }
    steps.say(&format!(
        "{DOCUMENT}: {} of {} tables are up to date",
        blocks.names().len() - old.len(),
        blocks.names().len()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_smoke_run_writes_no_documents() {
        assert!(Wanted::parse(&words("--smoke --write-docs")).is_err());
        assert!(Wanted::parse(&words("--quick")).is_err());
    }

    #[test]
    fn documents_alone_need_no_run() {
        for (arguments, runs_nothing) in
            [("--write-docs", true), ("--check", true), ("--mark", true), ("read --write-docs", false), ("", false)]
        {
            assert_eq!(Wanted::parse(&words(arguments)).unwrap().runs_nothing(), runs_nothing, "{arguments}");
        }
    }

    #[test]
    fn the_newest_file_of_a_benchmark_is_taken_and_no_other_benchmarks() {
        let folder = std::env::temp_dir().join(format!("daftar-xtask-figures-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["postgres-1m-aaaaaaaaaaaa.json", "postgres-bbbbbbbbbbbb.json", "post-cccccccccccc.json"] {
            std::fs::write(folder.join(name), "{}").unwrap();
        }
        let found = newest(&folder, "postgres");
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            found.and_then(|path| path.file_name().map(|name| name.to_owned())),
            Some("postgres-bbbbbbbbbbbb.json".into())
        );
    }
}

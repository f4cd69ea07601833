//! Benchmarks: they report measurements and assert nothing. This program is the load generator. The measured servers
//! run in separate processes, except in benchmarks marked as in-process.

#![expect(clippy::print_stdout, reason = "figures on standard output are what a benchmark is for")]

mod bare;
mod codes;
mod consent;
mod engine;
mod fair;
mod hostile;
mod http;
mod import;
mod in_process;
mod limits;
mod load;
mod machine;
mod pairs;
mod people;
mod plugins;
mod postgres;
mod preview;
mod read;
mod report;
mod rounds;
mod scale;
mod search;
mod server;
mod setup;
mod sign_in;
mod start;
mod token;
mod unread;
mod workbench;
mod write;

use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::report::{Provenance, Report};
use crate::setup::Setup;

/// The same allocator as the server, because the bare server is part of this program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A benchmark.
struct Benchmark {
    name: &'static str,
    /// True if `--baseline` runs it.
    is_baseline: bool,
    /// Approximate duration on two cores, in minutes.
    minutes: f64,
    run: fn(&Setup, &mut Report) -> Result<(), String>,
}

impl Benchmark {
    const fn baseline(name: &'static str, minutes: f64, run: fn(&Setup, &mut Report) -> Result<(), String>) -> Self {
        Self { name, is_baseline: true, minutes, run }
    }

    const fn long(name: &'static str, minutes: f64, run: fn(&Setup, &mut Report) -> Result<(), String>) -> Self {
        Self { name, is_baseline: false, minutes, run }
    }
}

/// The benchmarks in execution order: those of the shared register first, and its first start before all others.
const BENCHMARKS: &[Benchmark] = &[
    Benchmark::baseline("import", 3.0, import::run),
    Benchmark::baseline("start", 3.0, start::run),
    Benchmark::baseline("read", 3.5, read::run),
    Benchmark::baseline("search", 2.0, search::run),
    Benchmark::baseline("preview", 1.5, preview::run),
    Benchmark::baseline("write", 3.0, write::run),
    Benchmark::baseline("token", 1.0, token::run),
    Benchmark::baseline("limits", 1.5, limits::run),
    Benchmark::baseline("fair", 0.5, fair::run),
    Benchmark::baseline("engine", 0.5, engine::run),
    Benchmark::baseline("postgres", 4.0, postgres::run),
    Benchmark::long("codes", 1.5, codes::run),
    Benchmark::long("consent", 1.0, consent::run),
    Benchmark::long("hostile", 3.0, hostile::run),
    Benchmark::long("plugins", 2.0, plugins::run),
    Benchmark::long("postgres-1m", 20.0, postgres::run_large),
    Benchmark::long("scale", 12.0, scale::run),
    Benchmark::long("scale-10m", 25.0, scale::run_largest),
    Benchmark::long("sign-in", 1.0, sign_in::run),
    Benchmark::long("unread", 0.5, unread::run),
    Benchmark::long("workbench", 1.0, workbench::run),
];

/// The benchmark that requires a browser: a smoke run includes it only if it is requested by name.
const NEEDS_BROWSER: &str = "workbench";

/// The argument with which this program repeats one request to a running server, for comparison with other generators.
const LOAD: &str = "load";

const USAGE: &str = "usage: bench [--smoke] (--baseline | --all | NAME...), or bench load ADDRESS PATH TOKEN";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((mode, [file])) if mode == bare::MODE => bare::serve(file.as_ref()),
        Some((mode, [address, path, token])) if mode == LOAD => send(address, path, token),
        _ => run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (flags, names): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|given| given.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|given| *given == flag);
    let is_smoke = has("--smoke");
    let is_all = has("--all") || (is_smoke && !has("--baseline"));
    let known = |name: &str| BENCHMARKS.iter().any(|benchmark| benchmark.name == name);
    if let Some(unknown) = flags.iter().find(|flag| !["--smoke", "--all", "--baseline"].contains(&flag.as_str())) {
        return Err(format!("`{unknown}` is no flag; {USAGE}"));
    }
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        return Err(format!("there is no benchmark `{unknown}`; there are {}", all.join(", ")));
    }
    let wanted: Vec<&Benchmark> = BENCHMARKS
        .iter()
        .filter(|benchmark| match names.as_slice() {
            [] if is_smoke && is_all => benchmark.name != NEEDS_BROWSER,
            [] => is_all || benchmark.is_baseline,
            names => names.iter().any(|name| **name == benchmark.name),
        })
        .collect();
    let folder = server::artifacts()?.join("bench");
    // Figures of a smoke run are in a separate folder and are not published.
    let folder = if is_smoke { folder.join("smoke") } else { folder };
    let setup = Setup::new(&folder, is_smoke)?;
    let of = provenance(&setup)?;
    println!("commit {}{}, {}", of.commit, if of.is_modified { ", modified" } else { "" }, of.machine.json());
    let mut failed = Vec::new();
    for (at, benchmark) in wanted.iter().enumerate() {
        let rest: f64 = wanted.iter().skip(at).map(|benchmark| benchmark.minutes).sum();
        let left = if is_smoke { String::new() } else { format!(", about {rest:.0} minutes left") };
        eprintln!("[{}/{}] {}{left}", at + 1, wanted.len(), benchmark.name);
        println!("{}:", benchmark.name);
        let started = Instant::now();
        let mut report = Report::default();
        report.setting("rounds", setup.rounds());
        report.setting("seconds a round", setup.window().as_secs_f64());
        let result = (benchmark.run)(&setup, &mut report);
        let seconds = started.elapsed().as_secs_f64();
        // The remaining benchmarks run regardless.
        if let Err(error) = result {
            eprintln!("[{}/{}] {} FAILED: {error}", at + 1, wanted.len(), benchmark.name);
            failed.push(benchmark.name);
            continue;
        }
        if report.len() == 0 {
            return Err(format!("{} measured nothing", benchmark.name));
        }
        let written = report.write(&folder, benchmark.name, seconds, &of)?;
        eprintln!("[{}/{}] {}: {seconds:.0} s, {}", at + 1, wanted.len(), benchmark.name, written.display());
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// Sends one request over 16 connections for five seconds.
fn send(address: &str, path: &str, token: &str) -> Result<(), String> {
    let address = address.parse().map_err(|_| format!("`{address}` is no address"))?;
    let make = load::cycle(vec![http::get(path, token)]);
    let taken = load::Load::new(address, 16, std::time::Duration::from_secs(5)).run(&make)?;
    println!("{:.0}/s, median {:.3} ms, p99 {:.3} ms", taken.per_second(), taken.ms(0, 0.5), taken.ms(0, 0.99));
    Ok(())
}

/// Prints the current step of a benchmark.
pub fn progress(what: &str) {
    eprintln!("  … {what}");
}

fn provenance(setup: &Setup) -> Result<Provenance, String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let profile = server::program()?;
    let profile = profile.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
    Ok(Provenance {
        commit: git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned()),
        is_modified: git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|changes| !changes.is_empty()),
        date: jiff::Zoned::now().date().to_string(),
        profile: profile.to_string_lossy().into_owned(),
        is_smoke: setup.is_smoke,
        machine: machine::Machine::of(setup.scratch())?,
    })
}

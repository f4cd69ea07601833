//! The benchmarks: figures, not assertions. Ratios are taken within one run, since machines are noisy.

#![expect(clippy::print_stdout, reason = "figures on standard output are what a benchmark is for")]

mod access;
mod codes;
mod consent;
mod counts;
mod cpu;
mod eligibility;
mod fair;
mod hostile;
mod import;
mod load;
mod mixed;
mod pairs;
mod people;
mod plugins;
mod postgres;
mod program;
mod read;
mod register;
mod scale;
mod search;
mod server;
mod sign_in;
mod start;
mod unread;
mod workbench;
mod write;

use std::process::ExitCode;

/// As the program has it, since most benchmarks run the server in this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A benchmark by its name.
type Benchmark = (&'static str, fn() -> Result<(), String>);

const BENCHMARKS: &[Benchmark] = &[
    ("access", access::run),
    ("codes", codes::run),
    ("consent", consent::run),
    ("eligibility", || eligibility::run(&[])),
    ("fair", fair::run),
    ("hostile", hostile::run),
    ("import", import::run),
    ("mixed", mixed::run),
    ("plugins", plugins::run),
    ("read", read::run),
    ("search", search::run),
    ("sign-in", sign_in::run),
    ("start", start::run),
    ("unread", unread::run),
    ("write", write::run),
];

/// Runs for an hour, so only where it is asked for by name; further arguments are how many people the registers have.
const SCALE: &str = "scale";
/// The same on both backends.
const POSTGRES: &str = "postgres";
/// Needs Redis, so only where it is asked for by name.
const COUNTS: &str = "counts";
/// Needs a browser, so only where it is asked for by name.
const WORKBENCH: &str = "workbench";
/// Further arguments that are numbers are how many people the registers have.
const ELIGIBILITY: &str = "eligibility";

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if let Some((SCALE, sizes)) = names.split_first().map(|(name, sizes)| (name.as_str(), sizes)) {
        return finish(scale::run(sizes));
    }
    if let Some((POSTGRES, sizes)) = names.split_first().map(|(name, sizes)| (name.as_str(), sizes)) {
        return finish(postgres::run(sizes));
    }
    if let Some((ELIGIBILITY, sizes)) = names.split_first().map(|(name, sizes)| (name.as_str(), sizes))
        && sizes.iter().all(|size| size.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return finish(eligibility::run(sizes));
    }
    if names == [COUNTS] {
        return finish(counts::run());
    }
    if names == [WORKBENCH] {
        return finish(workbench::run());
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|given| given == name);
    if let Some(unknown) = names.iter().find(|name| BENCHMARKS.iter().all(|(known, _)| known != name)) {
        let known: Vec<&str> =
            BENCHMARKS.iter().map(|(name, _)| *name).chain([COUNTS, POSTGRES, SCALE, WORKBENCH]).collect();
        eprintln!("error: there is no benchmark `{unknown}`; there are: {}", known.join(", "));
        return ExitCode::FAILURE;
    }
    for (_, run) in BENCHMARKS.iter().filter(|(name, _)| wanted(name)) {
        if let Err(error) = run() {
            return finish(Err(error));
        }
    }
    ExitCode::SUCCESS
}

fn finish(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

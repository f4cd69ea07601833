//! The benchmarks: figures, not assertions. Ratios are taken within one run, since machines are noisy.

#![expect(clippy::print_stdout, reason = "figures on standard output are what a benchmark is for")]

mod codes;
mod consent;
mod hostile;
mod load;
mod plugins;
mod read;
mod search;
mod server;

use std::process::ExitCode;

/// A benchmark by its name.
type Benchmark = (&'static str, fn() -> Result<(), String>);

const BENCHMARKS: &[Benchmark] = &[
    ("codes", codes::run),
    ("consent", consent::run),
    ("hostile", hostile::run),
    ("plugins", plugins::run),
    ("read", read::run),
    ("search", search::run),
];

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|given| given == name);
    if let Some(unknown) = names.iter().find(|name| BENCHMARKS.iter().all(|(known, _)| known != name)) {
        let known: Vec<&str> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        eprintln!("error: there is no benchmark `{unknown}`; there are: {}", known.join(", "));
        return ExitCode::FAILURE;
    }
    for (_, run) in BENCHMARKS.iter().filter(|(name, _)| wanted(name)) {
        if let Err(error) = run() {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

//! The benchmarks: figures, not assertions. Ratios are taken within one run, since machines are noisy.

#![expect(clippy::print_stdout, reason = "figures on standard output are what a benchmark is for")]

mod codes;
mod load;
mod read;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|given| given == name);
    let benchmarks: [(&str, fn() -> Result<(), String>); 2] = [("read", read::run), ("codes", codes::run)];
    if let Some(unknown) = names.iter().find(|name| benchmarks.iter().all(|(known, _)| known != name)) {
        let known: Vec<&str> = benchmarks.iter().map(|(name, _)| *name).collect();
        eprintln!("error: there is no benchmark `{unknown}`; there are: {}", known.join(", "));
        return ExitCode::FAILURE;
    }
    for (_, run) in benchmarks.iter().filter(|(name, _)| wanted(name)) {
        if let Err(error) = run() {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

//! The benchmarks: figures, not assertions. Ratios are taken within one run, since machines are noisy.

#![expect(clippy::print_stdout, reason = "figures on standard output are what a benchmark is for")]

mod load;
mod read;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|given| given == name);
    if let Some(unknown) = names.iter().find(|name| name.as_str() != "read") {
        eprintln!("error: there is no benchmark `{unknown}`; there is: read");
        return ExitCode::FAILURE;
    }
    if wanted("read")
        && let Err(error) = read::run()
    {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

//! `cargo xtask torture`: kills the server under load, again and again, and says what came of it.

#![expect(clippy::print_stdout, reason = "what came of each round is what it is run for")]

use std::process::ExitCode;

use daftar_tests::torture::{Options, run};

const USAGE: &str = "usage: torture [--rounds N] [--seed S]";
/// How often the server is killed where nothing is said.
const ROUNDS_DEFAULT: u32 = 200;

fn main() -> ExitCode {
    let options = match read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    println!("seed {} (say `--seed {}` to send the same again)", options.seed, options.seed);
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("error: no temporary folder can be made: {error}");
            return ExitCode::FAILURE;
        }
    };
    match run(folder.path(), options, |line| println!("{line}")) {
        Ok(summary) => {
            println!("seed {}: {summary}", options.seed);
            ExitCode::SUCCESS
        }
        Err(lost) => {
            let kept = folder.keep();
            eprintln!("error: seed {}: {lost}\nthe register is kept in `{}`", options.seed, kept.display());
            ExitCode::FAILURE
        }
    }
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    // Another one each time, so that many runs try more than one.
    let mut seed = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
    let mut rounds = ROUNDS_DEFAULT;
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("`{name}` needs a number"))?;
        let wrong = |_| format!("`{value}` is no number for `{name}`");
        match name.as_str() {
            "--rounds" => rounds = value.parse().map_err(wrong)?,
            "--seed" => seed = value.parse().map_err(wrong)?,
            _ => return Err(format!("`{name}` is not known")),
        }
    }
    Ok(Options { rounds, seed, workers: 12, answers_max: 400 })
}

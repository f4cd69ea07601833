//! `cargo xtask torture`: repeatedly kills the server under load, or cuts the power of its store, and prints the
//! result.

#![expect(clippy::print_stdout, reason = "what came of each round is what it is run for")]

use std::process::ExitCode;

use daftar_tests::power;
use daftar_tests::torture::{Options, run};

const USAGE: &str = "usage: torture [--rounds N | --power-cuts N] [--seed S]";
/// Number of kills by default.
const ROUNDS_DEFAULT: u32 = 200;

fn main() -> ExitCode {
    let (options, power_cuts) = match read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    println!("seed {} (say `--seed {}` to send the same again)", options.seed, options.seed);
    if let Some(states) = power_cuts {
        return cut_power(states, options.seed);
    }
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
            let stored = folder.keep();
            eprintln!("error: seed {}: {lost}\nthe register is kept in `{}`", options.seed, stored.display());
            ExitCode::FAILURE
        }
    }
}

/// A quarter of the states are of disks that fail as well.
fn cut_power(states: u32, seed: u64) -> ExitCode {
    if let Some(why) = power::missing() {
        eprintln!("error: no disk can be mounted by FUSE: {why}; run as root, where `/dev/fuse` is");
        return ExitCode::FAILURE;
    }
    for (states, has_faults) in [(states - states / 4, false), (states / 4, true)] {
        match power::run(power::Options { states, seed, has_faults }, |_| ()) {
            Ok(summary) => println!("seed {seed}: {summary}"),
            Err(lost) => {
                eprintln!("error: seed {seed}: {lost}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<(Options, Option<u32>), String> {
    // A different one each time, so that many runs try several.
    let mut seed = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
    let (mut rounds, mut power_cuts) = (ROUNDS_DEFAULT, None);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("`{name}` needs a number"))?;
        let wrong = |_| format!("`{value}` is no number for `{name}`");
        match name.as_str() {
            "--rounds" => rounds = value.parse().map_err(wrong)?,
            "--power-cuts" => power_cuts = Some(value.parse().map_err(wrong)?),
            "--seed" => seed = value.parse().map_err(wrong)?,
            _ => return Err(format!("`{name}` is not known")),
        }
    }
    Ok((Options { rounds, seed, workers: 12, answers_max: 400 }, power_cuts))
}

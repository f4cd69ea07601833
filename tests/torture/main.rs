//! `cargo xtask torture`: repeatedly kills the server under load, cuts the power of its store, or compares servers with
//! the model of the register, and prints the result.

#![expect(clippy::print_stdout, reason = "what came of each round is what it is run for")]

use std::process::ExitCode;

use daftar_tests::power::Subject;
use daftar_tests::torture::{Options, run};
use daftar_tests::{model, power};

const USAGE: &str = "usage: torture [--rounds N | --power-cuts N | --model N] [--seed S]";
/// Number of kills by default.
const ROUNDS_DEFAULT: u32 = 200;
/// Number of operations of a sequence that is compared with the model.
const MODEL_STEPS: usize = 200;

/// The kind of a run, with its length.
enum Kind {
    /// Kills of the server under load.
    Kills(u32),
    /// States of a disk after a power cut.
    PowerCuts(u32),
    /// Sequences of operations that are compared with the model, on each kind of server.
    Model(u32),
}

fn main() -> ExitCode {
    let (kind, seed) = match read(std::env::args().skip(1)) {
        Ok(read) => read,
        Err(error) => {
            eprintln!("error: {error}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    println!("seed {seed} (say `--seed {seed}` to send the same again)");
    match kind {
        Kind::Kills(rounds) => kill(rounds, seed),
        Kind::PowerCuts(states) => cut_power(states, seed),
        Kind::Model(sequences) => compare(sequences, seed),
    }
}

fn kill(rounds: u32, seed: u64) -> ExitCode {
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("error: no temporary folder can be made: {error}");
            return ExitCode::FAILURE;
        }
    };
    let options = Options { rounds, seed, workers: 12, answers_max: 400 };
    match run(folder.path(), options, |line| println!("{line}")) {
        Ok(summary) if summary.acknowledged == 0 || summary.checked == 0 => {
            eprintln!("error: seed {seed}: nothing was acknowledged or checked: {summary}");
            ExitCode::FAILURE
        }
        Ok(summary) => {
            println!("seed {seed}: {summary}");
            ExitCode::SUCCESS
        }
        Err(lost) => {
            let stored = folder.keep();
            eprintln!("error: seed {seed}: {lost}\nthe register is kept in `{}`", stored.display());
            ExitCode::FAILURE
        }
    }
}

/// Sends each sequence to a server with a clock that is set, to one that is killed, and to two on one database.
fn compare(sequences: u32, seed: u64) -> ExitCode {
    let mut sums = [model::Summary::default(); 3];
    for seed in (0..u64::from(sequences)).map(|number| seed.wrapping_add(number)) {
        // In every other register one of the two servers has the register in memory.
        let shared: fn() -> model::Shared =
            if seed.is_multiple_of(2) { model::Shared::start } else { model::Shared::mixed };
        let compared = [
            ("embedded", model::run(model::Embedded::start, seed, MODEL_STEPS)),
            ("killed", model::run(model::Alone::start, seed, MODEL_STEPS)),
            ("two servers", model::run(shared, seed, MODEL_STEPS)),
        ];
        for (sum, (servers, compared)) in sums.iter_mut().zip(compared) {
            match compared {
                Ok(summary) => {
                    println!("seed {seed}, {servers}: {summary}");
                    *sum = sum.plus(summary);
                }
                Err(problem) => {
                    eprintln!("error: {servers}: {problem}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    for (sum, (servers, can_kill)) in sums.iter().zip([("embedded", false), ("killed", true), ("two servers", true)]) {
        println!("{servers}: {sum}");
        let is_compared = sum.written > 0 && sum.rejected > 0 && sum.comparisons > 0;
        if !is_compared || (sum.kills > 0) != can_kill {
            eprintln!("error: {servers}: too little was compared");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// So many states of a store are followed by one of a whole data folder, which takes longer.
const STORE_STATES: u32 = 10;

/// A quarter of the states are of disks that fail as well. States of a data folder are additional.
fn cut_power(states: u32, seed: u64) -> ExitCode {
    if let Some(why) = power::missing() {
        eprintln!("error: no disk can be mounted by FUSE: {why}; run as root, where `/dev/fuse` is");
        return ExitCode::FAILURE;
    }
    let runs = [("store", Subject::Store, states), ("data folder", Subject::DataFolder, states / STORE_STATES)];
    for (name, subject, states) in runs {
        for (states, has_faults) in [(states - states / 4, false), (states / 4, true)] {
            match power::run(power::Options { subject, states, seed, has_faults }, |_| ()) {
                Ok(summary) => println!("seed {seed}, {name}: {summary}"),
                Err(lost) => {
                    eprintln!("error: seed {seed}, {name}: {lost}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<(Kind, u64), String> {
    // A different one each time, so that many runs try several.
    let mut seed = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
    let mut kind = Kind::Kills(ROUNDS_DEFAULT);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("`{name}` needs a number"))?;
        let wrong = |_| format!("`{value}` is no number for `{name}`");
        match name.as_str() {
            "--rounds" => kind = Kind::Kills(value.parse().map_err(wrong)?),
            "--power-cuts" => kind = Kind::PowerCuts(value.parse().map_err(wrong)?),
            "--model" => kind = Kind::Model(value.parse().map_err(wrong)?),
            "--seed" => seed = value.parse().map_err(wrong)?,
            _ => return Err(format!("`{name}` is not known")),
        }
    }
    Ok((kind, seed))
}

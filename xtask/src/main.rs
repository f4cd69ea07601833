//! Build tasks: `cargo xtask <command>`.
//!
//! Tasks beyond cargo alone: guests are compiled for the sandbox and wrapped first, the server embeds one of them, and
//! the server then builds the packs. One file for each command.
//!
//! **Invariant:** missing requirements of a command other than Rust are reported before it compiles anything, with instructions
//! (`tools.rs`). Without Node.js a server has no workbench; missing programs of tests are reported at the end of the run. Missing parts of
//! Rust are installed by `rustup`, with a message.

mod bench;
mod build;
mod cel_spec;
mod clients;
mod commit;
mod compile;
mod conformance;
mod coverage;
mod demo;
mod deny;
mod dist;
mod docs;
mod failure;
mod fields;
mod files;
mod fuzz;
mod guests;
mod mutants;
mod nightly;
mod packs;
mod release;
mod reproduce;
mod runner;
mod screenshots;
mod stamp;
mod steps;
mod test;
mod tidy;
mod tools;
mod torture;
mod workbench;
mod workspace;
mod wrap;

use std::process::ExitCode;

use failure::Failure;
use steps::Steps;
use workspace::{Profile, Workspace};

const USAGE: &str = "\
usage: cargo xtask <command>

  build [--release]   everything a server needs: guests, server, packs, in the target folder
  guests              only what is compiled for the sandbox; the server's build needs it once
  demo [ARGS]         build and run `daftar demo`
  test [--fast | --short] [ARGS]
                      build (dev) and run every test, those that need nothing but Rust, or the short form of the long checks;
                      first lists missing programs that tests need; ARGS go to nextest, such as a part of a test's name
  tools               print the Debian packages of the programs that tests need and this machine lacks
  coverage [--fast] [ARGS]
                      run the tests as `test` does, and count the lines that they run; the counts of each crate are in
                      nightly/coverage.md of the target folder
  mutants [AREA …] [--continue] [--only REGEX]
                      make small defects in the code of access, limits and writes, one at a time, and print those that no test
                      detects (hours; AREA is visibility, auth, limits, planner or consents); --continue leaves out those that
                      earlier runs detected, --only selects mutants by their names; without both, the counts are in
                      nightly/mutants.md of the target folder
  nightly [--minutes N]
                      what takes long: advisories, reproducible builds, conformance, the short form of the long checks, benchmarks
                      as a smoke test, torture, power cuts, the model of the register, fuzzing, coverage; fails after 180 minutes;
                      the results are in nightly/report.md of the target folder; with N, torture, power cuts, model and fuzzing
                      are cut to about N minutes
  fuzz [TARGET …] [--seconds N]
                      run the targets of tests/fuzz, or the named ones, with generated inputs, N (180) seconds each
  bench [ARGS]        build (release) and run the benchmarks
  conformance [ARGS]  lint the API's description and fuzz a server with it (needs python3, node and npm); ARGS go to the fuzzer
  torture [--rounds N | --power-cuts N | --model N] [--seed S]
                      build (release), then kill the server under load, again and again, or open N states that a power cut could leave (needs root
                      and /dev/fuse), and look for what is lost; or compare N sequences of operations with a model (needs PostgreSQL)
  dist                the release: dist/daftar, dist/plugins, dist/modules, the documentation, completions, manual pages, the bill of
                      materials, notices
  reproduce           build every plugin twice, at two places, and compare the bytes
  materials           the bill of materials and the notices of what is built for development, held to their schema (needs python3)
  deny [ARGS]         licences, banned crates and sources by deny.toml; ARGS are other checks, such as `advisories`
  screenshots         every view of the workbench at three widths, in light and dark, in both directions of writing, and its printed
                      sheets, in pictures/screenshots of the target folder (needs chromium, node and npm)
  docs                the documentation site, in docs-build/book of the target folder (installs mdBook once)
  fields              write the pages that show what the code says: FIELDS.md, ERRORS.md, COMMANDS.md and openapi.json in host/docs
  tidy                the rules of the house that no compiler sees: directions, frozen interfaces, paths";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let Some((command, rest)) = arguments.split_first() else { return Err(Failure::usage(USAGE)) };
    let workspace = Workspace::find()?;
    let steps = Steps::start();
    match (command.as_str(), rest) {
        ("build", []) => build::run(&workspace, &steps, Profile::Dev),
        ("build", [flag]) if flag == "--release" => build::run(&workspace, &steps, Profile::Release),
        ("guests", []) => guests::run(&workspace, &steps),
        ("demo", rest) => demo::run(&workspace, &steps, rest),
        ("test", rest) => test::run(&workspace, &steps, rest),
        ("tools", []) => tools::print_missing(),
        ("coverage", rest) => coverage::run(&workspace, &steps, rest),
        ("mutants", rest) => mutants::run(&workspace, &steps, rest),
        ("nightly", rest) => nightly::run(&workspace, &steps, rest),
        ("fuzz", rest) => fuzz::run(&workspace, &steps, rest),
        ("bench", rest) => bench::run(&workspace, &steps, rest),
        ("conformance", rest) => conformance::run(&workspace, &steps, rest),
        ("torture", rest) => torture::run(&workspace, &steps, rest),
        ("dist", []) => dist::run(&workspace, &steps),
        ("reproduce", []) => reproduce::run(&workspace, &steps),
        ("materials", []) => release::check::run(&workspace, &steps),
        ("deny", rest) => deny::run(&workspace, &steps, rest),
        ("screenshots", []) => screenshots::run(&workspace, &steps),
        ("docs", []) => docs::run(&workspace, &steps),
        ("fields", []) => fields::run(&workspace, &steps),
        ("tidy", []) => tidy::run(&workspace, &steps),
        _ => Err(Failure::usage(USAGE)),
    }
}

//! `cargo xtask bench`: figures, not assertions.

use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, clients, guests, workbench};

/// Builds the release and runs the benchmarks of `daftar-tests` against it; `arguments` go to them. Beside those of plugins runs the
/// benchmark of the engine, which is a program of its own: nothing but the engine may link what it is measured against.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    // The misbehaving ones too: a benchmark suffers them.
    guests::run(workspace, steps)?;
    workbench::build(workspace, steps)?;
    if arguments.iter().any(|wanted| wanted == "workbench") {
        clients::install_browser(workspace, steps)?;
    }
    // Server and benchmarks in one call: cargo would otherwise compile what they share twice, once for each.
    const PROGRAMS: [&str; 8] =
        ["build", "--release", "-p", "daftar", "-p", "daftar-tests", "--bins", "--features=daftar-tests/tools"];
    steps.compile("compile the server and the benchmarks", &mut workspace.cargo(&PROGRAMS))?;
    build::finish(workspace, steps, Profile::Release)?;
    let wants = |name: &str| arguments.is_empty() || arguments.iter().any(|wanted| wanted == name);
    if wants("eligibility") {
        guests::rows_engine(workspace, steps)?;
    }
    if wants("plugins") || wants("eligibility") {
        let mut engine = workspace.cargo(&["bench", "--package", "daftar-cel", "--bench", "eligibility"]);
        steps.run("run the benchmark of the eligibility engine outside of the sandbox", &mut engine)?;
    }
    let mut bench = std::process::Command::new(workspace.target().join("release").join("bench"));
    steps.run("run the benchmarks", bench.env("DAFTAR_TEST_ARTIFACTS", workspace.target()).args(arguments))
}

//! `cargo xtask torture`: the server is killed under load, again and again, or the power of its store is cut.

use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, guests};

/// Builds the release and runs the torture test of `daftar-tests` against it. `arguments` are passed to the test.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    guests::run(workspace, steps)?;
    // The same programs as for the benchmarks, so that shared crates are compiled once.
    const PROGRAMS: [&str; 11] = [
        "build",
        "--release",
        "-p",
        "daftar",
        "-p",
        "daftar-tests",
        "--bin",
        "daftar",
        "--bin",
        "torture",
        "--features=daftar-tests/tools",
    ];
    steps.compile("compile the server and the torture", &mut workspace.cargo(&PROGRAMS))?;
    build::finish(workspace, steps, Profile::Release)?;
    let release = workspace.target().join("release");
    let mut torture = std::process::Command::new(release.join("torture"));
    torture.env("DAFTAR_TEST_ARTIFACTS", workspace.target()).env("DAFTAR_TEST_PROGRAM", release.join("daftar"));
    steps.run("torture the server", torture.args(arguments))
}

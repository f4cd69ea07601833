//! `cargo xtask bench`: figures, not assertions.

use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, guests};

/// Builds the release and runs the benchmarks of `daftar-tests` against it; `arguments` go to them.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    guests::shipped(workspace, steps)?;
    build::server(workspace, steps, Profile::Release)?;
    build::finish(workspace, steps, Profile::Release)?;
    let mut bench = workspace.cargo(&["run", "--release", "-p", "daftar-tests", "--bin", "bench", "--"]);
    steps.run("run the benchmarks", bench.env("DAFTAR_TEST_ARTIFACTS", workspace.target()).args(arguments))
}

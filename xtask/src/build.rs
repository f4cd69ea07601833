//! `cargo xtask build`: guests, server and packs in the target folder.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::commit::Commit;
use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{guests, packs, stamp, workbench};

/// Builds everything that a server and the tests require.
pub fn run(workspace: &Workspace, steps: &Steps, profile: Profile) -> Result<(), Failure> {
    guests::run(workspace, steps)?;
    workbench::build(workspace, steps)?;
    server(workspace, steps, profile)?;
    finish(workspace, steps, profile)
}

/// The server's program, which knows no plugins yet.
pub fn server(workspace: &Workspace, steps: &Steps, profile: Profile) -> Result<(), Failure> {
    // If tests are built too, the same choice of features: another one would compile the sandbox a second time. A
    // release has none but its own.
    let selection: &[&str] = match profile {
        Profile::Dev => &["build", "--workspace", "--bin", "daftar"],
        Profile::Release => &["build", "-p", "daftar"],
    };
    steps.compile("compile the server", workspace.cargo(selection).args(profile.flags()))
}

/// Builds the packs, writes the program's stamp, and finishes.
pub fn finish(workspace: &Workspace, steps: &Steps, profile: Profile) -> Result<(), Failure> {
    let (server, plugins, modules) = (workspace.server(profile), workspace.plugins(), workspace.modules());
    packs::build_all(workspace, steps, &server, &plugins, &modules)?;
    stamp(workspace, profile, &[&plugins, &modules])?;
    if let (Profile::Release, Some(engine)) = (profile, guests::engine(workspace)) {
        try_out(steps, &server, &engine)?;
    }
    steps.say(&format!("ready: {} with {}", server.display(), plugins.display()));
    Ok(())
}

/// Lets the program compile the engine under its own limits, as a server does at its first start: tests run another
/// build of it.
fn try_out(steps: &Steps, server: &Path, engine: &Path) -> Result<(), Failure> {
    let mut inspect = Command::new(server);
    inspect.args(["plugin", "inspect"]).arg(engine).stdout(Stdio::null());
    steps.run("try the eligibility engine in the server", &mut inspect)
}

/// Writes the digests of the plugins in these folders into the program and, for a release, its commit.
pub fn stamp(workspace: &Workspace, profile: Profile, folders: &[&Path]) -> Result<(), Failure> {
    let commit = match profile {
        Profile::Dev => Commit::default(),
        Profile::Release => Commit::of(workspace.root()),
    };
    stamp::write(&workspace.server(profile), &stamp::text(folders, &commit)?).map(|_| ())
}

//! `cargo xtask build`: guests, server and packs in the target folder.

use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{guests, packs};

/// Everything that a server and the tests need.
pub fn run(workspace: &Workspace, steps: &Steps, profile: Profile) -> Result<(), Failure> {
    guests::run(workspace, steps)?;
    server(workspace, steps, profile)?;
    finish(workspace, steps, profile)
}

/// The server's program.
pub fn server(workspace: &Workspace, steps: &Steps, profile: Profile) -> Result<(), Failure> {
    // Where tests are built too, the same choice of features: another one would compile the sandbox a second time. A release has
    // none but its own.
    let selection: &[&str] = match profile {
        Profile::Dev => &["build", "--workspace", "--bin", "daftar"],
        Profile::Release => &["build", "-p", "daftar"],
    };
    let mut command = workspace.cargo(selection);
    steps.run("compile the server (several minutes the first time)", command.args(profile.flags()))
}

/// The packs, and the end.
pub fn finish(workspace: &Workspace, steps: &Steps, profile: Profile) -> Result<(), Failure> {
    packs::build_all(workspace, steps, &workspace.server(profile), &workspace.plugins(), &workspace.modules())?;
    steps.say(&format!("ready: {} with {}", workspace.server(profile).display(), workspace.plugins().display()));
    Ok(())
}

//! `cargo xtask build`: guests, server and packs in the target folder.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::commit::Commit;
use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{guests, packs, pins, workbench};

/// Everything that a server and the tests need.
pub fn run(workspace: &Workspace, steps: &Steps, profile: Profile) -> Result<(), Failure> {
    guests::run(workspace, steps)?;
    workbench::build(workspace, steps)?;
    server(workspace, steps, profile)?;
    finish(workspace, steps, profile)
}

/// The server's program, which knows the plugins of the last build.
pub fn server(workspace: &Workspace, steps: &Steps, profile: Profile) -> Result<(), Failure> {
    steps.run("compile the server (several minutes the first time)", &mut server_command(workspace, profile))
}

/// The call of cargo that builds the program.
pub fn server_command(workspace: &Workspace, profile: Profile) -> Command {
    // Where tests are built too, the same choice of features: another one would compile the sandbox a second time. A release has
    // none but its own.
    let selection: &[&str] = match profile {
        Profile::Dev => &["build", "--workspace", "--bin", "daftar"],
        Profile::Release => &["build", "-p", "daftar"],
    };
    let mut command = workspace.cargo(selection);
    command.args(profile.flags());
    if profile == Profile::Release {
        Commit::of(workspace.root()).tell(&mut command);
    }
    command
}

/// The packs, the program once more where they have changed, and the end.
pub fn finish(workspace: &Workspace, steps: &Steps, profile: Profile) -> Result<(), Failure> {
    finish_with(workspace, steps, profile, server_command(workspace, profile))
}

/// As [`finish`]; `link` is the call of cargo that built the program.
pub fn finish_with(workspace: &Workspace, steps: &Steps, profile: Profile, link: Command) -> Result<(), Failure> {
    let (server, plugins, modules) = (workspace.server(profile), workspace.plugins(), workspace.modules());
    packs::build_all(workspace, steps, &server, &plugins, &modules)?;
    pin(workspace, steps, profile, &[&plugins, &modules], link)?;
    if let (Profile::Release, Some(engine)) = (profile, guests::engine(workspace)) {
        try_out(steps, &server, &engine)?;
    }
    steps.say(&format!("ready: {} with {}", server.display(), plugins.display()));
    Ok(())
}

/// Lets the program compile the engine under its own bounds, as a server does at its first start: tests run another build of it.
fn try_out(steps: &Steps, server: &Path, engine: &Path) -> Result<(), Failure> {
    let mut inspect = Command::new(server);
    inspect.args(["plugin", "inspect"]).arg(engine).stdout(Stdio::null());
    steps.run("try the eligibility engine in the server", &mut inspect)
}

/// Links the program once more if the plugins are others than those it knows.
pub fn pin(
    workspace: &Workspace,
    steps: &Steps,
    profile: Profile,
    folders: &[&Path],
    mut link: Command,
) -> Result<(), Failure> {
    if !pins::have_changed(workspace, profile, folders)? {
        return Ok(());
    }
    steps.run("link the server with the digests of its plugins", &mut link)
}

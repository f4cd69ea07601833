//! `cargo xtask demo`: the main job, in one command.

use std::process::Command;

use crate::failure::Failure;
use crate::steps::{Steps, shown};
use crate::workspace::{Profile, Workspace};
use crate::{build, guests, workbench};

/// Builds the requirements of `daftar demo` and replaces this process with it.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    guests::shipped(workspace, steps)?;
    workbench::build(workspace, steps)?;
    build::server(workspace, steps, Profile::Dev)?;
    build::finish(workspace, steps, Profile::Dev)?;
    let mut command = Command::new(workspace.server(Profile::Dev));
    command.arg("demo").arg("--plugins").arg(workspace.plugins()).args(arguments);
    steps.say(&shown(&command));
    become_command(command)
}

/// On Unix this process becomes the server, so that its signals and its exit code are the server's.
#[cfg(unix)]
fn become_command(mut command: Command) -> Result<(), Failure> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(Failure::new(format!("`{}`: {error}", shown(&command))))
}

#[cfg(not(unix))]
fn become_command(mut command: Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| Failure::new(format!("`{}`: {error}", shown(&command))))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{}` failed: {status}", shown(&command)))) }
}

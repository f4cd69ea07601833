//! The folder of a server: its data, copied from one created by `initdb`, and a user with the right to run it.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use std::os::unix::process::CommandExt;

use rustix::process::geteuid;
use tempfile::TempDir;

use super::process::{as_server_user, user};
use super::{ROLE, run};

/// An empty folder that the server's user owns.
pub(super) fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("daftar-postgres-").tempdir().expect("a folder for PostgreSQL");
    hand_over(folder.path());
    folder
}

/// Gives a file or folder to the user who runs the server.
pub(super) fn hand_over(path: &Path) {
    if let Some((user, group)) = user() {
        std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap_or_else(|error| {
            panic!("`{}` cannot be given to the user of PostgreSQL: {error}", path.display());
        });
    }
}

/// Creates the data folder of a new server in its folder.
pub(super) fn create_data(programs: &Path, folder: &Path) {
    copy(&template(programs), &folder.join("data"));
}

/// The output of `initdb`, created once for each version of PostgreSQL and shared by all test processes.
fn template(programs: &Path) -> PathBuf {
    let version = run(Command::new(programs.join("postgres")).arg("--version"));
    // As in `postgres (PostgreSQL) 15.8 (Debian 15.8-0+deb12u1)`.
    let version = version.split_whitespace().nth(2).unwrap_or_default();
    // The files belong to the user of the server, a different one if root runs the tests.
    let key = format!("{version}-of-{}", user().map_or_else(|| geteuid().as_raw(), |(user, _)| user));
    daftar_test_needs::once("postgres", &key, |made, _| {
        // The user of the server cannot enter the target folder of root.
        let temporary = folder();
        let mut init = as_server_user(&programs.join("initdb"));
        init.args(["--username", ROLE, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "-D"]);
        run(init.arg(temporary.path().join("data")));
        copy(&temporary.path().join("data"), made);
    })
}

/// Copies a folder with owners and rights.
fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-a").arg(from).arg(to));
}

/// Commands that a shell runs when this process has ended, for any reason.
pub(super) struct AtEnd {
    shell: Child,
    input: Option<ChildStdin>,
}

impl AtEnd {
    /// Waits with those commands; in a process group of its own, since a runner that stops a test stops its group.
    pub(super) fn run(commands: &str, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("cat > /dev/null; {commands}")).arg("sh").args(arguments);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut shell = shell.spawn().expect("a shell");
        let input = shell.stdin.take();
        Self { shell, input }
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        drop(self.input.take());
        let _is_done = self.shell.wait();
    }
}

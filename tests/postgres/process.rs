//! The server's process, which ends with this one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::process::{Pid, Signal};

use super::Stop;

/// The users with the right to run the server, which does not run as root: Debian's package creates the first, every
/// system has the other.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// A process that a thread of this one monitors as long as it runs.
pub(super) struct Process {
    pid: Pid,
    ended: Receiver<()>,
    has_ended: bool,
}

impl Process {
    /// Starts a program. The thread that starts it stays: the kernel ends the program when that thread ends.
    pub(super) fn start(mut command: Command) -> Self {
        let (started, starting) = channel();
        let (ending, ended) = channel();
        std::thread::spawn(move || watch(&mut command, &started, &ending));
        let pid = starting.recv().expect("the thread that starts PostgreSQL").expect("PostgreSQL starts");
        Self { pid, ended, has_ended: false }
    }

    /// Its id.
    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// True if it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        self.has_ended = self.has_ended || self.ended.try_recv().is_ok();
        self.has_ended
    }

    /// Stops it, and waits for that.
    pub(super) fn stop(mut self, how: Stop) {
        if self.has_ended() {
            return;
        }
        let signal = match how {
            Stop::Fast => Signal::INT,
            Stop::Immediate => Signal::QUIT,
        };
        rustix::process::kill_process(self.pid, signal).expect("a signal for PostgreSQL");
        self.ended.recv().expect("the end of PostgreSQL");
    }
}

fn watch(command: &mut Command, started: &Sender<std::io::Result<Pid>>, ending: &Sender<()>) {
    let child: std::io::Result<Child> = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return started.send(Err(error)).unwrap_or_default(),
    };
    let pid = Pid::from_child(&child);
    if started.send(Ok(pid)).is_ok() {
        // If the process itself ends, no thread waits for this.
        let _ = child.wait();
        let _ = ending.send(());
    }
}

/// A PostgreSQL program as a user with the right to run it; it is interrupted when the thread that starts it ends.
pub(super) fn as_server_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if let Some((user, group)) = user() {
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
    }
    command.args(["--pdeathsig", "INT", "--"]).arg(program);
    command
}

/// The user and the group that the server runs as; `None` if they are those of this process.
pub(super) fn user() -> Option<(u32, u32)> {
    static USER: LazyLock<Option<(u32, u32)>> = LazyLock::new(|| {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let accounts = std::fs::read_to_string("/etc/passwd").expect("the accounts of this machine");
        let found = USERS.iter().find_map(|user| ids(&accounts, user));
        Some(found.expect("a user who may run PostgreSQL, which refuses to run as root"))
    });
    *USER
}

fn ids(accounts: &str, name: &str) -> Option<(u32, u32)> {
    accounts.lines().find_map(|line| match line.split(':').collect::<Vec<_>>()[..] {
        [found, _, user, group, ..] if found == name => Some((user.parse().ok()?, group.parse().ok()?)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\npostgresql:x:7:8::/:/bin/sh\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(ids(accounts, "postgres"), Some((101, 104)));
        assert_eq!(ids(accounts, "nobody"), None);
    }
}

//! The server's process, which ends with ours.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::process::{Pid, Signal};

use super::Stop;

/// Whom Debian's package makes for the server, which refuses to run as root.
const USER: &str = "postgres";

/// A process that a thread of ours watches over as long as it runs.
pub(super) struct Process {
    pid: Pid,
    ended: Receiver<()>,
    has_ended: bool,
}

impl Process {
    /// Starts a program. The thread that starts it stays: the kernel ends the program when that thread ends, and it ends with us.
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

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        self.has_ended = self.has_ended || self.ended.try_recv().is_ok();
        self.has_ended
    }

    /// Ends it, and waits for that.
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
        // Nobody waits for the end any more where the process itself ends.
        let _ = child.wait();
        let _ = ending.send(());
    }
}

/// A program of PostgreSQL's as a user who may run it; it is interrupted when whoever starts it ends.
pub(super) fn as_server_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command.args(["--pdeathsig", "INT", "--"]).arg(program);
    command
}

/// Gives a file or folder to the user who runs the server.
pub(super) fn hand_over(path: &Path) {
    if rustix::process::geteuid().is_root() {
        let done = Command::new("chown").arg(format!("{USER}:{USER}")).arg(path).status();
        assert!(done.is_ok_and(|status| status.success()), "{} cannot be given to {USER}", path.display());
    }
}

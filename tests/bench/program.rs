//! The server's program as a process of its own: how long it takes to start, what it holds in memory, how it is killed.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::codes::{millis, resident_mb};
use crate::server::{artifacts_folder, program};

/// A running server.
pub struct Program {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// How long it took until it listened, in milliseconds.
    pub start_ms: f64,
}

impl Program {
    /// Starts the program on the data folder of a register and waits until it listens.
    pub fn start(folder: &Path) -> Result<Self, String> {
        Self::start_with(folder, &[])
    }

    /// The same with more arguments.
    pub fn start_with(folder: &Path, more: &[&OsStr]) -> Result<Self, String> {
        let program = program()?;
        let started = Instant::now();
        let mut child = Command::new(&program)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .arg("--plugins")
            .arg(artifacts_folder()?.join("plugins"))
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("`{}` cannot be started: {error}", program.display()))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        let start_ms = millis(started);
        let address = line.trim().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| format!("the server did not start: `{}`", line.trim()))?;
        Ok(Self { child, address, start_ms })
    }

    /// The seconds that processors have worked for it.
    pub fn cpu_seconds(&self) -> f64 {
        crate::cpu::seconds(self.child.id())
    }

    /// What it holds in memory, once it has made the indexes that it makes after the start, in MiB.
    pub fn resident_mb(&self) -> f64 {
        std::thread::sleep(Duration::from_secs(2));
        resident_mb(&format!("/proc/{}/status", self.child.id()))
    }

    /// Ends it as a power cut does.
    pub fn kill(mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// Tells it to stop and waits until it has; gives how long that took, in milliseconds.
    pub fn stop(mut self) -> Result<f64, String> {
        let started = Instant::now();
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let id = id.ok_or("the server has no process id")?;
        rustix::process::kill_process(id, rustix::process::Signal::TERM).map_err(|error| error.to_string())?;
        self.child.wait().map_err(|error| error.to_string())?;
        Ok(millis(started))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _is_killed = self.child.kill().and_then(|()| self.child.wait());
        }
    }
}

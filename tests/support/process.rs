//! The program in a separate process, started with the commands of an operator.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::admin::Admin;
use super::artifacts;
use super::client::Credentials;
use super::http::Connection;
use super::template;

/// Result of a command.
#[derive(Debug)]
pub struct Finished {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Finished {
    /// Fails the test unless the command succeeded.
    #[track_caller]
    #[must_use]
    pub fn expect_success(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// Standard output as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}

/// Returns a command on a data folder, without inherited environment variables that could change its behaviour.
#[must_use]
pub fn command(data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(artifacts::program());
    command.args(arguments).arg("--data-dir").arg(data_dir).env_remove("DAFTAR_ADMIN_TOKEN").stdin(Stdio::null());
    command
}

/// Runs a command to its end.
#[must_use]
pub fn finish(mut command: Command) -> Finished {
    let output = command.output().expect("the program can be run");
    Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("output is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("output is UTF-8"),
    }
}

/// Runs `daftar` with those arguments on a data folder.
#[must_use]
pub fn run(data_dir: &Path, arguments: &[&str]) -> Finished {
    finish(command(data_dir, arguments))
}

/// Creates a client with those scopes and limits that no test reaches, on the folder of a running or stopped server.
#[must_use]
pub fn create_client(data_dir: &Path, scopes: &[&str]) -> Credentials {
    let mut arguments = vec!["client", "create", "--name", "test", "--json"];
    arguments.extend(["--rate-limit-per-minute", "1000000", "--rate-limit-per-day", "1000000"]);
    arguments.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
    Credentials::read(&run(data_dir, &arguments).expect_success().json())
}

/// A server that runs until it is stopped or dropped.
pub struct Server {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    /// Its address, without a path.
    pub url: String,
}

impl Server {
    /// Starts `daftar serve` with the default plugins on free ports and waits until it listens.
    #[must_use]
    pub fn serve(data_dir: &Path, more: &[&str]) -> Self {
        Self::serve_plugins(data_dir, &artifacts::plugins(), more)
    }

    /// Starts `daftar serve` with other plugins on free ports and waits until it listens. In a new folder the default
    /// plugins are already compiled.
    #[must_use]
    pub fn serve_plugins(data_dir: &Path, plugins: &Path, more: &[&str]) -> Self {
        template::copy_compiled_to(data_dir);
        let mut command = command(data_dir, &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        command.arg("--plugins").arg(plugins).args(more);
        Self::start(command)
    }

    /// Starts a command that prints `listening on URL` when it is ready.
    #[must_use]
    pub fn start(command: Command) -> Self {
        Self::begin(command).wait_until_ready()
    }

    /// Waits until it prints `listening on URL`.
    #[must_use]
    pub fn wait_until_ready(mut self) -> Self {
        loop {
            let line = self.next_line();
            let Some(line) = line else { panic!("the server did not start: {}", self.stop().stderr) };
            if let Some(url) = line.strip_prefix("listening on ") {
                self.url = url.to_owned();
                return self;
            }
        }
    }

    /// Starts a command without waiting until it is ready.
    #[must_use]
    pub fn begin(command: Command) -> Self {
        let mut server = Self::begin_unread(command);
        server.read_log();
        server
    }

    /// As [`Self::begin`]; its standard error is a pipe that is not read before [`Self::read_log`].
    #[must_use]
    pub fn begin_unread(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program can be run");
        let lines = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        Self { child, lines, stderr: None, url: String::new() }
    }

    /// Starts reading the standard error of the process to the end. [`Self::stop`] returns the output.
    pub fn read_log(&mut self) {
        let mut errors = self.child.stderr.take().expect("standard error is a pipe that is not read yet");
        self.stderr = Some(std::thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).expect("the log is UTF-8");
            text
        }));
    }

    /// Returns the next line of standard output when it arrives; `None` at the end.
    pub fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.lines.read_line(&mut line).expect("standard output is UTF-8");
        (length > 0).then(|| line.trim_end_matches('\n').to_owned())
    }

    /// Returns the administrator of the server that uses the data folder.
    #[must_use]
    pub fn admin(data_dir: &Path) -> Admin {
        let reported = std::fs::read_to_string(data_dir.join("server.json")).expect("a server says where it is");
        let reported: Value = serde_json::from_str(&reported).expect("it says it in JSON");
        let port = reported["admin_url"].as_str().and_then(|url| url.rsplit(':').next()?.parse().ok());
        let token = std::fs::read_to_string(data_dir.join("admin.token")).expect("a server has made a token");
        let port = Arc::new(AtomicU16::new(port.expect("a URL with a port")));
        Admin::new(Connection::to_operator(port), token.trim().to_owned())
    }

    /// Returns a connection to its public listener.
    #[must_use]
    pub fn connection(&self) -> Connection {
        let port = self.url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a URL with a port");
        Connection::new(Arc::new(AtomicU16::new(port)))
    }

    /// Sends the stop signal of a service manager, and waits until the server has exited.
    #[must_use]
    pub fn stop(mut self) -> Finished {
        self.terminate();
        let status = self.child.wait().expect("the server can be waited for");
        let mut stdout = String::new();
        self.lines.read_to_string(&mut stdout).expect("standard output is UTF-8");
        let stderr = self.stderr.take().map(|reader| reader.join().expect("the log was read"));
        Finished { code: status.code().unwrap_or(-1), stdout, stderr: stderr.unwrap_or_default() }
    }

    /// Kills the process without any cleanup. The operating system still writes its cached files, unlike at a power
    /// cut.
    pub fn kill(mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("the server can be killed");
    }

    /// Returns its process id.
    #[must_use]
    pub fn id(&self) -> Pid {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process has an id")
    }

    fn terminate(&self) {
        let id = self.id();
        let _was_alive = kill_process(id, Signal::TERM).is_ok();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let is_running = matches!(self.child.try_wait(), Ok(None));
        if is_running {
            let _is_killed = self.child.kill().and_then(|()| self.child.wait()).is_ok();
        }
    }
}

//! A reader's session: a folder, a shell, and a server next to it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use daftar_tests::{Server, artifacts, process, template};
use tempfile::TempDir;

use super::document::{Document, Step, is_shown};
use super::lay_out;

/// Address of the server in guides.
const ADDRESS: &str = "127.0.0.1:8080";
/// Output of the shell after each fence.
const END: &str = "-- the end of the fence --";
/// Timeout of a fence; nothing in the guides needs a tenth of it.
const PATIENCE: Duration = Duration::from_secs(300);

/// A reader's shell.
pub(super) struct Session {
    shell: Child,
    input: ChildStdin,
    printed: Receiver<String>,
    server: Option<Server>,
    folder: TempDir,
}

impl Session {
    pub(super) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        lay_out(folder.path());
        // As after the first start: the common installation of the guides is done once for all.
        template::copy_to(&folder.path().join("data"));
        let mut path = folder.path().join("dist").into_os_string();
        // Python, and Node.js, with the packages that guides name.
        for folder in ["clients/python/venv/bin", "clients/node/node_modules/.bin"] {
            path.push(":");
            path.push(daftar_test_needs::target().join(folder));
        }
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell.args(["--noprofile", "--norc"]).current_dir(folder.path()).env("PATH", path);
        // Variables that would change the behaviour of a reader's commands.
        for name in ["DAFTAR_ADMIN_TOKEN", "http_proxy", "HTTP_PROXY", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV"] {
            shell.env_remove(name);
        }
        shell.env("PYTHONDONTWRITEBYTECODE", "1").env("LC_ALL", "C.UTF-8");
        // Beside the reader's files instead of the home folder.
        shell.env("ZIG_GLOBAL_CACHE_DIR", folder.path().join("zig-cache"));
        let spawned = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut shell = spawned.unwrap_or_else(|error| panic!("bash cannot be run, install it: {error}"));
        let mut input = shell.stdin.take().unwrap();
        let output = BufReader::new(shell.stdout.take().unwrap());
        let (tell, printed) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                if tell.send(line.unwrap()).is_err() {
                    break;
                }
            }
        });
        writeln!(input, "exec 2>&1; set -euo pipefail").unwrap();
        Self { shell, input, printed, server: None, folder }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Performs all steps of the guide.
    pub(super) fn follow(&mut self, document: &Document) {
        let mut printed = String::new();
        for (line, step) in &document.steps {
            let place = format!("{}:{line}", document.file.display());
            match step {
                Step::Server(command) => self.serve(command, &place),
                Step::Shell(commands) => printed = self.run(commands, &place),
                Step::File { name, text } => std::fs::write(self.folder.path().join(name), self.placed(text)).unwrap(),
                Step::Output(shown) => {
                    let shown = self.placed(shown);
                    assert!(
                        is_shown(&printed, &shown),
                        "{place}: what is printed is\n{printed}\nand shown is\n{shown}"
                    );
                }
                Step::NotRun(_) => {}
            }
        }
    }

    fn serve(&mut self, command: &str, place: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let arguments = words.strip_prefix(&["daftar"]).unwrap_or_else(|| panic!("{place}: `{command}` is no server"));
        assert!(arguments.first() == Some(&"serve") && !command.contains(['\'', '"', '$']), "{place}: `{command}`");
        if let Some(before) = self.server.take() {
            drop(before.stop());
        }
        let mut command = Command::new(artifacts::program());
        command.args(arguments).current_dir(self.folder.path()).env_remove("DAFTAR_ADMIN_TOKEN");
        command
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--plugins"])
            .arg(artifacts::plugins());
        self.server = Some(process::Server::start(command));
    }

    /// Text of the guide with the actual address of its server.
    fn placed(&self, text: &str) -> String {
        match &self.server {
            Some(server) => text.replace(ADDRESS, server.url.trim_start_matches("http://")),
            None => text.to_owned(),
        }
    }

    fn run(&mut self, commands: &str, place: &str) -> String {
        writeln!(self.input, "{}\nprintf '\\n%s\\n' '{END}'", self.placed(commands)).unwrap();
        let mut printed = String::new();
        loop {
            match self.printed.recv_timeout(PATIENCE) {
                Ok(line) if line == END => return printed,
                Ok(line) => printed = printed + &line + "\n",
                Err(_) => panic!("{place}: a command failed, or took too long\n{commands}\n--\n{printed}"),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _is_ended = self.shell.kill().and_then(|()| self.shell.wait()).is_ok();
    }
}

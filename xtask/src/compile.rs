//! Progress of a call of cargo, and its remaining time.
//!
//! Cargo reports the number of units of work, and the finished ones. Few crates take most of the time, so that a count
//! alone would promise too much: these have a weight.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::failure::Failure;
use crate::steps::shown;

/// The crates that take long to compile, with the seconds that one processor of a small machine takes; the others take
/// [`OTHER_S`] in the mean.
const HEAVY: [(&str, f64); 22] = [
    ("antlr4rust", 20.0),
    ("cel", 14.0),
    ("cranelift-codegen", 97.0),
    ("daftar", 16.0),
    ("daftar-domain", 8.0),
    ("daftar-http", 20.0),
    ("daftar-index", 6.0),
    ("daftar-pack-tools", 7.0),
    ("daftar-sandbox", 12.0),
    ("daftar-service", 18.0),
    ("daftar-store", 8.0),
    ("daftar-store-postgres", 8.0),
    ("daftar-vocabulary", 5.0),
    ("object", 6.0),
    ("regex-automata", 7.0),
    ("rustls", 12.0),
    ("sled", 10.0),
    ("wasmtime", 28.0),
    ("wasmtime-environ", 19.0),
    ("wasmtime-internal-cranelift", 15.0),
    ("wit-component", 6.0),
    ("wit-parser", 6.0),
];
const OTHER_S: f64 = 0.8;
/// The tests that take long to compile, by the name of their target.
const HEAVY_TESTS: [(&str, f64); 2] = [("daftar-service", 20.0), ("it", 60.0)];
/// The program of a release, which is optimised as a whole when it is linked.
const HEAVY_LINK: (&str, f64) = ("daftar program", 250.0);
/// Number of units that cargo works on at the same time, for the first estimate.
const PROCESSORS: f64 = 2.0;
/// Interval of progress output without a terminal.
const LOGGED_EVERY: Duration = Duration::from_secs(30);
/// Interval of progress output on a terminal.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// A target's name, and whether it is compiled as a test.
type Crate = (String, bool);

/// Output of cargo.
enum Said {
    /// Number of finished units, and of all.
    Progress { done: usize, all: usize },
    /// A target was compiled, or was up to date.
    Artifact { crate_: Crate, is_fresh: bool },
    /// A line for the user.
    Line(String),
}

/// Runs a call of cargo that compiles, and reports its progress through `tell`: the text, and whether it replaces the
/// last one.
pub fn run(command: &mut Command, tell: &dyn Fn(&str)) -> Result<ExitStatus, Failure> {
    let is_terminal = std::io::stderr().is_terminal();
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "200");
    let failed = |command: &Command, error| Failure::new(format!("{}: {error}", shown(command)));
    let mut child = command.spawn().map_err(|error| failed(command, error))?;
    let (sender, message) = channel();
    let (artifacts, lines) = (child.stdout.take(), child.stderr.take());
    let has = |wanted| command.get_args().any(|argument| argument == wanted);
    let mut estimate = Estimate::new(has("--tests"), has("--release"));
    let of_artifacts = sender.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || artifacts.map(|output| read_artifacts(output, &of_artifacts)));
        scope.spawn(move || lines.map(|output| read_lines(output, &sender)));
        let every = if is_terminal { SHOWN_EVERY } else { LOGGED_EVERY };
        let mut due = Instant::now() + every;
        loop {
            match message.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Said::Line(line)) => {
                    clear(is_terminal);
                    eprintln!("{line}");
                }
                Ok(Said::Progress { done, all }) => (estimate.done, estimate.all) = (done, all),
                Ok(Said::Artifact { crate_, is_fresh }) => estimate.take(&crate_, is_fresh),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    due = Instant::now() + every;
                    if estimate.all > estimate.done {
                        clear(is_terminal);
                        if is_terminal {
                            eprint!("{estimate}");
                        } else {
                            tell(&estimate.to_string());
                        }
                    }
                }
            }
        }
    });
    clear(is_terminal);
    child.wait().map_err(|error| failed(command, error))
}

/// Clears the last line of a terminal.
fn clear(is_terminal: bool) {
    if is_terminal {
        eprint!("\r\x1b[2K");
    }
}

/// The used part of cargo's messages.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Target>,
    #[serde(default)]
    profile: Compiled,
    #[serde(default)]
    fresh: bool,
}

#[derive(Deserialize, Default)]
struct Compiled {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn read_artifacts(output: impl Read, message: &Sender<Said>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Ok(Message { reason, target: Some(target), profile, fresh }) = serde_json::from_str(&line) else {
            continue;
        };
        let is = |wanted| target.kind.iter().any(|kind| kind == wanted);
        if reason == "compiler-artifact" && !is("custom-build") {
            let program = if is("bin") { " program" } else { "" };
            let crate_ = (format!("{}{program}", target.name.replace('_', "-")), profile.test);
            let _ = message.send(Said::Artifact { crate_, is_fresh: fresh });
        }
    }
}

fn read_lines(output: impl Read, message: &Sender<Said>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    // Its progress bar is drawn repeatedly on one line, which a carriage return restarts.
    for byte in output.by_ref().bytes().map_while(Result::ok) {
        if byte != b'\r' && byte != b'\n' {
            line.push(byte);
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        line.clear();
        if let Some(said_now) = read_line(&text) {
            let _ = message.send(said_now);
        }
    }
}

/// Parses a line of cargo's standard error; none if it is of no use to people.
fn read_line(text: &str) -> Option<Said> {
    // Colours, and the code that clears the rest of a line.
    let plain = text.replace("\x1b[K", "");
    let words = plain.trim();
    if let Some((_, counts)) = words.strip_prefix("Building [").and_then(|bar| bar.split_once("] ")) {
        let (done, all) = counts.split(':').next()?.trim().split_once('/')?;
        return Some(Said::Progress { done: done.parse().ok()?, all: all.parse().ok()? });
    }
    let is_step =
        ["Compiling ", "Fresh ", "Downloaded ", "Downloading [", "Building "].iter().any(|one| words.starts_with(one));
    (!words.is_empty() && !is_step).then(|| Said::Line(plain.trim_end().to_owned()))
}

/// Progress so far.
struct Estimate {
    started: Instant,
    done: usize,
    all: usize,
    /// The expected processor seconds of the compiled crates.
    compiled_s: f64,
    /// Heavy crates that were not reported yet.
    awaited: BTreeMap<Crate, f64>,
    /// Time at which the last one was done.
    last: Duration,
}

impl Estimate {
    fn new(with_tests: bool, is_release: bool) -> Self {
        let crates = HEAVY.iter().map(|(name, weight)| (((*name).to_owned(), false), *weight));
        let tests = HEAVY_TESTS.iter().map(|(name, weight)| (((*name).to_owned(), true), *weight));
        let link = is_release.then(|| ((HEAVY_LINK.0.to_owned(), false), HEAVY_LINK.1));
        let awaited = crates.chain(tests.filter(|_| with_tests)).chain(link).collect();
        Self { started: Instant::now(), done: 0, all: 0, compiled_s: 0.0, awaited, last: Duration::ZERO }
    }

    fn take(&mut self, crate_: &Crate, is_fresh: bool) {
        let weight = self.awaited.remove(crate_).unwrap_or(OTHER_S);
        if !is_fresh {
            self.compiled_s += weight;
            self.last = self.started.elapsed();
        }
    }

    /// The seconds left when the last crate was done, after this elapsed time.
    fn left_s(&self, elapsed_s: f64) -> f64 {
        let left = self.all.saturating_sub(self.done);
        let heavy = self.awaited.len().min(left);
        let mut weights: Vec<f64> = self.awaited.values().copied().collect();
        weights.sort_unstable_by(|one, other| other.total_cmp(one));
        let left_s = weights.iter().take(heavy).sum::<f64>() + (left - heavy) as f64 * OTHER_S;
        // The compiled crates show how fast this machine is, the more of them the better.
        let known_s = 30.0;
        let speed = (self.compiled_s + known_s) / (elapsed_s + known_s / PROCESSORS);
        left_s / speed
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let since = self.started.elapsed().saturating_sub(self.last);
        let left_s = self.left_s(self.last.as_secs_f64()) - since.as_secs_f64();
        write!(formatter, "{} of {} crates, ", self.done, self.all)?;
        match (left_s / 60.0).round() {
            minutes if minutes >= 2.0 => write!(formatter, "about {minutes} minutes left"),
            1.0 => formatter.write_str("about a minute left"),
            _ => formatter.write_str("less than a minute left"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_and_the_artifacts_are_read_and_errors_are_passed_on() {
        let bar = "\x1b[K    Building [=====>      ] 312/380: wasmtime, cranelift-codegen(build)";
        assert!(matches!(read_line(bar), Some(Said::Progress { done: 312, all: 380 })));
        assert!(read_line("   Compiling serde v1.0.0").is_none());
        assert!(read_line("").is_none());
        assert!(
            matches!(read_line("error[E0308]: mismatched types"), Some(Said::Line(line)) if line.starts_with("error"))
        );
        let (sender, recorded) = channel();
        let message = r#"{"reason":"compiler-artifact","target":{"name":"serde_core","kind":["lib"]},"profile":{"test":false,"opt_level":"1"},"fresh":true}"#;
        read_artifacts(format!("{message}\nno json\n{{\"reason\":\"build-finished\"}}\n").as_bytes(), &sender);
        drop(sender);
        let recorded: Vec<Said> = recorded.into_iter().collect();
        assert!(
            matches!(&recorded[..], [Said::Artifact { crate_: (name, false), is_fresh: true }] if name == "serde-core")
        );
    }

    #[test]
    fn the_estimate_falls_as_crates_are_compiled_and_counts_the_heavy_ones() {
        let mut estimate = Estimate::new(true, true);
        (estimate.done, estimate.all) = (100, 380);
        let before = estimate.left_s(60.0);
        estimate.take(&("cranelift-codegen".to_owned(), false), false);
        let after = estimate.left_s(60.0);
        assert!(after < before - 20.0, "{after} {before}");
        for crate_ in estimate.awaited.clone().into_keys() {
            estimate.take(&crate_, true);
        }
        estimate.done = 379;
        assert!(estimate.left_s(200.0) < 10.0);
        assert!(estimate.to_string().starts_with("379 of 380 crates, less than"));
    }
}

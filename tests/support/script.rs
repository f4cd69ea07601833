//! A script in another language that drives a program through its steps, and requests steps that it cannot do itself
//! from the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// Prefix of a line by which a script requests a step.
const REQUEST: &str = "please ";
/// Last output of a script that completed.
const END: &str = "walked\n";

/// Runs a script to its end. `act` performs the requested steps. `what` is the name of the script in failures.
#[track_caller]
pub fn walk(mut command: Command, what: &str, mut act: impl FnMut(&str)) {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| panic!("{what}: {command:?}: {error}"));
    let mut responses = child.stdin.take().expect("it has a way in");
    let mut errors = child.stderr.take().expect("it has a way out for errors");
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).expect("errors are text");
        text
    });
    let mut reported = String::new();
    for line in BufReader::new(child.stdout.take().expect("it has a way out")).lines() {
        let line = line.expect("its output is text");
        reported.push_str(&line);
        reported.push('\n');
        if let Some(request) = line.strip_prefix(REQUEST) {
            act(request);
            // A script that ended is reported below.
            let _is_heard = writeln!(responses, "done").is_ok();
        }
    }
    let status = child.wait().expect("it can be waited for");
    let errors = errors.join().expect("its errors are read");
    assert!(status.success(), "{what}: {status}\n{reported}{errors}");
    assert!(reported.ends_with(END), "{what} did not come to its end\n{reported}{errors}");
}

//! Prints the current step and the elapsed time, and runs commands.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Instant;

use crate::compile;
use crate::failure::Failure;

/// The steps of one task.
pub struct Steps {
    start: Instant,
}

impl Steps {
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Prints one line: the time since the task began, and the current step.
    pub fn say(&self, what: &str) {
        eprintln!("[{:6.1} s] {what}", self.start.elapsed().as_secs_f64());
    }

    /// Prints a step and runs its call of cargo, which compiles, and shows its progress.
    pub fn compile(&self, what: &str, command: &mut Command) -> Result<(), Failure> {
        self.say(what);
        let status = compile::run(command, &|progress| self.say(&format!("… {progress}")))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("`{}` failed: {status}", shown(command))))
    }

    /// Prints a step and runs its command, whose output goes where ours goes.
    pub fn run(&self, what: &str, command: &mut Command) -> Result<(), Failure> {
        self.say(what);
        let status = command.status().map_err(|error| Failure::new(format!("{}: {error}", shown(command))))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("`{}` failed: {status}", shown(command))))
    }
}

/// A command as it could be typed.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

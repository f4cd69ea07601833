//! The child process that compiles one component: `daftar compile-plugin`, hidden from the help.
//!
//! **Invariant:** it bounds itself before it reads anything, reads the component from standard input, writes machine code to
//! standard output, and touches nothing else: no file, no network, no environment.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::{CompileError, compile_here};
use crate::engine::compiling_engine;
use crate::package::PACKAGE_BYTES_MAX;

/// What the worker does with a component that it cannot compile: standard output holds the reason.
pub(super) const EXIT_REFUSED: u8 = 3;
/// What it does where it could not begin: standard output holds the reason.
pub(super) const EXIT_FAILED: u8 = 4;

/// How many files it may have open: its three, and what the system opens for its memory.
const FILES_MAX: u64 = 16;
/// How much it gives way to what serves requests.
const NICENESS: i32 = 10;

/// What the worker may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerBounds {
    /// Address space, in bytes.
    pub memory_bytes: u64,
    /// Processor time, in seconds.
    pub processor_s: u64,
}

/// Compiles what comes on standard input.
#[must_use]
pub fn run_worker(bounds: WorkerBounds) -> ExitCode {
    let (code, answer) = match bound(bounds).and_then(|()| read()) {
        Err(error) => (ExitCode::from(EXIT_FAILED), error.to_string().into_bytes()),
        Ok(component) => match compile(&component) {
            Ok(code) => (ExitCode::SUCCESS, code),
            Err(CompileError::Budget(reason)) => (ExitCode::from(EXIT_REFUSED), reason.into_bytes()),
            Err(CompileError::Failed(reason)) => (ExitCode::from(EXIT_FAILED), reason.into_bytes()),
        },
    };
    let mut out = io::stdout().lock();
    match out.write_all(&answer).and_then(|()| out.flush()) {
        Ok(()) => code,
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

fn compile(component: &[u8]) -> Result<Vec<u8>, CompileError> {
    let engine = compiling_engine().map_err(|error| CompileError::Failed(error.to_string()))?;
    compile_here(&engine, component)
}

/// Bounds this process for good.
fn bound(bounds: WorkerBounds) -> io::Result<()> {
    // Whoever waits for the answer may be killed: then nobody would end this process.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    rustix::process::nice(NICENESS)?;
    for (resource, most, grace) in [
        (Resource::Core, 0, 0),
        (Resource::Fsize, 0, 0),
        (Resource::Nofile, FILES_MAX, 0),
        (Resource::As, bounds.memory_bytes, 0),
        // At the first bound a signal that says so, at the second one an end that nothing withstands.
        (Resource::Cpu, bounds.processor_s, 2),
    ] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most.saturating_add(grace)) })?;
    }
    Ok(())
}

fn read() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(PACKAGE_BYTES_MAX).unwrap_or(u64::MAX);
    io::stdin().lock().take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > PACKAGE_BYTES_MAX {
        return Err(io::Error::other("more came than a plugin may have"));
    }
    Ok(bytes)
}

//! `daftar compile-plugin`: the child process in which a server compiles a plugin.

use std::process::ExitCode;

use clap::Args;

use crate::app::{WorkerBounds, run_worker};

/// What the process may take.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// Address space, in bytes
    memory_bytes: u64,
    /// Processor time, in seconds
    processor_s: u64,
}

/// Compiles standard input to standard output.
pub fn run(args: CompileArgs) -> ExitCode {
    run_worker(WorkerBounds { memory_bytes: args.memory_bytes, processor_s: args.processor_s })
}

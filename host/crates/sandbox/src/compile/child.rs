//! Compilation in a child process, `daftar compile-plugin`, so that a component that exhausts the compiler does not
//! harm the server. This module has both sides: the parent in the server and the child.
//!
//! **Invariant:** the child gets the component and nothing else: one environment variable for its allocator and one for
//! its threads, no folder,
//! no file descriptors except its three (the program opens all others close-on-exec).
//! **Invariant:** a child always ends: by itself, by its limits of memory and processor time, by the parent's timeout,
//! or with the server, even if the server is killed.
//! **Invariant:** the child sets its limits before it reads input, reads the component from standard input, writes
//! machine code to standard output, and accesses nothing else: no file, no network, no environment.

use std::io::{self, Write};
use std::num::NonZero;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, setrlimit};

use super::{CompileError, compile_here};
use crate::engine::compiling_engine;
use crate::fault::excerpt;
use crate::files::read_at_most;
use crate::package::PACKAGE_BYTES_MAX;
use daftar_domain::config::PluginsConfig;

/// The limits of a compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileBounds {
    /// The limits of the compiling process.
    pub worker: WorkerBounds,
    /// The most wall-clock time.
    pub wall: Duration,
    /// The largest machine code, in bytes.
    pub code_bytes: usize,
}

impl CompileBounds {
    /// The bounds with that processor time and memory, from the configuration.
    #[must_use]
    pub fn new(processor_s: u64, memory_mib: u64) -> Self {
        Self {
            worker: WorkerBounds { memory_bytes: memory_mib << 20, processor_s },
            wall: Duration::from_secs(WALL_FACTOR * processor_s),
            code_bytes: 192 << 20,
        }
    }
}

impl Default for CompileBounds {
    fn default() -> Self {
        let PluginsConfig { compile_seconds, compile_memory_mib, .. } = PluginsConfig::default();
        Self::new(compile_seconds, compile_memory_mib)
    }
}

/// The wall-clock time that a compilation may take for each second of its processor time. On a busy machine its low
/// priority gives it a tenth of a processor or less; a component cannot make the compiler wait, so this limit ends only
/// a child that the machine keeps from running.
const WALL_FACTOR: u64 = 10;

/// The most threads that compile one component: each takes address space of the child.
const THREADS_MAX: usize = 4;
/// Names the number of threads of the compiler.
const THREADS: &str = "RAYON_NUM_THREADS";

/// The other environment variable of the child. It makes the allocator request memory from the system as needed. By
/// default it reserves 1 GiB of address space before the child can set its limits: a lower limit would then have no
/// effect, and one of that size would leave nothing for the stack to grow into.
const ALLOCATOR_RESERVES_NOTHING: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "0");

/// Compiles in child processes, one at a time.
pub(super) struct ChildCompiler {
    program: PathBuf,
    bounds: CompileBounds,
    running: Mutex<Running>,
}

/// The running child, which may be killed while another thread waits for it.
#[derive(Default)]
struct Running {
    child: Option<Child>,
    is_stopped: bool,
}

impl Running {
    fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already; its process id is not reused before it was waited for.
            let _is_killed = child.kill().is_ok();
        }
    }
}

impl ChildCompiler {
    /// Creates a compiler that runs that program.
    pub fn new(program: PathBuf, bounds: CompileBounds) -> Self {
        Self { program, bounds, running: Mutex::default() }
    }

    /// Returns the machine code of a component.
    ///
    /// # Errors
    /// The component exceeded the limits, or the child could not be started.
    pub fn compile(&self, component: &[u8]) -> Result<Vec<u8>, CompileError> {
        let CompileBounds { wall, code_bytes, .. } = self.bounds;
        let started = Instant::now();
        let pipes = self.start()?;
        // A separate thread: a child that neither reads nor ends blocks the thread that writes to it.
        let exchanged = std::thread::scope(|scope| {
            let (sender, exchanged) = channel();
            let exchange = move || sender.send(exchange(component, pipes, code_bytes)).is_ok();
            let thread = std::thread::Builder::new().name("plugin-compile".to_owned()).spawn_scoped(scope, exchange);
            let exchanged = match thread {
                Ok(_) => exchanged.recv_timeout(wall).map_err(io::Error::other),
                Err(error) => Err(error),
            };
            let exchanged = exchanged.flatten();
            if !matches!(&exchanged, Ok((_, answer)) if answer.len() <= code_bytes) {
                self.lock().kill();
            }
            exchanged
        });
        let status = self.wait(started);
        let has_run_out = started.elapsed() >= wall;
        if self.lock().is_stopped {
            return Err(stopped());
        }
        if has_run_out {
            let seconds = wall.as_secs();
            return Err(failed(format!(
                "it did not end within {seconds} s, because this machine is too busy; try again when it is less busy"
            )));
        }
        let (is_read, answer) = exchanged.map_err(failed)?;
        if answer.len() > code_bytes {
            return Err(CompileError::Budget(format!("its machine code has more than {code_bytes} bytes")));
        }
        self.judge(status.map_err(failed)?, is_read, answer)
    }

    /// Kills the running child and starts no other.
    pub fn stop(&self) {
        let mut running = self.lock();
        running.is_stopped = true;
        running.kill();
    }

    /// Returns true if [`Self::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        // The content is valid even after a panic.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<Option<(ChildStdin, ChildStdout)>, CompileError> {
        let worker = self.bounds.worker;
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
        let mut command = Command::new(&self.program);
        command
            .arg("compile-plugin")
            .args([worker.memory_bytes.to_string(), worker.processor_s.to_string()])
            .env_clear()
            .env(ALLOCATOR_RESERVES_NOTHING.0, ALLOCATOR_RESERVES_NOTHING.1)
            .env(THREADS, threads.to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // Locked until the child is registered, so that a concurrent stop finds it.
        let mut running = self.lock();
        if running.is_stopped {
            return Err(stopped());
        }
        let mut child = command.spawn().map_err(|error| {
            let program = self.program.display();
            CompileError::Failed(format!("no process can be started to compile it (`{program}`: {error})"))
        })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        running.child = Some(child);
        Ok(pipes)
    }

    /// Waits for the child to end without blocking a concurrent kill. Kills it when its time is up.
    fn wait(&self, started: Instant) -> io::Result<ExitStatus> {
        /// A child closes its output shortly before it exits.
        const PAUSE: Duration = Duration::from_millis(1);
        loop {
            let mut running = self.lock();
            let child = running.child.as_mut().ok_or_else(|| io::Error::other("no child is running"))?;
            if let Some(status) = child.try_wait()? {
                running.child = None;
                return Ok(status);
            }
            if started.elapsed() >= self.bounds.wall {
                running.kill();
            }
            drop(running);
            std::thread::sleep(PAUSE);
        }
    }

    /// Interprets the exit status of a child.
    fn judge(&self, status: ExitStatus, is_read: bool, answer: Vec<u8>) -> Result<Vec<u8>, CompileError> {
        let WorkerBounds { memory_bytes, processor_s } = self.bounds.worker;
        if let Some(signal) = status.signal() {
            let is = |known: Signal| signal == known.as_raw();
            let reason = if is(Signal::XCPU) {
                format!("compiling it took more than {processor_s} s of processor time (`plugins.compile_seconds`)")
            } else if is(Signal::KILL) {
                "the system killed its compilation, probably for lack of memory".to_owned()
            } else if is(Signal::ABORT) {
                out_of_memory(memory_bytes)
            } else if is(Signal::SEGV) || is(Signal::BUS) {
                "compiling it overflowed the stack".to_owned()
            } else {
                return Err(CompileError::Failed(format!("the compiling process was killed by signal {signal}")));
            };
            return Err(CompileError::Budget(reason));
        }
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        let message = || excerpt(&String::from_utf8_lossy(&answer));
        match code {
            Some(0) if is_read => Ok(answer),
            Some(EXIT_REFUSED) => Err(CompileError::Budget(message())),
            Some(EXIT_FAILED) => Err(failed(message())),
            // The compiler panicked.
            Some(101) => Err(CompileError::Budget("the compiler panicked".to_owned())),
            Some(_) | None => Err(CompileError::Failed(format!("the compiling process exited with {status}"))),
        }
    }
}

fn out_of_memory(bound_bytes: u64) -> String {
    format!("compiling it took more than {} MiB of memory (`plugins.compile_memory_mib`)", bound_bytes >> 20)
}

fn stopped() -> CompileError {
    CompileError::Failed("the server is stopping".to_owned())
}

fn failed(reason: impl std::fmt::Display) -> CompileError {
    CompileError::Failed(format!("the compiling process: {reason}"))
}

/// Sends the component to the child. Returns whether the child read all of it, and its output, at most one byte more
/// than `most`.
fn exchange(component: &[u8], pipes: Option<(ChildStdin, ChildStdout)>, most: usize) -> io::Result<(bool, Vec<u8>)> {
    let (mut input, output) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
    // The exit status of a child that ends before it has read everything gives the reason.
    let is_read = input.write_all(component).is_ok();
    drop(input);
    Ok((is_read, read_at_most(output, most)?))
}

/// Exit code of the worker for a component that cannot be compiled; standard output contains the reason.
pub(super) const EXIT_REFUSED: u8 = 3;
/// Exit code of the worker if it could not begin; standard output contains the reason.
pub(super) const EXIT_FAILED: u8 = 4;

/// The most open files: its three, and those that the system opens to map memory.
const FILES_MAX: u64 = 16;
/// The `nice` value of the worker: threads that serve requests run first.
const NICENESS: i32 = 10;

/// The limits of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerBounds {
    /// Address space, in bytes.
    pub memory_bytes: u64,
    /// Processor time, in seconds.
    pub processor_s: u64,
}

/// Compiles the component on standard input.
#[must_use]
pub fn run_worker(bounds: WorkerBounds) -> ExitCode {
    let (code, answer) = match bound(bounds).and_then(|()| read()) {
        Err(error) => (ExitCode::from(EXIT_FAILED), error.to_string().into_bytes()),
        Ok(component) => match compile(&component, bounds) {
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

fn compile(component: &[u8], bounds: WorkerBounds) -> Result<Vec<u8>, CompileError> {
    // The compiler panics if its threads cannot be started.
    if rayon::ThreadPoolBuilder::new().build_global().is_err() {
        return Err(CompileError::Budget(out_of_memory(bounds.memory_bytes)));
    }
    let engine = compiling_engine().map_err(|error| CompileError::Failed(error.to_string()))?;
    compile_here(&engine, component)
}

/// Sets the limits of this process, which it cannot raise again.
fn bound(bounds: WorkerBounds) -> io::Result<()> {
    // The parent may be killed; then no other process would end this one.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    rustix::process::nice(NICENESS)?;
    for (resource, most, grace) in [
        (Resource::Core, 0, 0),
        (Resource::Fsize, 0, 0),
        (Resource::Nofile, FILES_MAX, 0),
        (Resource::As, bounds.memory_bytes, 0),
        // SIGXCPU at the soft limit, SIGKILL at the hard limit.
        (Resource::Cpu, bounds.processor_s, 2),
    ] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most.saturating_add(grace)) })?;
    }
    Ok(())
}

fn read() -> io::Result<Vec<u8>> {
    let bytes = read_at_most(io::stdin().lock(), PACKAGE_BYTES_MAX)?;
    if bytes.len() > PACKAGE_BYTES_MAX {
        return Err(io::Error::other("the input exceeds the size limit of a plugin"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use super::*;

    /// A compiler whose child is a script.
    fn scripted(script: &str, bounds: CompileBounds) -> (tempfile::TempDir, ChildCompiler) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        (folder, ChildCompiler::new(program, bounds))
    }

    fn outcome(script: &str) -> Result<Vec<u8>, CompileError> {
        scripted(script, CompileBounds::default()).1.compile(b"component")
    }

    fn budget(reason: &str) -> Result<Vec<u8>, CompileError> {
        Err(CompileError::Budget(reason.to_owned()))
    }

    #[test]
    fn the_child_gets_component_and_limits_and_no_environment() {
        let code = outcome(
            "/bin/cat; echo; echo \"$@\"; pwd; /usr/bin/env | /bin/grep -v -E '^(_|PWD|SHLVL|OLDPWD|RAYON_NUM_THREADS)='; echo over; exit 0",
        );
        let message = String::from_utf8(code.unwrap_or_else(|error| error.to_string().into_bytes())).unwrap();
        assert_eq!(message, "component\ncompile-plugin 1073741824 20\n/\nMIMALLOC_ARENA_RESERVE=0\nover\n");
    }

    #[test]
    fn each_exit_status_has_its_reason() {
        assert_eq!(outcome("/bin/cat > /dev/null; printf code"), Ok(b"code".to_vec()));
        assert_eq!(outcome("/bin/cat > /dev/null; printf why; exit 3"), budget("why"));
        assert_eq!(outcome("exit 101"), Err(CompileError::Budget("the compiler panicked".to_owned())));
        for (signal, word) in [("XCPU", "20 s of processor time"), ("ABRT", "1024 MiB"), ("SEGV", "stack")] {
            let error = outcome(&format!("kill -{signal} $$")).unwrap_err();
            assert!(matches!(&error, CompileError::Budget(reason) if reason.contains(word)), "{signal}: {error}");
        }
        for script in ["/bin/cat > /dev/null; printf why; exit 4", "exit 5", "kill -TERM $$"] {
            let error = outcome(script).unwrap_err();
            assert!(matches!(error, CompileError::Failed(_)), "{script}: {error}");
        }
    }

    #[test]
    fn a_child_that_reads_nothing_and_never_ends_is_killed_by_the_clock() {
        let bounds = CompileBounds { wall: Duration::from_millis(50), ..CompileBounds::default() };
        let (_folder, compiler) = scripted("exec /bin/sleep 1000", bounds);
        // More than the pipe buffer, so that writing blocks too.
        let error = compiler.compile(&vec![0; 1 << 20]).unwrap_err();
        assert!(matches!(&error, CompileError::Failed(reason) if reason.contains("within 0 s")), "{error}");
    }

    #[test]
    fn a_killed_child_has_ended_when_its_error_is_returned() {
        let folder = tempfile::tempdir().unwrap();
        let id = folder.path().join("id");
        let script = format!("echo $$ > {}; exec /bin/sleep 1000", id.display());
        // A time that is long enough for a shell to print its process id; nothing else depends on it.
        let printed = (0..6).find_map(|round| {
            let wall = Duration::from_millis(500_u64 << round);
            let (_program, compiler) = scripted(&script, CompileBounds { wall, ..CompileBounds::default() });
            assert!(matches!(compiler.compile(b"component"), Err(CompileError::Failed(_))));
            fs::read_to_string(&id).ok()?.trim().parse::<i32>().ok()
        });
        let id = printed.unwrap();
        // Not even a zombie: its process id is free.
        let gone = rustix::process::test_kill_process(rustix::process::Pid::from_raw(id).unwrap());
        assert_eq!(gone, Err(rustix::io::Errno::SRCH));
    }

    #[test]
    fn machine_code_is_read_up_to_its_limit() {
        for (most, is_whole) in [(5, true), (4, true), (3, false)] {
            let bounds = CompileBounds { code_bytes: most, ..CompileBounds::default() };
            let (_folder, compiler) = scripted("/bin/cat > /dev/null; printf code", bounds);
            let outcome = compiler.compile(b"component");
            if is_whole {
                assert_eq!(outcome, Ok(b"code".to_vec()), "{most}");
            } else {
                assert_eq!(outcome, budget("its machine code has more than 3 bytes"));
            }
        }
        let (_folder, compiler) = scripted("exec /usr/bin/yes", CompileBounds::default());
        assert!(matches!(compiler.compile(b"component"), Err(CompileError::Budget(_))), "endless output is cut off");
    }

    #[test]
    fn a_missing_program_is_not_a_fault_of_the_plugin() {
        let compiler = ChildCompiler::new(PathBuf::from("/nowhere/daftar"), CompileBounds::default());
        let error = compiler.compile(b"component").unwrap_err();
        assert!(matches!(&error, CompileError::Failed(reason) if reason.contains("/nowhere/daftar")), "{error}");
    }

    #[test]
    fn stopping_kills_the_running_child_and_starts_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        rustix::fs::mkfifoat(rustix::fs::CWD, &started, rustix::fs::Mode::from_bits_truncate(0o600)).unwrap();
        let script = format!("echo > {}; exec /bin/sleep 1000", started.display());
        let (_program, compiler) = scripted(&script, CompileBounds::default());
        let compiler = Arc::new(compiler);
        let compiling = std::thread::spawn({
            let compiler = compiler.clone();
            move || compiler.compile(b"component")
        });
        // The child opens the other end of the pipe.
        fs::read(&started).unwrap();
        compiler.stop();
        assert_eq!(compiling.join().unwrap(), Err(stopped()));
        assert_eq!(compiler.compile(b"component"), Err(stopped()));
    }
}

//! Components that exhaust the compiler: rejected at `compile_budget`, while the server continues.

use std::fs;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use daftar::app::{CompileIn, WorkerBounds};
use daftar::plugin::{CompileBounds, Inspection, InstallStep, TrustPolicy};
use daftar_tests::process::{Finished, run};
use daftar_tests::{Server, artifacts};
use wasm_encoder::{
    BlockType, CodeSection, Component, Function, FunctionSection, Instruction, Module, ModuleSection, TypeSection,
    ValType,
};

/// A module with a function in which every one of `count` variables changes in every one of `count` loops around each
/// other: a compiler that keeps values apart needs their product. Its code has about 10 bytes for each of `count`.
fn bomb(count: u32) -> Module {
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32], []);
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut function = Function::new([(count, ValType::I32)]);
    for _ in 0..count {
        function.instruction(&Instruction::Loop(BlockType::Empty));
    }
    for local in 1..=count {
        function.instruction(&Instruction::LocalGet(local - 1));
        function.instruction(&Instruction::LocalGet(local));
        function.instruction(&Instruction::I32Add);
        function.instruction(&Instruction::LocalSet(local));
    }
    for depth in 0..count {
        function.instruction(&Instruction::LocalGet(depth));
        function.instruction(&Instruction::BrIf(0));
        function.instruction(&Instruction::End);
    }
    function.instruction(&Instruction::End);
    let mut code = CodeSection::new();
    code.function(&function);
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&code);
    module
}

/// A valid pack with the bomb next to its own code, which is never called.
fn pack_with_bomb(count: u32) -> Vec<u8> {
    let mut bytes = fs::read(artifacts::fixture("count-lie")).unwrap();
    let mut appended = Component::new();
    let empty = appended.as_slice().len();
    appended.section(&ModuleSection(&bomb(count)));
    bytes.extend_from_slice(&appended.as_slice()[empty..]);
    bytes
}

fn inspect(count: u32, worker: WorkerBounds) -> Inspection {
    inspect_bytes(pack_with_bomb(count), worker)
}

fn inspect_bytes(bytes: Vec<u8>, worker: WorkerBounds) -> Inspection {
    // The test is about memory and processor time: other tests may use the processors at the same time.
    let bounds = CompileBounds { worker, wall: Duration::from_secs(300), ..CompileBounds::default() };
    let compile_in = CompileIn::Child { program: artifacts::program(), bounds };
    Inspection::of(bytes, None, &TrustPolicy::default(), &compile_in).unwrap()
}

#[test]
fn a_child_with_too_little_memory_or_time_refuses_and_with_enough_does_not() {
    let usual = CompileBounds::default().worker;
    let whole = inspect(10, usual);
    assert!(whole.compiled_bytes.is_some_and(|bytes| bytes > 0) && whole.refusal.is_none(), "{whole:?}");
    let little = WorkerBounds { memory_bytes: 96 << 20, ..usual };
    let refused = inspect(3_000, little).refusal.unwrap();
    assert_eq!(refused.step, InstallStep::CompileBudget, "{refused}");
    assert!(refused.reason.contains("96 MiB"), "{refused}");
    let short = WorkerBounds { memory_bytes: 8 << 30, processor_s: 1 };
    let refused = inspect(4_000, short).refusal.unwrap();
    assert_eq!(refused.step, InstallStep::CompileBudget, "{refused}");
    assert!(refused.reason.contains("1 s of processor time"), "{refused}");
}

#[test]
fn the_compile_memory_limit_applies_to_plugins() {
    let engine = || fs::read(artifacts::plugin("eligibility-cel")).unwrap();
    let usual = CompileBounds::default().worker;
    // The engine requires some 250 MiB: the memory reserved by the compiling process itself must not be available to
    // it.
    let refused = inspect_bytes(engine(), WorkerBounds { memory_bytes: 96 << 20, ..usual }).refusal.unwrap();
    assert_eq!(refused.step, InstallStep::CompileBudget, "{refused}");
    assert!(refused.reason.contains("96 MiB"), "{refused}");
    // Half of the usual limit is enough, for the engine and for the stack.
    let whole = inspect_bytes(engine(), WorkerBounds { memory_bytes: usual.memory_bytes / 2, ..usual });
    assert!(whole.compiled_bytes.is_some() && whole.refusal.is_none(), "{whole:?}");
}

/// Starts installing a bomb of that size on the server of `data` in that folder.
fn install_bomb(folder: &Path, count: u32) -> JoinHandle<Finished> {
    let (file, data_dir) = (folder.join("bomb.wasm"), folder.join("data"));
    fs::write(&file, pack_with_bomb(count)).unwrap();
    let install = move || run(&data_dir, &["plugin", "install", file.to_str().unwrap(), "--allow-unsigned"]);
    std::thread::spawn(install)
}

/// A process in which a plugin is compiled.
struct CompilingProcess(u32);

impl CompilingProcess {
    /// The one started by a server, as soon as it exists.
    fn of(server: &Server, installing: &JoinHandle<Finished>) -> Self {
        let parent = server.id().as_raw_nonzero().get().to_string();
        while !installing.is_finished() {
            let ids =
                fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
            for process in ids.map(Self) {
                let is_compiling = process.read("cmdline").is_some_and(|line| line.contains("\0compile-plugin\0"));
                if is_compiling && process.field(1).is_some_and(|of| of == parent) {
                    return process;
                }
            }
        }
        panic!("nothing is compiled");
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read(format!("/proc/{}/{file}", self.0)).ok().map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    /// A field of `/proc/<id>/stat`, counted from the state.
    fn field(&self, index: usize) -> Option<String> {
        let stat = self.read("stat")?;
        stat.rsplit_once(") ")?.1.split(' ').nth(index).map(str::to_owned)
    }

    /// True if it has ended, even if its exit status was not read.
    fn has_ended(&self) -> bool {
        self.field(0).is_none_or(|state| ["Z", "X"].contains(&state.as_str()))
    }

    /// The processor time that it used, in seconds, rounded down; as long as it lives.
    fn processor_s(&self) -> Option<u64> {
        let ticks = |index| self.field(index).and_then(|field| field.parse::<u64>().ok());
        Some((ticks(11)? + ticks(12)?) / rustix::param::clock_ticks_per_second())
    }
}

#[test]
fn a_stopped_server_ends_the_compilation_and_logs_it() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let server = Server::serve(&data_dir, &[]);
    let installing = install_bomb(folder.path(), 12_000);
    let process = CompilingProcess::of(&server, &installing);
    drop(server.stop().expect_success());
    assert!(process.has_ended());
    let refused = installing.join().unwrap();
    assert_eq!(refused.code, 1, "{refused:?}");
    let server = Server::serve(&data_dir, &[]);
    let list = run(&data_dir, &["plugin", "list", "--json"]).expect_success().json();
    assert!(list["data"].as_array().unwrap().iter().all(|plugin| plugin["name"] != "count-lie"), "{list}");
    drop(server.stop().expect_success());
}

#[test]
fn a_server_that_is_killed_leaves_no_compilation_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::serve(&folder.path().join("data"), &[]);
    let installing = install_bomb(folder.path(), 12_000);
    let process = CompilingProcess::of(&server, &installing);
    server.kill();
    let mut taken = 0;
    while !process.has_ended() {
        taken = process.processor_s().unwrap_or(taken);
    }
    // It did not continue to the end of its own limits.
    assert!(taken < CompileBounds::default().worker.processor_s / 2, "{taken} s");
    let refused = installing.join().unwrap();
    assert!(refused.code == 69 && refused.stderr.contains("cannot reach the server"), "{refused:?}");
}

#[test]
fn a_bomb_is_rejected_by_a_server_that_serves_during_and_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let config = folder.path().join("daftar.toml");
    fs::write(&config, "[plugins]\nallow_unsigned = true\ncompile_memory_mib = 96\n").unwrap();
    let server = Server::serve(&data_dir, &["--config", config.to_str().unwrap()]);
    let installing = install_bomb(folder.path(), 3_000);
    let mut answered = 0;
    while !installing.is_finished() {
        assert_eq!(server.connection().request("GET", "/health/ready").send().status, 200);
        answered += 1;
        // Leaves the processors to the compilation.
        std::thread::sleep(Duration::from_millis(50));
    }
    let refused = installing.join().unwrap();
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("was rejected at step `compile_budget`"), "{refused:?}");
    assert!(answered > 0);
    assert_eq!(server.connection().request("GET", "/health/ready").send().status, 200);
    let list = run(&data_dir, &["plugin", "list", "--json"]).expect_success().json();
    assert_eq!(list["unloaded"].as_array().map(Vec::len), Some(0), "{list}");
    drop(server.stop().expect_success());
}

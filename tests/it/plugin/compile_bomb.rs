//! Components made to blow up the compiler: refused at `compile_budget`, while the server serves on.

use std::fs;
use std::time::Duration;

use daftar::app::{CompileIn, WorkerBounds};
use daftar::plugin::{CompileBounds, Inspection, InstallStep, TrustPolicy};
use daftar_tests::process::run;
use daftar_tests::{Server, artifacts};
use wasm_encoder::{
    BlockType, CodeSection, Component, Function, FunctionSection, Instruction, Module, ModuleSection, TypeSection,
    ValType,
};

/// A module with a function in which every one of `count` variables changes in every one of `count` loops around each other: a
/// compiler that keeps values apart needs their product. Its code has about 10 bytes for each of `count`.
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

/// A sound pack with the bomb beside its own code, which nobody would ever call.
fn pack_with_bomb(count: u32) -> Vec<u8> {
    let mut bytes = fs::read(artifacts::fixture("count-lie")).unwrap();
    let mut appended = Component::new();
    let empty = appended.as_slice().len();
    appended.section(&ModuleSection(&bomb(count)));
    bytes.extend_from_slice(&appended.as_slice()[empty..]);
    bytes
}

fn inspect(count: u32, worker: WorkerBounds) -> Result<Inspection, daftar::plugin::InstallError> {
    let bounds = CompileBounds { worker, wall: Duration::from_secs(60), ..CompileBounds::default() };
    let compile_in = CompileIn::Child { program: artifacts::program(), bounds };
    Inspection::of(pack_with_bomb(count), None, &TrustPolicy::default(), &compile_in)
}

#[test]
fn a_child_with_too_little_memory_or_time_refuses_and_with_enough_does_not() {
    let usual = CompileBounds::default().worker;
    let whole = inspect(10, usual).unwrap();
    assert!(whole.compiled_bytes > 0);
    let little = WorkerBounds { memory_bytes: 96 << 20, ..usual };
    let refused = inspect(3_000, little).unwrap_err();
    assert_eq!(refused.step, InstallStep::CompileBudget, "{refused}");
    assert!(refused.reason.contains("96 MiB"), "{refused}");
    let short = WorkerBounds { memory_bytes: 8 << 30, processor_s: 1 };
    let refused = inspect(4_000, short).unwrap_err();
    assert_eq!(refused.step, InstallStep::CompileBudget, "{refused}");
    assert!(refused.reason.contains("1 s of processor time"), "{refused}");
}

#[test]
fn a_bomb_is_refused_by_a_server_that_answers_meanwhile_and_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let server = Server::serve(&data_dir, &[]);
    let file = folder.path().join("bomb.wasm");
    fs::write(&file, pack_with_bomb(12_000)).unwrap();
    let (path, folder_of_it) = (file.to_str().unwrap().to_owned(), data_dir.clone());
    let installing = std::thread::spawn(move || run(&folder_of_it, &["plugin", "install", &path, "--allow-unsigned"]));
    let mut answered = 0;
    while !installing.is_finished() {
        assert_eq!(server.connection().request("GET", "/health/ready").send().status, 200);
        answered += 1;
    }
    let refused = installing.join().unwrap();
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("was refused at step `compile_budget`"), "{refused:?}");
    assert!(answered > 0);
    assert_eq!(server.connection().request("GET", "/health/ready").send().status, 200);
    let list = run(&data_dir, &["plugin", "list", "--json"]).expect_success().json();
    assert_eq!(list["unloaded"].as_array().map(Vec::len), Some(0), "{list}");
    drop(server.stop().expect_success());
}

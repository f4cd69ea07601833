//! Gives a core module another initial memory: runs it once, lets it prepare, and takes the memory as it then is.
//!
//! For a pack it makes room and the codes are written there; any other module may export a function that prepares what each
//! instance would otherwise build anew.
//!
//! **Invariant:** the module runs without anything to call, with bounded fuel and memory: it may come from any file.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wasmtime::{Config, Engine, Instance, Linker, Module, Store, StoreLimits, StoreLimitsBuilder, Val};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

use super::build::PackBuildError;
use super::limits::BLOB_BYTES_MAX;

/// The function that makes room: `(length) -> address`. The documentation of `plugins/codelist` describes it.
const RESERVE_EXPORT: &str = "daftar-codelist-reserve";

/// The function that prepares a module: no arguments, no result. It may not call anything.
pub const INITIALISE_EXPORT: &str = "daftar-initialise";

/// Making room is one allocation; filling it with zeros is charged by size on some engines. Preparing takes far less.
const FUEL: u64 = 10_000_000_000;

/// Memory of the module while it prepares: the blob, twice over if its allocator doubles, and what the module needs itself.
const MEMORY_BYTES_MAX: usize = 2 * BLOB_BYTES_MAX + (32 << 20);

/// The module with the blob in its initial memory.
///
/// # Errors
/// The module is no sound pack module: it does not validate, imports something, or cannot make room.
pub fn with_blob(module: &[u8], blob: &[u8]) -> Result<Vec<u8>, PackBuildError> {
    if let Some(import) = imports(module)?.first() {
        return Err(PackBuildError::BaseModule(import.clone()));
    }
    prepared(module, RESERVE_EXPORT, |store, instance| write_blob(store, instance, blob))
}

/// The module as its function [`INITIALISE_EXPORT`] leaves it; none where it has no such function.
///
/// # Errors
/// The module does not validate, or the function traps, exhausts its fuel, or calls an import.
pub fn initialised(module: &[u8]) -> Result<Option<Vec<u8>>, PackBuildError> {
    let parsed = wasmparser::Parser::new(0).parse_all(module);
    let mut has_function = false;
    for payload in parsed {
        let payload = payload.map_err(|error| PackBuildError::BaseModule(error.to_string()))?;
        if let wasmparser::Payload::ExportSection(exports) = payload {
            has_function |=
                exports.into_iter().any(|export| export.is_ok_and(|export| export.name == INITIALISE_EXPORT));
        }
    }
    if !has_function {
        return Ok(None);
    }
    let initialise = |store: &mut Store<StoreLimits>, instance: &Instance| {
        let function = instance.get_typed_func::<(), ()>(&mut *store, INITIALISE_EXPORT).map_err(refused)?;
        function.call(&mut *store, ()).map_err(refused)
    };
    prepared(module, INITIALISE_EXPORT, initialise).map(Some)
}

fn refused(error: wasmtime::Error) -> PackBuildError {
    PackBuildError::BaseModule(format!("{error:#}"))
}

/// What a module imports, each told in a few words.
fn imports(module: &[u8]) -> Result<Vec<String>, PackBuildError> {
    let engine = Engine::default();
    let module = Module::validate(&engine, module).and_then(|()| Module::new(&engine, module)).map_err(refused)?;
    Ok(module.imports().map(|import| format!("it imports `{}` of `{}`", import.name(), import.module())).collect())
}

/// The module as it is after `prepare`; its export `function` goes, having done its work.
fn prepared(
    module: &[u8],
    function: &str,
    prepare: impl FnOnce(&mut Store<StoreLimits>, &Instance) -> Result<(), PackBuildError>,
) -> Result<Vec<u8>, PackBuildError> {
    let mut wizer = Wizer::new();
    wizer.init_func(function);
    let (context, instrumented) = wizer.instrument(module).map_err(refused)?;

    let mut config = Config::new();
    config.consume_fuel(true);
    let engine = Engine::new(&config).map_err(refused)?;
    let limits = StoreLimitsBuilder::new()
        .memory_size(MEMORY_BYTES_MAX)
        .memories(1)
        .instances(1)
        .trap_on_grow_failure(true)
        .build();
    let mut store = Store::new(&engine, limits);
    store.limiter(|limits| limits);
    store.set_fuel(FUEL).map_err(refused)?;
    let module = Module::new(&engine, &instrumented).map_err(refused)?;
    let mut linker = Linker::new(&engine);
    linker.define_unknown_imports_as_traps(&module).map_err(refused)?;
    let instance = linker.instantiate(&mut store, &module).map_err(refused)?;
    prepare(&mut store, &instance)?;

    let mut state = InstanceView { store: &mut store, instance, missing: None };
    let snapshot = finish(wizer.snapshot(&context, &mut state)).map_err(refused)?;
    match state.missing {
        Some(name) => Err(PackBuildError::BaseModule(format!("its state `{name}` cannot be read"))),
        None => Ok(snapshot),
    }
}

fn write_blob(store: &mut Store<StoreLimits>, instance: &Instance, blob: &[u8]) -> Result<(), PackBuildError> {
    let without = |what: &str| PackBuildError::BaseModule(format!("it has no {what}, so no codes can be put into it"));
    let reserve = instance
        .get_typed_func::<u32, u32>(&mut *store, RESERVE_EXPORT)
        .map_err(|_| without("function `daftar-codelist-reserve`"))?;
    let memory = instance.get_memory(&mut *store, "memory").ok_or_else(|| without("exported memory"))?;
    let length = u32::try_from(blob.len()).map_err(|_| PackBuildError::TooLarge { bytes: blob.len() })?;
    let address = reserve.call(&mut *store, length).map_err(refused)?;
    let is_written = usize::try_from(address).is_ok_and(|address| memory.write(&mut *store, address, blob).is_ok());
    if is_written { Ok(()) } else { Err(PackBuildError::BaseModule("it made no room for the codes".to_owned())) }
}

/// Lets the snapshot read the instance. What it asks for is there by construction: it was told the names by itself.
struct InstanceView<'a> {
    store: &'a mut Store<StoreLimits>,
    instance: Instance,
    missing: Option<String>,
}

impl InstanceState for InstanceView<'_> {
    fn global_get(&mut self, name: &str, _type: ValType) -> impl Future<Output = SnapshotVal> + Send {
        let global = self.instance.get_global(&mut *self.store, name);
        let value = match global.map(|global| global.get(&mut *self.store)) {
            Some(Val::I32(value)) => SnapshotVal::I32(value),
            Some(Val::I64(value)) => SnapshotVal::I64(value),
            Some(Val::F32(value)) => SnapshotVal::F32(value),
            Some(Val::F64(value)) => SnapshotVal::F64(value),
            Some(Val::V128(value)) => SnapshotVal::V128(value.as_u128()),
            _ => {
                self.missing = Some(name.to_owned());
                SnapshotVal::I32(0)
            }
        };
        std::future::ready(value)
    }

    fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) -> impl Future<Output = ()> + Send {
        match self.instance.get_memory(&mut *self.store, name) {
            Some(memory) => contents(memory.data(&*self.store)),
            None => {
                self.missing = Some(name.to_owned());
                contents(&[]);
            }
        }
        std::future::ready(())
    }
}

/// Runs a future that waits for nothing: everything that the snapshot awaits is ready at once.
fn finish<T>(future: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(wasmtime::Error::msg("the snapshot waits for something")),
    }
}

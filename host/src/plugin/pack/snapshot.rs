//! Puts the blob into a core module's initial memory: runs the module once, lets it make room, writes the blob there, and
//! takes the memory as it then is.
//!
//! **Invariant:** the module runs without imports, with bounded fuel and memory: `--base` may name any file.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wasmtime::{Config, Engine, Instance, Module, Store, StoreLimits, StoreLimitsBuilder, Val};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

use super::build::PackBuildError;
use super::limits::BLOB_BYTES_MAX;

/// The function that makes room: `(length) -> address`. The documentation of `plugins/codelist` describes it.
const RESERVE_EXPORT: &str = "daftar-codelist-reserve";

/// Making room is one allocation; filling it with zeros is charged by size on some engines.
const RESERVE_FUEL: u64 = 10_000_000_000;

/// Memory of the module while it makes room: the blob, twice over if its allocator doubles, and what the module needs itself.
const MEMORY_BYTES_MAX: usize = 2 * BLOB_BYTES_MAX + (32 << 20);

/// The module with the blob in its initial memory.
///
/// # Errors
/// The module is no sound pack module: it does not validate, imports something, or cannot make room.
pub fn with_blob(module: &[u8], blob: &[u8]) -> Result<Vec<u8>, PackBuildError> {
    let refused = |error: wasmtime::Error| PackBuildError::BaseModule(format!("{error:#}"));
    let mut wizer = Wizer::new();
    // The export goes once it has done its work.
    wizer.init_func(RESERVE_EXPORT);
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
    store.set_fuel(RESERVE_FUEL).map_err(refused)?;
    let module = Module::new(&engine, &instrumented).map_err(refused)?;
    if let Some(import) = module.imports().next() {
        let name = format!("it imports `{}` of `{}`", import.name(), import.module());
        return Err(PackBuildError::BaseModule(name));
    }
    let instance = Instance::new(&mut store, &module, &[]).map_err(refused)?;
    write_blob(&mut store, &instance, blob)?;

    let mut state = InstanceView { store: &mut store, instance, missing: None };
    let snapshot = finish(wizer.snapshot(&context, &mut state)).map_err(refused)?;
    match state.missing {
        Some(name) => Err(PackBuildError::BaseModule(format!("its state `{name}` cannot be read"))),
        None => Ok(snapshot),
    }
}

fn write_blob(store: &mut Store<StoreLimits>, instance: &Instance, blob: &[u8]) -> Result<(), PackBuildError> {
    let refused = |error: wasmtime::Error| PackBuildError::BaseModule(format!("{error:#}"));
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

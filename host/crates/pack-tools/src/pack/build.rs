//! Builds a component from a checked source: blob, memory snapshot, wrapping, manifest.
//!
//! The snapshot replaces the initial memory of a core module: it runs the module once and records the resulting memory.
//! A pack reserves space, into which the codes are written; any other module may export a function that precomputes
//! data which each instance would otherwise compute again.
//!
//! **Invariant:** the module runs without imports, with limited fuel and memory: it may come from any file.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wasmtime::{Config, Engine, Instance, Linker, Module, Store, StoreLimits, StoreLimitsBuilder, Val};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

use super::blob;
use super::source::PackSource;
use daftar_domain::manifest::{PluginManifest, WantedLimit};
use daftar_sandbox::section::{ManifestError, append_manifest};

/// The largest blob in a pack's memory, in bytes.
pub const BLOB_BYTES_MAX: usize = 128 * 1024 * 1024;

/// A larger blob does not fit into the default memory of plugins together with the module's own needs.
const COMFORTABLE_BLOB_BYTES: usize = 16 << 20;

/// The memory that a pack needs besides its codes: its data, its stack, and a page of concepts in a response.
const WORKING_MEMORY_BYTES: usize = 32 << 20;

/// The reason why a pack could not be built from a valid source.
#[derive(Debug, thiserror::Error)]
pub enum PackBuildError {
    /// The codes exceed the size limit of a pack.
    #[error("the codes take {bytes} bytes in memory; the limit is {BLOB_BYTES_MAX}")]
    TooLarge {
        /// Their size.
        bytes: usize,
    },
    /// The base module cannot store codes.
    #[error("the base module cannot be used: {0}")]
    BaseModule(String),
    /// The module could not be wrapped as a component.
    #[error("the pack cannot be wrapped as a component: {0}")]
    NotWrapped(String),
    /// The manifest could not be attached.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Builds a pack from a source and a core module that can store codes: [`CODELIST_MODULE`](super::CODELIST_MODULE), or
/// another one with the same protocol.
///
/// # Errors
/// See [`PackBuildError`].
pub fn build(source: &PackSource, base_core_module: &[u8]) -> Result<Vec<u8>, PackBuildError> {
    let blob = blob::write(source)?;
    let core = with_blob(base_core_module, &blob)?;
    let component = component(&core).map_err(PackBuildError::NotWrapped)?;
    let manifest = with_wanted_memory(source.manifest.clone(), blob.len());
    Ok(append_manifest(&component, &manifest)?)
}

/// Wraps a core module as a component.
///
/// # Errors
/// It does not match the plugin interface; the error names the difference.
pub fn component(core: &[u8]) -> Result<Vec<u8>, String> {
    let encoder = wit_component::ComponentEncoder::default().module(core);
    let encoded = encoder.and_then(|encoder| encoder.validate(true).encode());
    encoded.map_err(|error| format!("{error:#}"))
}

/// Requests the memory that a large pack requires.
fn with_wanted_memory(mut manifest: PluginManifest, blob_bytes: usize) -> PluginManifest {
    if blob_bytes > COMFORTABLE_BLOB_BYTES && manifest.limits.memory_bytes.is_none() {
        let reason = format!("its codes alone take {blob_bytes} bytes of its memory");
        let value = blob_bytes.saturating_add(WORKING_MEMORY_BYTES) as u64;
        manifest.limits.memory_bytes = Some(WantedLimit { value, reason });
    }
    manifest
}

/// The function that reserves space: `(length) -> address`. `plugins/codelist` documents it.
const RESERVE_EXPORT: &str = "daftar-codelist-reserve";

/// The function that prepares a module: no arguments, no result. It may not call imports.
pub const INITIALISE_EXPORT: &str = "daftar-initialise";

/// Reserving is one allocation; zeroing it is charged by size on some engines. Preparing takes far less.
const FUEL: u64 = 10_000_000_000;

/// The memory of the module while it prepares: the blob, twice if its allocator doubles, and its own needs.
const MEMORY_BYTES_MAX: usize = 2 * BLOB_BYTES_MAX + (32 << 20);

/// Stores the blob in the initial memory of the module.
///
/// # Errors
/// The module is invalid: it does not validate, has imports, or cannot reserve space.
pub fn with_blob(module: &[u8], blob: &[u8]) -> Result<Vec<u8>, PackBuildError> {
    let engine = Engine::default();
    Module::validate(&engine, module)?;
    if let Some(import) = Module::new(&engine, module)?.imports().next() {
        let reason = format!("it imports `{}` of `{}`", import.name(), import.module());
        return Err(PackBuildError::BaseModule(reason));
    }
    prepared(module, RESERVE_EXPORT, |store, instance| write_blob(store, instance, blob))
}

/// Runs the function [`INITIALISE_EXPORT`] of the module; returns none if it has no such function.
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
    let initialised = prepared(module, INITIALISE_EXPORT, |store, instance| {
        let function = instance.get_typed_func::<(), ()>(&mut *store, INITIALISE_EXPORT)?;
        Ok(function.call(&mut *store, ())?)
    })?;
    Ok(Some(initialised))
}

impl From<wasmtime::Error> for PackBuildError {
    fn from(error: wasmtime::Error) -> Self {
        Self::BaseModule(format!("{error:#}"))
    }
}

/// Records the state of the module after `prepare`, and removes its export `function`.
fn prepared(
    module: &[u8],
    function: &str,
    prepare: impl FnOnce(&mut Store<StoreLimits>, &Instance) -> Result<(), PackBuildError>,
) -> Result<Vec<u8>, PackBuildError> {
    let mut wizer = Wizer::new();
    wizer.init_func(function);
    let (context, instrumented) = wizer.instrument(module)?;

    let mut config = Config::new();
    config.consume_fuel(true);
    let engine = Engine::new(&config)?;
    let limits = StoreLimitsBuilder::new()
        .memory_size(MEMORY_BYTES_MAX)
        .memories(1)
        .instances(1)
        .trap_on_grow_failure(true)
        .build();
    let mut store = Store::new(&engine, limits);
    store.limiter(|limits| limits);
    store.set_fuel(FUEL)?;
    let module = Module::new(&engine, &instrumented)?;
    let mut linker = Linker::new(&engine);
    linker.define_unknown_imports_as_traps(&module)?;
    let instance = linker.instantiate(&mut store, &module)?;
    prepare(&mut store, &instance)?;

    let mut state = InstanceView { store: &mut store, instance, missing: None };
    let snapshot = finish(wizer.snapshot(&context, &mut state))?;
    match state.missing {
        Some(name) => Err(PackBuildError::BaseModule(format!("its state `{name}` cannot be read"))),
        None => Ok(snapshot),
    }
}

fn write_blob(store: &mut Store<StoreLimits>, instance: &Instance, blob: &[u8]) -> Result<(), PackBuildError> {
    let without = |what: &str| PackBuildError::BaseModule(format!("it has no {what}, so codes cannot be stored in it"));
    let reserve = instance
        .get_typed_func::<u32, u32>(&mut *store, RESERVE_EXPORT)
        .map_err(|_| without("function `daftar-codelist-reserve`"))?;
    let memory = instance.get_memory(&mut *store, "memory").ok_or_else(|| without("exported memory"))?;
    let length = u32::try_from(blob.len()).map_err(|_| PackBuildError::TooLarge { bytes: blob.len() })?;
    let address = reserve.call(&mut *store, length)?;
    let is_written = usize::try_from(address).is_ok_and(|address| memory.write(&mut *store, address, blob).is_ok());
    if is_written { Ok(()) } else { Err(PackBuildError::BaseModule("it reserved no space for the codes".to_owned())) }
}

/// Gives the snapshot access to the instance. All names it requests exist, because it provided them itself.
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

/// Runs a future that never waits: everything that the snapshot awaits is ready immediately.
fn finish<T>(future: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(wasmtime::Error::msg("the snapshot is not ready")),
    }
}

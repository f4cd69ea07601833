//! From a checked source to a component: blob, memory snapshot, wrapping, manifest.
//!
//! The snapshot gives a core module another initial memory: it runs the module once, lets it prepare, and takes the memory as it
//! then is. A pack reserves space and the codes are written there; any other module may export a function that prepares what each
//! instance would otherwise build again.
//!
//! **Invariant:** the module runs without anything to call, with bounded fuel and memory: it may come from any file.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wasmtime::{Config, Engine, Instance, Linker, Module, Store, StoreLimits, StoreLimitsBuilder, Val};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

use super::blob;
use super::source::PackSource;
use daftar_domain::manifest::{PluginManifest, WantedLimit};
use daftar_sandbox::section::{ManifestError, append_manifest};

/// Everything that is put into a pack's memory, in bytes.
pub const BLOB_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Codes beyond this size do not fit beside the module's own needs into the memory that plugins get by default.
const COMFORTABLE_BLOB_BYTES: usize = 16 << 20;

/// What a pack needs beside its codes: its code, its stack, and a page of concepts on the way out.
const WORKING_MEMORY_BYTES: usize = 32 << 20;

/// Why a sound source could not be made into a pack.
#[derive(Debug, thiserror::Error)]
pub enum PackBuildError {
    /// The codes take more room than a pack may have.
    #[error("the codes take {bytes} bytes in memory; at most {BLOB_BYTES_MAX} are possible")]
    TooLarge {
        /// The room they take.
        bytes: usize,
    },
    /// The module that should hold the codes is not fit for it.
    #[error("the base module cannot be used: {0}")]
    BaseModule(String),
    /// The module could not be wrapped as a component.
    #[error("the pack cannot be wrapped as a component: {0}")]
    NotWrapped(String),
    /// The manifest could not be attached.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Makes a pack of a source and a core module that can hold codes: [`CODELIST_MODULE`](super::CODELIST_MODULE), or another
/// that keeps to the same protocol.
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

/// A core module wrapped as a component.
///
/// # Errors
/// It does not keep to the plugin interface; says where.
pub fn component(core: &[u8]) -> Result<Vec<u8>, String> {
    let encoder = wit_component::ComponentEncoder::default().module(core);
    let encoded = encoder.and_then(|encoder| encoder.validate(true).encode());
    encoded.map_err(|error| format!("{error:#}"))
}

/// A large pack asks for the memory that it cannot do without.
fn with_wanted_memory(mut manifest: PluginManifest, blob_bytes: usize) -> PluginManifest {
    if blob_bytes > COMFORTABLE_BLOB_BYTES && manifest.limits.memory_bytes.is_none() {
        let reason = format!("its codes alone take {blob_bytes} bytes of its memory");
        let value = blob_bytes.saturating_add(WORKING_MEMORY_BYTES) as u64;
        manifest.limits.memory_bytes = Some(WantedLimit { value, reason });
    }
    manifest
}

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
    let engine = Engine::default();
    Module::validate(&engine, module)?;
    if let Some(import) = Module::new(&engine, module)?.imports().next() {
        let reason = format!("it imports `{}` of `{}`", import.name(), import.module());
        return Err(PackBuildError::BaseModule(reason));
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

/// The module as it is after `prepare`; its export `function` goes, having done its work.
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
    let without = |what: &str| PackBuildError::BaseModule(format!("it has no {what}, so no codes can be put into it"));
    let reserve = instance
        .get_typed_func::<u32, u32>(&mut *store, RESERVE_EXPORT)
        .map_err(|_| without("function `daftar-codelist-reserve`"))?;
    let memory = instance.get_memory(&mut *store, "memory").ok_or_else(|| without("exported memory"))?;
    let length = u32::try_from(blob.len()).map_err(|_| PackBuildError::TooLarge { bytes: blob.len() })?;
    let address = reserve.call(&mut *store, length)?;
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

//! From a component to machine code, and back from kept code.
//!
//! **Invariant:** machine code is loaded only if this process made it just now, or if the cache vouches for it.
//! **Invariant:** at most one component is compiled at a time, so that a burst of installs cannot exhaust memory.

mod cache;

use std::sync::{Mutex, PoisonError};

use wasmtime::Engine;
use wasmtime::component::Component;

pub(super) use cache::CodeCache;

use super::fault::excerpt;
use super::package::Package;

/// Machine code for one engine.
struct MachineCode(Vec<u8>);

/// Why there is no machine code.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct CompileError(String);

/// Held while a component is compiled.
static COMPILING: Mutex<()> = Mutex::new(());

/// The package compiled for that engine: from the cache where it has it, else compiled now and kept there.
///
/// # Errors
/// The component cannot be compiled.
pub(super) fn compiled(
    engine: &Engine,
    cache: Option<&CodeCache>,
    package: &Package,
) -> Result<Component, CompileError> {
    if let Some(code) = cache.and_then(|cache| cache.get(engine, package.digest())) {
        match load(engine, &MachineCode(code)) {
            Ok(component) => return Ok(component),
            Err(error) => tracing::warn!(
                plugin.name = %package.manifest().name, error = %error,
                "kept code of a plugin does not fit this engine, it is compiled again"
            ),
        }
    }
    let code = compile(engine, package.bytes())?;
    if let Some(cache) = cache {
        cache.put(engine, package.digest(), &code.0);
    }
    load(engine, &code)
}

/// Compiles a component: bytes in, bytes out. This is the seam for a child process, which will run this function under limits
/// of its own and hand back the bytes.
fn compile(engine: &Engine, component: &[u8]) -> Result<MachineCode, CompileError> {
    let _one_at_a_time = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    engine
        .precompile_component(component)
        .map(MachineCode)
        .map_err(|error| CompileError(excerpt(&error.root_cause().to_string())))
}

/// Makes a component of machine code.
fn load(engine: &Engine, code: &MachineCode) -> Result<Component, CompileError> {
    #[expect(
        unsafe_code,
        reason = "loading machine code runs it later with this process's rights. A `MachineCode` holds either the compiler's own \
                  output or bytes that the cache authenticated with the data folder's key."
    )]
    // SAFETY: see the reason above; wasmtime itself checks that version and configuration match this engine.
    let component = unsafe { Component::deserialize(engine, &code.0) };
    component.map_err(|error| CompileError(excerpt(&error.root_cause().to_string())))
}

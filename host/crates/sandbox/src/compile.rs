//! Compilation of components to machine code, and the cache of compiled code.
//!
//! **Invariant:** machine code is loaded only if this program's compiler has just produced it, or if the cache has
//! authenticated it.
//! **Invariant:** only the code of installed plugins is cached: a rejected plugin leaves no files behind.
//! **Invariant:** at most one component is compiled at a time, so that a burst of installs cannot exhaust memory.
//! **Invariant:** a server compiles in a child process with resource limits; only tests compile in their own process.

mod cache;
mod child;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use wasmtime::Engine;
use wasmtime::component::Component;

pub(super) use cache::CodeCache;
use child::ChildCompiler;
pub use child::{WorkerBounds, run_worker};

use super::fault::excerpt;
use super::install::{InstallError, InstallStep};
use super::package::{Digest, Package};

/// The process that compiles components.
#[derive(Debug, Clone, Default)]
pub enum CompileIn {
    /// A child process that runs this program with resource limits, as servers do.
    Child {
        /// The program `daftar`.
        program: PathBuf,
        /// The limits of a compilation.
        bounds: CompileBounds,
    },
    /// This process, without limits. For tests that lack the program, with guests that they built themselves.
    #[default]
    ThisProcess,
}

impl CompileIn {
    /// A child process that runs the current program with the default limits.
    #[must_use]
    pub fn this_program() -> Self {
        // On Linux this names the running program, even after an upgrade has replaced its file.
        let own = PathBuf::from("/proc/self/exe");
        let program = if own.exists() { own } else { std::env::current_exe().unwrap_or(own) };
        Self::Child { program, bounds: CompileBounds::default() }
    }
}

impl CompileIn {
    /// The same with other limits of a child process.
    #[must_use]
    pub fn with_bounds(self, bounds: CompileBounds) -> Self {
        match self {
            Self::Child { program, .. } => Self::Child { program, bounds },
            Self::ThisProcess => Self::ThisProcess,
        }
    }
}

pub use child::CompileBounds;

/// Machine code for one engine.
pub(super) struct MachineCode(Vec<u8>);

impl fmt::Debug for MachineCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MachineCode({} bytes)", self.0.len())
    }
}

/// A component ready for linking.
pub(super) struct Compiled {
    pub component: Component,
    /// The size of its machine code.
    pub code_bytes: usize,
}

/// The reason why a compilation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CompileError {
    /// The component exceeds the limits of a compilation, or those of the compiler.
    #[error("{0}")]
    Budget(String),
    /// This machine cannot compile now, regardless of the component.
    #[error("{0}")]
    Failed(String),
}

impl CompileError {
    /// The install error of that plugin.
    fn refusal(&self, package: &Package) -> InstallError {
        let step = match self {
            Self::Budget(_) => InstallStep::CompileBudget,
            Self::Failed(_) => InstallStep::Compile,
        };
        InstallError::of(&package.manifest.name, step, self)
    }
}

/// Compiles components, and caches their code.
pub(super) struct Compiler {
    /// The compiler in a child process; without one, this process compiles.
    child: Option<ChildCompiler>,
    cache: Option<CodeCache>,
    /// Held while a component is compiled.
    compiling: Mutex<()>,
}

impl Compiler {
    /// Creates a compiler, with an optional cache.
    pub fn new(place: CompileIn, cache: Option<CodeCache>) -> Self {
        let child = match place {
            CompileIn::Child { program, bounds } => Some(ChildCompiler::new(program, bounds)),
            CompileIn::ThisProcess => None,
        };
        Self { child, cache, compiling: Mutex::new(()) }
    }

    /// Returns the cached code of the plugin with that digest, if it is authentic and fits this engine. Its presence
    /// shows that this version of the program validated the plugin's file before it compiled it.
    pub fn cached(&self, engine: &Engine, digest: Digest) -> Option<Compiled> {
        let cache = self.cache.as_ref()?;
        let code = MachineCode(cache.get(engine, digest)?);
        match load(engine, &code) {
            Ok(compiled) => Some(compiled),
            Err(error) => {
                tracing::warn!(plugin.digest = %digest, error = %error, "cached plugin code does not fit this engine, recompiling");
                cache.forget(digest);
                None
            }
        }
    }

    /// Returns the package compiled for that engine, from the cache or compiled now; and its machine code if it is to
    /// be cached.
    ///
    /// # Errors
    /// An error at step `compile_budget` or `compile`.
    pub fn compiled(
        &self,
        engine: &Engine,
        package: &Package,
    ) -> Result<(Compiled, Option<MachineCode>), InstallError> {
        if let Some(compiled) = self.cached(engine, package.digest) {
            return Ok((compiled, None));
        }
        let code = self.compile(engine, package)?;
        let compiled = load(engine, &code).map_err(|error| error.refusal(package))?;
        Ok((compiled, self.cache.is_some().then_some(code)))
    }

    /// Caches the code of an installed plugin, if it is not cached yet.
    pub fn cache(&self, engine: &Engine, digest: Digest, code: Option<&MachineCode>) {
        if let (Some(cache), Some(code)) = (&self.cache, code) {
            cache.put(engine, digest, &code.0);
        }
    }

    /// Removes the cached code of all plugins except those with these digests, and files that an interrupted write
    /// left.
    pub fn retain(&self, digests: &BTreeSet<Digest>) {
        if let Some(cache) = &self.cache {
            cache.retain(digests);
        }
    }

    /// Returns the size of the machine code of a package; nothing is cached or loaded.
    ///
    /// # Errors
    /// An error at step `compile_budget` or `compile`.
    pub fn measure(&self, engine: &Engine, package: &Package) -> Result<usize, InstallError> {
        self.compile(engine, package).map(|code| code.0.len())
    }

    /// Removes the cached code of the plugin with that digest.
    pub fn forget(&self, digest: Digest) {
        if let Some(cache) = &self.cache {
            cache.forget(digest);
        }
    }

    /// Aborts a running compilation and starts no other.
    pub fn stop(&self) {
        if let Some(child) = &self.child {
            child.stop();
        }
    }

    fn compile(&self, engine: &Engine, package: &Package) -> Result<MachineCode, InstallError> {
        let _one_at_a_time = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        let code = match &self.child {
            Some(child) => child.compile(&package.bytes),
            None => compile_here(engine, &package.bytes),
        };
        code.map(MachineCode).map_err(|error| error.refusal(package))
    }
}

/// Compiles in this process.
fn compile_here(engine: &Engine, component: &[u8]) -> Result<Vec<u8>, CompileError> {
    // The component is valid at this point. An error means that it exceeds the limits of the compiler.
    engine
        .precompile_component(component)
        .map_err(|error| CompileError::Budget(format!("the compiler failed: {}", excerpt(&format!("{error:#}")))))
}

/// Loads a component from machine code.
fn load(engine: &Engine, code: &MachineCode) -> Result<Compiled, CompileError> {
    #[expect(
        unsafe_code,
        reason = "loading machine code runs it later with this process's rights. A `MachineCode` holds either our own compiler's \
                  output, of this process or of a child that runs the same program, or bytes that the cache authenticated with \
                  the data folder's key."
    )]
    // SAFETY: see the reason above; wasmtime itself checks that version and configuration match this engine.
    let component = unsafe { Component::deserialize(engine, &code.0) };
    let failed = |error: wasmtime::Error| {
        let reason = excerpt(&error.root_cause().to_string());
        CompileError::Failed(format!(
            "its machine code does not fit this program: {reason}; restart the server if the program was replaced"
        ))
    };
    component.map(|component| Compiled { component, code_bytes: code.0.len() }).map_err(failed)
}

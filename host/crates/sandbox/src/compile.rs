//! From a component to machine code, and back from kept code.
//!
//! **Invariant:** machine code is loaded only if our own compiler made it just now, or if the cache vouches for it.
//! **Invariant:** what is kept is code of installed plugins only: a plugin that is refused leaves nothing behind.
//! **Invariant:** at most one component is compiled at a time, so that a burst of installs cannot exhaust memory.
//! **Invariant:** what a server compiles it compiles in a child process under bounds; only tests compile in their own.

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

/// Where components are compiled.
#[derive(Debug, Clone, Default)]
pub enum CompileIn {
    /// In a child process that runs this program, under those bounds. What servers do.
    Child {
        /// The program `daftar`.
        program: PathBuf,
        /// What a compilation may take.
        bounds: CompileBounds,
    },
    /// In this process, without any bound. For tests without the program at hand, and guests that they made themselves.
    #[default]
    ThisProcess,
}

impl CompileIn {
    /// In a child that runs the very program that runs now, under the usual bounds.
    #[must_use]
    pub fn this_program() -> Self {
        // On Linux this names the program that runs, also after an upgrade has replaced its file.
        let own = PathBuf::from("/proc/self/exe");
        let program = if own.exists() { own } else { std::env::current_exe().unwrap_or(own) };
        Self::Child { program, bounds: CompileBounds::default() }
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

/// A component that can be linked.
pub(super) struct Compiled {
    pub component: Component,
    /// The size of its machine code.
    pub code_bytes: usize,
}

/// Why there is no machine code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CompileError {
    /// The component asks for more than a compilation may take, or than the compiler can do.
    #[error("{0}")]
    Budget(String),
    /// It cannot be compiled on this machine now, whatever the component.
    #[error("{0}")]
    Failed(String),
}

impl CompileError {
    /// The refusal of that plugin.
    fn refusal(&self, package: &Package) -> InstallError {
        let step = match self {
            Self::Budget(_) => InstallStep::CompileBudget,
            Self::Failed(_) => InstallStep::Compile,
        };
        InstallError::of(&package.manifest.name, step, self)
    }
}

/// Compiles, and keeps what it compiled.
pub(super) struct Compiler {
    /// Compiles in a child process; in this one where there is none.
    child: Option<ChildCompiler>,
    cache: Option<CodeCache>,
    /// Held while a component is compiled.
    compiling: Mutex<()>,
}

impl Compiler {
    /// Compiles there, and keeps code in the cache if there is one.
    pub fn new(place: CompileIn, cache: Option<CodeCache>) -> Self {
        let child = match place {
            CompileIn::Child { program, bounds } => Some(ChildCompiler::new(program, bounds)),
            CompileIn::ThisProcess => None,
        };
        Self { child, cache, compiling: Mutex::new(()) }
    }

    /// What the cache keeps of the plugin with that digest, if it is sound and fits this engine. That it is there says that
    /// this version of the program checked the plugin's file before it compiled it.
    pub fn kept(&self, engine: &Engine, digest: Digest) -> Option<Compiled> {
        let cache = self.cache.as_ref()?;
        let code = MachineCode(cache.get(engine, digest)?);
        match load(engine, &code) {
            Ok(compiled) => Some(compiled),
            Err(error) => {
                tracing::warn!(plugin.digest = %digest, error = %error, "kept code of a plugin does not fit this engine, it is compiled again");
                cache.forget(digest);
                None
            }
        }
    }

    /// The package compiled for that engine, from the cache where it has it, else compiled now; and its machine code where it is to be
    /// kept and is not yet.
    ///
    /// # Errors
    /// A refusal at `compile_budget` or `compile`.
    pub fn compiled(
        &self,
        engine: &Engine,
        package: &Package,
    ) -> Result<(Compiled, Option<MachineCode>), InstallError> {
        if let Some(compiled) = self.kept(engine, package.digest) {
            return Ok((compiled, None));
        }
        let code = self.compile(engine, package)?;
        let compiled = load(engine, &code).map_err(|error| error.refusal(package))?;
        Ok((compiled, self.cache.is_some().then_some(code)))
    }

    /// Keeps the code of an installed plugin, if it is not kept yet.
    pub fn keep(&self, engine: &Engine, digest: Digest, code: Option<&MachineCode>) {
        if let (Some(cache), Some(code)) = (&self.cache, code) {
            cache.put(engine, digest, &code.0);
        }
    }

    /// Forgets the code of all plugins but those with these digests, and what writes that never finished left behind.
    pub fn keep_only(&self, digests: &BTreeSet<Digest>) {
        if let Some(cache) = &self.cache {
            cache.keep_only(digests);
        }
    }

    /// How large the machine code of a package is; nothing is kept or loaded.
    ///
    /// # Errors
    /// A refusal at `compile_budget` or `compile`.
    pub fn measure(&self, engine: &Engine, package: &Package) -> Result<usize, InstallError> {
        self.compile(engine, package).map(|code| code.0.len())
    }

    /// Forgets the code of the plugin with that digest.
    pub fn forget(&self, digest: Digest) {
        if let Some(cache) = &self.cache {
            cache.forget(digest);
        }
    }

    /// Ends a compilation that is going on, and lets none begin.
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
    // What reaches the compiler is valid; what it refuses all the same is beyond what it can do.
    engine
        .precompile_component(component)
        .map_err(|error| CompileError::Budget(format!("the compiler cannot do it: {}", excerpt(&format!("{error:#}")))))
}

/// Makes a component of machine code.
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
        CompileError::Failed(format!("its machine code does not fit this program: {reason}; was the program replaced?"))
    };
    component.map(|component| Compiled { component, code_bytes: code.0.len() }).map_err(failed)
}

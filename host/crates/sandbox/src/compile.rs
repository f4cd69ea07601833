//! Compilation of components to machine code, and the cache of compiled code.
//!
//! **Invariant:** machine code is loaded only if this program's compiler has just produced it, or if the cache has
//! authenticated it.
//! **Invariant:** only the code of installed plugins is cached: a rejected plugin leaves no files behind.
//! **Invariant:** packs with the same code are compiled once, and share the machine code in memory and on disk
//! (`compile/split.rs`).
//! **Invariant:** at most one component is compiled at a time, so that a burst of installs cannot exhaust memory.
//! **Invariant:** a server compiles functions in a child process with resource limits; only tests compile in their own
//! process. A module with data and no functions is prepared in the own process.

mod cache;
mod child;
mod split;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use wasmtime::component::Component;
use wasmtime::{Engine, Module, ResourcesRequired};

pub(super) use cache::CodeCache;
use child::ChildCompiler;
pub use child::{WorkerBounds, run_worker};

use super::fault::excerpt;
use super::install::{InstallError, InstallStep};
use super::package::{Candidate, Digest, Package};
use daftar_domain::manifest::PluginKind;
pub(super) use split::DATA_IMPORT;
use split::{Split, split};

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
pub(super) struct MachineCode {
    /// The digest of the compiled component, by which the code is cached.
    digest: Digest,
    bytes: Vec<u8>,
}

impl fmt::Debug for MachineCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MachineCode({} bytes)", self.bytes.len())
    }
}

/// Machine code in memory, which several packs may share.
pub(super) struct Code {
    /// The digest of the compiled component.
    pub digest: Digest,
    pub component: Component,
    /// The size of the machine code.
    pub bytes: usize,
}

/// A plugin ready for linking.
pub(super) struct Compiled {
    pub code: Arc<Code>,
    /// The data of a divided pack, which its code imports.
    pub data: Option<Module>,
    /// The memories and tables of an instance, if known.
    pub required: Option<ResourcesRequired>,
}

/// The component to compile for a plugin: its file, or the code part of a divided pack.
enum Source<'p> {
    Whole(&'p Candidate),
    Divided(Split, Digest),
}

impl<'p> Source<'p> {
    fn of(plugin: &'p Candidate) -> Self {
        let divided = if plugin.manifest.kind == PluginKind::VocabularyPack { split(&plugin.bytes) } else { None };
        divided.map_or(Self::Whole(plugin), |split| {
            let digest = Digest::of(&split.code);
            Self::Divided(split, digest)
        })
    }

    fn component(&self) -> &[u8] {
        match self {
            Self::Whole(plugin) => &plugin.bytes,
            Self::Divided(split, _) => &split.code,
        }
    }

    fn digest(&self) -> Digest {
        match self {
            Self::Whole(plugin) => plugin.digest,
            Self::Divided(_, digest) => *digest,
        }
    }

    /// Completes the code with the data.
    fn completed(self, engine: &Engine, code: Arc<Code>) -> Result<Compiled, CompileError> {
        match self {
            Self::Whole(_) => Ok(Compiled { required: code.component.resources_required(), data: None, code }),
            Self::Divided(split, _) => {
                let data = Module::from_binary(engine, &split.data).map_err(compiler_failed)?;
                Ok(Compiled { code, data: Some(data), required: Some(split.required) })
            }
        }
    }
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

/// The digest by which the code of a plugin is cached.
pub(super) fn code_digest(plugin: &Candidate) -> Digest {
    Source::of(plugin).digest()
}

/// Compiles components, and caches their code.
pub(super) struct Compiler {
    /// The compiler in a child process; without one, this process compiles.
    child: Option<ChildCompiler>,
    cache: Option<CodeCache>,
    /// The code in memory, by the digest of the compiled component, while a plugin uses it.
    loaded: Mutex<BTreeMap<Digest, Weak<Code>>>,
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
        Self { child, cache, loaded: Mutex::default(), compiling: Mutex::new(()) }
    }

    /// Returns a plugin with its cached code, if the code is authentic, fits this engine and was compiled from the whole
    /// file: then its presence shows that this version of the program validated the file before.
    pub fn cached(&self, engine: &Engine, plugin: &Candidate) -> Option<Compiled> {
        let source = Source::of(plugin);
        if let Source::Divided(..) = source {
            return None;
        }
        let code = self.cached_code(engine, plugin.digest)?;
        source.completed(engine, code).ok()
    }

    /// Returns the code of a component from memory or from the cache.
    fn cached_code(&self, engine: &Engine, digest: Digest) -> Option<Arc<Code>> {
        if let Some(code) = self.loaded().get(&digest).and_then(Weak::upgrade) {
            return Some(code);
        }
        let cache = self.cache.as_ref()?;
        let code = MachineCode { digest, bytes: cache.get(engine, digest)? };
        match self.load(engine, &code) {
            Ok(code) => Some(code),
            Err(error) => {
                tracing::warn!(plugin.digest = %digest, error = %error, "cached plugin code does not fit this engine, recompiling");
                cache.forget(digest);
                None
            }
        }
    }

    fn loaded(&self) -> MutexGuard<'_, BTreeMap<Digest, Weak<Code>>> {
        // The content is valid even after a panic.
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads machine code, for all plugins that are compiled from the same component.
    fn load(&self, engine: &Engine, code: &MachineCode) -> Result<Arc<Code>, CompileError> {
        let code = Arc::new(load(engine, code)?);
        let mut loaded = self.loaded();
        loaded.retain(|_, code| code.strong_count() > 0);
        loaded.insert(code.digest, Arc::downgrade(&code));
        Ok(code)
    }

    /// Returns true if there is code of the plugin with that digest. Its content is not verified.
    pub fn is_cached(&self, engine: &Engine, digest: Digest) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.has(engine, digest))
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
        let refused = |error: CompileError| error.refusal(package);
        let source = Source::of(package);
        if let Some(code) = self.cached_code(engine, source.digest()) {
            return Ok((source.completed(engine, code).map_err(refused)?, None));
        }
        let one_at_a_time = self.exclusive();
        // Another pack with the same code may have been compiled in the meantime.
        if let Some(code) = self.cached_code(engine, source.digest()) {
            return Ok((source.completed(engine, code).map_err(refused)?, None));
        }
        let code = self.compile(engine, &source).map_err(refused)?;
        let loaded = self.load(engine, &code).map_err(refused)?;
        drop(one_at_a_time);
        Ok((source.completed(engine, loaded).map_err(refused)?, self.cache.is_some().then_some(code)))
    }

    /// Caches the code of an installed plugin, if it is not cached yet.
    pub fn cache(&self, engine: &Engine, code: Option<&MachineCode>) {
        if let (Some(cache), Some(code)) = (&self.cache, code) {
            cache.put(engine, code.digest, &code.bytes);
        }
    }

    /// Removes all cached code except that of components with these digests, and files that an interrupted write left.
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
        let _one_at_a_time = self.exclusive();
        self.compile(engine, &Source::of(package)).map(|code| code.bytes.len()).map_err(|error| error.refusal(package))
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

    /// Returns true if [`Self::stop`] was called: an error of a compilation does not concern the plugin then.
    pub fn is_stopped(&self) -> bool {
        self.child.as_ref().is_some_and(ChildCompiler::is_stopped)
    }

    fn exclusive(&self) -> MutexGuard<'_, ()> {
        self.compiling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compile(&self, engine: &Engine, source: &Source<'_>) -> Result<MachineCode, CompileError> {
        let bytes = match &self.child {
            Some(child) => child.compile(source.component()),
            None => compile_here(engine, source.component()),
        };
        Ok(MachineCode { digest: source.digest(), bytes: bytes? })
    }
}

/// Compiles in this process.
fn compile_here(engine: &Engine, component: &[u8]) -> Result<Vec<u8>, CompileError> {
    engine.precompile_component(component).map_err(compiler_failed)
}

/// The error of a valid component: it exceeds the limits of the compiler.
fn compiler_failed(error: wasmtime::Error) -> CompileError {
    CompileError::Budget(format!("the compiler failed: {}", excerpt(&format!("{error:#}"))))
}

/// Loads a component from machine code.
fn load(engine: &Engine, code: &MachineCode) -> Result<Code, CompileError> {
    #[expect(
        unsafe_code,
        reason = "loading machine code runs it later with this process's rights. A `MachineCode` holds either our own compiler's \
                  output, of this process or of a child that runs the same program, or bytes that the cache authenticated with \
                  the data folder's key."
    )]
    // SAFETY: see the reason above; wasmtime itself checks that version and configuration match this engine.
    let component = unsafe { Component::deserialize(engine, &code.bytes) };
    let failed = |error: wasmtime::Error| {
        let reason = excerpt(&error.root_cause().to_string());
        CompileError::Failed(format!(
            "its machine code does not fit this program: {reason}; restart the server if the program was replaced"
        ))
    };
    let loaded = |component| Code { digest: code.digest, component, bytes: code.bytes.len() };
    component.map(loaded).map_err(failed)
}

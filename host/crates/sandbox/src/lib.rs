//! The plugin sandbox: the part of the server that depends on WebAssembly.
//!
//! A plugin is a WebAssembly component in one file. [`PluginHost`] loads the files and runs the plugins on dedicated
//! threads; [`PluginLibrary`] manages the set of installed plugins. `host/docs/PLUGINS.md` describes the whole path.
//!
//! **Invariant:** only this crate and `daftar-pack-tools` depend on wasmtime; the other crates see domain types.
//! **Invariant:** a plugin can call only the functions that are linked for its kind: `log`.

/// Defines an enum whose cases have stable names, which appear in scripts, metrics and messages.
macro_rules! named {
    ($(#[$of:meta])* pub enum $kind:ident { $($(#[$about:meta])* $case:ident = $name:literal),+ $(,)? }) => {
        $(#[$of])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $kind { $($(#[$about])* $case),+ }

        impl $kind {
            /// All cases, in order.
            pub const ALL: &'static [Self] = &[$(Self::$case),+];

            /// The stable name of the case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$case => $name),+ }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }
    };
}

mod breaker;
mod compile;
mod engine;
mod fault;
mod files;
mod host;
mod inspect;
mod install;
mod kind;
mod library;
mod limits;
mod package;
mod pool;
mod sandbox;
pub mod section;
mod signature;
mod stats;
mod suspension;
mod wit;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use breaker::BreakerState;
pub use compile::{CompileBounds, CompileIn, WorkerBounds, run_worker};
pub use fault::{Blame, FaultKind, PluginFault};
pub use files::{FolderError, read_at_most};
pub use inspect::{FileState, InspectedPlugin, inspect_installed, supported_versions};
pub use inspect::{Inspection, SignatureState};
pub use install::{InstallError, InstallStep, LoadedPlugin};
pub use kind::eligibility_engine::idle::{IdleOfRule, IdleSessions};
pub use kind::eligibility_engine::rule::{
    EligibilityEngine, EngineError, RuleRequest, RuleSession, RuleTask, SecondRule, run_rule,
};
pub use kind::vocabulary_pack::contents::{CodeResolution, ResolveError};
pub use library::{
    Accept, ArchivedPlugins, Downgrade, InstalledPlugin, LibraryError, LibraryRefill, Loss, PluginLibrary, PluginList,
    PluginOffer, PluginSet, Prepared, RecordedPlugin, RefusedPlugin, SyncReport, SyncedFile, is_in_use,
};
pub use limits::PluginLimits;
pub use package::{Digest, PACKAGE_BYTES_MAX, Surface};
pub use pool::{PoolUsage, Priority};
pub use signature::{
    PinnedDigests, PluginSignature, PrivateKey, PrivateKeyError, SIGNATURE_BYTES_MAX, SIGNATURE_SUFFIX,
    SignatureProblem, Signer, TrustPolicy, UnsignedPlugins, read_signature_of,
};
pub use stats::{CallRecorder, HostClock};
pub use stats::{LastFault, PluginUsage, Usage};

use compile::{CodeCache, Compiler, MachineCode};
use daftar_domain::config::plugin_limits::PluginLimitsConfig;
use daftar_domain::manifest::{PluginManifest, PluginName};
use daftar_domain::vocabulary::PackContents;
use engine::SandboxEngine;
use package::{Candidate, Package, check_size, manifest_of};
use pool::{CallPool, Owner, PoolSize, THREADS_MIN};

/// The configuration of a plugin host.
#[derive(Clone, Default)]
pub struct PluginHostSettings {
    /// The number of guest threads: at least 3, at most 32. Default: the number of cores plus two, so that background
    /// work can use every core, and one client one thread more.
    pub threads: Option<usize>,
    /// The plugins whose limits differ from the defaults of their kind.
    pub limits: BTreeMap<PluginName, PluginLimitsConfig>,
    /// The folder that caches compiled code. Without one, plugins are compiled at each start.
    pub code_folder: Option<PathBuf>,
    /// The process that compiles components.
    pub compile_in: CompileIn,
    /// The trust policy of installs. The default trusts no signer.
    pub trust: TrustPolicy,
    /// The clock of logs and circuit breakers; the system clock by default.
    pub clock: Option<HostClock>,
    /// The recorder of call durations for the metrics; none by default.
    pub recorder: Option<CallRecorder>,
    /// True if an installed eligibility engine without cached code is not loaded when a library is opened, but by
    /// [`PluginLibrary::load_pending`], so that a server can serve records while it is compiled.
    pub compiles_engines_later: bool,
    /// True if the log has every line of a plugin: for its author, on a machine without a register. A server suppresses
    /// lines above a rate limit and lines that may contain data of a caller.
    pub shows_all_lines: bool,
}

/// The most requests that may wait for a thread. With more, responses would come after the clients have disconnected.
const WAITING_MAX: usize = 256;

/// The most background jobs that may wait: each is a whole install or preview.
const BACKGROUND_WAITING_MAX: usize = 32;

/// The reason why plugins cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum PluginHostError {
    /// The WebAssembly engine cannot be created.
    #[error(transparent)]
    Engine(#[from] engine::EngineError),
    /// The threads cannot be started.
    #[error("cannot start plugin threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// Loads and runs plugins.
pub struct PluginHost {
    settings: PluginHostSettings,
    engine: Arc<SandboxEngine>,
    compiler: Compiler,
    pool: CallPool,
}

impl PluginHost {
    /// Starts the engine and its threads.
    ///
    /// # Errors
    /// This machine cannot run plugins.
    pub fn start(settings: PluginHostSettings) -> Result<Self, PluginHostError> {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let size = PoolSize {
            // Each thread has one instance at a time, so the pool of instances always has a free slot for it.
            threads: settings.threads.unwrap_or(cores.saturating_add(2)).clamp(THREADS_MIN, engine::THREADS_MAX),
            interactive_waiting: WAITING_MAX,
            background_waiting: BACKGROUND_WAITING_MAX,
        };
        let cache = settings.code_folder.as_deref().and_then(|folder| match CodeCache::open(folder) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(error = %error, "plugin code cache is disabled, plugins are compiled at each start");
                None
            }
        });
        let compiler = Compiler::new(settings.compile_in.clone(), cache);
        Ok(Self { engine: Arc::new(SandboxEngine::new()?), pool: CallPool::start(size)?, compiler, settings })
    }

    /// Reads the contents of an installed pack, unvalidated. Blocks until a plugin thread is free: not for async code.
    ///
    /// # Errors
    /// An error at step `content`: it is not a pack, all threads are busy, or reading it failed.
    pub fn load_pack(&self, installed: &InstalledPlugin) -> Result<PackContents, InstallError> {
        let plugin = installed.loaded().clone();
        let name = plugin.manifest().name.clone();
        let engine = self.engine.clone();
        let read = move || match plugin.contents(&engine) {
            Ok(contents) => contents.ok_or_else(|| no_codes(&plugin)),
            Err(fault) => {
                // The call has no input of a caller.
                suspension::report_own_fault(&plugin, &fault);
                Err(InstallError::from_fault(InstallStep::Content, fault))
            }
        };
        let answer = self.pool.run(Priority::Background, &Owner::system(&name), read);
        answer.unwrap_or_else(|busy| Err(InstallError::of(&name, InstallStep::Content, busy)))
    }

    /// Rejects a file that was changed after a trusted key signed it, before anything of it is parsed: a changed file
    /// may have no manifest, and the error should name the cause.
    fn check_signature(&self, bytes: &[u8], signature: &str) -> Result<(), InstallError> {
        check_size(bytes.len())?;
        let digest = Digest::of(bytes);
        // The trust policy is checked once the plugin's name is known: a required signature, a trusted key.
        self.settings.trust.check_match(bytes, digest, signature).map_err(|problem| {
            let plugin = manifest_of(bytes).ok().map(|manifest| manifest.name);
            InstallError { plugin, ..InstallError::new(InstallStep::Signature, problem) }
        })
    }

    /// Reads the contents of a pack without installing it, for an operator that derives another pack from it. Blocks
    /// until a plugin thread is free: not for async code.
    ///
    /// # Errors
    /// An error at any step of an install before `store`.
    pub fn read_pack(&self, bytes: Vec<u8>) -> Result<(PluginManifest, PackContents), InstallError> {
        let (plugin, contents) = self.tried(bytes)?;
        let manifest = plugin.manifest().clone();
        contents.map(|contents| (manifest, contents)).ok_or_else(|| no_codes(&plugin))
    }

    /// Runs every step of an install except the last, and stores nothing. For a pack, also returns its contents, which
    /// are not validated. Blocks until the compiler and a plugin thread are free: not for async code.
    ///
    /// # Errors
    /// The error that an install would end with.
    pub fn dry_run(&self, bytes: Vec<u8>) -> Result<Option<PackContents>, InstallError> {
        Ok(self.tried(bytes)?.1)
    }

    fn tried(&self, bytes: Vec<u8>) -> Result<(Arc<LoadedPlugin>, Option<PackContents>), InstallError> {
        let plugin = Arc::new(self.load_new(&Candidate::read(bytes)?.check()?)?.0);
        let contents = self.try_out(&plugin)?;
        Ok((plugin, contents))
    }

    /// Determines the signer of a file.
    fn signer_of(
        &self,
        candidate: &Candidate,
        signature: Option<&str>,
        unsigned: UnsignedPlugins,
    ) -> Result<Signer, InstallError> {
        let manifest = &candidate.manifest;
        let plugin = (&manifest.name, manifest.kind);
        let judged = self.settings.trust.signer_of(plugin, &candidate.bytes, candidate.digest, signature, unsigned);
        judged.map_err(|problem| InstallError::of(&manifest.name, InstallStep::Signature, problem))
    }

    /// Compiles and links a package that is not installed yet. Also returns its machine code, to be cached once it is
    /// installed.
    fn load_new(&self, package: &Package) -> Result<(LoadedPlugin, Option<MachineCode>), InstallError> {
        let (compiled, code) = self.compiler.compiled(self.engine.wasmtime(), package)?;
        Ok((install::link(package, &self.engine, &compiled, &self.settings)?, code))
    }

    /// Loads an installed plugin. If the machine code of its file is cached, the file is not validated again: the code
    /// was compiled after the same bytes had passed every check.
    fn load_installed(&self, candidate: Candidate) -> Result<LoadedPlugin, InstallError> {
        if let Some(compiled) = self.compiler.cached(self.engine.wasmtime(), &candidate) {
            return install::link(&candidate.checked_before()?, &self.engine, &compiled, &self.settings);
        }
        self.load(&candidate.check()?)
    }

    /// Compiles and links a package that is installed.
    fn load(&self, package: &Package) -> Result<LoadedPlugin, InstallError> {
        let (loaded, code) = self.load_new(package)?;
        self.compiler.cache(self.engine.wasmtime(), code.as_ref());
        Ok(loaded)
    }

    /// Calls a plugin for the first time, on a plugin thread.
    fn try_out(&self, plugin: &Arc<LoadedPlugin>) -> Result<Option<PackContents>, InstallError> {
        let (tried, engine) = (plugin.clone(), self.engine.clone());
        let name = &plugin.manifest().name;
        let owner = Owner::system(name);
        let answer = self.pool.run(Priority::Background, &owner, move || tried.try_out(&engine));
        answer.unwrap_or_else(|busy| Err(InstallError::of(&plugin.manifest().name, InstallStep::Smoke, busy)))
    }

    /// Returns the current load of the plugin threads.
    #[must_use]
    pub fn pool_usage(&self) -> PoolUsage {
        self.pool.usage()
    }
}

fn no_codes(plugin: &LoadedPlugin) -> InstallError {
    let PluginManifest { name, kind, .. } = plugin.manifest();
    InstallError::of(name, InstallStep::Content, format_args!("plugins of kind `{kind}` provide no codes"))
}

impl std::fmt::Debug for PluginHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PluginHost").finish_non_exhaustive()
    }
}

//! The sandbox: everything that knows WebAssembly.
//!
//! A plugin is a WebAssembly component in one file. [`PluginHost`] turns files into loaded plugins and runs them on threads
//! of their own; [`PluginLibrary`] keeps the set that is installed. `host/docs/PLUGINS.md` tells the whole way.
//!
//! **Invariant:** beside `daftar-pack-tools`, this is the only crate that names wasmtime; everyone else sees domain types.
//! **Invariant:** a plugin can call what is linked for its kind and nothing else, and that is `log`.

/// Makes an enumeration whose cases have stable names: they appear in scripts, metrics and messages.
macro_rules! named {
    ($(#[$of:meta])* pub enum $kind:ident { $($(#[$about:meta])* $case:ident = $name:literal),+ $(,)? }) => {
        $(#[$of])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $kind { $($(#[$about])* $case),+ }

        impl $kind {
            /// Every case, in order.
            pub const ALL: &'static [Self] = &[$(Self::$case),+];

            /// Its stable name.
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

mod bindings;
mod breaker;
mod compile;
mod contents;
mod engine;
mod fault;
mod files;
mod host;
mod inspect;
mod install;
mod library;
mod limits;
mod package;
mod pool;
mod rule;
mod sandbox;
pub mod section;
mod signature;
mod stats;
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
pub use contents::{CodeAnswer, ResolveError};
pub use fault::{Blame, FaultKind, PluginFault};
pub use files::{FolderError, read_at_most};
pub use inspect::{FileState, PluginLook, look_at_installed, spoken_versions};
pub use inspect::{Inspection, SignatureState};
pub use install::{InstallError, InstallStep, LoadedPlugin};
pub use library::{
    Accept, ArchivedPlugins, Downgrade, InstalledPlugin, LibraryError, LibraryRefill, Loss, PluginLibrary, PluginList,
    PluginOffer, PluginSet, Prepared, RecordedPlugin, RefusedPlugin, SyncReport, SyncedFile, is_in_use,
};
pub use limits::PluginLimits;
pub use package::{Digest, PACKAGE_BYTES_MAX, Surface};
pub use pool::{PoolUsage, Priority};
pub use rule::is_suspicious;
pub use rule::{EligibilityEngine, EngineError, RuleRequest, RuleSession, RuleTask, run_rule};
pub use signature::{
    PinnedDigests, PluginSignature, PrivateKey, PrivateKeyError, SIGNATURE_BYTES_MAX, SIGNATURE_SUFFIX,
    SignatureProblem, Signer, TrustPolicy, UnsignedPlugins, read_signature_of,
};
pub use stats::{CallRecorder, HostClock};
pub use stats::{LastFault, PluginUsage, Usage};

use compile::{CodeCache, Compiler, MachineCode};
use daftar_domain::config::plugin_limits::PluginLimitsConfig;
use daftar_domain::context::Cancellation;
use daftar_domain::manifest::{PluginManifest, PluginName};
use daftar_domain::vocabulary::PackContents;
use engine::SandboxEngine;
use package::{Candidate, Package, check_size, manifest_of};
use pool::{CallPool, Owner, PoolSize, THREADS_MIN};
use wit::Linked;

/// How plugins are run.
#[derive(Clone, Default)]
pub struct PluginHostSettings {
    /// How many threads guests run on; two more than the machine has cores where absent, so that work in the background may use every
    /// core, and one client as many and one more. At least three, at most 32.
    pub threads: Option<usize>,
    /// Limits of single plugins that differ from those of their kind.
    pub limits: BTreeMap<PluginName, PluginLimitsConfig>,
    /// Where compiled code is kept between starts; it is compiled at each start where absent.
    pub code_folder: Option<PathBuf>,
    /// Where components are compiled.
    pub compile_in: CompileIn,
    /// Whose plugins are installed; nobody's where nothing is said.
    pub trust: TrustPolicy,
    /// Tells the time to logs and breakers; the machine's clock where absent.
    pub clock: Option<HostClock>,
    /// Takes figures for the metrics page; they go nowhere where absent.
    pub recorder: Option<CallRecorder>,
}

/// How many requests may wait for a thread: more would be answered after their clients left.
const WAITING_MAX: usize = 256;

/// How much background work may wait: each is a whole install or preview.
const BACKGROUND_WAITING_MAX: usize = 32;

/// Why plugins cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum PluginHostError {
    /// No engine.
    #[error(transparent)]
    Engine(#[from] engine::EngineError),
    /// No threads.
    #[error("no threads for plugins: {0}")]
    Threads(#[from] std::io::Error),
}

/// Loads plugins and runs them.
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
            // Each thread holds one instance at a time, so there is always a place for it in the pool of instances.
            threads: settings.threads.unwrap_or(cores.saturating_add(2)).clamp(THREADS_MIN, engine::INSTANCES_MAX),
            interactive_waiting: WAITING_MAX,
            background_waiting: BACKGROUND_WAITING_MAX,
        };
        let cache = settings.code_folder.as_deref().and_then(|folder| match CodeCache::open(folder) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(error = %error, "compiled code of plugins is not kept, they are compiled at each start");
                None
            }
        });
        let compiler = Compiler::new(settings.compile_in.clone(), cache);
        Ok(Self { engine: Arc::new(SandboxEngine::new()?), pool: CallPool::start(size)?, compiler, settings })
    }

    /// Reads everything that an installed pack brings, as the pack says it. Waits for a plugin thread: not for async code.
    ///
    /// # Errors
    /// A refusal at `content`: it is no pack, all threads are taken, or reading it failed.
    pub fn load_pack(&self, installed: &InstalledPlugin) -> Result<PackContents, InstallError> {
        let plugin = installed.loaded().clone();
        let name = plugin.manifest().name.clone();
        let engine = self.engine.clone();
        let read = move || match &plugin.linked {
            Linked::Pack(pack) => contents::read(&plugin, pack, &engine).map_err(|fault| {
                // Nothing of this comes from a caller.
                rule::report_own_fault(&plugin, &fault);
                InstallError::from_fault(InstallStep::Content, fault)
            }),
            Linked::Engine(_) => Err(no_codes(&plugin)),
        };
        let answer = self.pool.run(Priority::Background, &Owner::system(&name), read);
        answer.unwrap_or_else(|busy| Err(InstallError::of(&name, InstallStep::Content, busy)))
    }

    /// Refuses a file that was changed after a trusted key signed it, before anything in it is read: a changed file may have no
    /// manifest any more, and is to be called what it is.
    fn check_signature(&self, bytes: &[u8], signature: &str) -> Result<(), InstallError> {
        check_size(bytes.len())?;
        let digest = Digest::of(bytes);
        // Whether it is needed, and trusted, is asked once the plugin's name is known.
        self.settings.trust.check_match(bytes, digest, signature).map_err(|problem| {
            let plugin = manifest_of(bytes).ok().map(|manifest| manifest.name);
            InstallError { plugin, ..InstallError::new(InstallStep::Signature, problem) }
        })
    }

    /// Reads everything that a pack brings without installing it: the operator wants to make another pack of it. Waits for a
    /// plugin thread: not for async code.
    ///
    /// # Errors
    /// A refusal at any step of an install before `store`.
    pub fn read_pack(&self, bytes: Vec<u8>) -> Result<(PluginManifest, PackContents), InstallError> {
        let (plugin, contents) = self.tried(bytes)?;
        let manifest = plugin.manifest().clone();
        contents.map(|contents| (manifest, contents)).ok_or_else(|| no_codes(&plugin))
    }

    /// Takes a plugin through every step of an install but the last: nothing is kept. A pack also gives its contents, not yet checked
    /// against anything. Waits for a compiler and a plugin thread: not for async code.
    ///
    /// # Errors
    /// The refusal that an install would end with.
    pub fn rehearse(&self, bytes: Vec<u8>) -> Result<Option<PackContents>, InstallError> {
        Ok(self.tried(bytes)?.1)
    }

    fn tried(&self, bytes: Vec<u8>) -> Result<(Arc<LoadedPlugin>, Option<PackContents>), InstallError> {
        let plugin = Arc::new(self.load_new(&Candidate::read(bytes)?.check()?)?.0);
        let contents = self.try_out(&plugin)?;
        Ok((plugin, contents))
    }

    /// Who vouches for a file.
    fn judge(
        &self,
        candidate: &Candidate,
        signature: Option<&str>,
        unsigned: UnsignedPlugins,
    ) -> Result<Signer, InstallError> {
        let manifest = &candidate.manifest;
        let plugin = (&manifest.name, manifest.kind);
        let judged = self.settings.trust.judge(plugin, &candidate.bytes, candidate.digest, signature, unsigned);
        judged.map_err(|problem| InstallError::of(&manifest.name, InstallStep::Signature, problem))
    }

    /// Compiles and links a package that is not installed yet, with the code to be kept once it is.
    fn load_new(&self, package: &Package) -> Result<(LoadedPlugin, Option<MachineCode>), InstallError> {
        let (compiled, code) = self.compiler.compiled(self.engine.wasmtime(), package)?;
        Ok((install::link(package, &self.engine, &compiled, &self.settings)?, code))
    }

    /// Loads a plugin that is installed. Where its machine code is kept, its file is not checked all over again: the code was
    /// made after the same bytes had passed every check.
    fn load_installed(&self, candidate: Candidate) -> Result<LoadedPlugin, InstallError> {
        if let Some(compiled) = self.compiler.kept(self.engine.wasmtime(), candidate.digest) {
            return install::link(&candidate.checked_before()?, &self.engine, &compiled, &self.settings);
        }
        self.load(&candidate.check()?)
    }

    /// Compiles and links a package that is installed.
    fn load(&self, package: &Package) -> Result<LoadedPlugin, InstallError> {
        let (loaded, code) = self.load_new(package)?;
        self.compiler.keep(self.engine.wasmtime(), package.digest, code.as_ref());
        Ok(loaded)
    }

    /// Calls a plugin for the first time, on a plugin thread.
    fn try_out(&self, plugin: &Arc<LoadedPlugin>) -> Result<Option<PackContents>, InstallError> {
        let (tried, engine) = (plugin.clone(), self.engine.clone());
        let name = &plugin.manifest().name;
        let owner = Owner::system(name);
        let answer = self.pool.run(Priority::Background, &owner, move || install::try_out(&tried, &engine));
        answer.unwrap_or_else(|busy| Err(InstallError::of(&plugin.manifest().name, InstallStep::Smoke, busy)))
    }

    /// Runs `task` with a rule of that engine, on a plugin thread.
    fn submit_rule(
        &self,
        priority: Priority,
        plugin: &Arc<LoadedPlugin>,
        request: RuleRequest,
        cancellation: Cancellation,
        task: RuleTask,
    ) -> Result<(), EngineError> {
        let (stats, name) = (plugin.stats.clone(), plugin.manifest().name.clone());
        let trial = plugin.breaker.admit().map_err(|aside| {
            stats.record_rejected();
            EngineError::set_aside(&name, aside)
        })?;
        let admitted = stats.admit_request(plugin.limits().concurrent_requests).ok_or(EngineError::Busy)?;
        let (plugin, engine) = (plugin.clone(), self.engine.clone());
        let RuleRequest { actor, expression, schema } = request;
        let terms = (priority, cancellation.clone());
        let job = move || {
            let _admitted = admitted;
            let Linked::Engine(linked) = &plugin.linked else { return task(Err(EngineError::NoEngine)) };
            if let Some(trial) = trial
                && let Err(aside) = rule::tried_again(trial, &plugin, || rule::try_out(&plugin, linked, &engine))
            {
                return task(Err(EngineError::set_aside(&plugin.manifest().name, aside)));
            }
            let is_suspicious = match RuleSession::compile(&plugin, linked, &engine, terms, &expression, &schema) {
                Ok(mut rule) => {
                    task(Ok(&mut rule));
                    rule.has_suspicious_fault()
                }
                Err(error) => {
                    let is_suspicious = matches!(&error, EngineError::Fault(fault) if is_suspicious(fault.kind));
                    task(Err(error));
                    is_suspicious
                }
            };
            if is_suspicious {
                rule::check(&plugin, || rule::try_out(&plugin, linked, &engine));
            }
        };
        let owner = Owner { plugin: name, actor };
        self.pool.submit(priority, &owner, cancellation, job).map_err(|_| {
            stats.record_rejected();
            EngineError::Busy
        })
    }

    /// What the plugin threads have to do now.
    #[must_use]
    pub fn pool_usage(&self) -> PoolUsage {
        self.pool.usage()
    }
}

fn no_codes(engine: &LoadedPlugin) -> InstallError {
    let reason = "it is an eligibility engine and brings no codes";
    InstallError::of(&engine.manifest().name, InstallStep::Content, reason)
}

impl std::fmt::Debug for PluginHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PluginHost").finish_non_exhaustive()
    }
}

//! The sandbox: everything that knows WebAssembly.
//!
//! A plugin is a WebAssembly component in one file. [`PluginHost`] turns files into loaded plugins and runs them on threads
//! of their own; [`PluginLibrary`] keeps the set that is installed. `host/docs/PLUGINS.md` tells the whole way.
//!
//! **Invariant:** this is the only module that names wasmtime; everyone else sees traits over domain types.
//! **Invariant:** a plugin can call what is linked for its kind and nothing else, and that is `log`.

mod bindings;
mod compile;
mod contents;
mod eligibility;
mod engine;
mod fault;
mod files;
mod install;
mod library;
mod limits;
pub mod pack;
mod package;
mod pool;
mod rule;
mod sandbox;
mod stats;
mod wit;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use eligibility::{EligibilityEngine, EngineError, RuleSession, RuleTask, run_rule};
pub use fault::{Blame, FaultKind, PluginFault};
pub use files::FolderError;
pub use install::{InstallError, InstallStep, LoadedPlugin};
pub use library::{
    Accept, InstalledPlugin, LibraryError, OpenedLibrary, PluginLibrary, PluginSet, Prepared, SyncReport, SyncedFile,
    is_in_use,
};
pub use limits::PluginLimits;
pub use package::{Digest, PACKAGE_BYTES_MAX};
pub use stats::{PluginUsage, Usage};

use crate::domain::eligibility::Schema;
use crate::domain::manifest::{PluginManifest, PluginName};
use crate::domain::vocabulary::PackContents;
use compile::CodeCache;
use engine::SandboxEngine;
use package::Package;
use pool::{CallPool, PoolSize, Priority};
use wit::Linked;

/// How plugins are run.
#[derive(Debug, Clone, Default)]
pub struct PluginHostSettings {
    /// How many threads guests run on; as many as the machine has cores where absent. At least two, at most 32.
    pub threads: Option<usize>,
    /// How many requests may wait for a thread; 256 where absent.
    pub waiting_max: Option<usize>,
    /// Limits of single plugins that differ from those of their kind.
    pub limits: BTreeMap<PluginName, PluginLimits>,
    /// Where compiled code is kept between starts; it is compiled at each start where absent.
    pub code_folder: Option<PathBuf>,
}

/// How many requests may wait for a thread unless the settings say otherwise: more would be answered after their clients left.
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
    cache: Option<CodeCache>,
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
            threads: settings.threads.unwrap_or(cores).clamp(2, engine::INSTANCES_MAX),
            interactive_waiting: settings.waiting_max.unwrap_or(WAITING_MAX),
            background_waiting: BACKGROUND_WAITING_MAX,
        };
        let cache = settings.code_folder.as_deref().and_then(|folder| match CodeCache::open(folder) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(error = %error, "compiled code of plugins is not kept, they are compiled at each start");
                None
            }
        });
        Ok(Self { engine: Arc::new(SandboxEngine::new()?), pool: CallPool::start(size)?, cache, settings })
    }

    /// Reads everything that an installed pack brings, as the pack says it. Waits for a plugin thread: not for async code.
    ///
    /// # Errors
    /// A refusal at `content`: it is no pack, all threads are taken, or reading it failed.
    pub fn load_pack(&self, installed: &InstalledPlugin) -> Result<PackContents, InstallError> {
        let plugin = installed.loaded().clone();
        let name = plugin.manifest().name.clone();
        let engine = self.engine.clone();
        let read = move || match plugin.linked() {
            Linked::Pack(pack) => contents::read(&plugin, pack, &engine).map_err(|fault| {
                InstallError::of(&fault.plugin, InstallStep::Content, format_args!("{}: {}", fault.kind, fault.detail))
            }),
            Linked::Engine(_) => {
                let reason = "it is an eligibility engine and brings no codes";
                Err(InstallError::of(&plugin.manifest().name, InstallStep::Content, reason))
            }
        };
        let answer = self.pool.run(Priority::Background, read);
        answer.unwrap_or_else(|busy| Err(InstallError::of(&name, InstallStep::Content, busy)))
    }

    /// Checks a file without running anything of it, and says what it says about itself.
    ///
    /// # Errors
    /// A refusal at one of the steps before `compile`.
    pub fn inspect(bytes: Vec<u8>) -> Result<(PluginManifest, Digest), InstallError> {
        let package = Package::read(bytes)?;
        Ok((package.manifest().clone(), package.digest()))
    }

    /// Reads everything that a pack brings without installing it: the operator wants to make another pack of it. Waits for a
    /// plugin thread: not for async code.
    ///
    /// # Errors
    /// A refusal at any step of an install before `store`.
    pub fn read_pack(&self, bytes: Vec<u8>) -> Result<(PluginManifest, PackContents), InstallError> {
        let package = Package::read(bytes)?;
        let plugin = Arc::new(self.load(&package)?);
        let manifest = package.manifest().clone();
        match self.try_out(&plugin)? {
            Some(contents) => Ok((manifest, contents)),
            None => {
                let reason = "it is an eligibility engine and brings no codes";
                Err(InstallError::of(&manifest.name, InstallStep::Content, reason))
            }
        }
    }

    /// Compiles and links a package.
    fn load(&self, package: &Package) -> Result<LoadedPlugin, InstallError> {
        let manifest = package.manifest();
        let limits = self.settings.limits.get(&manifest.name).cloned();
        let limits = limits.unwrap_or_else(|| PluginLimits::for_kind(manifest.kind));
        install::load(package, &self.engine, self.cache.as_ref(), limits)
    }

    /// Calls a plugin for the first time, on a plugin thread.
    fn try_out(&self, plugin: &Arc<LoadedPlugin>) -> Result<Option<PackContents>, InstallError> {
        let (tried, engine) = (plugin.clone(), self.engine.clone());
        let answer = self.pool.run(Priority::Background, move || install::try_out(&tried, &engine));
        answer.unwrap_or_else(|busy| Err(InstallError::of(&plugin.manifest().name, InstallStep::Smoke, busy)))
    }

    /// Runs `task` with a rule of that engine, on a plugin thread.
    fn submit_rule(
        &self,
        plugin: &Arc<LoadedPlugin>,
        expression: String,
        schema: Arc<Schema>,
        task: RuleTask,
    ) -> Result<(), EngineError> {
        let admitted = plugin.stats().admit_request(plugin.limits().concurrent_requests).ok_or(EngineError::Busy)?;
        let (plugin, engine) = (plugin.clone(), self.engine.clone());
        let job = move || {
            let _admitted = admitted;
            let Linked::Engine(linked) = plugin.linked() else { return task(Err(EngineError::NoEngine)) };
            match rule::SandboxedRule::compile(&plugin, linked, &engine, &expression, &schema) {
                Ok(mut rule) => task(Ok(&mut rule)),
                Err(error) => task(Err(error)),
            }
        };
        self.pool.submit(Priority::Interactive, job).map_err(|_| EngineError::Busy)
    }

    /// Forgets the compiled code of a plugin that is no longer installed.
    fn forget_code_of(&self, digest: Digest) {
        if let Some(cache) = &self.cache {
            cache.forget(digest);
        }
    }
}

impl std::fmt::Debug for PluginHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PluginHost").field("settings", &self.settings).finish_non_exhaustive()
    }
}

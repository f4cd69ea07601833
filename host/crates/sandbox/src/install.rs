//! From bytes to a plugin that is ready to be called: the steps, and why a plugin was refused at one of them.
//!
//! **Invariant:** nothing of a plugin runs before its package was checked whole; and whatever step refuses it, what ran before
//! is untouched, because this module only makes a new value.

use std::fmt;
use std::sync::Arc;

use super::breaker::Breaker;
use super::compile::Compiled;
use super::contents;
use super::engine::SandboxEngine;
use super::fault::{PluginFault, excerpt};
use super::host::PluginLog;
use super::limits::PluginLimits;
use super::package::{Digest, Package};
use super::rule;
use super::sandbox::SandboxOf;
use super::stats::{PluginStats, PluginUsage};
use super::wit::{self, Linked};
use crate::PluginHostSettings;
use daftar_domain::context::SystemClock;
use daftar_domain::manifest::{PluginManifest, PluginName};
use daftar_domain::vocabulary::PackContents;

named! {
    /// A step of an install. The names are stable: scripts and tests match on them.
    pub enum InstallStep {
        /// Reading the bytes: a missing, cut or damaged file.
        Unreadable = "unreadable",
        /// Telling a component from other WebAssembly.
        NotAComponent = "not_a_component",
        /// Reading the manifest.
        Manifest = "manifest",
        /// Finding somebody trusted who vouches for the file.
        Signature = "signature",
        /// Comparing the version with that of the installed one.
        Downgrade = "downgrade",
        /// Matching the interface version, and the exports that it asks for.
        InterfaceVersion = "interface_version",
        /// Matching the imports with what is granted.
        Imports = "imports",
        /// Bounding the size of the file, its code, its memories and tables.
        TooLarge = "too_large",
        /// Compiling within bounds of time, memory and size.
        CompileBudget = "compile_budget",
        /// Compiling at all: this machine could not, whatever the plugin.
        Compile = "compile",
        /// The first call.
        Smoke = "smoke",
        /// Reading and checking what a pack brings.
        Content = "content",
        /// Keeping the file and the list of what is installed.
        Store = "store",
    }
}

/// Why a plugin was not installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} was refused at step `{step}`: {reason}",
    .plugin.as_ref().map_or_else(|| "the plugin".to_owned(), |name| format!("plugin `{name}`"))
)]
pub struct InstallError {
    /// Its name, where the manifest could be read.
    pub plugin: Option<PluginName>,
    /// The step that refused it.
    pub step: InstallStep,
    /// What is wrong and, where there is something to do about it, what.
    pub reason: String,
}

impl InstallError {
    /// A refusal at that step, before the plugin's name is known.
    pub(super) fn new(step: InstallStep, reason: impl fmt::Display) -> Self {
        Self { plugin: None, step, reason: reason.to_string() }
    }

    /// A refusal of that plugin.
    pub(super) fn of(plugin: &PluginName, step: InstallStep, reason: impl fmt::Display) -> Self {
        Self { plugin: Some(plugin.clone()), step, reason: reason.to_string() }
    }

    /// The refusal, of the plugin of that name whatever its file says.
    pub(super) fn named(self, name: &PluginName) -> Self {
        Self { plugin: Some(name.clone()), ..self }
    }

    pub(super) fn from_fault(step: InstallStep, fault: PluginFault) -> Self {
        Self { plugin: Some(fault.plugin), step, reason: format!("{}: {}", fault.kind, fault.detail) }
    }
}

/// A plugin that is compiled, linked and ready to be called.
pub struct LoadedPlugin {
    manifest: PluginManifest,
    digest: Digest,
    /// The size of its file, in bytes.
    pub size_bytes: usize,
    /// The size of its machine code, in bytes.
    pub compiled_bytes: usize,
    limits: PluginLimits,
    pub(super) stats: Arc<PluginStats>,
    log: Arc<PluginLog>,
    /// Sets it aside when it keeps failing by itself.
    pub(super) breaker: Arc<Breaker>,
    pub(super) linked: Linked,
}

impl LoadedPlugin {
    /// What it says about itself.
    #[must_use]
    pub fn manifest(&self) -> &PluginManifest {
        &self.manifest
    }

    /// The digest of its file.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What it may use.
    #[must_use]
    pub fn limits(&self) -> &PluginLimits {
        &self.limits
    }

    /// What it has used since it was loaded.
    #[must_use]
    pub fn usage(&self) -> PluginUsage {
        self.stats.snapshot(self.log.counts(), &self.breaker)
    }

    /// The name, version and digest that a decision block repeats.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}@{} {}", self.manifest.name, self.manifest.version, self.digest)
    }

    /// What its instances are made from.
    pub(super) fn sandbox_of<'p>(&'p self, engine: &'p SandboxEngine) -> SandboxOf<'p> {
        SandboxOf {
            engine: engine.wasmtime(),
            plugin: &self.manifest.name,
            limits: &self.limits,
            stats: &self.stats,
            log: &self.log,
        }
    }
}

impl fmt::Debug for LoadedPlugin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("LoadedPlugin").field(&self.reference()).finish()
    }
}

/// Links a package whose checks are done with the machine code that was made of it.
///
/// # Errors
/// A refusal at `too_large`, or at `interface_version` where linking sees more than the package's checks did.
pub(super) fn link(
    package: &Package,
    engine: &SandboxEngine,
    compiled: &Compiled,
    settings: &PluginHostSettings,
) -> Result<LoadedPlugin, InstallError> {
    let manifest = &package.manifest;
    let name = &manifest.name;
    let clock = settings.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
    let durations = settings.recorder.as_ref().map_or_else(metrics::Histogram::noop, |recorder| recorder(name));
    let mut limits = PluginLimits::for_kind(manifest.kind);
    if let Some(config) = settings.limits.get(name) {
        limits = limits.with(config);
    }
    check_resources(&compiled.component, &limits)
        .map_err(|reason| InstallError::of(name, InstallStep::TooLarge, reason))?;
    let linked =
        wit::link(package.version, manifest.kind, engine.wasmtime(), &compiled.component).map_err(|error| {
            InstallError::of(name, InstallStep::InterfaceVersion, excerpt(&error.root_cause().to_string()))
        })?;
    Ok(LoadedPlugin {
        manifest: manifest.clone(),
        digest: package.digest,
        size_bytes: package.bytes.len(),
        compiled_bytes: compiled.code_bytes,
        limits,
        stats: Arc::new(PluginStats::new(clock.clone(), durations)),
        log: Arc::new(PluginLog::new(manifest, clock.clone())),
        breaker: Arc::new(Breaker::new(clock)),
        linked,
    })
}

/// Calls a plugin for the first time and, if it is a pack, reads what it brings. Runs guest code: only on a plugin thread.
///
/// # Errors
/// A refusal at `smoke` or at `content`.
pub(super) fn try_out(plugin: &LoadedPlugin, engine: &SandboxEngine) -> Result<Option<PackContents>, InstallError> {
    match &plugin.linked {
        Linked::Pack(pack) => {
            contents::describe(plugin, pack, engine)
                .map_err(|fault| InstallError::from_fault(InstallStep::Smoke, fault))?;
            let contents = contents::read(plugin, pack, engine);
            contents.map(Some).map_err(|fault| InstallError::from_fault(InstallStep::Content, fault))
        }
        Linked::Engine(rules) => {
            let smoke = rule::try_out(plugin, rules, engine);
            smoke.map(|()| None).map_err(|fault| InstallError::from_fault(InstallStep::Smoke, fault))
        }
    }
}

/// Refuses a component that could never be instantiated within its limits, before it is tried.
fn check_resources(component: &wasmtime::component::Component, limits: &PluginLimits) -> Result<(), String> {
    let Some(required) = component.resources_required() else { return Ok(()) };
    // Wasmtime counts this one in WebAssembly's pages; another page size is a feature that is switched off.
    let memory_bytes = required.max_initial_memory_size.unwrap_or(0).saturating_mul(65_536);
    if memory_bytes > u64::try_from(limits.memory_bytes).unwrap_or(u64::MAX) {
        let allowed = limits.memory_bytes;
        return Err(format!("it starts with {memory_bytes} bytes of memory; it may have {allowed}"));
    }
    let table_elements = required.max_initial_table_size.unwrap_or(0);
    if table_elements > u64::try_from(limits.table_elements).unwrap_or(u64::MAX) {
        let allowed = limits.table_elements;
        return Err(format!("it starts with a table of {table_elements} elements; it may have {allowed}"));
    }
    for (count, what) in [(required.num_memories, "memories"), (required.num_tables, "tables")] {
        if usize::try_from(count).unwrap_or(usize::MAX) > limits.core_instances {
            let allowed = limits.core_instances;
            return Err(format!("it has {count} {what}; it may have {allowed}"));
        }
    }
    Ok(())
}

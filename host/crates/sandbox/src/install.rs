//! The steps of an install, from a file to a loaded plugin, and the errors of each step.
//!
//! **Invariant:** no code of a plugin runs before its package passed all static checks; and an error at any step leaves
//! the active plugins untouched, because this module only returns a new value.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use wasmtime::ResourcesRequired;

use super::breaker::Breaker;
use super::compile::{Code, Compiled};
use super::engine::SandboxEngine;
use super::fault::{FaultKind, PluginFault, excerpt};
use super::host::PluginLog;
use super::kind::{Linked, row};
use super::limits::{MEMORIES_MAX, PluginLimits, default_limits};
use super::package::{Digest, Package};
use super::sandbox::SandboxOf;
use super::stats::{PluginStats, PluginUsage};
use super::wit;
use crate::PluginHostSettings;
use daftar_domain::context::SystemClock;
use daftar_domain::manifest::{PluginManifest, PluginName};
use daftar_domain::vocabulary::PackContents;

named! {
    /// A step of an install. The names are stable: scripts and tests match them.
    pub enum InstallStep {
        /// Reading the bytes: a missing, truncated or corrupt file.
        Unreadable = "unreadable",
        /// Distinguishing a component from other WebAssembly.
        NotAComponent = "not_a_component",
        /// Reading the manifest.
        Manifest = "manifest",
        /// Verifying that the file has a trusted signer.
        Signature = "signature",
        /// Comparing the version with the installed one.
        Downgrade = "downgrade",
        /// Matching the interface version and its exports.
        InterfaceVersion = "interface_version",
        /// Comparing the imports with the granted ones.
        Imports = "imports",
        /// Limiting the size of the file, its code, its memories and tables.
        TooLarge = "too_large",
        /// Compiling within limits of time, memory and size.
        CompileBudget = "compile_budget",
        /// Compiling on this machine; the error is independent of the plugin.
        Compile = "compile",
        /// The first call.
        Smoke = "smoke",
        /// Reading and validating the contents of a pack.
        Content = "content",
        /// Storing the file and the list of installed plugins.
        Store = "store",
    }
}

/// The reason why a plugin was not installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} was rejected at step `{step}`: {reason}",
    .plugin.as_ref().map_or_else(|| "the plugin".to_owned(), |name| format!("plugin `{name}`"))
)]
pub struct InstallError {
    /// The plugin's name, if its manifest could be read.
    pub plugin: Option<PluginName>,
    /// The step that failed.
    pub step: InstallStep,
    /// The cause and, if possible, the remedy.
    pub reason: String,
}

impl InstallError {
    /// An error at that step before the plugin's name is known.
    pub(super) fn new(step: InstallStep, reason: impl fmt::Display) -> Self {
        Self { plugin: None, step, reason: reason.to_string() }
    }

    /// An error of that plugin.
    pub(super) fn of(plugin: &PluginName, step: InstallStep, reason: impl fmt::Display) -> Self {
        Self { plugin: Some(plugin.clone()), step, reason: reason.to_string() }
    }

    /// Attributes the error to the plugin of that name, regardless of its file.
    pub(super) fn named(self, name: &PluginName) -> Self {
        Self { plugin: Some(name.clone()), ..self }
    }

    pub(super) fn from_fault(step: InstallStep, fault: PluginFault) -> Self {
        Self { plugin: Some(fault.plugin), step, reason: format!("{}: {}", fault.kind, fault.detail) }
    }
}

/// A compiled and linked plugin.
pub struct LoadedPlugin {
    manifest: PluginManifest,
    digest: Digest,
    /// The size of its file, in bytes.
    pub size_bytes: usize,
    /// The size of its machine code, in bytes. Packs with the same code share it.
    pub compiled_bytes: usize,
    limits: PluginLimits,
    pub(super) stats: Arc<PluginStats>,
    log: Arc<PluginLog>,
    /// The circuit breaker, which suspends it after repeated faults of its own.
    pub(super) breaker: Arc<Breaker>,
    linked: Box<dyn Linked>,
    /// Its machine code, which packs with the same code share.
    pub(super) code: Arc<Code>,
}

impl LoadedPlugin {
    /// Its manifest.
    #[must_use]
    pub fn manifest(&self) -> &PluginManifest {
        &self.manifest
    }

    /// The digest of its file.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its resource limits.
    #[must_use]
    pub fn limits(&self) -> &PluginLimits {
        &self.limits
    }

    /// The resources used since it was loaded.
    #[must_use]
    pub fn usage(&self) -> PluginUsage {
        self.stats.snapshot(self.log.counts(), &self.breaker)
    }

    /// Counts a result that the server found to be invalid as a fault.
    pub fn record_invalid(&self) {
        self.stats.record_fault(FaultKind::InvalidAnswer);
    }

    /// Its name, version and digest, as in a decision block.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}@{} {}", self.manifest.name, self.manifest.version, self.digest)
    }

    /// True if a fault of that kind is the plugin's own, never caused by the input of a client.
    #[must_use]
    pub fn is_own_fault(&self, kind: FaultKind) -> bool {
        (row(self.manifest.kind).is_own_fault)(kind)
    }

    /// Its linked form, if it has the kind of `L`.
    pub(super) fn linked<L: Linked>(&self) -> Option<&L> {
        let linked: &dyn Any = &*self.linked;
        linked.downcast_ref()
    }

    /// Calls it with input of the host: see [`Linked::smoke`].
    pub(super) fn smoke(&self, engine: &SandboxEngine) -> Result<(), PluginFault> {
        self.linked.smoke(self, engine)
    }

    /// Reads its codes: see [`Linked::contents`].
    pub(super) fn contents(&self, engine: &SandboxEngine) -> Result<Option<PackContents>, PluginFault> {
        self.linked.contents(self, engine)
    }

    /// Calls it for the first time, and reads its codes if its kind has any.
    ///
    /// # Errors
    /// An error at step `smoke` or `content`.
    pub(super) fn try_out(&self, engine: &SandboxEngine) -> Result<Option<PackContents>, InstallError> {
        self.smoke(engine).map_err(|fault| InstallError::from_fault(InstallStep::Smoke, fault))?;
        self.contents(engine).map_err(|fault| InstallError::from_fault(InstallStep::Content, fault))
    }

    /// The parts of its instances.
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

/// Links a checked package with its machine code.
///
/// # Errors
/// An error at step `too_large`, or at `interface_version` if linking finds more than the static checks.
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
    let mut limits = default_limits(manifest.kind);
    if let Some(config) = settings.limits.get(name) {
        limits = limits.with(config);
    }
    check_resources(compiled.required.as_ref(), &limits)
        .map_err(|reason| InstallError::of(name, InstallStep::TooLarge, reason))?;
    if compiled.data.is_some() {
        // Its data are a second core instance, which no author or operator counts.
        limits.core_instances = limits.core_instances.max(2);
    }
    let linked = wit::link(package.version, manifest.kind, engine.wasmtime(), compiled).map_err(|error| {
        InstallError::of(name, InstallStep::InterfaceVersion, excerpt(&error.root_cause().to_string()))
    })?;
    Ok(LoadedPlugin {
        manifest: manifest.clone(),
        digest: package.digest,
        size_bytes: package.bytes.len(),
        compiled_bytes: compiled.code.bytes,
        limits,
        stats: Arc::new(PluginStats::new(clock.clone(), durations)),
        log: Arc::new(PluginLog::new(manifest, clock.clone()).showing(settings.shows_all_lines)),
        breaker: Arc::new(Breaker::new(clock)),
        linked,
        code: compiled.code.clone(),
    })
}

/// Rejects a component that exceeds its limits already at its start.
fn check_resources(required: Option<&ResourcesRequired>, limits: &PluginLimits) -> Result<(), String> {
    let Some(required) = required else { return Ok(()) };
    // Wasmtime reports it in pages of 64 KiB; other page sizes are a disabled feature.
    let memory_bytes = required.max_initial_memory_size.unwrap_or(0).saturating_mul(65_536);
    if memory_bytes > u64::try_from(limits.memory_bytes).unwrap_or(u64::MAX) {
        let allowed = limits.memory_bytes;
        return Err(format!("it starts with {memory_bytes} bytes of memory; the limit is {allowed}"));
    }
    let table_elements = required.max_initial_table_size.unwrap_or(0);
    if table_elements > u64::try_from(limits.table_elements).unwrap_or(u64::MAX) {
        let allowed = limits.table_elements;
        return Err(format!("it starts with a table of {table_elements} elements; the limit is {allowed}"));
    }
    for (count, what, allowed) in
        [(required.num_memories, "memories", MEMORIES_MAX), (required.num_tables, "tables", limits.core_instances)]
    {
        if usize::try_from(count).unwrap_or(usize::MAX) > allowed {
            return Err(format!("it has {count} {what}; the limit is {allowed}"));
        }
    }
    Ok(())
}

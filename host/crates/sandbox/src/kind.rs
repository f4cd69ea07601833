//! The kinds of plugins. All that distinguishes a kind is in its module: its row, its calls, and the conversion of its
//! values. The other modules of this crate treat all kinds alike.

pub(crate) mod eligibility_engine;
pub(crate) mod vocabulary_pack;

use std::any::Any;

use wasmtime::component::InstancePre;

use super::engine::SandboxEngine;
use super::fault::{FaultKind, PluginFault};
use super::install::LoadedPlugin;
use super::limits::PluginLimits;
use super::sandbox::HostState;
use daftar_domain::manifest::PluginKind;
use daftar_domain::vocabulary::PackContents;

/// The properties of a kind.
pub(super) struct KindRow {
    /// The WIT interface that its plugins export.
    pub interface: &'static str,
    /// The default limits of its plugins.
    pub limits: PluginLimits,
    /// Links a component as a plugin of this kind, if it has the exports.
    pub link: fn(InstancePre<HostState>) -> wasmtime::Result<Box<dyn Linked>>,
    /// True if a fault of that kind is never caused by the input of a client.
    pub is_own_fault: fn(FaultKind) -> bool,
}

/// The row of a kind.
pub(super) const fn row(kind: PluginKind) -> &'static KindRow {
    match kind {
        PluginKind::VocabularyPack => &vocabulary_pack::ROW,
        PluginKind::EligibilityEngine => &eligibility_engine::ROW,
    }
}

/// A compiled and linked plugin, ready to be instantiated. Its calls run guest code: only on a plugin thread.
pub(super) trait Linked: Any + Send + Sync {
    /// Calls the plugin with input of the host: the first call of an install, and the check of a suspended plugin.
    ///
    /// # Errors
    /// The fault of the start or of a call.
    fn smoke(&self, plugin: &LoadedPlugin, engine: &SandboxEngine) -> Result<(), PluginFault>;

    /// Reads its codes, unvalidated; none if its kind has none.
    ///
    /// # Errors
    /// The fault that ended the reading.
    fn contents(&self, _: &LoadedPlugin, _: &SandboxEngine) -> Result<Option<PackContents>, PluginFault> {
        Ok(None)
    }
}

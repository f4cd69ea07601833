//! Eligibility engines that are compiled after the server has begun to listen.
//!
//! Compiling an engine takes seconds, and no record depends on one: a server serves records in that time. Packs are
//! never pending, because records need their codes.
//!
//! **Invariant:** the name of an engine is pending from the start of the server until the engine is active or rejected.
//! **Invariant:** a pending engine is loaded only if the list still names its file.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::records::{RecordedPlugin, load_recorded};
use super::{PluginLibrary, PluginSet};
use crate::PluginHost;
use crate::install::InstallError;
use crate::kind::eligibility_engine::rule::EngineError;
use crate::package::{Digest, manifest_of};
use daftar_domain::manifest::{PluginKind, PluginManifest, PluginName};

/// Returns true if a plugin is an engine that must be compiled, and engines are compiled later.
pub(super) fn is_left_for_later(host: &PluginHost, kind: PluginKind, digest: Digest) -> bool {
    host.settings.compiles_engines_later
        && kind == PluginKind::EligibilityEngine
        && !host.compiler.is_cached(host.engine.wasmtime(), digest)
}

impl PluginLibrary {
    /// The engines that are being compiled since the start, by name.
    #[must_use]
    pub fn compiling(&self) -> Vec<PluginName> {
        self.pending().iter().cloned().collect()
    }

    /// Returns true if that plugin of the shared list is an engine to be compiled later.
    #[must_use]
    pub fn is_left_for_later(&self, record: &RecordedPlugin) -> bool {
        is_left_for_later(&self.host, record.kind, record.digest)
    }

    /// Returns the engine in a file if it is absent or newer than the installed one, and is to be compiled later.
    #[must_use]
    pub fn engine_left_for_later(&self, path: &Path) -> Option<PluginName> {
        if !self.host.settings.compiles_engines_later {
            return None;
        }
        let offer = self.read_newer(path).ok()?;
        let manifest = manifest_of(&offer.bytes).ok()?;
        is_left_for_later(&self.host, manifest.kind, Digest::of(&offer.bytes)).then_some(manifest.name)
    }

    /// Records that an engine is compiled later.
    pub fn leave_for_later(&self, name: PluginName) {
        self.pending().insert(name);
    }

    /// Records that an engine is active or rejected.
    pub fn settle(&self, name: &PluginName) {
        self.pending().remove(name);
    }

    /// Compiles and loads the installed engines that were left out when the library was opened. Returns those that
    /// cannot be loaded: they stay installed, are listed by [`Self::unloaded`], and are retried at the next start. Not
    /// for async code.
    #[must_use]
    pub fn load_pending(&self) -> Vec<InstallError> {
        let mut refused = Vec::new();
        for name in self.compiling() {
            let Some(record) = self.recorded(&name) else { continue };
            let loaded = load_recorded(&self.host, &self.folder, &name, &record);
            if self.is_stopping() {
                break;
            }
            // An administrator may have replaced or removed it in the meantime.
            let records = self.lock();
            if records.installed.get(&name).is_some_and(|current| current.digest == record.digest) {
                match loaded {
                    Ok(plugin) => self.publish(|plugins| drop(plugins.insert(name.clone(), plugin))),
                    Err(error) => refused.push(error),
                }
            }
            self.settle(&name);
        }
        self.refused().extend(refused.clone());
        refused
    }

    /// Returns true after [`Self::stop_compiling`]: a failed compilation does not concern its plugin then.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.host.compiler.is_stopped()
    }

    /// The installed engine that is pending, and would not be active beside a plugin of that manifest.
    pub(super) fn pending_engine_displaced_by(&self, manifest: &PluginManifest) -> Option<PluginName> {
        let is_unnamed = manifest.kind == PluginKind::EligibilityEngine && self.current().wanted_engine.is_none();
        let is_displaced = |name: &PluginName| *name != manifest.name && self.recorded(name).is_some();
        self.compiling().into_iter().find(|name| is_unnamed && is_displaced(name))
    }

    /// The reason why no engine is active.
    pub(super) fn missing_engine(&self) -> EngineError {
        let set: Arc<PluginSet> = self.current();
        let is_wanted = |name: &PluginName| set.wanted_engine.as_ref().is_none_or(|wanted| wanted == name);
        let has_engine = set.iter().any(|plugin| plugin.manifest().kind == PluginKind::EligibilityEngine);
        match self.compiling().into_iter().find(is_wanted) {
            // An active engine is missing although one is loaded: several are, and the configuration names none.
            Some(name) if set.wanted_engine.is_some() || !has_engine => EngineError::Compiling(name),
            Some(_) | None => EngineError::NoEngine,
        }
    }

    fn pending(&self) -> MutexGuard<'_, BTreeSet<PluginName>> {
        // The content is valid even after a panic.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn refused(&self) -> MutexGuard<'_, Vec<InstallError>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The plugins installed at one moment.
//!
//! **Invariant:** a set never changes; whoever took it keeps the plugins that it had.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::install::LoadedPlugin;
use crate::signature::Signer;
use daftar_domain::manifest::{PluginKind, PluginManifest, PluginName};

/// An installed plugin.
#[derive(Debug, Clone)]
pub struct InstalledPlugin {
    pub(super) loaded: Arc<LoadedPlugin>,
    pub(super) signer: Signer,
    pub(super) installed_at: Timestamp,
}

impl InstalledPlugin {
    /// The plugin, ready to be called.
    #[must_use]
    pub fn loaded(&self) -> &Arc<LoadedPlugin> {
        &self.loaded
    }

    /// What it says about itself.
    #[must_use]
    pub fn manifest(&self) -> &PluginManifest {
        self.loaded.manifest()
    }

    /// Who vouched for it when it was installed.
    #[must_use]
    pub fn signer(&self) -> Signer {
        self.signer
    }

    /// When it was installed.
    #[must_use]
    pub fn installed_at(&self) -> Timestamp {
        self.installed_at
    }
}

/// The plugins installed at one moment.
#[derive(Debug, Clone, Default)]
pub struct PluginSet {
    pub(super) plugins: BTreeMap<PluginName, InstalledPlugin>,
    /// The engine that the configuration names, if it names one.
    pub(super) wanted_engine: Option<PluginName>,
}

impl PluginSet {
    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &InstalledPlugin> {
        self.plugins.values()
    }

    /// The one of that name.
    #[must_use]
    pub fn get(&self, name: &PluginName) -> Option<&InstalledPlugin> {
        self.plugins.get(name)
    }

    /// The vocabulary packs, by name.
    pub fn packs(&self) -> impl Iterator<Item = &InstalledPlugin> {
        self.iter().filter(|plugin| plugin.manifest().kind == PluginKind::VocabularyPack)
    }

    /// The engine that serves as the only one, and would not beside a plugin of that manifest.
    pub(super) fn engine_put_aside_by(&self, manifest: &PluginManifest) -> Option<&PluginName> {
        let is_unnamed_engine = manifest.kind == PluginKind::EligibilityEngine && self.wanted_engine.is_none();
        let serving = &self.engine()?.manifest().name;
        (is_unnamed_engine && *serving != manifest.name).then_some(serving)
    }

    /// The active eligibility engine: the one that the configuration names, else the only one.
    #[must_use]
    pub fn engine(&self) -> Option<&InstalledPlugin> {
        let mut engines = self.iter().filter(|plugin| plugin.manifest().kind == PluginKind::EligibilityEngine);
        if let Some(wanted) = &self.wanted_engine {
            return engines.find(|plugin| plugin.manifest().name == *wanted);
        }
        let first = engines.next();
        if engines.next().is_some() { None } else { first }
    }
}

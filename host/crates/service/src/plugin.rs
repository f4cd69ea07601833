//! What the administrator does with plugins.
//!
//! **Invariant:** a change that has begun runs to its end, whoever stops waiting for it: disk, packs and generation never part.

mod archive;
mod dropped;
mod follow;
mod install;
mod kept;
mod packs;
mod remove;
mod report;
mod start;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::follow::Common;
pub use self::report::{CodeChange, RECORDS_TOLD_MAX, TouchedCode, TouchedRecord, UpgradeReport, VocabularyChange};
use super::audit;
use super::registry::Registry;
use super::vocabulary_publisher::{VocabularyPublisher, blocking};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::manifest::PluginName;
pub use daftar_sandbox::{
    Downgrade, InstalledPlugin, PACKAGE_BYTES_MAX, PluginOffer, PoolUsage, RecordedPlugin, SIGNATURE_BYTES_MAX, Signer,
    UnsignedPlugins,
};
use daftar_sandbox::{PluginHost, PluginLibrary};
use daftar_store::shared::Shared;

/// What plugins are administered with.
#[derive(Clone)]
pub struct PluginAdministration {
    registry: Registry,
    /// Publishes the vocabularies of installed packs.
    publisher: VocabularyPublisher,
    host: Arc<PluginHost>,
    library: Arc<PluginLibrary>,
    /// What is installed for all processes, where there are others.
    common: Arc<Mutex<Common>>,
    /// What other processes of the register have in common with this one.
    shared: Option<Arc<dyn Shared>>,
}

/// An installed plugin that is not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnloadedPlugin {
    /// Its name.
    pub name: PluginName,
    /// Why it is not.
    pub reason: String,
    /// What the list of installed plugins says of it.
    pub recorded: Option<RecordedPlugin>,
}

impl PluginAdministration {
    /// Administers a library; nothing is published before [`Self::start`].
    #[must_use]
    pub fn new(registry: Registry, host: Arc<PluginHost>, library: Arc<PluginLibrary>) -> Self {
        let publisher = VocabularyPublisher::new(registry.clone());
        Self { registry, publisher, host, library, common: Arc::default(), shared: None }
    }

    /// The same beside other processes: plugins are in the store, one process changes plugins and settings at a time, and begins with what
    /// the others left.
    #[must_use]
    pub fn among(self, shared: Option<Arc<dyn Shared>>) -> Self {
        let Some(shared) = shared else { return self };
        let plugins = Self { shared: Some(Arc::clone(&shared)), ..self };
        // The publisher of the copy that follows other processes takes no lock, and so does not hold the copy itself.
        let publisher = plugins.publisher.clone().with_cluster(shared, Arc::new(plugins.clone()));
        Self { publisher, ..plugins }
    }

    /// What publishes the vocabularies of installed packs, and the settings of the deployment.
    #[must_use]
    pub fn publisher(&self) -> &VocabularyPublisher {
        &self.publisher
    }

    /// What runs plugins.
    #[must_use]
    pub fn host(&self) -> &PluginHost {
        &self.host
    }

    /// What the threads that plugins run on have to do now.
    #[must_use]
    pub fn pool_usage(&self) -> PoolUsage {
        self.host.pool_usage()
    }

    /// The register whose vocabularies these plugins bring.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What is installed and loaded, by name.
    #[must_use]
    pub fn list(&self) -> Vec<InstalledPlugin> {
        self.library.list()
    }

    /// What is installed and not in force: it could not be loaded, is not sound, or does not go with the others.
    #[must_use]
    pub fn unloaded(&self) -> Vec<UnloadedPlugin> {
        let mut reasons = self.publisher.published().unloaded.clone();
        for error in self.library.unloaded() {
            let reason = error.to_string();
            reasons.extend(error.plugin.map(|name| (name, reason)));
        }
        let unloaded = reasons.into_iter().map(|(name, reason)| {
            let recorded = self.library.recorded(&name);
            UnloadedPlugin { name, reason, recorded }
        });
        unloaded.collect()
    }

    /// Ends a compilation that is going on, and lets none begin: the server stops.
    pub fn stop_compiling(&self) {
        self.library.stop_compiling();
    }

    async fn audit(
        &self,
        ctx: &OpContext,
        outcome: AuditOutcome,
        target: impl Into<String>,
        note: impl Into<String>,
    ) -> Result<(), AppError> {
        let mut entry = audit::entry(ctx, AuditAction::Plugin, outcome, vec![target.into()]);
        entry.note = Some(note.into());
        self.registry.audit.record_now(vec![entry]).await
    }

    fn common(&self) -> MutexGuard<'_, Common> {
        // Replaced whole or by single entries, so a panic leaves it valid.
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What the administrator does with plugins, and how what packs bring is published.
//!
//! **Invariant:** a change that has begun runs to its end, whoever stops waiting for it: disk, packs and generation never part.

mod archive;
mod deployment;
mod dropped;
mod follow;
mod install;
mod kept;
mod numbers;
mod packs;
mod remove;
mod report;
mod start;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as AsyncMutex;

pub(super) use self::deployment::Decision;
use self::follow::Common;
pub use self::follow::TakenUp;
use self::packs::{Packs, Reasons};
pub use self::report::{CodeChange, RECORDS_TOLD_MAX, TouchedCode, TouchedRecord, UpgradeReport, VocabularyChange};
use super::audit;
use super::open;
use super::registry::Registry;
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::Deployment;
use daftar_domain::error::AppError;
use daftar_domain::manifest::PluginName;
pub use daftar_sandbox::{
    Downgrade, InstalledPlugin, PACKAGE_BYTES_MAX, PluginOffer, PoolUsage, RecordedPlugin, SIGNATURE_BYTES_MAX, Signer,
    UnsignedPlugins,
};
use daftar_sandbox::{PluginHost, PluginLibrary};
use daftar_store::shared::Shared;
use daftar_vocabulary::Generation;

/// What plugins are administered with.
#[derive(Clone)]
pub struct PluginAdministration {
    registry: Registry,
    host: Arc<PluginHost>,
    library: Arc<PluginLibrary>,
    in_force: Arc<Mutex<InForce>>,
    /// Held while a plugin is installed or removed: one at a time, and no code gets a number meanwhile.
    changing: Arc<AsyncMutex<()>>,
    /// What other processes of the register have in common with this one.
    shared: Option<Arc<dyn Shared>>,
    /// Whether it is this process's turn to change plugins and settings.
    has_turn: Arc<AtomicBool>,
}

/// What is installed and published, and what is installed only.
#[derive(Default)]
struct InForce {
    packs: Packs,
    /// Sound packs that do not go with those in force; tried again whenever those change.
    left_out: Packs,
    unloaded: Reasons,
    deployment: Arc<Deployment>,
    /// What is installed for all processes, where there are others.
    common: Common,
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
        let changing = registry.vocabularies.changing();
        Self { registry, host, library, in_force: Arc::default(), changing, shared: None, has_turn: Arc::default() }
    }

    /// The same beside other processes: plugins are in the store, one process changes plugins and settings at a time, and begins with what
    /// the others left.
    #[must_use]
    pub fn among(self, shared: Option<Arc<dyn Shared>>) -> Self {
        Self { shared, ..self }
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
        let mut reasons = self.in_force().unloaded.clone();
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

    /// Forgets why a plugin was not in force.
    fn forget_reasons(&self, name: &PluginName) {
        let mut in_force = self.in_force();
        in_force.unloaded.remove(name);
        in_force.left_out.remove(name);
    }

    /// Ends a compilation that is going on, and lets none begin: the server stops.
    pub fn stop_compiling(&self) {
        self.library.stop_compiling();
    }

    /// Puts packs and their generation in force.
    async fn publish(&self, packs: Packs, generation: Generation) -> Result<(), AppError> {
        let registry = self.registry.clone();
        let generation = blocking(move || open::with_kept(&registry, generation)).await?;
        self.in_force().packs = packs;
        self.registry.vocabularies.publish(generation);
        Ok(())
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

    fn in_force(&self) -> MutexGuard<'_, InForce> {
        // Replaced whole or by single entries, so a panic leaves it sound.
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs what compiles, waits for plugin threads or touches files, away from the threads that serve requests.
async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, AppError> {
    // What happens there belongs to what was begun here.
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(|error| AppError::Internal(error.into()))
}

//! Publishes generations of vocabularies, built of the active packs and of the settings of the deployment: local codes, concept groups,
//! identifier systems, and codes of earlier versions of packs.
//!
//! **Invariant:** a change of a setting and its audit entry are one write, made after a generation could be built with it; the generation is
//! published right after. A server that stops in between publishes it when it starts.
//!
//! **Invariant:** a number is never taken back, so none is given before a generation could be built.

mod numbers;
mod publishable;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};

pub(crate) use self::numbers::code_table;
pub(crate) use self::publishable::{
    PROBLEMS_SHOWN_MAX, Packs, Publishable, Reasons, build, gather, in_one_line, publishable, unnumbered,
};
use crate::client::to_the_end;
use crate::registry::Registry;
use crate::{audit, open};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::{Deployment, Setting, SettingKey};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::manifest::PluginName;
use daftar_domain::module::KnownModules;
use daftar_store::shared::{Shared, Turn};
use daftar_store::{Operation, Write};
use daftar_vocabulary::Generation;

/// Publishes generations of vocabularies.
#[derive(Clone)]
pub struct VocabularyPublisher {
    registry: Registry,
    published: Arc<Mutex<Published>>,
    /// Held while packs or settings change: one change at a time, and no code gets a number meanwhile.
    changing: Arc<AsyncMutex<()>>,
    /// The other processes of the register; none where this process is alone.
    cluster: Option<Cluster>,
    /// Whether this process holds the cluster's lock on plugins and settings.
    has_lock: Arc<AtomicBool>,
}

/// The packs and settings of the current generation, and the packs that are installed only.
#[derive(Default)]
pub(crate) struct Published {
    /// The active packs.
    pub packs: Packs,
    /// Valid packs that conflict with the active ones; tried again when those change.
    pub left_out: Packs,
    /// Why installed plugins are not active, by name.
    pub unloaded: Reasons,
    /// The settings of the deployment.
    pub deployment: Arc<Deployment>,
    /// Modules that were active, or lie in the folder of plugins, with what they bring.
    pub modules: KnownModules,
}

/// The other processes of a register.
#[derive(Clone)]
struct Cluster {
    shared: Arc<dyn Shared>,
    packs: Arc<dyn PackFollower>,
}

/// Applies the packs that other processes of the register installed, replaced or removed.
#[async_trait]
pub(crate) trait PackFollower: Send + Sync {
    /// Applies them as they are now. The caller holds the cluster's lock on plugins and settings, and lets no other change begin in this
    /// process.
    async fn follow(&self, now: Timestamp) -> Result<(), AppError>;
}

/// The cluster's lock on plugins and settings.
pub(crate) struct ClusterLock {
    _lock: Turn,
    has_lock: Arc<AtomicBool>,
}

impl Drop for ClusterLock {
    fn drop(&mut self) {
        self.has_lock.store(false, Ordering::Release);
    }
}

/// Whether changes of other processes were applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncOutcome {
    /// They were, and are active.
    Applied,
    /// Not while this process holds the lock itself: they have to be applied later.
    Deferred,
}

/// A change of a setting of the deployment.
#[derive(Debug, Clone)]
pub(crate) enum Decision {
    /// Adds the setting, or replaces it.
    Put(Box<Setting>),
    /// Removes the setting.
    Remove(SettingKey),
}

impl VocabularyPublisher {
    /// Publishes the vocabularies of a register.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        let changing = registry.vocabularies.changing();
        let published = Published { modules: KnownModules::of_project(), ..Published::default() };
        let published = Arc::new(Mutex::new(published));
        Self { registry, published, changing, cluster: None, has_lock: Arc::default() }
    }

    /// The same beside other processes: one process changes packs and settings at a time, and begins with those that the others left.
    #[must_use]
    pub(crate) fn with_cluster(self, shared: Arc<dyn Shared>, packs: Arc<dyn PackFollower>) -> Self {
        Self { cluster: Some(Cluster { shared, packs }), ..self }
    }

    /// The register whose vocabularies are published.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The settings of the deployment.
    #[must_use]
    pub fn deployment(&self) -> Arc<Deployment> {
        self.published().deployment.clone()
    }

    /// Changes a setting of the deployment and publishes it. `decide` gets the settings and the current generation, with no other change
    /// under way; `target` and `note` are for the audit log, which also has refusals.
    ///
    /// # Errors
    /// What `decide` refuses, [`AppError::Conflict`] when no generation can be built with it, or when the store fails.
    pub(crate) async fn decide(
        &self,
        ctx: &OpContext,
        target: String,
        note: &'static str,
        decide: impl FnOnce(&Deployment, &Generation) -> Result<Decision, AppError> + Send + 'static,
    ) -> Result<(), AppError> {
        let (this, ctx) = (self.clone(), ctx.clone());
        let change = async move {
            let _changing = this.exclusive().await;
            let _lock = this.cluster_lock(ctx.now).await?;
            let result = this.decide_alone(&ctx, &target, note, decide).await;
            if let Err(error) = &result {
                let mut entry = audit::entry(&ctx, AuditAction::Administer, AuditOutcome::Refused, vec![target]);
                entry.note = Some(format!("{note}: {error}"));
                this.registry.audit.record(&ctx, entry).await?;
            }
            result
        };
        to_the_end(change).await
    }

    async fn decide_alone(
        &self,
        ctx: &OpContext,
        target: &str,
        note: &str,
        decide: impl FnOnce(&Deployment, &Generation) -> Result<Decision, AppError> + Send,
    ) -> Result<(), AppError> {
        let (packs, deployment) = self.decided();
        let decision = decide(&deployment, &self.registry.vocabularies.current())?;
        let mut decided = Deployment::clone(&deployment);
        let operation = match decision {
            Decision::Put(setting) => {
                decided.put(Setting::clone(&setting));
                Operation::PutSetting(*setting)
            }
            Decision::Remove(key) => {
                decided.remove(&key);
                Operation::RemoveSetting(key)
            }
        };
        let table = self.number(&packs, &decided).await?;
        let generation = build(&packs, &decided, table)
            .map_err(|problems| AppError::Conflict(ErrorCode::Conflict, in_one_line(&problems)))?;
        let mut entry = audit::entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, vec![target.to_owned()]);
        entry.note = Some(note.to_owned());
        let write =
            Write { at: ctx.now, source: None, operations: vec![operation], audit: vec![entry], rests_on: Vec::new() };
        self.registry.store.commit(write).await?;
        self.published().deployment = Arc::new(decided);
        self.publish(packs, generation).await
    }

    /// Applies settings and numbers of codes as the store has them, and publishes them with the active packs.
    ///
    /// # Errors
    /// When the store fails; the current generation stays.
    pub async fn apply_settings(&self) -> Result<SyncOutcome, AppError> {
        if self.has_lock.load(Ordering::Acquire) {
            // Settings are those that this process found when it got the lock. Codes get numbers without the lock, and a lock may be lost.
            return Ok(SyncOutcome::Deferred);
        }
        let _changing = self.exclusive().await;
        self.apply_settings_alone().await?;
        Ok(SyncOutcome::Applied)
    }

    async fn apply_settings_alone(&self) -> Result<(), AppError> {
        let stored = Arc::new(Deployment::of(self.registry.store.settings().await?));
        let (packs, known) = self.decided();
        let current = self.registry.vocabularies.current();
        let table = self.number(&packs, &stored).await?;
        // By their content: where the database was put back, other codes may have the same numbers.
        if *stored == *known && table.is_same_as(current.table()) {
            return Ok(());
        }
        let Publishable { packs, generation, left_out, reasons } = publishable(packs, &stored, &table)?;
        {
            let mut published = self.published();
            published.deployment = stored;
            published.unloaded.extend(reasons);
            published.left_out.extend(left_out);
        }
        self.publish(packs, generation).await
    }

    /// Waits until no other change of packs or settings is under way in this process, and lets none begin.
    pub(crate) async fn exclusive(&self) -> AsyncMutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// The cluster's lock on plugins and settings, taken with the changes of other processes applied; none where there are no others. The
    /// caller lets no other change begin in this process.
    pub(crate) async fn cluster_lock(&self, now: Timestamp) -> Result<Option<ClusterLock>, AppError> {
        let Some(Cluster { shared, packs }) = &self.cluster else { return Ok(None) };
        let lock = shared.turn().await?;
        packs.follow(now).await?;
        self.apply_settings_alone().await?;
        self.has_lock.store(true, Ordering::Release);
        Ok(Some(ClusterLock { _lock: lock, has_lock: self.has_lock.clone() }))
    }

    /// Stores settings that outlive a change of packs: codes that the packs no longer have.
    pub(crate) async fn store_settings(
        &self,
        now: Timestamp,
        settings: Vec<Setting>,
        deployment: Arc<Deployment>,
    ) -> Result<(), AppError> {
        if settings.is_empty() {
            return Ok(());
        }
        let operations = settings.into_iter().map(Operation::PutSetting).collect();
        self.registry
            .store
            .commit(Write { at: now, source: None, operations, audit: Vec::new(), rests_on: Vec::new() })
            .await?;
        self.published().deployment = deployment;
        Ok(())
    }

    /// The active packs and the settings of the deployment.
    pub(crate) fn decided(&self) -> (Packs, Arc<Deployment>) {
        let published = self.published();
        (published.packs.clone(), published.deployment.clone())
    }

    /// Activates as many of the packs as are compatible.
    pub(crate) async fn publish_compatible(&self, packs: Packs) -> Result<(), AppError> {
        let deployment = self.deployment();
        let trial = self.trial_table(&packs, &deployment).await?;
        let Publishable { packs, mut generation, left_out, reasons } = publishable(packs, &deployment, &trial.table)?;
        if !trial.is_stored {
            let table = self.number(&packs, &deployment).await?;
            generation = publishable(packs.clone(), &deployment, &table)?.generation;
        }
        for (name, reason) in &reasons {
            tracing::error!(plugin = %name, reason, "an installed pack cannot be published, the rest is served");
        }
        {
            let mut published = self.published();
            published.unloaded.extend(reasons);
            published.left_out = left_out;
        }
        self.publish(packs, generation).await
    }

    /// Activates packs and publishes their generation.
    pub(crate) async fn publish(&self, packs: Packs, generation: Generation) -> Result<(), AppError> {
        let registry = self.registry.clone();
        let generation = generation.among(Arc::new(self.known_modules(&packs)));
        let generation = blocking(move || open::with_kept(&registry, generation)).await?;
        self.published().packs = packs;
        self.registry.vocabularies.publish(generation);
        Ok(())
    }

    /// The modules that errors may name, once these packs are active: those of the project and of the folder of plugins, those that were
    /// active, and those that are installed and not active.
    fn known_modules(&self, active: &Packs) -> KnownModules {
        let mut published = self.published();
        let Published { left_out, unloaded, modules, .. } = &mut *published;
        for (name, (_, pack)) in active.iter().chain(left_out.iter()) {
            let namespaces = pack.vocabularies().iter().map(|vocabulary| vocabulary.namespace().as_str());
            modules.add(name.as_str(), namespaces, pack.extension_fields().iter().map(|field| field.path.as_str()));
        }
        modules.clone().with_installed(unloaded.keys())
    }

    /// Activates packs that were left out, as far as they are compatible with the active ones. The active packs stay.
    pub(crate) async fn retry_excluded_packs(&self) -> Result<(), AppError> {
        loop {
            let (packs, left_out, deployment) = {
                let published = self.published();
                (published.packs.clone(), published.left_out.clone(), published.deployment.clone())
            };
            let mut is_changed = false;
            for (name, pack) in left_out {
                let mut with_it = packs.clone();
                with_it.insert(name.clone(), pack);
                match self.numbered(with_it, &deployment).await? {
                    Ok((packs, generation)) => {
                        tracing::info!(plugin = %name, "a pack that did not go with the others does now and is in force");
                        self.forget_reasons(&name);
                        self.publish(packs, generation).await?;
                        is_changed = true;
                        break;
                    }
                    Err(reason) => drop(self.published().unloaded.insert(name, reason)),
                }
            }
            if !is_changed {
                return Ok(());
            }
        }
    }

    /// As [`Self::retry_excluded_packs`], after a change that is done: a failure does not undo the change and is logged.
    pub(crate) async fn retry_excluded_packs_or_log(&self) {
        if let Err(error) = self.retry_excluded_packs().await {
            tracing::error!(error = %error, "packs that were left out could not be tried again; the next start tries them");
        }
    }

    /// Forgets why a plugin was not active.
    pub(crate) fn forget_reasons(&self, name: &PluginName) {
        let mut published = self.published();
        published.unloaded.remove(name);
        published.left_out.remove(name);
    }

    /// The state of publication.
    pub(crate) fn published(&self) -> MutexGuard<'_, Published> {
        // Replaced whole or by single entries, so a panic leaves it valid.
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs work that compiles, waits for plugin threads or reads files, away from the threads that serve requests.
pub(crate) async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, AppError> {
    // Its spans belong to the span that began it.
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(|error| AppError::Internal(error.into()))
}

//! What the administrator does with plugins, and how what packs bring is published.
//!
//! **Invariant:** a plugin is installed only after everything it brings was checked and a generation could be made with it;
//! until then what ran before runs on.
//! **Invariant:** a change that has begun runs to its end, whoever stops waiting for it: disk, packs and generation never part.

mod deployment;
mod dropped;
mod kept;
mod packs;
mod report;
mod start;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Mutex as AsyncMutex;

pub(super) use self::deployment::Decision;
use self::packs::{Packs, Publishable, Reasons, build, publishable, told, unnumbered, with};
use self::report::Carriers;
pub use self::report::{CodeChange, RECORDS_TOLD_MAX, TouchedCode, TouchedRecord, UpgradeReport, VocabularyChange};
use super::audit;
use super::client::to_the_end;
use super::open;
use super::registry::Registry;
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::code::{CodeNumber, CodeUri, Namespace};
use crate::domain::deployment::Deployment;
use crate::domain::local_code::LocalCode;
use crate::domain::manifest::{PluginKind, PluginName};
use crate::domain::vocabulary::{ID_TYPE_NAMESPACE, Selection};
use crate::error::AppError;
use crate::plugin::{InstallError, InstallStep, LibraryError, PluginHost, PluginLibrary, Prepared};
pub use crate::plugin::{
    InstalledPlugin, PACKAGE_BYTES_MAX, PluginOffer, PoolUsage, RecordedPlugin, SIGNATURE_BYTES_MAX, Signer,
    UnsignedPlugins,
};
use crate::vocab::{CheckedPack, CodeTable, Generation, Vocabulary};

/// What plugins are administered with.
#[derive(Clone)]
pub struct PluginAdministration {
    registry: Registry,
    host: Arc<PluginHost>,
    library: Arc<PluginLibrary>,
    in_force: Arc<Mutex<InForce>>,
    /// Held while a plugin is installed or removed: one at a time, and no code gets a number meanwhile.
    changing: Arc<AsyncMutex<()>>,
}

/// What is installed and published, and what is installed only.
#[derive(Default)]
struct InForce {
    packs: Packs,
    /// Sound packs that do not go with those in force; tried again whenever those change.
    left_out: Packs,
    unloaded: Reasons,
    deployment: Arc<Deployment>,
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

/// The numbers of codes, with those that codes without one would get.
struct TrialTable {
    table: Arc<CodeTable>,
    /// Whether the store has all of them already.
    is_stored: bool,
}

/// Why a prepared plugin was not installed; with it, where another try may end otherwise.
type NotInstalled = (InstallError, Option<Box<Prepared>>);

impl PluginAdministration {
    /// Administers a library; nothing is published before [`Self::start`].
    #[must_use]
    pub fn new(registry: Registry, host: Arc<PluginHost>, library: Arc<PluginLibrary>) -> Self {
        let changing = registry.vocabularies.changing();
        Self { registry, host, library, in_force: Arc::default(), changing }
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

    /// Installs a plugin, or replaces the one of its name. Calls in flight end on the old one.
    ///
    /// # Errors
    /// [`AppError::Plugin`] with the step that refused it and why; what was installed is as before.
    pub async fn install(&self, ctx: &OpContext, offer: impl Into<PluginOffer>) -> Result<InstalledPlugin, AppError> {
        let (this, ctx, offer) = (self.clone(), ctx.clone(), offer.into());
        to_the_end(async move { this.install_audited(&ctx, offer).await }).await
    }

    async fn install_audited(&self, ctx: &OpContext, offer: PluginOffer) -> Result<InstalledPlugin, AppError> {
        let _changing = self.changing.lock().await;
        let allowed_by = match offer.unsigned {
            UnsignedPlugins::Allowed => "--allow-unsigned",
            UnsignedPlugins::Refused => "[plugins] allow_unsigned",
        };
        match self.install_alone(ctx, offer).await? {
            Ok(plugin) => {
                self.audit_install(ctx, &plugin, allowed_by).await?;
                Ok(plugin)
            }
            Err(error) => {
                let target = error.plugin.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
                self.audit(ctx, AuditOutcome::Refused, target, error.to_string()).await?;
                Err(refusal(error))
            }
        }
    }

    /// Writes down who vouched for what was installed.
    async fn audit_install(
        &self,
        ctx: &OpContext,
        plugin: &InstalledPlugin,
        unsigned_allowed_by: &str,
    ) -> Result<(), AppError> {
        let note = match plugin.signer() {
            Signer::Key(key) => format!("installed; signed by key {key}"),
            Signer::Pinned => "installed; this program was built with it".to_owned(),
            Signer::Unsigned => format!("installed; nobody vouches for it, allowed by {unsigned_allowed_by}"),
            Signer::Unrecorded => "installed".to_owned(),
        };
        self.audit(ctx, AuditOutcome::Allowed, plugin.loaded().reference(), note).await
    }

    async fn install_alone(
        &self,
        ctx: &OpContext,
        offer: PluginOffer,
    ) -> Result<Result<InstalledPlugin, InstallError>, AppError> {
        let library = self.library.clone();
        let prepared = match blocking(move || library.prepare(offer)).await? {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        let installed = self.install_prepared(prepared, ctx.now).await?.map_err(|(error, _)| error);
        if installed.is_ok() {
            self.readmit_or_say().await;
        }
        Ok(installed)
    }

    /// Takes a prepared plugin through the steps that are left: a generation is tried with it, its codes are numbered, then
    /// disk, packs and generation change.
    async fn install_prepared(
        &self,
        prepared: Prepared,
        now: Timestamp,
    ) -> Result<Result<InstalledPlugin, NotInstalled>, AppError> {
        let (packs, deployment) = self.decided();
        let changed = match with(&packs, &deployment, &prepared) {
            Ok(None) => None,
            Ok(Some((packs, mut kept))) => {
                let dropped = self.dropped(&prepared.manifest().name, &packs);
                if let Some(reason) = self.why_still_needed(&prepared.manifest().name, &dropped, &deployment).await? {
                    return Ok(Err((prepared.refuse(reason), Some(Box::new(prepared)))));
                }
                let (generation, snapshot) = (self.registry.vocabularies.current(), self.registry.columns.snapshot());
                kept.extend(kept::of_removed(&dropped, &deployment, &generation, &snapshot));
                let deployment = kept::joined(&deployment, &kept);
                match self.numbered(packs, &deployment).await? {
                    Ok(changed) => {
                        // Before the plugin: what it no longer has must be there when the server stops in between.
                        self.keep(now, kept, deployment).await?;
                        Some(changed)
                    }
                    Err(problems) => return Ok(Err((prepared.refuse(problems), Some(Box::new(prepared))))),
                }
            }
            Err(error) => return Ok(Err((error, Some(Box::new(prepared))))),
        };
        let library = self.library.clone();
        let installed = match blocking(move || library.commit(prepared, now)).await? {
            Ok(installed) => installed,
            Err(error) => return Ok(Err((error, None))),
        };
        self.forget_reasons(&installed.manifest().name);
        if let Some((packs, generation)) = changed {
            self.publish(packs, generation).await?;
        }
        Ok(Ok(installed))
    }

    /// Removes a plugin; it stays removed when the server starts again.
    ///
    /// # Errors
    /// [`AppError::UnknownPlugin`]; [`AppError::Conflict`] when `is_forced` is false and records use its codes, or it is not
    /// loaded and they cannot be counted, or local codes, concept groups or another pack need it.
    pub async fn remove(&self, ctx: &OpContext, name: &PluginName, is_forced: bool) -> Result<(), AppError> {
        let (this, ctx, name) = (self.clone(), ctx.clone(), name.clone());
        to_the_end(async move { this.remove_audited(&ctx, &name, is_forced).await }).await
    }

    async fn remove_audited(&self, ctx: &OpContext, name: &PluginName, is_forced: bool) -> Result<(), AppError> {
        let _changing = self.changing.lock().await;
        match self.remove_alone(name, is_forced, ctx.now).await {
            Ok(note) => self.audit(ctx, AuditOutcome::Allowed, name.to_string(), note).await,
            Err(error) => {
                self.audit(ctx, AuditOutcome::Refused, name.to_string(), error.to_string()).await?;
                Err(error)
            }
        }
    }

    /// Removes a plugin and says what was done.
    async fn remove_alone(&self, name: &PluginName, is_forced: bool, now: Timestamp) -> Result<String, AppError> {
        let kind = self.library.kind_of(name).ok_or_else(|| AppError::UnknownPlugin(name.to_string()))?;
        let note = match self.uses_of(name, kind).await? {
            Some(uses) if uses > 0 && !is_forced => {
                let message = format!(
                    "{uses} records use codes of `{name}`; they stay as they are when it is removed by force, and show codes without displays"
                );
                return Err(AppError::Conflict(message));
            }
            Some(uses) => format!("removed; {uses} records use its codes"),
            None if !is_forced => {
                let message = format!("`{name}` is not loaded, so its uses cannot be counted; remove it by force");
                return Err(AppError::Conflict(message));
            }
            None => "removed; it was not loaded, so its uses were not counted".to_owned(),
        };
        let (mut packs, deployment) = self.decided();
        let removed = packs.remove(name);
        if let Some((_, pack)) = removed.as_ref().filter(|_| !is_forced) {
            refuse_with_local_codes(name, pack, &deployment)?;
            refuse_with_groups(name, pack, &deployment)?;
        }
        let changed = match &removed {
            None => None,
            Some(_) => Some(publishable(packs, &deployment, self.registry.vocabularies.current().table())?),
        };
        if let Some(changed) = changed.as_ref().filter(|changed| !changed.reasons.is_empty() && !is_forced) {
            let reasons: Vec<&str> = changed.reasons.values().map(String::as_str).collect();
            let message = format!("other packs need `{name}` and go out of force when it is removed by force: ");
            return Err(AppError::Conflict(message + &reasons.join("; ")));
        }
        if let Some((_, pack)) = &removed {
            let (generation, snapshot) = (self.registry.vocabularies.current(), self.registry.columns.snapshot());
            let kept = kept::of_removed(pack.vocabularies(), &deployment, &generation, &snapshot);
            let deployment = kept::joined(&deployment, &kept);
            self.keep(now, kept, deployment).await?;
        }
        let (library, removed) = (self.library.clone(), name.clone());
        blocking(move || library.remove(&removed)).await?.map_err(|error| match error {
            LibraryError::NotInstalled(name) => AppError::UnknownPlugin(name.to_string()),
            LibraryError::Folder(_) | LibraryError::InUse(_) => AppError::Unavailable(error.into()),
        })?;
        self.forget_reasons(name);
        if let Some(Publishable { packs, generation, left_out, reasons }) = changed {
            {
                let mut in_force = self.in_force();
                in_force.unloaded.extend(reasons);
                in_force.left_out.extend(left_out);
            }
            self.publish(packs, generation).await?;
        }
        self.readmit_or_say().await;
        Ok(note)
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

    /// How many uses records make of the codes of a plugin; none where it is a pack that is not loaded.
    async fn uses_of(&self, name: &PluginName, kind: PluginKind) -> Result<Option<u64>, AppError> {
        if kind != PluginKind::VocabularyPack {
            return Ok(Some(0));
        }
        let Some((_, pack)) = self.in_force().packs.get(name).cloned() else { return Ok(None) };
        self.records_using(pack.vocabularies()).await.map(Some)
    }

    /// How many uses records make of the codes of vocabularies.
    async fn records_using(&self, vocabularies: &[Arc<Vocabulary>]) -> Result<u64, AppError> {
        let generation = self.registry.vocabularies.current();
        // Every code that its vocabularies ever had here, the deployment's own among them.
        let namespaces = vocabularies.iter().map(|vocabulary| vocabulary.namespace());
        let numbers: Vec<CodeNumber> =
            namespaces.flat_map(|namespace| generation.table().numbers_in(namespace)).copied().collect();
        let held = self.registry.columns.snapshot().records_using(&numbers);
        // ID types stand in no coded field: records use them as the systems of their identifiers.
        let uris = numbers.iter().filter_map(|number| generation.table().uri(*number));
        let id_types = uris.filter(|uri| uri.namespace.as_str() == ID_TYPE_NAMESPACE).map(|uri| uri.to_string());
        let carriers = Carriers::find(&self.registry, &id_types.collect()).await?;
        Ok(held.saturating_add(carriers.total()))
    }

    /// The packs with a generation of all of them, whose codes are numbered durably; or what is wrong with them, in one line,
    /// and then nothing is numbered: a number is never taken back.
    async fn numbered(
        &self,
        packs: Packs,
        deployment: &Deployment,
    ) -> Result<Result<(Packs, Generation), String>, AppError> {
        let trial = self.trial_table(&packs, deployment).await?;
        let generation = match build(&packs, deployment, trial.table) {
            Ok(generation) => generation,
            Err(problems) => return Ok(Err(told(&problems))),
        };
        if trial.is_stored {
            return Ok(Ok((packs, generation)));
        }
        let table = self.number(&packs, deployment).await?;
        Ok(build(&packs, deployment, table).map(|generation| (packs, generation)).map_err(|problems| told(&problems)))
    }

    /// The table as it would be if all codes and versions of these packs were numbered.
    async fn trial_table(&self, packs: &Packs, deployment: &Deployment) -> Result<TrialTable, AppError> {
        let mut stored = self.registry.store.code_table().await?;
        let table = code_table(&stored.codes, &stored.editions)?;
        let (codes, editions) = unnumbered(packs, deployment, &table);
        if codes.is_empty() && editions.is_empty() {
            return Ok(TrialTable { table: Arc::new(table), is_stored: true });
        }
        stored.codes.extend(codes);
        stored.editions.extend(editions);
        Ok(TrialTable { table: Arc::new(code_table(&stored.codes, &stored.editions)?), is_stored: false })
    }

    /// Gives numbers to all codes and versions that have none, and returns the whole table.
    async fn number(&self, packs: &Packs, deployment: &Deployment) -> Result<Arc<CodeTable>, AppError> {
        let stored = self.registry.store.code_table().await?;
        let table = code_table(&stored.codes, &stored.editions)?;
        let (codes, editions) = unnumbered(packs, deployment, &table);
        if codes.is_empty() && editions.is_empty() {
            return Ok(Arc::new(table));
        }
        self.registry.store.number_codes(codes, editions).await?;
        let stored = self.registry.store.code_table().await?;
        Ok(Arc::new(code_table(&stored.codes, &stored.editions)?))
    }

    /// Puts packs in force that were left out, as far as they go with those in force now. What is in force stays so.
    async fn readmit(&self) -> Result<(), AppError> {
        loop {
            let (packs, left_out, deployment) = {
                let in_force = self.in_force();
                (in_force.packs.clone(), in_force.left_out.clone(), in_force.deployment.clone())
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
                    Err(reason) => drop(self.in_force().unloaded.insert(name, reason)),
                }
            }
            if !is_changed {
                return Ok(());
            }
        }
    }

    /// As [`Self::readmit`], after a change that is done: that it fails does not undo the change.
    async fn readmit_or_say(&self) {
        if let Err(error) = self.readmit().await {
            tracing::error!(error = %error, "packs that were left out could not be tried again; the next start tries them");
        }
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
        self.registry.audit.record(entry).await
    }

    fn in_force(&self) -> MutexGuard<'_, InForce> {
        // Replaced whole or by single entries, so a panic leaves it sound.
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses to take away a vocabulary that holds codes of the deployment's own.
fn refuse_with_local_codes(name: &PluginName, pack: &CheckedPack, deployment: &Deployment) -> Result<(), AppError> {
    let count = active_local_codes(pack.vocabularies(), deployment);
    if count == 0 {
        return Ok(());
    }
    let message = format!(
        "{count} active local codes belong to vocabularies of `{name}`; they go out of force when it is removed by force, and come back with it"
    );
    Err(AppError::Conflict(message))
}

/// Refuses to take away a vocabulary that concept groups of the deployment select codes of.
fn refuse_with_groups(name: &PluginName, pack: &CheckedPack, deployment: &Deployment) -> Result<(), AppError> {
    let is_of_pack = |selection: &Selection| {
        let (Selection::Code(uri) | Selection::DescendantsOf(uri)) = selection;
        pack.vocabularies().iter().any(|one| *one.namespace() == uri.namespace)
    };
    let groups = deployment.concept_groups();
    let selecting = groups.filter(|group| group.includes.iter().chain(&group.excludes).any(is_of_pack));
    let names: Vec<String> = selecting.map(|group| format!("`{}`", group.name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let message = format!(
        "concept groups of the deployment select codes of `{name}`: {}; set them anew without these codes or reset them first; when it is removed by force, rules that ask for them are undetermined",
        names.join(", ")
    );
    Err(AppError::Conflict(message))
}

/// How many of the deployment's own codes that are in use belong to vocabularies.
fn active_local_codes(vocabularies: &[Arc<Vocabulary>], deployment: &Deployment) -> usize {
    let is_of_them = |code: &&LocalCode| vocabularies.iter().any(|one| *one.namespace() == code.uri.namespace);
    deployment.local_codes().filter(|code| code.is_active()).filter(is_of_them).count()
}

/// Runs what compiles, waits for plugin threads or touches files, away from the threads that serve requests.
async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, AppError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| AppError::Internal(error.into()))
}

fn refusal(error: InstallError) -> AppError {
    match error.step {
        // The disk's failing, not the plugin's.
        InstallStep::Store => AppError::Unavailable(error.into()),
        InstallStep::Unreadable
        | InstallStep::NotAComponent
        | InstallStep::Manifest
        | InstallStep::Signature
        | InstallStep::InterfaceVersion
        | InstallStep::Imports
        | InstallStep::TooLarge
        | InstallStep::Compile
        | InstallStep::CompileBudget
        | InstallStep::Smoke
        | InstallStep::Content => AppError::Plugin(error.to_string()),
    }
}

fn code_table(codes: &[CodeUri], editions: &[(Namespace, String)]) -> Result<CodeTable, AppError> {
    CodeTable::new(codes, editions).map_err(|error| AppError::Internal(error.into()))
}

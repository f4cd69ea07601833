//! Publishes vocabulary snapshots, built from the active packs and the settings of the deployment: local codes,
//! concept groups, identifier systems, and codes of earlier versions of packs.
//!
//! **Invariant:** a change of a setting and its audit entry are one write, made after a vocabulary snapshot could be
//! built with it; the snapshot is published right after. A server that stops in between publishes it when it starts.
//!
//! **Invariant:** a number is never revoked, so none is assigned before a snapshot could be built.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};

use crate::client::spawn_uncancellable;
use crate::labels::PublishedLabels;
use crate::registry::Registry;
use crate::{audit, open_vocabulary, records};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::{Deployment, Setting, SettingKey};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::manifest::PluginName;
use daftar_domain::module::KnownModules;
use daftar_domain::vocabulary::ConceptGroup;
use daftar_store::shared::{Shared, Turn};
use daftar_store::{Operation, StoredCodeTable, Write};
use daftar_vocabulary::{
    CallingThread, CheckedPack, CodeTable, Generation, GenerationBuilder, PackOrigin, PublishFault, PublishProblem,
};

/// Publishes generations of vocabularies.
#[derive(Clone)]
pub struct VocabularyPublisher {
    registry: Registry,
    published: Arc<Mutex<Published>>,
    /// Locked while packs or settings change: one change at a time, and no code gets a number during it.
    changing: Arc<AsyncMutex<()>>,
    /// The other processes of the register; none if this process is alone.
    cluster: Option<Cluster>,
    /// True if this process holds the cluster's lock on plugins and settings.
    has_lock: Arc<AtomicBool>,
    labels: Arc<PublishedLabels>,
}

/// The packs and settings of the current snapshot, and the packs that are installed and not active.
#[derive(Default)]
pub(crate) struct Published {
    /// The active packs.
    pub packs: Packs,
    /// Valid packs that conflict with the active ones; tried again when those change.
    pub left_out: Packs,
    /// Reasons why installed plugins are not active, by name.
    pub unloaded: Reasons,
    /// The settings of the deployment.
    pub deployment: Arc<Deployment>,
    /// Modules that were active, or are in the folder of plugins, with their content.
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
    /// Applies their current versions. The caller holds the cluster's lock on plugins and settings, and prevents other
    /// changes in this process.
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

/// True if changes of other processes were applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncOutcome {
    /// Changes were applied, and are active.
    Applied,
    /// Not applied, since this process has the lock itself: they have to be applied later.
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
        Self { registry, published, changing, cluster: None, has_lock: Arc::default(), labels: Arc::default() }
    }

    /// The same with other processes: one process changes packs and settings at a time, and starts from the changes of
    /// the others.
    #[must_use]
    pub(crate) fn with_cluster(self, shared: Arc<dyn Shared>, packs: Arc<dyn PackFollower>) -> Self {
        self.labels.put_into(Arc::clone(&shared));
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

    /// Changes a setting of the deployment and publishes it. `decide` receives the settings and the current snapshot,
    /// with no other change in progress; `target` and `note` are for the audit log, which also records rejections.
    ///
    /// # Errors
    /// Those of `decide`, [`AppError::Conflict`] if no snapshot can be built with it, or if the store fails.
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
                let entry = audit::entry(&ctx, AuditAction::Administer, AuditOutcome::Refused, vec![target]);
                this.registry.audit.record(&ctx, entry.with_note(format!("{note}: {error}"))).await?;
            }
            result
        };
        spawn_uncancellable(change).await
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
        let entry = audit::entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, vec![target.to_owned()]);
        self.registry.store.commit(records::write(ctx, vec![operation], entry.with_note(note))).await?;
        self.published().deployment = Arc::new(decided);
        self.publish(packs, generation).await
    }

    /// Applies the settings and numbers of codes of the store, and publishes them with the active packs.
    ///
    /// # Errors
    /// If the store fails; the current snapshot stays.
    pub async fn apply_settings(&self) -> Result<SyncOutcome, AppError> {
        if self.has_lock.load(Ordering::Acquire) {
            // Settings are those that this process read when it got the lock. Codes get numbers without the lock, and a
            // lock may be lost.
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
        // Compared by content: if the database was restored, other codes may have the same numbers. A write of this
        // process may have published numbers that other processes assigned, without the concepts of their codes.
        let is_same = *stored == *known && table.is_same_as(current.table());
        if is_same && !current.has_unresolved_codes() {
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

    /// Waits until no other change of packs or settings is in progress in this process, and blocks new ones.
    pub(crate) async fn exclusive(&self) -> AsyncMutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// The cluster's lock on plugins and settings, with the changes of other processes applied; none if no other
    /// processes exist. The caller prevents other changes in this process.
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
            .commit(Write { at: now, source: None, operations, audit: Vec::new(), read_set: Vec::new() })
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
        let (table, is_stored) = self.trial_table(&packs, &deployment).await?;
        let Publishable { packs, mut generation, left_out, reasons } = publishable(packs, &deployment, &table)?;
        if !is_stored {
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

    /// Activates packs and publishes their snapshot.
    pub(crate) async fn publish(&self, packs: Packs, generation: Generation) -> Result<(), AppError> {
        let registry = self.registry.clone();
        let generation = generation.with_modules(Arc::new(self.known_modules(&packs)));
        let with_persisted = move || open_vocabulary::with_persisted(&registry, generation, CallingThread::MayWait);
        let generation = blocking(with_persisted).await?;
        self.published().packs = packs;
        self.labels.publish(&self.registry.vocabularies, generation).await;
        Ok(())
    }

    /// Stores the labels of the current snapshot for reports, unless they are stored already.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn catch_up_labels(&self) -> Result<(), AppError> {
        self.labels.catch_up(&self.registry.vocabularies).await
    }

    /// The modules that errors may name, once these packs are active: those of the project and of the folder of
    /// plugins, those that were active, and those that are installed and not active.
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
                match self.numbered(&with_it, &deployment).await? {
                    Ok(generation) => {
                        tracing::info!(plugin = %name, "a pack that conflicted with others is compatible now and is active");
                        self.forget_reasons(&name);
                        self.publish(with_it, generation).await?;
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

    /// As [`Self::retry_excluded_packs`], after a completed change: a failure does not undo the change and is logged.
    pub(crate) async fn retry_excluded_packs_or_log(&self) {
        if let Err(error) = self.retry_excluded_packs().await {
            tracing::error!(error = %error, "packs that were left out could not be tried again; the next start tries them");
        }
    }

    /// Removes the reason for which a plugin was not active.
    pub(crate) fn forget_reasons(&self, name: &PluginName) {
        let mut published = self.published();
        published.unloaded.remove(name);
        published.left_out.remove(name);
    }

    /// The state of publication.
    pub(crate) fn published(&self) -> MutexGuard<'_, Published> {
        // Replaced completely or by single entries, so a panic leaves it valid.
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs work that compiles, waits for plugin threads or reads files, outside the threads that serve requests.
pub(crate) async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, AppError> {
    // Its spans are children of the caller's span.
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await.map_err(AppError::of_task)
}

impl VocabularyPublisher {
    /// Builds a snapshot of all of the packs, whose codes are numbered persistently. Returns the problems in one line
    /// otherwise, and then assigns no number: a number is never revoked.
    pub(crate) async fn numbered(
        &self,
        packs: &Packs,
        deployment: &Deployment,
    ) -> Result<Result<Generation, String>, AppError> {
        match self.tried(packs, deployment).await? {
            Ok((_, false)) => {
                let table = self.number(packs, deployment).await?;
                Ok(build(packs, deployment, table).map_err(|problems| in_one_line(&problems)))
            }
            tried => Ok(tried.map(|(generation, _)| generation)),
        }
    }

    /// Builds a snapshot of all of the packs with the numbers that their codes would get, and a flag if the numbers
    /// are assigned already. Returns the problems in one line otherwise.
    pub(crate) async fn tried(
        &self,
        packs: &Packs,
        deployment: &Deployment,
    ) -> Result<Result<(Generation, bool), String>, AppError> {
        let (table, is_stored) = self.trial_table(packs, deployment).await?;
        let built = build(packs, deployment, table).map(|generation| (generation, is_stored));
        Ok(built.map_err(|problems| in_one_line(&problems)))
    }

    /// The table after numbering all codes and versions of these packs, and a flag if the store contains this table
    /// already.
    async fn trial_table(&self, packs: &Packs, deployment: &Deployment) -> Result<(Arc<CodeTable>, bool), AppError> {
        let mut stored = self.registry.store.code_table().await?;
        let table = code_table(&stored)?;
        let (codes, editions) = unnumbered(packs, deployment, &table);
        if codes.is_empty() && editions.is_empty() {
            return Ok((Arc::new(table), true));
        }
        stored.codes.extend(codes);
        stored.editions.extend(editions);
        Ok((Arc::new(code_table(&stored)?), false))
    }

    /// Assigns numbers to all codes and versions that have none, and returns the complete table.
    async fn number(&self, packs: &Packs, deployment: &Deployment) -> Result<Arc<CodeTable>, AppError> {
        let store = &self.registry.store;
        let table = code_table(&store.code_table().await?)?;
        let (codes, editions) = unnumbered(packs, deployment, &table);
        if codes.is_empty() && editions.is_empty() {
            return Ok(Arc::new(table));
        }
        store.number_codes(codes, editions).await?;
        Ok(Arc::new(code_table(&store.code_table().await?)?))
    }
}

/// A table of codes and versions with their numbers.
pub(crate) fn code_table(stored: &StoredCodeTable) -> Result<CodeTable, AppError> {
    CodeTable::new(&stored.codes, &stored.editions).map_err(|error| AppError::Internal(error.into()))
}

/// Maximum number of problems of a pack in one message.
pub(crate) const PROBLEMS_SHOWN_MAX: usize = 20;

/// Checked packs with their origins, by plugin.
pub(crate) type Packs = BTreeMap<PluginName, (PackOrigin, Arc<CheckedPack>)>;

/// Reasons why installed plugins are not active, by name.
pub(crate) type Reasons = BTreeMap<PluginName, String>;

/// The packs that can be published together.
pub(crate) struct Publishable {
    pub packs: Packs,
    /// Their snapshot.
    pub generation: Generation,
    /// The other packs.
    pub left_out: Packs,
    /// Reasons for their exclusion.
    pub reasons: Reasons,
}

/// The codes and versions of packs that have no number yet.
fn unnumbered(packs: &Packs, deployment: &Deployment, table: &CodeTable) -> (Vec<CodeUri>, Vec<(Namespace, String)>) {
    gather(packs, deployment).0.unnumbered(table)
}

/// The snapshot of all of the packs.
fn build(packs: &Packs, deployment: &Deployment, table: Arc<CodeTable>) -> Result<Generation, Vec<PublishProblem>> {
    let (builder, problems) = gather(packs, deployment);
    if problems.is_empty() { builder.build(table) } else { Err(problems) }
}

/// The generation of as many of the packs as can be published together; each excluded one is logged. A concept group of
/// the deployment that selects a missing code is left out too, and logged: rules that use it are undetermined.
pub(crate) fn publishable(
    mut packs: Packs,
    deployment: &Deployment,
    table: &Arc<CodeTable>,
) -> Result<Publishable, AppError> {
    let mut deployment = deployment.clone();
    let (mut left_out, mut reasons) = (Packs::new(), Reasons::new());
    loop {
        let problems = match build(&packs, &deployment, table.clone()) {
            Ok(generation) => return Ok(Publishable { packs, generation, left_out, reasons }),
            Err(problems) => problems,
        };
        let is_named =
            |name: &PluginName| problems.iter().any(|problem| problem.plugin.as_deref() == Some(name.as_str()));
        let (named, rest): (Packs, Packs) = packs.into_iter().partition(|(name, _)| is_named(name));
        if named.is_empty() && !leave_out_groups(&mut deployment, &problems) {
            return Err(AppError::internal(in_one_line(&problems)));
        }
        for name in named.keys() {
            let of_it = problems.iter().filter(|problem| problem.plugin.as_deref() == Some(name.as_str()));
            reasons.insert(name.clone(), in_one_line(of_it));
        }
        left_out.extend(named);
        packs = rest;
    }
}

/// Problems in one line.
pub(crate) fn in_one_line<'a>(problems: impl IntoIterator<Item = &'a PublishProblem>) -> String {
    problems.into_iter().take(PROBLEMS_SHOWN_MAX).map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Removes the concept groups with problems; returns false if the problems have another cause.
fn leave_out_groups(deployment: &mut Deployment, problems: &[PublishProblem]) -> bool {
    let mut has_changed = false;
    for problem in problems.iter().filter(|problem| problem.plugin.is_none()) {
        if let PublishFault::UnknownSelection { name, .. } = &problem.fault
            && deployment.concept_group(name).is_some()
        {
            tracing::error!(reason = %problem, "a concept group of the deployment is left out until it is set again");
            deployment.remove(&SettingKey::ConceptGroup(name.clone()));
            // An empty group replaces it, not a pack's: the intended codes are not known.
            deployment.put(Setting::ConceptGroup(ConceptGroup {
                name: name.clone(),
                description: String::new(),
                includes: Vec::new(),
                excludes: Vec::new(),
            }));
            has_changed = true;
        }
    }
    has_changed
}

/// A builder with all packs without conflicts, and the conflicts.
pub(crate) fn gather(packs: &Packs, deployment: &Deployment) -> (GenerationBuilder, Vec<PublishProblem>) {
    let mut builder = GenerationBuilder::new();
    let mut problems = Vec::new();
    for (origin, pack) in packs.values() {
        if let Err(found) = builder.add(origin.clone(), pack) {
            problems.extend(found);
        }
    }
    builder.deploy(deployment);
    (builder, problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::vocabulary::PackContents;
    use daftar_vocabulary::check;
    use daftar_vocabulary::testing::{VocabularyBuilder, concept_group, origin};

    fn pack(namespace: &str, codes: &[&str], group: Option<&str>) -> Arc<CheckedPack> {
        let concepts = codes.iter().map(|code| (*code, *code));
        let vocabulary = VocabularyBuilder::new(namespace).concepts(concepts);
        let groups = group.iter().map(|selected| concept_group("chosen", &[selected], &[]));
        let contents = PackContents { vocabularies: vec![vocabulary.contents()], concept_groups: groups.collect() };
        Arc::new(check(contents).unwrap())
    }

    fn packs(of: [(&str, Arc<CheckedPack>); 2]) -> Packs {
        of.into_iter().map(|(name, pack)| (PluginName::parse(name).unwrap(), (origin(name), pack))).collect()
    }

    fn table(packs: &Packs) -> Arc<CodeTable> {
        let (codes, editions) = unnumbered(packs, &Deployment::default(), &CodeTable::default());
        Arc::new(CodeTable::new(&codes, &editions).unwrap())
    }

    #[test]
    fn a_pack_that_selects_what_is_not_there_is_left_out_with_the_reason_and_the_rest_is_published() {
        let all = packs([
            ("base", pack("urn:base", &["a"], None)),
            ("groups", pack("urn:groups", &["g"], Some("urn:base#missing"))),
        ]);
        let left = publishable(all.clone(), &Deployment::default(), &table(&all)).unwrap();
        assert_eq!(left.packs.keys().map(PluginName::as_str).collect::<Vec<_>>(), ["base"]);
        assert_eq!(left.left_out.keys().map(PluginName::as_str).collect::<Vec<_>>(), ["groups"]);
        let reasons: Vec<_> = left.reasons.values().collect();
        assert!(matches!(reasons.as_slice(), [reason] if reason.contains("urn:base#missing")), "{reasons:?}");
    }

    #[test]
    fn packs_that_go_together_are_all_published() {
        let all = packs([
            ("base", pack("urn:base", &["a"], None)),
            ("groups", pack("urn:groups", &["g"], Some("urn:base#a"))),
        ]);
        let published = publishable(all.clone(), &Deployment::default(), &table(&all)).unwrap();
        assert_eq!((published.packs.len(), published.left_out.len()), (2, 0));
    }
}

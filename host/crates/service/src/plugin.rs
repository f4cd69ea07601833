//! Administration of plugins.
//!
//! **Invariant:** a change that has begun is completed even if its caller stops waiting: disk, packs and vocabulary
//! snapshot never diverge.
//!
//! **Invariant:** a plugin is installed only after all its content was checked and a vocabulary snapshot could be
//! built with it; until then the previous version keeps running.
//! **Invariant:** the audit log records the signer before the plugin is on disk.
//! **Invariant:** a plugin of a request is compiled before the lock on changes of packs is acquired, which blocks writes
//! that number codes. While it is locked, the checks against the installed plugins are repeated, and those against the
//! active packs are made.

mod follow;
mod remove;
mod report;
mod review;
mod start;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as AsyncMutex;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use self::follow::Common;
pub use self::report::{
    CodeChange, Gone, RECORDS_REPORTED_MAX, TouchedCode, TouchedRecord, UnresolvedCode, UpgradeReport, VocabularyChange,
};
pub use self::review::{ChangedOutcome, DECISIONS_DEFAULT, DECISIONS_MAX, Review, ReviewedProgram};
use crate::audit;
use crate::client::spawn_uncancellable;
use crate::registry::Registry;
use crate::vocabulary_publisher::{
    PROBLEMS_SHOWN_MAX, Packs, Reasons, VocabularyPublisher, blocking, gather, in_one_line,
};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::{Deployment, Setting};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::manifest::{PluginManifest, PluginName, PluginVersion};
use daftar_domain::vocabulary::PackContents;
use daftar_sandbox::{ArchivedPlugins, Digest, InstallError, InstallStep, PluginHost, PluginLibrary, Prepared};
pub use daftar_sandbox::{
    Downgrade, InstalledPlugin, Loss, PACKAGE_BYTES_MAX, PluginOffer, PoolUsage, RecordedPlugin, SIGNATURE_BYTES_MAX,
    Signer, UnsignedPlugins,
};
use daftar_store::shared::Shared;
use daftar_vocabulary::{CheckedPack, PackOrigin, check};

/// The reason why an engine is not active for some seconds after a start.
const COMPILING: &str = "it is being compiled";

/// Administers plugins.
#[derive(Clone)]
pub struct PluginAdministration {
    registry: Registry,
    /// Publishes the vocabularies of installed packs.
    publisher: VocabularyPublisher,
    host: Arc<PluginHost>,
    library: Arc<PluginLibrary>,
    /// The plugins installed for all processes, if there are others.
    common: Arc<Mutex<Common>>,
    /// Data that this process shares with the other processes of the register.
    shared: Option<Arc<dyn Shared>>,
    /// Engines of the folder of plugins, which [`Self::finish_start`] compiles and installs.
    engines: Arc<Mutex<Vec<PathBuf>>>,
    /// Locked while a request installs or removes a plugin, including its compilation: one such request at a time.
    /// Always acquired before [`VocabularyPublisher::exclusive`].
    requested_change: Arc<AsyncMutex<()>>,
}

/// An installed plugin that is not active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnloadedPlugin {
    /// Its name.
    pub name: PluginName,
    /// The reason.
    pub reason: String,
    /// Its entry in the list of installed plugins.
    pub recorded: Option<RecordedPlugin>,
}

impl PluginAdministration {
    /// Administers a library; publishes nothing before [`Self::start`].
    #[must_use]
    pub fn new(registry: Registry, host: Arc<PluginHost>, library: Arc<PluginLibrary>) -> Self {
        let publisher = VocabularyPublisher::new(registry.clone());
        Self {
            registry,
            publisher,
            host,
            library,
            common: Arc::default(),
            shared: None,
            engines: Arc::default(),
            requested_change: Arc::default(),
        }
    }

    /// The same with other processes: plugins are in the store, one process changes plugins and settings at a time,
    /// and starts from the changes of the others.
    #[must_use]
    pub fn with_shared(self, shared: Option<Arc<dyn Shared>>) -> Self {
        let Some(shared) = shared else { return self };
        let plugins = Self { shared: Some(Arc::clone(&shared)), ..self };
        // The publisher copy that synchronizes with other processes acquires no lock, and therefore contains no
        // reference to the copy itself.
        let publisher = plugins.publisher.clone().with_cluster(shared, Arc::new(plugins.clone()));
        Self { publisher, ..plugins }
    }

    /// Publisher of the vocabularies of installed packs and of the settings of the deployment.
    #[must_use]
    pub fn publisher(&self) -> &VocabularyPublisher {
        &self.publisher
    }

    /// Current load of the plugin threads.
    #[must_use]
    pub fn pool_usage(&self) -> PoolUsage {
        self.host.pool_usage()
    }

    /// The register that uses the vocabularies of these plugins.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The installed and loaded plugins, by name.
    #[must_use]
    pub fn list(&self) -> Vec<InstalledPlugin> {
        self.library.list()
    }

    /// The plugins that are installed and not active: not loadable, corrupt, or in conflict with others.
    #[must_use]
    pub fn unloaded(&self) -> Vec<UnloadedPlugin> {
        let mut reasons = self.publisher.published().unloaded.clone();
        for error in self.library.unloaded() {
            let reason = error.to_string();
            reasons.extend(error.plugin.map(|name| (name, reason)));
        }
        let compiling = self.library.compiling().into_iter().filter(|name| self.library.recorded(name).is_some());
        reasons.extend(compiling.map(|name| (name, COMPILING.to_owned())));
        let unloaded = reasons.into_iter().map(|(name, reason)| {
            let recorded = self.library.recorded(&name);
            UnloadedPlugin { name, reason, recorded }
        });
        unloaded.collect()
    }

    /// The engines that are being compiled since the server started, by name.
    #[must_use]
    pub fn compiling(&self) -> Vec<PluginName> {
        self.library.compiling()
    }

    /// True after [`Self::stop_compiling`].
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.library.is_stopping()
    }

    /// Cancels a running compilation and prevents new ones when the server stops.
    pub fn stop_compiling(&self) {
        self.library.stop_compiling();
    }

    /// A consistent snapshot of the installed files and of the result of `fix`: no plugin is installed or removed in
    /// between, so that the codes of both match. Waits for a change of plugins in progress.
    ///
    /// # Errors
    /// If the files cannot be opened, and those of `fix`.
    pub async fn archived_with<T>(
        &self,
        fix: impl Future<Output = Result<T, AppError>>,
    ) -> Result<(ArchivedPlugins, T), AppError> {
        let _still = self.publisher.exclusive().await;
        let library = self.library.clone();
        let archived = blocking(move || library.archived()).await?;
        let archived = archived.map_err(|error| AppError::Internal(error.into()))?;
        Ok((archived, fix.await?))
    }

    /// Installs a plugin, or replaces the plugin with its name. Calls in progress complete on the old version.
    ///
    /// # Errors
    /// [`AppError::Plugin`] with the step that rejected it and the reason; the installed version is unchanged.
    pub async fn install(&self, ctx: &OpContext, offer: impl Into<PluginOffer>) -> Result<InstalledPlugin, AppError> {
        let (this, ctx, offer) = (self.clone(), ctx.clone(), offer.into());
        let span = tracing::info_span!("plugin.install", otel.status_code = Empty);
        let installing = async move {
            let installed = this.install_audited(&ctx, offer).await;
            if installed.is_err() {
                Span::current().record("otel.status_code", "ERROR");
            }
            installed
        };
        spawn_uncancellable(installing.instrument(span)).await
    }

    /// Reinstalls a version that the installed one replaced: `version`, or the latest one.
    ///
    /// # Errors
    /// [`AppError::UnknownPlugin`]; [`AppError::Conflict`] if the version is not retained; those of [`Self::install`].
    pub async fn roll_back(
        &self,
        ctx: &OpContext,
        name: &PluginName,
        version: Option<PluginVersion>,
        loss: Loss,
    ) -> Result<InstalledPlugin, AppError> {
        let installed = self.recorded(name).ok_or_else(|| AppError::UnknownPlugin(name.to_string()))?;
        let mut earlier = installed.earlier.iter();
        let Some(wanted) = earlier.find(|earlier| version.is_none_or(|version| earlier.version == version)) else {
            let retained: Vec<String> = installed.earlier.iter().map(|earlier| earlier.version.to_string()).collect();
            let detail = match (version, retained.is_empty()) {
                (Some(version), false) => {
                    format!("version {version} of `{name}` is not retained; retained are {}", retained.join(", "))
                }
                (_, _) => format!("`{name}` has replaced no version: install the file of the version to go back to"),
            };
            return Err(AppError::Conflict(ErrorCode::Conflict, detail));
        };
        let (library, digest) = (self.library.clone(), wanted.digest);
        let here = blocking(move || library.file_of(digest)).await?;
        let bytes = match (here, &self.shared) {
            (Ok(bytes), _) => Some(bytes),
            (Err(_), Some(shared)) => shared.plugin_file(*digest.as_bytes()).await?,
            (Err(reason), None) => return Err(AppError::internal(reason)),
        };
        let bytes = bytes.ok_or_else(|| AppError::internal("the file of an earlier version is missing"))?;
        self.install(ctx, PluginOffer { loss, ..wanted.offer(bytes) }).await
    }

    /// An installed plugin and the versions that it replaced, as stored for all servers.
    #[must_use]
    pub fn recorded(&self, name: &PluginName) -> Option<RecordedPlugin> {
        let common = self.shared.is_some().then(|| self.common().plugins.recorded(name).cloned()).flatten();
        common.or_else(|| self.library.recorded(name))
    }

    async fn install_audited(&self, ctx: &OpContext, offer: PluginOffer) -> Result<InstalledPlugin, AppError> {
        let _requested = self.requested_change.lock().await;
        // The first checks compare with the plugins of all processes.
        self.apply_changed_plugins(ctx.now).await?;
        let allowed_by = match offer.unsigned {
            UnsignedPlugins::Allowed => "--allow-unsigned",
            UnsignedPlugins::Refused => "[plugins] allow_unsigned",
        };
        let (library, downgrade, loss) = (self.library.clone(), offer.downgrade, offer.loss);
        let installed = match blocking(move || library.prepare(offer)).await? {
            Ok(prepared) => self.install_locked(ctx, prepared, (downgrade, loss), allowed_by).await?,
            Err(error) => Err(error),
        };
        match installed {
            Ok(plugin) => Ok(plugin),
            Err(error) => {
                let target = error.plugin.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
                self.audit(ctx, AuditOutcome::Refused, target, error.to_string()).await?;
                Err(refusal(error))
            }
        }
    }

    /// Installs a prepared plugin while no other change of packs or settings is in progress in any process.
    async fn install_locked(
        &self,
        ctx: &OpContext,
        prepared: Prepared,
        (downgrade, loss): (Downgrade, Loss),
        allowed_by: &str,
    ) -> Result<Result<InstalledPlugin, InstallError>, AppError> {
        let _changing = self.publisher.exclusive().await;
        let _lock = self.publisher.cluster_lock(ctx.now).await?;
        let accepted = match self.refuse_by_installed(prepared, downgrade) {
            Ok(prepared) => self.refuse_loss(prepared, loss).await?,
            Err(error) => Err(error),
        };
        let installed = match accepted {
            Ok(prepared) => self.install_prepared(ctx, prepared, allowed_by).await?.map_err(|(error, _)| error),
            Err(error) => Err(error),
        };
        if installed.is_ok() {
            self.publisher.retry_excluded_packs_or_log().await;
        }
        Ok(installed)
    }

    /// Repeats the checks of [`PluginLibrary::prepare`] against the installed plugins: other processes, or the start of
    /// this one, may have installed others since.
    fn refuse_by_installed(&self, prepared: Prepared, downgrade: Downgrade) -> Result<Prepared, InstallError> {
        let manifest = prepared.manifest();
        if downgrade == Downgrade::Refused
            && let Some(reason) = self.library.newer_than(manifest).or_else(|| self.other_content_than(&prepared))
        {
            return Err(prepared.refuse_downgrade(reason));
        }
        self.library.refuse_second_engine(manifest)?;
        Ok(prepared)
    }

    /// The reason why installing a plugin would replace the content of a version, in the words of
    /// [`PluginLibrary::prepare`].
    fn other_content_than(&self, prepared: &Prepared) -> Option<String> {
        let current = self.library.current();
        let active = current.get(&prepared.manifest().name)?;
        let version = active.manifest().version;
        let is_replaced = version == prepared.manifest().version && active.loaded().digest() != prepared.digest();
        is_replaced.then(|| {
            format!(
                "version {version} is installed with other content: raise the version, or use `--allow-downgrade` to replace it"
            )
        })
    }

    /// Rejects a pack that lacks fields or concept groups of the installed version, or that does not resolve codes of
    /// its open vocabularies in records, unless that is accepted.
    async fn refuse_loss(&self, prepared: Prepared, loss: Loss) -> Result<Result<Prepared, InstallError>, AppError> {
        if loss == Loss::Accepted {
            return Ok(Ok(prepared));
        }
        let (packs, _) = self.publisher.decided();
        let present = packs.get(&prepared.manifest().name);
        if present.is_some()
            && let Some(reason) = report::reason_of(&self.unresolved(&prepared).await?)
        {
            return Ok(Err(prepared.refuse(reason)));
        }
        Ok(self.refuse_gone(prepared, present.map(|(_, present)| &**present)))
    }

    fn refuse_gone(&self, prepared: Prepared, present: Option<&CheckedPack>) -> Result<Prepared, InstallError> {
        let Some(present) = present else { return Ok(prepared) };
        let new = prepared.contents().cloned();
        let new = new.map(|contents| checked(contents, prepared.manifest(), &Deployment::default()));
        // A later step reports corrupt contents.
        let Ok(new) = new.transpose() else { return Ok(prepared) };
        let installed = self.library.recorded(&prepared.manifest().name).map(|plugin| plugin.version.to_string());
        match Gone::between(Some(present), new.as_deref()).reason(installed.as_deref().unwrap_or("active")) {
            Some(reason) => Err(prepared.refuse(reason)),
            None => Ok(prepared),
        }
    }

    /// Passes a prepared plugin through the remaining steps: a vocabulary snapshot is built with it, its codes are
    /// numbered, then disk, packs and snapshot change.
    async fn install_prepared(
        &self,
        ctx: &OpContext,
        prepared: Prepared,
        unsigned_allowed_by: &str,
    ) -> Result<Result<InstalledPlugin, NotInstalled>, AppError> {
        let now = ctx.now;
        let (packs, deployment) = self.publisher.decided();
        let changed = match with(&packs, &deployment, &prepared) {
            Ok(None) => None,
            Ok(Some((packs, mut retained))) => {
                let dropped = self.dropped(&prepared.manifest().name, &packs);
                if let Some(reason) = self.why_still_needed(&prepared.manifest().name, &dropped, &deployment).await? {
                    return Ok(Err((prepared.refuse(reason), Some(Box::new(prepared)))));
                }
                let (generation, held) = (self.registry.vocabularies.current(), self.held_codes(&dropped).await?);
                retained.extend(remove::of_removed(&dropped, &deployment, &generation, &held));
                let deployment = remove::joined(&deployment, &retained);
                match self.publisher.numbered(&packs, &deployment).await? {
                    Ok(generation) => {
                        // Stored before the plugin: removed codes must be stored if the server stops in between.
                        self.publisher.store_settings(now, retained, deployment).await?;
                        Some((packs, generation))
                    }
                    Err(problems) => return Ok(Err((prepared.refuse(problems), Some(Box::new(prepared))))),
                }
            }
            Err(error) => return Ok(Err((error, Some(Box::new(prepared))))),
        };
        // Before it is on disk: no plugin runs without an entry in the audit log. A failure of the disk has its own
        // entry.
        let note = format!("installs it; {}", signed_by(&prepared, unsigned_allowed_by));
        self.audit(ctx, AuditOutcome::Allowed, prepared.reference(), note).await?;
        self.log_installed(&prepared, now).await?;
        let (library, name) = (self.library.clone(), prepared.manifest().name.clone());
        let installed = match blocking(move || library.commit(prepared, now)).await? {
            Ok(installed) => installed,
            Err(error) => {
                // The other processes have been notified: this process must not be the only one without the plugin.
                self.record_divergence(&name, error.to_string());
                return Ok(Err((error, None)));
            }
        };
        self.publisher.forget_reasons(&name);
        self.common().failed.remove(&name);
        if let Some((packs, generation)) = changed {
            self.publisher.publish(packs, generation).await?;
        }
        Ok(Ok(installed))
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
        // Replaced completely or by single entries, so a panic leaves it valid.
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads and checks every installed pack; a corrupt pack is logged and left out.
fn load_packs(host: &PluginHost, library: &PluginLibrary, deployment: &Deployment) -> (Packs, Reasons) {
    let (mut packs, mut reasons) = (Packs::new(), Reasons::new());
    for installed in library.current().packs() {
        let name = installed.manifest().name.clone();
        let checked = match host.load_pack(installed) {
            Ok(contents) => checked(contents, installed.manifest(), deployment),
            Err(error) => Err(error.to_string()),
        };
        match checked {
            Ok(checked) => {
                drop(packs.insert(name, (origin(installed.manifest(), installed.loaded().digest()), checked)))
            }
            Err(reason) => {
                tracing::error!(plugin = %name, reason, "an installed pack is corrupt, the rest is served");
                reasons.insert(name, reason);
            }
        }
    }
    (packs, reasons)
}

/// The packs including a prepared plugin, if its content is valid and conflicts with none of them; with the codes
/// to retain from the versions that it replaces. None if the packs do not change.
fn with(
    packs: &Packs,
    deployment: &Deployment,
    prepared: &Prepared,
) -> Result<Option<(Packs, Vec<Setting>)>, InstallError> {
    let manifest = prepared.manifest();
    let mut changed = packs.clone();
    let Some(contents) = prepared.contents() else {
        if !manifest.extension_fields.is_empty() {
            return Err(prepared.refuse("only a vocabulary pack adds fields to records".to_owned()));
        }
        let has_replaced_a_pack = changed.remove(&manifest.name).is_some();
        return Ok(has_replaced_a_pack.then_some((changed, Vec::new())));
    };
    let checked = checked(contents.clone(), manifest, deployment).map_err(|reason| prepared.refuse(reason))?;
    let (retained, deployment) = remove::of_replaced(packs, &checked, deployment);
    let checked = Arc::new(CheckedPack::clone(&checked).with_retained(&deployment));
    changed.insert(manifest.name.clone(), (origin(manifest, prepared.digest()), checked));
    let (_, problems) = gather(&changed, &deployment);
    if problems.is_empty() { Ok(Some((changed, retained))) } else { Err(prepared.refuse(in_one_line(&problems))) }
}

fn origin(manifest: &PluginManifest, digest: Digest) -> PackOrigin {
    let (plugin, version) = (manifest.name.to_string(), manifest.version.to_string());
    PackOrigin { plugin, version, digest: digest.to_string() }
}

/// A pack as it would be applied, with the retained codes of earlier versions; the reason if it is corrupt.
fn checked(
    contents: PackContents,
    manifest: &PluginManifest,
    deployment: &Deployment,
) -> Result<Arc<CheckedPack>, String> {
    let checked = check(contents).map(|pack| pack.with_extension_fields(&manifest.extension_fields));
    checked.map(|pack| Arc::new(pack.with_retained(deployment))).map_err(|problems| {
        let mut lines: Vec<String> =
            problems.problems().iter().take(PROBLEMS_SHOWN_MAX).map(ToString::to_string).collect();
        let unreported = problems.count().saturating_sub(lines.len());
        if unreported > 0 {
            lines.push(format!("and {unreported} more"));
        }
        lines.join("; ")
    })
}

/// The reason why a prepared plugin was not installed; with the plugin, if another attempt may succeed.
type NotInstalled = (InstallError, Option<Box<Prepared>>);

/// Returns the signer of a plugin, for the audit log.
fn signed_by(prepared: &Prepared, unsigned_allowed_by: &str) -> String {
    match prepared.signer() {
        Signer::Key(key) => format!("signed by key {key}"),
        Signer::Pinned => "this program was built with it".to_owned(),
        Signer::Unsigned | Signer::Unrecorded => format!("unsigned, allowed by {unsigned_allowed_by}"),
    }
}

fn refusal(error: InstallError) -> AppError {
    match error.step {
        // A failure of the disk, not of the plugin.
        InstallStep::Store => AppError::Unavailable(error.into()),
        InstallStep::Unreadable
        | InstallStep::NotAComponent
        | InstallStep::Manifest
        | InstallStep::Signature
        | InstallStep::Downgrade
        | InstallStep::InterfaceVersion
        | InstallStep::Imports
        | InstallStep::TooLarge
        | InstallStep::Compile
        | InstallStep::CompileBudget
        | InstallStep::Smoke
        | InstallStep::Content => AppError::Plugin(error.to_string()),
    }
}

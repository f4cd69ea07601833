//! Plugins that no request to this process installed: plugins that other processes of the register changed, with the
//! list that announces plugins installed here, and plugins of the plugin folder when the server starts.
//!
//! **Invariant:** a plugin is in the store before the list names it, and in the list before it runs here.
//!
//! **Invariant:** each process checks a plugin against its own policy, regardless of the list, and writes the outcome
//! into the audit log.
//!
//! **Invariant:** if a plugin cannot be applied, the running version with its name stays active, and the plugin is
//! reported as not active.
//!
//! **Invariant:** a plugin file of the folder is installed like a plugin from a request: only if a vocabulary snapshot
//! could be built with it. If any step rejects it, the installed version keeps running.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{PluginAdministration, blocking, load_packs, signed_by};
use crate::vocabulary_publisher::{PackFollower, Reasons};
use daftar_domain::audit::{Actor, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::deployment::Deployment;
use daftar_domain::error::AppError;
use daftar_domain::manifest::PluginName;
use daftar_sandbox::{
    Digest, Downgrade, PluginLibrary, PluginList, PluginOffer, Prepared, RecordedPlugin, SyncReport, SyncedFile,
};
use daftar_store::shared::{Shared, StoredList};

/// The list of plugins that all processes share, as last read.
#[derive(Debug, Clone, Default)]
pub(super) struct Common {
    stored: StoredList,
    pub(super) plugins: PluginList,
    /// The plugins that could not be applied here, with the reason.
    pub(super) failed: Reasons,
    /// True if it changed plugins here since the last time that packs were read and published.
    must_load: bool,
}

/// Plugins that passed the steps of an install, by the digests of their files.
pub(super) type Ahead = BTreeMap<Digest, Prepared>;

/// This server, as the actor.
fn system(now: Timestamp) -> OpContext {
    OpContext::unbound(Actor::System, "follow".into(), now, AuditContext::default())
}

#[async_trait]
impl PackFollower for PluginAdministration {
    async fn follow(&self, now: Timestamp) -> Result<(), AppError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        self.follow_alone(&**shared, Ahead::new(), now).await
    }
}

impl PluginAdministration {
    /// Applies plugins that other processes installed, replaced or removed: missing files are fetched, checked,
    /// compiled and tested as in an installation, which takes the same time.
    ///
    /// # Errors
    /// If the store fails; active plugins stay active.
    pub async fn apply_plugins(&self, now: Timestamp) -> Result<(), AppError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let ahead = self.prepared_ahead(&**shared).await?;
        let _changing = self.publisher.exclusive().await;
        self.follow_alone(&**shared, ahead, now).await
    }

    /// Number of plugins of other processes that could not be applied here.
    #[must_use]
    pub fn pending_changes(&self) -> usize {
        self.common().failed.len()
    }

    /// True if changed plugins are not active yet, because the store failed in between: [`Self::apply_plugins`]
    /// continues.
    #[must_use]
    pub fn must_load(&self) -> bool {
        self.common().must_load
    }

    /// Marks a plugin that differs from the list that this process has just written: it is applied again like a plugin
    /// of another process.
    pub(super) fn record_divergence(&self, name: &PluginName, reason: String) {
        if self.shared.is_none() {
            return;
        }
        tracing::error!(plugin.name = %name, reason, "a change of a plugin counts for all processes and could not be made here; it is tried again");
        self.publisher.published().unloaded.insert(name.clone(), reason.clone());
        self.common().failed.insert(name.clone(), reason);
    }

    /// Passes missing plugins through the steps of an installation, without blocking changes by requests of this
    /// process.
    async fn prepared_ahead(&self, shared: &dyn Shared) -> Result<Ahead, AppError> {
        let stored = shared.plugin_list().await?;
        let mut ahead = Ahead::new();
        if stored.revision == 0 {
            return Ok(ahead);
        }
        let plugins = PluginList::parse(&stored.bytes).map_err(|error| AppError::Internal(error.into()))?;
        for wanted in self.library.wanted(&plugins) {
            let digest = wanted.1.digest;
            // A plugin may be rejected because it requires another plugin that is later in the list.
            if let Ok(prepared) = self.prepare_wanted(shared, wanted).await? {
                ahead.insert(digest, prepared);
            }
        }
        Ok(ahead)
    }

    async fn follow_alone(&self, shared: &dyn Shared, ahead: Ahead, now: Timestamp) -> Result<(), AppError> {
        self.bring_in_line(shared, ahead, now).await?;
        // Includes changes that an earlier attempt made and did not load.
        if self.must_load() { self.reload().await } else { Ok(()) }
    }

    /// Synchronizes the library with the list of all processes, as far as this server's policy accepts its entries. If
    /// anything changed, packs must be loaded. If no list exists, the plugins installed here become the list.
    pub(super) async fn bring_in_line(
        &self,
        shared: &dyn Shared,
        mut ahead: Ahead,
        now: Timestamp,
    ) -> Result<(), AppError> {
        let known = self.common().clone();
        let stored = shared.plugin_list().await?;
        if stored.revision == 0 {
            return self.put_up(shared).await;
        }
        // Compares the content as well: if the database was restored, another list may have the same revision.
        if stored == known.stored && known.failed.is_empty() {
            return Ok(());
        }
        let plugins = PluginList::parse(&stored.bytes).map_err(|error| AppError::Internal(error.into()))?;
        for name in self.library.unwanted(&plugins) {
            let (library, gone) = (self.library.clone(), name.clone());
            // Runs first: if a later step fails, the active plugins already differ from the library.
            self.common().must_load = true;
            blocking(move || library.remove(&gone)).await?.map_err(|error| AppError::Unavailable(error.into()))?;
            tracing::info!(plugin.name = %name, "a plugin that another process removed is removed here");
        }
        let mut failed = Reasons::new();
        for wanted in self.library.wanted(&plugins) {
            let name = wanted.0.clone();
            let prepared = ahead.remove(&wanted.1.digest);
            match self.apply_plugin(shared, wanted, prepared, now).await? {
                Ok(()) => {
                    self.common().must_load = true;
                    tracing::info!(plugin.name = %name, "plugin of another process loaded");
                }
                Err(reason) => {
                    if known.failed.get(&name) != Some(&reason) {
                        tracing::error!(plugin.name = %name, reason, "a plugin that another process installed cannot be applied; the running version stays active");
                        let note = format!("not taken over from the database by this server: {reason}");
                        self.audit(&system(now), AuditOutcome::Refused, name.to_string(), note).await?;
                    }
                    failed.insert(name, reason);
                }
            }
        }
        let (library, list) = (self.library.clone(), plugins.clone());
        let removed = blocking(move || library.apply_removed(&list)).await?;
        removed.map_err(|error| AppError::Unavailable(error.into()))?;
        {
            let mut published = self.publisher.published();
            for name in known.failed.keys() {
                published.unloaded.remove(name);
            }
            published.unloaded.extend(failed.clone());
        }
        let mut common = self.common();
        let must_load = common.must_load;
        *common = Common { stored, plugins, failed, must_load };
        Ok(())
    }

    /// Fetches a plugin and passes it through the steps of an installation; returns the reason if one of them rejects
    /// it.
    async fn apply_plugin(
        &self,
        shared: &dyn Shared,
        wanted: (PluginName, RecordedPlugin),
        prepared: Option<Prepared>,
        now: Timestamp,
    ) -> Result<Result<(), String>, AppError> {
        let installed_at = wanted.1.installed_at;
        let prepared = match prepared {
            Some(prepared) => prepared,
            None => match self.prepare_wanted(shared, wanted).await? {
                Ok(prepared) => prepared,
                Err(reason) => return Ok(Err(reason)),
            },
        };
        let older = self.library.newer_than(prepared.manifest()).map_or("", |_| ", which is older than what ran here");
        let note =
            format!("takes it over from the database{older}; {}", signed_by(&prepared, "[plugins] allow_unsigned"));
        // As in an installation, the entry is written before the plugin is on disk.
        self.audit(&system(now), AuditOutcome::Allowed, prepared.reference(), note).await?;
        let library = self.library.clone();
        let committed = blocking(move || library.commit(prepared, installed_at)).await?;
        Ok(committed.map(drop).map_err(|error| error.to_string()))
    }

    /// Fetches a plugin, then checks, compiles and tests it; returns the reason if it is rejected.
    async fn prepare_wanted(
        &self,
        shared: &dyn Shared,
        wanted: (PluginName, RecordedPlugin),
    ) -> Result<Result<Prepared, String>, AppError> {
        let (name, RecordedPlugin { digest, signature, .. }) = wanted;
        let Some(bytes) = shared.plugin_file(*digest.as_bytes()).await? else {
            return Ok(Err(format!("its file {digest} is not in the store")));
        };
        let library = self.library.clone();
        blocking(move || {
            let found = Digest::of(&bytes);
            if found != digest {
                return Err(format!("its file in the store has the digest {found}; {digest} was installed"));
            }
            // An unsigned plugin that another server allowed is subject to that server's policy only. An older version
            // is the choice of an administrator.
            let prepared = library.prepare(PluginOffer { signature, downgrade: Downgrade::Allowed, ..bytes.into() });
            let prepared = prepared.map_err(|error| error.to_string())?;
            let found = &prepared.manifest().name;
            if *found == name { Ok(prepared) } else { Err(format!("its file is of the plugin `{found}`")) }
        })
        .await
    }

    /// Reads every pack again and activates the packs that are compatible.
    async fn reload(&self) -> Result<(), AppError> {
        let deployment = Arc::new(Deployment::of(self.registry.store.settings().await?));
        let (host, library, decided) = (self.host.clone(), self.library.clone(), deployment.clone());
        let (packs, mut reasons) = blocking(move || load_packs(&host, &library, &decided)).await?;
        reasons.extend(self.common().failed.clone());
        {
            let mut published = self.publisher.published();
            published.deployment = deployment;
            published.left_out.clear();
            published.unloaded = reasons;
        }
        self.publisher.publish_compatible(packs).await?;
        self.common().must_load = false;
        Ok(())
    }

    /// Stores the plugins installed here, for all processes, unless another process has stored a list already.
    async fn put_up(&self, shared: &dyn Shared) -> Result<(), AppError> {
        let plugins = self.library.for_all();
        for digest in plugins.digests() {
            let library = self.library.clone();
            match blocking(move || library.file_of(digest)).await? {
                Ok(bytes) => shared.put_plugin_file(*digest.as_bytes(), bytes).await?,
                Err(reason) => return Err(AppError::internal(format!("the file of an installed plugin: {reason}"))),
            }
        }
        self.replace_list(shared, 0, plugins).await
    }

    /// Announces to all processes a plugin that is about to be installed here.
    pub(super) async fn log_installed(&self, prepared: &Prepared, now: Timestamp) -> Result<(), AppError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        shared.put_plugin_file(*prepared.digest().as_bytes(), prepared.bytes().to_vec()).await?;
        let Common { stored, plugins, .. } = self.common().clone();
        self.replace_list(&**shared, stored.revision, plugins.with(prepared, now)).await
    }

    /// Announces to all processes that a plugin is about to be removed here.
    pub(super) async fn log_removed(&self, name: &PluginName) -> Result<(), AppError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let Common { stored, plugins, .. } = self.common().clone();
        self.replace_list(&**shared, stored.revision, plugins.without(name)).await
    }

    async fn replace_list(&self, shared: &dyn Shared, seen: u64, plugins: PluginList) -> Result<(), AppError> {
        let bytes = plugins.to_bytes().map_err(|error| AppError::Internal(error.into()))?;
        let named: Vec<[u8; 32]> = plugins.digests().iter().map(|digest| *digest.as_bytes()).collect();
        let revision = shared.replace_plugin_list(seen, &bytes, &named).await?;
        let mut common = self.common();
        common.stored = StoredList { revision, bytes };
        common.plugins = plugins;
        Ok(())
    }
}

impl PluginAdministration {
    /// Publishes the installed plugins, then installs the absent or newer ones from a folder. A corrupt plugin is
    /// logged with its name and the reason; the server starts without it.
    ///
    /// # Errors
    /// If the store fails or the folder cannot be read.
    pub async fn start(&self, folder: Option<PathBuf>, now: Timestamp) -> Result<(), AppError> {
        let _changing = self.publisher.exclusive().await;
        let _turn = match &self.shared {
            Some(shared) => {
                let turn = shared.turn().await?;
                self.unload_refused().await?;
                self.bring_in_line(&**shared, Ahead::new(), now).await?;
                Some(turn)
            }
            None => None,
        };
        if let Some(folder) = &folder {
            self.note_offered(folder).await?;
        }
        self.reload().await?;
        let Some(folder) = folder else { return Ok(()) };
        let report = self.sync(&folder, now).await?;
        log_sync_report(&report);
        if report.values().any(|file| matches!(file, SyncedFile::Installed(_))) {
            self.publisher.retry_excluded_packs().await?;
        }
        Ok(())
    }

    /// Records the declarations of modules of a folder that are not installed, so that errors can name a module that
    /// stays removed or is rejected. No module is run; a file that cannot be read is reported at its installation.
    async fn note_offered(&self, folder: &Path) -> Result<(), AppError> {
        let (library, folder) = (self.library.clone(), folder.to_owned());
        let manifests = blocking(move || library.offered(&folder)).await?;
        let modules = &mut self.publisher.published().modules;
        for manifest in manifests {
            let namespaces = manifest.extension_fields.iter().filter_map(|field| field.vocabulary.as_deref());
            let fields = manifest.extension_fields.iter().map(|field| field.path.as_str());
            modules.add(manifest.name.as_str(), namespaces, fields);
        }
        Ok(())
    }

    /// Unloads plugins that other servers of the register installed and that this server's policy no longer accepts.
    /// The list of all servers still contains them, and they are checked like new ones.
    async fn unload_refused(&self) -> Result<(), AppError> {
        let library = self.library.clone();
        for error in blocking(move || library.unload_refused()).await? {
            tracing::error!(error = %error, "an installed plugin is not accepted by the configuration and is not loaded");
        }
        Ok(())
    }

    /// Installs the absent or newer plugins of a folder. A plugin that is rejected for its content is retried once
    /// after the others: its concept groups may select codes of one of them.
    async fn sync(&self, folder: &Path, now: Timestamp) -> Result<SyncReport, AppError> {
        let ctx = OpContext::unbound(Actor::System, "start".into(), now, AuditContext::default());
        let folder = folder.to_owned();
        let paths = blocking(move || PluginLibrary::files_of(&folder)).await?;
        let mut report = SyncReport::new();
        let mut waiting = Vec::new();
        let mut has_installed = false;
        for path in paths.map_err(|error| AppError::Unavailable(error.into()))? {
            let prepared = match self.prepare_newer(&path).await? {
                Ok(prepared) => prepared,
                Err(instead) => {
                    report.insert(path, instead);
                    continue;
                }
            };
            let (outcome, refused) = self.install_file(&ctx, prepared).await?;
            has_installed |= matches!(outcome, SyncedFile::Installed(_));
            waiting.extend(refused.map(|prepared| (path.clone(), prepared)));
            report.insert(path, outcome);
        }
        // A rejected plugin may be compatible with the plugins installed after it.
        for (path, prepared) in waiting.into_iter().filter(|_| has_installed) {
            let outcome = if self.library.is_newer(prepared.manifest()) {
                self.install_file(&ctx, *prepared).await?.0
            } else {
                SyncedFile::UpToDate(prepared.manifest().name.clone())
            };
            report.insert(path, outcome);
        }
        // The rejected files: their code may have run.
        for (path, outcome) in &report {
            if let SyncedFile::Refused(error) = outcome {
                let note = format!("refused from the folder of plugins: {error}");
                self.audit(&ctx, AuditOutcome::Refused, file_name(path), note).await?;
            }
        }
        Ok(report)
    }

    /// Installs a plugin of the folder; returns it if another attempt may succeed.
    async fn install_file(
        &self,
        ctx: &OpContext,
        prepared: Prepared,
    ) -> Result<(SyncedFile, Option<Box<Prepared>>), AppError> {
        Ok(match self.install_prepared(ctx, prepared, "[plugins] allow_unsigned").await? {
            Ok(installed) => {
                // Logged immediately: the first start installs all plugins, which takes seconds.
                tracing::info!(plugin = %installed.manifest().name, "plugin installed");
                (SyncedFile::Installed(installed.manifest().name.clone()), None)
            }
            Err((error, prepared)) => (SyncedFile::Refused(error), prepared),
        })
    }

    async fn prepare_newer(&self, path: &Path) -> Result<Result<Prepared, SyncedFile>, AppError> {
        let (library, path) = (self.library.clone(), path.to_owned());
        blocking(move || {
            let offer = library.read_newer(&path)?;
            library.prepare(offer).map_err(SyncedFile::Refused)
        })
        .await
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Logs the outcome for a folder of plugins.
fn log_sync_report(report: &SyncReport) {
    for (path, outcome) in report {
        let file = file_name(path);
        match outcome {
            // Logged when it was installed.
            SyncedFile::Installed(_) => {}
            SyncedFile::UpToDate(name) => tracing::debug!(file, plugin = %name, "plugin is installed already"),
            SyncedFile::RemainsRemoved(name) => {
                tracing::info!(file, plugin = %name, "plugin was removed by hand and stays removed");
            }
            SyncedFile::Refused(error) => tracing::error!(file, error = %error, "plugin refused, the rest is served"),
        }
    }
}

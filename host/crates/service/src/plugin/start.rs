//! Plugins at the start of a server: those installed before, and those of the folder of plugins.
//!
//! A start has two phases. [`PluginAdministration::start`] activates the packs, whose codes records need. Then the
//! server listens, and [`PluginAdministration::finish_start`] compiles engines whose code is not
//! cached, which takes seconds.
//!
//! **Invariant:** a plugin file of the folder is installed like a plugin from a request: only if a vocabulary snapshot
//! could be built with it. If any step rejects it, the installed version keeps running.
//!
//! **Invariant:** an engine passes the same steps in both phases. A server that stops while it compiles an engine
//! installs nothing and rejects nothing: the next start begins again.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use jiff::Timestamp;

use super::follow::Ahead;
use super::{PluginAdministration, blocking};
use daftar_domain::audit::{Actor, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::error::AppError;
use daftar_sandbox::{PluginLibrary, Prepared, SyncReport, SyncedFile};

/// This server, as the actor.
fn system(now: Timestamp) -> OpContext {
    OpContext::unbound(Actor::System, "start".into(), now, AuditContext::default())
}

impl PluginAdministration {
    /// Publishes the installed plugins, then installs the absent or newer ones from a folder. A corrupt plugin is
    /// logged with its name and the reason; the server starts without it. Engines that must be compiled may be left to
    /// [`Self::finish_start`].
    ///
    /// # Errors
    /// If the store fails or the folder cannot be read.
    pub async fn start(&self, folder: Option<PathBuf>, now: Timestamp) -> Result<(), AppError> {
        let _changing = self.publisher.exclusive().await;
        let _turn = match &self.shared {
            Some(shared) => {
                let turn = shared.turn().await?;
                self.unload_refused().await?;
                self.common().is_starting = true;
                let applied = self.bring_in_line(&**shared, Ahead::new(), now).await;
                self.common().is_starting = false;
                applied?;
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

    /// Compiles, checks and activates the engines that [`Self::start`] left out; calls that need one are 503 until
    /// then. A rejected engine is logged, and audited if it comes from the folder. Does nothing if none was left out,
    /// and ends early after [`Self::stop_compiling`].
    ///
    /// # Errors
    /// If the store fails; the call may be repeated.
    pub async fn finish_start(&self, now: Timestamp) -> Result<(), AppError> {
        let engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if engines.is_empty() && self.compiling().is_empty() {
            return Ok(());
        }
        for name in self.compiling() {
            tracing::info!(plugin = %name, "engine is being compiled, the rest is served");
        }
        let library = self.library.clone();
        for error in blocking(move || library.load_pending()).await? {
            tracing::error!(error = %error, "an installed plugin cannot be loaded, the rest is served");
        }
        if self.shared.is_some() && self.pending_changes() > 0 {
            self.unload_refused().await?;
            self.apply_plugins(now).await?;
        }
        let mut report = SyncReport::new();
        for path in engines {
            if let Some(outcome) = self.install_engine(&path, now).await? {
                report.insert(path, outcome);
            }
        }
        if self.library.is_stopping() {
            return Ok(());
        }
        self.audit_refused(&system(now), &report).await?;
        log_sync_report(&report);
        self.engines.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.compiling().iter().for_each(|name| self.library.settle(name));
        // No installation caches code at the same time, or relies on code in the cache.
        let _requested = self.requested_change.lock().await;
        let _changing = self.publisher.exclusive().await;
        let library = self.library.clone();
        blocking(move || library.forget_unused_code()).await
    }

    /// Installs an engine of the folder. Other changes of plugins wait only while it is activated, and may have made it
    /// obsolete. Returns none if the server is stopping.
    async fn install_engine(&self, path: &Path, now: Timestamp) -> Result<Option<SyncedFile>, AppError> {
        let prepared = self.prepare_newer(path).await?;
        if self.library.is_stopping() {
            return Ok(None);
        }
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(instead) => return Ok(Some(instead)),
        };
        let _changing = self.publisher.exclusive().await;
        let _lock = self.publisher.cluster_lock(now).await?;
        if !self.library.is_newer(prepared.manifest()) {
            return Ok(Some(SyncedFile::UpToDate(prepared.manifest().name.clone())));
        }
        if let Err(error) = self.library.refuse_second_engine(prepared.manifest()) {
            return Ok(Some(SyncedFile::Refused(error)));
        }
        Ok(Some(self.install_file(&system(now), prepared).await?.0))
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
        let ctx = system(now);
        let folder = folder.to_owned();
        let paths = blocking(move || PluginLibrary::files_of(&folder)).await?;
        let mut report = SyncReport::new();
        let mut waiting = Vec::new();
        let mut has_installed = false;
        for path in paths.map_err(|error| AppError::Unavailable(error.into()))? {
            if self.is_left_for_later(&path).await? {
                self.engines.lock().unwrap_or_else(PoisonError::into_inner).push(path);
                continue;
            }
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
        self.audit_refused(&ctx, &report).await?;
        Ok(report)
    }

    /// Returns true if the file contains an engine that [`Self::finish_start`] compiles, and records its name.
    async fn is_left_for_later(&self, path: &Path) -> Result<bool, AppError> {
        let (library, path) = (self.library.clone(), path.to_owned());
        blocking(move || {
            let engine = library.engine_left_for_later(&path);
            engine.into_iter().map(|name| library.leave_for_later(name)).next().is_some()
        })
        .await
    }

    /// Audits the rejected files: their code may have run.
    async fn audit_refused(&self, ctx: &OpContext, report: &SyncReport) -> Result<(), AppError> {
        for (path, outcome) in report {
            if let SyncedFile::Refused(error) = outcome {
                let note = format!("refused from the folder of plugins: {error}");
                self.audit(ctx, AuditOutcome::Refused, file_name(path), note).await?;
            }
        }
        Ok(())
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

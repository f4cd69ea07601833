//! What is in force when the server starts: what is installed, then what a folder of plugins brings anew.
//!
//! **Invariant:** a file of the folder is installed as by hand: only when a generation could be made with it. Whatever refuses
//! it, the installed version serves on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::follow::Ahead;
use super::packs::load_packs;
use super::{PluginAdministration, blocking};
use daftar_domain::audit::{Actor, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::context::trail::Trail;
use daftar_domain::deployment::Deployment;
use daftar_domain::error::AppError;
use daftar_sandbox::{PluginLibrary, Prepared, SyncReport, SyncedFile};

/// What allows a plugin of the folder that nobody vouches for.
const ALLOWED_BY: &str = "[plugins] allow_unsigned";

impl PluginAdministration {
    /// Publishes what is installed, then installs what is absent or newer from a folder. A plugin that is not sound is logged
    /// with its name and the reason, and the rest is served.
    ///
    /// # Errors
    /// When the store fails or the folder cannot be read.
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
        let (host, library) = (self.host.clone(), self.library.clone());
        let deployment = Arc::new(Deployment::of(self.registry.store.settings().await?));
        self.publisher.published().deployment = deployment.clone();
        let (loaded, reasons) = blocking(move || load_packs(&host, &library, &deployment)).await?;
        {
            let failed = self.common().failed();
            let mut published = self.publisher.published();
            published.unloaded = reasons;
            published.unloaded.extend(failed);
        }
        self.publisher.publish_compatible(loaded).await?;
        self.common().note_loaded();
        let Some(folder) = folder else { return Ok(()) };
        let report = self.sync(&folder, now).await?;
        tell(&report);
        if report.values().any(|file| matches!(file, SyncedFile::Installed(_))) {
            self.publisher.retry_excluded_packs().await?;
        }
        Ok(())
    }

    /// Notes what modules of a folder declare that are not installed, so that errors can name one that stays removed or is refused. Nothing of
    /// them is run; a file that cannot be read is told of when it is to be installed.
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

    /// Unloads what other servers of the register brought here and this server's policy does not accept any more; the list of all servers
    /// names it still, and it is judged as something new.
    async fn unload_refused(&self) -> Result<(), AppError> {
        let library = self.library.clone();
        for error in blocking(move || library.unload_refused()).await? {
            tracing::error!(error = %error, "an installed plugin is not accepted by the configuration and is not loaded");
        }
        Ok(())
    }

    /// Installs what is absent or newer in a folder. What is refused for what it brings is tried once more after the others:
    /// its concept groups may select codes of one of them.
    async fn sync(&self, folder: &Path, now: Timestamp) -> Result<SyncReport, AppError> {
        let ctx = OpContext::unbound(Actor::System, "start".into(), now, Trail::default());
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
            let outcome = match self.install_prepared(&ctx, prepared, ALLOWED_BY).await? {
                Ok(installed) => SyncedFile::Installed(installed.manifest().name.clone()),
                Err((error, prepared)) => {
                    waiting.extend(prepared.map(|prepared| (path.clone(), prepared)));
                    SyncedFile::Refused(error)
                }
            };
            has_installed |= matches!(outcome, SyncedFile::Installed(_));
            report.insert(path, outcome);
        }
        if !has_installed {
            self.audit_refused(&ctx, &report).await?;
            return Ok(report);
        }
        for (path, prepared) in waiting {
            let name = prepared.manifest().name.clone();
            let outcome = if self.library.is_newer(prepared.manifest()) {
                match self.install_prepared(&ctx, *prepared, ALLOWED_BY).await? {
                    Ok(installed) => SyncedFile::Installed(installed.manifest().name.clone()),
                    Err((error, _)) => SyncedFile::Refused(error),
                }
            } else {
                SyncedFile::Kept(name)
            };
            report.insert(path, outcome);
        }
        self.audit_refused(&ctx, &report).await?;
        Ok(report)
    }

    /// Writes down which files of the folder were refused: their code may have run.
    async fn audit_refused(&self, ctx: &OpContext, report: &SyncReport) -> Result<(), AppError> {
        for (path, outcome) in report {
            if let SyncedFile::Refused(error) = outcome {
                let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let note = format!("refused from the folder of plugins: {error}");
                self.audit(ctx, AuditOutcome::Refused, file, note).await?;
            }
        }
        Ok(())
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

/// Logs what became of a folder of plugins.
fn tell(report: &SyncReport) {
    for (path, outcome) in report {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match outcome {
            SyncedFile::Installed(name) => tracing::info!(file, plugin = %name, "plugin installed"),
            SyncedFile::Kept(name) => tracing::debug!(file, plugin = %name, "plugin is installed already"),
            SyncedFile::RemainsRemoved(name) => {
                tracing::info!(file, plugin = %name, "plugin was removed by hand and stays removed");
            }
            SyncedFile::Refused(error) => tracing::error!(file, error = %error, "plugin refused, the rest is served"),
        }
    }
}

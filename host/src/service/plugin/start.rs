//! What is in force when the server starts: what is installed, then what a folder of plugins brings anew.
//!
//! **Invariant:** a file of the folder is installed as by hand: only when a generation could be made with it. Whatever refuses
//! it, the installed version serves on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::packs::{Packs, load_packs, publishable};
use super::{PluginAdministration, blocking};
use crate::domain::deployment::Deployment;
use crate::error::AppError;
use crate::plugin::{PluginLibrary, Prepared, SyncReport, SyncedFile};

impl PluginAdministration {
    /// Publishes what is installed, then installs what is absent or newer from a folder. A plugin that is not sound is logged
    /// with its name and the reason, and the rest is served.
    ///
    /// # Errors
    /// When the store fails or the folder cannot be read.
    pub async fn start(&self, folder: Option<PathBuf>, now: Timestamp) -> Result<(), AppError> {
        let _changing = self.changing.lock().await;
        let (host, library) = (self.host.clone(), self.library.clone());
        let deployment = Arc::new(Deployment::of(self.registry.store.settings().await?));
        self.in_force().deployment = deployment.clone();
        let (loaded, reasons) = blocking(move || load_packs(&host, &library, &deployment)).await?;
        self.in_force().unloaded = reasons;
        let left_out = self.serve(loaded).await?;
        let Some(folder) = folder else { return Ok(()) };
        let report = self.sync(&folder, now).await?;
        tell(&report);
        let has_installed = report.values().any(|file| matches!(file, SyncedFile::Installed(_)));
        if has_installed && !left_out.is_empty() {
            self.try_again(left_out).await?;
        }
        Ok(())
    }

    /// Puts as many of the packs in force as go together, and gives back the others.
    async fn serve(&self, packs: Packs) -> Result<Packs, AppError> {
        let deployment = self.in_force().deployment.clone();
        let table = self.number(&packs, &deployment).await?;
        let served = publishable(packs, &deployment, &table)?;
        let mut in_force = self.in_force();
        for (name, reason) in &served.reasons {
            tracing::error!(plugin = %name, reason, "an installed pack cannot be published, the rest is served");
        }
        in_force.unloaded.retain(|name, _| !served.packs.contains_key(name));
        in_force.unloaded.extend(served.reasons);
        in_force.packs = served.packs;
        self.registry.vocabularies.publish(served.generation);
        Ok(served.left_out)
    }

    /// Tries packs that were left out once more, unless they were replaced meanwhile.
    async fn try_again(&self, mut left_out: Packs) -> Result<(), AppError> {
        let current = self.library.current();
        left_out.retain(|name, (origin, _)| {
            current.get(name).is_some_and(|installed| installed.loaded().digest().to_string() == origin.digest)
        });
        if left_out.is_empty() {
            return Ok(());
        }
        let mut packs = self.in_force().packs.clone();
        packs.extend(left_out);
        self.serve(packs).await.map(drop)
    }

    /// Installs what is absent or newer in a folder. What is refused for what it brings is tried once more after the others:
    /// its concept groups may select codes of one of them.
    async fn sync(&self, folder: &Path, now: Timestamp) -> Result<SyncReport, AppError> {
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
            let outcome = match self.install_prepared(prepared, now).await? {
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
            return Ok(report);
        }
        for (path, prepared) in waiting {
            let name = prepared.manifest().name.clone();
            let outcome = if self.library.is_newer(prepared.manifest()) {
                match self.install_prepared(*prepared, now).await? {
                    Ok(_) => SyncedFile::Installed(name),
                    Err((error, _)) => SyncedFile::Refused(error),
                }
            } else {
                SyncedFile::Kept(name)
            };
            report.insert(path, outcome);
        }
        Ok(report)
    }

    async fn prepare_newer(&self, path: &Path) -> Result<Result<Prepared, SyncedFile>, AppError> {
        let (library, path) = (self.library.clone(), path.to_owned());
        blocking(move || {
            let bytes = library.read_newer(&path)?;
            library.prepare(bytes).map_err(SyncedFile::Refused)
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

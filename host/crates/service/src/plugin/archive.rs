//! The installed plugins, as a backup takes them.

use super::{PluginAdministration, blocking};
use daftar_domain::error::AppError;
use daftar_sandbox::ArchivedPlugins;

impl PluginAdministration {
    /// The files of what is installed, and what `fix` fixes, at one moment: no plugin is installed or removed in between, so that
    /// the codes of one fit to the other. Waits for a change of plugins that is going on.
    ///
    /// # Errors
    /// When the files cannot be opened, and those of `fix`.
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
}

//! Looking through a folder of plugins, such as the one beside the binary, for what is to be installed from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::folder::read_file;
use super::{PluginLibrary, PluginOffer};
use crate::files::FolderError;
use crate::install::{InstallError, InstallStep};
use crate::package::manifest_of;
use crate::signature::read_signature_of;
use daftar_domain::manifest::{PluginManifest, PluginName};

/// What became of one file of a folder of plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncedFile {
    /// It was absent or newer, and is installed now.
    Installed(PluginName),
    /// The same or a newer version is installed already.
    Kept(PluginName),
    /// It was removed by hand and stays removed.
    RemainsRemoved(PluginName),
    /// It was refused.
    Refused(InstallError),
}

/// What became of the files of a folder of plugins, by path.
pub type SyncReport = BTreeMap<PathBuf, SyncedFile>;

impl PluginLibrary {
    /// The files of a folder that may be plugins, in the order of their names.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>, FolderError> {
        let failed = |error| FolderError::new(folder, error);
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "wasm") {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    /// The manifests of the files of a folder, as far as they can be read, but of files that are called as plugins that are loaded.
    #[must_use]
    pub fn offered(&self, folder: &Path) -> Vec<PluginManifest> {
        let loaded = self.current();
        let is_loaded = |path: &PathBuf| {
            let name = path.file_stem().and_then(|stem| PluginName::parse(stem.to_str()?).ok());
            name.is_some_and(|name| loaded.get(&name).is_some())
        };
        let paths = Self::files_of(folder).unwrap_or_default().into_iter().filter(|path| !is_loaded(path));
        paths.filter_map(|path| manifest_of(&read_file(&path).ok()?).ok()).collect()
    }

    /// A file with the signature beside it, if its plugin is absent or newer than the installed one. One that was removed by
    /// hand stays removed.
    ///
    /// # Errors
    /// What became of the file instead.
    pub fn read_newer(&self, path: &Path) -> Result<PluginOffer, SyncedFile> {
        let bytes = read_file(path).map_err(SyncedFile::Refused)?;
        let manifest = manifest_of(&bytes).map_err(SyncedFile::Refused)?;
        if self.lock().removed.contains(&manifest.name) {
            return Err(SyncedFile::RemainsRemoved(manifest.name));
        }
        if !self.is_newer(&manifest) {
            return Err(SyncedFile::Kept(manifest.name));
        }
        let signature = read_signature_of(path)
            .map_err(|error| SyncedFile::Refused(InstallError::of(&manifest.name, InstallStep::Signature, error)))?;
        Ok(PluginOffer { signature, ..PluginOffer::from(bytes) })
    }

    /// Whether a plugin is absent or newer than the installed one. What is installed and could not be loaded is replaced by the same
    /// version too, and never by an older one.
    #[must_use]
    pub fn is_newer(&self, manifest: &PluginManifest) -> bool {
        let is_loaded = self.current().get(&manifest.name).is_some();
        self.recorded(&manifest.name).is_none_or(|installed| {
            installed.version < manifest.version || (!is_loaded && installed.version == manifest.version)
        })
    }
}

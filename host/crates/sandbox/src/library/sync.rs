//! Synchronisation with other sources: a folder of plugins, such as the one beside the binary, and the list of
//! installed plugins that several servers share.
//!
//! **Invariant:** a plugin is applied only if this server's own policy accepts it: the shared list says which plugins
//! are active, not that they are trusted. Every client of the database with write access can change it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::records::{PluginList, RecordedPlugin, read_file};
use super::{PluginLibrary, PluginOffer};
use crate::files::FolderError;
use crate::install::{InstallError, InstallStep};
use crate::package::{Digest, manifest_of};
use crate::signature::read_signature_of;
use daftar_domain::manifest::{PluginManifest, PluginName};

/// The outcome of one file of a folder of plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncedFile {
    /// It was absent or newer, and is now installed.
    Installed(PluginName),
    /// The same or a newer version is installed already.
    UpToDate(PluginName),
    /// It was removed by hand and stays removed.
    RemainsRemoved(PluginName),
    /// It was rejected.
    Refused(InstallError),
}

/// The outcomes of the files of a folder of plugins, by path.
pub type SyncReport = BTreeMap<PathBuf, SyncedFile>;

impl PluginLibrary {
    /// Lists the `.wasm` files of a folder, sorted by name.
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

    /// The readable manifests of the files of a folder, without files named like a loaded plugin.
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

    /// Reads a file and its signature if its plugin is absent or newer than the installed one. A plugin that was
    /// removed by hand stays removed.
    ///
    /// # Errors
    /// The outcome of the file, if it is not to be installed.
    pub fn read_newer(&self, path: &Path) -> Result<PluginOffer, SyncedFile> {
        let bytes = read_file(path).map_err(SyncedFile::Refused)?;
        let manifest = manifest_of(&bytes).map_err(SyncedFile::Refused)?;
        if self.lock().removed.contains(&manifest.name) {
            return Err(SyncedFile::RemainsRemoved(manifest.name));
        }
        if !self.is_newer(&manifest) {
            return Err(SyncedFile::UpToDate(manifest.name));
        }
        let signature = read_signature_of(path)
            .map_err(|error| SyncedFile::Refused(InstallError::of(&manifest.name, InstallStep::Signature, error)))?;
        Ok(PluginOffer { signature, ..PluginOffer::from(bytes) })
    }

    /// Returns true if a plugin is absent or newer than the installed one. An installed plugin that could not be loaded
    /// is also replaced by the same version, and never by an older one.
    #[must_use]
    pub fn is_newer(&self, manifest: &PluginManifest) -> bool {
        let is_loaded = self.current().get(&manifest.name).is_some();
        self.recorded(&manifest.name).is_none_or(|installed| {
            installed.version < manifest.version || (!is_loaded && installed.version == manifest.version)
        })
    }
}

impl PluginLibrary {
    /// The installed plugins of this server, to be shared.
    #[must_use]
    pub fn for_all(&self) -> PluginList {
        self.lock().clone()
    }

    /// The file of a plugin that is installed here.
    ///
    /// # Errors
    /// It cannot be read, or is too large.
    pub fn file_of(&self, digest: Digest) -> Result<Vec<u8>, String> {
        read_file(&self.path_of(digest)).map_err(|error| error.to_string())
    }

    /// The plugins of the shared list that are not loaded here.
    #[must_use]
    pub fn wanted(&self, common: &PluginList) -> Vec<(PluginName, RecordedPlugin)> {
        let current = self.current();
        let is_here = |name: &PluginName, record: &RecordedPlugin| {
            current.get(name).is_some_and(|installed| installed.loaded().digest() == record.digest)
        };
        let installed = common.installed.clone().into_iter();
        installed.filter(|(name, record)| !is_here(name, record)).collect()
    }

    /// The plugins installed here that the shared list does not contain.
    #[must_use]
    pub fn unwanted(&self, common: &PluginList) -> Vec<PluginName> {
        let here = self.lock().installed.keys().cloned().collect::<Vec<_>>();
        here.into_iter().filter(|name| !common.installed.contains_key(name)).collect()
    }

    /// Records the plugins that were removed by hand on any server.
    ///
    /// # Errors
    /// The disk failed.
    pub fn apply_removed(&self, common: &PluginList) -> io::Result<()> {
        let mut records = self.lock();
        if records.removed == common.removed {
            return Ok(());
        }
        let changed = PluginList { removed: common.removed.clone(), ..records.clone() };
        self.replace_list(&mut records, changed)
    }
}

//! What is to be installed here from elsewhere: from a folder of plugins, such as the one beside the binary, and from the list of
//! installed plugins that several processes share.
//!
//! **Invariant:** what is taken up was judged here, by this server's policy alone: a list says which plugins count, not that they may run
//! nor who vouches for them. Whoever can write to the database can write it.

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

impl PluginLibrary {
    /// What is installed here, for all processes.
    #[must_use]
    pub fn for_all(&self) -> PluginList {
        self.lock().clone()
    }

    /// The file of a plugin that is installed here.
    ///
    /// # Errors
    /// When it cannot be read, or is too large.
    pub fn file_of(&self, digest: Digest) -> Result<Vec<u8>, String> {
        read_file(&self.path_of(digest)).map_err(|error| error.to_string())
    }

    /// What is installed for all and not loaded here.
    #[must_use]
    pub fn wanted(&self, common: &PluginList) -> Vec<(PluginName, RecordedPlugin)> {
        let current = self.current();
        let is_here = |name: &PluginName, record: &RecordedPlugin| {
            current.get(name).is_some_and(|installed| installed.loaded().digest() == record.digest)
        };
        let installed = common.installed.clone().into_iter();
        installed.filter(|(name, record)| !is_here(name, record)).collect()
    }

    /// What is installed here and not for all.
    #[must_use]
    pub fn unwanted(&self, common: &PluginList) -> Vec<PluginName> {
        let here = self.lock().installed.keys().cloned().collect::<Vec<_>>();
        here.into_iter().filter(|name| !common.installed.contains_key(name)).collect()
    }

    /// Remembers which plugins were removed by hand, whichever process it was.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn apply_removed(&self, common: &PluginList) -> io::Result<()> {
        let mut records = self.lock();
        if records.removed == common.removed {
            return Ok(());
        }
        let changed = PluginList { removed: common.removed.clone(), ..records.clone() };
        self.replace_list(&mut records, changed)
    }
}
